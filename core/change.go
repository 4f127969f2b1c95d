package core

import (
	"maps"
	"runtime/debug"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// A bug in this package must cost one operation, not the library. What would cost
// it is a lock that stays locked, a waiter that nobody wakes, an effect that is
// forgotten; so each change of state goes through here.

// change runs f under the lock, publishes what it changed, and then does what has
// to follow. A bug on the way is raised again when all that is done.
func (m *Manager) change(f func(fx *effects)) {
	fx := m.newEffects()
	m.locked(fx, f)
	m.finish(fx)
	if fx.bug != nil {
		panic(fx.bug)
	}
}

func (m *Manager) locked(fx *effects, f func(fx *effects)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fx.try(func() { f(fx) })
	maps.Copy(fx.changed, m.unpublished)
	m.unpublished = nil
	published := false
	for range 2 { // again after a bug: it may have been one view alone
		if published = fx.try(func() { m.publish(fx) }); published {
			break
		}
	}
	if !published {
		m.unpublished = fx.changed // the next change shows them
	}
	if fx.bug != nil { // who raises it again may have nobody to tell
		m.outbox = append(m.outbox, bugNotice(fx.bug))
	}
}

func bugNotice(bug *fault.Error) notice {
	return diagnosticNotice{diagnostic{Severity: "error", Code: "internal", Message: bug.Message, Server: bug.Server}}
}

// try runs f and keeps the first bug.
func (fx *effects) try(f func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil && fx.bug == nil {
			fx.bug = caught(r)
		}
	}()
	f()
	return true
}

func caught(r any) *fault.Error {
	if f, ok := r.(*fault.Error); ok { // raised again
		return f
	}
	return fault.Caught(r, debug.Stack())
}

// apply makes one step of one server under the lock and notes what has to follow. A
// bug leaves the server failed, with the bug as its reason, and the others alone.
func (m *Manager) apply(s *server, ev event, fx *effects) (a action) {
	before := fx.bug
	fx.bug = nil
	ok := fx.try(func() { a = m.step(s, ev, fx) })
	bug := fx.bug
	if fx.bug = before; before == nil {
		fx.bug = bug
	}
	if !ok {
		fx.try(func() { m.derail(s, ev, bug, fx) })
		a = action{stale: true, refuse: true}
	}
	return a
}

// derail takes a server out of whatever it was doing. Results that are under way are
// stale by its new generation; a restart begins anew.
func (m *Manager) derail(s *server, ev event, bug *fault.Error, fx *effects) {
	m.gen++
	s.machine = machine{state: stateFailed, settled: true, gen: m.gen, wasReady: s.wasReady}
	switch {
	case m.closing != nil, ev.kind == evRemove:
		s.state = stateClosed
	case ev.kind == evDisconnect:
		s.state = stateStopped
	}
	bug = bug.Clone()
	bug.Server = s.name
	s.err = bug
	if cancel := s.cancel; cancel != nil {
		s.cancel = nil
		fx.run = append(fx.run, func() { cancel(errSuperseded) })
	}
	if old, grace := s.session, m.grace; old != nil {
		s.session = nil
		s.ending = append(s.ending, old.Done())
		fx.run = append(fx.run, func() { m.closeSession(old, grace, false) })
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.state == stateClosed && m.servers[s.name] == s {
		delete(m.servers, s.name)
		m.leaving = append(m.leaving, s.ending...)
	}
	fx.changed[s] = true
	fx.wake = append(fx.wake, s.changed)
	s.changed = make(chan struct{})
	m.outbox = append(m.outbox, stateNotice{s.view()})
}

// finish runs the effects of one or more changes. Never under the lock. A woken
// caller always sees the change.
func (m *Manager) finish(fx *effects) {
	for _, ch := range fx.wake {
		fx.try(func() { close(ch) })
	}
	for _, f := range fx.run {
		fx.try(f)
	}
	fx.try(m.flush)
}

// guard runs f; a panic becomes an event, never a crash of the host.
func (m *Manager) guard(f func()) {
	safe.Do(func(bug *fault.Error) {
		safe.Do(nil, func() {
			m.host.Notice(bugNotice(bug).encode())
		})
	}, f)
}
