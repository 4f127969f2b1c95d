/**
 * mcprt: an MCP client runtime. One Runtime discovers the MCP servers of a
 * project, connects them, lists their tools, calls them and ends them.
 *
 * Every promise rejects with an MCPError (its class tells the code), with a
 * LibraryError when the shared library cannot be used, or with the reason of
 * the AbortSignal that was given.
 */

import { EventEmitter } from 'node:events'

// ---- open -------------------------------------------------------------------

export interface RuntimeOptions {
  /** The project directory. Default: the working directory. */
  cwd?: string
  /** The only environment that the library looks at. Default: `process.env` at this moment. */
  env?: Record<string, string | undefined>
  /** Servers given by the program itself; always trusted. */
  servers?: Record<string, ServerConfig>
  /** How long `connect` waits for slow servers whose tools are cached. Default 250; 0 waits for every server. */
  startupTimeoutMs?: number
  /** What happens after the gate to a pending server without cached tools. Default `wait`. */
  uncached?: 'wait' | 'background'
  /** `eager`: return as soon as every server is settled or covered by the cache. Default `timer`. */
  gate?: 'timer' | 'eager'
  /** For connecting, and for each request. Default 30000; 0 disables. */
  timeoutMs?: number
  /** Ceiling where progress extends a call. Default 3600000. */
  maxTimeoutMs?: number
  /** How long a request to this program may stay open. Default 300000. */
  requestTimeoutMs?: number
  /** For stopping a stdio server: SIGTERM at half of it, SIGKILL at its end. Default 2000. */
  graceMs?: number
  discovery?: {
    project?: boolean
    /** Whose user-level files: mcprt's own, those of all tools, none, or of the named tools. */
    user?: 'own' | 'all' | 'none' | string[]
    exclude?: string[]
    variables?: Record<string, string>
    files?: string[]
    filterExa?: boolean
    filterBrowser?: boolean
  }
  /** Which servers of the project's files may run. Default `recorded`. */
  projectTrust?: 'recorded' | 'always' | 'never'
  cache?: { dir?: string; ttlMs?: number; enabled?: boolean }
  reconnect?: 'auto' | 'onCall' | 'manual'
  /** Start no server whose tools the cache knows. */
  lazy?: boolean
  /** Stop a lazy server that had no call for so long; 0 (default): never. */
  idleTimeoutMs?: number
  maxConcurrentStarts?: number
  /** Operations in flight; more of them wait here, in order. Default 4096. */
  maxInFlight?: number
  queueBytes?: number
  maxNotices?: number
  noticeBytes?: number
  toolNames?: { prefix?: string; maxLength?: number }
  limits?: { messageBytes?: number; pages?: number; tools?: number; configBytes?: number; callsPerServer?: number }
  clientInfo?: { name: string; version: string }
  /** How servers are signed in to; see docs/auth.md. */
  auth?: {
    /** Where sign-ins are kept. Default `auto`: the keyring, else files. */
    store?: 'auto' | 'keyring' | 'file' | 'memory'
    /** Of the files. Default: the user's config directory + `mcprt/auth`. */
    dir?: string
    /** A document that says who this program is, for authorization servers that read one. */
    clientMetadataUrl?: string
    /** Default: a free port of this machine. */
    redirectUri?: string
    redirectPort?: number
    /** Who opens the page: the `authorization` handler (default), mcprt, or nobody. */
    openBrowser?: 'host' | 'system' | 'never'
  }
  /** What servers get besides their own `env`. Default `inherit`. */
  envPolicy?: 'inherit' | 'clear' | { allow: string[] }
  /** Have one session with a server together with the runtimes of this process whose config for it is equal. */
  share?: boolean
  watch?: 'off' | 'notify' | 'apply'
  pinning?: 'off' | 'report'
  /** Ask the user's login shell for its PATH when a program is not in that of `env`: for hosts started from a desktop. */
  loginPath?: boolean
  /** Put long texts of results into files. */
  spill?: { overBytes: number; dir?: string; quotaBytes?: number } | null
  /** The flight recorder: every message and every step of each start, redacted, as JSON lines. See docs/trace.md. */
  trace?: { file: string; maxBytes?: number; payloadBytes?: number } | null
  log?: { level?: 'debug' | 'info' | 'warn' | 'error' }
  /** For the Go runtime; honoured by the first `open` of the process. */
  runtime?: { maxProcs?: number; memoryLimit?: number | string; gcPercent?: number }
  /** Answers to what servers ask. Only the kinds named here are offered to servers. */
  onRequest?: RequestHandlers
}

