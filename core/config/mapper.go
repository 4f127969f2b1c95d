package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of one entry. They are far above what a sane config holds.
const (
	maxNameBytes  = 256
	maxListItems  = 4096
	maxValueBytes = 1 << 20
)

// mapper reads one entry's members into a Server. A wrong type with one sensible
// reading is mended and reported; one without spoils the entry if a server would
// start differently than its author meant.
type mapper struct {
	d       Dialect
	rep     *report
	name    string
	at      map[string]Pos // field → where its value is
	spoiled bool
	builtIn bool // the entry is no server but a part of the tool
}

func newMapper(name string, at Pos, d Dialect, rep *report) *mapper {
	return &mapper{d: d, rep: rep, name: name, at: map[string]Pos{"": at}}
}

// mapEntry reads one entry. It returns nil, after a diagnostic, for what could
// not be started. An entry without launch data that has a switch is an overlay.
func mapEntry(name string, at Pos, n *Node, d Dialect, rep *report) *Entry {
	if why := badName(name); why != "" {
		rep.add(SeverityError, "invalid_name", "", "", at, "a server's name %s; give it another one", why)
		return nil
	}
	if n.Kind != KindObject {
		if n.Kind == KindString && strings.IndexByte("_$/#", name[0]) >= 0 {
			rep.add(SeverityNote, "unsupported_entry", "", name, n.Pos, "%q is a text and no server; it is ignored", clip(name))
			return nil
		}
		rep.add(SeverityError, "wrong_type", name, "", n.Pos, "a server must be an object with a command or a url; this one is ignored")
		return nil
	}
	m := newMapper(name, at, d, rep)
	e := &Entry{Name: name, Enabled: true, Dialect: d, raw: n.canonical(nil), at: m.at,
		Origin: Origin{Line: at.Line, Column: at.Column}}
	flags := m.members(e, n)
	enabled, switched := flags.verdict()
	e.Enabled = enabled
	if switched {
		e.Server.Enabled = &enabled
	}
	if m.spoiled {
		return nil
	}
	if m.builtIn {
		return nil
	}
	bare := e.Server.Command == "" && e.Server.URL == ""
	if bare && d.Extensions {
		rep.add(SeverityNote, "unsupported_entry", name, "", at, "this entry has no command and no url; it belongs to an extension of the tool, which alone can start it")
		return nil
	}
	if bare && e.Server.Type == "" && switched {
		e.overlay = true
		return e
	}
	if !m.transport(&e.Server, n) {
		return nil
	}
	m.check(e)
	if m.spoiled {
		return nil
	}
	return e
}

func badName(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "must not be empty"
	case len(name) > maxNameBytes:
		return fmt.Sprintf("must not be longer than %d bytes", maxNameBytes)
	case strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return "must not hold control characters"
	}
	return ""
}

// flags collects the switches of an entry, which may contradict each other.
type flags struct{ on, off bool }

// verdict: contradictory flags mean disabled, the reading that starts nothing.
func (f flags) verdict() (enabled, set bool) { return !f.off, f.on || f.off }

func (f *flags) set(on bool) { f.on, f.off = f.on || on, f.off || !on }

