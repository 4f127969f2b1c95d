package session

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/transport"
)

// pending is one open request. Who removes it from Session.pending, under the
// session's mutex, owes its outcome: that is how each request gets exactly one.
// Fields from id on are guarded by that mutex.
type pending struct {
	s       *Session
	call    Call
	started time.Time
	silent  bool // a part of the handshake, which must not be cancelled
	modern  bool // carries the members of a modern request

	id        int64
	seq       uint64
	sent      bool // Send has returned
	answered  bool // the server asked for input: no request is on its way now
	withdrawn bool // ended while Send ran: the server is told when it returns
	ctx       context.Context
	stopSend  context.CancelFunc // ends ctx, which bounds Send and the questions of a round trip
	rounds    int
	news      int64 // of a task, that were passed on as progress

	deadline, ceiling time.Time // on the session's clock; zero: none
	timer             *time.Timer

	queued  int      // progress notifications in the queue
	running bool     // Progress is being called
	muted   bool     // Progress must not be called any more
	outcome *outcome // waits for the end of queued or running progress
}

type outcome struct {
	result []byte
	err    error
}

// Start sends a request. cancel may be called at any time, more than once: a
// request that is still open then ends with canceled, and the server is told.
func (s *Session) Start(c *Call) (cancel func()) {
	p := &pending{s: s, call: *c}
	s.start(p)
	return p.cancel
}

// startBug ends a request whose start went wrong: whoever made it waits for its outcome.
func (p *pending) startBug(v any) {
	err := p.s.name(fault.Caught(v, debug.Stack()))
	p.s.mu.Lock()
	if p.stopSend == nil {
		p.stopSend = func() {}
	}
	owed := p.id == 0 || p.s.remove(p)
	p.s.mu.Unlock()
	if owed {
		p.abort(err)
	}
}

func (s *Session) start(p *pending) {
	defer func() {
		if v := recover(); v != nil {
			p.startBug(v)
		}
	}()
	safe.Point("session.start")
	p.modern = p.modern || s.modern.Load()
	p.call.asTask = !p.modern && p.call.NeedsTask && s.offersTasks()
	if p.modern { // a round trip may send it again after Start has returned
		c := &p.call
		if c.Method == "ping" {
			// 2026-07-28 has no ping. Whoever sends one asks whether the server answers:
			// server/discover tells that, and every server has it.
			done := c.Done
			c.Method, c.Params = "server/discover", nil
			c.Done = func(_ []byte, err error) {
				if err != nil {
					done(nil, err)
					return
				}
				done([]byte("{}"), nil)
			}
		}
		c.Params, c.Arguments, c.Meta = bytes.Clone(c.Params), bytes.Clone(c.Arguments), bytes.Clone(c.Meta)
	}
	if !p.modern && looksBack(p.call.Method) {
		p.call.Params = bytes.Clone(p.call.Params)
	}
	p.ctx, p.stopSend = context.WithCancel(context.Background())
	s.mu.Lock()
	if lost := s.lost; lost != nil {
		s.mu.Unlock()
		p.finish(nil, Unwritten(lost))
		return
	}
	p.started = time.Now()
	if t := p.call.Timeout; t > 0 {
		began := s.now().Add(-p.call.Spent)
		p.deadline = began.Add(t)
		if p.call.MaxTimeout > 0 {
			p.ceiling = began.Add(max(p.call.MaxTimeout, t))
		}
		p.timer = time.AfterFunc(max(t-p.call.Spent, 0), p.expire)
	}
	s.register(p)
	s.mu.Unlock()
	s.write(p, nil)
}

// looksBack tells the methods whose params are looked at again when the answer comes:
// they are the caller's until Start has returned.
func looksBack(method string) bool {
	return method == "resources/read" || method == "resources/subscribe" || method == "resources/unsubscribe"
}

// register gives p the next id; the mutex is held.
func (s *Session) register(p *pending) {
	s.lastID++
	p.id, p.sent, p.answered = s.lastID, false, false
	s.pending[p.id] = p
}

