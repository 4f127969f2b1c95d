// Package mcptest is a scripted MCP server. One Script runs in memory (Memory: no
// pipe, no process, usable inside a testing/synctest bubble), as a re-executed
// child of the test binary (Main, Script.Command), behind a socket (HTTP), and as
// `mcprt fault-server`, so that a misbehaviour is written once and tried
// everywhere.
//
// It is not a model server: it does what the script says, wrong things above all.
package mcptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The protocol versions that a script may name.
const (
	Modern = "2026-07-28"
	Latest = "2025-11-25" // the newest version with initialize
)

// Legacy lists the versions that have initialize, newest first.
var Legacy = []string{Latest, "2025-06-18", "2025-03-26", "2024-11-05"}

// What a server does with server/discover. The zero value means: what its
// versions say, a result if Modern is among them and -32601 if not.
type Discover string

const (
	DiscoverByVersions     Discover = ""
	DiscoverMethodNotFound Discover = "methodNotFound" // error -32601
	DiscoverInvalidParams  Discover = "invalidParams"  // error -32602
	DiscoverSilence        Discover = "silence"        // no answer, the server lives
	DiscoverExit           Discover = "exit"           // exit code 1
	DiscoverResult         Discover = "result"         // a result that lists Supported
	DiscoverUnsupported    Discover = "unsupported"    // error -32022 that lists Supported
	DiscoverOnSecond       Discover = "second"         // as DiscoverUnsupported, then a result
)

// How a list names its next page.
type Cursors string

const (
	CursorsCount  Cursors = ""       // a new cursor for each page, none on the last
	CursorsSame   Cursors = "same"   // the same cursor for ever
	CursorsNew    Cursors = "new"    // a new cursor for ever, and always the first page
	CursorsABA    Cursors = "aba"    // A, B, A, B …
	CursorsEmpty  Cursors = "empty"  // "" names the second page; later ones as in CursorsCount
	CursorsNull   Cursors = "null"   // nextCursor null on the last page
	CursorsNumber Cursors = "number" // nextCursor is a number, which the protocol forbids
)

// Script says what a server is and does. Its zero value is a well-behaved server
// of every legacy version with all built-in tools. It marshals to JSON.
type Script struct {
	Name         string   `json:"name,omitempty"` // "scripted" by default
	Instructions string   `json:"instructions,omitempty"`
	Versions     []string `json:"versions,omitempty"` // newest first; nil: Legacy
	Discover     Discover `json:"discover,omitempty"`
	Supported    []string `json:"supported,omitempty"` // what the answer to server/discover lists; nil: Versions
	// RequireInitialize refuses every request before initialize, the probe included, with -32600.
	RequireInitialize bool `json:"requireInitialize,omitempty"`
	// AnswerVersion is what initialize answers, whatever was asked; "" negotiates.
	AnswerVersion string `json:"answerVersion,omitempty"`

	// Tools are raw definitions, sent byte for byte. nil: DefaultTools. Empty: none.
	Tools        []string `json:"tools"`
	NoTools      bool     `json:"noTools,omitempty"`      // no tools capability, tools/list is -32601
	Capabilities string   `json:"capabilities,omitempty"` // raw JSON in place of the default capabilities
	PageSize     int      `json:"pageSize,omitempty"`     // 0: one page
	Cursors      Cursors  `json:"cursors,omitempty"`
	ListFields   string   `json:"listFields,omitempty"` // raw members added to each list result: `"ttlMs":1`; "": what the era demands
	NoListen     bool     `json:"noListen,omitempty"`   // modern: subscriptions/listen is -32601
	// ListChanged makes the first n tools/list requests be followed, before their
	// answer, by notifications/tools/list_changed.
	ListChanged int `json:"listChanged,omitempty"`

	// Do maps a tool's name to the name of a built-in behaviour. A tool that is
	// neither here nor a built-in name echoes.
	Do map[string]string `json:"do,omitempty"`
	// Results maps a tool's name to the raw result that it returns byte for byte.
	Results map[string]string `json:"results,omitempty"`
	// Replies maps any other method to a raw result.
	Replies map[string]string `json:"replies,omitempty"`

	StartDelay      time.Duration `json:"startDelay,omitempty"` // before the first message is read
	InitializeDelay time.Duration `json:"initializeDelay,omitempty"`
	ListDelay       time.Duration `json:"listDelay,omitempty"`
	CallDelay       time.Duration `json:"callDelay,omitempty"`

	ExitAtStart      *int `json:"exitAtStart,omitempty"`      // exit code, before anything is read
	ExitAtInitialize *int `json:"exitAtInitialize,omitempty"` // exit code, in place of the answer
	SilentInitialize bool `json:"silentInitialize,omitempty"`
	// Crashes is how many processes in a row exit with code 3 once they were initialized
	// and have listed their tools; -1: all. They are counted in StateFile, child mode only.
	Crashes     int      `json:"crashes,omitempty"`
	StateFile   string   `json:"stateFile,omitempty"`
	Stderr      string   `json:"stderr,omitempty"`      // written at start
	StderrBytes int      `json:"stderrBytes,omitempty"` // of x without a newline, written after Stderr
	Banner      []string `json:"banner,omitempty"`      // stdout lines that are no messages, before the first message is read
	Noise       []string `json:"noise,omitempty"`       // the same before each answer
	NoiseLate   bool     `json:"noiseLate,omitempty"`   // Noise begins after the answer to initialize
	StringIDs   bool     `json:"stringIDs,omitempty"`   // number ids come back as strings
	IgnoreEOF   bool     `json:"ignoreEOF,omitempty"`   // goes on after its stdin was closed
	IgnoreTerm  bool     `json:"ignoreTerm,omitempty"`  // goes on after SIGTERM
	Wrapped     bool     `json:"wrapped,omitempty"`     // the server is a child of the process that was started, as behind npx; child mode only
	Grandchild  bool     `json:"grandchild,omitempty"`  // starts a child of its own that ignores EOF (and TERM if IgnoreTerm); child mode only

	// LogFile, in child mode, gets one JSON line {"pid","event","data"} per event:
	// start, recv (data: the message), cancelled (data: the id), grandchild (data: its pid), exit.
	LogFile string `json:"logFile,omitempty"`
}

