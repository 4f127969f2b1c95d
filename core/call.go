package core

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
)

// callRequest is the JSON of the call verb, in one of its four forms.
type callRequest struct {
	Tool      string          `json:"tool"`
	Server    string          `json:"server"`
	Method    string          `json:"method"`
	Arguments json.RawMessage `json:"arguments"`
	Params    json.RawMessage `json:"params"`
	Meta      json.RawMessage `json:"_meta"`
	TimeoutMs *int64          `json:"timeoutMs"`
	Progress  bool            `json:"progress"`
	Retry     string          `json:"retry"`
	Format    string          `json:"format"`
	CallID    string          `json:"callId"`
}

// maxResends bounds how often one call may be sent again after lost connections.
const maxResends = 2

// callOp is one call on its way: route, wait for its server if that is not
// ready, send, complete. The fast path runs on the caller's goroutine and
// completes on the reader's.
type callOp struct {
	m       *Manager
	out     *outcome
	tag     uint64
	req     callRequest
	began   time.Time
	timeout time.Duration // from submit on; 0: none
	resends int
	signIns int    // that this call has waited for
	dying   *hold  // to be over before the call is sent again
	slot    *slots // of its server, which this call holds

	mu       sync.Mutex
	stop     func() // ends what the call does at the moment
	step     int    // the resends when stop was noted
	canceled bool
}

func (m *Manager) startCall(tag uint64, req []byte, out *outcome) func() {
	op := &callOp{m: m, out: out, tag: tag, began: time.Now()}
	if err := op.parse(req); err != nil {
		op.fail(err)
		return func() {}
	}
	if op.req.Server == "" && op.req.Method != "" {
		if !m.goSafe(op.own) {
			op.fail(errClosed)
		}
		return op.cancel
	}
	op.route()
	return op.cancel
}

func (op *callOp) parse(req []byte) error {
	if err := parseRequest(req, &op.req); err != nil {
		return err
	}
	r := &op.req
	if isNull(r.Arguments) {
		r.Arguments = nil
	}
	if r.Format != "" || r.CallID != "" {
		if err := op.listen(); err != nil {
			return err
		}
	}
	switch {
	case r.Method == "" && r.Tool == "":
		return fault.New(fault.InvalidRequest, "", `a call needs "tool", or "server" with "tool" or "method"`)
	case r.Method != "" && r.Tool != "":
		return fault.New(fault.InvalidRequest, "", `a call has "tool" or "method", not both`)
	case r.Arguments != nil && !rawjson.IsObject(r.Arguments):
		return fault.New(fault.InvalidRequest, "", `"arguments" must be a JSON object`)
	case !isNull(r.Params) && !rawjson.IsObject(r.Params):
		return fault.New(fault.InvalidRequest, "", `"params" must be a JSON object`)
	case !isNull(r.Meta) && !rawjson.IsObject(r.Meta):
		return fault.New(fault.InvalidRequest, "", `"_meta" must be a JSON object`)
	case r.TimeoutMs != nil && *r.TimeoutMs < 0:
		return fault.New(fault.InvalidRequest, "", `"timeoutMs" must be 0 or more milliseconds`)
	}
	switch r.Retry {
	case "", "safe", "always", "never":
	default:
		return fault.New(fault.InvalidRequest, "", `"retry" is "safe", "always" or "never"`)
	}
	if r.Method != "" && r.Server != "" {
		return allowedMethod(r.Method)
	}
	return nil
}

// allowedMethod refuses what would disturb the session or slip past the tool filters.
func allowedMethod(method string) error {
	switch {
	case method == "tools/call":
		return fault.New(fault.InvalidRequest, "", `call a tool with "tool" and "arguments", not as a method`)
	case method == "initialize", method == "server/discover", method == "subscriptions/listen", method == "tools/list", strings.HasPrefix(method, "notifications/"):
		return fault.New(fault.InvalidRequest, "", "mcprt itself sends %s; a host cannot", method)
	case strings.HasPrefix(method, "mcprt/"):
		return fault.New(fault.InvalidRequest, "", `%s is a method of the library: leave "server" out`, method)
	}
	return nil
}

func (op *callOp) cancel() {
	op.mu.Lock()
	op.canceled = true
	stop := op.stop
	op.stop = nil
	op.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// during notes how to stop what the call does in this step; false when it was
// cancelled meanwhile. A send that has failed already may have begun the next step
// before the last one is noted here.
func (op *callOp) during(step int, stop func()) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if step >= op.step {
		op.stop, op.step = stop, step
	}
	return !op.canceled
}