export interface ServerConfig {
  type?: 'stdio' | 'http' | 'sse'
  command?: string
  args?: string[]
  env?: Record<string, string>
  cwd?: string
  url?: string
  headers?: Record<string, string>
  enabled?: boolean
  timeoutMs?: number
  lazy?: boolean
  idleTimeoutMs?: number
  /** Globs on the server's own tool names; `denyTools` wins. */
  allowTools?: string[]
  denyTools?: string[]
  maxConcurrentCalls?: number
  /** Pins a protocol version. */
  protocol?: string
  instructions?: boolean
  tls?: { caFile?: string; certFile?: string; keyFile?: string }
  proxy?: string
  /** How to sign in; false: not at all. */
  oauth?: OAuthConfig | boolean
}

/** What a server's config says of signing in; see docs/auth.md. */
export interface OAuthConfig {
  /** Default `authorization_code`: a person signs in. */
  grant?: 'authorization_code' | 'client_credentials' | 'jwt_bearer' | 'enterprise_managed'
  clientId?: string
  clientSecret?: string
  tokenEndpointAuthMethod?: 'none' | 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'
  privateKeyPem?: string
  signingAlgorithm?: string
  keyId?: string
  scopes?: string[] | string
  redirectUri?: string
  callbackPort?: number
  /** The only authorization server that may be used. */
  issuer?: string
  metadataUrl?: string
  /** false: the resource is not named to the authorization server. */
  resource?: string | false
  dpop?: boolean
  assertion?: string
  assertionFile?: string
  idToken?: string
  idTokenFile?: string
  idpClientId?: string
  idpClientSecret?: string
  idpIssuer?: string
  idpTokenEndpoint?: string
  [member: string]: unknown
}

/** What is known of a sign-in. */
export interface SignIn {
  server: string
  /** false: the server is used without. */
  signedIn: boolean
  issuer?: string
  scopes?: string[]
  expiresAt?: string
}

// ---- requests to the program ------------------------------------------------

export interface RequestContext {
  /** The library's name, such as `elicitation/create`. */
  readonly type: string
  readonly server: string
  readonly timeoutMs: number
  /** From 1. */
  readonly attempt: number
  /** Fires when the request is over: withdrawn, timed out, answered elsewhere, or the runtime closed. */
  readonly signal: AbortSignal
}

/**
 * Each handler returns the result that MCP defines (nothing stands for `{}`). A
 * ReplyError is told to the server; of any other exception it learns only
 * that there was one, and the program gets a `request_failed` event.
 */
export interface RequestHandlers {
  elicitation?(params: any, context: RequestContext): unknown
  sampling?(params: any, context: RequestContext): unknown
  roots?(params: any, context: RequestContext): unknown
  /**
   * Shows the page to the user. Nothing, or `{}`: the loopback listener does the rest; where the
   * browser cannot reach this machine, `callbackUrl` is the address that it ended at.
   */
  authorization?(
    params: { url: string; redirectUri: string; issuer?: string; scopes?: string[] },
    context: RequestContext,
  ): MaybePromise<void | { callbackUrl?: string; declined?: boolean }>
  /** A value that only a person has; a thrown error declines. */
  input?(params: InputRequest, context: RequestContext): MaybePromise<{ value: string }>
}

/** What a config's `${input:id}` asks for. */
export interface InputRequest {
  id: string
  description: string
  /** Hide it while it is typed. */
  password: boolean
  default?: string
  /** The values to choose from. */
  options?: string[]
}

type MaybePromise<T> = T | Promise<T>

