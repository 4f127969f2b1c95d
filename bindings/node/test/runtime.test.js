/** The whole package over the C side of the library, with the stub behind it. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import './stub.js'
import { CallResult, ReplyError, Runtime, Tool } from '../index.js'

/**
 * @param {import('node:test').TestContext} t
 * @param {import('../index.js').RuntimeOptions} [options]
 */
async function open(t, options) {
  const runtime = await Runtime.open(options)
  t.after(() => runtime.close())
  return runtime
}

test('the verbs', async (t) => {
  const runtime = await open(t)
  const found = await runtime.discover()
  assert.equal(found.servers[0].name, 'demo')
  assert.deepEqual(JSON.parse(found.raw.toString()).servers, found.servers)

  const report = await runtime.connect({ startupTimeoutMs: 100 })
  assert.deepEqual(report.connected, ['demo'])
  assert.equal(report.tools.length, 8)
  assert.ok(report.tools[0] instanceof Tool)
  assert.ok(!Object.keys(report).includes('raw'))

  const listing = await runtime.list()
  assert.equal(listing.revision, report.revision)
  assert.deepEqual(listing.tools.map((tool) => tool.name), report.tools.map((tool) => tool.name))
  assert.equal((await runtime.list({ ifRevision: listing.revision })).unchanged, true)
  assert.deepEqual((await runtime.list({ kind: 'prompts' })).prompts, [])
  assert.equal((await runtime.servers())[0].state, 'ready')

  const [tool] = await runtime.tools({ server: 'demo' })
  assert.equal(tool.name, 'mcp_demo_ask')
  assert.equal(tool.tool, 'ask')
  assert.equal(tool.deferred, false)
  assert.deepEqual(tool.annotations, { readOnlyHint: true })
  assert.deepEqual(JSON.parse(tool.raw.toString()), tool.json)
  assert.ok(tool.raw.toString().startsWith('{"name":"mcp_demo_ask"') && tool.raw.toString().endsWith('}'))
  assert.deepEqual(JSON.parse(JSON.stringify(tool)), tool.json)

  assert.deepEqual((await runtime.request('demo', 'ping')).json, {})
  assert.deepEqual((await runtime.reload({ mode: 'diff' })).changes.kept, ['demo'])
  assert.deepEqual((await runtime.disconnect('demo')).disconnected, ['demo'])
  assert.equal(runtime.closed, false)
})

test('a result keeps the bytes of the server', async (t) => {
  const runtime = await open(t)
  const result = await runtime.call('mcp_demo_echo', { text: 'Grüße 😀 "\\' })
  assert.ok(result instanceof CallResult)
  assert.equal(result.text, 'Grüße 😀 "\\')
  assert.equal(result.isError, false)
  assert.deepEqual(result.content, [{ type: 'text', text: 'Grüße 😀 "\\' }])
  const raw = result.raw.toString()
  assert.ok(raw.startsWith('{"content":['), raw)
  assert.ok(raw.includes('"big":9007199254740993'), raw)
  assert.deepEqual(JSON.parse(raw), result.json)
  // The drain buffer is used again; the result must not change with it.
  await Promise.all(Array.from({ length: 50 }, (_, i) => runtime.call('mcp_demo_echo', { text: `other ${i}` })))
  assert.equal(result.raw.toString(), raw)
})

test('a tool that failed is a result; a failed call is an error with one', async (t) => {
  const runtime = await open(t)
  const failed = await runtime.call('mcp_demo_error')
  assert.equal(failed.isError, true)
  assert.equal(failed.text, 'no such file')
  await assert.rejects(runtime.call('mcp_demo_fail'), (error) => {
    assert.equal(error.name, 'RPCError')
    assert.equal(error.code, 'rpc_error')
    assert.equal(error.server, 'demo')
    assert.equal(error.data.rpcCode, -32000)
    assert.equal(error.result.isError, true)
    assert.match(error.result.text, /^MCP error: /)
    return true
  })
  await assert.rejects(runtime.call('mcp_demo_slow', { ms: 60000 }, { timeoutMs: 20 }), { name: 'TimeoutError', code: 'timeout' })
})

test('what is no JSON rejects, and does not throw', async (t) => {
  const runtime = await open(t)
  const circle = {}
  circle.self = circle
  for (const args of [{ n: 10n }, circle]) {
    const promise = runtime.call('mcp_demo_echo', args)
    await assert.rejects(promise, { name: 'InvalidRequestError' })
  }
  assert.equal((await runtime.call('mcp_demo_echo', { text: 'still there' })).text, 'still there')
})

