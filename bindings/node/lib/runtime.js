/**
 * The runtime as a program sees it: the library's verbs as promises, its notices
 * as events.
 */

import { EventEmitter } from 'node:events'
import { isMainThread } from 'node:worker_threads'
import { Verb } from './abi.js'
import { checkFunction, checkSignal, checkString, encode, invalidArgument, optionsOf } from './arguments.js'
import { Channel } from './channel.js'
import { replyError } from './errors.js'
import { EventStream } from './events.js'
import { loadLibrary } from './library.js'
import { RequestDesk, answeredKinds } from './requests.js'
import { CallResult, Result, decodeFormatted, decodeReply } from './result.js'

const DEFAULT_STREAM_LIMIT = 1024
/** The emitter's own events, and the one that throws when nobody listens: never a server's to emit. */
const RESERVED = new Set(['newListener', 'removeListener', 'error'])

/** @type {FinalizationRegistry<Channel>} */
const dropped = new FinalizationRegistry((channel) => channel.abandon())

/** @type {Set<Channel>} */
const openInThisWorker = new Set()
if (!isMainThread) {
  // The process and its library outlive a worker: without this its servers would
  // run on with nobody to talk to.
  process.once('exit', () => {
    for (const channel of openInThisWorker) channel.abandon()
  })
}

/** @param {Buffer} data */
const toCallResult = (data) => new CallResult(Buffer.from(data))
/** @param {Buffer} data */
const toResult = (data) => new Result(Buffer.from(data))

export class Runtime extends EventEmitter {
  #channel
  #desk
  #sink
  /** @type {Set<EventStream>} */
  #streams = new Set()
  #isListenedTo = false
  #isReferenced = false
  #isOver = false

  /**
   * @param {import('../index.js').RuntimeOptions} [options]
   * @returns {Promise<Runtime>}
   */
  static async open(options) {
    const { onRequest, library, ...rest } = optionsOf('Runtime.open', options)
    const handlers = optionsOf('Runtime.open', onRequest, 'onRequest')
    const answers = answeredKinds(handlers)
    if (library !== undefined) checkString('Runtime.open', 'library', library)
    // The library sees the environment of the process's start, never later changes.
    const text = encode('Runtime.open', { ...rest, env: rest.env ?? process.env, answers })
    const native = await loadLibrary(library)
    const { status, handle, data } = await native.open(text)
    if (status < 0) throw replyError(status, data)
    try {
      return new Runtime(native, handle, handlers)
    } catch (error) {
      native.free(handle)
      throw error
    }
  }

