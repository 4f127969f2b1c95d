package core

import "time"

// state is where a server is. "Deferred" is not one: a tool is deferred while
// its definition is known and its server is not ready.
type state uint8

const (
	stateIdle       state = iota // known, not started (lazy, or never asked for)
	stateDisabled                // its config says so
	stateNeedsTrust              // a project file that nobody has approved
	stateNeedsInput              // a value that only a person has is missing
	stateNeedsAuth               // the server wants a sign-in
	stateConnecting              // dial, handshake and the whole tools/list
	stateReady
	stateBackoff // failed, a timer will start it again
	stateFailed  // failed, only the host, a call or a slow schedule starts it
	stateStopped // the host said disconnect; revivable
	stateClosed  // the object is gone for good
)

var stateNames = [...]string{"idle", "disabled", "needs_trust", "needs_input", "needs_auth", "connecting", "ready", "backoff", "failed", "stopped", "closed"}

func (s state) String() string { return stateNames[s] }

// status is the seed's word for a state.
func (s state) status() string {
	switch s {
	case stateReady:
		return "connected"
	case stateConnecting, stateBackoff:
		return "connecting"
	}
	return "disconnected"
}

// showsTools tells whether tools that are known of such a server are offered.
func (s state) showsTools() bool {
	switch s {
	case stateDisabled, stateNeedsTrust, stateStopped, stateClosed:
		return false
	}
	return true
}

// running tells whether there is, or soon will be, a process of this server.
func (s state) running() bool { return s == stateConnecting || s == stateReady || s == stateBackoff }

// final tells a waiting call that waiting longer gives nothing. idle is not in
// it: a demand leaves idle at once.
func (s state) final() bool {
	switch s {
	case stateFailed, stateStopped, stateClosed, stateDisabled, stateNeedsTrust, stateNeedsInput, stateNeedsAuth:
		return true
	}
	return false
}

// policy says who starts a server again after its connection was lost.
type policy uint8

const (
	policyAuto policy = iota
	policyOnCall
	policyManual
)

const (
	stableAfter   = 30 * time.Second // ready for so long clears the counters
	breakerWindow = 30 * time.Second // maxStarts automatic starts within it trip the breaker
	maxStarts     = 5                //
	firstSlow     = 15 * time.Second // of a remote server that was ready once; doubles with each attempt
	lastSlow      = 5 * time.Minute
	firstBackoff  = 500 * time.Millisecond // doubles with each failure in a row
	relistRetry   = time.Second
	maxSignIns    = 3                      // in a row, each for more scopes
	relistPause   = 100 * time.Millisecond // between the begins of two lists: a server may change its list without end
)

type evKind uint8

const (
	evStart        evKind = iota // connect, also by name
	evDemand                     // a call needs the server
	evRestart                    // connect with restart, reload full
	evKept                       // reload: the entry is as it was
	evChanged                    // reload: another config under this name
	evDisconnect                 // the host stops it
	evRemove                     // the entry is gone, or the manager closes
	evCached                     // an attempt found stored tools
	evConnected                  // an attempt succeeded, tools/list included
	evFailed                     // an attempt failed
	evAuth                       // an attempt met a 401 that no stored token cures
	evInput                      // an attempt misses a value that only a person has
	evLost                       // a session ended
	evRetry                      // the back-off timer fired
	evIdle                       // the idle timer fired and the session retired
	evListChanged                // notifications/tools/list_changed
	evRelisted                   // a list after list_changed arrived
	evRelistFailed               //
	evRelistAgain                // the timer after a failed relist
	evGiven                      // the host gave what the server needed
	evNotGiven                   // it did not
	evUntrusted                  // an attempt found that the trust record is gone
)

// machine is the state of one server as plain values: what step changes.
type machine struct {
	state      state
	gen        uint64 // of the current attempt or session; results of other ones are stale
	settled    bool   // the first attempt since the last host start has an outcome: the gate need not wait
	dirty      bool   // a list_changed came while a list was under way, or too soon after one
	relisting  bool
	relistFail bool // the one retry of a failed relist was used
	listedAt   time.Time
	failures   int // in a row
	wasReady   bool
	slow       int // attempts of the slow schedule
	starts     [maxStarts]time.Time
	readyAt    time.Time
	retryAt    time.Time // when a failed server may be tried again, or a backoff ends
	retryable  bool      // the stored error can pass
	asking     bool      // needs_input or needs_auth, and the host is being asked
	signIns    int       // sign-ins since it was ready last, or was started
	authorize  bool      // the host said that this start may ask
}

