package fault

import "strings"

// Foreign makes text of a server fit for a message: one printable line of at most n bytes,
// and "…" where more was cut off.
func Foreign(s string, n int) string {
	cut := len(s) > n
	if cut {
		s = s[:n]
	}
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7F && r < 0xA0 || r == 0xFFFD || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if cut {
		s += "…"
	}
	return s
}
