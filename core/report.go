package core

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

type diagnostic = config.Diagnostic

// changes says what a reload did, by server name.
type changes struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	Kept    []string `json:"kept"`
}

func (c *changes) none() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// fill makes the lists JSON arrays, also where they are empty.
func (c *changes) fill() {
	for _, list := range []*[]string{&c.Added, &c.Removed, &c.Changed, &c.Kept} {
		if *list == nil {
			*list = []string{}
		}
	}
}

// report gathers what the reply of connect and reload says beside the snapshot.
type report struct {
	began       time.Time
	tried       []string // nil: none
	given       []string // inline servers of this request
	errors      map[string]*fault.Error
	diagnostics []diagnostic
	changes     *changes
}

func newReport(began time.Time) *report {
	return &report{began: began, errors: map[string]*fault.Error{}}
}

// invalid reports entries that cannot start: they have a diagnostic instead of a
// server. Of those, only the ones that were tried count; nil: all were.
func (r *report) invalid(found *config.Result, tried []string) {
	for _, d := range found.Diagnostics {
		if d.Severity != "error" || d.Server == "" || r.errors[d.Server] != nil || tried != nil && !slices.Contains(tried, d.Server) {
			continue
		}
		if slices.ContainsFunc(found.Entries, func(e *config.Entry) bool { return e.Name == d.Server }) {
			continue
		}
		r.errors[d.Server] = configFault(d)
	}
}

func configFault(d diagnostic) *fault.Error {
	f := fault.New(fault.Config, fault.StageConfig, "%s", d.Message).With(fault.Data{Path: d.Path, Line: d.Line, Column: d.Column})
	f.Server = d.Server
	return f
}

type needsTrustView struct {
	Name    string   `json:"name"`
	Hash    string   `json:"hash"`
	Path    string   `json:"path"`
	Command *string  `json:"command"`
	Args    []string `json:"args"`
	URL     *string  `json:"url"`
}

// needsInputView says what a server misses.
type needsInputView struct {
	Server string        `json:"server"`
	Inputs []fault.Input `json:"inputs"`
}

func inputView(v *serverView) needsInputView {
	n := needsInputView{Server: v.name, Inputs: []fault.Input{}}
	if v.err != nil && v.err.Data != nil && v.err.Data.Inputs != nil {
		n.Inputs = v.err.Data.Inputs
	}
	return n
}

// failed reports a tried server that has failed, also while it is being tried again.
func (r *report) failed(v *serverView) {
	if v.err == nil || r.errors[v.name] != nil {
		return
	}
	if _, tried := slices.BinarySearch(r.tried, v.name); !tried {
		return
	}
	switch v.state {
	case stateConnecting, stateBackoff, stateFailed:
		r.errors[v.name] = v.err
	}
}

// reply is the answer of connect and reload, from one snapshot.
func (m *Manager) reply(r *report, tools bool) Reply {
	snap := m.snap.Load()
	connected, deferred, pending, auth := []string{}, []string{}, []string{}, []string{}
	trust, input := []needsTrustView{}, []needsInputView{}
	for _, v := range snap.servers {
		switch v.state {
		case stateReady:
			connected = append(connected, v.name)
		case stateConnecting:
			if !v.again {
				pending = append(pending, v.name)
			}
		case stateNeedsTrust:
			trust = append(trust, trustView(v.entry))
		case stateNeedsAuth:
			auth = append(auth, v.name)
		case stateNeedsInput:
			input = append(input, inputView(v))
		}
		r.failed(v)
		r.diagnostics = append(r.diagnostics, v.drift.diagnostics()...)
		if v.state != stateReady && len(v.tools) > 0 {
			deferred = append(deferred, v.name)
		}
	}
	m.mu.Lock()
	r.diagnostics = append(r.diagnostics, m.warned...)
	m.mu.Unlock()
	r.diagnostics = append(r.diagnostics, m.store.notes()...)
	if r.diagnostics == nil {
		r.diagnostics = []diagnostic{}
	}
	b := append([]byte(`{"revision":`), strconv.FormatUint(snap.rev, 10)...)
	b = append(append(b, `,"elapsedMs":`...), strconv.FormatInt(time.Since(r.began).Milliseconds(), 10)...)
	if tools {
		b = append(append(b, `,"tools":`...), snap.allTools()...)
	}
	b = append(b, `,"servers":`...)
	b = snap.appendServers(b, snap.servers)
	b = append(b, `,"connected":`...)
	b = append(b, encode(connected)...)
	b = append(append(b, `,"deferred":`...), encode(deferred)...)
	b = append(append(b, `,"pending":`...), encode(pending)...)
	b = append(append(b, `,"needsTrust":`...), encode(trust)...)
	b = append(append(b, `,"needsAuth":`...), encode(auth)...)
	b = append(append(b, `,"needsInput":`...), encode(input)...)
	b = append(append(b, `,"errors":`...), encode(r.errors)...)
	b = append(append(b, `,"diagnostics":`...), encode(r.diagnostics)...)
	if r.changes != nil {
		r.changes.fill()
		b = append(append(b, `,"changes":`...), encode(r.changes)...)
	}
	return Reply{Body: append(b, '}')}
}

