package config

import (
	"maps"
	"slices"
	"strconv"
)

func indexed(field string, i int) string { return field + "." + strconv.Itoa(i) }

// each replaces every value in which variables are expanded by f's answer, in a
// fixed order. Names (of env, of headers) are never expanded.
func (s *Server) each(f func(field, value string) string) {
	s.Command = f("command", s.Command)
	for i, arg := range s.Args {
		s.Args[i] = f(indexed("args", i), arg)
	}
	for _, name := range sortedKeys(s.Env) {
		s.Env[name] = f("env."+name, s.Env[name])
	}
	s.Cwd = f("cwd", s.Cwd)
	s.URL = f("url", s.URL)
	for _, name := range sortedKeys(s.Headers) {
		s.Headers[name] = f("headers."+name, s.Headers[name])
	}
	s.Proxy = f("proxy", s.Proxy)
	if s.TLS != nil {
		s.TLS.CAFile = f("tls.caFile", s.TLS.CAFile)
		s.TLS.CertFile = f("tls.certFile", s.TLS.CertFile)
		s.TLS.KeyFile = f("tls.keyFile", s.TLS.KeyFile)
	}
	for _, name := range sortedKeys(s.OAuth) {
		if text, ok := s.OAuth[name].(string); ok {
			s.OAuth[name] = f("oauth."+name, text)
		}
	}
}

// clone copies s so deep that each may change the copy.
func (s Server) clone() Server {
	s.Args = slices.Clone(s.Args)
	s.Env = maps.Clone(s.Env)
	s.Headers = maps.Clone(s.Headers)
	s.OAuth = maps.Clone(s.OAuth)
	s.Host = maps.Clone(s.Host)
	if s.TLS != nil {
		tls := *s.TLS
		s.TLS = &tls
	}
	return s
}
