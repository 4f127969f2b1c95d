// Package config finds out which servers exist. It reads the files of every
// source, maps their dialects onto one form, merges them by one order, and says
// what is wrong with which line. It starts nothing and asks no network.
//
// It imports nothing else of this project.
package config

// Server is one server's config after its dialect was mapped, before any
// variable in it was expanded. Zero fields are absent.
type Server struct {
	Type               string            `json:"type"` // "stdio", "http", "sse"
	Command            string            `json:"command,omitempty"`
	Args               []string          `json:"args,omitempty"`
	Env                map[string]string `json:"env,omitempty"`
	Cwd                string            `json:"cwd,omitempty"`
	URL                string            `json:"url,omitempty"`
	Headers            map[string]string `json:"headers,omitempty"`
	EnvVars            []string          `json:"envVars,omitempty"`           // variables that are passed on where they are set
	HeaderEnvVars      map[string]string `json:"headerEnvVars,omitempty"`     // header → the variable with its value
	BearerTokenEnvVar  string            `json:"bearerTokenEnvVar,omitempty"` // the variable with the token for Authorization
	Enabled            *bool             `json:"enabled,omitempty"`           // nil: true
	Required           *bool             `json:"required,omitempty"`          // without it the host's work makes no sense
	TimeoutMs          *int64            `json:"timeoutMs,omitempty"`
	StartupTimeoutMs   *int64            `json:"startupTimeoutMs,omitempty"` // of connecting; nil: TimeoutMs
	Lazy               *bool             `json:"lazy,omitempty"`
	IdleTimeoutMs      *int64            `json:"idleTimeoutMs,omitempty"`
	AllowTools         []string          `json:"allowTools,omitzero"` // globs on raw tool names; nil: all; empty: none
	DenyTools          []string          `json:"denyTools,omitempty"` // deny wins
	MaxConcurrentCalls int               `json:"maxConcurrentCalls,omitempty"`
	Protocol           string            `json:"protocol,omitempty"` // pins a protocol version
	Instructions       *bool             `json:"instructions,omitempty"`
	TLS                *TLS              `json:"tls,omitempty"`
	Proxy              string            `json:"proxy,omitempty"`
	OAuth              map[string]any    `json:"oauth,omitempty"`
	// Host holds members that mean something to a host only, such as autoApprove,
	// as they were written. mcprt does nothing by them.
	Host map[string]any `json:"host,omitempty"`

	implied string // the transport that the URL's member stands for
}

// TLS names the files of a server's own certificate authorities and client certificate.
type TLS struct {
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
}

// Level says whose file an entry came from.
type Level string

const (
	LevelHost    Level = "host"    // inline, or a file that the host named: trusted
	LevelLocal   Level = "local"   // a user's own entry for this project: trusted
	LevelProject Level = "project" // a file inside the project: needs trust
	LevelUser    Level = "user"    // a user's own file: trusted
)

// Origin says where an entry was written.
type Origin struct {
	Provider     string `json:"provider"`     // "mcp-json", "cursor", "inline" …
	ProviderName string `json:"providerName"` // for people: "MCP", "Cursor"
	Path         string `json:"path,omitempty"`
	Level        Level  `json:"level"`
	Line         int    `json:"line,omitempty"` // of the entry's name, from 1
	Column       int    `json:"column,omitempty"`
}

// Entry is one server that could be started. It is read-only after discovery.
type Entry struct {
	Name        string
	Server      Server
	Origin      Origin
	Enabled     bool
	Trusted     bool   // no record is needed, or one exists
	Hash        string // "sha256:…": what a trust record names; also set for trusted entries
	DuplicateOf string // another entry with the same connection, which is started instead
	Dialect     Dialect
	BaseDir     string   // relative cwd, command and envFile are resolved against it
	EnvFile     string   // as written, or ""
	Prompts     []Prompt // what the file says of each ${input:id} in the entry

	raw     []byte              // the entry as written, in canonical form
	at      map[string]Pos      // field → place of its value; "" is the entry
	overlay bool                // no launch data: it only switches the next owner of the name
	project string              // the project directory of this discovery
	vars    map[string]string   // variables that its source gives, such as a plugin's directory
	node    *Node               // of a layered source, until its layers are laid over each other
	files   map[string]snapshot // by absolute path: the project-local files that the hash covers
}

// Prompt says what to ask a user for an ${input:id}.
type Prompt struct {
	ID          string   `json:"id"`
	Type        string   `json:"type,omitempty"` // "promptString", "pickString", …
	Description string   `json:"description,omitempty"`
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"`
	Password    bool     `json:"password,omitempty"` // the answer is a secret
}

// Shadowed is an entry that lost its name to another one.
type Shadowed struct {
	Name   string `json:"name"`
	Source Origin `json:"source"`
	By     Origin `json:"by"`
}

// Diagnostic is one finding about a file or an entry. Codes are stable.
type Diagnostic struct {
	Severity string `json:"severity"` // "error", "warning", "note"
	Code     string `json:"code"`
	Server   string `json:"server,omitempty"`
	Field    string `json:"field,omitempty"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Message  string `json:"message"` // what is wrong and what to do
}

// Result is what discovery found: entries in the order of ownership. A name
// stands there once for its owner, and besides for every untrusted project entry
// of that name that would own it if it were trusted: see Owners.
type Result struct {
	Entries     []*Entry
	Shadowed    []Shadowed
	Diagnostics []Diagnostic
	ExaAPIKeys  []string
}

// Resolved is a config that is ready to start: variables expanded, paths made
// absolute, secrets known so that they can be kept out of messages.
type Resolved struct {
	Server           // expanded; Cwd absolute; Command as written when it has no slash, else absolute
	Secrets []string `json:"-"` // values that must never appear in a message, longest first
}
