/** The end of a runtime: by close, by being dropped, with its worker, with the process. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import './stub.js'
import { Runtime } from '../index.js'

const INDEX = JSON.stringify(new URL('../index.js', import.meta.url).href)

/**
 * Runs a program of its own and gives what it printed.
 * @param {string} code the body of a module that has Runtime
 * @param {string[]} [flags]
 * @returns {Promise<{code: number, stdout: string, stderr: string}>}
 */
function program(code, flags = []) {
  const source = `import { Runtime } from ${INDEX}\n${code}`
  return new Promise((resolve) => {
    const args = [...flags, '--input-type=module', '--eval', source]
    execFile(process.execPath, args, { timeout: 20_000, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? -1) : 0, stdout, stderr })
    })
  })
}

test('close ends what is in flight, and what waits for room', async () => {
  const runtime = await Runtime.open({ maxInFlight: 10 })
  let closedEvents = 0
  runtime.on('closed', () => closedEvents++)
  const calls = Array.from({ length: 30 }, () => runtime.call('mcp_demo_hang'))
  const settled = Promise.allSettled(calls)
  await runtime.close()
  for (const { reason } of /** @type {PromiseRejectedResult[]} */ (await settled)) {
    assert.equal(reason.name, 'ClosedError')
    assert.equal(reason.code, 'closed')
  }
  assert.equal(closedEvents, 1)
})

test('close can be called again, also at the same time', async () => {
  const runtime = await Runtime.open()
  await Promise.all([runtime.close(), runtime.close({ graceMs: 0 })])
  await runtime.close()
  assert.equal(runtime.closed, true)
})

test('every verb after close gives a ClosedError', async () => {
  const runtime = await Runtime.open()
  const closing = runtime.close()
  const verbs = [
    () => runtime.discover(),
    () => runtime.connect(),
    () => runtime.list(),
    () => runtime.tools(),
    () => runtime.servers(),
    () => runtime.call('mcp_demo_echo'),
    () => runtime.request('demo', 'ping'),
    () => runtime.reload(),
    () => runtime.disconnect(),
  ]
  for (const verb of verbs) await assert.rejects(verb(), { name: 'ClosedError' })
  await closing
  for (const verb of verbs) await assert.rejects(verb(), { name: 'ClosedError' })
  runtime.ref().unref()
})

test('await using', async () => {
  assert.equal(typeof Symbol.asyncDispose, 'symbol')
  const runtime = await Runtime.open()
  await runtime[Symbol.asyncDispose]()
  assert.equal(runtime.closed, true)
})

test('an abort after close does no harm', async () => {
  const runtime = await Runtime.open()
  const abort = new AbortController()
  const call = runtime.call('mcp_demo_hang', {}, { signal: abort.signal })
  const closing = runtime.close()
  abort.abort()
  await assert.rejects(call, { name: 'AbortError' })
  await closing
  const other = await Runtime.open()
  const late = new AbortController()
  const ended = other.call('mcp_demo_hang', {}, { signal: late.signal })
  await Promise.all([other.close(), assert.rejects(ended, { name: 'ClosedError' })])
  late.abort()
})

test('a program ends by itself although it never closed', async () => {
  const ended = await program(`
    const runtime = await Runtime.open()
    runtime.on('log', () => {})
    await runtime.connect()
    console.log((await runtime.call('mcp_demo_echo', { text: 'hi' })).text)
  `)
  assert.deepEqual(ended, { code: 0, stdout: 'hi\n', stderr: '' })
})

test('a program stays while a call runs, or an event is awaited', async () => {
  const ended = await program(`
    const runtime = await Runtime.open()
    runtime.call('mcp_demo_slow', { ms: 100 }).then(({ text }) => console.log(text))
    await new Promise((resolve) => process.once('beforeExit', resolve))
    setTimeout(() => runtime.call('mcp_demo_flood', { count: 1 }), 50).unref()
    for await (const { type } of runtime.events()) {
      console.log(type)
      break
    }
  `)
  assert.deepEqual(ended, { code: 0, stdout: 'slept 100 ms\nlog\n', stderr: '' })
})

test('ref keeps a program alive, unref lets it go', async () => {
  const ended = await program(`
    const runtime = await Runtime.open()
    runtime.ref()
    setTimeout(() => {
      console.log('alive')
      runtime.unref()
    }, 50).unref()
  `)
  assert.deepEqual(ended, { code: 0, stdout: 'alive\n', stderr: '' })
})

test('an aborted call does not keep a program alive', async () => {
  const ended = await program(`
    const runtime = await Runtime.open()
    await runtime.call('mcp_demo_hang', {}, { signal: AbortSignal.timeout(10) }).catch(({ name }) => console.log(name))
  `)
  assert.deepEqual(ended, { code: 0, stdout: 'TimeoutError\n', stderr: '' })
})

