/** Junk arguments: whatever a program gives, it gets an InvalidRequestError that names the argument, as a rejection. */

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { InvalidRequestError, MCPError, Runtime } from '../index.js'

/** @type {any} */
const runtime = await Runtime.open({ discovery: { project: false, user: 'none' }, cache: { enabled: false } })
after(() => runtime.close())

const circle = /** @type {any} */ ({})
circle.self = circle
const NO_OBJECTS = [null, 5, 'text', true, [], () => {}]

/** @param {() => any} run @param {RegExp} message */
async function refused(run, message) {
  const promise = run()
  assert.ok(promise instanceof Promise, 'it rejects, and does not throw')
  await assert.rejects(promise, (error) => {
    assert.equal(error.constructor, InvalidRequestError)
    assert.equal(error.code, 'invalid_request')
    assert.match(error.message, message)
    return true
  })
}

test('options that are no object', async () => {
  const verbs = {
    open: (/** @type {any} */ options) => Runtime.open(options),
    discover: (/** @type {any} */ options) => runtime.discover(options),
    connect: (/** @type {any} */ options) => runtime.connect(options),
    reload: (/** @type {any} */ options) => runtime.reload(options),
    disconnect: (/** @type {any} */ options) => runtime.disconnect(undefined, options),
    list: (/** @type {any} */ options) => runtime.list(options),
    tools: (/** @type {any} */ options) => runtime.tools(options),
    servers: (/** @type {any} */ options) => runtime.servers(options),
    call: (/** @type {any} */ options) => runtime.call('x', {}, options),
    request: (/** @type {any} */ options) => runtime.request(null, 'mcprt/stats', {}, options),
    close: (/** @type {any} */ options) => runtime.close(options),
  }
  for (const [verb, run] of Object.entries(verbs)) {
    for (const junk of NO_OBJECTS) await refused(() => run(junk), new RegExp(`^Runtime\\.${verb}: the options must be an object, not `))
  }
  for (const junk of NO_OBJECTS) {
    await refused(() => Runtime.open({ onRequest: /** @type {any} */ (junk) }), /^Runtime\.open: onRequest must be an object, not /)
    assert.throws(() => runtime.events(junk), { name: 'InvalidRequestError', message: /^Runtime\.events: the options must be an object/ })
    await assert.rejects(runtime.stats(junk), { name: 'InvalidRequestError' })
    await assert.rejects(runtime.login('x', junk), { name: 'InvalidRequestError' })
    await assert.rejects(runtime.logout('x', junk), { name: 'InvalidRequestError' })
  }
  assert.equal(runtime.closed, false)
})

test('members of the wrong kind', async () => {
  for (const junk of [null, 5, 'text', {}]) {
    for (const verb of ['discover', 'connect', 'reload', 'list', 'tools', 'servers']) {
      await refused(() => runtime[verb]({ signal: junk }), new RegExp(`^Runtime\\.${verb}: signal must be an AbortSignal, not `))
    }
    await refused(() => runtime.call('x', {}, { signal: junk }), /^Runtime\.call: signal must be/)
    await refused(() => runtime.call('x', {}, { onProgress: junk }), /^Runtime\.call: onProgress must be a function, not /)
    await refused(() => Runtime.open({ onRequest: { roots: /** @type {any} */ (junk) } }), /^Runtime\.open: onRequest\.roots must be a function, not /)
    if (junk !== 'text') await refused(() => Runtime.open({ library: /** @type {any} */ (junk) }), /^Runtime\.open: library must be a string, not /)
  }
  await refused(() => Runtime.open({ onRequest: /** @type {any} */ ({ nothing() {} }) }), /nothing is not a kind/)
  for (const graceMs of [-1, 0.5, NaN, Infinity, '5', null]) await refused(() => runtime.close({ graceMs }), /graceMs/)
  for (const limit of [0, -1, 0.5, NaN, '5', null]) assert.throws(() => runtime.events({ limit }), { name: 'InvalidRequestError', message: /limit/ })
  assert.equal(runtime.closed, false)
})

test('what JSON has no form for', async () => {
  for (const junk of [{ n: 1n }, circle, { toJSON() { throw new Error('mine') } }]) {
    await refused(() => runtime.call('x', junk), /^Runtime\.call: this cannot be written as JSON \(/)
    await refused(() => runtime.connect({ servers: junk }), /^Runtime\.connect: this cannot be written as JSON \(/)
    await refused(() => Runtime.open({ servers: /** @type {any} */ (junk) }), /^Runtime\.open: this cannot be written as JSON \(/)
  }
})

test('what the library itself refuses is an error of its own, never a crash', async () => {
  for (const junk of [null, 5, true, [], {}, '']) {
    await assert.rejects(runtime.call(junk), MCPError)
    await assert.rejects(runtime.request(null, junk), MCPError)
    await assert.rejects(runtime.login(junk), MCPError)
    if (junk !== null) await assert.rejects(runtime.disconnect(junk), MCPError)
    if (junk !== '') for (const name of ['cwd', 'servers', 'env', 'timeoutMs', 'watch', 'discovery', 'trace', 'auth']) {
      if (['servers', 'env', 'discovery', 'auth'].includes(name) && typeof junk === 'object' && !Array.isArray(junk)) continue
      const outcome = await Runtime.open({ [name]: junk }).then((opened) => opened.close(), (error) => error)
      if (outcome) assert.equal(outcome.constructor, InvalidRequestError, `${name}: ${outcome}`)
    }
  }
  assert.equal((await runtime.stats()).tools, 0)
})
