package core

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
)

// hold is what one manager has of a session: the whole of it, or, with the option
// "share", a part of one that managers with equal configs have together. Each has its own
// calls, uses and end; the session ends with the last of them.
type hold struct {
	*session.Session
	hub     *hub // nil: not shared
	handler *handler

	use  session.Usage // this manager's
	gone chan struct{} // closed when this manager has left and need not wait for anything

	mu    sync.Mutex
	left  bool
	quiet chan struct{}            // closed when the last call has ended; nil: nobody waits for that
	calls map[*session.Call]func() // that run, by how to cancel them
}

// newHold is the hold of a session that nobody shares.
func newHold(s *session.Session) *hold { return &hold{Session: s} }

func (h *hold) Acquire() bool {
	if h.hub == nil {
		return h.Session.Acquire()
	}
	if !h.use.Acquire() {
		return false
	}
	if !h.Session.Acquire() {
		h.use.Release()
		return false
	}
	return true
}

func (h *hold) Release() {
	h.Session.Release()
	if h.hub != nil {
		h.use.Release()
	}
}

func (h *hold) InFlight() int {
	if h.hub == nil {
		return h.Session.InFlight()
	}
	return h.use.InFlight()
}

func (h *hold) TimeIdle() {
	if h.hub == nil {
		h.Session.TimeIdle()
		return
	}
	h.use.TimeIdle()
}

func (h *hold) Idle() time.Duration {
	switch {
	case h.hub == nil:
		return h.Session.Idle()
	case h.Session.Subscribed(): // by whomever: a notice of it goes to all
		return 0
	}
	return h.use.Idle()
}

func (h *hold) TryRetire() bool {
	if h.hub == nil {
		return h.Session.TryRetire()
	}
	return h.use.TryRetire()
}

// Start begins a call that ends when this manager leaves, whoever else stays.
func (h *hold) Start(c *session.Call) (cancel func()) {
	if h.hub == nil {
		return h.Session.Start(c)
	}
	h.hub.asked.Store(h)    // what the server asks now is most likely about this call
	own, done := *c, c.Done // not c itself: it stays on its caller's stack
	own.Done = func(result []byte, err error) {
		h.mu.Lock()
		delete(h.calls, &own)
		left := h.left
		if h.quiet != nil && len(h.calls) == 0 {
			close(h.quiet)
			h.quiet = nil
		}
		h.mu.Unlock()
		if left && fault.Is(err, fault.Canceled) {
			e := fault.New(fault.Closed, fault.StageReceive, "the connection to server %q was closed", h.handler.at.entry.Name)
			e.Server = h.handler.at.entry.Name
			err = e
		}
		done(result, err)
	}
	h.mu.Lock()
	if h.left {
		h.mu.Unlock()
		e := fault.New(fault.Closed, fault.StageSend, "the connection to server %q was closed", h.handler.at.entry.Name)
		e.Server = h.handler.at.entry.Name
		done(nil, session.Unwritten(e))
		return func() {}
	}
	if h.calls == nil {
		h.calls = map[*session.Call]func(){}
	}
	h.calls[&own] = func() {}
	h.mu.Unlock()
	cancel = h.Session.Start(&own)
	h.mu.Lock()
	left := h.left
	if _, runs := h.calls[&own]; runs {
		h.calls[&own] = cancel
	}
	h.mu.Unlock()
	if left { // meanwhile
		cancel()
	}
	return cancel
}

// Close ends this manager's part. The last one ends the session; apart says that the
// next start wants a new one, though others go on with this.
func (h *hold) Close(grace time.Duration, apart bool) {
	if h.hub == nil {
		h.Session.Close(grace)
		return
	}
	h.hub.leave(h, grace, apart)
}

// Done is closed when nothing of this hold need be waited for: before the next start of
// the same server its process must be gone, unless others use it.
func (h *hold) Done() <-chan struct{} {
	if h.hub == nil {
		return h.Session.Done()
	}
	return h.gone
}

// depart lets the calls that run have the grace, then ends them.
func (h *hold) depart(grace time.Duration) {
	defer close(h.gone)
	h.mu.Lock()
	quiet := make(chan struct{})
	if len(h.calls) == 0 {
		close(quiet)
	} else {
		h.quiet = quiet
	}
	h.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-quiet:
	case <-timer.C:
	case <-h.handler.at.m.ctx.Done():
	}
	h.mu.Lock()
	h.left = true
	running := make([]func(), 0, len(h.calls))
	for _, cancel := range h.calls {
		running = append(running, cancel)
	}
	h.mu.Unlock()
	for _, cancel := range running {
		cancel()
	}
}

// shares are the sessions of this process that managers have together. One registry
// serves all managers: who shares cannot be told by any one of them.
var shares = struct {
	sync.Mutex
	hubs map[[sha256.Size]byte]*hub
}{hubs: map[[sha256.Size]byte]*hub{}}

// hub is one shared session and the managers that have it.
type hub struct {
	key   [sha256.Size]byte
	ready chan struct{} // closed when the session is there, or could not be made
	asked atomic.Pointer[hold]
	slots *slots // for the calls of all members; nil: no limit

	// Under the lock of shares.
	session *session.Session
	members []*hold
	over    bool // nobody may join any more
	closing *hold
}

