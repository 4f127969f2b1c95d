/** The package over the real library, with real processes as servers. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { NeedsInputError, ReplyError, Runtime } from '../index.js'
import { RAW_RESULT, RAW_SCHEMA } from './server.js'

const SERVER = fileURLToPath(new URL('./server.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'mcprt-node-'))
after(() => rmSync(folder, { recursive: true }))

/** @param {Record<string, string>} [env] @returns {import('../index.js').ServerConfig} */
function server(env) {
  return { command: process.execPath, args: [SERVER], env }
}

/**
 * @param {import('node:test').TestContext} t
 * @param {import('../index.js').RuntimeOptions} options
 */
async function open(t, options) {
  const runtime = await Runtime.open({
    cwd: mkdtempSync(join(folder, 'project-')),
    discovery: { user: 'none' },
    cache: { enabled: false },
    ...options,
  })
  t.after(() => runtime.close({ graceMs: 0 }))
  return runtime
}

/** Waits for what another process does. @param {() => unknown} condition @param {string} what */
async function until(condition, what) {
  for (const end = Date.now() + 5000; !(await condition()); await sleep(10)) {
    assert.ok(Date.now() < end, `not within 5 s: ${what}`)
  }
}

/** @param {number | null | undefined} pid */
function isAlive(pid) {
  assert.equal(typeof pid, 'number')
  try {
    process.kill(/** @type {number} */ (pid), 0)
    return true
  } catch {
    return false
  }
}

/** @param {Runtime} runtime @param {string} [name] */
async function pid(runtime, name = 'x') {
  return (await runtime.servers()).find((view) => view.name === name)?.pid
}

test('results and tools keep the bytes of the server', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  const report = await runtime.connect({ startupTimeoutMs: 0 })
  assert.deepEqual(report.errors, {})
  const tool = report.tools.find(({ name }) => name === 'mcp_x_raw')
  assert.ok(tool?.raw.includes(`"inputSchema":${RAW_SCHEMA}`), tool?.raw.toString())
  assert.equal(tool.server, 'x')
  assert.equal(tool.tool, 'raw')
  const result = await runtime.call('mcp_x_raw')
  assert.equal(result.raw.toString(), RAW_RESULT)
  assert.equal(result.text, 'é')
  const bytes = 10 << 20
  const big = await runtime.call('big', { bytes }, { server: 'x' })
  assert.equal(big.raw.toString(), `{"content":[{"type":"text","text":"${'x'.repeat(bytes)}"}]}`)
})

test('stats count calls and their errors', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect({ startupTimeoutMs: 0 })
  for (let i = 0; i < 3; i++) await runtime.call('raw', {}, { server: 'x' })
  await assert.rejects(runtime.call('none', {}, { server: 'x' }))
  const [x] = (await runtime.stats()).servers
  assert.equal(x.name, 'x')
  assert.equal(x.calls, 4)
  assert.deepEqual(x.errors, { tool_gone: 1 })
  assert.equal(x.latency.count, 3)
  assert.ok(x.bytesIn > 3 * RAW_RESULT.length && x.bytesOut > 0 && x.latency.p50Ms > 0 && x.latency.p50Ms <= x.latency.maxMs)
})

test('the trace context of a call reaches the server', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect({ startupTimeoutMs: 0 })
  const meta = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a=1', baggage: 'b=2' }
  const { progressToken, ...rest } = JSON.parse((await runtime.call('meta', {}, { server: 'x', meta })).text)
  assert.deepEqual(rest, meta)
  assert.ok(progressToken)
})

test('each broken server has its own error, and the good one its tools', async (t) => {
  const runtime = await open(t, {
    uncached: 'background',
    servers: {
      good: server(),
      missing: { command: join(folder, 'no-such-program') },
      exits: server({ MCP_TEST_EXIT: '1' }),
      hangs: server({ MCP_TEST_SILENT: '1' }),
    },
  })
  const { errors } = await runtime.connect({ only: ['good', 'missing', 'exits'], startupTimeoutMs: 0 })
  assert.deepEqual(Object.keys(errors).sort(), ['exits', 'missing'])
  assert.equal(errors.missing.code, 'spawn_failed')
  assert.equal(errors.missing.server, 'missing')
  assert.equal(errors.exits.code, 'exited')
  assert.equal(errors.exits.data?.exitCode, 3)
  assert.match(errors.exits.data?.stderr ?? '', /this server needs a config/)
  assert.equal(errors.exits.data?.command, process.execPath)
  await assert.rejects(runtime.call('x', {}, { server: 'missing' }), { server: 'missing' })
  const started = Date.now()
  const report = await runtime.connect({ only: ['hangs'], startupTimeoutMs: 250 })
  assert.ok(Date.now() - started < 1500)
  assert.ok(report.pending.includes('hangs'))
  assert.deepEqual(new Set(report.tools.map((tool) => tool.server)), new Set(['good']))
  assert.equal((await runtime.call('mcp_good_raw')).raw.toString(), RAW_RESULT)
})

