/**
 * `mcprt serve` in the place of the shared library: the same functions over a pair
 * of pipes (docs/serve.md). It has the shape of Native. One process serves all
 * runtimes of a thread, as one library does.
 */

import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { EventKind, Status, TAG_MAX, Verb } from './abi.js'
import { LibraryError } from './errors.js'

/** Kinds of frames besides the verbs and events of mcprt.h. */
const To = { OPEN: 16, CANCEL: 17, FREE: 18, CREDIT: 19 }
const From = { HELLO: 16, OPENED: 17, ENDED: 18 }
const HEADER = 32
const MANAGER = 8 // bytes of the header before the mcprt_frame
const FRAME = HEADER - MANAGER
/** A tool that is what it says answers in milliseconds; this is for a machine that is very busy. */
const HELLO_TIMEOUT = 30_000
const STDERR_KEPT = 2000

/** @param {number} length @returns {number} of an mcprt_frame with its data and padding */
const sizeOf = (length) => Math.floor((FRAME + length + 8) / 8) * 8

/** @typedef {import('./frames.js').Frame} Frame */

/** What is known here of one manager. */
class Manager {
  maxInFlight = 0
  queueBytes = 0
  isClosing = false
  /** Submitted, and not drained. @type {Set<number>} */
  tags = new Set()
  /** Questions that are open. @type {Set<number>} */
  requests = new Set()
  /** @type {Frame[]} */
  queue = []
  /** Bytes of the queue without its notices. */
  waiting = 0
  /** Bytes drained that the tool does not know of. */
  drained = 0
  onWake = () => {}
  /** @type {((opened: {status: number, data: Buffer}) => void) | undefined} */
  onOpened

  /** @param {Frame} frame */
  add(frame) {
    this.queue.push(frame)
    if (frame.kind !== EventKind.NOTICE) this.waiting += sizeOf(frame.data.length)
  }
}

export class ServedLibrary {
  #tool
  #child
  #nextHandle = 1
  /** @type {Map<number, Manager>} */
  #managers = new Map()
  #holds = 0
  #window = 0
  #version = ''
  #abi = -1
  #minor = -1
  #stderr = ''
  /** @type {Buffer | undefined} the JSON of why it has gone */
  #dead
  #onDead
  /** Bytes that have come and are not a whole frame yet. @type {Buffer[]} */
  #chunks = []
  #have = 0
  #need = HEADER
  /** @type {(error?: LibraryError) => void} */
  #onHello = () => {}

  /**
   * @param {string} tool path of the command line tool
   * @param {() => void} onDead the process has gone, and the next runtime needs another
   * @param {number} [timeoutMs] for its first word
   * @returns {Promise<ServedLibrary>}
   */
  static async start(tool, onDead, timeoutMs = HELLO_TIMEOUT) {
    const library = new ServedLibrary(tool, onDead)
    const timer = setTimeout(() => {
      library.#child.kill('SIGKILL')
      library.#lose(`it said nothing within ${timeoutMs / 1000} s`)
    }, timeoutMs)
    try {
      await new Promise((resolve, reject) => {
        library.#onHello = (error) => (error ? reject(error) : resolve(undefined))
      })
    } finally {
      clearTimeout(timer)
    }
    library.#reference()
    return library
  }

