package session

import (
	"sync/atomic"
	"time"
)

// Usage is one atomic word: how many use something, and whether it takes no more.
// Count and bit in one word are what makes "retire if nobody uses it" exact. Its methods
// are safe from any goroutine.
type Usage struct {
	word  atomic.Uint64
	timed atomic.Bool  // somebody asks how long nobody used it
	since atomic.Int64 // the end of the last use, in nanoseconds; only if timed
}

const retired = 1 << 63

// Acquire announces a use; false means that it takes no more of them. A true one is
// followed by Release.
func (u *Usage) Acquire() bool {
	for {
		old := u.word.Load()
		if old&retired != 0 {
			return false
		}
		if u.word.CompareAndSwap(old, old+1) {
			return true
		}
	}
}

// Release ends a use.
func (u *Usage) Release() {
	if u.timed.Load() { // before the count falls: who sees 0 sees this time, too
		u.since.Store(time.Now().UnixNano())
	}
	u.word.Add(^uint64(0))
}

// Retire makes Acquire fail from now on, TryRetire only if nobody uses it now.
func (u *Usage) Retire()         { u.word.Or(retired) }
func (u *Usage) TryRetire() bool { return u.word.CompareAndSwap(0, retired) }

// InFlight is the number of uses.
func (u *Usage) InFlight() int { return int(u.word.Load() &^ retired) }

// TimeIdle makes Idle tell the truth from now on; uses are a little cheaper without.
func (u *Usage) TimeIdle() {
	u.since.Store(time.Now().UnixNano())
	u.timed.Store(true)
}

// Idle is how long nobody has used it; 0 while somebody does.
func (u *Usage) Idle() time.Duration {
	if u.InFlight() > 0 {
		return 0
	}
	return time.Since(time.Unix(0, u.since.Load()))
}

// Acquire announces a use of the session; see Usage.
func (s *Session) Acquire() bool { return s.use.Acquire() }

// Release ends a use.
func (s *Session) Release() { s.use.Release() }

// TryRetire makes Acquire fail from now on, if nobody uses the session now.
func (s *Session) TryRetire() bool { return s.use.TryRetire() }

// InFlight is the number of uses.
func (s *Session) InFlight() int { return s.use.InFlight() }

// TimeIdle makes Idle tell the truth from now on.
func (s *Session) TimeIdle() { s.use.TimeIdle() }

// Idle is how long nobody has used the session; 0 while somebody does, or while the
// server has a subscription of ours, which would end with it.
func (s *Session) Idle() time.Duration {
	if s.Subscribed() {
		return 0
	}
	return s.use.Idle()
}