func (op *callOp) fail(err error) { op.out.fail(err, true) }

// target is where a call goes in one snapshot.
type target struct {
	view *serverView
	def  *toolDef // nil: a method, or a tool that the snapshot does not know
	name string   // the tool's own name
}

// find resolves the request against a snapshot.
func (op *callOp) find(snap *Snapshot) (target, error) {
	r := &op.req
	if r.Server == "" {
		id, ok := snap.route(r.Tool)
		if !ok {
			return target{}, unknownTool(snap, r.Tool)
		}
		r.Server, r.Tool = id.Server, id.Tool // from now on by its true name: a rename cannot lose it
	}
	v := snap.index[r.Server]
	if v == nil {
		return target{}, op.m.unknownServer(snap, r.Server)
	}
	if op.out.counters == nil {
		op.out.counters = v.counters
		v.counters.calls.Add(1)
	}
	if r.Method != "" {
		return target{view: v}, nil
	}
	if cfg := &v.entry.Server; !allowed(r.Tool, cfg.AllowTools, cfg.DenyTools) {
		return target{}, op.about(fault.New(fault.Filtered, "", "the config of server %q does not allow its tool %q (allowTools, denyTools)", r.Server, r.Tool))
	}
	t := target{view: v, name: r.Tool}
	if v.known != nil {
		t.def = v.known.byName[r.Tool]
	}
	return t, nil
}

// about fills in what the call is about.
func (op *callOp) about(f *fault.Error) *fault.Error {
	f = f.Clone()
	f.Server, f.Tool = op.req.Server, op.req.Tool
	return f
}

// route sends the call at once where its server is ready, else it waits on a
// goroutine of its own.
func (op *callOp) route() {
	safe.Point("core.call")
	t, err := op.find(op.m.snap.Load())
	if err != nil {
		op.fail(err)
		return
	}
	if op.timeout = op.m.callTimeout(op.req.TimeoutMs, &t.view.entry.Server); !op.send(t) {
		op.later()
	}
}

// later waits for the server on a goroutine.
func (op *callOp) later() {
	if !op.m.goSafe(op.demand) {
		op.fail(op.about(errClosed))
	}
}

// send passes the call to its live session. false: there is none.
func (op *callOp) send(t target) bool {
	sess := t.view.session
	if sess == nil || !op.takeSlot(t.view.slots) {
		return false
	}
	if !sess.Acquire() {
		op.giveSlot()
		return false
	}
	begun := false
	defer func() {
		if !begun {
			sess.Release()
			op.giveSlot()
		}
	}()
	if op.req.Method == "" && t.def == nil {
		op.fail(op.gone(t))
		return true
	}
	c := &session.Call{Method: op.req.Method, Params: op.req.Params, Name: t.name, Arguments: op.req.Arguments, MaxTimeout: op.m.opts.MaxTimeout}
	if t.def != nil {
		c.Definition, c.NeedsTask = t.def.raw, t.def.task
	}
	if c.Method == "" {
		c.Method = "tools/call"
	}
	if !isNull(op.req.Meta) {
		c.Meta = op.req.Meta
	}
	op.out.sent = time.Now()
	if op.timeout > 0 {
		c.Timeout, c.Spent = op.timeout, op.out.sent.Sub(op.began)
		if c.Spent >= c.Timeout {
			op.fail(op.late(t.view))
			return true
		}
	}
	if op.req.Progress && op.tag != 0 {
		c.Progress = func(params []byte) { op.progress(params) }
	}
	c.Done = func(result []byte, err error) {
		defer func() {
			if r := recover(); r != nil { // whoever calls it could only end the session
				op.fail(op.about(caught(r)))
			}
		}()
		sess.Release()
		op.giveSlot()
		safe.Point("core.done")
		if err == nil {
			op.succeed(result)
			return
		}
		op.ended(t, err)
	}
	step := op.resends
	safe.Point("core.send")
	begun = true
	stop := sess.Start(c)
	if !op.during(step, stop) {
		stop()
	}
	return true
}

var resultHead, resultTail = []byte(`{"result":`), []byte(`}`)

// gone says that a ready server does not offer the tool.
func (op *callOp) gone(t target) error {
	return op.about(fault.New(fault.ToolGone, "", "server %q does not offer the tool %q; list its tools", t.view.name, t.name))
}

