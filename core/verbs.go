package core

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"golang.org/x/sync/errgroup"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

// parseRequest decodes one of our own requests. Unknown members are ignored, so
// that a newer host works with an older library.
func parseRequest(req []byte, into any) error {
	if len(req) == 0 {
		return nil
	}
	if !rawjson.IsObject(req) {
		return fault.New(fault.InvalidRequest, "", "the request must be a JSON object")
	}
	if err := json.Unmarshal(req, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return fault.New(fault.InvalidRequest, "", "%q must be %s", wrong.Field, kindName(wrong.Type))
		}
		return fault.New(fault.InvalidRequest, "", "the request is not understood: %v", err)
	}
	return nil
}

// kindName is JSON's word for what a member of a request has to be.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array of strings"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

func verbTimeout(req []byte) (time.Duration, error) {
	var r struct {
		TimeoutMs *int64 `json:"timeoutMs"`
	}
	if err := parseRequest(req, &r); err != nil || r.TimeoutMs == nil {
		return 0, err
	}
	if *r.TimeoutMs < 0 {
		return 0, fault.New(fault.InvalidRequest, "", `"timeoutMs" must be 0 or more milliseconds`)
	}
	return time.Duration(*r.TimeoutMs) * time.Millisecond, nil
}

// discoverVerb reads all sources again. Servers that run are not touched: reload
// does that.
func (m *Manager) discoverVerb(ctx context.Context, _ []byte) (Reply, error) {
	m.discovering.Lock()
	defer m.discovering.Unlock()
	found, err := m.discover(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return Reply{}, err
		}
		return Reply{Body: encode(failedDiscovery(err))}, nil
	}
	m.adopt(found)
	return Reply{Body: encode(m.discoverReply(found))}, nil
}

// connectRequest is the JSON of connect; reload takes some of its members.
type connectRequest struct {
	Only             []string          `json:"only"`
	Servers          json.RawMessage   `json:"servers"`
	StartupTimeoutMs *int64            `json:"startupTimeoutMs"`
	Uncached         string            `json:"uncached"`
	Gate             string            `json:"gate"`
	Trust            map[string]string `json:"trust"`
	Authorize        []string          `json:"authorize"`
	Restart          bool              `json:"restart"`
	Tools            *bool             `json:"tools"`
	Mode             string            `json:"mode"`
}

// gate gives the request's gate, over open's.
func (r *connectRequest) gate(o *Options) (gate, error) {
	g := gate{timeout: o.StartupTimeout, eager: o.Gate == "eager", background: o.Uncached == "background"}
	if r.StartupTimeoutMs != nil {
		if *r.StartupTimeoutMs < 0 {
			return g, fault.New(fault.InvalidRequest, "", `"startupTimeoutMs" must be 0 or more milliseconds`)
		}
		g.timeout = time.Duration(*r.StartupTimeoutMs) * time.Millisecond
	}
	switch r.Gate {
	case "":
	case "timer", "eager":
		g.eager = r.Gate == "eager"
	default:
		return g, fault.New(fault.InvalidRequest, "", `"gate" is "timer" or "eager"`)
	}
	switch r.Uncached {
	case "":
	case "wait", "background":
		g.background = r.Uncached == "background"
	default:
		return g, fault.New(fault.InvalidRequest, "", `"uncached" is "wait" or "background"`)
	}
	return g, nil
}

// connectVerb starts servers and waits behind the gate.
func (m *Manager) connectVerb(ctx context.Context, req []byte) (Reply, error) {
	began := time.Now()
	var r connectRequest
	if err := parseRequest(req, &r); err != nil {
		return Reply{}, err
	}
	g, err := r.gate(m.opts)
	if err != nil {
		return Reply{}, err
	}
	rep := newReport(began)
	if err := m.prepare(ctx, &r, rep); err != nil {
		return Reply{}, err
	}
	if r.Only != nil {
		for _, name := range r.Authorize {
			if !slices.Contains(r.Only, name) {
				r.Only = append(r.Only, name)
			}
		}
	}
	m.mu.Lock()
	var chosen []*server
	var unknown []string
	if r.Only == nil {
		for _, s := range m.servers {
			chosen = append(chosen, s)
		}
	}
	for _, name := range r.Only {
		if s := m.servers[name]; s != nil {
			chosen = append(chosen, s)
		} else {
			unknown = append(unknown, name)
		}
	}
	m.mu.Unlock()
	for _, name := range unknown {
		if rep.errors[name] == nil {
			rep.errors[name] = m.unknownServer(m.snap.Load(), name)
		}
	}
	kind := evStart
	if r.Restart {
		kind = evRestart
	}
	m.startAll(chosen, kind, r.Authorize, g.eager)
	if err := m.wait(ctx, chosen, g); err != nil {
		return Reply{}, err
	}
	rep.tried = names(chosen)
	return m.reply(rep, r.Tools == nil || *r.Tools), nil
}