export declare class ReplyError extends Error {
  /** @param message is sent to the server  @param code of JSON-RPC; default -32603 */
  constructor(message: string, code?: number)
  readonly code: number
}

// ---- replies ----------------------------------------------------------------

/** A reply of the library; `raw` is its JSON, byte for byte. */
export interface Reply {
  readonly raw: Buffer
}

export type ServerStatus = 'connected' | 'connecting' | 'disconnected'

export type ServerState =
  | 'disabled'
  | 'needs_trust'
  | 'needs_input'
  | 'needs_auth'
  | 'idle'
  | 'connecting'
  | 'ready'
  | 'backoff'
  | 'failed'
  | 'stopped'
  | 'closed'

export interface Source {
  provider: string
  providerName: string
  path?: string
  level: 'host' | 'local' | 'project' | 'user'
  line?: number
  column?: number
}

export interface Diagnostic {
  severity: 'error' | 'warning' | 'note'
  code: string
  message: string
  server?: string
  field?: string
  path?: string
  line?: number
  column?: number
  /** The server's own names of the tools that it is about. */
  tools?: string[]
}

export interface DiscoverReport extends Reply {
  servers: {
    name: string
    transport: string
    enabled: boolean
    trusted: boolean
    hash: string
    duplicateOf: string | null
    source: Source
    /** Secrets are `***`. */
    config: ServerConfig
  }[]
  shadowed: { name: string; source: Source; by: Source }[]
  diagnostics: Diagnostic[]
  exaApiKeys: string[]
}

export interface ServerView {
  name: string
  status: ServerStatus
  state: ServerState
  toolCount: number
  protocolVersion: string | null
  serverInfo: { name: string; version: string; [key: string]: unknown } | null
  instructions: string | null
  connectMs: number | null
  /** Why it is not ready, in the states backoff, failed and needs_*. */
  error: ErrorInfo | null
  retryAt: string | null
  source: Source | null
  pid: number | null
}

export interface ConnectReport extends Reply {
  revision: number
  elapsedMs: number
  tools: Tool[]
  servers: ServerView[]
  connected: string[]
  /** Servers whose tools come from the cache while they start. */
  deferred: string[]
  pending: string[]
  needsTrust: { name: string; hash: string; path?: string; command?: string; args?: string[]; url?: string | null }[]
  needsAuth: string[]
  needsInput: { server: string; inputs: InputRequest[] }[]
  /** By server name. */
  errors: Record<string, ErrorInfo>
  diagnostics: Diagnostic[]
}

export interface ReloadReport extends ConnectReport {
  changes: { added: string[]; removed: string[]; changed: string[]; kept: string[] }
}

export interface Listing extends Reply {
  revision: number
  /** True: the same request would give the same bytes as at `ifRevision`; nothing else is here. */
  unchanged?: boolean
}

export interface ToolListing extends Listing {
  tools: Tool[]
}

/** One tool; decoded at the first look. */
export declare class Tool {
  private constructor()
  /** The library's JSON of this tool, with the server's own parts byte for byte. */
  readonly raw: Buffer
  /** The same, decoded (JavaScript's number limits apply). */
  readonly json: any
  /** The name to call it by, such as `mcp_files_read`. */
  readonly name: string
  readonly server: string
  /** The server's own name for it. */
  readonly tool: string
  readonly label: string
  readonly title?: string
  readonly description?: string
  readonly inputSchema: any
  readonly outputSchema?: any
  readonly annotations?: any
  readonly _meta?: any
  /** Known from the cache; its server is not ready. A call waits for it. */
  readonly deferred: boolean
  readonly stale: boolean
  readonly unavailable: boolean
  readonly fetchedAt: string
  toJSON(): any
}

/** What a server sent as a result. */
export declare class Result {
  protected constructor()
  /** Exactly the bytes that the server sent. */
  readonly raw: Buffer
  /** The same, decoded at the first look (JavaScript's number limits apply). */
  readonly json: any
  toJSON(): any
}

export declare class CallResult extends Result {
  private constructor()
  readonly content: any[]
  readonly structuredContent: any
  /** The tool reports its own failure; the call itself succeeded. */
  readonly isError: boolean
  /** All text content, joined by line ends. */
  readonly text: string
}