// ended decides what follows a failed send.
func (op *callOp) ended(t target, err error) {
	f := t.view.clean.fault(err)
	switch f.Code {
	case fault.Exited, fault.Disconnected, fault.Closed, fault.ConnectFailed:
	case fault.NeedsAuth:
		if !op.authorize(t, f) {
			op.fail(op.about(f))
		}
		return
	default:
		if headerMismatch(f) && op.resends == 0 && op.req.Method == "" && op.req.Retry != "never" {
			op.resends++
			t.view.counters.resends.Add(1)
			if op.m.goSafe(func() { op.relist(t) }) {
				return
			}
		}
		op.fail(op.about(f))
		return
	}
	if f.Code != fault.Closed && t.view.session.Ended() { // over HTTP a request may be lost alone
		op.m.report(t.view, evLost, f) // the session may tell us before it tells the manager: the next call must not meet it again
	}
	unsent := session.NeverWritten(err)
	if op.mayResend(t, unsent) && op.resends-op.signIns < maxResends && op.m.ctx.Err() == nil {
		op.resends++
		// A broken pipe, or a session that is over, is noticed before the end is: until then the server seems ready.
		if f.Code == fault.Exited || unsent && f.Code != fault.Closed && !t.view.session.Ended() {
			op.dying = t.view.session
		}
		t.view.counters.resends.Add(1)
		op.later()
		return
	}
	op.fail(op.unanswered(f, unsent))
}

// headerMismatch tells that the server did not run a call since its headers do not
// fit: the definition that they were made from may be an old one.
func headerMismatch(f *fault.Error) bool {
	return f.Code == fault.RPCError && f.Data != nil && f.Data.RPCCode != nil && *f.Data.RPCCode == -32020
}

// relist fetches the list, and calls then.
func (op *callOp) relist(t target) {
	defer func() {
		if r := recover(); r != nil {
			op.fail(caught(r))
		}
	}()
	op.m.mu.Lock()
	s := op.m.servers[t.view.name]
	op.m.mu.Unlock()
	if s != nil {
		op.m.relist(s, t.view.session, t.view.gen, t.view.entry)
	}
	op.demand()
}

// report tells a view's server what a call found out about its session; the second
// report of it is stale.
func (m *Manager) report(v *serverView, kind evKind, f *fault.Error) {
	m.mu.Lock()
	s := m.servers[v.name]
	m.mu.Unlock()
	if s != nil {
		f = f.Clone()
		f.Server, f.Tool = v.name, ""
		m.fire(s, event{kind: kind, gen: v.gen, err: f})
	}
}

// mayResend tells whether sending the call once more cannot do a thing twice, or
// the host said that this is fine. Hints count only when the live list has them.
func (op *callOp) mayResend(t target, unsent bool) bool {
	switch op.req.Retry {
	case "always":
		return true
	case "never":
		return unsent
	}
	return unsent || t.def != nil && t.def.safe
}

// unanswered is the error of a call whose connection ended before its answer.
func (op *callOp) unanswered(f *fault.Error, unsent bool) *fault.Error {
	if op.m.ctx.Err() != nil {
		return op.about(errClosed)
	}
	v := op.m.snap.Load().index[op.req.Server]
	if v == nil || v.state == stateStopped {
		return op.about(fault.New(fault.Disconnected, fault.StageReceive, "server %q was disconnected while the call ran; connect it again", op.req.Server))
	}
	if unsent {
		return op.about(f)
	}
	e := op.about(fault.New(fault.OutcomeUnknown, fault.StageReceive,
		`the connection to server %q ended before it answered, so the call may or may not have run; it was not sent again (see "retry"): %s`, op.req.Server, f.Message))
	e.Data = f.Data
	return e
}

func (op *callOp) late(v *serverView) error {
	ms := op.timeout.Milliseconds()
	e := fault.New(fault.Timeout, fault.StageConnect, "server %q is still %s and the call's %d ms are over; raise timeoutMs or call again later", v.name, v.state, ms)
	if v.err != nil {
		e.Message = fmt.Sprintf("server %q could not be connected within the call's %d ms, though it is tried again: %s", v.name, ms, v.err.Message)
	}
	return op.about(e.With(fault.Data{TimeoutMs: ms}).Retry())
}

