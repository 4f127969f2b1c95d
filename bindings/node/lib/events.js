/**
 * Events as an async iterator. A reader that is too slow loses the newest
 * events, never memory; a "dropped" event stands where some are missing.
 */

export class EventStream {
  #limit
  #onWaiting
  #onEnd
  #signal
  #onAbort
  /** @type {any[]} */
  #buffer = []
  #dropped = 0
  /** @type {{resolve: (result: IteratorResult<any>) => void, reject: (error: unknown) => void}[]} */
  #readers = []
  #isOver = false
  /** @type {{reason: unknown} | undefined} */
  #failure

  /**
   * @param {object} options
   * @param {AbortSignal} [options.signal]
   * @param {number} options.limit events held for a reader
   * @param {() => void} options.onWaiting the number of waiting readers changed
   * @param {() => void} options.onEnd
   */
  constructor({ signal, limit, onWaiting, onEnd }) {
    this.#limit = limit
    this.#onWaiting = onWaiting
    this.#onEnd = onEnd
    this.#signal = signal
    this.#onAbort = () => {
      this.#failure = { reason: signal?.reason }
      this.end()
    }
    if (signal?.aborted) this.#onAbort()
    else signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** Readers that wait now. */
  get waiting() {
    return this.#readers.length
  }

  /** @param {any} event */
  push(event) {
    if (this.#isOver) return
    const reader = this.#readers.shift()
    if (reader) {
      reader.resolve({ value: event, done: false })
      this.#onWaiting()
    } else if (this.#buffer.length >= this.#limit) this.#dropped += event.type === 'dropped' ? event.count : 1
    else {
      this.#flushDropped()
      this.#buffer.push(event)
    }
  }

  /** No more events; what is buffered can still be read. */
  end() {
    if (this.#isOver) return
    this.#isOver = true
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#onEnd()
    for (const reader of this.#readers.splice(0)) {
      if (this.#failure) reader.reject(this.#failure.reason)
      else reader.resolve({ value: undefined, done: true })
    }
  }

  /** @returns {Promise<IteratorResult<any>>} */
  next() {
    if (this.#failure) return Promise.reject(this.#failure.reason)
    if (this.#buffer.length === 0) this.#flushDropped()
    if (this.#buffer.length > 0) return Promise.resolve({ value: this.#buffer.shift(), done: false })
    if (this.#isOver) return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject })
      this.#onWaiting()
    })
  }

  /** @returns {Promise<IteratorResult<any>>} */
  return() {
    this.#buffer = []
    this.#dropped = 0
    this.end()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator]() {
    return this
  }

  #flushDropped() {
    if (this.#dropped === 0) return
    this.#buffer.push({ type: 'dropped', count: this.#dropped })
    this.#dropped = 0
  }
}