test('open explains a refusal', async () => {
  await assert.rejects(Runtime.open(/** @type {any} */ ({ stubRefuse: true })), { name: 'InvalidRequestError', message: /told to refuse/ })
  await assert.rejects(Runtime.open({ onRequest: /** @type {any} */ ({ nothing() {} }) }), { name: 'InvalidRequestError', message: /nothing is not a kind/ })
  await assert.rejects(Runtime.open({ onRequest: /** @type {any} */ ({ roots: [] }) }), { name: 'InvalidRequestError', message: /must be a function/ })
})

test('1,000 calls in flight', async (t) => {
  const runtime = await open(t)
  const texts = Array.from({ length: 1000 }, (_, i) => `text ${i}`)
  const slow = texts.map((_, i) => runtime.call('mcp_demo_slow', { ms: 20 + (i % 10) }))
  const results = await Promise.all(texts.map((text) => runtime.call('mcp_demo_echo', { text })))
  assert.deepEqual(results.map((result) => result.text), texts)
  assert.deepEqual(
    (await Promise.all(slow)).map((result) => result.text),
    texts.map((_, i) => `slept ${20 + (i % 10)} ms`),
  )
})

test('a large request and a large result', async (t) => {
  const runtime = await open(t)
  const text = 'ä€😀'.repeat(100_000)
  assert.equal((await runtime.call('mcp_demo_echo', { text })).text, text)
  const sizes = [10, 300_000, 10, 10 << 20, 1000]
  const results = await Promise.all(sizes.map((bytes) => runtime.call('mcp_demo_big', { bytes })))
  assert.deepEqual(results.map((result) => result.text.length), sizes)
  assert.equal(results[3].raw.length, (10 << 20) + '{"content":[{"type":"text","text":""}]}'.length)
})

test('calls beyond maxInFlight wait in order, and can be aborted there', async (t) => {
  const runtime = await open(t, { maxInFlight: 4 })
  const abort = new AbortController()
  /** @type {number[]} */
  const order = []
  const calls = Array.from({ length: 40 }, (_, i) =>
    runtime.call('mcp_demo_echo', { text: `${i}` }, i === 20 ? { signal: abort.signal } : {}).then(() => void order.push(i)),
  )
  abort.abort()
  const settled = await Promise.allSettled(calls)
  assert.equal(settled[20].status, 'rejected')
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 39)
  assert.deepEqual(order, Array.from({ length: 40 }, (_, i) => i).filter((i) => i !== 20))
})

test('a library that has no room at all gives a BusyError, not silence', async (t) => {
  const runtime = await open(t, { maxInFlight: 0 })
  const settled = await Promise.allSettled([runtime.call('mcp_demo_echo'), runtime.call('mcp_demo_echo')])
  for (const { reason } of /** @type {PromiseRejectedResult[]} */ (settled)) assert.equal(reason.name, 'BusyError')
  assert.deepEqual((await runtime.disconnect()).disconnected, ['demo']) // is never refused
})

test('an abort rejects at once, with its reason, and ends the call in the library', async (t) => {
  const runtime = await open(t, { maxInFlight: 1 })
  const abort = new AbortController()
  const reason = new Error('not needed any more')
  const call = runtime.call('mcp_demo_hang', {}, { signal: abort.signal })
  let isSettled = false
  call.catch(() => (isSettled = true))
  abort.abort(reason)
  await Promise.resolve().then(() => {}).then(() => {})
  assert.equal(isSettled, true)
  await assert.rejects(call, reason)
  // maxInFlight is 1: this one only gets through because the hanging one ended.
  assert.equal((await runtime.call('mcp_demo_echo', { text: 'next' })).text, 'next')
})

