/// <reference types="node" />

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

/** What `Runtime.open` takes; all of it is optional. Durations are milliseconds. */
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
  /** Which config files are read; see docs/config.md. */
  discovery?: {
    /** Those of the project. Default true. */
    project?: boolean
    /** Whose user-level files: mcprt's own, those of all tools, none, or of the named tools. */
    user?: 'own' | 'all' | 'none' | string[]
    /** Sources that are left out, by their ids in docs/config.md. */
    exclude?: string[]
    /** Values for `${NAME}` in configs; they win over `env`. */
    variables?: Record<string, string>
    /** Files that this program names itself; their servers own a name before those of all other files. */
    files?: string[]
    /** Leave out Exa servers, for a host that has a web search of its own. */
    filterExa?: boolean
    /** Leave out browser servers, for a host that has a browser of its own. */
    filterBrowser?: boolean
  }
  /** Which servers of the project's files may run. Default `recorded`. */
  projectTrust?: 'recorded' | 'always' | 'never'
  /** The cache of tools. */
  cache?: {
    /** Its directory. Default: the user's cache directory + `mcprt/tools`. */
    dir?: string
    /** How long an entry is good for. Default 2592000000 (30 days). */
    ttlMs?: number
    /** Default true. */
    enabled?: boolean
  }
  /**
   * A lost server is started again by itself (`auto`, the default), with the next call (`onCall`), or only by this program (`manual`).
   */
  reconnect?: 'auto' | 'onCall' | 'manual'
  /** Start no server whose tools the cache knows. */
  lazy?: boolean
  /** Stop a lazy server that had no call for so long; 0 (default): never. */
  idleTimeoutMs?: number
  /** Processes that are being started at one moment. Default 16. */
  maxConcurrentStarts?: number
  /** Operations in flight; more of them wait here, in order. Default 4096. */
  maxInFlight?: number
  /** Bytes of operations and results that wait. Default 268435456 (256 MiB). */
  queueBytes?: number
  /** Events that wait to be taken; more are dropped and counted. Default 4096. */
  maxNotices?: number
  /** Bytes of events that wait. Default 16777216 (16 MiB). */
  noticeBytes?: number
  /** How tools are named. */
  toolNames?: {
    /** Before each name. Default `mcp_`. */
    prefix?: string
    /** Characters of a name. Default 64. */
    maxLength?: number
  }
  /** What a server or a file may cost. */
  limits?: {
    /** Of one message. Default 67108864 (64 MiB). */
    messageBytes?: number
    /** Of one list. Default 1000. */
    pages?: number
    /** Of one server. Default 50000. */
    tools?: number
    /** Of one config file. Default 67108864 (64 MiB). */
    configBytes?: number
    /** Calls that run at one server at once; the others wait in order. Default 0: no limit. */
    callsPerServer?: number
  }
  /** How this program is called towards servers. Default: mcprt and its version. */
  clientInfo?: {
    /** Such as `my-agent`. */
    name: string
    /** Such as `1.0.0`. */
    version: string
  }
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
    /** The port of this machine that the browser comes back to. Default 0: a free one. */
    redirectPort?: number
    /** Who opens the page: the `authorization` handler (default), mcprt, or nobody. */
    openBrowser?: 'host' | 'system' | 'never'
  }
  /** What servers get besides their own `env`. Default `inherit`. */
  envPolicy?: 'inherit' | 'clear' | {
    /** Patterns with `*` and `?`; only variables whose name matches one are given to servers. */
    allow: string[]
  }
  /** Have one session with a server together with the runtimes of this process whose config for it is equal. */
  share?: boolean
  /** Follow the config files: `notify` tells what changed, `apply` also reloads. Default `off`. */
  watch?: 'off' | 'notify' | 'apply'
  /** `report` tells when the tools of a server are not those that were approved. Default `off`. */
  pinning?: 'off' | 'report'
  /** Ask the user's login shell for its PATH when a program is not in that of `env`: for hosts started from a desktop. */
  loginPath?: boolean
  /** Put long texts of results into files. */
  spill?: {
    /** A text longer than this goes to a file, whose path the result then names. */
    overBytes: number
    /** Where a directory for this runtime is made. */
    dir: string
    /** Of all files; beyond it the oldest go. Default 1073741824 (1 GiB). */
    quotaBytes?: number
  } | null
  /** The flight recorder: every message and every step of each start, redacted, as JSON lines. See docs/trace.md. */
  trace?: {
    /** Where the records go. */
    file: string
    /** Of one file, of which two are kept. Default 67108864 (64 MiB). */
    maxBytes?: number
    /** Of one message's content; 0 keeps none. Default 4096. */
    payloadBytes?: number
  } | null
  /** The library's own records, as `log` events; nothing is written to stdout or stderr. */
  log?: {
    /** The least that is told. Default `warn`. */
    level?: 'debug' | 'info' | 'warn' | 'error' | 'off'
  }
  /** For the Go runtime; honoured by the first `open` of the process. */
  runtime?: {
    /** Threads that run Go code at once. Default: the processors that the process may use. */
    maxProcs?: number
    /** Bytes that its collector tries to stay below. */
    memoryLimit?: number
    /** Growth of the heap after which it collects. Default 100. */
    gcPercent?: number
  }
  /** Answers to what servers ask. Only the kinds named here are offered to servers. */
  onRequest?: RequestHandlers
  /** The path of the shared library; it wins over MCPRT_LIBRARY. A process uses one: each `open` of it must name the same. */
  library?: string
}

