/**
 * What the program gives is checked here, so that a mistake is an
 * InvalidRequestError with a sentence that names the argument. What only the
 * library can judge is left to it.
 */

import { InvalidRequestError } from './errors.js'

/** @param {string} message @param {unknown} [cause] */
export function invalidArgument(message, cause) {
  const error = new InvalidRequestError({ code: 'invalid_request', message })
  if (cause !== undefined) error.cause = cause
  return error
}

/**
 * @template {object} T
 * @param {string} where such as "Runtime.connect"
 * @param {T | undefined} value
 * @param {string} [what]
 * @returns {T} an empty object for undefined
 */
export function optionsOf(where, value, what = 'the options') {
  if (value === undefined) return /** @type {T} */ ({})
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidArgument(`${where}: ${what} must be an object, not ${describe(value)}`)
  }
  return value
}

/** By its members, since a test environment may have an AbortSignal of its own. @param {string} where @param {any} value */
export function checkSignal(where, value) {
  if (value === undefined) return
  if (typeof value?.aborted !== 'boolean' || typeof value.addEventListener !== 'function') throw invalidArgument(`${where}: signal must be an AbortSignal, not ${describe(value)}`)
}

/** @param {string} where @param {string} name @param {unknown} value */
export function checkFunction(where, name, value) {
  if (value !== undefined && typeof value !== 'function') throw invalidArgument(`${where}: ${name} must be a function, not ${describe(value)}`)
}

/** @param {string} where @param {string} name @param {unknown} value */
export function checkString(where, name, value) {
  if (typeof value !== 'string') throw invalidArgument(`${where}: ${name} must be a string, not ${describe(value)}`)
}

/**
 * @param {string} where
 * @param {unknown} value
 * @returns {string} JSON
 */
export function encode(where, value) {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // A BigInt, a circle, or a getter of the program that throws.
    throw invalidArgument(`${where}: this cannot be written as JSON (${error instanceof Error ? error.message.split('\n')[0] : String(error)})`, error)
  }
}

/** @param {unknown} value */
function describe(value) {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'an array'
  return `a ${typeof value}`
}
