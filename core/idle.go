package core

import (
	"time"

	"github.com/mcprt/mcprt/core/config"
)

// idleTimeout is how long a lazy server may live without calls; 0: for ever.
func (m *Manager) idleTimeout(e *config.Entry) time.Duration {
	if !m.lazy(e) {
		return 0
	}
	if ms := e.Server.IdleTimeoutMs; ms != nil {
		return time.Duration(*ms) * time.Millisecond
	}
	return m.opts.IdleTimeout
}

// timeIdle lets a server that has just become ready stop when nobody calls it. The
// mutex is held.
func (m *Manager) timeIdle(s *server) {
	timeout := m.idleTimeout(s.entry)
	if timeout <= 0 {
		return
	}
	s.session.TimeIdle()
	gen := s.gen
	s.idle = time.AfterFunc(timeout, func() { m.guard(func() { m.lookIdle(s, gen, timeout) }) })
}

// lookIdle stops a server that was not used for its time, and looks again later
// else. Its tools stay, deferred, and the next call starts it.
func (m *Manager) lookIdle(s *server, gen uint64, timeout time.Duration) {
	m.change(func(fx *effects) {
		if s.gen != gen || s.state != stateReady || s.idle == nil {
			return
		}
		unused := s.session.Idle()
		// Under the lock: a call that finds the session retired waits for this change.
		if unused >= timeout && s.session.TryRetire() {
			m.apply(s, event{kind: evIdle, gen: gen}, fx)
			return
		}
		s.idle.Reset(max(timeout-unused, time.Millisecond))
	})
}