// remove takes p out, if it is still open: the caller then owes its outcome. The mutex is held.
func (s *Session) remove(p *pending) bool {
	if s.pending[p.id] != p {
		return false
	}
	delete(s.pending, p.id)
	return true
}

// write sends p, with the answers of a round trip if there are any.
func (s *Session) write(p *pending, again *retry) {
	defer func() {
		if v := recover(); v != nil {
			p.startBug(v)
		}
	}()
	safe.Point("session.write")
	buf := takeBuffer()
	var meta []byte
	if p.modern {
		meta = s.meta
	}
	message := appendRequest((*buf)[:0], p.id, &p.call, meta, again)
	if s.carrier != nil {
		seq, err := s.carrier.SendMeta(p.ctx, message, s.requestMeta(p))
		giveBuffer(buf, message)
		s.written(p, seq, err)
		return
	}
	if conn, ok := s.conn.(transport.Prompt); ok {
		seq, sent, err := conn.TrySend(message)
		if !sent && err == nil { // the server does not read: only this call may wait for it, not its caller
			message := bytes.Clone(message)
			go func() {
				defer func() {
					if v := recover(); v != nil {
						p.startBug(v)
					}
				}()
				seq, err := s.conn.Send(p.ctx, message)
				s.written(p, seq, err)
			}()
			giveBuffer(buf, message)
			return
		}
		giveBuffer(buf, message)
		s.written(p, seq, err)
		return
	}
	seq, err := s.conn.Send(p.ctx, message)
	giveBuffer(buf, message)
	s.written(p, seq, err)
}

// written notes what became of p's message.
func (s *Session) written(p *pending, seq uint64, err error) {
	s.mu.Lock()
	if err != nil {
		open := s.remove(p)
		cause := s.lost
		s.mu.Unlock()
		if cause == nil {
			cause = s.name(fault.From(err))
		}
		if open {
			p.abort(Unwritten(cause))
		}
		return
	}
	p.seq, p.sent = seq, true
	lost, over := s.lost, s.over
	owed := lost != nil && s.remove(p)
	late := p.withdrawn
	s.mu.Unlock()
	switch {
	case owed:
		p.abort(s.lossOf(p, lost, over))
	case late:
		s.tellCancelled(p.id)
	}
}

// response completes the request that m answers.
func (s *Session) response(m *transport.Message) {
	id, ok := parseID(m.ID)
	s.mu.Lock()
	p := s.pending[id]
	ok = ok && p != nil && !p.answered
	s.mu.Unlock()
	if !ok {
		s.unmatched.Add(1)
		return
	}
	result, err := s.outcomeOf(m, p) // reads a large message perhaps: not under the mutex
	var sequel func(*pending, []byte)
	if err == nil {
		if sequel, err = s.sequel(p, result); err == nil && sequel == nil {
			s.watchSubscriptions(p)
			err = s.watchSkills(p, result)
		}
	}
	s.mu.Lock()
	switch {
	case s.pending[id] != p:
		s.mu.Unlock()
		s.unmatched.Add(1)
	case sequel != nil:
		p.answered = true
		s.mu.Unlock()
		go s.follow(sequel, p, bytes.Clone(result))
	default:
		s.conclude(p, result, asError(err))
	}
}

func (s *Session) follow(sequel func(*pending, []byte), p *pending, result []byte) {
	defer s.guard()
	sequel(p, result)
}

// conclude ends an open request, after the progress that came before its end. The
// mutex is held, and given back.
func (s *Session) conclude(p *pending, result []byte, err error) {
	delete(s.pending, p.id)
	if p.queued > 0 || p.running {
		p.outcome = &outcome{result: bytes.Clone(result), err: err}
		s.mu.Unlock()
		p.stop()
		s.notices.add(notice{p: p, end: true})
		return
	}
	s.mu.Unlock()
	p.finish(result, err)
}

