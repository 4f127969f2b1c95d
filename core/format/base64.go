package format

import "strings"

// standardBase64 gives base64 as the providers take it, which is the standard alphabet with
// its padding and nothing in between. Servers also send it in lines, in the URL's alphabet,
// without padding, or as a whole data: URL. ok is false for what holds no file at all.
func standardBase64(sent string) (standard string, ok bool) {
	if isStandard(sent) {
		return sent, true
	}
	if head, body, found := strings.Cut(sent, ";base64,"); found && strings.HasPrefix(head, "data:") {
		sent = body
	}
	b := make([]byte, 0, len(sent)+3)
	for i := range len(sent) {
		switch c := sent[i]; c {
		case ' ', '\t', '\r', '\n':
		case '-':
			b = append(b, '+')
		case '_':
			b = append(b, '/')
		default:
			b = append(b, c)
		}
	}
	standard = strings.TrimRight(string(b), "=")
	standard += "==="[:(4-len(standard)%4)%4]
	return standard, isStandard(standard)
}

func isStandard(s string) bool {
	if s == "" || len(s)%4 != 0 {
		return false
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}