// facts is what step needs to know from outside the machine.
type facts struct {
	now       time.Time
	nextGen   uint64 // one counter per manager: a successor of the same name never takes its predecessor's late result
	gen       uint64 // of the result that the event carries
	enabled   bool
	trusted   bool
	policy    policy
	lazy      bool
	remote    bool
	hasTools  bool
	waiters   bool    // somebody waits for this server
	asks      bool    // the host can be asked for inputs
	signsIn   bool    // a person can be asked to sign in
	helps     bool    // of evAuth: another sign-in may cure it
	authorize bool    // of a host's start: it may ask
	permanent bool    // of evFailed: trying again cannot help
	jitter    float64 // 0..1
}

// action is what the caller of step has to do afterwards.
type action struct {
	start    bool          // begin an attempt with the machine's generation
	cancel   bool          // abort the attempt under way
	close    bool          // close the current session
	stale    bool          // the event changed nothing; close what it carries
	refuse   bool          // the caller of evDemand gets the stored error
	relist   bool          // begin one tools/list on the session
	timer    time.Duration // arm the retry timer (evRetry, or evRelistAgain in ready)
	newError bool          // store the event's error
	clearErr bool
	tripped  bool // the breaker or the failure limit ended the automatic starts
	dropDefs bool // forget the known tools
	ask      bool // ask the host for what is missing
}

// step is the whole table of a server's life. It is pure: no clock, no pointer,
// no I/O; its tests are the table and the invariants.
func (m machine) step(kind evKind, f facts) (machine, action) {
	if m.state == stateClosed {
		return m, action{stale: true, refuse: true}
	}
	switch kind {
	case evStart, evRestart, evChanged, evKept:
		return m.hostStart(kind, f)
	case evDemand:
		return m.demand(f)
	case evDisconnect:
		if m.state == stateDisabled || m.state == stateStopped {
			return m, action{}
		}
		return m.end(stateStopped)
	case evRemove:
		return m.end(stateClosed)
	}
	if f.gen != m.gen {
		return m, action{stale: true}
	}
	switch m.state {
	case stateIdle:
		if kind == evCached {
			return m, action{}
		}
	case stateNeedsInput, stateNeedsAuth:
		if m.asking && (kind == evGiven || kind == evNotGiven) {
			return m.answered(kind, f)
		}
	case stateConnecting:
		return m.attempt(kind, f)
	case stateReady:
		return m.live(kind, f)
	case stateBackoff:
		if kind == evRetry {
			return m.automatic(f)
		}
	case stateFailed:
		if kind == evRetry { // of the slow schedule, which no breaker need slow down
			return m.begin(f)
		}
	}
	return m, action{stale: true}
}

func (m machine) hostStart(kind evKind, f facts) (machine, action) {
	restart := kind == evRestart || kind == evChanged
	if m.state != stateReady || restart {
		m.authorize = f.authorize || m.authorize && m.state == stateConnecting
		if m.state != stateConnecting || restart {
			m.signIns = 0
		}
	}
	m.wasReady = m.wasReady && kind != evChanged
	switch m.state {
	case stateDisabled, stateNeedsTrust:
		return m.first(f)
	case stateNeedsInput, stateNeedsAuth:
		asking := m.asking
		if asking && !restart {
			return m, action{} // the answer will start it
		}
		m.asking = false
		next, a := m.first(f)
		a.cancel = asking
		return next, a
	case stateIdle:
		if kind == evKept || (kind == evStart && f.lazy && f.hasTools) || (kind == evChanged && f.lazy) {
			m.settled = true
			return m, action{}
		}
		return m.first(f)
	case stateConnecting:
		if !restart {
			return m, action{}
		}
		m.resetCounters()
		next, a := m.first(f)
		a.cancel = true
		return next, a
	case stateReady:
		if !restart {
			return m, action{}
		}
		m.resetCounters()
		next, a := m.first(f)
		a.close = true
		return next, a
	case stateBackoff, stateFailed:
		if kind != evStart || m.state == stateFailed {
			m.resetCounters()
		}
		return m.first(f)
	case stateStopped:
		if kind == evKept || kind == evChanged {
			return m, action{} // a stop is never undone by a diff
		}
		m.resetCounters()
		return m.first(f)
	}
	return m, action{}
}

