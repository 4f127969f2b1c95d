package serve

import (
	"math"
	"unicode/utf8"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

// runtime is what is needed of core's manager; see core/host.go.
type runtime interface {
	QueueLimits() core.QueueLimits
	Start(v core.Verb, tag uint64, req []byte, done core.Done) (cancel func())
	Answer(tag uint64, reply []byte) core.Status
	Decline(tag uint64)
	Close(graceMs int32)
}

// manager is one manager of core with its queue to the host; it is core's Host. The
// server's lock guards its state, and core is never called under that lock.
type manager struct {
	server *Server
	number uint64
	core   runtime

	queue    queue
	running  map[uint64]*operation // by tag
	counted  int64                 // of running: those that maxInFlight counts
	requests map[uint64]bool       // open questions: whether the host has had its say
	closing  bool
	closed   bool
	freed    bool
	closeOp  *operation    // ends when everything else has
	ended    chan struct{} // closed with the last server
}

type operation struct {
	tag      uint64
	flags    int32
	forget   bool   // held, but nobody wants what it gave
	canceled bool   // asked once; not asked again
	cancel   func() // nil until core has started it
}

func (o *operation) held() bool     { return o.flags&(flagHold|flagBlocking) != 0 }
func (o *operation) blocking() bool { return o.flags&flagBlocking != 0 }

// eBusy is MCPRT_EBUSY, which core has no use for.
const eBusy core.Status = -6

var errClosed = fault.New(fault.Closed, "", "the manager is closed; open a new one")

// wrongText says why a request is not what the API demands, or nil.
func wrongText(data []byte) error {
	switch {
	case !utf8.Valid(data):
		return fault.New(fault.InvalidRequest, "", "the request is no JSON object: it is not UTF-8")
	case len(data) > 0 && (!rawjson.IsObject(data) || !json.Valid(data)):
		return fault.New(fault.InvalidRequest, "", "the request is no JSON object")
	}
	return nil
}

// submit begins one operation, which ends with exactly one evDone. What mcprt_submit
// refuses ends at once, with the status that it would have returned.
func (m *manager) submit(verb uint16, flags int32, tag uint64, req []byte) {
	o := &operation{tag: tag, flags: flags}
	if err := wrongText(req); err != nil {
		m.send(o, failed(err))
		return
	}
	if st := m.admit(o, verb); st != core.OK {
		m.send(o, outcome{status: st})
		return
	}
	if verb == verbClose {
		m.close(graceOf(req))
		return
	}
	if o.blocking() {
		tag = 0 // its number is nothing that the host chose: no notice is about it
	}
	safe.Do(func(e *fault.Error) { m.end(o, failed(e)) }, func() {
		cancel := m.core.Start(core.Verb(verb), tag, req, func(st core.Status, r core.Reply) { m.end(o, outcome{st, r}) })
		m.server.mu.Lock()
		o.cancel = cancel
		m.server.mu.Unlock()
	})
}

func (m *manager) admit(o *operation, verb uint16) core.Status {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	refusable := verb != uint16(core.VerbDisconnect) && verb != verbClose && !o.blocking()
	switch {
	case o.tag == 0 || o.tag > core.TagMax || o.flags&^(flagHold|flagBlocking) != 0:
		return core.EInval
	case m.closing:
		return core.EClosed
	case m.running[o.tag] != nil:
		return core.ETag
	case refusable && (m.counted >= m.queue.limits.MaxInFlight || m.queue.bytes > m.queue.limits.QueueBytes):
		return eBusy
	case verb == verbClose:
		m.closing, m.closeOp = true, o
		return core.OK
	}
	m.running[o.tag] = o
	if !o.blocking() {
		m.counted++
	}
	return core.OK
}

// outcome is how an operation ended.
type outcome struct {
	status core.Status
	reply  core.Reply
}

func failed(err error) outcome {
	st, r := core.ErrorReply(err)
	return outcome{st, r}
}

// end sends what an operation gave, once, whoever ends it.
func (m *manager) end(o *operation, out outcome) {
	m.server.mu.Lock()
	mine := m.running[o.tag] == o
	if mine {
		delete(m.running, o.tag)
		if !o.blocking() {
			m.counted--
		}
	}
	if o.forget {
		out = outcome{status: core.ECanceled}
	}
	m.server.mu.Unlock()
	if mine {
		m.send(o, out)
	}
}

func (m *manager) send(o *operation, out outcome) {
	r := out.reply
	if n := len(r.Head) + len(r.Body) + len(r.Tail); n > frameMax-64 {
		out = failed(fault.New(fault.TooLarge, fault.StageReceive,
			"the answer has %d bytes and does not fit one frame of %d; ask for less, or for a page of it", n, frameMax))
		r = out.reply
	}
	// Outside of the lock: a large result must not hold up other servers' readers.
	bytes := encode(frame{manager: m.number, tag: o.tag, status: int32(out.status), kind: evDone}, r.Head, r.Body, r.Tail)
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	if o.held() {
		m.server.sendLocked(bytes)
		return
	}
	m.queueLocked(evDone, bytes)
}

func (m *manager) queueLocked(kind uint16, bytes []byte) {
	if !m.freed {
		m.queue.add(&item{kind: kind, bytes: bytes})
		m.server.wakeLocked()
	}
}

// cancel asks for the end of an operation, or declines a question.
func (m *manager) cancel(tag uint64, flags int32) {
	if tag > core.TagMax {
		if m.say(tag) {
			safe.Do(nil, func() { m.core.Decline(tag) })
		}
		return
	}
	m.server.mu.Lock()
	o := m.running[tag]
	var ask func()
	if o != nil {
		o.forget = o.forget || o.held() && flags&flagForget != 0
		if !o.canceled {
			o.canceled, ask = true, o.cancel
		}
	}
	m.server.mu.Unlock()
	if ask != nil {
		safe.Do(func(e *fault.Error) { m.end(o, failed(e)) }, ask)
	}
}

// reply answers a question. One that is over, or was answered, is left alone.
func (m *manager) reply(tag uint64, answer []byte) {
	if m.say(tag) {
		safe.Do(nil, func() { m.core.Answer(tag, answer) })
	}
}

// say is true once for each open question.
func (m *manager) say(tag uint64) bool {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	said, open := m.requests[tag]
	if open {
		m.requests[tag] = true
	}
	return open && !said && !m.closing
}

// close ends core's manager in the background, and everything that is left with it.
func (m *manager) close(graceMs int32) {
	safe.Go(nil, func() {
		safe.Do(nil, func() { m.core.Close(graceMs) })
		m.server.mu.Lock()
		var left []*operation
		for _, o := range m.running {
			left = append(left, o)
		}
		m.server.mu.Unlock()
		for _, o := range left {
			m.end(o, failed(errClosed))
		}
		m.server.mu.Lock()
		defer m.server.mu.Unlock()
		for tag := range m.requests {
			m.queueLocked(evDone, encode(frame{manager: m.number, tag: tag, status: int32(core.EClosed), kind: evDone}))
		}
		clear(m.requests)
		if o := m.closeOp; o != nil {
			bytes := encode(frame{manager: m.number, tag: o.tag, kind: evDone}, []byte("{}"))
			if o.held() {
				m.server.sendLocked(bytes)
			} else {
				m.queueLocked(evDone, bytes)
			}
		}
		m.queueLocked(evClosed, encode(frame{manager: m.number, kind: evClosed}))
		m.closed = true
		if !m.freed {
			m.server.sendLocked(encode(frame{manager: m.number, kind: kindEnded}))
		}
		close(m.ended)
	})
}

// beginClose is a close without an operation; false: it has begun already.
func (m *manager) beginClose() bool {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	began := !m.closing
	m.closing = true
	return began
}

// free gives the manager back: nothing more is said of it, and it closes in the
// background.
func (m *manager) free() {
	m.server.mu.Lock()
	m.freed = true
	m.queue.clear()
	m.server.mu.Unlock()
	if m.beginClose() {
		m.close(-1)
	}
}

// Notice implements core.Host.
func (m *manager) Notice(data []byte) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	if !m.closed && !m.freed {
		m.queue.notice(m.number, data)
		m.server.wakeLocked()
	}
}

