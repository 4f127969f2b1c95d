package session

import (
	"sync/atomic"
	"time"
)

// usage is one atomic word: how many use the session, and whether it takes no
// more. Count and bit in one word are what makes "retire if nobody uses it" exact.
type usage struct {
	word  atomic.Uint64
	timed atomic.Bool  // somebody asks how long nobody used it
	since atomic.Int64 // the end of the last use, in nanoseconds; only if timed
}

const retired = 1 << 63

func (u *usage) acquire() bool {
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

func (u *usage) retire() { u.word.Or(retired) }

// Acquire announces a use; false means that the session takes no more calls. A
// true one is followed by Release.
func (s *Session) Acquire() bool { return s.use.acquire() }

// Release ends a use.
func (s *Session) Release() {
	if s.use.timed.Load() { // before the count falls: who sees 0 sees this time, too
		s.use.since.Store(time.Now().UnixNano())
	}
	s.use.word.Add(^uint64(0))
}

// TimeIdle makes Idle tell the truth from now on; calls are a little cheaper without.
func (s *Session) TimeIdle() {
	s.use.since.Store(time.Now().UnixNano())
	s.use.timed.Store(true)
}

// Idle is how long nobody has used the session; 0 while somebody does, or while the
// server has a subscription of ours, which would end with it.
func (s *Session) Idle() time.Duration {
	if s.InFlight() > 0 || s.subscribed() {
		return 0
	}
	return time.Since(time.Unix(0, s.use.since.Load()))
}

// TryRetire makes Acquire fail from now on, if nobody uses the session now.
func (s *Session) TryRetire() bool { return s.use.word.CompareAndSwap(0, retired) }

// InFlight is the number of uses.
func (s *Session) InFlight() int { return int(s.use.word.Load() &^ retired) }