// shareKey tells sessions apart that must not be shared: all that a start depends on,
// secrets included, of which only a hash is kept.
func (at *attempt) shareKey(r *config.Resolved, cfg session.Config, principal string) [sha256.Size]byte {
	m := at.m
	return sha256.Sum256(encode([]any{at.entry.Name, r.Server, m.env.ChildEnv(m.opts.EnvPolicy, r.Env), m.opts.Cwd, m.opts.Limits, m.opts.Grace,
		cfg.ClientInfo, cfg.Capabilities, cfg.Pin, cfg.Legacy, principal, m.opts.Auth}))
}

// join gives the manager of handler its part of the session with this key; connect makes
// it if there is none. Whoever comes while another one makes it waits, and makes it
// himself if that one fails or gives up; joining is called before such a wait.
func join(ctx context.Context, key [sha256.Size]byte, h *handler, slots *slots, joining func(), connect func(session.Handler) (*session.Session, error)) (*hold, error) {
	for {
		shares.Lock()
		b := shares.hubs[key]
		if b == nil {
			break
		}
		shares.Unlock()
		joining()
		select {
		case <-b.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if mine := b.join(h); mine != nil {
			return mine, nil
		}
	}
	b := &hub{key: key, ready: make(chan struct{}), slots: slots}
	mine := b.add(h)
	shares.hubs[key] = b
	shares.Unlock()
	defer func() { // whatever happened: nobody may wait for a session that will not come
		shares.Lock()
		if b.session == nil {
			b.end()
		}
		shares.Unlock()
		close(b.ready)
	}()
	sess, err := connect(b)
	if err != nil {
		return nil, err
	}
	shares.Lock()
	b.session, mine.Session = sess, sess
	shares.Unlock()
	safe.Go(nil, func() { b.watch(sess) })
	return mine, nil
}

// watch frees the members when the session is gone.
func (b *hub) watch(sess *session.Session) {
	<-sess.Done()
	shares.Lock()
	b.end()
	members := b.members
	b.members = nil
	shares.Unlock()
	for _, m := range members {
		close(m.gone)
	}
}

// add makes a member. The lock is held.
func (b *hub) add(h *handler) *hold {
	mine := &hold{Session: b.session, hub: b, handler: h, gone: make(chan struct{})}
	b.members = append(b.members, mine)
	return mine
}

// join adds a member; nil: the session is over.
func (b *hub) join(h *handler) *hold {
	shares.Lock()
	defer shares.Unlock()
	if b.over || b.session == nil {
		return nil
	}
	return b.add(h)
}

// end lets nobody join any more. The lock is held.
func (b *hub) end() {
	b.over = true
	if shares.hubs[b.key] == b {
		delete(shares.hubs, b.key)
	}
}

func (b *hub) leave(h *hold, grace time.Duration, apart bool) {
	h.use.Retire()
	shares.Lock()
	if apart {
		b.end()
	}
	if b.closing == h { // a second Close of the last one: with another grace
		shares.Unlock()
		b.session.Close(grace)
		return
	}
	at := -1
	for i, m := range b.members {
		if m == h {
			at = i
		}
	}
	if at < 0 { // it left already, or the session is gone
		shares.Unlock()
		return
	}
	last := len(b.members) == 1
	if last { // it stays a member until the session is gone
		b.end()
		b.closing = h
	} else {
		b.members = append(b.members[:at:at], b.members[at+1:]...)
	}
	shares.Unlock()
	if last {
		b.session.Close(grace)
		return
	}
	b.asked.CompareAndSwap(h, nil)
	safe.Go(nil, func() { h.depart(grace) })
}

// all gives the members of now.
func (b *hub) all() []*hold {
	shares.Lock()
	defer shares.Unlock()
	return append([]*hold(nil), b.members...)
}

// each does f for every member: a bug that one manager meets is its own, and is told to
// its host, while the others still hear.
func (b *hub) each(f func(*handler)) {
	for _, m := range b.all() {
		m.handler.at.m.guard(func() { f(m.handler) })
	}
}

// Notification passes on to all what belongs to no call.
func (b *hub) Notification(s *session.Session, method string, params []byte) {
	b.each(func(h *handler) { h.Notification(s, method, params) })
}

// Request asks the manager that called last and has a call running: a server does not
// say which call its question is about.
func (b *hub) Request(ctx context.Context, s *session.Session, method string, params []byte) ([]byte, error) {
	members := b.all()
	if len(members) == 0 {
		return nil, errClosed
	}
	to := members[0]
	for _, m := range members {
		if m.use.InFlight() > 0 {
			to = m
		}
	}
	if last := b.asked.Load(); last != nil && last.use.InFlight() > 0 {
		to = last
	}
	return to.handler.Request(ctx, s, method, params)
}

// Lost tells all.
func (b *hub) Lost(s *session.Session, err *fault.Error) {
	shares.Lock()
	b.end()
	shares.Unlock()
	b.each(func(h *handler) { h.Lost(s, err) })
}
