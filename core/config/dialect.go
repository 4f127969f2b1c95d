package config

import (
	"strings"
)

// Dialect is how one tool writes its config files, as data: one mapper reads
// them all. A dialect belongs to the file that an entry is in.
type Dialect struct {
	Wrappers  [][]string // where the map of servers lies: member paths, the first that exists is used
	WholeFile bool       // the file is for servers alone: a bare map of servers, or one lone server, is accepted
	Time      TimeUnit   // of a bare number in "timeout"
	URLKeys   []string   // members that hold the URL, the preferred one first
	// URLTypes is the transport that a URL's member stands for where the entry names none.
	URLTypes map[string]string
	// URLWins: where a command and a url both stand, the tool uses the url.
	URLWins bool
	// Command is the form beside a string in which the tool itself writes a
	// command: KindArray, KindObject, or 0.
	Command Kind
	// BuiltIn are words in "type" for what is no server but a part of the tool.
	// Such entries are skipped without a word.
	BuiltIn []string
	// Extensions: entries without launch data belong to the tool's extensions,
	// which alone know how to start them.
	Extensions bool
	// Layered: an entry in one file is laid over the entry of that name in the
	// next file, member by member.
	Layered bool
	Vars    VarSyntax
	Strict  bool // what would be mended is an error, unknown members are noted
}

// TimeUnit says what a number counts.
type TimeUnit string

const (
	TimeMillis  TimeUnit = "ms"
	TimeSeconds TimeUnit = "s"
	TimeGuess   TimeUnit = "guess" // below 1000: seconds, else milliseconds, with a note
)

// VarSyntax is the set of variable forms that a dialect expands.
type VarSyntax struct {
	Dollar      bool // ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:id}; $${ is a literal ${
	Bare        bool // $VAR
	Percent     bool // %VAR%, on Windows only
	Braces      bool // {env:VAR} and {file:path}
	DollarFile  bool // ${file:path}
	Command     bool // a whole env or header value that begins with ! is a helper command
	FileBeside  bool // a path in {file:path} is relative to the config file, not to the project
	HeadersOnly bool // other values are taken as they are, and the entry's own env comes first
}

// commonWrappers are where tools and copied snippets put their servers.
var commonWrappers = [][]string{{"mcpServers"}, {"servers"}, {"mcp", "servers"}, {"mcp.servers"}, {"context_servers"}, {"mcp_servers"}, {"McpServers"}}

// plainWrappers are those that hold servers whatever file they are in.
var plainWrappers = []string{"mcpServers", "context_servers", "mcp_servers"}

// commonURLKeys are understood everywhere: people move entries between tools.
var commonURLKeys = []string{"url", "serverUrl", "httpUrl", "baseUrl", "baseURL", "uri"}

var (
	// ownDialect is mcprt's: its files, and inline servers.
	ownDialect = Dialect{Wrappers: commonWrappers, WholeFile: true, Time: TimeMillis, URLKeys: commonURLKeys,
		Vars: VarSyntax{Dollar: true, Braces: true, Command: true}}
	claudeDialect = Dialect{Wrappers: commonWrappers, WholeFile: true, Time: TimeMillis, URLKeys: commonURLKeys,
		Vars: VarSyntax{Dollar: true}}
	cursorDialect = Dialect{Wrappers: commonWrappers, WholeFile: true, Time: TimeGuess, URLKeys: commonURLKeys,
		Vars: VarSyntax{Dollar: true}}
	// unknownDialect reads host-named files whose name says nothing.
	unknownDialect = Dialect{Wrappers: append(commonWrappers, []string{"mcp"}, []string{"extensions"}), WholeFile: true, Time: TimeGuess,
		URLKeys: commonURLKeys, Vars: VarSyntax{Dollar: true}}
)

// transportWords maps the words for a transport, in lower case and without - and
// _, to ours. Words that are missing here name transports that mcprt has not.
var transportWords = map[string]string{
	"stdio": "stdio", "local": "stdio", "command": "stdio",
	"http": "http", "streamablehttp": "http", "httpstream": "http", "httpstreamable": "http", "remote": "http",
	"sse": "sse",
}

