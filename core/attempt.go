package core

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
	"github.com/mcprt/mcprt/core/trace"
	"github.com/mcprt/mcprt/core/transport"
)

var (
	errSuperseded = errors.New("another start, a stop or the end of the manager took its place")
	// abortGrace ends a server whose handshake or list failed.
	abortGrace = 500 * time.Millisecond
	// probeTimeout is how long a stdio server may leave server/discover unanswered:
	// many old ones stay silent, so it must be short against their time-out.
	probeTimeout = 2 * time.Second
)

// attempt is one try to get a server ready. It is the only code that starts
// one, whoever asked.
type attempt struct {
	m     *Manager
	s     *server
	gen   uint64
	entry *config.Entry
	known bool              // tools of it are known already
	probe bool              // ask the server what it speaks, whatever was stored
	after []<-chan struct{} // earlier processes of this server
	done  chan struct{}
	trace *trace.Attempt
}

func (at *attempt) run(ctx context.Context) {
	defer close(at.done)
	var c *connection
	defer at.s.counters.fold()
	defer func() {
		if r := recover(); r != nil {
			bug := caught(r)
			if c != nil {
				c.session.Close(abortGrace, false)
			}
			at.fail(bug)
		}
	}()
	safe.Point("core.attempt")
	c, err := at.connect(ctx)
	at.trace.End(err)
	if err != nil {
		at.fail(err)
		return
	}
	if at.m.fire(at.s, event{kind: evConnected, gen: at.gen, session: c.session, tools: c.tools, clean: c.clean, from: c.from, drift: c.drift}).stale {
		c.session.Close(abortGrace, false)
		<-c.session.Done()
		return
	}
	at.m.guard(c.save) // the server is ready, whatever becomes of the cache
}

// connection is what a successful attempt brings.
type connection struct {
	session *hold
	tools   *toolSet
	clean   *redactor
	from    *config.Resolved
	drift   *drift
	save    func() // writes the cache
}

// fail reports the failure; the message of a timeout says what was waited for.
func (at *attempt) fail(err error) {
	f := fault.From(err).Clone()
	f.Server = at.entry.Name
	kind := evFailed
	switch f.Code {
	case fault.NeedsInput:
		kind = evInput
	case fault.NeedsTrust:
		kind = evUntrusted
	case fault.NeedsAuth:
		kind = evAuth
	}
	at.m.fire(at.s, event{kind: kind, gen: at.gen, err: f, helps: kind == evAuth && at.m.mayHelp(at.entry, f)})
}

func (at *attempt) connect(ctx context.Context) (*connection, error) {
	m, name := at.m, at.entry.Name
	if !m.trusted(at.entry) {
		return nil, needsTrust(at.entry)
	}
	at.trace = m.traceStart(at.entry, at.gen)
	began := time.Now()
	resolved, err := m.resolve(ctx, at.entry)
	at.trace.Phase(trace.PhaseResolve, began, err)
	if err != nil {
		return nil, err
	}
	creds, err := m.credentials.of(at.entry, resolved)
	if err != nil {
		return nil, err
	}
	m.trace.Know(resolved.Secrets)
	clean := newRedactor(resolved, creds)
	place := m.store.place(at.entry, resolved, principal(creds))
	stored := place.load()
	if stored != nil && !at.known {
		m.fire(at.s, event{kind: evCached, gen: at.gen, tools: stored.set})
	}
	if err := at.wait(ctx); err != nil {
		return nil, err
	}
	dial, err := m.deps.dial(m, at.entry, resolved)
	if err != nil { // it names the program, which a variable may have held
		return nil, clean.fault(err)
	}
	timeout := m.startTimeout(&at.entry.Server)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := &clock{timeout: timeout, name: name, ctx: ctx, cancel: cancel}
	h := &handler{at: at, clean: clean}
	cfg := session.Config{
		Server:       name,
		Dial:         clock.dial(at.s.counters.dial(at.trace.Dial(dial))),
		ClientInfo:   m.opts.ClientInfo,
		Capabilities: m.capabilities,
		Pin:          at.entry.Server.Protocol,
		Legacy:       resolved.Type == "sse",
		ProbeTimeout: probeTimeout,
		Timeout:      timeout,
		Limits:       session.Limits{Pages: m.opts.Limits.Pages, Tools: m.opts.Limits.Tools},
		Handler:      h,
	}
	if remote(at.entry) {
		cfg.ProbeTimeout = 0 // a request that stays without an answer says nothing of the era
		cfg.Capabilities = m.remoteCapabilities
	}
	if stored != nil && !at.probe {
		cfg.Known = stored.verdict
	}
	sess, err := at.open(ctx, clock, cfg, h, resolved, principal(creds))
	if err != nil {
		return nil, clean.fault(cause(ctx, err))
	}
	kept := false
	defer func() { // also after a bug
		if !kept {
			h.given.Store(true)
			sess.Close(abortGrace, false)
			<-sess.Done()
		}
	}()
	list, err := at.m.listTools(ctx, sess, name)
	if err != nil {
		return nil, clean.fault(cause(ctx, err))
	}
	kept = true
	tools := fetched(list, nil)
	return &connection{sess, tools, clean, resolved, m.compare(at.entry, tools), func() {
		m.store.place(at.entry, resolved, principal(creds)).save(sess.Info(), list) // a sign-in by a file of another process may have come meanwhile
	}}, nil
}

