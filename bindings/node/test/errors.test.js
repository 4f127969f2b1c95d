import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ClosedError, ForkError, LibraryError, MCPError, TimeoutError, errorClasses } from '../index.js'
import { Status } from '../lib/abi.js'
import { mcpError, replyError, statusError } from '../lib/errors.js'

test('every code of the library has one class, and no class is without a code', () => {
  const source = readFileSync(new URL('../../../core/fault/fault.go', import.meta.url), 'utf8')
  const value = new Map([...source.matchAll(/^\s*(\w+)\s+Code = "(\w+)"/gm)].map(([, name, code]) => [name, code]))
  const listed = /var Codes = \[\]Code\{([^}]*)\}/.exec(source)?.[1].match(/\w+/g)
  assert.deepEqual(listed?.map((name) => value.get(name)), Object.keys(errorClasses))
  assert.equal(listed.length, value.size)
  const classes = Object.values(errorClasses)
  assert.equal(new Set(classes).size, classes.length)
  for (const Class of classes) assert.ok(Class.prototype instanceof MCPError)
})

test('a reply becomes the error of its code, with every field', () => {
  const error = {
    code: 'timeout', message: 'server x did not answer', server: 'x', tool: 'y', stage: 'receive', retryable: true,
    data: { timeoutMs: 5, stderr: 'boom' },
  }
  const result = { isError: true, content: [{ type: 'text', text: 'MCP error: x' }] }
  const made = replyError(Status.ETIMEOUT, Buffer.from(JSON.stringify({ error, result })))
  assert.ok(made instanceof TimeoutError)
  assert.equal(made.name, 'TimeoutError')
  assert.match(String(made.stack), /^TimeoutError: server x did not answer/)
  for (const [field, value] of Object.entries(error)) assert.deepEqual(made[field], value, field)
  assert.ok(made.result.isError)
  assert.equal(made.result.text, 'MCP error: x')
})

test('an unknown code is an MCPError that keeps it', () => {
  for (const code of ['of_tomorrow', 'constructor', '__proto__']) {
    const made = mcpError({ code, message: 'm' })
    assert.equal(made.constructor, MCPError)
    assert.equal(made.code, code)
  }
})

test('every status has an error of its own when it comes without JSON', () => {
  const empty = Buffer.alloc(0)
  for (const [name, status] of Object.entries(Status)) {
    if (status === 0) continue
    const made = replyError(status, empty)
    assert.ok(made instanceof MCPError || made instanceof LibraryError, name)
    assert.ok(made.message.length > 20, name)
  }
  assert.ok(statusError(Status.EFORK) instanceof ForkError)
  assert.ok(statusError(Status.EFORK) instanceof LibraryError)
  assert.ok(statusError(Status.ECLOSED) instanceof ClosedError)
  assert.ok(statusError(Status.EHANDLE) instanceof ClosedError)
  assert.equal(statusError(Status.EVERSION).constructor, LibraryError)
  assert.equal(statusError(-77).code, 'internal')
})
