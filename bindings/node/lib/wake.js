/**
 * Tells the event loop that the library's queue is no longer empty: a socket on
 * the read end of the wake pipe. It costs no thread and no poll, and the data
 * event comes after the bytes were read, which is the order that loses no wake-up.
 *
 * Bun's sockets take a pipe and then stay silent (oven-sh/bun#29141), so there its own streams read it.
 */

import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { Status } from './abi.js'
import { LibraryError, statusError } from './errors.js'

/** How often Bun looks for what came while nobody waits, in milliseconds. */
const IDLE_LOOK = 50

/**
 * @typedef {object} Reader
 * @property {() => void} ref  the process stays alive
 * @property {() => void} unref
 * @property {() => void} close
 */

export class Wake {
  /** @type {Reader} */
  #reader
  #held = false

  /**
   * @param {import('./native.js').Native} native
   * @param {number} handle
   * @param {() => void} onWake
   * @param {(error: Error) => void} onLost wake-ups will not come any more
   */
  constructor(native, handle, onWake, onLost) {
    const fd = native.notifyFd(handle)
    if (fd === Status.EINVAL) throw new LibraryError(`${process.platform} has no wake pipe: set MCPRT_BACKEND=serve, so that the command line tool takes the place of the library`)
    if (fd < 0) throw statusError(fd)
    this.#reader = process.versions.bun ? new BunReader(fd, onWake, onLost) : new SocketReader(fd, onWake, onLost)
  }

  /** Keeps the process alive, or no longer. @param {boolean} held */
  hold(held) {
    if (held === this.#held) return
    this.#held = held
    if (held) this.#reader.ref()
    else this.#reader.unref()
  }

  close() {
    this.#reader.close()
  }
}

class SocketReader {
  #socket

  /**
   * @param {number} fd belongs to the reader from now on
   * @param {() => void} onWake
   * @param {(error: Error) => void} onLost
   */
  constructor(fd, onWake, onLost) {
    this.#socket = new Socket({ fd, readable: true, writable: false })
    // A runtime that nobody waits for must not keep the process alive.
    this.#socket.unref()
    this.#socket.on('data', onWake)
    this.#socket.on('error', onLost)
    this.#socket.on('end', () => onLost(ended()))
  }

  ref() {
    this.#socket.ref()
  }

  unref() {
    this.#socket.unref()
  }

  close() {
    this.#socket.removeAllListeners()
    this.#socket.on('error', () => {}) // closing cannot matter any more
    this.#socket.destroy()
  }
}

/**
 * A stream of Bun keeps the process alive while it is read, and has no unref. So it
 * is read only while somebody waits; else a timer looks from time to time.
 */
class BunReader {
  #fd
  #onWake
  #onLost
  #timer
  /** @type {ReadableStreamDefaultReader | undefined} */
  #stream
  /** @type {Promise<void>} */
  #stopped = Promise.resolve()
  #isClosed = false

  /**
   * @param {number} fd belongs to the reader from now on
   * @param {() => void} onWake
   * @param {(error: Error) => void} onLost
   */
  constructor(fd, onWake, onLost) {
    this.#fd = fd
    this.#onWake = onWake
    this.#onLost = onLost
    this.#timer = setInterval(() => {
      if (!this.#stream) onWake()
    }, IDLE_LOOK)
    this.#timer.unref()
  }

  ref() {
    // One stream at a time reads the pipe: two would steal each other's bytes.
    const before = this.#stopped
    const stream = /** @type {any} */ (globalThis).Bun.file(this.#fd).stream().getReader()
    this.#stream = stream
    this.#stopped = before.then(() => this.#read(stream))
  }

  unref() {
    this.#stream?.cancel().catch(() => {})
    this.#stream = undefined
  }

  close() {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.unref()
    void this.#stopped.then(() => closeSync(this.#fd))
  }

  /** @param {ReadableStreamDefaultReader} stream */
  async #read(stream) {
    try {
      while (this.#stream === stream) {
        this.#onWake() // also for a byte that the stream before took with it
        const { done } = await stream.read()
        if (done && this.#stream === stream) this.#onLost(ended())
        if (done) return
      }
    } catch (error) {
      if (this.#stream === stream && !this.#isClosed) this.#onLost(error instanceof Error ? error : new Error(String(error)))
    }
  }
}

function ended() {
  return new Error('the wake pipe of the mcprt library ended too early')
}
