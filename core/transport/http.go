package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// HTTP speaks to a server by streamable HTTP, or by the HTTP+SSE of 2024-11-05
// where that is all the server has. The zero value of every optional field is usable.
type HTTP struct {
	Server  string // its name, for messages
	URL     string
	Headers map[string]string // sent with every request
	SSE     bool              // try HTTP+SSE first

	TLS   *tls.Config                                    // nil: Go's defaults
	Proxy func(*url.URL) (*url.URL, error)               // nil: none
	Auth  func(base http.RoundTripper) http.RoundTripper // adds credentials; may fail with a *fault.Error; nil: none

	MaxMessage int64 // bytes of one message from the server; 0: 64 MiB
}

const (
	initialized     = "notifications/initialized"
	noticePatience  = time.Minute     // for a POST that has no answer: a notification or a reply
	byePatience     = 2 * time.Second // for the DELETE that ends a session
	maxSessionIDLen = 4 << 10
	drainPatience   = time.Second // for other requests, after one has found that the session or the server is gone
)

// Dial makes a connection; no byte goes out before the first message. Its errors
// are config ones. Method value and Dial type fit each other.
func (h HTTP) Dial(ctx context.Context, r Receiver) (Conn, error) {
	if err := ctx.Err(); err != nil {
		e := fault.From(err).Clone()
		e.Server = h.Server
		return nil, e
	}
	if h.MaxMessage <= 0 {
		h.MaxMessage = defaultMaxMessage
	}
	c := &httpConn{cfg: h, out: r, flights: map[uint64]*flight{}, byID: map[int64]*flight{}, done: make(chan struct{}), gate: make(chan struct{})}
	var err error
	if c.url, err = url.Parse(h.URL); err != nil || c.url.Host == "" {
		return nil, c.errorf(fault.Config, fault.StageConfig, "the url of server %q is not valid", h.Server)
	}
	if c.header, err = baseHeader(h); err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.net, c.netDown = context.WithCancel(context.Background())
	c.bye, c.skipBye = context.WithCancel(context.Background())
	c.endpoint = c.url.String()
	c.client = newClient(c)
	if h.SSE {
		c.wg.Add(1)
		go c.beginSSE(c.gate)
	} else {
		close(c.gate)
	}
	return c, nil
}

// httpConn is a conversation over HTTP. Each message is a request of its own, a
// flight, with a goroutine of its own; besides there is at most one stream of the
// server's.
type httpConn struct {
	cfg    HTTP
	url    *url.URL
	header http.Header
	client *http.Client
	out    Receiver

	ctx     context.Context // of flights and streams
	cancel  context.CancelFunc
	net     context.Context // of sockets
	netDown context.CancelFunc
	bye     context.Context // of the DELETE
	skipBye context.CancelFunc
	wg      sync.WaitGroup // flights and streams
	done    chan struct{}

	receiving sync.Mutex // Receiver's methods are called one at a time

	mu       sync.Mutex
	seq      uint64
	flights  map[uint64]*flight // under way; after the end: those that it cut off
	flying   int                // those under way, after the end as well
	landed   chan struct{}      // closed when the last of them has landed; nil: nobody waits for that
	byID     map[int64]*flight
	gate     chan struct{} // closed when later messages may go out
	heard    chan struct{} // closed when what the server sends besides can be heard; nil: there is no such stream
	endpoint string        // where messages are posted
	sse      bool          // answers come on the stream of HTTP+SSE
	session  string        // Mcp-Session-Id
	version  string
	fate     *fault.Error // why it ended
	sayBye   bool
	drain    bool // flights may still bring their answers, or hear that they were not run

	skipped, repaired, tooLarge, sent, received atomic.Int64
}

func (c *httpConn) errorf(code fault.Code, stage fault.Stage, format string, args ...any) *fault.Error {
	e := fault.New(code, stage, format, args...)
	e.Server = c.cfg.Server
	return e
}

func (c *httpConn) Send(ctx context.Context, msg []byte) (uint64, error) {
	return c.SendMeta(ctx, msg, Meta{})
}