/** One server, as it is written in a config file; see docs/options.md. */
export interface ServerConfig {
  /** How it is reached. Default: `stdio` with a `command`, `http` with a `url`. */
  type?: 'stdio' | 'http' | 'sse'
  /** The program of a stdio server, looked up in the `PATH` of the option `env`. */
  command?: string
  /** Its arguments, passed as they are: there is no shell. */
  args?: string[]
  /** Variables for it, besides what `envPolicy` gives it. */
  env?: Record<string, string>
  /** Its working directory. Default: the project directory. */
  cwd?: string
  /** Of a remote server. */
  url?: string
  /** Sent with every request to the `url`'s own origin. */
  headers?: Record<string, string>
  /** Default true; false: it is listed, and not started. */
  enabled?: boolean
  /** For its start, and each request to it. Default: the option of the runtime. */
  timeoutMs?: number
  /** Do not start it before a call needs it, where the cache knows its tools. */
  lazy?: boolean
  /** Stop it, if it is lazy, when it had no call for so long; 0: never. */
  idleTimeoutMs?: number
  /** Globs on the server's own tool names; `denyTools` wins. */
  allowTools?: string[]
  /** Globs (`*`, `?`) on the server's own tool names that may not be called. */
  denyTools?: string[]
  /** Calls that run at it at once; the others wait in order. */
  maxConcurrentCalls?: number
  /** Pins a protocol version. */
  protocol?: string
  /** false: what the server says of its own use is not taken over. */
  instructions?: boolean
  /** For https, in PEM form. */
  tls?: {
    /** Authorities that are trusted besides the system's. */
    caFile?: string
    /** The client's certificate. */
    certFile?: string
    /** The key of `certFile`. */
    keyFile?: string
  }
  /** An `http`, `https`, `socks5` or `socks5h` URL. Default: what `HTTPS_PROXY` and its like in `env` say. */
  proxy?: string
  /** How to sign in; false: not at all. */
  oauth?: OAuthConfig | boolean
}

/** What a server's config says of signing in; see docs/auth.md. */
export interface OAuthConfig {
  /** Default `authorization_code`: a person signs in. */
  grant?: 'authorization_code' | 'client_credentials' | 'jwt_bearer' | 'enterprise_managed'
  /** A client that was registered by hand. Without it mcprt registers itself. */
  clientId?: string
  /** The secret of `clientId`. */
  clientSecret?: string
  /** How the client proves itself. Default: by what the authorization server supports. */
  tokenEndpointAuthMethod?: 'none' | 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'
  /** The client's key, for `private_key_jwt`. */
  privateKeyPem?: string
  /** Of `privateKeyPem`, such as `ES256`. */
  signingAlgorithm?: string
  /** Of `privateKeyPem`, where the authorization server knows several. */
  keyId?: string
  /** What to ask for. Default: what the server's refusal names, else all that its metadata lists. */
  scopes?: string[] | string
  /** Where the browser comes back. Default: a free port of 127.0.0.1. */
  redirectUri?: string
  /** The port of 127.0.0.1 that the browser comes back to. */
  callbackPort?: number
  /** The only authorization server that may be used. */
  issuer?: string
  /** The authorization server's metadata, in place of what the server names. */
  metadataUrl?: string
  /** false: the resource is not named to the authorization server. */
  resource?: string | false
  /** Tokens bound to a key (RFC 9449). Default: if the server asks for it. */
  dpop?: boolean
  /** For `jwt_bearer`: the token that the platform gives a program. */
  assertion?: string
  /** The file with `assertion`, read anew each time. */
  assertionFile?: string
  /** For `enterprise_managed`: what the identity provider says of the user. */
  idToken?: string
  /** The file with `idToken`, read anew each time. */
  idTokenFile?: string
  /** This program's client at the identity provider. */
  idpClientId?: string
  /** The secret of `idpClientId`. */
  idpClientSecret?: string
  /** The identity provider, whose metadata names its token endpoint. */
  idpIssuer?: string
  /** The identity provider's token endpoint, in place of `idpIssuer`. */
  idpTokenEndpoint?: string
  [member: string]: unknown
}

/** What is known of a sign-in. */
export interface SignIn {
  /** The server's name. */
  server: string
  /** false: the server is used without. */
  signedIn: boolean
  /** The authorization server. */
  issuer?: string
  /** What was granted. */
  scopes?: string[]
  /** When the token ends, in RFC 3339; it is renewed before. */
  expiresAt?: string
}

// ---- requests to the program ------------------------------------------------

