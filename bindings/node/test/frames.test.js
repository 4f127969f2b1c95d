import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Status } from '../lib/abi.js'
import { FrameReader } from '../lib/frames.js'

/** A queue in memory that behaves as mcprt_drain does. */
class Queue {
  used = 0
  /** @type {Buffer[]} */
  items = []

  /** @param {{tag?: number, status?: number, kind?: number, data?: Buffer | string}} frame */
  add({ tag = 0, status = 0, kind = 1, data = '' }) {
    const length = Buffer.byteLength(data)
    const size = 24 + length + (8 - (length % 8))
    const frame = Buffer.alloc(size)
    frame.writeBigUInt64LE(BigInt(tag), 0)
    frame.writeInt32LE(status, 8)
    frame.writeUInt16LE(kind, 12)
    frame.writeUInt32LE(length, 16)
    frame.writeUInt32LE(size, 20)
    frame.set(Buffer.from(data), 24)
    this.items.push(frame)
  }

  /** @param {number} _handle @param {Buffer} buffer */
  drain(_handle, buffer) {
    let count = 0
    this.used = 0
    while (this.items.length > 0 && this.used + this.items[0].length <= buffer.length) {
      const item = this.items.shift()
      buffer.set(item, this.used)
      this.used += item.length
      count++
    }
    if (count > 0 || this.items.length === 0) return count
    this.used = this.items[0].length
    return Status.ERANGE
  }
}

function setup() {
  const queue = new Queue()
  const reader = new FrameReader(/** @type {any} */ (queue), 1)
  /** @type {any[]} */
  const seen = []
  const drain = () => reader.drain(({ data, ...frame }) => void seen.push({ ...frame, data: data.toString() }))
  return { queue, reader, seen, drain }
}

test('frames arrive whole, in order, with tags beyond 32 bits and negative statuses', () => {
  const { queue, seen, drain } = setup()
  const frames = [
    { tag: 1, status: 0, kind: 1, data: '{}' },
    { tag: 2 ** 52 - 1, status: -20, kind: 1, data: '{"error":{}}' },
    { tag: 2 ** 53 - 1, status: 0, kind: 3, data: 'é😀' },
    { tag: 0, status: 17, kind: 4, data: '' },
    { tag: 5, status: -99, kind: 1, data: '12345678' },
  ]
  for (const frame of frames) queue.add(frame)
  assert.equal(drain(), true)
  assert.deepEqual(seen, frames)
  assert.equal(drain(), true)
  assert.equal(seen.length, frames.length)
})

test('the buffer grows for a large frame and shrinks after many small ones', () => {
  const { queue, reader, seen, drain } = setup()
  const small = reader.capacity
  const large = 'x'.repeat(3 * small)
  queue.add({ tag: 1, data: large })
  drain()
  assert.equal(seen[0].data, large)
  assert.ok(reader.capacity > 3 * small)
  for (let i = 0; i < 200; i++) {
    queue.add({ tag: 2 + i })
    drain()
  }
  assert.equal(reader.capacity, small)
  assert.equal(seen.length, 201)
})

test('a flood gives the event loop its turn', () => {
  const { queue, drain, seen } = setup()
  const data = 'y'.repeat(1 << 20)
  for (let i = 0; i < 20; i++) queue.add({ data })
  assert.equal(drain(), false)
  assert.ok(seen.length < 20)
  while (!drain());
  assert.equal(seen.length, 20)
})

test('a frame that lies about its size is an error, not a read past the buffer', () => {
  for (const [at, value] of [[16, 1 << 20], [20, 0], [20, 1 << 20]]) {
    const { queue, drain } = setup()
    queue.add({ data: 'abc' })
    queue.items[0].writeUInt32LE(value, at)
    assert.throws(drain, /report it/)
  }
})

test('the end of the queue and a stale handle', () => {
  const ended = new FrameReader(/** @type {any} */ ({ used: 0, drain: () => Status.ECLOSED }), 1)
  assert.equal(ended.drain(() => assert.fail()), true)
  const stale = new FrameReader(/** @type {any} */ ({ used: 0, drain: () => Status.EHANDLE }), 1)
  assert.throws(() => stale.drain(() => assert.fail()), { code: 'closed' })
  const mad = new FrameReader(/** @type {any} */ ({ used: 8, drain: () => Status.ERANGE }), 1)
  assert.throws(() => mad.drain(() => assert.fail()), /report it/)
})
