package transport

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	tailKept  = 64 << 10 // of a server's stderr, in memory
	tailGiven = 4 << 10  // in an error's data
	tailWords = 400      // in an error's message
)

// tail remembers the end of what a server wrote to its stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-tailKept):]
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf)+len(p) > 2*tailKept { // moved rarely rather than on each write
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-(tailKept-len(p)):]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// text returns what was kept as clean text. redact, when given, sees all of it
// before it is cut: a secret that is cut in two would not be found.
func (t *tail) text(redact func(string) string) string {
	t.mu.Lock()
	s := string(t.buf[max(0, len(t.buf)-tailKept):])
	t.mu.Unlock()
	s = plain(s)
	if redact != nil {
		s = redact(s)
	}
	return s
}

// lastLines returns the end of s, at most limit bytes, from the start of a line if
// a line starts there, else of a character.
func lastLines(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := s[len(s)-limit:]
	if s[len(s)-limit-1] == '\n' {
		return cut
	}
	if i := strings.IndexByte(cut, '\n'); i >= 0 && i < len(cut)-1 {
		return cut[i+1:]
	}
	for len(cut) > 0 && !utf8.RuneStart(cut[0]) {
		cut = cut[1:]
	}
	return cut
}

// plain makes text that cannot move a terminal's cursor, hide itself or break
// JSON: escape sequences, control characters and bidirectional overrides go,
// carriage returns (progress bars) become new lines, bad UTF-8 becomes U+FFFD.
func plain(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\x1b' || r == '\u009b':
			i += escapeSequence(s[i:], size)
			continue
		case r == '\r':
			if !strings.HasPrefix(s[i+1:], "\n") {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		default:
			b.WriteRune(r) // U+FFFD for a bad byte
		}
		i += size
	}
	return strings.TrimSpace(b.String())
}

// escapeSequence returns the length of the terminal escape sequence at the start
// of s, whose introducer has size bytes.
func escapeSequence(s string, size int) int {
	i := size
	if size == 1 { // ESC, not the one-character CSI
		if len(s) == 1 {
			return 1
		}
		i = 2
		switch s[1] {
		case '[':
		case ']', 'P', '_', '^', 'X': // a string, ended by BEL or ESC \
			for ; i < len(s) && s[i] != '\n'; i++ {
				if s[i] == '\a' {
					return i + 1
				}
				if s[i] == '\x1b' {
					return min(i+2, len(s))
				}
			}
			return i
		default:
			for i = 1; i < len(s) && s[i] >= ' ' && s[i] <= '/'; i++ {
			}
			if i < len(s) && s[i] >= '0' && s[i] <= '~' {
				i++
			}
			return i
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] <= '?' {
		i++
	}
	if i < len(s) && s[i] >= '@' && s[i] <= '~' {
		i++
	}
	return i
}