/** What a handler of `onRequest` is told besides the parameters. */
export interface RequestContext {
  /** The library's name, such as `elicitation/create`. */
  readonly type: string
  /** The server that asks; empty where the library itself does. */
  readonly server: string
  /** After this long nobody waits for the answer any more. */
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
  /** A server asks the user for something: returns `{ action, content }`. */
  elicitation?(params: any, context: RequestContext): unknown
  /** A server asks for a completion of this program's model: returns a message with its role, content and model. */
  sampling?(params: any, context: RequestContext): unknown
  /**
   * A server asks for the directories that it may work in: returns `{ roots }`. Without a handler that is the project directory.
   */
  roots?(params: any, context: RequestContext): unknown
  /**
   * Shows the page to the user. Nothing, or `{}`: the loopback listener does the rest; where the
   * browser cannot reach this machine, `callbackUrl` is the address that it ended at.
   */
  authorization?(
    params: {
      /** The page to show. */
      url: string
      /** Where the browser comes back to. */
      redirectUri: string
      /** The authorization server. */
      issuer?: string
      /** What is asked for. */
      scopes?: string[]
    },
    context: RequestContext,
  ): MaybePromise<void | {
    /** The address that the browser ended at. */
    callbackUrl?: string
    /** The user does not want to sign in. */
    declined?: boolean
  }>
  /** A value that only a person has; a thrown error declines. */
  input?(params: InputRequest, context: RequestContext): MaybePromise<{
    /** The value; it is kept in memory only. */
    value: string
  }>
}

/** What a config's `${input:id}` asks for. */
export interface InputRequest {
  /** Of `${input:id}`. */
  id: string
  /** What the config's author says of it. */
  description: string
  /** Hide it while it is typed. */
  password: boolean
  /** To be offered. */
  default?: string
  /** The values to choose from. */
  options?: string[]
}

type MaybePromise<T> = T | Promise<T>

/** Thrown by a handler of `onRequest`: the server is told this message and code. */
export declare class ReplyError extends Error {
  /** @param message is sent to the server  @param code of JSON-RPC; default -32603 */
  constructor(message: string, code?: number)
  /** The error code of JSON-RPC. */
  readonly code: number
}

// ---- replies ----------------------------------------------------------------

/** A reply of the library; `raw` is its JSON, byte for byte. */
export interface Reply {
  /** The reply as the library gave it. */
  readonly raw: Buffer
}

/** The state of a server in one of three words. */
export type ServerStatus = 'connected' | 'connecting' | 'disconnected'

/** The exact state of a server; docs/lifecycle.md says how each is reached and left. */
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

/** Where the config of a server stands. */
export interface Source {
  /** The tool whose file it is, by the name that `discovery.user` takes. */
  provider: string
  /** The tool's name for people. */
  providerName: string
  /** The file; missing for servers of the program itself. */
  path?: string
  /** Whose file it is: of the program itself, the project on this machine only, the project, or the user. */
  level: 'host' | 'local' | 'project' | 'user'
  /** From 1. */
  line?: number
  /** From 1. */
  column?: number
}

/** Something to know about a config file or a server that stops nothing else. */
export interface Diagnostic {
  /** How bad it is. */
  severity: 'error' | 'warning' | 'note'
  /** Which kind it is, such as `unresolved_variable`; docs/config.md lists them. */
  code: string
  /** What is wrong and what to do, in one sentence. */
  message: string
  /** The server that it is about. */
  server?: string
  /** The member of the config that it is about, such as `env.TOKEN`. */
  field?: string
  /** The config file. */
  path?: string
  /** From 1. */
  line?: number
  /** From 1. */
  column?: number
  /** The server's own names of the tools that it is about. */
  tools?: string[]
}

/** Which servers the config files name. */
export interface DiscoverReport extends Reply {
  /** What could be started, disabled ones included, by name. */
  servers: {
    /** Its name in the config. */
    name: string
    /** How it is reached: `stdio`, `http` or `sse`. */
    transport: string
    /** False: the config says not to start it. */
    enabled: boolean
    /** Whether `connect` would start it. */
    trusted: boolean
    /** Of the entry as it is written now: what `connect` takes in `trust`. */
    hash: string
    /** The server that reaches the same thing, which is started instead. */
    duplicateOf: string | null
    /** Where it stands. */
    source: Source
    /** Secrets are `***`. */
    config: ServerConfig
  }[]
  /** Entries that another file's entry of the same name hides. */
  shadowed: {
    /** Its name in the config. */
    name: string
    /** Where it stands. */
    source: Source
    /** Where the entry stands that hides it. */
    by: Source
  }[]
  /** What is wrong in the files. */
  diagnostics: Diagnostic[]
  /** Keys of the Exa servers that `filterExa` left out, for the host's own search. */
  exaApiKeys: string[]
}