  /**
   * Use Runtime.open.
   * @param {import('./native.js').Library} native
   * @param {number} handle
   * @param {import('../index.js').RequestHandlers} onRequest
   */
  constructor(native, handle, onRequest) {
    super()
    if (!native) throw new TypeError('a Runtime is made by "await Runtime.open(options)", not by new')
    this.#sink = {
      /** @param {Buffer} data */
      notice: (data) => this.#notice(data),
      /** @param {number} count */
      dropped: (count) => this.#publish({ type: 'dropped', count }),
      /** @param {number} tag @param {Buffer} data */
      request: (tag, data) => {
        void this.#desk.answer(tag, parse(data) ?? {})
        this.#updateReference()
      },
      /** @param {number} tag @param {number} status */
      requestOver: (tag, status) => {
        this.#desk.over(tag, status)
        this.#updateReference()
      },
      closed: () => this.#closed(),
    }
    const channel = new Channel(native, handle, this.#sink)
    this.#channel = channel
    this.#desk = new RequestDesk(
      onRequest,
      (tag, answer) => (answer === undefined ? channel.decline(tag) : channel.reply(tag, answer)),
      (error, { type, server }) => this.#publish({ type: 'request_failed', request: type, server, error }),
    )
    dropped.register(this, channel, this)
    if (!isMainThread) openInThisWorker.add(channel)
    this.on('removeListener', () => this.#listen(this.#hasListeners()))
    this.on('newListener', () => this.#listen(true))
  }

  /** @param {import('../index.js').Abortable} [options] */
  discover(options) {
    return this.#ask('Runtime.discover', Verb.DISCOVER, options)
  }

  /** @param {import('../index.js').ConnectOptions} [options] */
  connect(options) {
    return this.#ask('Runtime.connect', Verb.CONNECT, options)
  }

  /** @param {import('../index.js').ReloadOptions} [options] */
  reload(options) {
    return this.#ask('Runtime.reload', Verb.RELOAD, options)
  }

  /** @param {string} [server] @param {import('../index.js').Abortable} [options] */
  disconnect(server, options) {
    return this.#ask('Runtime.disconnect', Verb.DISCONNECT, options, { server })
  }

  /** @param {import('../index.js').ListOptions} [options] */
  list(options) {
    return this.#ask('Runtime.list', Verb.LIST, options)
  }

  /** @param {Omit<import('../index.js').ListOptions, 'kind' | 'ifRevision'>} [options] */
  async tools(options) {
    return (await this.#ask('Runtime.tools', Verb.LIST, options, { kind: 'tools' })).tools
  }

  /** @param {Omit<import('../index.js').ListOptions, 'kind' | 'ifRevision'>} [options] */
  async servers(options) {
    return (await this.#ask('Runtime.servers', Verb.LIST, options, { kind: 'servers' })).servers
  }

  /**
   * @param {string} name
   * @param {object | string} [args]
   * @param {import('../index.js').CallOptions & {server?: string, format?: import('../index.js').Format, callId?: string}} [options]
   */
  call(name, args, options) {
    return this.#send('Runtime.call', { tool: name, arguments: args }, options, toCallResult)
  }

  /**
   * @param {string | null} server
   * @param {string} method
   * @param {object} [params]
   * @param {import('../index.js').CallOptions} [options]
   */
  request(server, method, params, options) {
    return this.#send('Runtime.request', { server: server ?? undefined, method, params }, options, toResult)
  }

  /** @param {string} server @param {import('../index.js').Abortable & {timeoutMs?: number}} [options] */
  async login(server, options) {
    return (await this.request(null, 'mcprt/auth.login', { server }, options)).json
  }

  /** @param {string} server @param {import('../index.js').Abortable & {timeoutMs?: number}} [options] */
  async logout(server, options) {
    return (await this.request(null, 'mcprt/auth.logout', { server }, options)).json
  }

  /** @param {import('../index.js').Abortable} [options] */
  async stats(options) {
    return (await this.request(null, 'mcprt/stats', undefined, options)).json
  }

  /** @param {{graceMs?: number}} [options] */
  async close(options) {
    const { graceMs } = optionsOf('Runtime.close', options)
    if (graceMs !== undefined && !(Number.isSafeInteger(graceMs) && graceMs >= 0)) {
      throw invalidArgument('Runtime.close: graceMs must be a whole number of milliseconds, 0 or more')
    }
    return this.#channel.close(encode('Runtime.close', { graceMs }))
  }

  get closed() {
    return this.#channel.isClosed
  }

  /** @param {import('../index.js').Abortable & {limit?: number}} [options] */
  events(options) {
    const { signal, limit = DEFAULT_STREAM_LIMIT } = optionsOf('Runtime.events', options)
    checkSignal('Runtime.events', signal)
    if (!(Number.isSafeInteger(limit) && limit > 0)) throw invalidArgument('Runtime.events: limit must be a whole number above 0')
    const stream = new EventStream({
      signal,
      limit,
      onWaiting: () => this.#updateReference(),
      onEnd: () => {
        this.#streams.delete(stream)
        this.#listen(this.#hasListeners())
        this.#updateReference()
      },
    })
    if (this.#isOver) stream.end()
    else if (!signal?.aborted) {
      this.#streams.add(stream)
      this.#listen(true)
    }
    return stream
  }

  ref() {
    this.#isReferenced = true
    this.#updateReference()
    return this
  }

  unref() {
    this.#isReferenced = false
    this.#updateReference()
    return this
  }

  /**
   * A verb whose reply is a report or a list. A wrong argument rejects, as every other failure does.
   * @param {string} where
   * @param {number} verb
   * @param {(import('../index.js').Abortable & {format?: string}) | undefined} options
   * @param {object} [members] of the request, besides the options
   * @returns {Promise<any>}
   */
  async #ask(where, verb, options, members) {
    const { signal, ...request } = optionsOf(where, options)
    checkSignal(where, signal)
    const decode = (request.format ?? 'mcp') === 'mcp' ? decodeReply : decodeFormatted
    return this.#channel.submit(verb, encode(where, { ...request, ...members }), decode, { signal })
  }

  /**
   * A request to a server.
   * @param {string} where
   * @param {object} members of the request, besides the options
   * @param {(import('../index.js').CallOptions & {server?: string}) | undefined} options
   * @param {(data: Buffer) => any} decode
   * @returns {Promise<any>}
   */
  #send(where, members, options, decode) {
    try {
      const { meta, signal, onProgress, ...rest } = optionsOf(where, options)
      checkSignal(where, signal)
      checkFunction(where, 'onProgress', onProgress)
      const request = encode(where, { ...rest, ...members, progress: onProgress && true, _meta: meta })
      return this.#channel.submit(Verb.CALL, request, decode, { signal, onProgress })
    } catch (error) {
      return Promise.reject(error) // this is the hot path: no promise besides the operation's own
    }
  }

  #updateReference() {
    const isAwaited = [...this.#streams].some((stream) => stream.waiting > 0)
    this.#channel.reference(this.#isReferenced || isAwaited || this.#desk.openRequests > 0)
  }

  /** @param {boolean} yes */
  #listen(yes) {
    this.#isListenedTo = yes
    this.#channel.listen(yes)
  }

  #hasListeners() {
    return this.#streams.size > 0 || this.eventNames().some((name) => !RESERVED.has(String(name)))
  }