// wait waits for the end of the earlier processes: two of one server must never overlap.
func (at *attempt) wait(ctx context.Context) error {
	if len(at.after) == 0 {
		return nil
	}
	began := time.Now()
	for _, ch := range at.after {
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	at.trace.Phase(trace.PhaseWait, began, nil)
	return nil
}

// open makes the session, or joins one that managers with equal configs have already.
func (at *attempt) open(ctx context.Context, clock *clock, cfg session.Config, h *handler, r *config.Resolved, principal string) (*hold, error) {
	if at.m.opts.Share {
		return join(ctx, at.shareKey(r, cfg, principal), h, at.m.newSlots(at.entry), clock.start, func(hub session.Handler) (*session.Session, error) {
			cfg.Handler = hub
			return session.Connect(ctx, cfg)
		})
	}
	sess, err := session.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return newHold(sess), nil
}

// cause prefers the reason why we ended the context over what the layers below
// made of its end.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && fault.From(err).Code != fault.Exited {
		return c
	}
	return err
}

// clock is an attempt's time. It runs from the moment its process exists: a server must
// not lose time because others were spawned before it. Who joins a session that another
// manager has, or is making, starts no process: his runs from then on.
type clock struct {
	timeout time.Duration // 0: none
	name    string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	once    sync.Once
}

func (c *clock) start() {
	if c.timeout <= 0 {
		return
	}
	c.once.Do(func() {
		timer := time.AfterFunc(c.timeout, func() {
			c.cancel(fault.New(fault.Timeout, fault.StageConnect,
				"server %q did not finish its handshake and tool list within %d ms; raise timeoutMs if it needs longer to start", c.name, c.timeout.Milliseconds()).
				With(fault.Data{TimeoutMs: c.timeout.Milliseconds()}).Retry())
		})
		context.AfterFunc(c.ctx, func() { timer.Stop() })
	})
}

func (c *clock) dial(dial transport.Dial) transport.Dial {
	return func(ctx context.Context, r transport.Receiver) (transport.Conn, error) {
		conn, err := dial(ctx, r)
		if err == nil {
			c.start()
		}
		return conn, err
	}
}

// listTools asks for the tools and reports those that must not be used.
func (m *Manager) listTools(ctx context.Context, sess *hold, server string) (*session.ToolList, error) {
	safe.Point("core.list")
	list, err := sess.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list.Unusable {
		m.store.report(diagnostic{Severity: "warning", Code: "invalid_tool_header", Server: server, Field: t.Name,
			Message: "the tool " + strconv.Quote(t.Name) + " is left out, since its definition breaks the protocol's rules: " + t.Reason})
	}
	return list, nil
}

