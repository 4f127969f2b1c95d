package session

import (
	"bytes"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// What waits for the host's side of a server that talks faster than it is heard.
const (
	maxNotices     = 10_000
	maxNoticeBytes = 16 << 20
)

// notice is a notification for the Handler, progress of p, or the end of p, which
// must not overtake its progress.
type notice struct {
	method string
	params []byte
	p      *pending
	end    bool
}

// listChanged are the notifications that are never lost: one that finds the queue
// full is remembered, and any number of them is worth as much as one.
var listChanged = []string{"notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed"}

// queue is what the reader leaves for the dispatcher.
type queue struct {
	wake chan struct{} // a token: look again

	mu      sync.Mutex
	items   []notice
	bytes   int
	changed []string // of listChanged, remembered
	lost    int64
	closed  bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// add appends n; false means that it was dropped.
func (q *queue) add(n notice) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := len(q.items) >= maxNotices || q.bytes+len(n.params) > maxNoticeBytes
	if full && !n.end {
		if slices.Contains(listChanged, n.method) {
			if !slices.Contains(q.changed, n.method) {
				q.changed = append(q.changed, n.method)
			}
			return true
		}
		q.lost++
		return false
	}
	q.items = append(q.items, n)
	q.bytes += len(n.params)
	q.signal()
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close lets next end once what waits has been taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue) dropped() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// next waits for the next notice; false means that there will be none.
func (q *queue) next() (notice, bool) {
	for {
		q.mu.Lock()
		switch {
		case len(q.items) > 0:
			n := q.items[0]
			q.items[0] = notice{}
			q.items = q.items[1:]
			q.bytes -= len(n.params)
			q.mu.Unlock()
			return n, true
		case len(q.changed) > 0:
			n := notice{method: q.changed[0]}
			q.changed = q.changed[1:]
			q.mu.Unlock()
			return n, true
		case q.closed:
			q.mu.Unlock()
			return notice{}, false
		}
		q.mu.Unlock()
		<-q.wake
	}
}

// notification runs on the reader's goroutine.
func (s *Session) notification(method string, params []byte) {
	switch method {
	case "notifications/cancelled":
		s.requestCancelled(params)
	case "notifications/progress":
		s.progress(params)
	case acknowledged: // what was granted shows in what comes
		s.heardAgain(params)
	default:
		s.notices.add(notice{method: method, params: bytes.Clone(params)})
	}
}

// progress gives its call more time, whether or not anybody listens.
func (s *Session) progress(params []byte) {
	var token struct {
		Value json.RawMessage `json:"progressToken"`
	}
	err := json.Unmarshal(params, &token)
	id, ok := parseID(token.Value)
	s.mu.Lock()
	p := s.pending[id]
	if err != nil || !ok || p == nil {
		s.mu.Unlock()
		s.unmatched.Add(1)
		return
	}
	p.extend()
	listens := p.call.Progress != nil
	if listens {
		p.queued++
	}
	s.mu.Unlock()
	if listens && !s.notices.add(notice{params: bytes.Clone(params), p: p}) {
		s.mu.Lock()
		p.queued--
		s.mu.Unlock()
	}
}

// dispatch passes notices on, one at a time, until the connection is over; then it
// tells that the session is lost.
func (s *Session) dispatch() {
	defer close(s.done)
	for s.passNext() {
	}
	<-s.conn.Done()
	s.mu.Lock()
	err := s.lost
	s.mu.Unlock()
	defer s.guard()
	s.cfg.Handler.Lost(s, err.Clone())
}

// passNext is false when there will be no more notices.
func (s *Session) passNext() (ok bool) {
	ok = true
	defer s.guard() // a bug ends the session, but its notices are still taken
	n, more := s.notices.next()
	if !more {
		return false
	}
	s.pass(n)
	return true
}

func (s *Session) pass(n notice) {
	owed := n.end // its call waits for an outcome, whatever happens here
	defer func() {
		if v := recover(); v != nil {
			s.bug(v)
			if owed {
				n.p.finish(nil, s.name(fault.Caught(v, debug.Stack())))
			}
		}
	}()
	safe.Point("session.notice")
	switch {
	case n.end:
		owed = false
		n.p.finish(n.p.outcome.result, n.p.outcome.err)
	case n.p != nil:
		s.passProgress(n.p, n.params)
	default:
		s.cfg.Handler.Notification(s, n.method, n.params)
	}
}

func (s *Session) passProgress(p *pending, params []byte) {
	s.mu.Lock()
	p.queued--
	if p.muted {
		s.mu.Unlock()
		return
	}
	p.running = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		p.running = false
		owed := p.muted
		s.mu.Unlock()
		if owed { // the call ended, not by an answer, while its Progress ran
			p.finish(p.outcome.result, p.outcome.err)
		}
	}()
	p.call.Progress(params)
}
