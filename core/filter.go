package core

import (
	"slices"
	"unicode/utf8"
)

// allowed tells whether a server's tool may be seen and called. The patterns are
// matched against the tool's raw name; a nil allow list allows all, an empty one
// nothing, and deny wins.
func allowed(name string, allow, deny []string) bool {
	matches := func(pattern string) bool { return globMatch(pattern, name) }
	return (allow == nil || slices.ContainsFunc(allow, matches)) && !slices.ContainsFunc(deny, matches)
}

// globMatch matches the whole name, case and all: `*` is any run of characters, `?` any
// one character, everything else itself. The usual libraries give brackets, braces, slashes
// or backslashes a meaning; in tool names these are ordinary, and a deny
// pattern that does not compile would deny nothing.
func globMatch(pattern, name string) bool {
	p, n := 0, 0
	star, resume := -1, 0 // the last `*`, and where in name its run may end next
	for n < len(name) {
		_, size := utf8.DecodeRuneInString(name[n:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			n += size
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			// Only the last `*` needs to be tried longer: time is at most len(pattern)*len(name).
			_, size = utf8.DecodeRuneInString(name[resume:])
			resume += size
			p, n = star+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
