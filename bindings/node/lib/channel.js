/**
 * One manager of the library as a queue: requests go in with a tag, promises
 * settle when the frame with that tag comes out.
 *
 * The socket in Wake is a root for the garbage collector, and it leads here. So
 * nothing here holds the Runtime, except while something is unfinished: a
 * Runtime that the program dropped can be collected, and its manager freed.
 */

import { Aborts } from './aborts.js'
import { EventKind, Status, TAG_MAX, Verb } from './abi.js'
import { mcpError, replyError, statusError } from './errors.js'

/**
 * Receives what is not the completion of an operation. Its methods must not throw.
 * @typedef {object} Sink
 * @property {(data: Buffer) => void} notice  data is valid only during the call
 * @property {(count: number) => void} dropped
 * @property {(tag: number, data: Buffer) => void} request
 * @property {(tag: number, status: number) => void} requestOver
 * @property {() => void} closed
 */

/**
 * @typedef {object} SubmitOptions
 * @property {AbortSignal} [signal]
 * @property {(progress: any) => void} [onProgress]
 */

/** One promise of ours. */
class Operation {
  tag = 0
  /** @type {(value: any) => void} */
  resolve = () => {}
  /** @type {(error: unknown) => void} */
  reject = () => {}

  /**
   * @param {number} verb
   * @param {string} request
   * @param {(data: Buffer) => any} decode
   * @param {SubmitOptions} options
   */
  constructor(verb, request, decode, { signal, onProgress }) {
    this.verb = verb
    this.request = request
    this.decode = decode
    this.signal = signal
    this.onProgress = onProgress
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}

export class Channel {
  #native
  #handle
  #reader
  #wake
  /** @type {WeakRef<Sink>} */
  #sink
  /** @type {Sink | undefined} keeps the sink, and so the Runtime, while something is unfinished */
  #kept
  #nextTag = 1
  /** @type {Map<number, Operation>} submitted, and somebody waits */
  #pending = new Map()
  /** @type {Set<Operation>} not submitted yet: the library was full */
  #waiting = new Set()
  #aborts = new Aborts()
  /** Submitted and not completed, those that nobody waits for included. */
  #inFlight = 0
  /** @type {Map<number, (progress: any) => void>} by the operation's tag */
  #progress = new Map()
  #isListenedTo = false
  #isReferenced = false
  #pumpScheduled = false
  #closedSeen = false
  #ended = false
  /** @type {Promise<void> | undefined} */
  #closing
  /** @type {() => void} */
  #onEnded = () => {}

  /**
   * @param {import('./native.js').Library} native
   * @param {number} handle
   * @param {Sink} sink held weakly
   */
  constructor(native, handle, sink) {
    this.#native = native
    this.#handle = handle
    this.#sink = new WeakRef(sink)
    this.#reader = native.reader(handle)
    this.#wake = native.watch(
      handle,
      () => this.#pump(),
      (error) => this.#lose(error),
    )
  }

  get isClosed() {
    return this.#closing !== undefined || this.#ended
  }

  /** Operations submitted and not completed. */
  get inFlight() {
    return this.#inFlight
  }

  /** Operations held back until the library has room. */
  get waiting() {
    return this.#waiting.size
  }

  /** Somebody listens for events: the Runtime is not collected. @param {boolean} yes */
  listen(yes) {
    this.#isListenedTo = yes
    this.#hold()
  }

  /** The process stays alive although nothing is unfinished. @param {boolean} yes */
  reference(yes) {
    this.#isReferenced = yes
    this.#hold()
  }