/** One server at one moment. */
export interface ServerView {
  /** Its name in the config. */
  name: string
  /** The state in one of three words. */
  status: ServerStatus
  /** The exact state. */
  state: ServerState
  /** How many tools it has, deferred ones included. */
  toolCount: number
  /** The version of MCP that is spoken with it; null before a connection. */
  protocolVersion: string | null
  /** What it says of itself; null before a connection. */
  serverInfo: {
    /** The server's own name for itself. */
    name: string
    /** Its own version. */
    version: string
    [key: string]: unknown
  } | null
  /** How it wants to be used, in its words, for a model. */
  instructions: string | null
  /** How long the last connect took. */
  connectMs: number | null
  /** Why it is not ready, in the states backoff, failed and needs_*. */
  error: ErrorInfo | null
  /** When it is tried again, in RFC 3339; null where it is not. */
  retryAt: string | null
  /** Where its config stands. */
  source: Source | null
  /** The process of a stdio server; null where none runs. */
  pid: number | null
}

/** Where every server stands when `connect` returns. */
export interface ConnectReport extends Reply {
  /** Counts changes of tools and servers: what `list` takes as `ifRevision`. */
  revision: number
  /** How long this took. */
  elapsedMs: number
  /** All tools, live and deferred, sorted by name; empty with `tools: false`. */
  tools: Tool[]
  /** Every server. */
  servers: ServerView[]
  /** Servers that are ready, by name. */
  connected: string[]
  /** Servers whose tools come from the cache while they start. */
  deferred: string[]
  /** Servers whose first attempt still runs. */
  pending: string[]
  /** Entries to show to the user, who approves them with `connect({ trust: { [name]: hash } })`. */
  needsTrust: {
    /** Its name in the config. */
    name: string
    /** Of the entry as it is written now. */
    hash: string
    /** The file that it stands in. */
    path?: string
    /** The program that would run. */
    command?: string
    /** Its arguments. */
    args?: string[]
    /** Of a remote server. */
    url?: string | null
  }[]
  /** Servers that want their user to sign in, by name: see `login`. */
  needsAuth: string[]
  /** Values that only a person has. Calls ask for them, by the `input` handler. */
  needsInput: {
    /** The server that needs them. */
    server: string
    /** What it needs. */
    inputs: InputRequest[]
  }[]
  /** By server name. */
  errors: Record<string, ErrorInfo>
  /** What is wrong in the files, and with servers that run all the same. */
  diagnostics: Diagnostic[]
}

/** As ConnectReport, and what changed. */
export interface ReloadReport extends ConnectReport {
  /** What happened to the servers, by name. */
  changes: {
    /** New in the files. */
    added: string[]
    /** Gone from the files, and ended. */
    removed: string[]
    /** Started again with their new config. */
    changed: string[]
    /** Untouched: their processes run on. */
    kept: string[]
  }
}

/** A list that knows which state it shows. */
export interface Listing extends Reply {
  /** Counts changes: give it as `ifRevision` to learn cheaply whether something changed. */
  revision: number
  /** True: the same request would give the same bytes as at `ifRevision`; nothing else is here. */
  unchanged?: boolean
}

/** The tools known at one moment. */
export interface ToolListing extends Listing {
  /** Sorted by name; missing with `unchanged`. */
  tools: Tool[]
}

/** A model's provider: Chat Completions, the Responses API, the Messages API, generateContent. See docs/adapters.md. */
export type Format = 'openai' | 'openai-responses' | 'anthropic' | 'gemini'

/** What `list` gives with a `format`. */
export interface FormattedTools extends Listing {
  /** For the `tools` of the provider's request; for `gemini` its function declarations. */
  tools: any[]
  /** `Tool.name` of each tool whose name the provider does not take, by the name that it has here. */
  names: Record<string, string>
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
  /** The name of its server in the config. */
  readonly server: string
  /** The server's own name for it. */
  readonly tool: string
  /** A short text for lists that people see, such as `mcp:files via MCP`. */
  readonly label: string
  /** The server's title for people. */
  readonly title?: string
  /** What it does, in the server's words, for a model. */
  readonly description?: string
  /** The JSON Schema of its arguments. */
  readonly inputSchema: any
  /** The JSON Schema of `structuredContent`. */
  readonly outputSchema?: any
  /** What the server claims of it, such as `readOnlyHint`; not to be trusted more than the server is. */
  readonly annotations?: any
  /** The server's own remarks for programs. */
  readonly _meta?: any
  /** Known from the cache; its server is not ready. A call waits for it. */
  readonly deferred: boolean
  /** Deferred, and older than its server said it stays valid. */
  readonly stale: boolean
  /** Its server failed; a call gives the reason. */
  readonly unavailable: boolean
  /** When the definition was read from the server, in RFC 3339. */
  readonly fetchedAt: string
  /** The same as `json`, for `JSON.stringify`. */
  toJSON(): any
}

/** What a server sent as a result. */
export declare class Result {
  protected constructor()
  /** Exactly the bytes that the server sent. */
  readonly raw: Buffer
  /** The same, decoded at the first look (JavaScript's number limits apply). */
  readonly json: any
  /** The same as `json`, for `JSON.stringify`. */
  toJSON(): any
}

