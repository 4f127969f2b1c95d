package core

import (
	"testing"
	"time"
)

var t0 = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func okFacts(now time.Time, gen uint64) facts {
	return facts{now: now, nextGen: gen + 1, gen: gen, enabled: true, trusted: true, jitter: 0.5}
}

// TestStateTable takes the rows of the table of states: from a state, with an
// event, to a state, with what has to follow.
func TestStateTable(t *testing.T) {
	in := func(s state) machine { return machine{state: s, gen: 7, readyAt: t0} }
	early := t0.Add(time.Second)
	stable := t0.Add(stableAfter)
	for _, c := range []struct {
		name string
		m    machine
		ev   evKind
		f    func(*facts)
		now  time.Time
		want state
		a    action
	}{
		{"idle starts", in(stateIdle), evStart, nil, early, stateConnecting, action{start: true}},
		{"idle and lazy with tools stays", in(stateIdle), evStart, func(f *facts) { f.lazy, f.hasTools = true, true }, early, stateIdle, action{}},
		{"idle and lazy without tools starts", in(stateIdle), evStart, func(f *facts) { f.lazy = true }, early, stateConnecting, action{start: true}},
		{"idle starts on demand", in(stateIdle), evDemand, func(f *facts) { f.lazy, f.hasTools = true, true }, early, stateConnecting, action{start: true}},
		{"idle unchanged by a diff", in(stateIdle), evKept, nil, early, stateIdle, action{}},
		{"disabled is an error for a call", in(stateDisabled), evDemand, nil, early, stateDisabled, action{refuse: true}},
		{"disabled by its config", in(stateIdle), evStart, func(f *facts) { f.enabled = false }, early, stateDisabled, action{clearErr: true}},
		{"untrusted", in(stateIdle), evStart, func(f *facts) { f.trusted = false }, early, stateNeedsTrust, action{newError: true}},
		{"trusted now", in(stateNeedsTrust), evStart, nil, early, stateConnecting, action{start: true}},
		{"a call does not start the untrusted", in(stateNeedsTrust), evDemand, nil, early, stateNeedsTrust, action{refuse: true}},
		{"connecting joins", in(stateConnecting), evStart, nil, early, stateConnecting, action{}},
		{"connecting restarts", in(stateConnecting), evRestart, nil, early, stateConnecting, action{start: true, cancel: true}},
		{"connecting with another config", in(stateConnecting), evChanged, nil, early, stateConnecting, action{start: true, cancel: true}},
		{"connecting kept by a diff", in(stateConnecting), evKept, nil, early, stateConnecting, action{}},
		{"connecting stops", in(stateConnecting), evDisconnect, nil, early, stateStopped, action{cancel: true, clearErr: true}},
		{"connecting removed", in(stateConnecting), evRemove, nil, early, stateClosed, action{cancel: true}},
		{"connected", in(stateConnecting), evConnected, nil, early, stateReady, action{clearErr: true}},
		{"connected after a change of the list", machine{state: stateConnecting, gen: 7, dirty: true}, evConnected, nil, early, stateReady, action{clearErr: true, relist: true}},
		{"failed for good", in(stateConnecting), evFailed, func(f *facts) { f.permanent = true }, early, stateFailed, action{newError: true}},
		{"failed for now", in(stateConnecting), evFailed, nil, early, stateBackoff, action{newError: true, timer: 500 * time.Millisecond}},
		{"failed for now, on call", in(stateConnecting), evFailed, func(f *facts) { f.policy = policyOnCall }, early, stateFailed, action{newError: true}},
		{"lost while listing", in(stateConnecting), evLost, nil, early, stateBackoff, action{newError: true, cancel: true, timer: 500 * time.Millisecond}},
		{"wants a sign-in", in(stateConnecting), evAuth, nil, early, stateNeedsAuth, action{newError: true, cancel: true}},
		{"wants a sign-in, a call waits", in(stateConnecting), evAuth, func(f *facts) { f.signsIn, f.waiters = true, true }, early, stateNeedsAuth, action{newError: true, ask: true}},
		{"wants a sign-in, a call waits, the host does not answer", in(stateConnecting), evAuth, func(f *facts) { f.asks, f.waiters = true, true }, early, stateNeedsAuth, action{newError: true, cancel: true}},
		{"wants a sign-in, authorized", machine{state: stateConnecting, gen: 7, authorize: true}, evAuth, func(f *facts) { f.signsIn = true }, early, stateNeedsAuth, action{newError: true, ask: true}},
		{"wants a sign-in, nobody waits", in(stateConnecting), evAuth, func(f *facts) { f.signsIn = true }, early, stateNeedsAuth, action{newError: true, cancel: true}},
		{"refuses the new token", machine{state: stateConnecting, gen: 7, signIns: 1}, evAuth, func(f *facts) { f.signsIn, f.waiters = true, true }, early, stateNeedsAuth, action{newError: true, cancel: true}},
		{"refuses the new token for want of more", machine{state: stateConnecting, gen: 7, signIns: 1}, evAuth, func(f *facts) { f.signsIn, f.waiters, f.helps = true, true, true }, early, stateNeedsAuth, action{newError: true, ask: true}},
		{"refuses them again and again", machine{state: stateConnecting, gen: 7, signIns: maxSignIns}, evAuth, func(f *facts) { f.signsIn, f.waiters, f.helps = true, true, true }, early, stateNeedsAuth, action{newError: true, cancel: true}},
		{"a call asks to sign in", machine{state: stateNeedsAuth, gen: 7, signIns: 2}, evDemand, func(f *facts) { f.signsIn = true }, early, stateNeedsAuth, action{ask: true}},
		{"a call cannot ask to sign in", in(stateNeedsAuth), evDemand, func(f *facts) { f.asks = true }, early, stateNeedsAuth, action{refuse: true}},
		{"signed in", machine{state: stateNeedsAuth, gen: 7, asking: true}, evGiven, nil, early, stateConnecting, action{start: true, clearErr: true}},
		{"not signed in", machine{state: stateNeedsAuth, gen: 7, asking: true}, evNotGiven, nil, early, stateNeedsAuth, action{newError: true}},
		{"asked to sign in, started", machine{state: stateNeedsAuth, gen: 7, asking: true}, evStart, nil, early, stateNeedsAuth, action{}},
		{"asked to sign in, restarted", machine{state: stateNeedsAuth, gen: 7, asking: true}, evRestart, nil, early, stateConnecting, action{start: true, cancel: true}},
		{"asked to sign in, stopped", machine{state: stateNeedsAuth, gen: 7, asking: true}, evDisconnect, nil, early, stateStopped, action{cancel: true, clearErr: true}},
		{"wants a sign-in, started with a stored one", in(stateNeedsAuth), evStart, nil, early, stateConnecting, action{start: true}},
		{"needs an input that nobody may be asked for", in(stateConnecting), evInput, func(f *facts) { f.asks = true }, early, stateNeedsInput, action{newError: true}},
		{"needs an input, a call waits", in(stateConnecting), evInput, func(f *facts) { f.asks, f.waiters = true, true }, early, stateNeedsInput, action{newError: true, ask: true}},
		{"needs an input, a call waits, the host does not answer", in(stateConnecting), evInput, func(f *facts) { f.waiters = true }, early, stateNeedsInput, action{newError: true}},
		{"needs an input, authorized", machine{state: stateConnecting, gen: 7, authorize: true}, evInput, func(f *facts) { f.asks = true }, early, stateNeedsInput, action{newError: true, ask: true}},
		{"a call asks", in(stateNeedsInput), evDemand, func(f *facts) { f.asks = true }, early, stateNeedsInput, action{ask: true}},
		{"a second call joins", machine{state: stateNeedsInput, gen: 7, asking: true}, evDemand, func(f *facts) { f.asks = true }, early, stateNeedsInput, action{}},
		{"a call cannot ask", in(stateNeedsInput), evDemand, nil, early, stateNeedsInput, action{refuse: true}},
		{"given", machine{state: stateNeedsInput, gen: 7, asking: true}, evGiven, nil, early, stateConnecting, action{start: true, clearErr: true}},
		{"not given", machine{state: stateNeedsInput, gen: 7, asking: true}, evNotGiven, nil, early, stateNeedsInput, action{newError: true}},
		{"given without a question", in(stateNeedsInput), evGiven, nil, early, stateNeedsInput, action{stale: true}},
		{"asked, started", machine{state: stateNeedsInput, gen: 7, asking: true}, evStart, nil, early, stateNeedsInput, action{}},
		{"asked, restarted", machine{state: stateNeedsInput, gen: 7, asking: true}, evRestart, nil, early, stateConnecting, action{start: true, cancel: true}},
		{"asked, stopped", machine{state: stateNeedsInput, gen: 7, asking: true}, evDisconnect, nil, early, stateStopped, action{cancel: true, clearErr: true}},
		{"asked, removed", machine{state: stateNeedsInput, gen: 7, asking: true}, evRemove, nil, early, stateClosed, action{cancel: true}},
		{"its trust was taken back", in(stateConnecting), evUntrusted, nil, early, stateNeedsTrust, action{newError: true}},
		{"a stale result", in(stateConnecting), evConnected, func(f *facts) { f.gen = 6 }, early, stateConnecting, action{stale: true}},
		{"a result for a stopped server", in(stateStopped), evConnected, nil, early, stateStopped, action{stale: true}},
		{"a result for a closed server", in(stateClosed), evConnected, nil, early, stateClosed, action{stale: true, refuse: true}},
		{"ready skips a start", in(stateReady), evStart, nil, early, stateReady, action{}},
		{"ready restarts", in(stateReady), evRestart, nil, early, stateConnecting, action{start: true, close: true}},
		{"ready kept by a diff", in(stateReady), evKept, nil, early, stateReady, action{}},
		{"ready disabled by a diff", in(stateReady), evChanged, func(f *facts) { f.enabled = false }, early, stateDisabled, action{close: true, clearErr: true}},
		{"ready stops", in(stateReady), evDisconnect, nil, early, stateStopped, action{close: true, clearErr: true}},
		{"lost early", in(stateReady), evLost, nil, early, stateBackoff, action{newError: true, close: true, timer: 500 * time.Millisecond}},
		{"lost after a stable time", in(stateReady), evLost, nil, stable, stateConnecting, action{newError: true, close: true, start: true}},
		{"lost, manual", in(stateReady), evLost, func(f *facts) { f.policy = policyManual }, early, stateFailed, action{newError: true, close: true}},
		{"lost, on call", in(stateReady), evLost, func(f *facts) { f.policy = policyOnCall }, early, stateIdle, action{newError: true, close: true}},
		{"lost, lazy, nobody waits", in(stateReady), evLost, func(f *facts) { f.lazy = true }, early, stateIdle, action{newError: true, close: true}},
		{"list changed", in(stateReady), evListChanged, nil, early, stateReady, action{relist: true}},
		{"list changed while relisting", machine{state: stateReady, gen: 7, relisting: true}, evListChanged, nil, early, stateReady, action{}},
		{"relisted, changed meanwhile", machine{state: stateReady, gen: 7, relisting: true, dirty: true}, evRelisted, nil, early, stateReady, action{relist: true}},
		{"relisted, changed meanwhile, too soon", machine{state: stateReady, gen: 7, relisting: true, dirty: true, listedAt: early.Add(-relistPause / 4)}, evRelisted, nil, early, stateReady, action{timer: 3 * relistPause / 4}},
		{"changed while the timer runs", machine{state: stateReady, gen: 7, dirty: true, listedAt: early}, evListChanged, nil, early, stateReady, action{}},
		{"the timer of a list", machine{state: stateReady, gen: 7, dirty: true, listedAt: early}, evRelistAgain, nil, early, stateReady, action{relist: true}},
		{"relist failed once", machine{state: stateReady, gen: 7, relisting: true}, evRelistFailed, nil, early, stateReady, action{timer: relistRetry}},
		{"relist failed twice", machine{state: stateReady, gen: 7, relisting: true, relistFail: true}, evRelistFailed, nil, early, stateReady, action{}},
		{"idle again", in(stateReady), evIdle, nil, early, stateIdle, action{close: true}},
		{"backoff ends", in(stateBackoff), evRetry, nil, early, stateConnecting, action{start: true}},
		{"backoff, a call", in(stateBackoff), evDemand, nil, early, stateConnecting, action{start: true}},
		{"backoff, stopped", in(stateBackoff), evDisconnect, nil, early, stateStopped, action{clearErr: true}},
		{"failed, a call", in(stateFailed), evDemand, nil, early, stateFailed, action{refuse: true}},
		{"failed for now, a call too early", machine{state: stateFailed, gen: 7, retryable: true, retryAt: stable}, evDemand, nil, early, stateFailed, action{refuse: true}},
		{"failed for now, a call in time", machine{state: stateFailed, gen: 7, retryable: true, retryAt: early}, evDemand, nil, early, stateConnecting, action{start: true}},
		{"failed, started", in(stateFailed), evStart, nil, early, stateConnecting, action{start: true}},
		{"failed, kept by a diff", in(stateFailed), evKept, nil, early, stateConnecting, action{start: true}},
		{"stopped, a call", in(stateStopped), evDemand, nil, early, stateStopped, action{refuse: true}},
		{"stopped, kept by a diff", in(stateStopped), evKept, nil, early, stateStopped, action{}},
		{"stopped, changed by a diff", in(stateStopped), evChanged, nil, early, stateStopped, action{}},
		{"stopped, started", in(stateStopped), evStart, nil, early, stateConnecting, action{start: true}},
		{"closed is final", in(stateClosed), evStart, nil, early, stateClosed, action{stale: true, refuse: true}},
	} {
		f := okFacts(c.now, 7)
		if c.f != nil {
			c.f(&f)
		}
		got, a := c.m.step(c.ev, f)
		if got.state != c.want || a != c.a {
			t.Errorf("%s: %v %+v, want %v %+v", c.name, got.state, a, c.want, c.a)
		}
		if a.start && got.gen != f.nextGen {
			t.Errorf("%s: started with generation %d, not the manager's next", c.name, got.gen)
		}
	}
}