  /**
   * @param {number} verb
   * @param {string} request JSON
   * @param {(data: Buffer) => any} decode runs while the data is valid
   * @param {SubmitOptions} [options]
   * @returns {Promise<any>}
   */
  submit(verb, request, decode, options = {}) {
    const { signal } = options
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (this.isClosed) return Promise.reject(statusError(Status.ECLOSED))
    const operation = new Operation(verb, request, decode, options)
    if (signal) this.#aborts.watch(signal, operation, (aborted) => this.#abort(aborted))
    // A queue that somebody already waits in is a queue for everybody, else the
    // late ones would overtake. The library never refuses a disconnect.
    const mustWait = this.#waiting.size > 0 && verb !== Verb.DISCONNECT
    if (mustWait || !this.#send(operation)) this.#waiting.add(operation)
    if (this.#inFlight === 0) this.#pumpSoon()
    this.#hold()
    return operation.promise
  }

  /**
   * @param {number} tag of a request
   * @param {string} answer JSON
   */
  reply(tag, answer) {
    if (this.#ended) return
    // A request that is over meanwhile gives ETAG: the answer is dropped.
    this.#native.submit(this.#handle, Verb.REPLY, tag, answer)
  }

  /** The host does not answer. @param {number} tag of a request */
  decline(tag) {
    if (!this.#ended) this.#native.cancel(this.#handle, tag)
  }

  /** Whether an operation in flight wants progress. */
  get wantsProgress() {
    return this.#progress.size > 0
  }

  /** @param {number} tag @returns {((progress: any) => void) | undefined} who wants that operation's progress */
  progressOf(tag) {
    return this.#progress.get(tag)
  }

  /**
   * @param {string} request JSON
   * @returns {Promise<void>} settles when the library has ended every server
   */
  close(request) {
    if (this.#closing) return this.#closing
    if (this.#ended) return Promise.resolve()
    this.#closing = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    for (const operation of this.#waiting) this.#fail(operation, statusError(Status.ECLOSED))
    const status = this.#native.submit(this.#handle, Verb.CLOSE, this.#nextTag++, request)
    if (status === Status.OK) this.#inFlight++
    else this.#end(() => statusError(status))
    this.#hold()
    return this.#closing
  }

  /** Gives the manager back at once; the library closes it in the background. */
  abandon() {
    this.#end(() => statusError(Status.ECLOSED))
  }

  /**
   * @param {Operation} operation
   * @returns {boolean} false: the library is full
   */
  #send(operation) {
    operation.tag = this.#nextTag++
    // Before the submit: the completion may be there as soon as it returns.
    this.#pending.set(operation.tag, operation)
    if (operation.onProgress) this.#progress.set(operation.tag, operation.onProgress)
    const status = this.#native.submit(this.#handle, operation.verb, operation.tag, operation.request)
    if (status === Status.OK) {
      operation.request = ''
      this.#inFlight++
      return true
    }
    this.#pending.delete(operation.tag)
    this.#progress.delete(operation.tag)
    if (status === Status.EBUSY) return false
    this.#fail(operation, statusError(status))
    return true
  }

  /** @param {Operation} operation */
  #abort(operation) {
    if (!this.#waiting.has(operation)) this.#native.cancel(this.#handle, operation.tag)
    this.#fail(operation, operation.signal?.reason)
    this.#hold()
  }

  /** @param {Operation} operation @param {unknown} error */
  #fail(operation, error) {
    this.#forget(operation)
    operation.reject(error)
  }

  /** Whatever the end, nothing may lead to an operation any more. @param {Operation} operation */
  #forget(operation) {
    this.#waiting.delete(operation)
    this.#pending.delete(operation.tag)
    this.#progress.delete(operation.tag)
    if (operation.signal) this.#aborts.unwatch(operation.signal, operation)
  }

  /** Takes everything out of the library's queue, then fills the room that this made. */
  #pump() {
    if (this.#ended) return
    try {
      const isEmpty = this.#reader.drain((frame) => this.#receive(frame))
      if (this.#closedSeen) return this.#end(() => statusError(Status.ECLOSED))
      this.#refill()
      if (!isEmpty) this.#pumpSoon()
    } catch (error) {
      this.#lose(error)
    }
    this.#hold()
  }

  #pumpSoon() {
    if (this.#pumpScheduled || this.#ended) return
    this.#pumpScheduled = true
    setImmediate(() => {
      this.#pumpScheduled = false
      this.#pump()
    })
  }

  #refill() {
    for (const operation of this.#waiting) {
      if (!this.#send(operation)) {
        if (this.#inFlight > 0) return
        // Nothing will complete and make room, so waiting longer is hopeless.
        this.#fail(operation, statusError(Status.EBUSY))
      }
      this.#waiting.delete(operation)
    }
  }

  /** @param {import('./frames.js').Frame} frame */
  #receive({ kind, tag, status, data }) {
    const sink = this.#sink.deref()
    switch (kind) {
      case EventKind.DONE:
        if (tag > TAG_MAX) sink?.requestOver(tag, status)
        else this.#complete(tag, status, data)
        break
      case EventKind.NOTICE:
        sink?.notice(data)
        break
      case EventKind.REQUEST:
        if (sink) sink.request(tag, data)
        else this.decline(tag)
        break
      case EventKind.DROPPED:
        sink?.dropped(status)
        break
      case EventKind.CLOSED:
        this.#closedSeen = true // the queue's last item; the reader finishes first
        break
      // Kinds of a newer library are skipped.
    }
  }

  /**
   * @param {number} tag
   * @param {number} status
   * @param {Buffer} data
   */
  #complete(tag, status, data) {
    this.#inFlight--
    const operation = this.#pending.get(tag)
    if (!operation) return // aborted: its promise is settled
    try {
      if (status < 0) throw replyError(status, data)
      operation.resolve(operation.decode(data))
      this.#forget(operation)
    } catch (error) {
      this.#fail(operation, error)
    }
  }

  /** The queue cannot be read any more: nobody may wait for ever. @param {unknown} error */
  #lose(error) {
    const message = error instanceof Error ? error.message : String(error)
    this.#end(() => mcpError({ code: 'internal', message: `the connection to the mcprt library broke (${message}); open a new runtime` }))
  }

  /** @param {() => Error} error made for each unfinished operation */
  #end(error) {
    if (this.#ended) return
    this.#ended = true
    this.#wake.close()
    this.#native.free(this.#handle)
    for (const operation of [...this.#pending.values(), ...this.#waiting]) this.#fail(operation, error())
    this.#sink.deref()?.closed()
    this.#kept = undefined
    this.#onEnded()
  }

  #hold() {
    if (this.#ended) return
    const isUnfinished = this.#pending.size > 0 || this.#waiting.size > 0 || this.#closing !== undefined || this.#isReferenced
    this.#wake.hold(isUnfinished)
    this.#kept = isUnfinished || this.#isListenedTo ? this.#sink.deref() : undefined
  }
}
