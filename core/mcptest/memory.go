package mcptest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// Memory runs a Script behind transport.Dial without a process: messages pass
// between goroutines, and time is that of the time package alone, so a test in a
// synctest bubble has a fake clock. Make it inside the bubble.
//
// It keeps what the real transport promises and a test may trip over: slices of
// a Message are overwritten once Receive has returned.
type Memory struct {
	MessageBytes int64 // responses above it arrive as TooLarge; 0: no limit; set before Dial

	log   Log
	mu    sync.Mutex
	next  func(dial int) Script
	tools []string // nil: the script's
	conns []*memoryConn
	dials int
}

// NewMemory makes a Memory in which each connection runs s.
func NewMemory(s Script) *Memory {
	return NewMemoryFunc(func(int) Script { return s })
}

// NewMemoryFunc makes a Memory whose connection n (from 1) runs next(n).
func NewMemoryFunc(next func(dial int) Script) *Memory { return &Memory{next: next} }

// Counts gives a copy of what was counted so far, over all connections.
func (m *Memory) Counts() Counts { return m.log.Counts() }

// SetTools makes every present and later connection list these definitions, and
// the present ones say that the list has changed.
func (m *Memory) SetTools(tools []string) {
	m.ReplaceTools(tools)
	for _, c := range m.live() {
		c.server.listChanged()
	}
}

// ReplaceTools is SetTools of a server that does not announce it.
func (m *Memory) ReplaceTools(tools []string) {
	m.mu.Lock()
	m.tools = slices.Clone(tools)
	m.mu.Unlock()
}

// Notify sends a notification from every live connection; params is raw JSON or "".
func (m *Memory) Notify(method, params string) {
	for _, c := range m.live() {
		c.server.notify(method, params)
	}
}

// Say sends one raw line from every live connection.
func (m *Memory) Say(line string) {
	for _, c := range m.live() {
		c.line([]byte(line))
	}
}