// first begins the attempt that a gate waits for.
func (m machine) first(f facts) (machine, action) {
	m.settled = false
	return m.begin(f)
}

func (m machine) demand(f facts) (machine, action) {
	switch m.state {
	case stateIdle:
		return m.begin(f)
	case stateBackoff:
		return m.automatic(f)
	case stateConnecting, stateReady:
		return m, action{}
	case stateNeedsInput, stateNeedsAuth:
		if m.state == stateNeedsInput && f.asks || m.state == stateNeedsAuth && f.signsIn {
			ask := !m.asking
			if ask {
				m.signIns = 0
			}
			m.asking = true
			return m, action{ask: ask}
		}
	case stateFailed:
		if m.retryable && !f.now.Before(m.retryAt) {
			return m.begin(f) // once: with the counters as they are, another failure ends it at once
		}
	}
	return m, action{refuse: true}
}

// automatic is a start that the host did not order: the breaker counts it.
func (m machine) automatic(f facts) (machine, action) {
	if oldest := m.starts[0]; !oldest.IsZero() && f.now.Sub(oldest) < breakerWindow {
		return m.giveUp(f)
	}
	copy(m.starts[:], m.starts[1:])
	m.starts[maxStarts-1] = f.now
	return m.begin(f)
}

func (m machine) giveUp(f facts) (machine, action) {
	m.state, m.retryable = stateFailed, true
	m.retryAt = f.now.Add(breakerWindow)
	m.settled = true
	a := action{tripped: true}
	if f.remote && m.wasReady && f.policy == policyAuto { // nobody but time mends what is not ours
		a.timer = jittered(min(firstSlow<<min(m.slow, 10), lastSlow), f.jitter)
		m.retryAt = f.now.Add(a.timer)
		m.slow++
	}
	return m, a
}

// begin makes the checks that come before every start, then starts.
func (m machine) begin(f facts) (machine, action) {
	m.dirty, m.relisting, m.relistFail = false, false, false
	switch {
	case !f.enabled:
		m.state, m.settled = stateDisabled, true
		return m, action{clearErr: true}
	case !f.trusted:
		m.state, m.settled = stateNeedsTrust, true
		return m, action{newError: true}
	}
	m.state, m.gen = stateConnecting, f.nextGen
	m.retryAt = time.Time{}
	return m, action{start: true}
}

func (m machine) end(to state) (machine, action) {
	a := action{clearErr: to == stateStopped}
	switch m.state {
	case stateConnecting:
		a.cancel = true
	case stateReady:
		a.close = true
	case stateNeedsInput, stateNeedsAuth:
		a.cancel = m.asking
	}
	m.state, m.settled, m.dirty, m.relisting = to, true, false, false
	m.asking, m.authorize, m.signIns = false, false, 0
	m.resetCounters()
	return m, a
}

func (m *machine) resetCounters() {
	m.failures, m.slow = 0, 0
	m.starts = [maxStarts]time.Time{}
	m.retryAt = time.Time{}
}

// answered follows the end of a question to the host.
func (m machine) answered(kind evKind, f facts) (machine, action) {
	m.asking = false
	if kind == evNotGiven {
		return m, action{newError: true}
	}
	if m.state == stateNeedsAuth {
		m.signIns++
	}
	next, a := m.first(f)
	a.clearErr = a.start
	return next, a
}

