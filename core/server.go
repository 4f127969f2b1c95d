package core

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
)

// server is the manager's record of one server. Every field belongs to the
// manager's mutex; nothing outside fire changes machine, session or known.
type server struct {
	machine
	name     string
	entry    *config.Entry
	pinned   bool // given by the host itself: stays across reloads
	session  *hold
	cancel   context.CancelCauseFunc // of the attempt under way
	ending   []<-chan struct{}       // attempts and sessions whose processes may still live
	known    *toolSet
	info     session.Info
	clean    *redactor        // of the session
	resolved *config.Resolved // what the session was started from
	drift    *drift           // nil: the live tools are as approved
	err      *fault.Error
	began    time.Time // of the current attempt
	took     time.Duration
	prompted bool                // while asking: a person is waited for by now
	waiting  int                 // calls that wait for this server
	changed  chan struct{}       // closed and replaced at each change of state
	timer    *time.Timer         // evRetry or evRelistAgain
	idle     *time.Timer         // looks whether a lazy server may stop
	slots    *slots              // for its calls; nil: no limit
	listing  *semaphore.Weighted // one tools/list at a time
	counters *counters           // of all its sessions
}

func newServer(e *config.Entry) *server {
	s := &server{name: e.Name, changed: make(chan struct{}), counters: &counters{}, listing: semaphore.NewWeighted(1)}
	s.use(e)
	return s
}

// use makes e the server's config; a config never changes in place.
func (s *server) use(e *config.Entry) { s.entry = e }

func (s *server) view() viewState {
	v := viewState{name: s.name, state: s.state, gen: s.gen, entry: s.entry, info: s.info, connectMs: s.took.Milliseconds(), known: s.known, drift: s.drift, counters: s.counters}
	switch s.state {
	case stateReady:
		v.session, v.clean, v.slots = s.session, s.clean, s.slots
	case stateConnecting:
		if v.again = s.settled; v.again {
			v.err = s.err
		}
	case stateBackoff, stateFailed:
		v.err, v.retryAt = s.err, s.retryAt
	case stateNeedsAuth, stateNeedsInput, stateNeedsTrust:
		v.err = s.err
	}
	return v
}

// event is one thing that happened to a server, with what it carries.
type event struct {
	kind      evKind
	gen       uint64
	err       *fault.Error
	session   *hold
	tools     *toolSet
	clean     *redactor
	drift     *drift           // of evConnected and evRelisted
	from      *config.Resolved // what the session was started from
	entry     *config.Entry    // of evStart and evChanged: the config from now on; nil: as before
	authorize bool             // of evStart and evRestart: the host may be asked for what only a person has
	helps     bool             // of evAuth: another sign-in may cure it
}

// effects are what a change of state asks for, done after the lock is released.
type effects struct {
	changed map[*server]bool
	wake    []chan struct{}
	run     []func()
	bug     *fault.Error // the first one on the way
}

func (m *Manager) newEffects() *effects { return &effects{changed: map[*server]bool{}} }

// fire is the only door to a server's state: lock, step, publish, unlock, then
// wake who waits and start what the step asks for.
func (m *Manager) fire(s *server, ev event) (a action) {
	m.change(func(fx *effects) { a = m.apply(s, ev, fx) })
	return a
}

// step is apply without its guard.
func (m *Manager) step(s *server, ev event, fx *effects) action {
	safe.Point("core.step")
	if m.closing != nil { // who was about to change something when the manager closed can only end it
		ev = event{kind: evRemove}
	}
	if ev.entry != nil {
		s.use(ev.entry)
	}
	now := time.Now()
	f := facts{
		now: now, nextGen: m.gen + 1, gen: ev.gen, enabled: s.entry.Enabled, trusted: s.entry.Trusted,
		policy: m.policy, lazy: m.lazy(s.entry), remote: remote(s.entry), hasTools: s.known != nil, waiters: s.waiting > 0, jitter: rand.Float64(),
		permanent: ev.err != nil && permanent(ev.err), asks: m.answers("input"), signsIn: m.asksToSignIn(s.entry), helps: ev.helps, authorize: ev.authorize,
	}
	before := s.machine
	next, a := before.step(ev.kind, f)
	if a.stale {
		return a
	}
	s.machine = next
	if a.cancel && s.cancel != nil {
		cancel := s.cancel
		s.cancel = nil
		fx.run = append(fx.run, func() { cancel(errSuperseded) })
	}
	if a.close && s.session != nil {
		old, grace, apart := s.session, m.grace, ev.kind == evRestart || ev.kind == evChanged
		s.session = nil
		s.ending = append(s.ending, old.Done())
		fx.run = append(fx.run, func() { m.closeSession(old, grace, apart) })
	}
	if s.timer != nil && (next.state != before.state || next.gen != before.gen || a.timer > 0) {
		s.timer.Stop()
		s.timer = nil
	}
	if s.idle != nil && next.state != stateReady {
		s.idle.Stop()
		s.idle = nil
	}
	m.remember(s, ev, a, now)
	if a.start {
		m.gen++
		m.launch(s, fx)
	}
	if a.ask {
		m.inquire(s, fx)
	}
	if a.relist {
		sess, gen, entry := s.session, s.gen, s.entry
		m.work.Add(1)
		fx.run = append(fx.run, func() { m.working(func() { m.relist(s, sess, gen, entry) }) })
	}
	if a.timer > 0 {
		kind, gen := evRetry, s.gen
		if next.state == stateReady {
			kind = evRelistAgain
		}
		s.timer = time.AfterFunc(a.timer, func() { m.guard(func() { m.fire(s, event{kind: kind, gen: gen}) }) })
	}
	if s.state == stateClosed && m.servers[s.name] == s {
		delete(m.servers, s.name)
		m.leaving = append(slices.DeleteFunc(m.leaving, over), s.ending...)
	}
	if next.state != before.state || next.gen != before.gen || next.retryAt != before.retryAt || ev.tools != nil || ev.entry != nil || a.newError || a.clearErr {
		fx.changed[s] = true
		fx.wake = append(fx.wake, s.changed)
		s.changed = make(chan struct{})
	}
	if next.state != before.state || a.newError {
		m.outbox = append(m.outbox, stateNotice{s.view()})
		m.trace.State(s.name, s.gen, s.state.String(), before.state.String(), s.view().err)
		m.logFailure(s)
	}
	return a
}

