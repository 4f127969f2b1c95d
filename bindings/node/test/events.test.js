import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventStream } from '../lib/events.js'

/** @param {{signal?: AbortSignal, limit?: number}} [options] */
function stream({ signal, limit = 3 } = {}) {
  const state = { ended: 0, waiting: 0 }
  const events = new EventStream({
    signal,
    limit,
    onWaiting: () => (state.waiting = events.waiting),
    onEnd: () => state.ended++,
  })
  return { events, state }
}

test('events come in order, buffered or awaited', async () => {
  const { events, state } = stream()
  events.push({ type: 'a' })
  events.push({ type: 'b' })
  assert.deepEqual(await events.next(), { value: { type: 'a' }, done: false })
  assert.deepEqual(await events.next(), { value: { type: 'b' }, done: false })
  const later = [events.next(), events.next()]
  assert.equal(state.waiting, 2)
  events.push({ type: 'c' })
  events.push({ type: 'd' })
  assert.equal(state.waiting, 0)
  assert.deepEqual((await Promise.all(later)).map(({ value }) => value.type), ['c', 'd'])
})

test('a slow reader sees how many are missing, at the right place', async () => {
  const { events } = stream({ limit: 2 })
  for (const type of ['a', 'b', 'lost', 'lost']) events.push({ type })
  events.push({ type: 'dropped', count: 5 })
  const first = await events.next()
  events.push({ type: 'c' })
  events.end()
  const rest = []
  for await (const event of events) rest.push(event)
  assert.equal(first.value.type, 'a')
  assert.deepEqual(rest, [{ type: 'b' }, { type: 'dropped', count: 7 }, { type: 'c' }])
})

test('what was lost last is told too', async () => {
  const { events } = stream({ limit: 1 })
  events.push({ type: 'a' })
  events.push({ type: 'lost' })
  events.end()
  const seen = []
  for await (const event of events) seen.push(event)
  assert.deepEqual(seen, [{ type: 'a' }, { type: 'dropped', count: 1 }])
})

test('leaving the loop ends the stream once', async () => {
  const { events, state } = stream()
  events.push({ type: 'a' })
  events.push({ type: 'b' })
  for await (const event of events) {
    assert.equal(event.type, 'a')
    break
  }
  assert.equal(state.ended, 1)
  events.push({ type: 'c' })
  assert.deepEqual(await events.next(), { value: undefined, done: true })
  events.end()
  assert.equal(state.ended, 1)
})

test('an abort rejects whoever waits, and later readers', async () => {
  const abort = new AbortController()
  const { events, state } = stream({ signal: abort.signal })
  const waiting = events.next()
  const reason = new Error('enough')
  abort.abort(reason)
  await assert.rejects(waiting, reason)
  await assert.rejects(events.next(), reason)
  assert.equal(state.ended, 1)
  const late = stream({ signal: abort.signal })
  await assert.rejects(late.events.next(), reason)
})