/** What a tool gave back. */
export declare class CallResult extends Result {
  private constructor()
  /** The content blocks, as MCP defines them; empty where the result has none. */
  readonly content: any[]
  /** The result as data, if the tool gives such. */
  readonly structuredContent: any
  /** The tool reports its own failure; the call itself succeeded. */
  readonly isError: boolean
  /** All text content, joined by line ends. */
  readonly text: string
  /** Answers the model, in the shape of the call's `format`; undefined for a call without one. */
  readonly message: any
  /**
   * With `openai`, a message of the user with the pictures, sound and PDFs that `message` has no place for. It belongs
   * behind the answers to all calls of the same turn. Undefined for most results.
   */
  readonly followUp: any
}

/** What was counted since `open`; docs/options.md says what each number is. */
export interface Stats {
  /** Counts changes of tools and servers. */
  revision: number
  /** How many are known. */
  tools: number
  /** Since `open`. */
  uptimeMs: number
  /** Null: nothing is recorded. */
  trace: {
    /** Written to the trace. */
    records: number
    /** Not written, since the disk was too slow. */
    dropped: number
  } | null
  /** Of each server that is configured now. */
  servers: ServerStats[]
}

/** What was counted of one server since `open`, over all its connections. */
export interface ServerStats {
  /** Its name in the config. */
  name: string
  /** Its state now. */
  state: ServerState
  /** How many it has. */
  tools: number
  /** Operations that went to this server, those under way included. */
  calls: number
  /** Operations that were passed to it and are not answered. */
  inFlight: number
  /** Operations that wait for it. */
  queued: number
  /** Calls that were sent again after a lost connection. */
  resends: number
  /** Failed calls by error code. */
  errors: Record<string, number>
  /** Attempts to start it. */
  starts: number
  /** Starts after it was lost. */
  reconnects: number
  /** Received from it. */
  bytesIn: number
  /** Sent to it. */
  bytesOut: number
  /** Lines that were no messages. */
  junkLines: number
  /** Messages with bytes that are not UTF-8. */
  repaired: number
  /** Messages above `limits.messageBytes`. */
  tooLarge: number
  /** Answers and progress that belong to no open request. */
  unmatched: number
  /** Notifications that found their queue full. */
  droppedNotifications: number
  /** Requests of the server that were over the limits. */
  refusedRequests: number
  /** Of answers, without the wait for the server. A bucket's calls took less than `belowMs`, and are in no bucket before it. */
  latency: {
    /** Answers that were measured. */
    count: number
    /** Their mean. */
    meanMs: number
    /** Half of them took less. */
    p50Ms: number
    /** Nine of ten took less. */
    p90Ms: number
    /** All but one of a hundred took less. */
    p99Ms: number
    /** The slowest. */
    maxMs: number
    /** Those with something in them, the quickest first. */
    buckets: {
      /** The upper end of the bucket. */
      belowMs: number
      /** Answers in it. */
      count: number
    }[]
  }
}

// ---- verbs ------------------------------------------------------------------

/** What every verb takes. */
export interface Abortable {
  /** The promise rejects with the signal's reason at once, and the library cancels the operation. */
  signal?: AbortSignal
}

/** What `connect` takes; without a member, the option of the runtime holds. */
export interface ConnectOptions extends Abortable {
  /** Connect these servers, by name, and no others. */
  only?: string[]
  /** Servers of the program itself, added to those of the files; always trusted. */
  servers?: Record<string, ServerConfig>
  /** How long to wait for slow servers whose tools are cached; 0 waits for every server. */
  startupTimeoutMs?: number
  /** What happens after the gate to a pending server without cached tools. */
  uncached?: 'wait' | 'background'
  /** `eager`: return as soon as every server is settled or covered by the cache. */
  gate?: 'timer' | 'eager'
  /** Hashes that `discover` showed, by server name: these entries are trusted from now on. */
  trust?: Record<string, string>
  /** Servers, by name, that may ask the user to sign in or for an input. */
  authorize?: string[]
  /** Servers that run, all or those of `only`, are replaced. */
  restart?: boolean
  /** False leaves the tools out of the report. */
  tools?: boolean
  /** For this verb as a whole. */
  timeoutMs?: number
}

/** What `reload` takes. */
export interface ReloadOptions extends Abortable {
  /** `diff` keeps every server whose config did not change; `full` restarts all. */
  mode?: 'diff' | 'full'
  /** As for `connect`: how long to wait for slow servers whose tools are cached; 0 waits for every server. */
  startupTimeoutMs?: number
  /** What happens after the gate to a pending server without cached tools. */
  uncached?: 'wait' | 'background'
  /** `eager`: return as soon as every server is settled or covered by the cache. */
  gate?: 'timer' | 'eager'
  /** False leaves the tools out of the report. */
  tools?: boolean
  /** For this verb as a whole. */
  timeoutMs?: number
}

/** What `list` takes. */
export interface ListOptions extends Abortable {
  /** What to list. Tools, the default, and servers come from memory; the others are asked of the servers. */
  kind?: 'tools' | 'servers' | 'resources' | 'resourceTemplates' | 'prompts'
  /** Of this server only. */
  server?: string
  /** Only these, by name. */
  names?: string[]
  /** Of a list that you hold: if nothing changed since, the reply says `unchanged` and has no items. */
  ifRevision?: number
  /** Only what matches these words. */
  search?: string
  /** The shape of the tools; default `mcp`. */
  format?: Format | 'mcp'
  /** Tools only: asks the server, or every ready one, for its tools anew first; `errors` has those that failed. */
  refresh?: boolean
  /** For this verb as a whole. */
  timeoutMs?: number
}