func (m machine) attempt(kind evKind, f facts) (machine, action) {
	switch kind {
	case evCached:
		return m, action{}
	case evConnected:
		m.state, m.settled, m.readyAt, m.wasReady, m.authorize, m.signIns = stateReady, true, f.now, true, false, 0
		a := action{clearErr: true}
		if m.dirty {
			m, a.relist = m.relist(f), true
		}
		return m, a
	case evListChanged:
		m.dirty = true
		return m, action{}
	case evAuth:
		m.state, m.settled = stateNeedsAuth, true
		// A token that was just got and is refused will not get better by another one,
		// unless the server says what it lacks, or took it before.
		useful := m.signIns == 0 || f.helps && m.signIns < maxSignIns
		m.asking = f.signsIn && useful && (f.waiters || m.authorize)
		m.authorize = m.authorize && m.asking
		return m, action{newError: true, cancel: !m.asking, ask: m.asking}
	case evInput:
		m.state, m.settled = stateNeedsInput, true
		m.asking = f.asks && (f.waiters || m.authorize)
		m.authorize = false
		return m, action{newError: true, ask: m.asking}
	case evUntrusted:
		m.state, m.settled = stateNeedsTrust, true
		return m, action{newError: true}
	case evLost:
		return m.failed(f, action{cancel: true})
	case evFailed:
		return m.failed(f, action{})
	}
	return m, action{stale: true}
}

// failed decides what follows a failure that trying again may cure.
func (m machine) failed(f facts, a action) (machine, action) {
	m.settled = true
	a.newError = true
	m.failures++
	m.retryable = !f.permanent
	switch {
	case f.permanent:
		m.state, m.retryAt = stateFailed, time.Time{}
	case f.policy != policyAuto:
		m.state, m.retryAt = stateFailed, f.now.Add(backoff(m.failures, f.jitter))
	case m.failures >= maxStarts:
		next, t := m.giveUp(f)
		a.tripped, a.timer = t.tripped, t.timer
		return next, a
	default:
		m.state = stateBackoff
		a.timer = backoff(m.failures, f.jitter)
		m.retryAt = f.now.Add(a.timer)
	}
	return m, a
}

// backoff is 0.5, 1, 2, 4 … s with a tenth of jitter either way.
func backoff(failures int, jitter float64) time.Duration {
	return jittered(firstBackoff<<min(max(failures-1, 0), 9), jitter)
}

func jittered(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*jitter))
}

// relist begins a list.
func (m machine) relist(f facts) machine {
	m.dirty, m.relisting, m.listedAt = false, true, f.now
	return m
}

// relistSoon begins a list now, or when the last one is long enough ago.
func (m machine) relistSoon(f facts) (machine, action) {
	if wait := relistPause - f.now.Sub(m.listedAt); wait > 0 {
		m.dirty = true
		return m, action{timer: wait}
	}
	return m.relist(f), action{relist: true}
}

func (m machine) live(kind evKind, f facts) (machine, action) {
	switch kind {
	case evListChanged:
		if m.relisting || m.dirty { // under way, or its timer is set
			m.dirty = true
			return m, action{}
		}
		m.relistFail = false
		return m.relistSoon(f)
	case evRelisted:
		m.relisting, m.relistFail = false, false
		if !m.dirty {
			return m, action{}
		}
		return m.relistSoon(f)
	case evRelistFailed:
		m.relisting = false
		if m.dirty || !m.relistFail {
			m.relistFail = true
			return m, action{timer: relistRetry}
		}
		return m, action{}
	case evRelistAgain:
		if m.relisting {
			return m, action{}
		}
		return m.relist(f), action{relist: true}
	case evAuth:
		m.state = stateNeedsAuth
		return m, action{newError: true, close: true}
	case evIdle:
		m.state = stateIdle
		return m, action{close: true}
	case evLost:
		m.dirty, m.relisting = false, false
		stable := f.now.Sub(m.readyAt) >= stableAfter
		if stable {
			m.resetCounters()
		}
		switch {
		case f.policy == policyManual:
			m.state, m.retryable, m.retryAt = stateFailed, false, time.Time{}
			return m, action{newError: true, close: true}
		case f.policy == policyOnCall, f.lazy && !f.waiters:
			m.state = stateIdle
			return m, action{newError: true, close: true}
		case stable:
			next, a := m.automatic(f)
			a.close, a.newError = true, true
			return next, a
		}
		return m.failed(f, action{close: true})
	}
	return m, action{stale: true}
}