// members reads every member that it knows, in written order.
func (m *mapper) members(e *Entry, n *Node) (fl flags) {
	s := &e.Server
	urlRank := len(m.d.URLKeys)
	for _, member := range n.Members {
		key, v := member.Name, member.Value
		m.at[key] = v.Pos
		if rank := m.d.urlRank(key); rank >= 0 {
			if url, ok := m.text(v, key); ok && url != "" && rank < urlRank {
				s.URL, urlRank, m.at["url"] = url, rank, v.Pos
			}
			continue
		}
		field := m.d.field(key)
		if field != "" {
			m.at[field] = v.Pos // messages about the resolved value point there
		}
		switch field {
		case "type":
			m.transportWord(s, v, key)
		case "command":
			m.command(s, v, key)
		case "args":
			args, _ := m.strings(v, "args")
			s.Args = append(s.Args, args...)
		case "env":
			s.Env = m.stringMap(v, "env", s.Env)
		case "envVars":
			m.envVars(s, v, key)
		case "headers":
			s.Headers = m.stringMap(v, "headers", s.Headers)
		case "headerEnvVars":
			s.HeaderEnvVars = m.stringMap(v, "headerEnvVars", s.HeaderEnvVars)
		case "bearerTokenEnvVar":
			s.BearerTokenEnvVar, _ = m.text(v, key)
		case "cwd":
			s.Cwd, _ = m.text(v, key)
		case "envFile":
			e.EnvFile, _ = m.text(v, key)
		case "enabled":
			if on, ok := m.bool(v, key); ok {
				fl.set(on)
			}
		case "disabled":
			if off, ok := m.bool(v, key); ok {
				fl.set(!off)
			}
		case "lazy":
			s.Lazy = m.boolPtr(v, key)
		case "instructions":
			s.Instructions = m.boolPtr(v, key)
		case "required":
			s.Required = m.boolPtr(v, key)
		case "maxConcurrentCalls":
			if f, ok := m.number(v, key); ok && f >= 0 && f <= math.MaxInt32 {
				s.MaxConcurrentCalls = int(f)
			}
		case "protocol":
			s.Protocol, _ = m.text(v, key)
		case "proxy":
			s.Proxy, _ = m.text(v, key)
		case "tls":
			m.tls(s, v)
		case "oauth":
			m.oauth(s, v, key)
		case "scopes":
			m.at["oauth.scopes"] = v.Pos
			s.putOAuth("scopes", m.scopes(v, key))
		case "allowTools":
			m.allow(s, v, key)
		case "denyTools":
			deny, _ := m.strings(v, key)
			s.DenyTools = append(s.DenyTools, deny...)
		case "tools":
			m.tools(s, v)
		case "host":
			s.putHost(key, v.any())
		case "timeoutMs", "timeout", "timeoutSec", "startupTimeoutMs", "startupTimeout", "startupTimeoutSec", "idleTimeoutMs":
			m.timeSpan(s, v, key)
		default:
			m.unknown(key, member.Pos)
		}
	}
	if s.Type == "" && urlRank < len(m.d.URLKeys) {
		s.implied = m.d.URLTypes[m.d.URLKeys[urlRank]]
	}
	return fl
}

// timeSpan reads a timeout. A member whose name tells the unit wins over one
// whose unit the dialect tells.
func (m *mapper) timeSpan(s *Server, v *Node, key string) {
	switch m.d.field(key) {
	case "timeoutMs":
		s.TimeoutMs = m.millis(v, key, TimeMillis, true)
	case "timeoutSec":
		s.TimeoutMs = m.millis(v, key, TimeSeconds, false)
	case "timeout":
		if s.TimeoutMs == nil {
			s.TimeoutMs = m.millis(v, key, "", false)
		}
	case "startupTimeoutMs":
		s.StartupTimeoutMs = m.millis(v, key, TimeMillis, true)
	case "startupTimeoutSec":
		s.StartupTimeoutMs = m.millis(v, key, TimeSeconds, false)
	case "startupTimeout":
		if s.StartupTimeoutMs == nil {
			s.StartupTimeoutMs = m.millis(v, key, "", false)
		}
	case "idleTimeoutMs":
		s.IdleTimeoutMs = m.millis(v, key, TimeMillis, true)
	}
}

// envVars is a list of the variables that a server gets from the environment.
// Codex writes some as objects with a name.
func (m *mapper) envVars(s *Server, v *Node, key string) {
	names := *v
	names.Items = slices.Clone(v.Items)
	for i, item := range names.Items {
		if name := item.Get("name"); name != nil {
			names.Items[i] = name
		}
	}
	list, _ := m.strings(&names, key)
	for _, name := range list {
		if !variableName().MatchString(name) {
			m.ignore(key, v.Pos, "%s holds %q, which is no name of a variable; it is ignored", key, clip(name))
			continue
		}
		s.EnvVars = append(s.EnvVars, name)
	}
}

