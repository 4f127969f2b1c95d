package session

import "sync/atomic"

// usage is one atomic word: how many use the session, and whether it takes no
// more. Count and bit in one word are what makes "retire if nobody uses it" exact.
type usage struct{ word atomic.Uint64 }

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
func (s *Session) Release() { s.use.word.Add(^uint64(0)) }

// TryRetire makes Acquire fail from now on, if nobody uses the session now.
func (s *Session) TryRetire() bool { return s.use.word.CompareAndSwap(0, retired) }

// InFlight is the number of uses.
func (s *Session) InFlight() int { return int(s.use.word.Load() &^ retired) }
