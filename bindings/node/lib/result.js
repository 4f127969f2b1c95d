/**
 * Results and tools: the server's bytes, decoded when somebody looks.
 */

import { inspect } from 'node:util'
import { elementSpans, memberSpan } from './json.js'

/**
 * A member of a reply beside "result".
 * @type {(result: Result, name: string) => any}
 */
let memberOf

/** What a server sent as the result of one request. */
export class Result {
  #envelope
  /** @type {Buffer | undefined} */
  #raw
  /** @type {any} */
  #decoded

  /** @param {Buffer} envelope `{"result":…}`; belongs to this object from now on */
  constructor(envelope) {
    this.#envelope = envelope
  }

  get raw() {
    if (this.#raw === undefined) {
      const span = memberSpan(this.#envelope, 'result') ?? { start: 0, end: 0 }
      this.#raw = this.#envelope.subarray(span.start, span.end)
    }
    return this.#raw
  }

  get json() {
    return this.#reply.result
  }

  get #reply() {
    return (this.#decoded ??= JSON.parse(this.#envelope.toString()))
  }

  static {
    memberOf = (result, name) => result.#reply[name]
  }

  toJSON() {
    return this.json
  }

  [inspect.custom]() {
    return this.json
  }
}

/** The result of a tool. A server may leave out or misuse any member, so nothing is taken for granted. */
export class CallResult extends Result {
  get content() {
    const content = this.json?.content
    return Array.isArray(content) ? content : []
  }

  get structuredContent() {
    return this.json?.structuredContent
  }

  get isError() {
    return this.json?.isError === true
  }

  get message() {
    return memberOf(this, 'message')
  }

  get followUp() {
    return memberOf(this, 'followUp')
  }

  get text() {
    return this.content
      .filter((item) => item?.type === 'text')
      .map((item) => item.text)
      .join('\n')
  }
}

/** One tool of the list, as the library describes it. */
export class Tool {
  #raw
  /** @type {any} */
  #decoded

  /** @param {Buffer} raw one JSON object; belongs to this object from now on */
  constructor(raw) {
    this.#raw = raw
  }

  get raw() {
    return this.#raw
  }

  get json() {
    return (this.#decoded ??= JSON.parse(this.#raw.toString()))
  }

  toJSON() {
    return this.json
  }

  [inspect.custom]() {
    return this.json
  }
}

const TOOL_MEMBERS = [
  'name', 'server', 'tool', 'label', 'title', 'description', 'inputSchema', 'outputSchema',
  'annotations', '_meta', 'deferred', 'stale', 'unavailable', 'fetchedAt',
]
for (const member of TOOL_MEMBERS) {
  Object.defineProperty(Tool.prototype, member, {
    /** @this {Tool} */
    get() {
      return this.json[member]
    },
  })
}

/**
 * Decodes a reply that may hold a tool list, but not the tools themselves.
 * @param {Buffer} data the reply, valid only now
 * @returns {any}
 */
export function decodeReply(data) {
  const raw = Buffer.from(data)
  const span = memberSpan(raw, 'tools')
  if (!span) return withRaw(JSON.parse(raw.toString()), raw)
  const reply = JSON.parse(raw.toString('utf8', 0, span.start) + '[]' + raw.toString('utf8', span.end))
  reply.tools = elementSpans(raw, span).map(({ start, end }) => new Tool(raw.subarray(start, end)))
  return withRaw(reply, raw)
}

/**
 * Decodes a list of tools in a provider's shape, which are plain objects.
 * @param {Buffer} data the reply, valid only now
 * @returns {any}
 */
export function decodeFormatted(data) {
  const raw = Buffer.from(data)
  return withRaw(JSON.parse(raw.toString()), raw)
}

/** @param {any} reply @param {Buffer} raw */
function withRaw(reply, raw) {
  // Not enumerable: printing a report should not print its bytes.
  return Object.defineProperty(reply, 'raw', { value: raw })
}