  /** @param {string} tool @param {() => void} onDead */
  constructor(tool, onDead) {
    this.#tool = tool
    this.#onDead = onDead
    const child = spawn(tool, ['serve'], { stdio: 'pipe', windowsHide: true })
    this.#child = child
    child.on('error', (error) => this.#lose(`it cannot be run: ${error.message}`))
    child.on('close', (code, signal) => this.#lose(signal ? `it was ended by ${signal}` : `it ended with status ${code}`))
    child.stdin.on('error', () => {}) // it has gone: "close" says so
    child.stdout.on('error', () => {})
    child.stdout.on('data', (chunk) => this.#receive(chunk))
    child.stderr.on('data', (chunk) => {
      this.#stderr = (this.#stderr + chunk).slice(0, STDERR_KEPT)
    })
  }

  version() {
    return this.#version
  }

  /** @param {number} abi @param {number} minor @returns {number} status */
  check(abi, minor) {
    return this.#abi === abi && this.#minor >= minor ? Status.OK : Status.EVERSION
  }

  /** Ends the process, and with it every server. */
  shutdown() {
    this.#child.stdin.end()
  }

  /**
   * @param {string} options JSON
   * @returns {Promise<{status: number, handle: number, data: Buffer}>} data is the JSON error, or empty
   */
  async open(options) {
    if (this.#dead) return { status: Status.EINTERNAL, handle: 0, data: this.#dead }
    const handle = this.#nextHandle++
    const manager = new Manager()
    this.#managers.set(handle, manager)
    this.#hold(1)
    const opened = new Promise((/** @type {(opened: {status: number, data: Buffer}) => void} */ resolve) => {
      manager.onOpened = resolve
    })
    this.#send(handle, To.OPEN, 0, 0, withCwd(options))
    const { status, data } = await opened
    this.#hold(-1)
    if (status < 0) {
      this.#managers.delete(handle)
      return { status, handle: 0, data }
    }
    Object.assign(manager, JSON.parse(data.toString()))
    return { status, handle, data: Buffer.alloc(0) }
  }

  /** @param {number} handle */
  free(handle) {
    if (this.#managers.delete(handle)) this.#send(handle, To.FREE)
  }

  /**
   * @param {number} handle
   * @param {number} verb
   * @param {number} tag
   * @param {string} request JSON
   * @returns {number} status
   */
  submit(handle, verb, tag, request) {
    const manager = this.#managers.get(handle)
    if (!manager) return Status.EHANDLE
    if (verb !== Verb.REPLY) {
      if (manager.isClosing) return Status.ECLOSED
      if (manager.tags.has(tag)) return Status.ETAG
      const limit = manager.queueBytes
      const isFull = manager.tags.size >= manager.maxInFlight || manager.waiting > limit || this.#child.stdin.writableLength > limit
      if (isFull && verb !== Verb.DISCONNECT && verb !== Verb.CLOSE) return Status.EBUSY
      manager.tags.add(tag)
      manager.isClosing = verb === Verb.CLOSE
    }
    this.#send(handle, verb, 0, tag, request)
    return Status.OK
  }

  /** @param {number} handle @param {number} tag @returns {number} status */
  cancel(handle, tag) {
    if (!this.#managers.has(handle)) return Status.EHANDLE
    this.#send(handle, To.CANCEL, 0, tag)
    return Status.OK
  }

  /**
   * Takes out what a manager has queued.
   * @param {number} handle
   * @returns {{drain(receive: (frame: Frame) => void): boolean}} see FrameReader
   */
  reader(handle) {
    return {
      drain: (receive) => {
        const manager = this.#managers.get(handle)
        if (!manager) return true
        const frames = manager.queue
        manager.queue = []
        for (const frame of frames) {
          const size = sizeOf(frame.data.length)
          manager.drained += size
          if (frame.kind !== EventKind.NOTICE) manager.waiting -= size
          if (frame.kind === EventKind.DONE) manager.tags.delete(frame.tag)
          receive(frame)
        }
        if (manager.drained >= this.#window / 2) {
          this.#send(handle, To.CREDIT, 0, manager.drained)
          manager.drained = 0
        }
        return true
      },
    }
  }

  /**
   * @param {number} handle
   * @param {() => void} onWake the queue is no longer empty
   * @returns {{hold(yes: boolean): void, close(): void}} see Wake
   */
  watch(handle, onWake) {
    let isHeld = false
    /** @param {boolean} yes */
    const hold = (yes) => {
      if (yes !== isHeld) this.#hold(yes ? 1 : -1)
      isHeld = yes
    }
    const manager = this.#managers.get(handle)
    if (manager) manager.onWake = onWake
    return {
      hold,
      close: () => {
        hold(false)
        if (manager) manager.onWake = () => {}
      },
    }
  }

  /** The process of the host stays alive while somebody holds. @param {number} change */
  #hold(change) {
    this.#holds += change
    this.#reference()
  }

  #reference() {
    const method = this.#holds > 0 ? 'ref' : 'unref'
    const { stdin, stdout, stderr } = this.#child
    this.#child[method]()
    // Sockets, although they are declared as streams.
    for (const socket of /** @type {any[]} */ ([stdin, stdout, stderr])) socket[method]?.()
  }

  /**
   * @param {number} handle
   * @param {number} kind
   * @param {number} [status]
   * @param {number} [tag]
   * @param {string} [text]
   */
  #send(handle, kind, status = 0, tag = 0, text = '') {
    if (this.#dead) return
    const length = Buffer.byteLength(text)
    const size = sizeOf(length)
    const frame = Buffer.alloc(MANAGER + size)
    frame.writeBigUInt64LE(BigInt(handle), 0)
    frame.writeBigUInt64LE(BigInt(tag), 8)
    frame.writeInt32LE(status, 16)
    frame.writeUInt16LE(kind, 20)
    frame.writeUInt32LE(length, 24)
    frame.writeUInt32LE(size, 28)
    frame.write(text, HEADER)
    this.#child.stdin.write(frame)
  }

  /** @param {Buffer} chunk */
  #receive(chunk) {
    this.#chunks.push(chunk)
    this.#have += chunk.length
    if (this.#have < this.#need) return
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    /** @type {Set<Manager>} */
    const woken = new Set()
    let at = 0
    this.#need = HEADER
    while (bytes.length - at >= HEADER) {
      const length = bytes.readUInt32LE(at + 24)
      const size = bytes.readUInt32LE(at + 28)
      if (size !== sizeOf(length)) {
        this.#child.kill('SIGKILL')
        this.#lose('what it wrote is not understood')
        return
      }
      if (bytes.length - at < MANAGER + size) {
        this.#need = MANAGER + size
        break
      }
      const manager = this.#take(Number(bytes.readBigUInt64LE(at)), {
        tag: Number(bytes.readBigUInt64LE(at + 8)),
        status: bytes.readInt32LE(at + 16),
        kind: bytes.readUInt16LE(at + 20),
        data: bytes.subarray(at + HEADER, at + HEADER + length),
      })
      if (manager) woken.add(manager)
      at += MANAGER + size
    }
    this.#chunks = at < bytes.length ? [bytes.subarray(at)] : []
    this.#have = bytes.length - at
    for (const manager of woken) manager.onWake()
  }

  /**
   * @param {number} handle
   * @param {Frame} frame
   * @returns {Manager | undefined} whose queue has something new
   */
  #take(handle, frame) {
    const { kind, status, tag, data } = frame
    if (handle === 0) {
      if (kind === From.HELLO) this.#hello(data)
      return undefined
    }
    const manager = this.#managers.get(handle)
    if (!manager) return undefined // freed
    if (kind === From.OPENED) manager.onOpened?.({ status, data })
    if (kind > EventKind.CLOSED) return undefined
    if (kind === EventKind.REQUEST) manager.requests.add(tag)
    if (kind === EventKind.DONE) manager.requests.delete(tag)
    manager.add(frame)
    return manager
  }

  /** @param {Buffer} data */
  #hello(data) {
    const { version, abi, minor, window } = JSON.parse(data.toString())
    this.#version = version
    this.#abi = abi
    this.#minor = minor
    this.#window = window
    this.#onHello()
  }

