/**
 * Watches AbortSignals, with one listener for each signal however many
 * operations share it: Node warns on stderr from the eleventh listener on.
 */

export class Aborts {
  /** @type {Map<AbortSignal, {operations: Set<object>, listener: () => void}>} */
  #watched = new Map()

  /**
   * @template {object} Operation
   * @param {AbortSignal} signal
   * @param {Operation} operation
   * @param {(operation: Operation) => void} onAbort of every operation of this signal
   */
  watch(signal, operation, onAbort) {
    const watched = this.#watched.get(signal)
    if (watched) {
      watched.operations.add(operation)
      return
    }
    /** @type {Set<Operation>} */
    const operations = new Set([operation])
    const listener = () => {
      this.#watched.delete(signal)
      for (const each of operations) onAbort(each)
    }
    this.#watched.set(signal, { operations, listener })
    signal.addEventListener('abort', listener, { once: true })
  }

  /**
   * @param {AbortSignal} signal
   * @param {object} operation
   */
  unwatch(signal, operation) {
    const watched = this.#watched.get(signal)
    if (!watched?.operations.delete(operation) || watched.operations.size > 0) return
    this.#watched.delete(signal)
    signal.removeEventListener('abort', watched.listener)
  }
}