// asError keeps a nil *fault.Error from becoming an error that is not nil.
func asError(err *fault.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func (s *Session) outcomeOf(m *transport.Message, p *pending) ([]byte, *fault.Error) {
	switch {
	case m.Failed != nil && m.Unsent:
		return nil, Unwritten(s.name(m.Failed))
	case m.Failed != nil:
		return nil, s.name(m.Failed)
	case m.TooLarge > 0:
		return nil, s.errorf(fault.TooLarge, fault.StageReceive,
			"server %q answered %s with %d bytes, more than limits.messageBytes allows; the session goes on", s.cfg.Server, p.what(), m.TooLarge)
	case m.Damaged != "":
		return nil, s.errorf(fault.Protocol, fault.StageDecode,
			"server %q answered %s with what is %s; the session goes on, but the server has to be mended", s.cfg.Server, p.what(), m.Damaged)
	case len(m.Error) > 0 && string(m.Error) != "null":
		return nil, s.rpcError(m.Error, p)
	case len(m.Result) > 0 && m.Result[0] == '{':
		return m.Result, nil
	}
	return nil, s.errorf(fault.Protocol, fault.StageProtocol,
		"server %q answered %s with neither a result object nor an error", s.cfg.Server, p.what())
}

const maxRPCMessage = 4096

// rpcError reads an error object; some servers send a bare string instead.
func (s *Session) rpcError(raw []byte, p *pending) *fault.Error {
	var rpc struct {
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(raw, &rpc) != nil {
		rpc.Code, rpc.Message, rpc.Data = nil, bytes.Clone(raw), nil
	}
	code := int64(-32603)
	if json.Unmarshal(rpc.Code, &code) != nil {
		code = -32603
	}
	var message string
	if json.Unmarshal(rpc.Message, &message) != nil {
		message = string(rpc.Message)
	}
	message = clip(message, maxRPCMessage)
	data := fault.Data{RPCCode: &code, RPCMessage: message}
	if len(rpc.Data) > 0 {
		data.RPCData = rpc.Data
	}
	return s.errorf(fault.RPCError, fault.StageReceive, "server %q refused %s: %s (code %d)", s.cfg.Server, p.what(), message, code).With(data)
}

// clip cuts text to n bytes at a rune's border.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}

// what names the request in a message.
func (p *pending) what() string {
	if p.call.Method == "tools/call" {
		return fmt.Sprintf("the call of tool %q", p.call.Name)
	}
	return p.call.Method
}

func (p *pending) cancel() {
	p.withdraw(func() *fault.Error {
		return p.s.errorf(fault.Canceled, fault.StageReceive, "%s at server %q was cancelled", p.what(), p.s.cfg.Server)
	})
}

// expire runs when the timer fires, which may be too early: progress and server
// requests move the deadline without touching the timer.
func (p *pending) expire() {
	s := p.s
	defer s.guard()
	s.mu.Lock()
	if s.pending[p.id] != p || s.held > 0 { // release sets the timers again
		s.mu.Unlock()
		return
	}
	if left := time.Until(p.deadline); left > 0 {
		p.timer.Reset(left)
		s.mu.Unlock()
		return
	}
	limit := p.call.Timeout
	if !p.ceiling.IsZero() && !p.deadline.Before(p.ceiling) {
		limit = max(p.call.MaxTimeout, limit)
	}
	s.mu.Unlock()
	p.withdraw(func() *fault.Error {
		return s.errorf(fault.Timeout, fault.StageReceive,
			"server %q did not finish %s within %d ms; raise timeoutMs if it needs longer", s.cfg.Server, p.what(), limit.Milliseconds()).
			With(fault.Data{TimeoutMs: limit.Milliseconds()}).Retry()
	})
}

// withdraw ends an open request from our side and tells the server.
func (p *pending) withdraw(reason func() *fault.Error) {
	s := p.s
	s.mu.Lock()
	if !s.remove(p) {
		s.mu.Unlock()
		return
	}
	tell := p.sent && !p.answered && !p.silent
	p.withdrawn = !p.sent && !p.answered && !p.silent
	id := p.id
	s.mu.Unlock()
	p.abort(reason())
	switch {
	case tell:
		go s.tellCancelled(id)
	case s.carrier != nil:
		s.carrier.Cancel(id)
	}
}

// cancelPatience bounds the wait of a notifications/cancelled for a server that does not read.
const cancelPatience = 5 * time.Second

func (s *Session) tellCancelled(id int64) {
	defer s.guard()
	if s.carrier != nil {
		defer s.carrier.Cancel(id)
		if s.modern.Load() { // there the end of the stream is the notice
			return
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, cancelPatience)
	defer cancel()
	// Best effort: the caller has its outcome already.
	_ = s.Notify(ctx, "notifications/cancelled", fmt.Appendf(nil, `{"requestId":%d,"reason":"the client does not want the result any more"}`, id))
}

// abort delivers an outcome that is not the server's answer: progress that waits is dropped.
func (p *pending) abort(err *fault.Error) {
	p.stop()
	p.s.mu.Lock()
	p.muted = true
	if p.running { // the dispatcher delivers when Progress has returned
		p.outcome = &outcome{err: err}
		p.s.mu.Unlock()
		return
	}
	p.s.mu.Unlock()
	p.finish(nil, err)
}

// stop ends the timer and whatever still works for p.
func (p *pending) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.stopSend()
}

func (p *pending) finish(result []byte, err error) {
	defer p.s.guard()
	p.stop()
	p.call.Done(result, err)
}

// extend gives p its full timeout again, up to the ceiling. The mutex is held.
func (p *pending) extend() {
	if p.timer == nil {
		return
	}
	p.deadline = p.s.now().Add(p.call.Timeout)
	if !p.ceiling.IsZero() && p.deadline.After(p.ceiling) {
		p.deadline = p.ceiling
	}
}

// now is the clock of the calls: it stands still while the server waits for an
// answer of the host. The mutex is held.
func (s *Session) now() time.Time {
	if s.held > 0 {
		return s.heldAt
	}
	return time.Now()
}

// hold stops the clock, release lets it go on.
func (s *Session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == 0 {
		s.heldAt = time.Now()
	}
	s.held++
}

func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.held > 0 {
		return
	}
	lost := time.Since(s.heldAt)
	for _, p := range s.pending {
		if p.timer == nil {
			continue
		}
		p.deadline = p.deadline.Add(lost)
		if !p.ceiling.IsZero() {
			p.ceiling = p.ceiling.Add(lost)
		}
		p.timer.Reset(time.Until(p.deadline))
	}
}

// Request sends a request and waits for its result, at most until ctx ends or
// Config.Timeout has passed. The result is the caller's.
func (s *Session) Request(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	return s.ask(ctx, &pending{s: s, call: Call{Method: method, Params: params, Timeout: s.cfg.Timeout}})
}

func (s *Session) ask(ctx context.Context, p *pending) (json.RawMessage, error) {
	return s.open(ctx, p)()
}

// open sends a request; wait gives its result, and must be called.
func (s *Session) open(ctx context.Context, p *pending) (wait func() (json.RawMessage, error)) {
	if err := ctx.Err(); err != nil {
		return func() (json.RawMessage, error) { return nil, Unwritten(s.name(fault.From(err))) }
	}
	answers := make(chan outcome, 1)
	p.call.Done = func(result []byte, err error) { answers <- outcome{bytes.Clone(result), err} }
	s.start(p)
	stop := context.AfterFunc(ctx, p.cancel)
	return func() (json.RawMessage, error) {
		defer stop()
		got := <-answers
		if fault.Is(got.err, fault.Canceled) && ctx.Err() == context.DeadlineExceeded {
			took := time.Since(p.started).Milliseconds()
			return nil, s.errorf(fault.Timeout, fault.StageReceive, "server %q did not answer %s within %d ms", s.cfg.Server, p.what(), took).
				With(fault.Data{TimeoutMs: took}).Retry()
		}
		return got.result, got.err
	}
}

// Notify sends a notification; params is a raw JSON object or nil.
func (s *Session) Notify(ctx context.Context, method string, params []byte) error {
	buf := takeBuffer()
	message := appendNotification((*buf)[:0], method, params)
	err := s.send(ctx, message, method)
	giveBuffer(buf, message)
	if err != nil {
		return s.name(fault.From(err))
	}
	return nil
}
