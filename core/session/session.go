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
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
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
	Legacy       bool            // the transport has no modern era: do not probe
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
	Asked           time.Time       `json:"asked"`              // when the server was asked what it speaks
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
// dropped and counted. A list that is what it was the last time is the same one; it never changes.
type ToolList struct {
	Tools      []RawTool
	Dropped    int // no object, or no string name
	Duplicates int // the first of one name wins
	Unusable   []UnusableTool
	TTLMs      *int64 // the smallest of all pages; nil: the server gave none
	CacheScope string // "public" only if every page said so, else "private"
}

// ItemList is a whole list of any kind, as ToolList is of tools.
type ItemList struct {
	Items      []json.RawMessage
	TTLMs      *int64
	CacheScope string
}

// UnusableTool is a definition that the protocol says to drop: over HTTP, one whose
// x-mcp-header annotations are wrong.
type UnusableTool struct{ Name, Reason string }

// RawTool is one definition with the one member that routing needs.
type RawTool struct {
	Name string
	Raw  json.RawMessage
}

// Call is one request to the server. Its slices are only read until Start returns.
type Call struct {
	Method     string        // "tools/call", "resources/read", …
	Params     []byte        // raw params object; nil for tools/call, which uses the next two
	Name       string        // tool name
	Arguments  []byte        // raw JSON object; nil is sent as {}
	Meta       []byte        // raw object merged into params._meta, or nil
	Definition []byte        // raw definition of the tool, which says what goes into headers over HTTP; nil: not known
	NeedsTask  bool          // the definition says execution.taskSupport "required": it can only be called as a task (2025-11-25)
	Timeout    time.Duration // 0: none
	Spent      time.Duration // of Timeout, before Start: a call may have waited for its server
	MaxTimeout time.Duration // ceiling where progress extends Timeout; 0: none
	// Progress, when set, asks the server for progress and gets each notification's
	// params; never after Done. Progress extends Timeout even when it is nil.
	Progress func(params []byte)
	// Done takes the outcome, exactly once, from the reader's goroutine where the
	// server answered. result is valid only until Done returns; Done must not block.
	// err is a *fault.Error; NeverWritten(err) tells that the request never left.
	Done func(result []byte, err error)

	asTask bool // 2025-11-25: ask for it as a task
}

// Stats counts what a session let pass without failing.
type Stats struct {
	Unmatched int64 // responses and progress for no open request: late, twice, or invented
	Dropped   int64 // notifications that found the queue full
	Refused   int64 // requests of the server that were over the limits
}

// Session is one live conversation. Its methods are safe from any goroutine.
type Session struct {
	cfg      Config
	conn     transport.Conn    // set before dialled is closed; nil if the dial failed
	carrier  transport.Carrier // conn, if that is one
	modern   atomic.Bool       // settled by the handshake
	meta     []byte            // the members that a modern request's _meta needs
	declared map[string]bool   // client capabilities

	dialled chan struct{}
	done    chan struct{}
	ctx     context.Context // ends with the session
	end     context.CancelCauseFunc
	notices *queue
	use     Usage

	mu       sync.Mutex
	info     Info // a server's request may ask for it before Connect has returned
	lastID   int64
	pending  map[int64]*pending
	skills   map[string]skillFile          // by URI, as listed
	watched  map[string]struct{}           // URIs that the host has subscribed to
	held     int                           // server requests that are open
	heldAt   time.Time                     // when the first of them was opened
	requests map[string]context.CancelFunc // the server's open requests by raw id
	lost     *fault.Error                  // why there will be no more requests
	over     bool                          // the transport has said that the connection is over
	first    json.RawMessage               // the first page of tools that the handshake has fetched
	tools    knownTools

	listening          atomic.Bool
	unheard            atomic.Bool // the listen request broke: changes may have been missed
	unmatched, refused atomic.Int64
	replies            atomic.Int64 // goroutines that hold a reply to the server
}

func newSession(cfg Config) *Session {
	s := &Session{cfg: cfg, dialled: make(chan struct{}), done: make(chan struct{}), notices: newQueue(),
		pending: map[int64]*pending{}, requests: map[string]context.CancelFunc{}, declared: map[string]bool{}}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	var capabilities map[string]json.RawMessage
	if json.Unmarshal(cfg.Capabilities, &capabilities) == nil {
		for name := range capabilities {
			s.declared[name] = true
		}
	}
	s.meta = modernMeta(cfg)
	return s
}