/** What `call` and `request` take. */
export interface CallOptions extends Abortable {
  /** For the call, its wait for the server included; progress starts it anew. 0: none. */
  timeoutMs?: number
  /** Asks the server for progress. */
  onProgress?: (progress: ProgressEvent) => void
  /** Sent as `_meta`. */
  meta?: Record<string, unknown>
  /** Whether a call may be sent again after a lost connection. Default `safe`: only when the tool says that it is. */
  retry?: 'safe' | 'always' | 'never'
}

/** The MCP servers of one project. Made by `Runtime.open`; `close` ends it. */
export declare class Runtime extends EventEmitter<RuntimeEvents> {
  private constructor()
  /**
   * Loads the library at its first use. Reads no file and starts no process. Rejects with a LibraryError when the
   * library cannot be used, with an InvalidRequestError for a wrong option.
   */
  static open(options?: RuntimeOptions): Promise<Runtime>

  /** Which servers exist. Starts nothing. */
  discover(options?: Abortable & {
    /** For this verb as a whole. */
    timeoutMs?: number
  }): Promise<DiscoverReport>
  /**
   * Starts the servers, and returns at the gate at the latest (see `startupTimeoutMs`). A server that fails is no
   * rejection: see `errors` of the report.
   */
  connect(options?: ConnectOptions): Promise<ConnectReport>
  /** Reads all config again. */
  reload(options?: ReloadOptions): Promise<ReloadReport>
  /** Ends one server, or all; the runtime stays open. */
  disconnect(server?: string, options?: Abortable): Promise<Reply & {
    /** The servers that were ended, by name. */
    disconnected: string[]
  }>

  /** What is known: the tools (default), the servers, or what servers offer besides. Tools and servers come from memory. */
  list(options?: ListOptions & {
    /** What to list. */
    kind?: 'tools'
    /** MCP's own shape. */
    format?: 'mcp'
  }): Promise<ToolListing>
  /** The tools known now, as a model's provider takes them. */
  list(options: ListOptions & {
    /** What to list. */
    kind?: 'tools'
    /** The provider. */
    format: Format
  }): Promise<FormattedTools>
  /** The state of every server; asks no server. */
  list(options: ListOptions & { /** What to list. */ kind: 'servers' }): Promise<Listing & {
    /** Sorted by name. */
    servers: ServerView[]
  }>
  /**
   * Resources, resource templates or prompts: of one server, or of every ready one (then `errors` has those that
   * failed). They are asked of the servers; the member is called as the kind.
   */
  list(options: ListOptions): Promise<Listing & { [kind: string]: any }>
  /** The tools known now, sorted by name; asks no server. */
  tools(options?: Omit<ListOptions, 'kind' | 'ifRevision'> & {
    /** MCP's own shape. */
    format?: 'mcp'
  }): Promise<Tool[]>
  /** The tools known now, for the `tools` of a request to a model's provider (`gemini`: its function declarations). */
  tools(options: Omit<ListOptions, 'kind' | 'ifRevision'> & {
    /** The provider. */
    format: Format
  }): Promise<any[]>
  /** The state of every server; asks no server. */
  servers(options?: Omit<ListOptions, 'kind' | 'ifRevision'>): Promise<ServerView[]>

  /**
   * Calls a tool: by the name that the list gives, or, with `server`, by the
   * server's own name for it. A deferred tool's server is waited for. A tool that reports its own failure resolves,
   * with `isError`. Rejects, among others, with an UnknownToolError, a TimeoutError, an RPCError, an ExitedError, or an
   * OutcomeUnknownError when the tool may have run.
   */
  call(name: string, args?: Record<string, unknown>, options?: CallOptions & {
    /** The server that `name` is the own tool name of. */
    server?: string
  }): Promise<CallResult>
  /**
   * Calls a tool as a model wrote it: by the name in that format's list, with the arguments as an object or as JSON text.
   * `message` of the result answers the call `callId`; a failed call has one, too, in the `result` of the error.
   */
  call(name: string, args: Record<string, unknown> | string | undefined, options: CallOptions & {
    /** The provider whose model it is. */
    format: Format
    /** The model's own id of the call, for `message`. */
    callId?: string
  }): Promise<CallResult>
  /** Any other request: `resources/read`, `prompts/get`, `ping`, …; with server null one of the library's own, `mcprt/stats`. */
  request(server: string | null, method: string, params?: Record<string, unknown>, options?: CallOptions): Promise<Result>

  /**
   * Connects a server, and asks its user to sign in where that is needed: by the `authorization`
   * handler, or in the system's browser. Rejects with a NeedsAuthError when nobody signed in.
   */
  login(server: string, options?: Abortable & {
    /** Default: as long as the option `requestTimeoutMs` allows. */
    timeoutMs?: number
  }): Promise<SignIn>
  /** Forgets the sign-in to a server, here and in the store, and tells the authorization server so. */
  logout(server: string, options?: Abortable & {
    /** For this verb as a whole. */
    timeoutMs?: number
  }): Promise<{
    /** The server's name. */
    server: string
    /** Whether there was a sign-in. */
    signedOut: boolean
    /** Whether the authorization server took it back. */
    revoked: boolean
  }>