// fieldNames maps the members of an entry, as any tool spells them, to one name
// each: mcprt's own, or where the meaning differs another one. URLs are in
// Dialect.URLKeys.
var fieldNames = map[string]string{
	"type": "type", "transport": "type", "transportType": "type",
	"command": "command", "cmd": "command",
	"args": "args", "arguments": "args",
	"env": "env", "environment": "env", "envs": "env",
	"envVars": "envVars", "env_vars": "envVars", "env_keys": "envVars",
	"headers": "headers", "http_headers": "headers", "requestHeaders": "headers",
	"headerEnvVars": "headerEnvVars", "env_http_headers": "headerEnvVars",
	"bearerTokenEnvVar": "bearerTokenEnvVar", "bearer_token_env_var": "bearerTokenEnvVar",
	"cwd": "cwd", "workingDirectory": "cwd", "envFile": "envFile",
	"enabled": "enabled", "isActive": "enabled", "active": "enabled", "disabled": "disabled",
	"timeoutMs": "timeoutMs", "requestTimeoutMs": "timeoutMs", "request_timeout_ms": "timeoutMs",
	"timeout": "timeout", "requestTimeout": "timeout", "tool_timeout_sec": "timeoutSec",
	"startupTimeoutMs": "startupTimeoutMs", "startup_timeout_ms": "startupTimeoutMs",
	"startupTimeout": "startupTimeout", "startup_timeout_sec": "startupTimeoutSec",
	"idleTimeoutMs": "idleTimeoutMs", "lazy": "lazy", "instructions": "instructions", "required": "required",
	"maxConcurrentCalls": "maxConcurrentCalls", "protocol": "protocol", "proxy": "proxy", "tls": "tls",
	"oauth": "oauth", "auth": "oauth", "scopes": "scopes",
	"allowTools": "allowTools", "includeTools": "allowTools", "enabledTools": "allowTools", "allowedTools": "allowTools",
	"enabled_tools": "allowTools", "available_tools": "allowTools",
	"denyTools": "denyTools", "excludeTools": "denyTools", "disabledTools": "denyTools", "blockedTools": "denyTools",
	"disabled_tools": "denyTools",
	"tools":          "tools",
	// What only a host can act on. It is handed out with the config.
	"autoApprove": "host", "alwaysAllow": "host", "trust": "host", "watchPaths": "host", "deferTools": "host", "alwaysLoad": "host",
	"disableToolCache": "host", "description": "host", "name": "host", "displayName": "host", "icon": "host", "version": "host",
	"gallery": "host", "supports_parallel_tool_calls": "host",
}

// foldedNames finds members whose spelling differs in case, - and _ only.
var foldedNames = func() map[string]string {
	folded := map[string]string{}
	for _, name := range sortedKeys(fieldNames) {
		folded[fold(name)] = fieldNames[name]
	}
	return folded
}()

var foldReplacer = strings.NewReplacer("-", "", "_", "", " ", "")

func fold(s string) string { return foldReplacer.Replace(strings.ToLower(s)) }

// field is the meaning of an entry's member, or "".
func (d *Dialect) field(name string) string {
	if known, ok := fieldNames[name]; ok || d.Strict {
		return known
	}
	return foldedNames[fold(name)]
}

// urlRank is the place of a member among those that hold the URL, or -1.
func (d *Dialect) urlRank(name string) int {
	loose := -1
	for i, key := range d.URLKeys {
		if key == name {
			return i
		}
		if !d.Strict && loose < 0 && fold(key) == fold(name) {
			loose = i
		}
	}
	return loose
}

// unsupportedFields are members that change what a server may do or how it
// starts in the tool they were written for, and that mcprt does not honour. They
// are reported rather than dropped in silence.
var unsupportedFields = map[string]string{
	"sandbox":          "mcprt does not sandbox servers",
	"sandboxEnabled":   "mcprt does not sandbox servers",
	"headersHelper":    "mcprt does not run it; put the header in headers",
	"dev":              "mcprt does not watch or debug servers",
	"authProviderType": "mcprt signs in with OAuth only",
	"bearer_token":     "name the variable that holds the token in bearer_token_env_var",
}
