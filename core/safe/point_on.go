//go:build mcprt_points

package safe

import "sync/atomic"

var inject atomic.Pointer[func(string)]

// SetPoint has f called at each Point from now on; nil ends that.
func SetPoint(f func(name string)) {
	if f == nil {
		inject.Store(nil)
		return
	}
	inject.Store(&f)
}

// Point is a place where a test may inject a bug, by a panic of what SetPoint set.
func Point(name string) {
	if f := inject.Load(); f != nil {
		(*f)(name)
	}
}
