/**
 * Questions that a server (or the library) asks the host: the handlers given to
 * open as onRequest answer them.
 */

import { Status } from './abi.js'
import { checkFunction, invalidArgument } from './arguments.js'
import { statusError } from './errors.js'

const INTERNAL_ERROR = -32603 // JSON-RPC

/** The library's name of a question, and ours. */
const KINDS = /** @type {Record<string, string>} */ ({
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
  authorization: 'authorization',
  input: 'input',
})

/** What a handler throws to tell the server why it gets no answer. */
export class ReplyError extends Error {
  /**
   * @param {string} message sent to the server
   * @param {number} [code] JSON-RPC error code
   */
  constructor(message, code = INTERNAL_ERROR) {
    super(message)
    this.code = code
  }

  get name() {
    return this.constructor.name
  }
}

/** @typedef {import('../index.js').RequestHandlers} Handlers */

/**
 * @param {Handlers} handlers
 * @returns {string[]} the kinds for open's "answers"
 */
export function answeredKinds(handlers) {
  for (const [kind, handler] of Object.entries(handlers)) {
    if (!Object.values(KINDS).includes(kind)) throw invalidArgument(`onRequest.${kind} is not a kind of request; the kinds are ${Object.values(KINDS).join(', ')}`)
    if (handler === undefined) continue // as everywhere, what is undefined is not there
    checkFunction('Runtime.open', `onRequest.${kind}`, handler)
  }
  return Object.keys(handlers).filter((kind) => handlers[/** @type {keyof Handlers} */ (kind)] !== undefined)
}

/** @typedef {{type: string, server: string, abort: AbortController, isAnswered: boolean}} OpenRequest */

export class RequestDesk {
  #handlers
  #reply
  #report
  /** @type {Map<number, OpenRequest>} by tag */
  #open = new Map()

  /**
   * @param {Handlers} handlers
   * @param {(tag: number, answer: string | undefined) => void} reply JSON; undefined: declined
   * @param {(error: unknown, request: {type: string, server: string}) => void} report a fault on the host's side
   */
  constructor(handlers, reply, report) {
    this.#handlers = handlers
    this.#reply = reply
    this.#report = report
  }

  get openRequests() {
    return this.#open.size
  }

  /**
   * @param {number} tag
   * @param {any} request
   */
  async answer(tag, { type, server, params, timeoutMs, attempt }) {
    const kind = Object.hasOwn(KINDS, type) ? KINDS[type] : ''
    /** @type {Record<string, any>} */
    const handlers = this.#handlers
    if (!Object.hasOwn(handlers, kind) || handlers[kind] === undefined) return this.#reply(tag, undefined)
    /** @type {OpenRequest} */
    const request = { type, server, abort: new AbortController(), isAnswered: false }
    this.#open.set(tag, request)
    let answer
    try {
      const result = await handlers[kind](params, { type, server, timeoutMs, attempt, signal: request.abort.signal })
      answer = JSON.stringify({ result: result ?? {} })
    } catch (error) {
      answer = JSON.stringify({ error: this.#explain(error, request) })
    }
    if (request.abort.signal.aborted) return
    request.isAnswered = true
    this.#reply(tag, answer)
  }

  /**
   * The library says that a request is over, whoever ended it.
   * @param {number} tag
   * @param {number} status
   */
  over(tag, status) {
    const request = this.#open.get(tag)
    if (!request) return
    this.#open.delete(tag)
    if (!request.isAnswered) request.abort.abort(statusError(status < 0 ? status : Status.ECANCELED))
    else if (status === Status.EINVAL) {
      this.#report(invalidArgument(`the answer to ${request.type} of server ${request.server} had the wrong shape; return the result that MCP defines for it`), request)
    }
  }

  /** Nothing can be answered any more. */
  allOver() {
    for (const tag of [...this.#open.keys()]) this.over(tag, Status.ECLOSED)
  }

  /**
   * What the server is told. The text of an unexpected error stays here: it may
   * hold what a server must not know.
   * @param {unknown} error
   * @param {OpenRequest} request
   */
  #explain(error, request) {
    if (error instanceof ReplyError) return { code: error.code, message: error.message }
    if (!request.abort.signal.aborted) this.#report(error, request)
    return { code: INTERNAL_ERROR, message: `the host failed to answer ${request.type}` }
  }
}