func (s *Server) putOAuth(name string, value any) {
	if s.OAuth == nil {
		s.OAuth = map[string]any{}
	}
	s.OAuth[name] = value
}

func (s *Server) putHost(name string, value any) {
	if s.Host == nil {
		s.Host = map[string]any{}
	}
	s.Host[name] = value
}

func (m *mapper) unknown(key string, at Pos) {
	if why, ok := unsupportedFields[key]; ok {
		m.rep.add(SeverityWarning, "unsupported_field", m.name, key, at, "%q is not honoured: %s", key, why)
		return
	}
	if m.d.Strict {
		m.rep.add(SeverityNote, "unknown_field", m.name, key, at, "%q is no member of a server config; it is ignored. Check its spelling", key)
	}
}

func (m *mapper) transportWord(s *Server, v *Node, key string) {
	word, ok := m.text(v, key)
	if !ok || word == "" {
		return
	}
	plain := fold(word)
	if slices.Contains(m.d.BuiltIn, plain) {
		m.builtIn = true
		return
	}
	t, known := transportWords[plain]
	if !known {
		m.spoil("unsupported_transport", key, v.Pos,
			"%q is no transport that mcprt has; it has stdio, http and sse", clip(word))
		return
	}
	if s.Type != "" && s.Type != t {
		m.spoil("ambiguous_transport", key, v.Pos, "this server names two transports, %s and %s; keep one", s.Type, t)
		return
	}
	s.Type = t
}

// command may be an array of the program and its arguments, or an object of
// path, args and env.
func (m *mapper) command(s *Server, v *Node, key string) {
	switch v.Kind {
	case KindArray:
		if m.d.Command != KindArray {
			m.mended(key, v.Pos, "%s is an array; its first item was read as the command, the others as arguments", key)
		}
		if words, ok := m.list(v, key); ok && len(words) > 0 {
			s.Command = strings.TrimSpace(words[0])
			s.Args = append(words[1:], s.Args...)
		}
	case KindObject:
		if v.Get("path") == nil && v.Get("command") == nil {
			m.wrong(key, v, "a string")
			return
		}
		if m.d.Command != KindObject {
			m.mended(key, v.Pos, "%s is an object; its path, args and env were read", key)
		}
		for _, member := range v.Members {
			switch member.Name {
			case "path", "command":
				s.Command, _ = m.text(member.Value, key+"."+member.Name)
			case "args":
				args, _ := m.strings(member.Value, key+".args")
				s.Args = append(args, s.Args...)
			case "env":
				s.Env = m.stringMap(member.Value, "env", s.Env)
			}
		}
	default:
		s.Command, _ = m.text(v, key)
	}
}

func (m *mapper) tls(s *Server, v *Node) {
	if v.Kind != KindObject {
		m.wrong("tls", v, "an object with caFile, certFile and keyFile")
		return
	}
	s.TLS = &TLS{}
	for _, member := range v.Members {
		field := "tls." + member.Name
		text, ok := m.text(member.Value, field)
		if !ok {
			continue
		}
		m.at[field] = member.Value.Pos
		switch member.Name {
		case "caFile":
			s.TLS.CAFile = text
		case "certFile":
			s.TLS.CertFile = text
		case "keyFile":
			s.TLS.KeyFile = text
		}
	}
}

func (m *mapper) allow(s *Server, v *Node, key string) {
	allow, ok := m.strings(v, key)
	if !ok {
		return
	}
	if s.AllowTools = append(s.AllowTools, allow...); s.AllowTools == nil {
		s.AllowTools = []string{} // present and empty: no tool at all
	}
}