// prepare discovers if nothing was, adds the servers that the request brings,
// and records the trust that it gives.
func (m *Manager) prepare(ctx context.Context, r *connectRequest, rep *report) error {
	m.discovering.Lock()
	defer m.discovering.Unlock()
	if m.result() == nil {
		found, err := m.discover(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			rep.errors[".mcp.json"] = fault.From(err)
		} else {
			m.adopt(found)
			rep.diagnostics = append(rep.diagnostics, found.Diagnostics...)
		}
	}
	if !isNull(r.Servers) {
		if err := m.addInline(r.Servers, rep); err != nil {
			return err
		}
		if r.Only == nil && !r.Restart {
			r.Only = rep.given // one more server: only what was given is tried
		}
	}
	if found := m.result(); found != nil {
		rep.invalid(found, r.Only)
	}
	m.trust(ctx, r.Trust, func(name string, err error) { rep.errors[name] = fault.From(err) })
	return nil
}

// startAll starts servers under one lock, so that one snapshot shows them all.
// Lazy ones whose tools the cache knows stay idle. For the names in authorize the
// host may be asked for what only a person has.
func (m *Manager) startAll(chosen []*server, kind evKind, authorize []string, eager bool) {
	m.checkTrust()
	known := m.lookUpAll(chosen, eager)
	m.change(func(fx *effects) {
		for i, s := range chosen {
			if known[i] != nil {
				m.apply(s, *known[i], fx)
			}
			m.apply(s, event{kind: kind, authorize: slices.Contains(authorize, s.name)}, fx)
		}
	})
}

// lookUpAll gives the events that tell what the cache knows, at the places of the servers.
func (m *Manager) lookUpAll(servers []*server, eager bool) []*event {
	known := make([]*event, len(servers))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range servers {
		group.Go(func() error {
			m.guard(func() { known[i] = m.lookUp(s, eager) })
			return nil
		})
	}
	_ = group.Wait()
	return known
}

// reloadVerb reads all sources and applies what changed.
func (m *Manager) reloadVerb(ctx context.Context, req []byte) (Reply, error) {
	began := time.Now()
	var r connectRequest
	if err := parseRequest(req, &r); err != nil {
		return Reply{}, err
	}
	g, err := r.gate(m.opts)
	if err != nil {
		return Reply{}, err
	}
	if r.Mode != "" && r.Mode != "diff" && r.Mode != "full" {
		return Reply{}, fault.New(fault.InvalidRequest, "", `"mode" is "diff" or "full"`)
	}
	rep := newReport(began)
	chosen, err := m.rediscover(ctx, r.Mode == "full", rep)
	if err != nil {
		return Reply{}, err
	}
	if err := m.wait(ctx, chosen, g); err != nil {
		return Reply{}, err
	}
	rep.tried = names(chosen)
	return m.reply(rep, r.Tools == nil || *r.Tools), nil
}

// rediscover reads all sources and applies what changed. A failure of discovery as a
// whole changes nothing, and is in the report.
func (m *Manager) rediscover(ctx context.Context, full bool, rep *report) ([]*server, error) {
	m.discovering.Lock()
	defer m.discovering.Unlock()
	safe.Point("core.reload")
	found, err := m.discover(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		rep.errors[".mcp.json"] = fault.From(err)
		rep.changes = &changes{}
		return nil, nil
	}
	rep.diagnostics = append(rep.diagnostics, found.Diagnostics...)
	rep.invalid(found, nil)
	return m.applyReload(found, full, rep), nil
}