// TestStartsAreBounded: a server that dies again and again is started five times,
// then it is left alone until the host or a later call wants it.
func TestStartsAreBounded(t *testing.T) {
	for _, dies := range []evKind{evFailed, evLost} {
		m, now, starts := machine{}, t0, 0
		gen := uint64(0)
		m, a := m.step(evStart, okFacts(now, gen))
		for a.start || a.timer > 0 {
			if a.start {
				starts++
				gen = m.gen
				if dies == evLost {
					m, _ = m.step(evConnected, okFacts(now, gen))
				}
				m, a = m.step(dies, okFacts(now, gen))
				continue
			}
			now = now.Add(a.timer)
			m, a = m.step(evRetry, okFacts(now, gen))
			if starts > 100 {
				t.Fatal("never ends")
			}
		}
		if starts != maxStarts || m.state != stateFailed || !a.tripped || !m.retryable {
			t.Errorf("after %v: %d starts, %v, tripped %v", dies, starts, m.state, a.tripped)
		}
		if _, a := m.step(evDemand, okFacts(now, gen)); !a.refuse {
			t.Error("a call right after the breaker tripped started the server")
		}
		if _, a := m.step(evDemand, okFacts(now.Add(breakerWindow), gen)); !a.start {
			t.Error("a call after the breaker's time did not start the server")
		}
		if _, a := m.step(evRestart, okFacts(now, gen)); !a.start {
			t.Error("a restart did not start the server")
		}
	}
}

