package trace

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/transport"
)

// maxOpen bounds the requests whose begin is remembered, per connection and
// direction; those beyond have no duration.
const maxOpen = 1 << 16

// Attempt records one start of a server, and the connection that it made. A nil
// Attempt records nothing.
type Attempt struct {
	r      *Recorder
	server string
	gen    uint64

	mu     sync.Mutex
	open   map[string]time.Time // phases under way
	listed time.Time            // the last page arrived
	over   bool                 // the start has an outcome
	called bool
}

// Start records that a start begins. target is a command line or URL without secrets.
func (r *Recorder) Start(server string, gen uint64, transport, target string) *Attempt {
	if r == nil {
		return nil
	}
	r.Add(Record{Type: TypeStart, Server: server, Generation: gen, Transport: transport, Target: target})
	return &Attempt{r: r, server: server, gen: gen, open: map[string]time.Time{}}
}

// Phase records a step of the manager as a whole; it began at began and ends now.
func (r *Recorder) Phase(phase string, began time.Time, detail string, err error) {
	if r == nil {
		return
	}
	r.Add(Record{Time: began, Type: TypePhase, Phase: phase, DurationMs: ms(time.Since(began)), Detail: detail, Error: failure(err)})
}

// State records another state of a server.
func (r *Recorder) State(server string, gen uint64, state, previous string, err *fault.Error) {
	if r == nil {
		return
	}
	rec := Record{Type: TypeState, Server: server, Generation: gen, State: state, Previous: previous}
	if err != nil {
		rec.Error = failure(err)
	}
	r.Add(rec)
}

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	return &Failure{Code: string(f.Code), Message: f.Message}
}

// Phase records a step of the start that began at began and ends now.
func (a *Attempt) Phase(phase string, began time.Time, err error) {
	if a != nil {
		a.phase(Record{Phase: phase, Time: began, DurationMs: ms(time.Since(began)), Error: failure(err)})
	}
}

func (a *Attempt) phase(rec Record) {
	rec.Type, rec.Server, rec.Generation = TypePhase, a.server, a.gen
	a.r.Add(rec)
}

// begin opens a phase, unless it is open.
func (a *Attempt) begin(phase string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.open[phase]; !twice {
		a.open[phase] = at
	}
}

// finish ends a phase, if it is open.
func (a *Attempt) finish(phase string, at time.Time, detail string, f *Failure) {
	a.mu.Lock()
	began, open := a.open[phase]
	delete(a.open, phase)
	a.mu.Unlock()
	if open {
		a.phase(Record{Phase: phase, Time: began, DurationMs: ms(at.Sub(began)), Detail: detail, Error: f})
	}
}

// End tells that the start has succeeded, or failed with err: its open steps end.
func (a *Attempt) End(err error) {
	if a == nil {
		return
	}
	now := time.Now()
	a.mu.Lock()
	a.over = true
	listed := a.listed
	a.mu.Unlock()
	f := failure(err)
	if f == nil && !listed.IsZero() {
		a.finish(PhaseList, listed, "", nil)
	}
	for _, phase := range []string{PhaseProbe, PhaseHandshake, PhaseList} {
		a.finish(phase, now, "not finished", f)
	}
}

// Dial makes the connections of d record what passes.
func (a *Attempt) Dial(d transport.Dial) transport.Dial {
	if a == nil {
		return d
	}
	return func(ctx context.Context, r transport.Receiver) (transport.Conn, error) {
		t := &tap{a: a, out: r, sent: map[string]asked{}, asked: map[string]asked{}}
		began := time.Now()
		conn, err := d(ctx, t)
		rec := Record{Phase: PhaseSpawn, Time: began, DurationMs: ms(time.Since(began)), Error: failure(err)}
		if err != nil {
			a.phase(rec)
			return nil, err
		}
		if _, remote := conn.(transport.Carrier); remote {
			rec.Phase = PhaseDial
		}
		rec.PID = conn.Info().PID
		a.phase(rec)
		t.mu.Lock()
		t.conn = conn
		t.mu.Unlock()
		switch c := conn.(type) {
		case transport.Carrier:
			return &carrierTap{tappedConn{conn, t}, c}, nil
		case transport.Prompt:
			return &promptTap{tappedConn{conn, t}, c}, nil
		}
		return &tappedConn{conn, t}, nil
	}
}

// asked is a request without an answer yet.
type asked struct {
	method, tool string
	at           time.Time
	first        bool // the first call of its start
	// record writes down a request of ours, once, whoever comes first: the one who sent it, or its
	// answer, which must not stand before it.
	record func(error)
}

