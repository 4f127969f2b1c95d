// Package session holds one MCP conversation: it settles the protocol version,
// pages through lists, keeps results as raw JSON, answers the server's own
// requests, runs multi round-trip requests, and cancels.
//
// mcp-go's client does the handshake; everything after it goes straight to the
// transport, since mcp-go's typed path decodes each result several times and
// loses unknown fields and large numbers.
package session

import (
	"context"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// Config is what a session needs to know. All durations of 0 mean "none".
type Config struct {
	Server       string         // for messages
	Dial         transport.Dial // opens one connection; called again when a server dies of the probe
	ClientInfo   ClientInfo
	Capabilities json.RawMessage // declared client capabilities, a JSON object
	Known        *Verdict        // what an earlier session found out; nil: probe
	Pin          string          // a protocol version that the config demands; "" for any
	ProbeTimeout time.Duration   // for server/discover on stdio
	Timeout      time.Duration   // for the handshake's and the lists' requests, each
	Limits       Limits
	Handler      Handler
}

// ClientInfo is shown to servers.
type ClientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Limits bound what a hostile server can make us hold.
type Limits struct {
	Pages int // pages of one list
	Tools int // items of one list
}

// Verdict is what a later session need not ask again; it is stored with the cached tools.
type Verdict struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Modern          bool            `json:"modern"`             // 2026-07-28 and later: no initialize
	Discover        json.RawMessage `json:"discover,omitempty"` // the raw server/discover result of a modern server
}

// Handler takes what a server sends by itself.
type Handler interface {
	// Notification is called one at a time in the server's order, off the read
	// loop. params is valid only until it returns. Progress of a Call is not
	// passed here but to its Progress function, in the same order.
	Notification(s *Session, method string, params []byte)
	// Request answers elicitation/create, sampling/createMessage and roots/list.
	// It may take as long as a person does: ctx ends with the session, and when the
	// server cancels its request. While one is open the timers of this session's calls stand still.
	Request(ctx context.Context, s *Session, method string, params []byte) (result []byte, err error)
	// Lost is called exactly once, when a session that Connect returned has ended, for whatever reason.
	Lost(s *Session, err *fault.Error)
}

// Info is what the handshake told.
type Info struct {
	Verdict
	ServerInfo   json.RawMessage
	Instructions string
	Capabilities json.RawMessage
	PID          int
}

// ToolList is a whole list, page after page. Tools are raw definitions, byte for
// byte, in the server's order; entries that are no object with a string name are
// dropped and counted.
type ToolList struct {
	Tools      []RawTool
	Dropped    int
	TTLMs      *int64 // the smallest of all pages; nil: the server gave none
	CacheScope string // "public" only if every page said so, else "private"
}

// RawTool is one definition with the one member that routing needs.
type RawTool struct {
	Name string
	Raw  json.RawMessage
}

// Call is one request to the server.
type Call struct {
	Method     string        // "tools/call", "resources/read", …
	Params     []byte        // raw params object; nil for tools/call, which uses the next two
	Name       string        // tool name
	Arguments  []byte        // raw JSON object; nil is sent as {}
	Meta       []byte        // raw object merged into params._meta, or nil
	Timeout    time.Duration // 0: none
	MaxTimeout time.Duration // ceiling where progress extends Timeout; 0: none
	// Progress, when set, asks the server for progress and gets each notification's
	// params; never after Done. Progress extends Timeout even when it is nil.
	Progress func(params []byte)
	// Done takes the outcome, exactly once, from the reader's goroutine where the
	// server answered. result is valid only until Done returns; Done must not block.
	// err is a *fault.Error; NeverWritten(err) tells that the request never left.
	Done func(result []byte, err error)
}

// The surface that core uses:
//
//	func Connect(ctx context.Context, cfg Config) (*Session, error)
//	        dial + handshake. On failure, and when ctx ends, everything it opened has been told to close (abort) —
//	        Connect returns only after the process has ended (Done), so that a successor never overlaps.
//	func (s *Session) Info() Info
//	func (s *Session) ListTools(ctx context.Context) (*ToolList, error)
//	func (s *Session) Request(ctx context.Context, method string, params []byte) (json.RawMessage, error)   // blocking, a copy of the result
//	func (s *Session) Start(c *Call) (cancel func())      // cancel: Done gets fault canceled, server gets notifications/cancelled
//	func (s *Session) Notify(ctx context.Context, method string, params []byte) error
//	func (s *Session) Acquire() bool; Release(); TryRetire() bool; InFlight() int
//	        one atomic word: count + retired bit (design/states.md). Start does not acquire: core does, around it.
//	func (s *Session) Close(grace time.Duration)          // starts the end, returns at once; in-flight calls fail with closed
//	func (s *Session) Done() <-chan struct{}              // process reaped, Lost delivered
//	func NeverWritten(err error) bool

// Session is one live conversation.
type Session struct{}