/** What was counted since `open`; docs/options.md says what each number is. */
export interface Stats {
  revision: number
  tools: number
  uptimeMs: number
  /** Null: nothing is recorded. */
  trace: { records: number; dropped: number } | null
  servers: ServerStats[]
}

export interface ServerStats {
  name: string
  state: ServerState
  tools: number
  /** Operations that went to this server, those under way included. */
  calls: number
  inFlight: number
  queued: number
  resends: number
  /** Failed calls by error code. */
  errors: Record<string, number>
  starts: number
  reconnects: number
  bytesIn: number
  bytesOut: number
  junkLines: number
  repaired: number
  tooLarge: number
  unmatched: number
  droppedNotifications: number
  refusedRequests: number
  /** Of answers, without the wait for the server. A bucket's calls took less than `belowMs`, and are in no bucket before it. */
  latency: {
    count: number
    meanMs: number
    p50Ms: number
    p90Ms: number
    p99Ms: number
    maxMs: number
    buckets: { belowMs: number; count: number }[]
  }
}

// ---- verbs ------------------------------------------------------------------

export interface Abortable {
  /** The promise rejects with the signal's reason at once, and the library cancels the operation. */
  signal?: AbortSignal
}

export interface ConnectOptions extends Abortable {
  only?: string[]
  servers?: Record<string, ServerConfig>
  startupTimeoutMs?: number
  uncached?: 'wait' | 'background'
  gate?: 'timer' | 'eager'
  /** Hashes that `discover` showed, by server name: these entries are trusted from now on. */
  trust?: Record<string, string>
  authorize?: string[]
  /** With `only`: reconnects these servers. */
  restart?: boolean
  /** False leaves the tools out of the report. */
  tools?: boolean
  timeoutMs?: number
}

export interface ReloadOptions extends Abortable {
  /** `diff` keeps every server whose config did not change; `full` restarts all. */
  mode?: 'diff' | 'full'
  tools?: boolean
  timeoutMs?: number
}

export interface ListOptions extends Abortable {
  kind?: 'tools' | 'servers' | 'resources' | 'resourceTemplates' | 'prompts'
  server?: string
  names?: string[]
  ifRevision?: number
  search?: string
  /** Tools only: asks the server, or every ready one, for its tools anew first; `errors` has those that failed. */
  refresh?: boolean
  timeoutMs?: number
}

export interface CallOptions extends Abortable {
  timeoutMs?: number
  /** Asks the server for progress. */
  onProgress?: (progress: ProgressEvent) => void
  /** Sent as `_meta`. */
  meta?: Record<string, unknown>
  /** Whether a call may be sent again after a lost connection. Default `safe`: only when the tool says that it is. */
  retry?: 'safe' | 'always' | 'never'
}

export declare class Runtime extends EventEmitter<RuntimeEvents> {
  private constructor()
  /** Loads the library at its first use. Reads no file and starts no process. */
  static open(options?: RuntimeOptions): Promise<Runtime>

  /** Which servers exist. Starts nothing. */
  discover(options?: Abortable & { timeoutMs?: number }): Promise<DiscoverReport>
  /** Starts the servers, and returns at the gate at the latest (see `startupTimeoutMs`). */
  connect(options?: ConnectOptions): Promise<ConnectReport>
  /** Reads all config again. */
  reload(options?: ReloadOptions): Promise<ReloadReport>
  /** Ends one server, or all; the runtime stays open. */
  disconnect(server?: string, options?: Abortable): Promise<Reply & { disconnected: string[] }>

  list(options?: ListOptions & { kind?: 'tools' }): Promise<ToolListing>
  list(options: ListOptions & { kind: 'servers' }): Promise<Listing & { servers: ServerView[] }>
  list(options: ListOptions): Promise<Listing & { [kind: string]: any }>
  tools(options?: Omit<ListOptions, 'kind' | 'ifRevision'>): Promise<Tool[]>
  servers(options?: Omit<ListOptions, 'kind' | 'ifRevision'>): Promise<ServerView[]>