// tools is a list of what is allowed, or an object of settings per tool.
func (m *mapper) tools(s *Server, v *Node) {
	if v.Kind != KindObject {
		m.allow(s, v, "tools")
		return
	}
	for _, t := range v.Members {
		field := "tools." + t.Name
		for _, setting := range t.Value.Members {
			switch setting.Name {
			case "enabled":
				if on, ok := m.bool(setting.Value, field+".enabled"); ok && !on {
					s.DenyTools = append(s.DenyTools, escapeGlob(t.Name))
				}
			case "approval_mode":
				s.putHost("tools", v.any())
			default:
				m.rep.add(SeverityNote, "unsupported_field", m.name, field+"."+setting.Name, setting.Pos,
					"mcprt does not change a tool's %s", setting.Name)
			}
		}
	}
}

// escapeGlob makes a pattern that matches this name alone.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// transport settles the type from what is there.
func (m *mapper) transport(s *Server, n *Node) bool {
	hasCommand, hasURL := s.Command != "", s.URL != ""
	switch {
	case hasCommand && hasURL && m.d.URLWins:
		s.Command, s.Args, s.Env, s.Cwd = "", nil, nil, ""
		s.Type = cmp.Or(s.implied, "http")
	case hasCommand && hasURL:
		m.spoil("ambiguous_transport", "url", m.at["url"], "this server has both a command and a url; remove one")
	case s.Type == "stdio" && !hasCommand, !hasCommand && !hasURL:
		hint := "give it a command, or a url"
		if hasURL {
			hint = "its type is stdio, which needs a command; for a url the type is http or sse"
		}
		nested := func(name string) bool { return slices.Contains(plainWrappers, name) || name == "servers" }
		for _, member := range n.Members {
			v := member.Value
			if v.Kind == KindObject && !hasURL && (nested(member.Name) || nested(m.name)) {
				hint = fmt.Sprintf("it holds other servers, as if a whole file had been pasted here; move what is in %q one level up", clip(cmp.Or(
					map[bool]string{true: member.Name}[nested(member.Name)], m.name)))
				break
			}
			if v.Kind == KindString && strings.Contains(v.Text, "://") && !hasURL {
				hint = fmt.Sprintf("did you mean \"url\" where %q stands?", clip(member.Name))
				break
			}
		}
		m.spoil("missing_command", "", m.at[""], "this server cannot be started: %s", hint)
	case (s.Type == "http" || s.Type == "sse") && !hasURL:
		m.spoil("missing_url", "", m.at[""], "this server's type is %s, which needs a url", s.Type)
	case s.Type == "" && hasCommand:
		s.Type = "stdio"
	case s.Type == "":
		s.Type = cmp.Or(s.implied, "http")
	}
	return !m.spoiled
}

// text reads a string; white space around it and null count as absent.
func (m *mapper) text(n *Node, field string) (string, bool) {
	s, ok := m.string(n, field)
	return strings.TrimSpace(s), ok
}

// string reads a string as it is.
func (m *mapper) string(n *Node, field string) (string, bool) {
	switch n.Kind {
	case KindString:
	case KindNumber, KindBool:
		m.mended(field, n.Pos, "%s is not a string; it was read as one. Put it in quotes", field)
	case KindNull:
		m.null(field, n.Pos)
		return "", false
	default:
		m.wrong(field, n, "a string")
		return "", false
	}
	switch {
	case len(n.Text) > maxValueBytes:
		m.spoil("too_large", field, n.Pos, "%s is longer than %d bytes", field, maxValueBytes)
	case strings.ContainsRune(n.Text, 0):
		m.spoil("wrong_type", field, n.Pos, "%s holds a NUL character, which no command, variable or header can", field)
	default:
		return n.Text, true
	}
	return "", false
}