// DefaultTools are the definitions of all built-in behaviours:
//
//	echo      {…}            the raw arguments as text and as structuredContent
//	add       {a, b}         the sum as text
//	slow      {ms}           answers after ms; a cancellation is logged and ends it
//	image     {bytes}        an image of that size in base64
//	fail      {}             isError
//	rpcerror  {code}         a JSON-RPC error (-32000) with data {"detail":"scripted"}
//	neither   {}             a response without result and without error
//	die       {code, kill}   the server exits (3); kill: by SIGKILL, without a word
//	hang      {}             never answers
//	deaf      {}             answers, then the server stops reading its stdin
//	big       {bytes}        that much text
//	unicode   {bytes}        that much text of three-byte characters
//	lines     {n}            that many lines of text
//	picture   {bytes}        an image, and the same data again in structuredContent
//	late      {ms}           answers after ms, also when it was cancelled
//	progress  {n, everyMs}   n progress notifications, then the answer
//	elicit, sample, roots    asks the client and returns its answer as text
//	input     {rounds}       modern: asks through input_required, rounds (1) times
//	task      {polls, ask, end}  a task, which is what end says (completed) after that many polls; it may ask
//	log       {n}            n notifications/message (1), then the answer
//	changed   {}             notifications/tools/list_changed, then the answer
//	spam      {bytes}        that much stderr without a newline, then the answer
//	env       {}             child mode: {"pid","cwd","args","env"} as text
func DefaultTools() []string {
	names := slices.Sorted(maps.Keys(behaviours))
	tools := make([]string, len(names))
	for i, name := range names {
		tools[i] = Tool(name)
	}
	return tools
}

