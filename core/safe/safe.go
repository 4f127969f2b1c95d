// Package safe starts goroutines that cannot take the host down: a panic in a
// shared library would end the process that loaded it.
package safe

import (
	"runtime/debug"

	"github.com/mcprt/mcprt/core/fault"
)

// Go runs f in a new goroutine. A panic in f is caught and handed to onPanic in
// that same goroutine, so that whoever waits for f can be told; onPanic may be
// nil where nobody waits. A panic in onPanic itself is swallowed.
func Go(onPanic func(*fault.Error), f func()) {
	go func() {
		defer func() {
			// Deferred first, so it also guards onPanic below.
			_ = recover()
		}()
		Do(onPanic, f)
	}()
}

// Do runs f in the calling goroutine with the same guarantee as Go: for
// callbacks and exported entry points that already have a goroutine.
func Do(onPanic func(*fault.Error), f func()) {
	defer func() {
		if v := recover(); v != nil && onPanic != nil {
			onPanic(fault.Caught(v, debug.Stack()))
		}
	}()
	f()
}
