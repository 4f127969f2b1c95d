package auth

import (
	"slices"
	"strings"
)

// Challenge is one way to authenticate that a server offers in WWW-Authenticate
// (RFC 9110 section 11.6.1).
type Challenge struct {
	Scheme string            // in lower case
	Params map[string]string // names in lower case; of a repeated one the first counts
}

const (
	maxChallenges = 16
	maxParams     = 64
)

// ParseChallenges reads the lines of WWW-Authenticate, each of which may hold
// several challenges. What is not understood is left out: a damaged challenge must
// not hide a good one behind it.
func ParseChallenges(lines []string) (list []Challenge) {
	for _, line := range lines {
		p := challengeParser{s: line}
		for len(list) < maxChallenges {
			c, ok := p.next()
			if !ok {
				break
			}
			list = append(list, c)
		}
	}
	return list
}

type challengeParser struct {
	s string
	i int
}

// next reads "scheme", "scheme token68" or "scheme a=b, c="d"". A word behind a
// comma that no = follows is the next scheme.
func (p *challengeParser) next() (Challenge, bool) {
	p.skip(" \t,")
	scheme := p.token()
	for scheme == "" { // of a damaged piece all up to the next comma goes
		comma := strings.IndexByte(p.s[p.i:], ',')
		if comma < 0 {
			return Challenge{}, false
		}
		p.i += comma
		p.skip(" \t,")
		scheme = p.token()
	}
	c := Challenge{Scheme: strings.ToLower(scheme), Params: map[string]string{}}
	if p.i < len(p.s) && p.s[p.i] != ' ' && p.s[p.i] != '\t' && p.s[p.i] != ',' {
		p.garbage()
		return c, true
	}
	for {
		p.skip(" \t")
		before := p.i
		p.skip(" \t,")
		start := p.i
		name := p.token()
		p.skip(" \t")
		if name == "" || p.i >= len(p.s) || p.s[p.i] != '=' || p.padded() {
			if start > before || name == "" { // behind a comma: another challenge
				p.i = start
				return c, p.i < len(p.s) || c.Scheme != ""
			}
			p.i = start
			p.garbage() // token68, which no scheme of ours has
			return c, true
		}
		p.i++
		p.skip(" \t")
		value, ok := p.value()
		if !ok {
			p.garbage()
			continue
		}
		name = strings.ToLower(name)
		if _, known := c.Params[name]; !known && len(c.Params) < maxParams {
			c.Params[name] = value
		}
	}
}

// padded tells the end of a token68, "abc==", from a parameter.
func (p *challengeParser) padded() bool {
	rest := strings.TrimLeft(p.s[p.i:], "=")
	rest = strings.TrimLeft(rest, " \t")
	return rest == "" || rest[0] == ','
}

func (p *challengeParser) skip(chars string) {
	for p.i < len(p.s) && strings.IndexByte(chars, p.s[p.i]) >= 0 {
		p.i++
	}
}

// garbage goes to the next comma.
func (p *challengeParser) garbage() {
	for p.i < len(p.s) && p.s[p.i] != ',' {
		p.i++
	}
}

func (p *challengeParser) token() string {
	start := p.i
	for p.i < len(p.s) && isTokenByte(p.s[p.i]) {
		p.i++
	}
	return p.s[start:p.i]
}

func isTokenByte(b byte) bool {
	return b > 0x20 && b < 0x7F && strings.IndexByte("\"(),/:;<=>?@[\\]{}", b) < 0
}

// value reads a token or a quoted string; some servers forget the quotes round a URL.
func (p *challengeParser) value() (string, bool) {
	if p.i < len(p.s) && p.s[p.i] == '"' {
		var b strings.Builder
		for p.i++; p.i < len(p.s); p.i++ {
			switch p.s[p.i] {
			case '\\':
				if p.i++; p.i < len(p.s) {
					b.WriteByte(p.s[p.i])
				}
			case '"':
				p.i++
				return b.String(), true
			default:
				b.WriteByte(p.s[p.i])
			}
		}
		p.i = len(p.s)
		return "", false
	}
	start := p.i
	for p.i < len(p.s) && p.s[p.i] != ',' && p.s[p.i] != ' ' && p.s[p.i] != '\t' && p.s[p.i] != '"' {
		p.i++
	}
	return p.s[start:p.i], p.i > start
}

// ours picks the challenge that an access token answers, and tells whether tokens
// that are bound to a key are wanted.
func ours(list []Challenge) (c Challenge, dpop bool) {
	for _, scheme := range []string{"bearer", "dpop"} {
		for _, have := range list {
			if have.Scheme == scheme {
				dpop = dpop || scheme == "dpop"
				if c.Scheme == "" {
					c = have
				}
			}
		}
	}
	if c.Scheme == "bearer" && dpop { // both are fine with the server: the simple one
		dpop = false
	}
	return c, dpop
}

// InsufficientScope gives the scopes that a refused request needs; ok tells that
// the server says so (RFC 6750 section 3.1).
func InsufficientScope(list []Challenge) (scopes []string, ok bool) {
	for _, c := range list {
		if (c.Scheme == "bearer" || c.Scheme == "dpop") && c.Params["error"] == "insufficient_scope" {
			return splitScopes(c.Params["scope"]), true
		}
	}
	return nil, false
}

const (
	maxScopes   = 256
	maxScopeLen = 16 << 10
)

// splitScopes reads a list of scopes; what no scope can hold is left out.
func splitScopes(s string) (scopes []string) {
	if len(s) > maxScopeLen {
		return nil
	}
	for _, scope := range strings.Fields(s) {
		if validScope(scope) && !slices.Contains(scopes, scope) && len(scopes) < maxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func validScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= 0x20 || r > 0x7E || r == '"' || r == '\\' })
}

// union gives all of both, in order, each once.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}

func covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}