// closeSession ends a session. When the manager closes meanwhile, its grace holds.
func (m *Manager) closeSession(old *hold, grace time.Duration, apart bool) {
	old.Close(grace, apart)
	safe.Go(nil, func() {
		select {
		case <-old.Done():
		case <-m.ctx.Done():
			m.mu.Lock()
			grace := m.grace
			m.mu.Unlock()
			old.Close(grace, false)
		}
	})
}

// remember stores what an event brought.
func (m *Manager) remember(s *server, ev event, a action, now time.Time) {
	switch {
	case a.tripped:
		s.err = crashLoop(s, ev.err, a.timer)
	case a.newError:
		s.err = ev.err
		if s.state == stateNeedsTrust {
			s.err = needsTrust(s.entry)
		}
	case a.clearErr:
		s.err = nil
	}
	switch ev.kind {
	case evCached:
		if s.known == nil {
			s.known = ev.tools
		}
	case evRelisted:
		s.known = ev.tools
		m.noticeDrift(s, ev.drift)
	case evConnected:
		s.session, s.known, s.info, s.cancel = ev.session, ev.tools, ev.session.Info(), nil
		s.clean, s.resolved = ev.clean, ev.from
		s.took = now.Sub(s.began)
		s.counters.connected(ev.session.Session)
		m.noticeDrift(s, ev.drift)
		m.timeIdle(s)
		if hub := ev.session.hub; hub != nil { // the server's limit holds for all who share it
			s.slots = hub.slots
		} else {
			s.slots = s.slots.renewed(m.newSlots(s.entry))
		}
	case evChanged:
		if s.state == stateStopped {
			s.known = nil
		}
	}
	if a.dropDefs || s.state == stateClosed {
		s.known = nil
	}
	if s.state != stateReady {
		s.info.PID = 0
	}
}

// launch prepares an attempt. The new process may start only after every
// earlier one of this server has ended.
func (m *Manager) launch(s *server, fx *effects) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	done := make(chan struct{})
	at := &attempt{m: m, s: s, gen: s.gen, entry: s.entry, known: s.known != nil, probe: s.failures > 0, done: done}
	at.after = slices.DeleteFunc(s.ending, over)
	s.ending = append(at.after[:len(at.after):len(at.after)], done)
	s.cancel, s.began = cancel, time.Now()
	s.counters.starts.Add(1)
	m.work.Add(1)
	fx.run = append(fx.run, func() {
		m.working(func() {
			defer cancel(nil) // else each attempt stays among the children of the manager's context
			at.run(ctx)
		})
	})
}

func over(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// publish makes the next snapshot and its notices, under the lock: an older one
// must never overwrite a newer one, nor its notices overtake.
func (m *Manager) publish(fx *effects) {
	old := m.snap.Load()
	drop := m.dropAliases && len(old.aliases) > 0
	m.dropAliases = false
	if len(fx.changed) == 0 && !drop {
		return
	}
	safe.Point("core.publish")
	next := old.build(old.rev+1, m.servers, fx.changed, m.names)
	if drop {
		next.forgetAliases(old)
	}
	m.snap.Store(next)
	for _, c := range next.changes(old) {
		c.Revision = next.rev
		m.outbox = append(m.outbox, c)
	}
	fx.wake = append(fx.wake, m.pulse)
	m.pulse = make(chan struct{})
}

// permanent tells the failures that trying again cannot cure.
func permanent(err *fault.Error) bool {
	switch err.Code {
	case fault.Config, fault.SpawnFailed, fault.UnsupportedVersion, fault.NeedsTrust, fault.NeedsInput, fault.Protocol, fault.TooLarge:
		return true
	case fault.HTTPStatus, fault.ConnectFailed:
		return !err.Retryable
	}
	return false
}