func (c *httpConn) SendMeta(_ context.Context, msg []byte, meta Meta) (uint64, error) {
	f := &flight{c: c, meta: meta, body: bytes.Clone(msg)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fate != nil {
		return 0, c.fate.Clone()
	}
	c.seq++
	f.seq, f.gate = c.seq, c.gate
	f.ctx, f.cancel = context.WithCancel(c.ctx)
	if meta.Version != "" {
		c.version = meta.Version
	}
	if meta.Method == initialized { // a request that overtakes it is refused by many servers
		f.opens = make(chan struct{})
		c.gate = f.opens
		c.heard = make(chan struct{})
		f.heard = c.heard
	} else if meta.ID != 0 && !meta.Modern && asks(meta.Method) {
		f.heard = c.heard
	}
	c.flights[f.seq] = f
	if meta.ID != 0 {
		c.byID[meta.ID] = f
	}
	c.sent.Add(int64(len(msg)))
	c.wg.Add(1)
	c.flying++
	go f.run()
	return f.seq, nil
}

// land takes a flight out. One that the end of the connection cut off stays: Begun
// is asked about it.
func (c *httpConn) land(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[f.meta.ID] == f {
		delete(c.byID, f.meta.ID)
	}
	if c.fate == nil {
		delete(c.flights, f.seq)
	}
	if c.flying--; c.flying == 0 && c.landed != nil {
		close(c.landed)
		c.landed = nil
	}
}

func (c *httpConn) Begun(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[seq]
	return seq != 0 && (f == nil || f.wrote.Load())
}

// Cancel makes an httpConn a Carrier.
func (c *httpConn) Cancel(id int64) {
	c.mu.Lock()
	f := c.byID[id]
	c.mu.Unlock()
	if f != nil {
		f.cancel()
	}
}

func (c *httpConn) Done() <-chan struct{} { return c.done }

func (c *httpConn) Info() Info {
	return Info{Skipped: c.skipped.Load(), Repaired: c.repaired.Load(), TooLarge: c.tooLarge.Load(),
		SentBytes: c.sent.Load(), RecvBytes: c.received.Load()}
}

func (c *httpConn) Close(grace time.Duration, abort bool) {
	if abort {
		grace = min(grace, abortGrace)
	}
	c.lose(c.errorf(fault.Closed, fault.StageSend, "the connection to server %q was closed", c.cfg.Server), true)
	timer := time.AfterFunc(max(grace, 0), c.skipBye)
	context.AfterFunc(c.net, func() { timer.Stop() })
}

// lose ends the connection; the first reason counts. bye tells to end the session
// at the server, too.
func (c *httpConn) lose(err *fault.Error, bye bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fate != nil {
		return
	}
	c.fate, c.sayBye = err, bye && c.session != ""
	go c.end()
}

// loseAfterFlights ends the connection since the server has forgotten its session, or
// cannot be reached. What is under way besides has a moment to bring its answer, or to
// learn the same: all that was sent in a burst is refused then, and can be sent again, where
// an end at once would leave in doubt whether it ran.
func (c *httpConn) loseAfterFlights(err *fault.Error) {
	c.mu.Lock()
	if c.fate == nil {
		c.drain = true
	}
	c.mu.Unlock()
	c.lose(err, false)
}

// ended tells that nothing more may be sent.
func (c *httpConn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fate != nil
}

// awaitFlights gives the flights that moment.
func (c *httpConn) awaitFlights() {
	c.mu.Lock()
	if !c.drain || c.flying == 0 {
		c.mu.Unlock()
		return
	}
	landed := make(chan struct{})
	c.landed = landed
	c.mu.Unlock()
	timer := time.NewTimer(drainPatience)
	defer timer.Stop()
	select {
	case <-landed:
	case <-timer.C:
	case <-c.bye.Done(): // the host is in a hurry
	}
}

func (c *httpConn) end() {
	defer close(c.done)
	defer func() { recover() }()
	defer c.netDown()
	defer c.client.CloseIdleConnections()
	c.awaitFlights()
	c.cancel()
	c.wg.Wait()
	func() {
		defer func() { recover() }()
		c.receiving.Lock()
		defer c.receiving.Unlock()
		c.out.Closed(c.fate)
	}()
	if c.sayBye {
		c.endSession()
	}
	c.skipBye()
}

// endSession is best effort: a server may refuse it, or not know it.
func (c *httpConn) endSession() {
	ctx, cancel := context.WithTimeout(c.bye, byePatience)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, c.url.String(), c.sessionHeader(), nil, nil)
	if err == nil {
		resp.Body.Close()
	}
}

func (c *httpConn) sessionHeader() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := http.Header{}
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
	}
	if c.version != "" {
		h.Set("Mcp-Protocol-Version", c.version)
	}
	return h
}

func (c *httpConn) deliver(m *Message) {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	safe.Point("http.receive")
	c.out.Receive(m)
}

// guard is deferred in every goroutine: a bug ends this connection, never the host.
func (c *httpConn) guard() {
	if p := recover(); p != nil {
		e := fault.Caught(p, debug.Stack())
		e.Server = c.cfg.Server
		c.lose(e, false)
	}
}

// reading is a decoder of messages that passes what it finds to out.
func (c *httpConn) reading(out Receiver) (l *lines, count func()) {
	l = &lines{out: out}
	return l, func() {
		c.skipped.Add(l.skipped.Swap(0))
		c.repaired.Add(l.repaired.Swap(0))
	}
}

// passing is a Receiver of a stream whose messages all count.
type passing struct{ c *httpConn }

func (p passing) Receive(m *Message)  { p.c.deliver(m) }
func (p passing) Closed(*fault.Error) {}

// pass reads a stream to its end.
func (c *httpConn) pass(e *events) error {
	l, count := c.reading(passing{c})
	defer count()
	for {
		var ev event
		if err := e.next(&ev); err != nil {
			return err
		}
		c.received.Add(int64(len(ev.data)))
		switch {
		case ev.tooLarge > 0:
			c.tooLarge.Add(1)
		case ev.name == "message":
			l.line(ev.data)
		}
	}
}

// sleep waits, and tells whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