// Tool is a plain definition with this name.
func Tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"The %s behaviour","inputSchema":{"type":"object"}}`, name, name)
}

// NumberedTools are n plain definitions, tool_0000 and on.
func NumberedTools(n int) []string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = Tool(fmt.Sprintf("tool_%04d", i))
	}
	return tools
}

// OddSchemas are tools whose input schemas are right and wrong in all the ways that
// servers in use have them; only the last is what the protocol asks for.
func OddSchemas() []string {
	return []string{
		`{"name":"empty","inputSchema":{}}`,
		`{"name":"null","inputSchema":null}`,
		`{"name":"missing"}`,
		`{"name":"any_of","inputSchema":{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object"}]}}`,
		`{"name":"type_list","inputSchema":{"type":["object"]}}`,
		`{"name":"boolean","inputSchema":true}`,
		`{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
	}
}

// RefSchemas are tools whose input schemas refer to parts of themselves.
func RefSchemas() []string {
	return []string{
		`{"name":"local","inputSchema":{"type":"object","properties":{"at":{"$ref":"#/$defs/point"}},"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}}}}}}`,
		`{"name":"property","inputSchema":{"type":"object","properties":{"from":{"type":"string","maxLength":9},"to":{"$ref":"#/properties/from"}}}}`,
		`{"name":"recursive","inputSchema":{"type":"object","properties":{"node":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}}`,
		`{"name":"siblings","inputSchema":{"type":"object","properties":{"at":{"$ref":"#/definitions/point","description":"where","default":{"x":1.0}}},"definitions":{"point":{"type":"object"}}}}`,
	}
}

// LongNamedTools are n tools whose names have size bytes and differ only in the last.
func LongNamedTools(n, size int) []string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = Tool(strings.Repeat("n", max(size-1, 0)) + string(rune('a'+i%26)))
	}
	return tools
}

// DirtyLines are what servers print between their messages: a version, a byte order
// mark, nothing, colours, a log record, half a message.
func DirtyLines() []string {
	return []string{"Server v1 running", "\xef\xbb\xbf", "", "\x1b[32mready\x1b[0m", `{"level":"info","msg":"a log line"}`, `{"jsonrpc":"2.0","id":`, "[]", "null"}
}

// Code is a helper for the exit code fields.
func Code(n int) *int { return &n }

func (s *Script) name() string {
	if s.Name == "" {
		return "scripted"
	}
	return s.Name
}

func (s *Script) versions() []string {
	if s.Versions == nil {
		return Legacy
	}
	return s.Versions
}

func (s *Script) supported() []string {
	if s.Supported == nil {
		return s.versions()
	}
	return s.Supported
}

func (s *Script) tools() []string {
	if s.Tools == nil {
		return DefaultTools()
	}
	return s.Tools
}

func (s *Script) capabilities() string {
	var parts []string
	if s.Capabilities != "" {
		return s.Capabilities
	}
	if !s.NoTools {
		parts = append(parts, `"tools":{"listChanged":true}`)
	}
	return "{" + strings.Join(append(parts, `"logging":{}`), ",") + "}"
}

// page gives the definitions on the page that cursor names (nil: the first) and
// the raw members that name the next page; ok is false for an unknown cursor.
func (s *Script) page(tools []string, cursor *string) (items []string, next string, ok bool) {
	size := s.PageSize
	if size <= 0 {
		size = max(len(tools), 1)
	}
	at := 0
	switch s.Cursors {
	case CursorsSame:
		return tools[:min(size, len(tools))], `,"nextCursor":"again"`, true
	case CursorsABA:
		next = `,"nextCursor":"A"`
		if cursor != nil && *cursor == "A" {
			next = `,"nextCursor":"B"`
		}
		return tools[:min(size, len(tools))], next, true
	case CursorsNew:
		n := 0
		if cursor != nil {
			if _, err := fmt.Sscanf(*cursor, "new-%d", &n); err != nil {
				return nil, "", false
			}
		}
		return tools[:min(size, len(tools))], fmt.Sprintf(`,"nextCursor":"new-%d"`, n+1), true
	case CursorsNumber:
		return tools[:min(size, len(tools))], `,"nextCursor":7`, true
	}
	if cursor != nil {
		if *cursor == "" && s.Cursors == CursorsEmpty {
			at = size
		} else if _, err := fmt.Sscanf(*cursor, "at-%d", &at); err != nil {
			return nil, "", false
		}
	}
	if at > len(tools) {
		return nil, "", false
	}
	end := min(at+size, len(tools))
	switch {
	case end < len(tools) && s.Cursors == CursorsEmpty && at == 0:
		next = `,"nextCursor":""`
	case end < len(tools):
		next = fmt.Sprintf(`,"nextCursor":"at-%d"`, end)
	case s.Cursors == CursorsNull:
		next = `,"nextCursor":null`
	}
	return tools[at:end], next, true
}