// strings reads a list of strings; a lone string is a list of one.
func (m *mapper) strings(n *Node, field string) ([]string, bool) {
	switch n.Kind {
	case KindArray:
		return m.list(n, field)
	case KindNull:
		m.null(field, n.Pos)
		return nil, false
	case KindString, KindNumber, KindBool:
		if n.Kind == KindString {
			m.mended(field, n.Pos, "%s is not an array; it was read as an array of this one string", field)
		}
		s, ok := m.string(n, field)
		m.at[indexed(field, 0)] = n.Pos
		return []string{s}, ok
	}
	m.wrong(field, n, "an array of strings")
	return nil, false
}

func (m *mapper) list(n *Node, field string) ([]string, bool) {
	if len(n.Items) > maxListItems {
		m.spoil("too_large", field, n.Pos, "%s has more than %d items", field, maxListItems)
		return nil, false
	}
	list := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		f := fmt.Sprintf("%s.%d", field, i)
		if s, ok := m.string(item, f); ok {
			m.at[fmt.Sprintf("%s.%d", field, len(list))] = item.Pos
			list = append(list, s)
		}
	}
	return list, true
}

// stringMap reads an object of strings, a list of NAME=value, or a list of objects with
// name and value, into into.
func (m *mapper) stringMap(n *Node, field string, into map[string]string) map[string]string {
	if len(n.Members)+len(n.Items) > maxListItems {
		m.spoil("too_large", field, n.Pos, "%s has more than %d members", field, maxListItems)
		return nil
	}
	put := func(name, value string, at Pos) {
		if name == "" || strings.ContainsAny(name, "=\x00\r\n") {
			m.spoil("wrong_type", field, at, "%s holds a name that is empty or has a character no name can have", field)
			return
		}
		if into == nil {
			into = map[string]string{}
		}
		into[name], m.at[field+"."+name] = value, at
	}
	switch n.Kind {
	case KindObject:
		for _, member := range n.Members {
			if s, ok := m.string(member.Value, field+"."+member.Name); ok {
				put(member.Name, s, member.Value.Pos)
			}
		}
	case KindArray:
		if len(n.Items) == 0 {
			return into
		}
		m.mended(field, n.Pos, "%s is an array; its items were read as names and values", field)
		for i, item := range n.Items {
			if name, value := cmp.Or(item.Get("name"), item.Get("key")), item.Get("value"); name.string() != "" && value != nil {
				if text, ok := m.string(value, field+"."+name.Text); ok {
					put(name.Text, text, value.Pos)
				}
				continue
			}
			if item.Kind == KindNull {
				m.null(indexed(field, i), item.Pos)
				continue
			}
			name, value, ok := strings.Cut(item.string(), "=")
			if !ok {
				m.spoil("wrong_type", field, item.Pos, "%s must be an object of names and strings", field)
				return into
			}
			if text, ok := m.string(&Node{Kind: KindString, Text: value, Pos: item.Pos}, indexed(field, i)); ok {
				put(name, text, item.Pos)
			}
		}
	case KindNull:
		m.null(field, n.Pos)
	default:
		m.wrong(field, n, "an object of names and strings")
	}
	return into
}

var boolWords = map[string]bool{"true": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false}

func (m *mapper) bool(n *Node, field string) (value, ok bool) {
	if n.Kind == KindBool {
		return n.Text == "true", true
	}
	if n.Kind == KindString || n.Kind == KindNumber {
		if v, known := boolWords[strings.ToLower(strings.TrimSpace(n.Text))]; known {
			m.mended(field, n.Pos, "%s is not true or false; it was read as %t", field, v)
			return v, true
		}
	}
	if n.Kind == KindNull {
		m.null(field, n.Pos)
		return false, false
	}
	m.wrong(field, n, "true or false")
	return false, false
}

func (m *mapper) boolPtr(n *Node, field string) *bool {
	if v, ok := m.bool(n, field); ok {
		return &v
	}
	return nil
}

func (m *mapper) number(n *Node, field string) (float64, bool) {
	if n.Kind == KindNumber || n.Kind == KindString {
		f, err := strconv.ParseFloat(strings.TrimSpace(n.Text), 64)
		if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			if n.Kind == KindString {
				m.mended(field, n.Pos, "%s is a string; it was read as the number in it", field)
			}
			return f, true
		}
	}
	m.ignore(field, n.Pos, "%s must be a number; it is ignored", field)
	return 0, false
}