  /**
   * Calls a tool: by the name that the list gives, or, with `server`, by the
   * server's own name for it.
   */
  call(name: string, args?: Record<string, unknown>, options?: CallOptions & { server?: string }): Promise<CallResult>
  /** Any other request: `resources/read`, `prompts/get`, `ping`, …; with server null one of the library's own, `mcprt/stats`. */
  request(server: string | null, method: string, params?: Record<string, unknown>, options?: CallOptions): Promise<Result>

  /**
   * Connects a server, and asks its user to sign in where that is needed: by the `authorization`
   * handler, or in the system's browser. Rejects with a NeedsAuthError when nobody signed in.
   */
  login(server: string, options?: Abortable & { timeoutMs?: number }): Promise<SignIn>
  /** Forgets the sign-in to a server, here and in the store, and tells the authorization server so. */
  logout(server: string, options?: Abortable & { timeoutMs?: number }): Promise<{ server: string; signedOut: boolean; revoked: boolean }>

  /** What was counted since the runtime was opened. */
  stats(options?: Abortable): Promise<Stats>

  /** Events in order. A slow reader loses the newest ones and sees a `dropped` event instead. */
  events(options?: Abortable & { /** Events held for the reader; default 1024. */ limit?: number }): AsyncIterableIterator<RuntimeEvent>

  /** Keeps the process alive while the runtime is open. Without it, only unfinished operations do. */
  ref(): this
  unref(): this

  /** Ends every server and every operation. Can be called again; never rejects. */
  close(options?: { graceMs?: number }): Promise<void>
  /** Whether close was called or the library ended. */
  readonly closed: boolean
  /** The same as close, where the language has `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

// ---- events -----------------------------------------------------------------

export interface ToolsChangedEvent {
  type: 'tools_changed'
  revision: number
  server: string
  added: string[]
  removed: string[]
  changed: string[]
  live: string[]
  renamed: Record<string, string>
}
export interface ServerStateEvent extends ServerView {
  type: 'server_state'
}
export interface ProgressEvent {
  type: 'progress'
  tag: number
  server: string
  progress: number
  total?: number
  message?: string
}
export interface LogEvent {
  type: 'log'
  server?: string
  level: string
  logger?: string
  data: unknown
}
export interface ResourceUpdatedEvent {
  type: 'resource_updated'
  server: string
  uri: string
}
export interface ListChangedEvent {
  type: 'resources_changed' | 'prompts_changed'
  server: string
}
export interface NotificationEvent {
  type: 'notification'
  server: string
  method: string
  params?: any
}
export interface DiagnosticEvent extends Diagnostic {
  type: 'diagnostic'
}
export interface ConfigChangedEvent {
  type: 'config_changed'
  /** With `watch: 'apply'`; else the servers are as they were until `reload`. */
  applied: boolean
  paths: string[]
  added: string[]
  removed: string[]
  changed: string[]
}
/** Events are missing here: what holds now is in `list`. */
export interface DroppedEvent {
  type: 'dropped'
  count: number
}
/** A handler of `onRequest` threw, or its answer had the wrong shape. */
export interface RequestFailedEvent {
  type: 'request_failed'
  request: string
  server: string
  error: unknown
}

export type RuntimeEvent =
  | ToolsChangedEvent
  | ServerStateEvent
  | ProgressEvent
  | LogEvent
  | ResourceUpdatedEvent
  | ListChangedEvent
  | NotificationEvent
  | DiagnosticEvent
  | ConfigChangedEvent
  | DroppedEvent
  | RequestFailedEvent

type EventsByType = { [Type in RuntimeEvent['type']]: [event: Extract<RuntimeEvent, { type: Type }>] }

/** Listeners keep a runtime from being collected, but not the process from ending: see `ref`. */
export interface RuntimeEvents extends EventsByType {
  /** Every event, also of types that a newer library has. */
  event: [event: RuntimeEvent]
  /** The last event. */
  closed: []
}

// ---- errors -----------------------------------------------------------------

