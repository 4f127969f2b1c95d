/**
 * Tells the event loop that the library's queue is no longer empty: a socket on
 * the read end of the wake pipe. It costs no thread and no poll, and the data
 * event comes after the bytes were read, which is the order that loses no wake-up.
 */

import { Socket } from 'node:net'
import { Status } from './abi.js'
import { LibraryError, statusError } from './errors.js'

export class Wake {
  #socket
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
    this.#socket = new Socket({ fd, readable: true, writable: false })
    // A runtime that nobody waits for must not keep the process alive.
    this.#socket.unref()
    this.#socket.on('data', onWake)
    this.#socket.on('error', onLost)
    this.#socket.on('end', () => onLost(new Error('the wake pipe of the mcprt library ended too early')))
  }

  /** Keeps the process alive, or no longer. @param {boolean} held */
  hold(held) {
    if (held === this.#held) return
    this.#held = held
    if (held) this.#socket.ref()
    else this.#socket.unref()
  }

  close() {
    this.#socket.removeAllListeners()
    this.#socket.on('error', () => {}) // closing cannot matter any more
    this.#socket.destroy()
  }
}
