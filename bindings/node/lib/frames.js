/**
 * Takes completions and events out of the library: many in one call, into one
 * buffer that is used again and again.
 */

import { FRAME_HEADER, Status } from './abi.js'
import { statusError } from './errors.js'

const BASE = 256 * 1024
/** A grown buffer is given back after this many calls that did not need it. */
const CALLS_UNTIL_SHRINK = 64
/** Bytes handed out before the event loop gets a turn: a flood of notices must not starve it. */
const BYTES_PER_TURN = 8 * 1024 * 1024

/** @typedef {import('./native.js').Native} Native */

/**
 * @typedef {object} Frame
 * @property {number} kind
 * @property {number} tag
 * @property {number} status
 * @property {Buffer} data  valid only until the receiver returns
 */

export class FrameReader {
  #native
  #handle
  #buffer = Buffer.allocUnsafeSlow(BASE)
  #callsUntilShrink = CALLS_UNTIL_SHRINK

  /**
   * @param {Native} native
   * @param {number} handle
   */
  constructor(native, handle) {
    this.#native = native
    this.#handle = handle
  }

  /** Bytes of the buffer now. */
  get capacity() {
    return this.#buffer.length
  }

  /**
   * Hands every waiting frame to receive, which must not throw.
   * @param {(frame: Frame) => void} receive
   * @returns {boolean} true: the queue is empty. false: more is waiting and nothing
   *   will wake us for it, so the caller must come back by itself
   */
  drain(receive) {
    for (let bytes = 0; bytes < BYTES_PER_TURN; ) {
      const count = this.#native.drain(this.#handle, this.#buffer)
      if (count === Status.ERANGE) {
        this.#grow(this.#native.used)
        continue
      }
      if (count === Status.ECLOSED || count === 0) return true
      if (count < 0) throw statusError(count)
      const used = this.#native.used
      this.#parse(used, receive)
      this.#shrink(used)
      bytes += used
    }
    return false
  }

  /**
   * @param {number} used
   * @param {(frame: Frame) => void} receive
   */
  #parse(used, receive) {
    const buffer = this.#buffer
    for (let at = 0; at < used; ) {
      const length = buffer.readUInt32LE(at + 16)
      const size = buffer.readUInt32LE(at + 20)
      if (size < FRAME_HEADER + length || at + size > used) {
        throw new RangeError('the library wrote a frame that does not fit its buffer; please report it')
      }
      receive({
        // Tags stay below 2^53, so two halves make a number without a BigInt.
        tag: buffer.readUInt32LE(at) + buffer.readUInt32LE(at + 4) * 2 ** 32,
        status: buffer.readInt32LE(at + 8),
        kind: buffer.readUInt16LE(at + 12),
        data: buffer.subarray(at + FRAME_HEADER, at + FRAME_HEADER + length),
      })
      at += size
    }
  }

  /** @param {number} needed */
  #grow(needed) {
    if (needed <= this.#buffer.length) throw new RangeError('the library refused a buffer that was large enough; please report it')
    this.#buffer = Buffer.allocUnsafeSlow(Math.ceil(needed / BASE) * BASE)
    this.#callsUntilShrink = CALLS_UNTIL_SHRINK
  }

  /** @param {number} used */
  #shrink(used) {
    if (this.#buffer.length === BASE) return
    if (used > BASE) this.#callsUntilShrink = CALLS_UNTIL_SHRINK
    else if (--this.#callsUntilShrink === 0) this.#buffer = Buffer.allocUnsafeSlow(BASE)
  }
}