// Ask sends a request from every live connection; the answers are only in Counts.Received.
func (m *Memory) Ask(id, method, params string) {
	m.Say(`{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method) + `,"params":` + params + `}`)
}

// EndListening ends the subscriptions/listen requests of every live connection.
func (m *Memory) EndListening() {
	for _, c := range m.live() {
		c.server.endListening()
	}
}

// Kill ends every live connection as if its process had exited with this code.
func (m *Memory) Kill(code int) {
	for _, c := range m.live() {
		c.exit(code)
	}
}

func (m *Memory) live() []*memoryConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.conns)
}

// Dial is a transport.Dial.
func (m *Memory) Dial(ctx context.Context, r transport.Receiver) (transport.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From(err)
	}
	m.mu.Lock()
	m.dials++
	dial := m.dials
	m.mu.Unlock()
	script := m.next(dial)
	alive, die := context.WithCancel(context.Background())
	c := &memoryConn{memory: m, pid: 1000 + dial, receiver: r, script: &script, die: die,
		wakeServer: make(chan struct{}, 1), wakeReader: make(chan struct{}, 1), over: make(chan struct{})}
	c.server = newServer(alive, &script, func() []string {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.tools != nil {
			return m.tools
		}
		return script.tools()
	}, c, &m.log)
	m.log.opened()
	m.mu.Lock()
	m.conns = append(m.conns, c)
	m.mu.Unlock()
	go c.serve(alive)
	go c.read()
	return c, nil
}

type memoryConn struct {
	memory   *Memory
	pid      int
	receiver transport.Receiver
	script   *Script
	server   *server
	die      context.CancelFunc
	over     chan struct{}

	wakeServer, wakeReader chan struct{} // a token: look again

	mu       sync.Mutex
	in       [][]byte // sent by the client, not yet read by the server
	out      [][]byte // sent by the server, not yet received
	sent     uint64
	begun    uint64
	eof      bool // the client closed the server's stdin
	deaf     bool
	closing  bool // by our side
	ended    bool
	code     int
	signal   string
	errText  []byte
	timers   []*time.Timer
	skipped  int64
	tooLarge int64
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// serve is the server's main loop.
func (c *memoryConn) serve(alive context.Context) {
	if !c.server.start() {
		return
	}
	for {
		c.mu.Lock()
		var line []byte
		eof := false
		switch {
		case c.ended:
			c.mu.Unlock()
			return
		case c.deaf:
		case len(c.in) > 0:
			line = c.in[0]
			c.in = c.in[1:]
			c.begun++
		case c.eof:
			eof = !c.script.IgnoreEOF
		}
		c.mu.Unlock()
		switch {
		case line != nil:
			c.server.handle(line)
			continue
		case eof:
			c.exit(0)
			return
		}
		select {
		case <-c.wakeServer:
		case <-alive.Done():
			return
		}
	}
}

// read is the client's reader: it passes on what the server wrote, and then the end.
func (c *memoryConn) read() {
	for {
		c.mu.Lock()
		out, ended := c.out, c.ended
		c.out = nil
		c.mu.Unlock()
		for _, line := range out {
			c.deliver(line)
		}
		if len(out) == 0 && ended {
			c.memory.log.closed()
			c.receiver.Closed(c.fault())
			close(c.over)
			return
		}
		if len(out) == 0 {
			<-c.wakeReader
		}
	}
}

func (c *memoryConn) deliver(line []byte) {
	var e envelope
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) > 0 && trimmed[0] == '[' {
		var batch []json.RawMessage
		if json.Unmarshal(trimmed, &batch) == nil {
			for _, one := range batch {
				c.deliver(one)
			}
			return
		}
	}
	if len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &e) != nil {
		c.mu.Lock()
		c.skipped++
		c.mu.Unlock()
		return
	}
	m := transport.Message{ID: e.ID, Method: e.Method, Params: e.Params, Result: e.Result, Error: e.Error, Bytes: int64(len(line))}
	if limit := c.memory.MessageBytes; limit > 0 && int64(len(line)) > limit {
		c.mu.Lock()
		c.tooLarge++
		c.mu.Unlock()
		if e.Method != "" {
			return
		}
		m = transport.Message{ID: e.ID, TooLarge: int64(len(line))}
	}
	c.receiver.Receive(&m)
	for _, aliased := range [][]byte{e.ID, e.Params, e.Result, e.Error} {
		for i := range aliased {
			aliased[i] = '#'
		}
	}
}

// fault says how the connection ended, as the stdio transport would.
func (c *memoryConn) fault() *fault.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return fault.New(fault.Closed, fault.StageReceive, "the connection was closed")
	}
	data := fault.Data{Stderr: string(c.errText[max(0, len(c.errText)-4096):]), Signal: c.signal}
	if c.signal == "" {
		data.ExitCode = &c.code
	}
	return fault.New(fault.Exited, fault.StageReceive, "the server exited with code %d", c.code).With(data).Retry()
}

func (c *memoryConn) Send(ctx context.Context, msg []byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fault.From(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.eof {
		return 0, fault.New(fault.Closed, fault.StageSend, "the connection is closed")
	}
	c.sent++
	c.in = append(c.in, bytes.Clone(msg))
	wake(c.wakeServer)
	return c.sent, nil
}

func (c *memoryConn) Begun(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seq != 0 && seq <= c.begun
}

func (c *memoryConn) Close(grace time.Duration, abort bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.eof, c.closing = true, true
	term, kill := grace/2, grace
	if abort {
		term, kill = 0, min(grace, 500*time.Millisecond)
	}
	c.timers = append(c.timers,
		time.AfterFunc(term, func() {
			if !c.script.IgnoreTerm {
				c.end(-1, "terminated")
			}
		}),
		time.AfterFunc(kill, func() { c.end(-1, "killed") }))
	wake(c.wakeServer)
}

func (c *memoryConn) Done() <-chan struct{} { return c.over }

func (c *memoryConn) Info() transport.Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return transport.Info{PID: c.pid, Skipped: c.skipped, TooLarge: c.tooLarge}
}

func (c *memoryConn) end(code int, signal string) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.code, c.signal = true, code, signal
	for _, t := range c.timers {
		t.Stop()
	}
	c.mu.Unlock()
	c.memory.forget(c)
	c.die()
	wake(c.wakeServer)
	wake(c.wakeReader)
}

func (m *Memory) forget(c *memoryConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = slices.DeleteFunc(m.conns, func(other *memoryConn) bool { return other == c })
}

// The wire of the server.

func (c *memoryConn) line(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.out = append(c.out, b)
	wake(c.wakeReader)
}

func (c *memoryConn) stderr(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errText = append(c.errText, text...)
}

func (c *memoryConn) exit(code int) { c.end(code, "") }

func (c *memoryConn) kill() { c.end(-1, "SIGKILL") }

func (c *memoryConn) crashing() bool { return false }

func (c *memoryConn) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
}

func (c *memoryConn) describe() string { return `{"memory":true}` }

// FailDial is a transport.Dial that always fails with err.
func FailDial(err *fault.Error) transport.Dial {
	return func(context.Context, transport.Receiver) (transport.Conn, error) { return nil, err }
}