  /** The process has gone: whoever waits is told. @param {string} how */
  #lose(how) {
    if (this.#dead) return
    const said = this.#stderr.trim().split('\n')[0]
    const why = said ? `${how}: ${said}` : how
    const message = `"mcprt serve" has ended (${why}); open a new runtime`
    const data = Buffer.from(JSON.stringify({ error: { code: 'internal', message, retryable: false } }))
    this.#dead = data
    this.#onDead()
    this.#onHello(new LibraryError(`"${this.#tool} serve", which takes the place of the mcprt library here, did not start: ${why}`))
    for (const manager of [...this.#managers.values()]) {
      manager.isClosing = true
      manager.onOpened?.({ status: Status.EINTERNAL, data })
      const queued = new Set(manager.queue.filter(({ kind }) => kind === EventKind.DONE).map(({ tag }) => tag))
      for (const tag of manager.tags) {
        if (!queued.has(tag)) manager.add({ kind: EventKind.DONE, tag, status: Status.EINTERNAL, data })
      }
      for (const tag of manager.requests) manager.add({ kind: EventKind.DONE, tag, status: Status.ECLOSED, data: Buffer.alloc(0) })
      if (!manager.queue.some(({ kind }) => kind === EventKind.CLOSED)) manager.add({ kind: EventKind.CLOSED, tag: 0, status: 0, data: Buffer.alloc(0) })
      manager.onWake()
    }
  }
}

/**
 * The current folder of the tool stays what it was at its start, whereas this
 * process may have changed its own.
 * @param {string} options JSON
 */
function withCwd(options) {
  const put = JSON.parse(options)
  if (put.cwd === undefined || typeof put.cwd === 'string') put.cwd = resolve(put.cwd ?? '')
  return JSON.stringify(put)
}
