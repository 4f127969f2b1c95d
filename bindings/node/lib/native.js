/**
 * The C functions, bound through koffi. This is the only file that knows koffi:
 * another FFI (bun:ffi, Deno.dlopen) needs one more file with this class's shape.
 *
 * Only functions that stay in C are called on the hot path (submit, cancel,
 * drain), none blocks, and no callback ever comes from another thread: koffi
 * callbacks from foreign threads can crash the process.
 */

import { FrameReader } from './frames.js'
import { Wake } from './wake.js'

/** @typedef {typeof import('koffi').default} Koffi */
/** @typedef {Native | import('./serve.js').ServedLibrary} Library what a Channel needs, and what may stand behind it */

const POINTER_AND_LENGTH = 16 // struct mcprt_buf on the 64-bit platforms that Go supports
const SCRATCH = 64 * 1024

export class Native {
  #koffi
  #check
  #version
  #open
  #free
  #submit
  #cancel
  #drain
  #notifyFd
  #bufFree

  // mcprt_submit copies its input before it returns, so one buffer serves every
  // request that fits; a larger one gets a buffer of its own.
  #scratch = Buffer.allocUnsafeSlow(SCRATCH)
  #size = new Uint32Array(2) // the low half holds every size: frames are at most 1 GiB

  /**
   * @param {Koffi} koffi
   * @param {string} path of the shared library
   */
  constructor(koffi, path) {
    this.#koffi = koffi
    const lib = koffi.load(path)
    this.#version = lib.func('const char *mcprt_version(void)')
    this.#check = lib.func('int32_t mcprt_check(int32_t abi, int32_t minor)')
    this.#open = lib.func('int32_t mcprt_open(const void *options, size_t len, void *mgr, void *out)')
    this.#free = lib.func('void mcprt_free(uint64_t mgr)')
    this.#submit = lib.func(
      'int32_t mcprt_submit(uint64_t mgr, int32_t verb, uint32_t flags, uint64_t tag, const void *req, size_t len)',
    )
    this.#cancel = lib.func('int32_t mcprt_cancel(uint64_t mgr, uint64_t tag, uint32_t flags)')
    this.#drain = lib.func('int32_t mcprt_drain(uint64_t mgr, void *buf, size_t cap, void *used)')
    this.#notifyFd = lib.func('int32_t mcprt_notify_fd(uint64_t mgr)')
    this.#bufFree = lib.func('void mcprt_buf_free(void *buf)')
  }

  /** @returns {string} such as "0.1.0" */
  version() {
    return this.#version()
  }

  /**
   * @param {number} abi
   * @param {number} minor
   * @returns {number} status
   */
  check(abi, minor) {
    return this.#check(abi, minor)
  }

  /**
   * @param {string} options JSON
   * @returns {{status: number, handle: number, data: Buffer}} data is the JSON error, or empty
   */
  open(options) {
    const text = Buffer.from(options)
    const manager = Buffer.alloc(8)
    const out = Buffer.alloc(POINTER_AND_LENGTH)
    const status = this.#open(text, text.length, manager, out)
    return { status, handle: Number(manager.readBigUInt64LE()), data: this.#take(out) }
  }

  /**
   * Never blocks, never enters Go: fit for a finaliser.
   * @param {number} handle
   */
  free(handle) {
    this.#free(handle)
  }

  /**
   * @param {number} handle
   * @param {number} verb
   * @param {number} tag
   * @param {string} request JSON
   * @returns {number} status
   */
  submit(handle, verb, tag, request) {
    // A UTF-16 unit takes at most three bytes of UTF-8.
    if (request.length * 3 <= SCRATCH) {
      return this.#submit(handle, verb, 0, tag, this.#scratch, this.#scratch.write(request))
    }
    const text = Buffer.from(request)
    return this.#submit(handle, verb, 0, tag, text, text.length)
  }

  /**
   * @param {number} handle
   * @param {number} tag
   * @returns {number} status
   */
  cancel(handle, tag) {
    return this.#cancel(handle, tag, 0)
  }

  /**
   * @param {number} handle
   * @param {Buffer} buffer
   * @returns {number} how many items were written to buffer, or a status; `used` says how many bytes
   */
  drain(handle, buffer) {
    return this.#drain(handle, buffer, buffer.length, this.#size)
  }

  /** Bytes that the last drain wrote, or, after ERANGE, that it needs. */
  get used() {
    return this.#size[0]
  }

  /**
   * @param {number} handle
   * @returns {number} a descriptor that the caller owns, or a status
   */
  notifyFd(handle) {
    return this.#notifyFd(handle)
  }

  /**
   * Takes out what a manager has queued.
   * @param {number} handle
   */
  reader(handle) {
    return new FrameReader(this, handle)
  }

  /**
   * Tells when the queue of a manager is no longer empty.
   * @param {number} handle
   * @param {() => void} onWake
   * @param {(error: Error) => void} onLost wake-ups will not come any more
   */
  watch(handle, onWake, onLost) {
    return new Wake(this, handle, onWake, onLost)
  }

  /**
   * Copies an mcprt_buf and gives it back.
   * @param {Buffer} out
   * @returns {Buffer}
   */
  #take(out) {
    const pointer = out.readBigUInt64LE(0)
    const length = Number(out.readBigUInt64LE(8))
    if (pointer === 0n) return Buffer.alloc(0)
    try {
      return Buffer.from(Buffer.from(this.#koffi.view(pointer, length)))
    } finally {
      this.#bufFree(out)
    }
  }
}