// applyReload makes the running set the found one, in one change of state.
func (m *Manager) applyReload(found *config.Result, full bool, rep *report) []*server {
	rep.changes = &changes{}
	c := rep.changes
	m.watcher.settle(found)
	entries := startable(found)
	resolved := m.resolveAll(slices.Collect(maps.Values(entries)))
	var lazy []*server
	var chosen []*server
	m.change(func(fx *effects) {
		m.found = found
		m.dropAliases = true
		for name, s := range m.servers {
			if entries[name] == nil && !s.pinned {
				c.Removed = append(c.Removed, name)
				m.apply(s, event{kind: evRemove}, fx)
			}
		}
		for name, e := range entries {
			s := m.servers[name]
			switch {
			case s == nil:
				c.Added = append(c.Added, name)
				s = m.add(e, false, fx)
				lazy = append(lazy, s)
				continue
			case s.pinned:
				continue
			}
			kind := evKept
			if !s.sameConfig(e, resolved[e]) {
				kind = evChanged
				c.Changed = append(c.Changed, name)
			} else {
				c.Kept = append(c.Kept, name)
			}
			if full {
				kind = evRestart
			}
			m.apply(s, event{kind: kind, entry: e}, fx)
			chosen = append(chosen, s)
		}
		for name, s := range m.servers {
			if s.pinned {
				c.Kept = append(c.Kept, name)
				kind := evKept
				if full {
					kind = evRestart
				}
				m.apply(s, event{kind: kind}, fx)
				chosen = append(chosen, s)
			}
		}
	})
	m.startAll(lazy, evStart, nil, false)
	for _, list := range []*[]string{&c.Added, &c.Removed, &c.Changed, &c.Kept} {
		slices.Sort(*list)
	}
	return append(chosen, lazy...)
}

// disconnectVerb stops one server or all and returns when their processes have
// ended, or after the grace and a second.
func (m *Manager) disconnectVerb(ctx context.Context, req []byte) (Reply, error) {
	var r struct {
		Server *string `json:"server"`
	}
	if err := parseRequest(req, &r); err != nil {
		return Reply{}, err
	}
	stopped := []string{}
	var ending []<-chan struct{}
	var grace time.Duration
	known := true
	m.change(func(fx *effects) {
		safe.Point("core.disconnect")
		if known = r.Server == nil || m.servers[*r.Server] != nil; !known {
			return
		}
		for name, s := range m.servers {
			if r.Server != nil && name != *r.Server {
				continue
			}
			m.apply(s, event{kind: evDisconnect}, fx)
			stopped = append(stopped, name)
			ending = append(ending, s.ending...)
		}
		grace = m.grace
	})
	if !known {
		return Reply{}, m.unknownServer(m.snap.Load(), *r.Server)
	}
	limit := time.NewTimer(grace + time.Second)
	defer limit.Stop()
	for _, ch := range ending {
		select {
		case <-ch:
		case <-limit.C:
			limit.Reset(0)
		case <-ctx.Done():
			return Reply{}, context.Cause(ctx)
		}
	}
	slices.Sort(stopped)
	return Reply{Body: encode(map[string]any{"disconnected": stopped})}, nil
}

func names(servers []*server) []string {
	out := make([]string, 0, len(servers))
	for _, s := range servers {
		out = append(out, s.name)
	}
	slices.Sort(out)
	return out
}

// unknownServer names the servers there are, so that a typo is found at once.
//
// Never under the lock.
func (m *Manager) unknownServer(snap *Snapshot, name string) *fault.Error {
	var have []string
	for _, v := range snap.servers {
		have = append(have, v.name)
	}
	e := fault.New(fault.UnknownServer, "", "there is no server %q; %s", name, known(snap, have))
	if found := m.result(); found != nil {
		for _, c := range found.Entries {
			if c.Name == name && c.DuplicateOf != "" {
				e = fault.New(fault.UnknownServer, "", "server %q is the same connection as %q, which runs in its place with its own filters; use that name, or make the two differ", name, c.DuplicateOf)
			}
		}
	}
	e.Server = name
	return e
}

// unknownTool names the tools there are, and the servers whose tools nobody can know
// yet because they wait for trust: the usual reason at the first try.
func unknownTool(snap *Snapshot, name string) *fault.Error {
	var have, untrusted []string
	for _, t := range snap.sorted() {
		have = append(have, t.name)
	}
	for _, v := range snap.servers {
		if v.state == stateNeedsTrust {
			untrusted = append(untrusted, v.name)
		}
	}
	hint := ""
	if len(untrusted) > 0 {
		hint = "; not started, since nobody has approved them: " + some(untrusted)
	}
	e := fault.New(fault.UnknownTool, "", "there is no tool %q; %s%s", name, known(snap, have), hint)
	e.Tool = name
	return e
}

// NoServers tells somebody who expected servers why there are none.
const NoServers = "no server is configured here; mcprt reads .mcp.json, .mcprt/mcp.json and the files of other tools"

// known lists what there is in the place of what was asked for.
func known(snap *Snapshot, names []string) string {
	if len(snap.servers) == 0 {
		return NoServers
	}
	return "known are: " + some(names)
}

// some joins the first names; a list of thousands helps nobody.
func some(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
