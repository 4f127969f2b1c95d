/**
 * Cuts values out of JSON text without decoding them, so that what a server
 * sent is handed on byte for byte: decoding would round big numbers.
 *
 * The text comes from the library and is valid JSON; running past its end means
 * a bug there, and is an error, never an endless loop.
 */

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** @typedef {{start: number, end: number}} Span  bytes from start up to, not including, end */

/** @returns {never} */
function malformed() {
  throw new SyntaxError('mcprt: the library sent JSON that ends too early; please report it')
}

/**
 * @param {Buffer} text
 * @param {number} at
 */
function skipSpace(text, at) {
  while (text[at] === 0x20 || text[at] === 0x0a || text[at] === 0x0d || text[at] === 0x09) at++
  return at
}

/**
 * @param {Buffer} text
 * @param {number} at the opening quote
 * @returns {number} just after the closing quote
 */
function skipString(text, at) {
  for (let quote = at; ; ) {
    quote = text.indexOf(QUOTE, quote + 1)
    if (quote < 0) malformed()
    let slashes = 0
    while (text[quote - 1 - slashes] === BACKSLASH) slashes++
    if (slashes % 2 === 0) return quote + 1
  }
}

/**
 * @param {Buffer} text
 * @param {number} at first byte of a value
 * @returns {number} just after the value
 */
function skipValue(text, at) {
  let depth = 0
  do {
    if (at >= text.length) malformed()
    switch (text[at]) {
      case QUOTE:
        at = skipString(text, at)
        break
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        depth++
        at++
        break
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--
        at++
        break
      default:
        at = depth > 0 ? at + 1 : skipScalar(text, at)
    }
  } while (depth > 0)
  return at
}

/**
 * @param {Buffer} text
 * @param {number} at first byte of a number, true, false or null
 */
function skipScalar(text, at) {
  while (at < text.length && text[at] > 0x20 && text[at] !== COMMA && text[at] !== CLOSE_OBJECT && text[at] !== CLOSE_ARRAY) at++
  return at
}

/**
 * Finds one member of the outermost object. Where a name occurs twice, the last
 * one counts, as it does for JSON.parse.
 * @param {Buffer} text
 * @param {string} name
 * @returns {Span | undefined}
 */
export function memberSpan(text, name) {
  let found
  let at = skipSpace(text, 0)
  if (text[at] !== OPEN_OBJECT) return undefined
  at = skipSpace(text, at + 1)
  while (text[at] !== CLOSE_OBJECT) {
    const key = at
    at = skipString(text, at)
    const isWanted = JSON.parse(text.toString('utf8', key, at)) === name
    at = skipSpace(text, at)
    if (text[at] !== COLON) malformed()
    const start = skipSpace(text, at + 1)
    at = skipValue(text, start)
    if (isWanted) found = { start, end: at }
    at = skipSpace(text, at)
    if (text[at] === COMMA) at = skipSpace(text, at + 1)
    else if (text[at] !== CLOSE_OBJECT) malformed()
  }
  return found
}

/**
 * @param {Buffer} text
 * @param {Span} span of an array
 * @returns {Span[]} of its elements
 */
export function elementSpans(text, span) {
  /** @type {Span[]} */
  const spans = []
  if (text[span.start] !== OPEN_ARRAY) return spans
  let at = skipSpace(text, span.start + 1)
  while (text[at] !== CLOSE_ARRAY) {
    const start = at
    at = skipValue(text, at)
    spans.push({ start, end: at })
    at = skipSpace(text, at)
    if (text[at] === COMMA) at = skipSpace(text, at + 1)
    else if (text[at] !== CLOSE_ARRAY) malformed()
  }
  return spans
}
