package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

// check looks for what would fail or surprise later, as far as the entry alone
// can tell. Values with variables are looked at again when they are resolved.
func (m *mapper) check(e *Entry) {
	s := &e.Server
	if s.URL != "" && !m.d.Vars.in(s.URL) {
		fixed, code, why := checkURL(s.URL)
		switch {
		case fixed == "":
			m.spoil(code, "url", m.at["url"], "%s", why)
		case code != "":
			m.rep.add(SeverityWarning, code, m.name, "url", m.at["url"], "%s", why)
		}
		s.URL = fixed
	}
	for i, arg := range s.Args {
		if twoWords().MatchString(arg) {
			field := indexed("args", i)
			m.rep.add(SeverityNote, "suspicious_arg", m.name, field, m.at[field],
				"this argument holds an option and a second word, and is passed as one argument; split it if the server does not understand it")
		}
	}
	m.lostBackslashes(s)
	m.placeholders(s)
}

// lostBackslash matches a Windows path such as C:\temp, of which JSON's \t made a tab.
var lostBackslash = lazy.Regexp(`^[A-Za-z]:[^"]*[\x08\t\n\f\r]`)

func (m *mapper) lostBackslashes(s *Server) {
	look := func(field, value string) {
		if lostBackslash().MatchString(value) {
			m.rep.add(SeverityWarning, "suspicious_arg", m.name, field, m.at[field],
				"this path has a control character in it, as if a \\ were written once; write each one twice")
		}
	}
	look("command", s.Command)
	for i, arg := range s.Args {
		look(indexed("args", i), arg)
	}
}

// twoWords matches an argument such as "-y example": people forget to split.
var twoWords = lazy.Regexp(`^--?[A-Za-z][\w-]*\s+\S+$`)

// placeholder matches what README snippets have where a real value belongs.
var placeholder = lazy.Regexp(`(?i)<[a-z][a-z0-9 _-]*>|\byour[-_ ][a-z0-9_-]+|\byour_[a-z_]+|/path/to/|\bchangeme\b|\breplace[-_ ]?me\b|\binsert[-_ ][a-z_-]*here\b`)

func (m *mapper) placeholders(s *Server) {
	look := func(field, value string) {
		if placeholder().MatchString(value) {
			m.rep.add(SeverityWarning, "placeholder_value", m.name, field, m.at[field],
				"%s looks like a placeholder from an example; put the real value there", field)
		}
	}
	look("command", s.Command)
	look("url", s.URL)
	for i, arg := range s.Args {
		look(indexed("args", i), arg)
	}
	for _, name := range sortedKeys(s.Env) {
		look("env."+name, s.Env[name])
	}
	for _, name := range sortedKeys(s.Headers) {
		look("headers."+name, s.Headers[name])
	}
}

// checkURL gives the URL to use, or "" when it cannot be used. A code beside a
// usable URL is a warning.
func checkURL(raw string) (fixed, code, why string) {
	u, err := url.Parse(raw)
	if scheme, _, ok := strings.Cut(raw, "://"); !ok || strings.ContainsAny(scheme, "/?#") {
		host, _, _ := strings.Cut(raw, "/")
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if isLoopback(host) {
			return "http://" + raw, "missing_scheme", "this url has no scheme; it was read as http:// because the host is this machine"
		}
		if err == nil && u.Scheme != "" && u.Opaque == "" && u.Host == "" {
			return "", "unsupported_transport", "a url of this scheme is no transport that mcprt has; it has http and https"
		}
		return "", "invalid_url", "this url has no scheme; write https:// before it"
	}
	switch {
	case err != nil || u.Host == "" && !strings.EqualFold(u.Scheme, "unix"):
		return "", "invalid_url", "this is not a valid url; check its host, port and escapes"
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return "", "unsupported_transport", "a url of this scheme is no transport that mcprt has; it has http and https"
	}
	// url.Parse lets "127.0.0.1::8089" pass: the host is everything before the last colon.
	if host := u.Hostname(); !strings.HasPrefix(u.Host, "[") && strings.Contains(host, ":") || host == "" {
		return "", "invalid_url", "this url's host has a colon too many"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", "invalid_url", "this url's port is not one from 1 to 65535"
		}
	}
	return raw, "", ""
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