// TestSlowSchedule: a remote server that was ready once is tried again at growing
// distances for as long as it takes; no other server is.
func TestSlowSchedule(t *testing.T) {
	for _, c := range []struct {
		remote, ready bool
		policy        policy
		forever       bool
	}{{true, true, policyAuto, true}, {true, false, policyAuto, false}, {false, true, policyAuto, false}, {true, true, policyOnCall, false}} {
		now, gen := t0, uint64(0)
		facts := func() facts {
			f := okFacts(now, gen)
			f.remote, f.policy, f.jitter = c.remote, c.policy, 0.5
			return f
		}
		m, _ := machine{}.step(evStart, facts())
		gen = m.gen
		if c.ready {
			m, _ = m.step(evConnected, facts())
		}
		var waits []time.Duration
		for range 20 {
			ev := evFailed
			if m.state == stateReady {
				ev = evLost
			}
			var a action
			if m, a = m.step(ev, facts()); a.timer == 0 {
				break
			}
			if m.state == stateFailed {
				waits = append(waits, a.timer)
			}
			now = now.Add(a.timer)
			m, _ = m.step(evRetry, facts())
			gen = m.gen
		}
		if (len(waits) > 10) != c.forever {
			t.Errorf("%+v: %v", c, waits)
		}
		if c.forever && (waits[0] != firstSlow || waits[1] != 2*firstSlow || waits[len(waits)-1] != lastSlow) {
			t.Errorf("%v", waits)
		}
		if !c.forever {
			continue
		}
		if m, _ = m.step(evConnected, facts()); m.state != stateReady {
			t.Errorf("it came back and is %v", m.state)
		}
		now = now.Add(stableAfter)
		if m, a := m.step(evLost, facts()); !a.start || m.slow != 0 {
			t.Errorf("after it was stable: %+v", a)
		}
	}
}