// tap stands between a connection and its session.
type tap struct {
	a   *Attempt
	out transport.Receiver

	mu      sync.Mutex
	conn    transport.Conn   // nil until Dial has it
	sent    map[string]asked // by id: ours
	asked   map[string]asked // by id: the server's
	closing time.Time
}

// outgoing notes a message before it is sent, since its answer may come before Send
// returns; record writes it down.
func (t *tap) outgoing(msg []byte) (record func(error)) {
	now := time.Now()
	var m transport.Message
	if transport.Scan(msg, &m) != nil {
		return func(error) {}
	}
	rec := Record{Time: now, Type: TypeMessage, Server: t.a.server, Generation: t.a.gen, Direction: "out", Bytes: int64(len(msg))}
	rec.ID = bytes.Clone(m.ID)
	payload := m.Params
	request := m.Method != "" && hasID(m.ID)
	var once sync.Once
	record = func(err error) {
		once.Do(func() {
			if err != nil {
				rec.Outcome, rec.Error = OutcomeFailed, failure(err)
				if request {
					t.take(t.sent, rec.ID)
				}
			}
			t.a.r.add(rec, payload)
			payload = nil // it is the caller's, whose time with it is over
		})
	}
	switch {
	case m.Method == "":
		payload = t.answered(&rec, &m, t.take(t.asked, m.ID), now)
	case request:
		t.request(&rec, &m, t.sent, now, record)
	default:
		t.notification(&rec, &m)
		t.steps(m.Method, m.Params, now)
	}
	return record
}

func hasID(id []byte) bool { return len(id) > 0 && string(id) != "null" }