// maxMillis bounds a timeout (about 24 days): more is a mistake, and would
// overflow some timers.
const maxMillis = math.MaxInt32

// millis reads a time span. unit is what a bare number counts; "" leaves it to
// the dialect. zero means that 0 has the meaning that it has in mcprt. Elsewhere
// 0 and -1 stand for the default, never for "at once".
func (m *mapper) millis(n *Node, field string, unit TimeUnit, zero bool) *int64 {
	if n.Kind == KindString {
		if d, err := time.ParseDuration(strings.TrimSpace(n.Text)); err == nil {
			return m.bounded(float64(d)/float64(time.Millisecond), field, n.Pos, zero)
		}
	}
	if n.Kind == KindNull {
		m.null(field, n.Pos)
		return nil
	}
	f, ok := m.number(n, field)
	if !ok {
		return nil
	}
	if unit == "" && f > 0 {
		if unit = m.d.Time; f < 1000 && unit == TimeMillis {
			m.rep.add(SeverityNote, "timeout_unit", m.name, field, n.Pos,
				"%s counts milliseconds in this file, so this is less than a second; write \"%ss\" if seconds are meant", field, n.Text)
		} else if unit == TimeGuess {
			word := "milliseconds because it is not below 1000"
			if unit = TimeMillis; f < 1000 {
				unit, word = TimeSeconds, "seconds because it is below 1000"
			}
			m.rep.add(SeverityNote, "timeout_unit", m.name, field, n.Pos, "%s has no unit; it was read as %s. Write timeoutMs to be sure", field, word)
		}
	}
	if unit == TimeSeconds {
		f *= 1000
	}
	return m.bounded(f, field, n.Pos, zero)
}

func (m *mapper) bounded(ms float64, field string, at Pos, zero bool) *int64 {
	switch {
	case ms == 0 && zero:
		return new(int64)
	case ms <= 0:
		m.rep.add(SeverityNote, "timeout_default", m.name, field, at, "%s is not above 0, so the default holds", field)
		return nil
	case ms > maxMillis:
		m.ignore(field, at, "%s is longer than %d ms; the default holds", field, int64(maxMillis))
		return nil
	}
	v := max(1, int64(math.Round(ms)))
	return &v
}

// mended reports a wrong type that had one sensible reading.
func (m *mapper) mended(field string, at Pos, format string, args ...any) {
	if m.d.Strict { // how it could be read does not matter then
		wrong, _, _ := strings.Cut(fmt.Sprintf(format, args...), "; ")
		m.spoil("wrong_type", field, at, "%s; what a host gives must have the right types, so this server is not used", wrong)
		return
	}
	m.rep.add(SeverityWarning, "wrong_type", m.name, field, at, format, args...)
}

// null reports a member that is null: as good as absent. A host's own objects often
// hold such members, so there it is not worth a word.
func (m *mapper) null(field string, at Pos) {
	if !m.d.Strict {
		m.mended(field, at, "%s is null; it was read as absent", field)
	}
}

// ignore reports a member that is left out without harm.
func (m *mapper) ignore(field string, at Pos, format string, args ...any) {
	m.mended(field, at, format, args...)
}

// wrong reports a type that has no sensible reading; the entry is not used.
func (m *mapper) wrong(field string, n *Node, want string) {
	m.spoil("wrong_type", field, n.Pos, "%s must be %s; this server is ignored", field, want)
}

func (m *mapper) spoil(code, field string, at Pos, format string, args ...any) {
	m.spoiled = true
	m.rep.add(SeverityError, code, m.name, field, at, format, args...)
}

// sortedKeys gives the keys of a map in a fixed order, so that diagnostics and
// hashes do not depend on chance.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