test('an aborted call is cancelled at the server', async (t) => {
  const record = join(folder, 'cancelled')
  const runtime = await open(t, { servers: { x: server({ MCP_TEST_RECORD: record }) } })
  await runtime.connect({ startupTimeoutMs: 0 })
  const abort = new AbortController()
  const calls = Array.from({ length: 5 }, () => runtime.call('mcp_x_hang', {}, { signal: abort.signal }))
  calls.push(runtime.call('mcp_x_hang', {}, { timeoutMs: 50 }))
  const settled = Promise.allSettled(calls)
  await assert.rejects(calls[5], { name: 'TimeoutError', code: 'timeout', server: 'x' })
  abort.abort()
  for (const { reason } of /** @type {PromiseRejectedResult[]} */ ((await settled).slice(0, 5))) assert.equal(reason.name, 'AbortError')
  await until(() => existsSync(record) && readFileSync(record, 'utf8') === 'cancelled\n'.repeat(6), '6 cancellations')
  assert.equal((await runtime.call('mcp_x_raw')).raw.toString(), RAW_RESULT)
})

test('progress and elicitation', async (t) => {
  const runtime = await open(t, {
    servers: { x: server() },
    onRequest: {
      elicitation: ({ message }, { server: name }) => ({ action: 'accept', content: { name: `${name}: ${message}` } }),
    },
  })
  await runtime.connect({ startupTimeoutMs: 0 })
  /** @type {number[]} */
  const steps = []
  await runtime.call('mcp_x_steps', {}, {
    onProgress({ progress }) {
      steps.push(progress)
      if (progress === 3) void runtime.call('mcp_x_release')
    },
  })
  assert.deepEqual(steps, [1, 2, 3])
  assert.deepEqual((await runtime.call('mcp_x_ask')).json.answer, { action: 'accept', content: { name: 'x: Your name?' } })
})

test('a value that only a person has', async (t) => {
  /** @type {unknown[]} */
  const asked = []
  const runtime = await open(t, {
    servers: { x: server({ TOKEN: '${input:tok}' }) },
    onRequest: {
      input: (params, { server: name }) => {
        asked.push([name, params])
        return { value: 'from a person' }
      },
    },
  })
  const report = await runtime.connect({ startupTimeoutMs: 0 })
  const inputs = [{ id: 'tok', description: '', password: true }]
  assert.deepEqual([report.needsInput, asked], [[{ server: 'x', inputs }], []])
  assert.equal((await runtime.call('env', { name: 'TOKEN' }, { server: 'x' })).text, 'from a person')
  assert.deepEqual(asked, [['x', inputs[0]]])

  const shy = await open(t, {
    servers: { x: server({ TOKEN: '${input:tok}' }) },
    onRequest: { input: () => { throw new ReplyError('not today') } },
  })
  await shy.connect({ startupTimeoutMs: 0 })
  await assert.rejects(shy.call('env', { name: 'TOKEN' }, { server: 'x' }), (/** @type {any} */ e) => e instanceof NeedsInputError && /not today/.test(e.message))
})

test('a server that dies in a call fails it, and the next call works', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect({ startupTimeoutMs: 0 })
  const first = await pid(runtime)
  const started = Date.now()
  await assert.rejects(runtime.call('mcp_x_die'), (error) => {
    assert.equal(error.code, 'outcome_unknown')
    assert.equal(error.data.exitCode, 5)
    assert.match(error.data.stderr, /dies on purpose/)
    assert.equal(error.result.isError, true)
    return true
  })
  assert.ok(Date.now() - started < 1000)
  assert.equal((await runtime.call('mcp_x_raw')).raw.toString(), RAW_RESULT)
  assert.notEqual(await pid(runtime), first)
})

test('1,000 calls in flight, the first 200 before the server is ready', async (t) => {
  const runtime = await open(t, { servers: { x: server({ MCP_TEST_DELAY: '100' }) }, cache: { dir: join(folder, 'cache-flight') } })
  await runtime.connect({ startupTimeoutMs: 0 })
  await runtime.disconnect()
  const report = await runtime.connect({ gate: 'eager' })
  assert.deepEqual(report.deferred, ['x'])
  assert.ok(report.tools.every((tool) => tool.deferred))
  const early = Array.from({ length: 200 }, () => runtime.call('mcp_x_raw'))
  const calls = [...early, ...Array.from({ length: 800 }, (_, i) => runtime.call('mcp_x_env', { name: `unset_${i}` }))]
  const results = await Promise.all(calls)
  assert.ok(results.slice(0, 200).every((result) => result.raw.toString() === RAW_RESULT))
  assert.ok(results.slice(200).every((result) => result.text === 'unset'))
})