test('process.exit in the middle of calls', async () => {
  const ended = await program(`
    const runtime = await Runtime.open()
    for (let i = 0; i < 500; i++) runtime.call(i % 2 ? 'mcp_demo_hang' : 'mcp_demo_echo', { text: 'x' })
    setImmediate(() => process.exit(7))
  `)
  assert.deepEqual(ended, { code: 7, stdout: '', stderr: '' })
})

test('a throwing listener is an uncaught exception of the program, and loses no frame', async () => {
  const ended = await program(`
    process.on('uncaughtException', ({ message }) => console.log('uncaught:', message))
    const runtime = await Runtime.open()
    runtime.once('log', () => { throw new Error('a fault of the listener') })
    console.log((await runtime.call('mcp_demo_flood', { count: 3 })).text)
    await runtime.call('mcp_demo_slow', { ms: 1, }, { onProgress() { throw new Error('another') } })
    console.log('done')
  `)
  assert.equal(ended.stderr, '')
  assert.deepEqual(ended.stdout.split('\n'), [
    'uncaught: a fault of the listener', '3 notices', 'uncaught: another', 'uncaught: another', 'uncaught: another', 'done', '',
  ])
})

test('a runtime that was dropped is freed, one that is used is not', async () => {
  const ended = await program(
    `
    import { loadLibrary } from ${JSON.stringify(new URL('../lib/library.js', import.meta.url).href)}
    const native = await loadLibrary()
    const freed = []
    const free = native.free.bind(native)
    native.free = (handle) => { freed.push(handle); free(handle) }
    const collect = async () => {
      for (let i = 0; i < 10; i++) {
        globalThis.gc()
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    await (async () => {
      const dropped = await Runtime.open({ onRequest: { roots: () => dropped } })
      await dropped.connect()
    })()
    const abort = new AbortController()
    const pending = (await Runtime.open()).call('mcp_demo_hang', {}, { signal: abort.signal })
    const heard = new Promise((resolve) => Runtime.open().then((listening) => {
      listening.on('log', () => {})
      resolve()
    }))
    await heard
    await collect()
    console.log('freed', freed.length)
    abort.abort()
    await pending.catch(({ name }) => console.log(name))
    await collect()
    console.log('freed', freed.length)
  `,
    ['--expose-gc'],
  )
  assert.deepEqual(ended, { code: 0, stdout: 'freed 1\nAbortError\nfreed 2\n', stderr: '' })
})

test('a dropped runtime that is closing still settles its close', async () => {
  const ended = await program(
    `
    const closing = (await Runtime.open()).close()
    globalThis.gc()
    await closing
    console.log('closed')
  `,
    ['--expose-gc'],
  )
  assert.deepEqual(ended, { code: 0, stdout: 'closed\n', stderr: '' })
})

/** @param {string} code @param {(worker: Worker) => void} [use] */
function worker(code, use) {
  const source = `const { parentPort } = require('node:worker_threads')
    import(${INDEX}).then(async ({ Runtime }) => { ${code} })`
  return new Promise((resolve, reject) => {
    const thread = new Worker(source, { eval: true })
    thread.on('error', reject)
    /** @type {unknown[]} */
    const messages = []
    thread.on('message', (message) => {
      messages.push(message)
      use?.(thread)
    })
    thread.on('exit', (code) => resolve({ code, messages }))
  })
}

test('each worker has its own runtime', async () => {
  const main = await Runtime.open()
  const workers = Array.from({ length: 3 }, (_, i) =>
    worker(`
      const runtime = await Runtime.open()
      const calls = Array.from({ length: 50 }, (_, n) => runtime.call('mcp_demo_echo', { text: '${i} ' + n }))
      parentPort.postMessage((await Promise.all(calls)).every(({ text }, n) => text === '${i} ' + n))
      await runtime.close()
    `),
  )
  assert.deepEqual(await Promise.all(workers), Array(3).fill({ code: 0, messages: [true] }))
  assert.equal((await main.call('mcp_demo_echo', { text: 'main' })).text, 'main')
  await main.close()
})

test('a worker that forgets to close ends by itself, and one can be terminated', async () => {
  const forgetful = worker(`
    const runtime = await Runtime.open()
    parentPort.postMessage((await runtime.call('mcp_demo_echo', { text: 'w' })).text)
  `)
  assert.deepEqual(await forgetful, { code: 0, messages: ['w'] })
  const terminated = worker(
    `
    const runtime = await Runtime.open()
    for (let i = 0; i < 100; i++) runtime.call('mcp_demo_hang')
    parentPort.postMessage('running')
    while (true) await runtime.call('mcp_demo_echo')
  `,
    (thread) => void thread.terminate(),
  )
  assert.deepEqual(await terminated, { code: 1, messages: ['running'] })
  const runtime = await Runtime.open()
  assert.equal((await runtime.call('mcp_demo_echo', { text: 'fine' })).text, 'fine')
  await runtime.close()
})
