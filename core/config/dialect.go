package config

// Dialect is how one tool writes its config files, as data: one mapper reads
// them all. A dialect belongs to the file that an entry is in.
type Dialect struct {
	Wrappers  [][]string // where the map of servers lies: member paths, the first that exists is used
	WholeFile bool       // the file is for servers alone: a bare map of servers, or one lone server, is accepted
	Time      TimeUnit   // of a bare number in "timeout"
	URLKeys   []string   // members that hold the URL, the preferred one first
	Vars      VarSyntax
	Strict    bool // what would be mended is an error, unknown members are noted
}

// TimeUnit says what a bare number in "timeout" means.
type TimeUnit string

const (
	TimeMillis  TimeUnit = "ms"
	TimeSeconds TimeUnit = "s"
	TimeGuess   TimeUnit = "guess" // below 1000: seconds, else milliseconds, with a note
)

// VarSyntax is the set of variable forms that a dialect expands.
type VarSyntax struct {
	Dollar  bool // ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:id}; $${ is a literal ${
	Braces  bool // {env:VAR} and {file:path}
	Command bool // a whole env or header value that begins with ! is a helper command
}

// commonWrappers are where tools and copied snippets put their servers.
var commonWrappers = [][]string{{"mcpServers"}, {"servers"}, {"mcp", "servers"}, {"context_servers"}}

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
	unknownDialect = cursorDialect
)

// transportWords maps the words for a transport, in lower case and without - and
// _, to ours. Words that are missing here name transports that mcprt has not.
var transportWords = map[string]string{
	"stdio": "stdio", "local": "stdio", "command": "stdio",
	"http": "http", "streamablehttp": "http", "httpstream": "http", "httpstreamable": "http", "remote": "http",
	"sse": "sse",
}

// unsupportedFields are members that change what a server may do or how it
// starts in the tool they were written for, and that mcprt does not honour. They
// are reported rather than dropped in silence.
var unsupportedFields = map[string]string{
	"sandbox":        "mcprt does not sandbox servers",
	"sandboxEnabled": "mcprt does not sandbox servers",
	"headersHelper":  "mcprt does not run it; put the header in headers",
	"dev":            "mcprt does not watch or debug servers",
	"startupTimeout": "mcprt has one timeout for connecting and for each request: timeoutMs",
}