// demand waits for the server and calls then.
func (op *callOp) demand() {
	defer func() {
		if r := recover(); r != nil {
			op.fail(caught(r))
		}
	}()
	safe.Point("core.demand")
	ctx, stop := context.WithCancelCause(op.m.ctx)
	defer stop(nil)
	if !op.during(op.resends, func() { stop(errCanceled) }) {
		stop(errCanceled)
	}
	for lost := 0; lost < maxResends+2; {
		var deadline time.Time
		if op.timeout > 0 {
			deadline = op.began.Add(op.timeout)
		}
		if dying := op.dying; dying != nil {
			op.dying = nil
			_ = waitFor(ctx, dying.Done(), deadline, deadline.IsZero()) // what ended the wait ends the next one
		}
		view, asked, err := op.m.await(ctx, op.req.Server, deadline)
		op.began = op.began.Add(asked) // a person's time is not the call's
		if err != nil {
			if err == context.DeadlineExceeded { // of the wait itself, which knows the server
				err = op.late(view)
			} else if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			op.fail(op.about(fault.From(err)))
			return
		}
		t, err := op.find(op.m.snap.Load())
		if err != nil {
			op.fail(err)
			return
		}
		waited, err := op.queue(ctx, t.view, deadline)
		if err != nil {
			op.fail(op.about(fault.From(err)))
			return
		}
		if op.send(t) {
			return
		}
		op.giveSlot()
		if !waited { // a server that is lost while calls wait for their turn is no reason to give them up
			lost++
		}
	}
	op.fail(op.about(fault.New(fault.Unavailable, fault.StageConnect, "server %q was ready and lost again each time; call again later", op.req.Server).Retry()))
}

// await waits until the server is ready; the error of a final state is the one
// that the server stored. The view is the last one seen. A deadline, which may be
// zero, is put off by the time for which the host is asked what the server needs:
// asked says how long that was.
func (m *Manager) await(ctx context.Context, name string, deadline time.Time) (view *serverView, asked time.Duration, err error) {
	return m.awaitAfter(ctx, name, deadline, nil)
}

// awaitAfter is await of a server that begin starts, rather than a demand.
func (m *Manager) awaitAfter(ctx context.Context, name string, deadline time.Time, begin func(*server)) (view *serverView, asked time.Duration, err error) {
	m.mu.Lock()
	s := m.servers[name]
	if s == nil {
		m.mu.Unlock()
		return nil, 0, m.unknownServer(m.snap.Load(), name)
	}
	s.waiting++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		s.waiting--
		m.mu.Unlock()
	}()
	if begin != nil {
		begin(s)
	}
	refused := begin == nil && m.fire(s, event{kind: evDemand}).refuse
	for {
		m.mu.Lock()
		v := &serverView{viewState: s.view()}
		stored, ch, asking := s.err, s.changed, s.asking
		person := asking && s.prompted
		if s.state == stateIdle && !refused {
			// It went idle between the demand and now: ask again.
			m.mu.Unlock()
			refused = m.fire(s, event{kind: evDemand}).refuse
			continue
		}
		m.mu.Unlock()
		switch {
		case v.state == stateReady:
			return v, asked, nil
		case refused || v.state.final() && !asking:
			return v, asked, whyNot(v, stored)
		}
		began := time.Now()
		if err := waitFor(ctx, ch, deadline.Add(asked), person || deadline.IsZero()); err != nil {
			return v, asked, err
		}
		if person {
			asked += time.Since(began)
		}
	}
}

// waitFor waits until ch is closed.
func waitFor(ctx context.Context, ch <-chan struct{}, deadline time.Time, endless bool) error {
	var expired <-chan time.Time
	if !endless {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ch:
		return nil
	case <-expired:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whyNot is the error of a call to a server that nothing but the host can start.
func whyNot(v *serverView, stored *fault.Error) error {
	switch v.state {
	case stateStopped:
		return fault.New(fault.Disconnected, fault.StageConnect, "server %q is disconnected; connect it again", v.name)
	case stateClosed:
		return fault.New(fault.UnknownServer, "", "server %q is no longer configured", v.name)
	case stateDisabled:
		return fault.New(fault.Unavailable, fault.StageConfig, "server %q is disabled in its config%s", v.name, in(v.entry.Origin.Path))
	}
	if stored == nil {
		return fault.New(fault.Unavailable, fault.StageConnect, "server %q is %s", v.name, v.state)
	}
	return stored
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " (" + path + ")"
}

// progress passes one progress notification on, named by the operation's tag.
func (op *callOp) progress(params []byte) {
	n := pick("progress", op.req.Server, params, "progress", "total", "message")
	n.fields = append([]rawField{{"tag", strconv.AppendUint(nil, op.tag, 10)}}, n.fields...)
	op.m.tell(n)
}

// pick takes members of params for a notice, byte for byte.
func pick(kind, server string, params []byte, names ...string) rawNotice {
	n := rawNotice{kind: kind, server: server}
	for _, name := range names {
		if v := rawjson.Get(params, name); v != nil {
			n.fields = append(n.fields, rawField{name, append([]byte(nil), v...)})
		}
	}
	return n
}

func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

func cloneOrNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return append([]byte(nil), raw...)
}