func (t *tap) request(rec *Record, m *transport.Message, open map[string]asked, now time.Time, record func(error)) {
	rec.Kind, rec.Method = "request", m.Method
	q := asked{method: strings.Clone(m.Method), at: now, record: record}
	if m.Method == "tools/call" {
		q.tool, _ = rawjson.String(rawjson.Get(m.Params, "name"))
		rec.Tool = q.tool
	}
	a := t.a
	if rec.Direction == "out" {
		switch m.Method {
		case "server/discover":
			a.begin(PhaseProbe, now)
		case "initialize":
			a.finish(PhaseProbe, now, "not answered", nil)
			a.begin(PhaseHandshake, now)
		case "tools/list":
			a.mu.Lock()
			over := a.over
			a.mu.Unlock()
			if !over {
				a.begin(PhaseList, now)
			}
		case "tools/call":
			a.mu.Lock()
			q.first, a.called = !a.called, true
			a.mu.Unlock()
			if q.first {
				a.begin(PhaseFirstCall, now)
			}
		}
	}
	key := idKey(m.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	q.first = q.first || open[key].first // TrySend had no room, and Send comes again
	if len(open) < maxOpen {
		open[key] = q
	}
}

func (t *tap) notification(rec *Record, m *transport.Message) {
	rec.Kind, rec.Method = "notification", m.Method
}

// steps follows what notifications of ours mean.
func (t *tap) steps(method string, params []byte, now time.Time) {
	switch method {
	case "notifications/initialized":
		t.a.finish(PhaseHandshake, now, "", nil)
	case "notifications/cancelled":
		t.forget(rawjson.Get(params, "requestId"))
	}
}

// forget drops a request that will hardly be answered.
func (t *tap) forget(id []byte) {
	if q := t.take(t.sent, id); q.first {
		t.a.finish(PhaseFirstCall, time.Now(), "cancelled", nil)
	}
}

// idKey makes one key of the forms that an id may come back in.
func idKey(id []byte) string {
	return string(bytes.TrimSuffix(bytes.Trim(id, `"`), []byte(".0")))
}

func (t *tap) take(open map[string]asked, id []byte) asked {
	key := idKey(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	q := open[key]
	delete(open, key)
	return q
}

// answered fills in a response, and gives its payload.
func (t *tap) answered(rec *Record, m *transport.Message, q asked, now time.Time) []byte {
	rec.Kind, rec.Method, rec.Tool = "response", q.method, q.tool
	if !q.at.IsZero() {
		rec.DurationMs = ms(now.Sub(q.at))
	}
	rec.Outcome = OutcomeOK
	payload := m.Result
	switch {
	case m.Failed != nil:
		rec.Outcome, rec.Error = OutcomeFailed, failure(m.Failed)
	case m.TooLarge > 0:
		rec.Outcome, rec.Bytes = OutcomeFailed, m.TooLarge
		rec.Error = &Failure{string(fault.TooLarge), strconv.FormatInt(m.TooLarge, 10) + " bytes are more than limits.messageBytes allows"}
	case m.Damaged != "":
		rec.Outcome, rec.Error = OutcomeFailed, &Failure{string(fault.Protocol), m.Damaged}
	case len(m.Error) > 0 && string(m.Error) != "null":
		rec.Outcome, payload = OutcomeError, m.Error
	case q.method == "tools/call" && string(rawjson.Get(m.Result, "isError")) == "true":
		rec.Outcome = OutcomeToolError
	}
	return payload
}

// Receive makes a tap a transport.Receiver.
func (t *tap) Receive(m *transport.Message) {
	now := time.Now()
	rec := Record{Time: now, Type: TypeMessage, Server: t.a.server, Generation: t.a.gen, Direction: "in", Bytes: m.Bytes}
	rec.ID = bytes.Clone(m.ID)
	payload := m.Params
	switch {
	case m.Method == "":
		q := t.take(t.sent, m.ID)
		if q.record != nil {
			q.record(nil) // the answer was quicker than the return of the write
		}
		payload = t.answered(&rec, m, q, now)
		t.settle(&rec, q, payload, now)
	case hasID(m.ID):
		t.request(&rec, m, t.asked, now, nil)
	default:
		t.notification(&rec, m)
	}
	t.a.r.add(rec, payload)
	t.out.Receive(m)
}

// settle ends the phase that an answer ends.
func (t *tap) settle(rec *Record, q asked, payload []byte, now time.Time) {
	f := rec.Error
	if rec.Outcome == OutcomeError {
		message, _ := rawjson.String(rawjson.Get(payload, "message"))
		f = &Failure{string(fault.RPCError), message}
	}
	switch a := t.a; {
	case q.first:
		a.finish(PhaseFirstCall, now, "", f)
	case q.method == "server/discover":
		a.finish(PhaseProbe, now, "", f)
	case q.method == "initialize" && f != nil:
		a.finish(PhaseHandshake, now, "", f)
	case q.method == "tools/list":
		a.mu.Lock()
		if !a.over {
			a.listed = now
		}
		a.mu.Unlock()
	}
}

// Closed makes a tap a transport.Receiver.
func (t *tap) Closed(err *fault.Error) {
	now := time.Now()
	t.mu.Lock()
	began, conn := t.closing, t.conn
	t.mu.Unlock()
	rec := Record{Phase: PhaseClose, Time: now, DurationMs: ms(0), Detail: "lost", Error: failure(err)}
	if !began.IsZero() {
		rec.Time, rec.DurationMs, rec.Detail = began, ms(now.Sub(began)), "closed by this side"
		if err.Code == fault.Closed {
			rec.Error = nil
		}
	}
	if conn != nil {
		i := conn.Info()
		rec.PID = i.PID
		if n := i.Skipped; n > 0 {
			rec.Detail += ", " + strconv.FormatInt(n, 10) + " lines were no messages"
		}
	}
	t.a.finish(PhaseFirstCall, now, "not finished", failure(err))
	t.a.phase(rec)
	t.out.Closed(err)
}

// tappedConn is a Conn that records what is sent.
type tappedConn struct {
	transport.Conn
	t *tap
}

func (c *tappedConn) Send(ctx context.Context, msg []byte) (uint64, error) {
	record := c.t.outgoing(msg)
	seq, err := c.Conn.Send(ctx, msg)
	record(err)
	return seq, err
}

func (c *tappedConn) Close(grace time.Duration, abort bool) {
	c.t.mu.Lock()
	if c.t.closing.IsZero() {
		c.t.closing = time.Now()
	}
	c.t.mu.Unlock()
	c.Conn.Close(grace, abort)
}

// promptTap is a transport.Prompt, as the connection behind it is.
type promptTap struct {
	tappedConn
	prompt transport.Prompt
}

func (c *promptTap) TrySend(msg []byte) (uint64, bool, error) {
	record := c.t.outgoing(msg)
	seq, ok, err := c.prompt.TrySend(msg)
	if ok || err != nil { // else Send follows
		record(err)
	}
	return seq, ok, err
}

// carrierTap is a transport.Carrier, as the connection behind it is.
type carrierTap struct {
	tappedConn
	carrier transport.Carrier
}

func (c *carrierTap) SendMeta(ctx context.Context, msg []byte, meta transport.Meta) (uint64, error) {
	record := c.t.outgoing(msg)
	seq, err := c.carrier.SendMeta(ctx, msg, meta)
	record(err)
	return seq, err
}

func (c *carrierTap) Cancel(id int64) {
	c.t.forget(strconv.AppendInt(nil, id, 10))
	c.carrier.Cancel(id)
}
