package config

import (
	"net/url"
	"strings"
)

// SameOrigin tells whether two addresses have scheme, host and port in common (RFC 6454,
// section 5): what was meant for one may then go to the other.
func SameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		switch {
		case u.Port() != "":
			return u.Port()
		case strings.EqualFold(u.Scheme, "https"):
			return "443"
		}
		return "80"
	}
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}