test('disconnect ends the process, connect starts a new one, close ends that', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect({ startupTimeoutMs: 0 })
  const first = await pid(runtime)
  assert.ok(isAlive(first))
  assert.deepEqual((await runtime.disconnect('x')).disconnected, ['x'])
  await until(() => !isAlive(first), 'the end of the first process')
  assert.deepEqual(await runtime.tools(), [])
  await runtime.connect({ startupTimeoutMs: 0 })
  const second = await pid(runtime)
  assert.ok(isAlive(second))
  await runtime.close()
  await until(() => !isAlive(second), 'the end of the second process')
})

test('a project file: discovery, trust, and a reload that keeps what did not change', async (t) => {
  const project = mkdtempSync(join(folder, 'project-'))
  const write = (/** @type {object} */ mcpServers) => writeFileSync(join(project, '.mcp.json'), JSON.stringify({ mcpServers }))
  const { command, args } = server()
  write({ kept: { command, args }, gone: { command, args, env: { A: '1' } } })
  const env = { ...process.env, XDG_CONFIG_HOME: join(project, 'config'), XDG_STATE_HOME: join(project, 'state'), XDG_DATA_HOME: join(project, 'data'), HOME: project }
  const runtime = await open(t, { cwd: project, env })
  const found = await runtime.discover()
  assert.deepEqual(found.servers.map(({ name }) => name).sort(), ['gone', 'kept'])
  assert.equal(found.servers[0].source.path, join(project, '.mcp.json'))
  const untrusted = await runtime.connect({ startupTimeoutMs: 0 })
  assert.deepEqual(untrusted.needsTrust.map(({ name }) => name).sort(), ['gone', 'kept'])
  assert.deepEqual(untrusted.tools, [])
  const trust = Object.fromEntries(found.servers.map(({ name, hash }) => [name, hash]))
  const report = await runtime.connect({ startupTimeoutMs: 0, trust })
  assert.deepEqual([...report.connected].sort(), ['gone', 'kept'])
  const before = await pid(runtime, 'kept')
  write({ kept: { command, args } })
  const { changes } = await runtime.reload({ mode: 'diff' })
  assert.deepEqual([changes.removed, changes.kept, changes.added, changes.changed], [['gone'], ['kept'], [], []])
  assert.equal(await pid(runtime, 'kept'), before)
  write({ kept: { command, args }, late: { command, args, env: { A: '2' } } })
  const { servers } = await runtime.discover()
  await runtime.connect({ only: [], trust: Object.fromEntries(servers.map(({ name, hash }) => [name, hash])) })
  const waited = await runtime.reload({ mode: 'full', uncached: 'background', gate: 'timer', startupTimeoutMs: 0 })
  assert.deepEqual([...waited.connected].sort(), ['kept', 'late'])
})

test('servers get the environment as it is when the runtime opens', async (t) => {
  process.env.MCPRT_NODE_TEST = 'set after the start'
  t.after(() => delete process.env.MCPRT_NODE_TEST)
  const runtime = await open(t, { servers: { x: server({ EXPANDED: '${MCPRT_NODE_TEST}!' }) } })
  await runtime.connect({ startupTimeoutMs: 0 })
  assert.equal((await runtime.call('mcp_x_env', { name: 'MCPRT_NODE_TEST' })).text, 'set after the start')
  assert.equal((await runtime.call('mcp_x_env', { name: 'EXPANDED' })).text, 'set after the start!')
})

test('mistakes are told by class', async (t) => {
  await assert.rejects(open(t, /** @type {any} */ ({ startupTimeout: 5 })), { name: 'InvalidRequestError', message: /startupTimeout/ })
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect({ startupTimeoutMs: 0 })
  await assert.rejects(runtime.call('mcp_x_nothing'), { name: 'UnknownToolError', code: 'unknown_tool' })
  await assert.rejects(runtime.call('raw', {}, { server: 'y' }), { name: 'UnknownServerError', code: 'unknown_server' })
  await assert.rejects(runtime.request('x', 'no/such/method'), { name: 'RPCError', code: 'rpc_error' })
  await assert.rejects(runtime.request('x', 'tools/call', { name: 'raw' }), { name: 'InvalidRequestError' })
})