// relist fetches the list again after a list_changed.
func (m *Manager) relist(s *server, sess *hold, gen uint64, entry *config.Entry) {
	defer func() {
		if r := recover(); r != nil { // else no other list would ever follow
			m.fire(s, event{kind: evRelistFailed, gen: gen, err: caught(r)})
		}
	}()
	ctx := m.ctx
	if timeout := m.serverTimeout(&entry.Server); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := m.fetchTools(ctx, s, sess, gen, entry); err != nil {
		m.fire(s, event{kind: evRelistFailed, gen: gen, err: fault.From(err)})
	}
}

// fetchTools gets the list, and makes it the server's. One list follows the other, so that the
// one that was asked for last is the one that stays.
func (m *Manager) fetchTools(ctx context.Context, s *server, sess *hold, gen uint64, entry *config.Entry) error {
	if err := s.listing.Acquire(ctx, 1); err != nil {
		return fault.From(err)
	}
	defer s.listing.Release(1)
	list, err := m.listTools(ctx, sess, entry.Name)
	if err != nil {
		return err
	}
	var was *toolSet
	if v := m.snap.Load().index[entry.Name]; v != nil {
		was = v.known
	}
	tools := fetched(list, was)
	if m.fire(s, event{kind: evRelisted, gen: gen, tools: tools, drift: m.compare(entry, tools)}).stale {
		return nil
	}
	if resolved, err := m.resolveKnown(entry); err == nil {
		m.guard(func() {
			if creds, err := m.credentials.of(entry, resolved); err == nil {
				m.store.place(entry, resolved, principal(creds)).save(sess.Info(), list)
			}
		})
	}
	return nil
}

// handler takes what one attempt's session sends by itself.
type handler struct {
	at    *attempt
	clean *redactor
	given atomic.Bool // the attempt gives the session up, and says itself why

	resources, prompts changeNews
}

// changeNews tells the host that a list has changed: at once, and then at most once in
// relistPause, however often the server says so. The last change is never left out.
type changeNews struct {
	mu     sync.Mutex
	paused bool
	again  bool // one more came in the pause
}

func (c *changeNews) tell(m *Manager, n rawNotice) {
	c.mu.Lock()
	if c.paused {
		c.again = true
		c.mu.Unlock()
		return
	}
	c.paused = true
	c.mu.Unlock()
	m.tell(n)
	time.AfterFunc(relistPause, func() {
		m.guard(func() {
			c.mu.Lock()
			again := c.again && m.ctx.Err() == nil
			c.paused, c.again = false, false
			c.mu.Unlock()
			if again {
				c.tell(m, n)
			}
		})
	})
}

func (h *handler) Notification(_ *session.Session, method string, params []byte) {
	m, name := h.at.m, h.at.entry.Name
	switch method {
	case "notifications/tools/list_changed":
		m.fire(h.at.s, event{kind: evListChanged, gen: h.at.gen})
	case "notifications/resources/list_changed":
		h.resources.tell(m, rawNotice{kind: "resources_changed", server: name})
	case "notifications/prompts/list_changed":
		h.prompts.tell(m, rawNotice{kind: "prompts_changed", server: name})
	case "notifications/resources/updated":
		m.tell(pick("resource_updated", name, params, "uri"))
	case "notifications/message":
		m.tell(pick("log", name, params, "level", "logger", "data"))
	default:
		m.tell(rawNotice{kind: "notification", server: name, fields: []rawField{{"method", encode(method)}, {"params", cloneOrNull(params)}}})
	}
}

func (h *handler) Request(ctx context.Context, _ *session.Session, method string, params []byte) ([]byte, error) {
	return h.at.m.ask(ctx, h.at.entry.Name, method, params)
}

func (h *handler) Lost(_ *session.Session, err *fault.Error) {
	h.at.s.counters.fold()
	if h.given.Load() {
		return
	}
	f := h.clean.fault(err)
	f.Server = h.at.entry.Name
	h.at.m.fire(h.at.s, event{kind: evLost, gen: h.at.gen, err: f})
}