func (s *Snapshot) appendServers(b []byte, servers []*serverView) []byte {
	b = append(b, '[')
	for i, v := range servers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v.json()...)
	}
	return append(b, ']')
}

// discoverReply lists what could be started and what is wrong.
func (m *Manager) discoverReply(found *config.Result) any {
	type serverEntry struct {
		Name        string        `json:"name"`
		Transport   string        `json:"transport"`
		Enabled     bool          `json:"enabled"`
		Trusted     bool          `json:"trusted"`
		Hash        string        `json:"hash"`
		DuplicateOf *string       `json:"duplicateOf"`
		Source      config.Origin `json:"source"`
		Config      config.Server `json:"config"`
	}
	out := struct {
		Servers     []serverEntry     `json:"servers"`
		Shadowed    []config.Shadowed `json:"shadowed"`
		Diagnostics []diagnostic      `json:"diagnostics"`
		ExaAPIKeys  []string          `json:"exaApiKeys"`
	}{Servers: []serverEntry{}, Shadowed: found.Shadowed, Diagnostics: append([]diagnostic{}, found.Diagnostics...), ExaAPIKeys: found.ExaAPIKeys}
	for _, e := range found.Entries {
		s := serverEntry{Name: e.Name, Transport: e.Server.Type, Enabled: e.Enabled, Trusted: e.Trusted, Hash: e.Hash, Source: e.Origin, Config: config.Redact(e.Server)}
		if e.DuplicateOf != "" {
			s.DuplicateOf = &e.DuplicateOf
		}
		out.Servers = append(out.Servers, s)
	}
	if out.Shadowed == nil {
		out.Shadowed = []config.Shadowed{}
	}
	if out.ExaAPIKeys == nil {
		out.ExaAPIKeys = []string{}
	}
	out.Diagnostics = append(out.Diagnostics, m.warned...)
	return out
}

// failedDiscovery is the reply when discovery as a whole failed: no servers, one
// error, and the host goes on.
func failedDiscovery(err error) any {
	f := fault.From(err)
	return map[string]any{
		"servers": []any{}, "shadowed": []any{}, "exaApiKeys": []any{},
		"diagnostics": []diagnostic{{Severity: "error", Code: "discovery_failed", Path: ".mcp.json", Message: f.Message}},
		"errors":      map[string]*fault.Error{".mcp.json": f},
	}
}

func trustView(e *config.Entry) needsTrustView {
	shown := config.Redact(e.Server)
	v := needsTrustView{Name: e.Name, Hash: e.Hash, Path: e.Origin.Path, Args: shown.Args}
	if v.Args == nil {
		v.Args = []string{}
	}
	if shown.Command != "" {
		v.Command = &shown.Command
	}
	if shown.URL != "" {
		v.URL = &shown.URL
	}
	return v
}

func needsTrust(e *config.Entry) *fault.Error {
	f := fault.New(fault.NeedsTrust, fault.StageConfig,
		`server %q comes from a project file (%s) that nobody has approved; look at it, then connect with "trust":{%q:%q}`, e.Name, e.Origin.Path, e.Name, e.Hash).
		With(fault.Data{Hash: e.Hash, Path: e.Origin.Path, Line: e.Origin.Line, Column: e.Origin.Column})
	f.Server = e.Name
	return f
}

func crashLoop(s *server, last *fault.Error, again time.Duration) *fault.Error {
	if last == nil {
		last = s.err
	}
	if last == nil {
		last = fault.New(fault.Unavailable, "", "its connection was lost again and again")
	}
	next := fmt.Sprintf("is not started again by itself, but by a call after %d s; mend it, or connect with restart", int(breakerWindow.Seconds()))
	if again > 0 {
		next = fmt.Sprintf("is tried again in %d s; mend it, or connect with restart", int(again.Round(time.Second).Seconds()))
	}
	f := fault.New(fault.CrashLoop, last.Stage, "server %q failed %d times in a row and %s. The last time: %s", s.name, maxStarts, next, last.Message).Retry()
	f.Server, f.Data = s.name, last.Data
	return f
}

// members of list
type listRequest struct {
	Kind       string   `json:"kind"`
	Server     string   `json:"server"`
	Names      []string `json:"names"`
	Format     string   `json:"format"`
	IfRevision *uint64  `json:"ifRevision"`
	Search     string   `json:"search"`
	Refresh    bool     `json:"refresh"`
}

func appendRevision(b []byte, rev uint64) []byte {
	return strconv.AppendUint(append(b, `{"revision":`...), rev, 10)
}

func appendNamed(b []byte, name string, value []byte) []byte {
	b = append(b, ',')
	b = rawjson.AppendString(b, name)
	return append(append(b, ':'), value...)
}