export type ErrorCode = keyof typeof errorClasses

export type ErrorStage = 'config' | 'spawn' | 'connect' | 'send' | 'receive' | 'decode' | 'protocol' | 'auth'

export interface ErrorData {
  command?: string
  exitCode?: number
  signal?: string
  /** The last lines. */
  stderr?: string
  httpStatus?: number
  body?: string
  /** `WWW-Authenticate` of a 401 or 403. */
  challenge?: string
  retryAfterMs?: number
  /** By which the operator of an HTTP server finds the request. */
  traceId?: string
  rpcCode?: number
  rpcMessage?: string
  rpcData?: unknown
  timeoutMs?: number
  hash?: string
  path?: string
  line?: number
  column?: number
}

export interface ErrorInfo {
  code: string
  message: string
  server?: string
  tool?: string
  stage?: ErrorStage
  retryable: boolean
  data?: ErrorData
}

export interface ErrorFields extends ErrorInfo {
  result?: CallResult
}

export declare class MCPError extends Error {
  constructor(fields: Partial<ErrorFields> & { message: string })
  /** One of ErrorCode, or a code of a newer library. */
  readonly code: string
  readonly server?: string
  readonly tool?: string
  readonly stage?: ErrorStage
  /** The same request may succeed later without a change of config. */
  readonly retryable: boolean
  readonly data?: ErrorData
  /** Of a failed call: the failure as a tool result that a model can be shown. */
  readonly result?: CallResult
}

export declare class InvalidRequestError extends MCPError {}
export declare class UnknownServerError extends MCPError {}
export declare class UnknownToolError extends MCPError {}
export declare class ToolGoneError extends MCPError {}
export declare class FilteredError extends MCPError {}
export declare class TimeoutError extends MCPError {}
export declare class CanceledError extends MCPError {}
export declare class ClosedError extends MCPError {}
export declare class BusyError extends MCPError {}
export declare class ConfigError extends MCPError {}
export declare class SpawnFailedError extends MCPError {}
export declare class ExitedError extends MCPError {}
export declare class ConnectFailedError extends MCPError {}
export declare class ProtocolError extends MCPError {}
export declare class UnsupportedVersionError extends MCPError {}
export declare class TooLargeError extends MCPError {}
export declare class HTTPStatusError extends MCPError {}
export declare class RPCError extends MCPError {}
export declare class NeedsAuthError extends MCPError {}
export declare class NeedsTrustError extends MCPError {}
export declare class NeedsInputError extends MCPError {}
export declare class DisconnectedError extends MCPError {}
export declare class UnavailableError extends MCPError {}
export declare class CrashLoopError extends MCPError {}
export declare class OutcomeUnknownError extends MCPError {}
export declare class InternalError extends MCPError {}

/** The class of each code. */
export declare const errorClasses: Readonly<{
  invalid_request: typeof InvalidRequestError
  unknown_server: typeof UnknownServerError
  unknown_tool: typeof UnknownToolError
  tool_gone: typeof ToolGoneError
  filtered: typeof FilteredError
  timeout: typeof TimeoutError
  canceled: typeof CanceledError
  closed: typeof ClosedError
  busy: typeof BusyError
  config: typeof ConfigError
  spawn_failed: typeof SpawnFailedError
  exited: typeof ExitedError
  connect_failed: typeof ConnectFailedError
  protocol: typeof ProtocolError
  unsupported_version: typeof UnsupportedVersionError
  too_large: typeof TooLargeError
  http_status: typeof HTTPStatusError
  rpc_error: typeof RPCError
  needs_auth: typeof NeedsAuthError
  needs_trust: typeof NeedsTrustError
  needs_input: typeof NeedsInputError
  disconnected: typeof DisconnectedError
  unavailable: typeof UnavailableError
  crash_loop: typeof CrashLoopError
  outcome_unknown: typeof OutcomeUnknownError
  internal: typeof InternalError
}>

/** The shared library cannot be found, loaded or used; the message says why and what to do. */
export declare class LibraryError extends Error {}
/** This process was forked without exec. */
export declare class ForkError extends LibraryError {}