test('the servers of a worker that forgot to close end with the worker', async () => {
  const options = { cwd: folder, discovery: { project: false, user: 'none' }, cache: { enabled: false }, servers: { x: server() } }
  const worker = new Worker(
    `import(${JSON.stringify(new URL('../index.js', import.meta.url).href)}).then(async ({ Runtime }) => {
      const runtime = await Runtime.open(${JSON.stringify(options)})
      await runtime.connect({ startupTimeoutMs: 0 })
      require('node:worker_threads').parentPort.postMessage((await runtime.servers())[0].pid)
    })`,
    { eval: true },
  )
  const [[started], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
  assert.equal(code, 0)
  await until(() => !isAlive(started), 'the end of the server')
})

const noGo = process.env.MCPRT_BACKEND === 'serve' && 'Go is in a process of its own here'
test('signals that reach a thread of Go do no harm, whenever their handlers were set', { skip: noGo }, async () => {
  // Otherwise a handler overwrites other goroutines' stacks: this then crashes in every run.
  const source = `
    import { execFile } from 'node:child_process'
    import { readdirSync } from 'node:fs'
    import koffi from ${JSON.stringify(import.meta.resolve('koffi'))}
    import { Runtime } from ${JSON.stringify(new URL('../index.js', import.meta.url).href)}
    const libc = koffi.load('libc.so.6')
    const tgkill = libc.func('int tgkill(int pid, int tid, int signal)')
    const threads = () => readdirSync('/proc/self/task').map(Number)
    const others = new Set(threads())
    const runtime = await Runtime.open(${JSON.stringify({ cwd: folder, discovery: { project: false, user: 'none' }, cache: { enabled: false }, servers: { x: server() } })})
    const child = new Promise((resolve) => execFile('true', resolve))
    await runtime.connect({ startupTimeoutMs: 0 })
    await child
    const ofGo = threads().filter((thread) => !others.has(thread))
    process.on('SIGWINCH', () => {})
    const end = Date.now() + 30
    while (Date.now() < end) await runtime.list()
    const flood = setInterval(() => {
      for (let i = 0; i < 100; i++) for (const thread of ofGo) tgkill(process.pid, thread, i % 2 ? 17 : 28)
    }, 1)
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 200 }, () => runtime.call('mcp_x_env', { name: 'none' })))
    }
    clearInterval(flood)
    await runtime.close()
    console.log(ofGo.length > 2)`
  const output = await new Promise((resolve) => {
    const options = { timeout: 60_000, killSignal: /** @type {const} */ ('SIGKILL') }
    execFile(process.execPath, ['--input-type=module', '--eval', source], options, (error, stdout, stderr) => resolve(stdout + stderr.slice(0, 500) + (error?.code ?? '')))
  })
  assert.equal(output, 'true\n')
})

for (const [how, end] of [['ends without close', ''], ['is killed', 'process.kill(process.pid, "SIGKILL")']]) {
  test(`no server outlives a program that ${how}`, async () => {
    const source = `
      import { Runtime } from ${JSON.stringify(new URL('../index.js', import.meta.url).href)}
      const runtime = await Runtime.open(${JSON.stringify({ cwd: folder, discovery: { project: false, user: 'none' }, cache: { enabled: false }, servers: { x: server() } })})
      await runtime.connect({ startupTimeoutMs: 0 })
      console.log((await runtime.servers())[0].pid)
      ${end}`
    const output = await new Promise((resolve) => {
      const options = { timeout: 20_000, killSignal: /** @type {const} */ ('SIGKILL') }
      execFile(process.execPath, ['--input-type=module', '--eval', source], options, (_, stdout) => resolve(stdout))
    })
    await until(() => !isAlive(Number(output)), 'the end of the server')
  })
}

test('tools and results in the shapes of providers', async (t) => {
  const runtime = await open(t, { servers: { x: server() } })
  await runtime.connect()
  const listing = await runtime.list({ format: 'openai', names: ['mcp_x_raw'] })
  assert.equal(listing.tools[0].function.name, 'mcp_x_raw')
  assert.deepEqual(listing.names, {})
  assert.ok(listing.raw.toString().includes(RAW_SCHEMA))
  const [tool] = await runtime.tools({ format: 'gemini', names: ['mcp_x_raw'] })
  assert.equal(tool.parameters.type, 'OBJECT')
  assert.equal((await runtime.tools({ format: 'mcp', names: ['mcp_x_raw'] }))[0].tool, 'raw')
  const result = await runtime.call('mcp_x_raw', '{}', { format: 'anthropic', callId: 'c1' })
  assert.equal(result.raw.toString(), RAW_RESULT)
  assert.equal(result.message.tool_use_id, 'c1')
  assert.equal(result.followUp, undefined)
  await assert.rejects(runtime.call('mcp_x_raw', '{', { format: 'openai', callId: 'c2' }), (/** @type {any} */ error) => {
    assert.match(error.message, /not valid JSON/)
    assert.equal(error.result.message.tool_call_id, 'c2')
    return true
  })
})