// Request implements core.Host. What the queue does not take is declined.
func (m *manager) Request(tag uint64, data []byte) {
	m.server.mu.Lock()
	l := m.queue.limits
	taken := !m.closing && int64(len(m.requests)) < l.MaxInFlight && m.queue.bytes <= l.QueueBytes && len(data) < frameMax-64
	if taken {
		m.requests[tag] = false
		m.queueLocked(evRequest, encode(frame{manager: m.number, tag: tag, kind: evRequest}, data))
	}
	m.server.mu.Unlock()
	if !taken {
		m.core.Decline(tag)
	}
}

// RequestDone implements core.Host.
func (m *manager) RequestDone(tag uint64, st core.Status) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	if _, open := m.requests[tag]; open {
		delete(m.requests, tag)
		m.queueLocked(evDone, encode(frame{manager: m.number, tag: tag, status: int32(st), kind: evDone}))
	}
}

// graceOf reads the request of close; -1, the configured grace, where it names none
// that can be used, since a close cannot fail.
func graceOf(req []byte) int32 {
	grace := int32(-1)
	safe.Do(nil, func() {
		var r struct {
			GraceMs *float64 `json:"graceMs"`
		}
		if err := json.Unmarshal(req, &r); err == nil && r.GraceMs != nil {
			grace = int32(min(max(*r.GraceMs, -1), math.MaxInt32))
		}
	})
	return grace
}