  /** @param {Buffer} data */
  #notice(data) {
    // Decoding what nobody looks at is the only cost of an event, so do not.
    if (!this.#isListenedTo && !this.#channel.wantsProgress) return
    const event = parse(data) ?? { type: 'dropped', count: 1 }
    if (event.type === 'progress') {
      const onProgress = this.#channel.progressOf(event.tag)
      if (onProgress) guarded(() => onProgress(event))
    }
    this.#publish(event)
  }

  /** @param {any} event */
  #publish(event) {
    for (const stream of this.#streams) stream.push(event)
    if (!RESERVED.has(event.type)) guarded(() => this.emit(event.type, event))
    guarded(() => this.emit('event', event))
  }

  #closed() {
    this.#isOver = true
    dropped.unregister(this)
    openInThisWorker.delete(this.#channel)
    this.#desk.allOver()
    for (const stream of [...this.#streams]) stream.end()
    guarded(() => this.emit('closed'))
  }
}

if (Symbol.asyncDispose) {
  Object.defineProperty(Runtime.prototype, Symbol.asyncDispose, {
    /** @this {Runtime} */
    value() {
      return this.close()
    },
  })
}

/**
 * A server's own JSON is inside, and it may be broken.
 * @param {Buffer} data
 * @returns {any} undefined: not valid JSON
 */
function parse(data) {
  try {
    return JSON.parse(data.toString())
  } catch {
    return undefined
  }
}

/**
 * A listener that throws is the program's fault: it must surface there, as an
 * uncaught exception, and not stop the frames behind it.
 * @param {() => void} run
 */
function guarded(run) {
  try {
    run()
  } catch (error) {
    process.nextTick(() => {
      throw error
    })
  }
}