// FuzzStates drives the table with any order of events and checks what must
// always hold.
func FuzzStates(f *testing.F) {
	f.Add([]byte{0, 8, 14, 9, 12, 1})
	f.Add([]byte{0, 9, 12, 0x89, 12, 5, 0, 8, 11, 6})
	f.Fuzz(func(t *testing.T, script []byte) {
		var m machine
		now, last := t0, uint64(0)
		dirtyAt, listed := -1, -1
		for i, b := range script {
			ev := evKind(b & 0x1f % (uint8(evUntrusted) + 1))
			now = now.Add(time.Duration(b>>5) * 3 * time.Second)
			f := okFacts(now, m.gen)
			f.nextGen = last + 1
			if b&0x80 != 0 {
				f.gen = m.gen - 1
			}
			f.permanent, f.lazy, f.hasTools, f.remote = b&0x40 != 0, b&0x20 != 0, b&0x10 != 0, script[0]&0x80 != 0
			f.asks, f.waiters, f.authorize = b&0x20 == 0, b&0x10 != 0, b&0x40 != 0
			f.signsIn, f.helps = b&0x20 == 0, b&0x40 != 0
			before := m
			next, a := m.step(ev, f)
			switch {
			case before.state == stateClosed && next != before:
				t.Fatalf("%d: closed is final, %v changed it", i, ev)
			case a.start && (next.gen != last+1 || next.state != stateConnecting):
				t.Fatalf("%d: a start without a new generation", i)
			case !a.start && next.gen != before.gen:
				t.Fatalf("%d: a new generation without a start", i)
			case a.stale && next != before:
				t.Fatalf("%d: a stale event changed the state", i)
			case before.state == stateReady && next.state != stateReady && !a.close:
				t.Fatalf("%d: left ready by %v without closing the session", i, ev)
			case before.state == stateReady && next.state == stateReady && a.close:
				t.Fatalf("%d: closed the session of a ready server", i)
			case before.state == stateConnecting && next.gen != before.gen && !a.cancel && !a.close && ev != evFailed:
				t.Fatalf("%d: two attempts at once after %v", i, ev)
			case before.state == stateStopped && next.state != stateStopped && ev != evStart && ev != evRestart && ev != evRemove:
				t.Fatalf("%d: %v revived a stopped server", i, ev)
			case a.relist && next.state != stateReady:
				t.Fatalf("%d: a list on a server that is %v", i, next.state)
			case a.relist && before.relisting && !before.dirty:
				t.Fatalf("%d: two lists at once", i)
			case next.state == stateBackoff && a.timer == 0 && before.state != stateBackoff:
				t.Fatalf("%d: backoff without a timer", i)
			case (next.state == stateFailed || next.state == stateBackoff) && before.state != next.state && !a.newError && !a.tripped:
				t.Fatalf("%d: %v without an error", i, next.state)
			case next.asking && next.state != stateNeedsInput && next.state != stateNeedsAuth:
				t.Fatalf("%d: asking while %v", i, next.state)
			case a.ask && (!next.asking || before.asking || !f.asks):
				t.Fatalf("%d: %v asks for %v", i, ev, next)
			case a.ask && ev != evDemand && !f.waiters && !before.authorize:
				t.Fatalf("%d: %v asks, but nobody allowed it", i, ev)
			case a.ask && ev == evAuth && before.signIns >= maxSignIns:
				t.Fatalf("%d: asked to sign in without end", i)
			case before.asking && !next.asking && !a.cancel && ev != evGiven && ev != evNotGiven:
				t.Fatalf("%d: %v left a question open", i, ev)
			case !f.trusted && a.start:
				t.Fatalf("%d: an untrusted server was started", i)
			}
			if a.start {
				last, dirtyAt, listed = next.gen, -1, i
			}
			if ev == evListChanged && !a.stale {
				dirtyAt = i
			}
			if a.relist {
				listed = i
			}
			if next.state == stateReady && !next.relisting && !next.dirty && a.timer == 0 && !next.relistFail && dirtyAt > listed {
				t.Fatalf("%d: a list_changed was lost", i)
			}
			m = next
		}
	})
}