  /** What was counted since the runtime was opened. */
  stats(options?: Abortable): Promise<Stats>

  /** Events in order. A slow reader loses the newest ones and sees a `dropped` event instead. */
  events(options?: Abortable & {
    /** Events held for the reader. Default 1024. */
    limit?: number
  }): AsyncIterableIterator<RuntimeEvent>

  /** Keeps the process alive while the runtime is open. Without it, only unfinished operations do. */
  ref(): this
  /** Takes `ref` back. */
  unref(): this

  /** Ends every server and every operation. Can be called again; rejects only for a wrong argument, and then ends nothing. */
  close(options?: {
    /** For stopping stdio servers. Default: the option of the runtime. */
    graceMs?: number
  }): Promise<void>
  /** Whether close was called or the library ended. */
  readonly closed: boolean
  /** The same as close, where the language has `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

// ---- events -----------------------------------------------------------------

/** Tools came, went or changed. Ignore one whose revision is not above that of the list you hold. */
export interface ToolsChangedEvent {
  type: 'tools_changed'
  /** Of the list with these changes. */
  revision: number
  /** Whose tools they are. */
  server: string
  /** New tools, by name. */
  added: string[]
  /** Tools that are gone, by name. */
  removed: string[]
  /** Tools whose entry has other bytes, if only in `deferred`; a new `fetchedAt` alone is told to nobody. */
  changed: string[]
  /** Tools whose server has become ready. */
  live: string[]
  /** New names by old ones. */
  renamed: Record<string, string>
}
/** A server has come into another state. */
export interface ServerStateEvent extends ServerView {
  type: 'server_state'
}
/** How far an operation is, as the server says. */
export interface ProgressEvent {
  type: 'progress'
  /** Which operation it is, within this runtime. */
  tag: number
  /** Who says so. */
  server: string
  /** Grows, in the server's own unit, up to `total`. */
  progress: number
  /** The end of `progress`, if the server knows it. */
  total?: number
  /** What it does just now. */
  message?: string
}
/** A record of a server, or of the library itself (without `server`). */
export interface LogEvent {
  type: 'log'
  /** Whose record it is. */
  server?: string
  /** From `debug` to `emergency`, as MCP has them. */
  level: string
  /** Which part of the server speaks; `mcprt` for the library. */
  logger?: string
  /** Whatever the server sent. */
  data: unknown
}
/** A resource that was subscribed to has changed. */
export interface ResourceUpdatedEvent {
  type: 'resource_updated'
  /** Whose it is. */
  server: string
  /** Which one. */
  uri: string
}
/** The resources or prompts of a server have changed: list them again. */
export interface ListChangedEvent {
  /** Which list it is. */
  type: 'resources_changed' | 'prompts_changed'
  /** Whose they are. */
  server: string
}
/** Any other notification of a server, as it was sent. */
export interface NotificationEvent {
  type: 'notification'
  /** Who sent it. */
  server: string
  /** Such as `notifications/x`. */
  method: string
  /** Its parameters. */
  params?: any
}
/** Something to know that came up while servers run. */
export interface DiagnosticEvent extends Diagnostic {
  type: 'diagnostic'
}
/** Config files have changed (with the option `watch`). */
export interface ConfigChangedEvent {
  type: 'config_changed'
  /** With `watch: 'apply'`; else the servers are as they were until `reload`. */
  applied: boolean
  /** The files. */
  paths: string[]
  /** Servers that are new, by name. */
  added: string[]
  /** Servers that are gone, by name. */
  removed: string[]
  /** Servers with another config, by name. */
  changed: string[]
}
/** Events are missing here: what holds now is in `list`. */
export interface DroppedEvent {
  type: 'dropped'
  /** How many are missing. */
  count: number
}
/** A handler of `onRequest` threw, or its answer had the wrong shape. */
export interface RequestFailedEvent {
  type: 'request_failed'
  /** Which request it was, such as `elicitation/create`. */
  request: string
  /** Who asked. */
  server: string
  /** What the handler threw. */
  error: unknown
}

/** Every event; `type` tells which. */
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

/** The codes of docs/errors.md. */
export type ErrorCode = keyof typeof errorClasses

/** In what a failure happened. */
export type ErrorStage = 'config' | 'spawn' | 'connect' | 'send' | 'receive' | 'decode' | 'protocol' | 'auth'

/** The details of a failure as fields; which there are depends on the code. */
export interface ErrorData {
  /** The program that was to be started. */
  command?: string
  /** Of the server's process. */
  exitCode?: number
  /** That ended the server's process, such as `SIGKILL`. */
  signal?: string
  /** The last lines. */
  stderr?: string
  /** Of an HTTP server. */
  httpStatus?: number
  /** What the HTTP server answered: its first 4 KiB. */
  body?: string
  /** `WWW-Authenticate` of a 401 or 403. */
  challenge?: string
  /** How long the HTTP server wants to be left alone. */
  retryAfterMs?: number
  /** By which the operator of an HTTP server finds the request. */
  traceId?: string
  /** Of the server's JSON-RPC error. */
  rpcCode?: number
  /** The server's own words. */
  rpcMessage?: string
  /** What the server sent with its error. */
  rpcData?: unknown
  /** The time that ran out. */
  timeoutMs?: number
  /** Of an entry that waits for approval. */
  hash?: string
  /** The config file. */
  path?: string
  /** In `path`, from 1. */
  line?: number
  /** In `line`, from 1. */
  column?: number
}

/** A failure as data. */
export interface ErrorInfo {
  /** One of ErrorCode, or a code of a newer library. */
  code: string
  /** What happened, to which server, and what to do next; never a secret. */
  message: string
  /** The server that it is about. */
  server?: string
  /** The tool that it is about. */
  tool?: string
  /** In what it happened. */
  stage?: ErrorStage
  /** The same request may succeed later without a change of config. */
  retryable: boolean
  /** The details. */
  data?: ErrorData
}

/** What an MCPError is made of. */
export interface ErrorFields extends ErrorInfo {
  /** Of a failed call: the failure as a tool result that a model can be shown. */
  result?: CallResult
}

/** A failure that the library reports. Each code has a subclass; `code` tells which also where that is of a newer library. */
export declare class MCPError extends Error {
  constructor(fields: Partial<ErrorFields> & {
    /** What happened. */
    message: string
  })
  /** One of ErrorCode, or a code of a newer library. */
  readonly code: string
  /** The server that it is about. */
  readonly server?: string
  /** The tool that it is about. */
  readonly tool?: string
  /** In what it happened. */
  readonly stage?: ErrorStage
  /** The same request may succeed later without a change of config. */
  readonly retryable: boolean
  /** The details. */
  readonly data?: ErrorData
  /** Of a failed call: the failure as a tool result that a model can be shown. */
  readonly result?: CallResult
}

/** An argument or option is wrong, or a method may not be called this way; the message names it. */
export declare class InvalidRequestError extends MCPError {}
/** No server has this name; the message lists those that are. */
export declare class UnknownServerError extends MCPError {}
/** No tool has this name; the message lists those that are. */
export declare class UnknownToolError extends MCPError {}
/** The tool was known from the cache, but the live server has it no longer; it was not called. */
export declare class ToolGoneError extends MCPError {}
/** `allowTools` or `denyTools` of the server's config forbid this tool. */
export declare class FilteredError extends MCPError {}
/** The operation ran out of time; `stage` says in what. */
export declare class TimeoutError extends MCPError {}
/** The operation was cancelled, and not by its own AbortSignal. */
export declare class CanceledError extends MCPError {}
/** The runtime is closed, or was while the operation ran. */
export declare class ClosedError extends MCPError {}
/** Too many operations wait to be finished (`maxInFlight`, `queueBytes`). */
export declare class BusyError extends MCPError {}
/** A server's config cannot be used; `data` has `path`, `line` and `column`. */
export declare class ConfigError extends MCPError {}
/** The server's process could not be started; `data` has `command`. */
export declare class SpawnFailedError extends MCPError {}
/** The server's process ended; `data` has `exitCode` or `signal`, and the end of its `stderr`. */
export declare class ExitedError extends MCPError {}
/** The server could not be reached, or refused the handshake. */
export declare class ConnectFailedError extends MCPError {}
/** The server sent something that MCP does not allow. */
export declare class ProtocolError extends MCPError {}
/** The server and the library have no protocol version in common. */
export declare class UnsupportedVersionError extends MCPError {}
/** A message, a list or a page count is above `limits`. */
export declare class TooLargeError extends MCPError {}
/** An HTTP server answered with an error status; `data` has `httpStatus`, `body` and maybe `retryAfterMs`. */
export declare class HTTPStatusError extends MCPError {}
/** The server answered with a JSON-RPC error; `data` has `rpcCode`, `rpcMessage` and maybe `rpcData`. */
export declare class RPCError extends MCPError {}
/** The server wants its user to sign in, and nobody has: see `Runtime.login`. */
export declare class NeedsAuthError extends MCPError {}
/** The entry comes from a project's file and was not approved; `data` has its `hash`. */
export declare class NeedsTrustError extends MCPError {}
/** The entry needs a value that only a person has: give `open` an `input` handler. */
export declare class NeedsInputError extends MCPError {}
/** The server was disconnected by this program; `connect` revives it. */
export declare class DisconnectedError extends MCPError {}
/** The server is disabled, or was lost again and again while the call waited. */
export declare class UnavailableError extends MCPError {}
/** The server failed too often in a short time and is left alone for a while; `connect` with `restart` tries at once. */
export declare class CrashLoopError extends MCPError {}
/** The connection was lost after the call was written: the tool may have run. It was not sent again. */
export declare class OutcomeUnknownError extends MCPError {}
/** A bug in the library, caught; please report it. */
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
