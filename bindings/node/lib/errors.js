/**
 * One class per error code of the library.
 *
 * - MCPError              a failure that the library reports; `code` says which
 *   - TimeoutError, SpawnFailedError, …   one per code, see errorClasses
 * - LibraryError          the shared library could not be loaded or used at all
 *   - ForkError           … because this process is a fork without exec
 *
 * An aborted call is neither: it rejects with the reason of its AbortSignal.
 */

import { Status } from './abi.js'
import { CallResult } from './result.js'

/** @typedef {import('../index.js').ErrorFields} ErrorFields */

export class MCPError extends Error {
  /** @param {Partial<ErrorFields> & {message: string}} fields */
  constructor(fields) {
    super(fields.message)
    this.code = fields.code ?? 'internal'
    this.server = fields.server
    this.tool = fields.tool
    this.stage = fields.stage
    this.retryable = fields.retryable ?? false
    this.data = fields.data
    this.result = fields.result
  }

  get name() {
    return this.constructor.name
  }
}

export class InvalidRequestError extends MCPError {}
export class UnknownServerError extends MCPError {}
export class UnknownToolError extends MCPError {}
export class ToolGoneError extends MCPError {}
export class FilteredError extends MCPError {}
export class TimeoutError extends MCPError {}
export class CanceledError extends MCPError {}
export class ClosedError extends MCPError {}
export class BusyError extends MCPError {}
export class ConfigError extends MCPError {}
export class SpawnFailedError extends MCPError {}
export class ExitedError extends MCPError {}
export class ConnectFailedError extends MCPError {}
export class ProtocolError extends MCPError {}
export class UnsupportedVersionError extends MCPError {}
export class TooLargeError extends MCPError {}
export class HTTPStatusError extends MCPError {}
export class RPCError extends MCPError {}
export class NeedsAuthError extends MCPError {}
export class NeedsTrustError extends MCPError {}
export class NeedsInputError extends MCPError {}
export class DisconnectedError extends MCPError {}
export class UnavailableError extends MCPError {}
export class CrashLoopError extends MCPError {}
export class OutcomeUnknownError extends MCPError {}
export class InternalError extends MCPError {}

export const errorClasses = Object.freeze({
  invalid_request: InvalidRequestError,
  unknown_server: UnknownServerError,
  unknown_tool: UnknownToolError,
  tool_gone: ToolGoneError,
  filtered: FilteredError,
  timeout: TimeoutError,
  canceled: CanceledError,
  closed: ClosedError,
  busy: BusyError,
  config: ConfigError,
  spawn_failed: SpawnFailedError,
  exited: ExitedError,
  connect_failed: ConnectFailedError,
  protocol: ProtocolError,
  unsupported_version: UnsupportedVersionError,
  too_large: TooLargeError,
  http_status: HTTPStatusError,
  rpc_error: RPCError,
  needs_auth: NeedsAuthError,
  needs_trust: NeedsTrustError,
  needs_input: NeedsInputError,
  disconnected: DisconnectedError,
  unavailable: UnavailableError,
  crash_loop: CrashLoopError,
  outcome_unknown: OutcomeUnknownError,
  internal: InternalError,
})

export class LibraryError extends Error {
  get name() {
    return this.constructor.name
  }
}

export class ForkError extends LibraryError {}

/** What a bare status means: these come without JSON. */
/** @type {Map<number, [string, string]>} */
const BARE = new Map([
  [Status.EINVAL, ['invalid_request', 'the request is malformed or larger than 1 GiB; correct it']],
  [Status.EHANDLE, ['closed', 'this runtime was closed; open a new one']],
  [Status.ENOMEM, ['internal', 'the library ran out of memory; free some, then try again']],
  [Status.EBUSY, ['busy', 'too many operations are in flight; wait for some to end, or raise maxInFlight or queueBytes']],
  [Status.ETIMEOUT, ['timeout', 'the operation ran out of time; raise timeoutMs, or look at what the server does']],
  [Status.ECANCELED, ['canceled', 'the operation was cancelled']],
  [Status.ECLOSED, ['closed', 'this runtime was closed; open a new one']],
])

/**
 * @param {number} status below 0
 * @returns {MCPError | LibraryError} for a status that came without JSON
 */
export function statusError(status) {
  if (status === Status.EFORK) {
    return new ForkError(
      'this process was forked without exec, and Go does not survive that; start the process by child_process.spawn or fork instead',
    )
  }
  if (status === Status.EVERSION) {
    return new LibraryError('this package and the library do not fit together; install both from the same release')
  }
  const [code, message] = BARE.get(status) ?? ['internal', `the library answered with status ${status}; please report it`]
  return mcpError({ code, message, retryable: code === 'busy' || code === 'timeout' })
}

/**
 * @param {number} status below 0
 * @param {Buffer} data the reply, valid only now
 * @returns {MCPError | LibraryError}
 */
export function replyError(status, data) {
  if (data.length === 0) return statusError(status)
  let reply
  try {
    reply = JSON.parse(data.toString())
  } catch {
    // A server's own JSON may be inside, and it may be broken.
    return mcpError({ code: 'internal', message: `the reply with status ${status} is not valid JSON; please report it` })
  }
  if (!reply.error) return statusError(status)
  return mcpError({ ...reply.error, result: reply.result && new CallResult(Buffer.from(data)) })
}

/**
 * A code of a newer library is an MCPError that keeps it.
 * @param {Partial<ErrorFields> & {message: string}} fields
 */
export function mcpError(fields) {
  const known = Object.hasOwn(errorClasses, fields.code ?? '')
  const Class = known ? errorClasses[/** @type {keyof typeof errorClasses} */ (fields.code)] : MCPError
  return new Class(fields)
}