// Info is what the handshake told. Its slices must not be changed.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Stats gives the counts so far.
func (s *Session) Stats() Stats {
	return Stats{Unmatched: s.unmatched.Load(), Dropped: s.notices.dropped(), Refused: s.refused.Load()}
}

// Done is closed when the connection has ended for good (a process is reaped) and
// Handler.Lost has returned.
func (s *Session) Done() <-chan struct{} { return s.done }

// Ended tells whether the session takes no more requests.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

// Close starts the end and returns at once: calls in flight fail with closed, and
// the connection gets the grace. Later calls may only shorten it.
func (s *Session) Close(grace time.Duration) {
	s.use.Retire()
	s.fail(s.errorf(fault.Closed, fault.StageSend, "the session with server %q was closed", s.cfg.Server), false)
	s.conn.Close(grace, false)
}

// Closed is called by the transport when the connection is over.
func (s *Session) Closed(err *fault.Error) {
	defer s.guard()
	s.fail(s.name(err), true)
	s.notices.close()
}

// fail ends every open request with err. ended tells that the connection is over,
// so that it is known which requests never left.
func (s *Session) fail(err *fault.Error, ended bool) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = err
	}
	s.over = s.over || ended
	var open []*pending
	for id, p := range s.pending {
		if !p.sent && !p.answered {
			p.stopSend() // write sees the loss when Send returns, and knows what was written
			continue
		}
		delete(s.pending, id)
		open = append(open, p)
	}
	s.mu.Unlock()
	s.end(err)
	for _, p := range open {
		p.abort(s.lossOf(p, err, ended))
	}
}

// lossOf is the outcome of p after the connection ended with err.
func (s *Session) lossOf(p *pending, err *fault.Error, ended bool) *fault.Error {
	if ended && !p.answered && !s.conn.Begun(p.seq) {
		return Unwritten(err)
	}
	return err.Clone()
}

// Receive is called by the transport for each message.
func (s *Session) Receive(m *transport.Message) {
	defer s.guard()
	safe.Point("session.receive")
	switch {
	case m.Method == "":
		s.response(m)
	case hasID(m.ID):
		s.serverRequest(m)
	default:
		s.notification(m.Method, m.Params)
	}
}

// hasID tells a request from a notification; some servers write "id":null in the latter.
func hasID(id []byte) bool { return len(id) > 0 && string(id) != "null" }

// guard is deferred wherever code of ours runs on another's goroutine or on one of
// its own: a bug ends this session with an internal error, never the host.
func (s *Session) guard() {
	if v := recover(); v != nil {
		s.bug(v)
	}
}

func (s *Session) bug(v any) {
	err := s.name(fault.Caught(v, debug.Stack()))
	go func() { // a caller may hold what fail's callbacks need
		defer func() { _ = recover() }() // the second bug of a session that already ends
		s.fail(err, false)
		<-s.dialled
		if s.conn != nil {
			s.conn.Close(0, true)
		}
	}()
}

// errorf makes an error that names the server.
func (s *Session) errorf(code fault.Code, stage fault.Stage, format string, args ...any) *fault.Error {
	e := fault.New(code, stage, format, args...)
	e.Server = s.cfg.Server
	return e
}

// name returns a copy of err that names the server.
func (s *Session) name(err *fault.Error) *fault.Error {
	e := err.Clone()
	e.Server = s.cfg.Server
	return e
}

// neverWritten marks the error of a request of which no byte left.
type neverWritten struct{ of *fault.Error }

func (n neverWritten) Error() string { return n.of.Error() }
func (n neverWritten) Unwrap() error { return n.of }

// NeverWritten tells whether err belongs to a request of which no byte reached
// the server, so that sending it again cannot do a thing twice.
func NeverWritten(err error) bool {
	var mark neverWritten
	return errors.As(err, &mark)
}

// Unwritten marks err, the error of a request of which no byte left for the server, as one
// that [NeverWritten] knows and that a host may try again.
func Unwritten(err *fault.Error) *fault.Error {
	e := fault.New(err.Code, err.Stage, "%w", neverWritten{err})
	e.Server, e.Tool, e.Data, e.Retryable = err.Server, err.Tool, err.Data, true
	return e.Clone() // its data is its own
}
