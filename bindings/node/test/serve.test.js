/** What only `mcprt serve` in the place of the library has. servers.serve.test.js has the rest. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { InternalError, LibraryError, Runtime } from '../index.js'
import { EventKind, Status, Verb } from '../lib/abi.js'
import { loadLibrary } from '../lib/library.js'
import { ServedLibrary } from '../lib/serve.js'

const TOOL = fileURLToPath(new URL('../../../build/mcprt', import.meta.url))
if (!existsSync(TOOL)) throw new Error('run "make build" first')
process.env.MCPRT_BACKEND = 'serve'
process.env.MCPRT_TOOL = TOOL
const folder = mkdtempSync(join(tmpdir(), 'mcprt-node-'))
after(() => rmSync(folder, { recursive: true }))

const OPTIONS = { cwd: folder, discovery: /** @type {any} */ ({ user: 'none' }), cache: { enabled: false }, servers: { demo: { command: TOOL, args: ['demo-server'] } } }
const SLOW = '{"tool":"mcp_demo_slow","arguments":{"ms":60000}}'
const ECHO = '{"tool":"mcp_demo_echo","arguments":{"text":"hi"}}'

/** Processes "mcprt serve" below this one. @returns {number[]} */
function serving() {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  return children.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('serve')
    } catch {
      return false // it has ended meanwhile
    }
  })
}

/** @param {() => unknown} condition @param {string} what */
async function until(condition, what) {
  for (const end = Date.now() + 5000; !(await condition()); await sleep(5)) assert.ok(Date.now() < end, `not within 5 s: ${what}`)
}

/** A ServedLibrary with one manager whose server is connected. @param {object} [more] options */
async function opened(more) {
  const library = await ServedLibrary.start(TOOL, () => {})
  const { status, handle, data } = await library.open(JSON.stringify({ ...OPTIONS, ...more }))
  assert.equal(status, Status.OK, data.toString())
  /** @type {import('../lib/frames.js').Frame[]} */
  const frames = []
  const reader = library.reader(handle)
  const drain = () => reader.drain((frame) => frames.push(frame))
  const wake = library.watch(handle, () => {})
  wake.hold(true)
  /** @param {number} tag */
  const done = async (tag) => {
    await until(() => drain() && frames.some((frame) => frame.kind === EventKind.DONE && frame.tag === tag), `the end of ${tag}`)
    return frames.find((frame) => frame.kind === EventKind.DONE && frame.tag === tag)
  }
  assert.equal(library.submit(handle, Verb.CONNECT, 1, '{}'), Status.OK)
  assert.equal((await done(1))?.status, Status.OK)
  return { library, handle, frames, drain, done, wake }
}

test('one process serves all runtimes, and keeps an idle program from nothing', async () => {
  const [first, second] = await Promise.all([Runtime.open(OPTIONS), Runtime.open(OPTIONS)])
  assert.equal(serving().length, 1)
  await Promise.all([first.connect(), second.connect()])
  await first.close()
  assert.equal((await second.call('mcp_demo_echo', { text: 'hi' })).text, 'hi')
  await second.close()
  const source = `
    import { Runtime } from ${JSON.stringify(new URL('../index.js', import.meta.url).href)}
    const runtime = await Runtime.open(${JSON.stringify(OPTIONS)})
    console.log((await runtime.connect()).connected)`
  const output = await new Promise((resolve) => execFile(process.execPath, ['--input-type=module', '--eval', source], { timeout: 20_000 }, (error, stdout, stderr) => resolve(`${error}${stdout}${stderr}`)))
  assert.equal(output, "null[ 'demo' ]\n")
})

test('an interrupt is the business of the host', async () => {
  const runtime = await Runtime.open(OPTIONS)
  await runtime.connect()
  process.kill(serving()[0], 'SIGINT')
  assert.equal((await runtime.call('mcp_demo_echo', { text: 'hi' })).text, 'hi')
  await runtime.close()
})

test('when the process dies everybody is told, and the next runtime has another', async () => {
  const runtime = await Runtime.open(OPTIONS)
  await runtime.connect()
  const before = await loadLibrary()
  const call = runtime.call('mcp_demo_slow', { ms: 60_000 })
  process.kill(serving()[0], 'SIGKILL')
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof InternalError)
    assert.equal(error.message, '"mcprt serve" has ended (it was ended by SIGKILL); open a new runtime')
    return true
  })
  await until(() => runtime.closed, 'the end of the runtime')
  await runtime.close()
  const again = await Runtime.open(OPTIONS)
  assert.notEqual(await loadLibrary(), before)
  assert.deepEqual((await again.connect()).connected, ['demo'])
  await again.close()
})

for (const [what, script, why] of [
  ['ends', 'exit 4', /did not start: it ended with status 4$/],
  ['complains', 'echo no such command >&2; exit 2', /did not start: it ended with status 2: no such command$/],
  ['says something else', 'echo "this is not a frame, but text in its place"; cat >/dev/null', /did not start: what it wrote is not understood$/],
  ['is no program', undefined, /did not start: it cannot be run: .*EACCES$/],
]) {
  test(`a tool that ${what}`, async () => {
    const tool = join(mkdtempSync(join(folder, 'tool-')), 'mcprt')
    writeFileSync(tool, `#!/bin/sh\n${script}\n`, { mode: script === undefined ? 0o644 : 0o755 })
    await assert.rejects(ServedLibrary.start(tool, () => {}), (/** @type {any} */ error) => {
      assert.ok(error instanceof LibraryError)
      assert.match(error.message, /** @type {RegExp} */ (why))
      return true
    })
  })
}

test('a tool that says nothing', async () => {
  const tool = join(mkdtempSync(join(folder, 'tool-')), 'mcprt')
  writeFileSync(tool, '#!/bin/sh\nexec sleep 60\n', { mode: 0o755 })
  await assert.rejects(ServedLibrary.start(tool, () => {}, 100), { name: 'LibraryError', message: /did not start: it said nothing within 0\.1 s$/ })
})

test('limits and tags', async () => {
  const { library, handle, drain, done, wake, frames } = await opened({ maxInFlight: 2 })
  assert.equal(library.submit(handle, Verb.CALL, 2, SLOW), Status.OK)
  assert.equal(library.submit(handle, Verb.CALL, 2, SLOW), Status.ETAG)
  assert.equal(library.submit(handle, Verb.CALL, 3, ECHO), Status.OK)
  assert.equal(library.submit(handle, Verb.CALL, 4, ECHO), Status.EBUSY)
  assert.equal(library.submit(handle, Verb.DISCONNECT, 5, '{"server":"nobody"}'), Status.OK) // never refused
  assert.equal((await done(3))?.status, Status.OK)
  await done(5)
  assert.equal(library.cancel(handle, 2), Status.OK)
  assert.equal((await done(2))?.status, Status.ECANCELED)
  assert.equal(library.submit(handle, Verb.CLOSE, 6, '{"graceMs":0}'), Status.OK)
  assert.equal(library.submit(handle, Verb.CALL, 7, ECHO), Status.ECLOSED)
  await until(() => drain() && frames.at(-1)?.kind === EventKind.CLOSED, 'the last frame')
  library.free(handle)
  assert.equal(library.submit(handle, Verb.CALL, 8, ECHO), Status.EHANDLE)
  assert.equal(library.cancel(handle, 8), Status.EHANDLE)
  wake.close()
  library.shutdown()
})

test('what is refused says why', async () => {
  await assert.rejects(Runtime.open({ ...OPTIONS, requestTimeoutMs: -1 }), { name: 'InvalidRequestError' })
})
