// Package lazy makes what a host may never need when it is first needed: it waits for the
// library to load.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp gives a function that compiles expr at its first call. A mistake in expr panics
// then, so that each expression needs a test that uses it.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