test('an abort by timeout, and without a reason', async (t) => {
  const runtime = await open(t)
  await assert.rejects(runtime.call('mcp_demo_hang', {}, { signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' })
  const abort = new AbortController()
  const call = runtime.call('mcp_demo_hang', {}, { signal: abort.signal })
  abort.abort()
  await assert.rejects(call, { name: 'AbortError' })
})

test('an aborted signal is not submitted', async (t) => {
  const runtime = await open(t)
  const notices = []
  runtime.on('event', (event) => notices.push(event))
  const reason = new Error('before')
  for (const verb of [
    () => runtime.connect({ signal: AbortSignal.abort(reason) }),
    () => runtime.call('mcp_demo_echo', {}, { signal: AbortSignal.abort(reason) }),
    () => runtime.disconnect('demo', { signal: AbortSignal.abort(reason) }),
  ]) {
    await assert.rejects(verb(), reason)
  }
  await runtime.list()
  assert.deepEqual(notices, []) // connect would have sent some
})

test('one signal for many calls: no warning, no listener left', async (t) => {
  const runtime = await open(t)
  /** @type {Error[]} */
  const warnings = []
  const onWarning = (/** @type {Error} */ warning) => warnings.push(warning)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const abort = new AbortController()
  let listeners = 0
  const { addEventListener, removeEventListener } = abort.signal
  abort.signal.addEventListener = function (...args) {
    listeners++
    return addEventListener.apply(this, args)
  }
  abort.signal.removeEventListener = function (...args) {
    listeners--
    return removeEventListener.apply(this, args)
  }
  await Promise.all(Array.from({ length: 100 }, () => runtime.call('mcp_demo_echo', {}, { signal: abort.signal })))
  await assert.rejects(runtime.call('mcp_demo_fail', {}, { signal: abort.signal }))
  assert.equal(listeners, 0)
  assert.deepEqual(warnings, [])
})

test('aborts race with completions: each promise settles once, nothing is lost', async (t) => {
  const runtime = await open(t, { maxInFlight: 64 })
  const calls = Array.from({ length: 600 }, (_, i) => {
    const abort = new AbortController()
    const call = runtime.call('mcp_demo_slow', { ms: i % 7 }, { signal: abort.signal })
    if (i % 3 === 0) setTimeout(() => abort.abort(), i % 11)
    return call
  })
  const settled = await Promise.allSettled(calls)
  for (const [i, outcome] of settled.entries()) {
    if (outcome.status === 'fulfilled') assert.equal(outcome.value.text, `slept ${i % 7} ms`)
    else assert.equal(outcome.reason.name, 'AbortError')
  }
  assert.equal(settled.filter(({ status }) => status === 'rejected').length > 0, true)
  assert.equal((await runtime.call('mcp_demo_echo', { text: 'still here' })).text, 'still here')
})

test('progress goes to its call, before the result, and to listeners', async (t) => {
  const runtime = await open(t)
  /** @type {unknown[]} */
  const seen = []
  /** @type {number[]} */
  const heard = []
  runtime.on('progress', ({ progress }) => heard.push(progress))
  const options = { onProgress: (/** @type {any} */ { progress, total, message }) => seen.push([progress, total, message]) }
  const [, other] = await Promise.all([
    runtime.call('mcp_demo_slow', { ms: 1 }, options).then(() => seen.push('done')),
    runtime.call('mcp_demo_slow', { ms: 1 }),
  ])
  assert.equal(other.text, 'slept 1 ms')
  assert.deepEqual(seen, [[1, 3, 'step 1'], [2, 3, 'step 2'], [3, 3, 'step 3'], 'done'])
  assert.deepEqual(heard, [1, 2, 3])
})

test('progress needs no listener', async (t) => {
  const runtime = await open(t)
  let steps = 0
  await runtime.call('mcp_demo_slow', { ms: 1 }, { onProgress: () => steps++ })
  assert.equal(steps, 3)
})

test('events by type, all events, and the iterator', async (t) => {
  const runtime = await open(t)
  /** @type {any[]} */
  const states = []
  /** @type {string[]} */
  const types = []
  runtime.on('server_state', (event) => states.push(event))
  runtime.on('event', ({ type }) => types.push(type))
  const stream = runtime.events()
  await runtime.connect()
  assert.equal(states[0].name, 'demo')
  assert.deepEqual(types, ['server_state', 'tools_changed'])
  assert.equal((await stream.next()).value.type, 'server_state')
  assert.deepEqual((await stream.next()).value.live, ['mcp_demo_echo'])
  const waiting = stream.next()
  await runtime.close()
  assert.deepEqual(await waiting, { value: undefined, done: true })
  assert.deepEqual(await runtime.events().next(), { value: undefined, done: true })
})

test('lost notices are told', async (t) => {
  const runtime = await open(t, { maxNotices: 10 })
  /** @type {number[]} */
  const got = []
  let dropped = 0
  runtime.on('log', ({ data }) => got.push(/** @type {number} */ (data)))
  runtime.on('dropped', ({ count }) => (dropped += count))
  await runtime.call('mcp_demo_flood', { count: 5000 })
  assert.equal(got.length + dropped, 5000)
  assert.ok(dropped > 0)
  assert.deepEqual(got, [...got].sort((a, b) => a - b))
})

test('an event stream that nobody reads stays small', async (t) => {
  const runtime = await open(t)
  const stream = runtime.events({ limit: 5 })
  await runtime.call('mcp_demo_flood', { count: 100 })
  await runtime.close()
  const seen = []
  for await (const event of stream) seen.push(event)
  assert.equal(seen.length, 6)
  assert.deepEqual(seen[5], { type: 'dropped', count: 95 })
})

/** @param {import('../index.js').RequestHandlers['elicitation']} elicitation */
function asked(elicitation) {
  return { onRequest: { elicitation } }
}

test('a question of a server is answered', async (t) => {
  /** @type {any} */
  let seen
  const runtime = await open(t, asked(async (params, context) => {
    seen = { params, context }
    return { action: 'accept', content: { name: 'Ada' } }
  }))
  const result = await runtime.call('mcp_demo_ask')
  assert.deepEqual(result.json.answer, { action: 'accept', content: { name: 'Ada' } })
  assert.equal(seen.params.message, 'Your name?')
  const { signal, ...rest } = seen.context
  assert.deepEqual(rest, { type: 'elicitation/create', server: 'demo', timeoutMs: 300000, attempt: 1 })
  assert.equal(signal.aborted, false)
  assert.deepEqual((await runtime.call('mcp_demo_echo', { text: 'after' })).text, 'after')
})

test('many questions at once', async (t) => {
  let n = 0
  const runtime = await open(t, asked(async () => ({ action: 'accept', content: { n: n++ } })))
  const results = await Promise.all(Array.from({ length: 50 }, () => runtime.call('mcp_demo_ask')))
  assert.deepEqual(results.map(({ json }) => json.answer.content.n).sort((a, b) => a - b), Array.from({ length: 50 }, (_, i) => i))
})

test('nothing returned is an empty answer', async (t) => {
  const runtime = await open(t, asked(() => {}))
  assert.deepEqual((await runtime.call('mcp_demo_ask')).json.answer, {})
})

test('a handler that throws gives the server an error, and the program an event', async (t) => {
  const fault = new Error('a secret of the program')
  const runtime = await open(t, asked(() => Promise.reject(fault)))
  /** @type {any[]} */
  const failed = []
  runtime.on('request_failed', (event) => failed.push(event))
  await assert.rejects(runtime.call('mcp_demo_ask'), { name: 'RPCError', message: /answered with an error/ })
  assert.deepEqual(failed, [{ type: 'request_failed', request: 'elicitation/create', server: 'demo', error: fault }])
})

test('an answer that is no JSON is a failed request', async (t) => {
  const runtime = await open(t, asked(() => ({ action: 'accept', content: { n: 1n } })))
  /** @type {any[]} */
  const failed = []
  runtime.on('request_failed', ({ error }) => failed.push(error))
  await assert.rejects(runtime.call('mcp_demo_ask'), { name: 'RPCError' })
  assert.match(failed[0].message, /BigInt/)
})

test('a refusal is the program\'s own word, and no fault', async (t) => {
  const runtime = await open(t, asked(() => {
    throw new ReplyError('nobody is here', -32001)
  }))
  runtime.on('request_failed', () => assert.fail())
  await assert.rejects(runtime.call('mcp_demo_ask'), { name: 'RPCError' })
})

test('the handler learns that its question is over', async (t) => {
  const abort = new AbortController()
  /** @type {(reason: any) => void} */
  let over = () => {}
  const reason = new Promise((resolve) => (over = resolve))
  const runtime = await open(t, asked((_, { signal }) => {
    signal.addEventListener('abort', () => over(signal.reason))
    abort.abort()
    return new Promise(() => {})
  }))
  await assert.rejects(runtime.call('mcp_demo_ask', {}, { signal: abort.signal }), { name: 'AbortError' })
  assert.equal((await reason).name, 'CanceledError')
})

test('a question that runs out of time, and one that the end of the runtime ends', async (t) => {
  /** @type {string[]} */
  const reasons = []
  const handlers = asked((_, { signal }) => new Promise((resolve) => {
    runtime.emit('asked')
    signal.addEventListener('abort', () => {
      reasons.push(signal.reason.name)
      resolve({ action: 'cancel' }) // too late: dropped
    })
  }))
  let runtime = await open(t, { ...handlers, requestTimeoutMs: 20 })
  await assert.rejects(runtime.call('mcp_demo_ask'), { name: 'TimeoutError' })
  runtime = await open(t, handlers)
  const isAsked = once(runtime, 'asked')
  const call = runtime.call('mcp_demo_ask')
  await isAsked
  await Promise.all([runtime.close(), assert.rejects(call, { name: 'ClosedError' })])
  assert.deepEqual(reasons, ['TimeoutError', 'ClosedError'])
})
