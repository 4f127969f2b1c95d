package core

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/session"
)

// Snapshot is what readers see: immutable, replaced as a whole. A reader takes
// one and works on it without a lock.
type Snapshot struct {
	rev     uint64
	servers []*serverView // by name
	index   map[string]*serverView
	tools   []*tool          // by minted name
	routes  map[string]*tool // minted names, and since the last reload also the names that a tool had before
	names   map[toolID]string

	toolsOnce sync.Once
	toolsJSON []byte
}

// serverView is one server in a snapshot.
type serverView struct {
	viewState
	tools []*tool

	encodeOnce sync.Once
	encoded    []byte
}

// viewState is the part of a server's record that readers may see.
type viewState struct {
	name      string
	state     state
	again     bool // connecting, and not for the first time: err is why
	gen       uint64
	entry     *config.Entry
	session   *session.Session // only when ready
	clean     *redactor        // of that session
	info      session.Info
	connectMs int64
	err       *fault.Error
	retryAt   time.Time
	known     *toolSet
	drift     *drift
	counters  *counters
}

// build makes the next snapshot from the servers' records. Only servers in
// changed are built anew; the others' views are shared with the old one.
func (old *Snapshot) build(rev uint64, servers map[string]*server, changed map[*server]bool, mint mintFunc) *Snapshot {
	next := &Snapshot{rev: rev, index: make(map[string]*serverView, len(servers)), names: old.names}
	n, same := 0, true
	for name, s := range servers {
		was := old.index[name]
		if was != nil && !changed[s] {
			next.index[name] = was
			next.servers = append(next.servers, was)
			continue
		}
		v := &serverView{viewState: s.view()}
		next.index[name] = v
		next.servers = append(next.servers, v)
		same = same && was != nil && was.known == v.known && was.state.showsTools() == v.state.showsTools() && was.entry == v.entry
	}
	slices.SortFunc(next.servers, func(a, b *serverView) int { return strings.Compare(a.name, b.name) })
	same = same && len(next.servers) == len(old.servers)
	if !same {
		var all []toolID
		for _, v := range next.servers {
			for _, d := range v.offered() {
				all = append(all, toolID{v.name, d.name})
			}
		}
		next.names = mint(all)
	}
	for _, v := range next.servers {
		if v.tools == nil || !same {
			v = next.remake(v, old)
		}
		n += len(v.tools)
	}
	next.collect(old, n)
	return next
}

// mintFunc gives each known tool its name.
type mintFunc func(ids []toolID) map[toolID]string

// offered gives the definitions that this server contributes to the list.
func (v *serverView) offered() []*toolDef {
	if v.known == nil || !v.state.showsTools() {
		return nil
	}
	cfg := &v.entry.Server
	if cfg.AllowTools == nil && len(cfg.DenyTools) == 0 {
		return v.known.defs
	}
	var defs []*toolDef
	for _, d := range v.known.defs {
		if allowed(d.name, cfg.AllowTools, cfg.DenyTools) {
			defs = append(defs, d)
		}
	}
	return defs
}

// remake fills a view's tools, taking over every tool that did not change, so
// that its encoded form is not made again.
func (s *Snapshot) remake(v *serverView, old *Snapshot) *serverView {
	var before map[string]*tool
	if was := old.index[v.name]; was != nil {
		before = make(map[string]*tool, len(was.tools))
		for _, t := range was.tools {
			before[t.def.name] = t
		}
		if was == v { // shared with an old snapshot, which readers hold: never change it
			v = &serverView{viewState: v.viewState}
			s.index[v.name] = v
			i, _ := slices.BinarySearchFunc(s.servers, v.name, func(a *serverView, n string) int { return strings.Compare(a.name, n) })
			s.servers[i] = v
		}
	}
	defs := v.offered()
	flags := v.flags()
	v.tools = make([]*tool, 0, len(defs))
	for _, d := range defs {
		name := s.names[toolID{v.name, d.name}]
		if t := before[d.name]; t != nil && t.name == name && t.def == d && t.flags == flags && t.label == v.label() {
			v.tools = append(v.tools, t)
			continue
		}
		v.tools = append(v.tools, &tool{name: name, server: v.name, def: d, label: v.label(), flags: flags})
	}
	return v
}

func (v *serverView) label() string {
	if v.entry.Origin.ProviderName == "" {
		return "mcp:" + v.name
	}
	return "mcp:" + v.name + " via " + v.entry.Origin.ProviderName
}

// flags are the same for all tools of a server.
func (v *serverView) flags() toolFlags {
	if v.known == nil {
		return toolFlags{}
	}
	f := toolFlags{deferred: v.state != stateReady, fetchedAt: v.known.fetchedAt}
	f.stale = f.deferred && v.known.stale()
	f.unavailable = v.state == stateFailed || v.state == stateNeedsAuth || v.state == stateNeedsInput
	return f
}

// collect sorts all tools by name and makes the routes. Names that a tool had
// before go on routing until the next reload: a model may still use them.
func (s *Snapshot) collect(old *Snapshot, n int) {
	tools := make([]*tool, 0, n)
	byID := make(map[toolID]*tool, n)
	for _, v := range s.servers {
		tools = append(tools, v.tools...)
		for _, t := range v.tools {
			byID[toolID{v.name, t.def.name}] = t
		}
	}
	slices.SortFunc(tools, func(a, b *tool) int { return strings.Compare(a.name, b.name) })
	s.tools = tools
	s.routes = make(map[string]*tool, n)
	for name, was := range old.routes {
		if t := byID[toolID{was.server, was.def.name}]; t != nil {
			s.routes[name] = t
		}
	}
	for _, t := range tools {
		s.routes[t.name] = t
	}
}

// aliases tells whether there are routes for names that tools had before.
func (s *Snapshot) aliases() bool { return len(s.routes) > len(s.tools) }

// forgetAliases drops the routes for names that were out of date in old already.
// The caller has not published s yet.
func (s *Snapshot) forgetAliases(old *Snapshot) {
	for name, t := range s.routes {
		if was := old.routes[name]; t.name != name && was != nil && was.name != name {
			delete(s.routes, name)
		}
	}
}

// allTools gives the JSON array of every tool, made once per snapshot.
func (s *Snapshot) allTools() []byte {
	s.toolsOnce.Do(func() {
		n := 2
		for _, t := range s.tools {
			n += len(t.json()) + 1
		}
		s.toolsJSON = appendTools(make([]byte, 0, n), s.tools)
	})
	return s.toolsJSON
}

func appendTools(b []byte, tools []*tool) []byte {
	b = append(b, '[')
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t.json()...)
	}
	return append(b, ']')
}

// changes says what became of the tools of each server from old to s.
func (s *Snapshot) changes(old *Snapshot) []toolsChanged {
	var out []toolsChanged
	for _, v := range s.servers {
		was := old.index[v.name]
		if was != nil && (was == v || slices.Equal(was.tools, v.tools)) {
			continue
		}
		var before []*tool
		if was != nil {
			before = was.tools
		}
		if c := diffTools(v.name, before, v.tools); c != nil {
			out = append(out, *c)
		}
	}
	for _, was := range old.servers {
		if s.index[was.name] == nil {
			if c := diffTools(was.name, was.tools, nil); c != nil {
				out = append(out, *c)
			}
		}
	}
	return out
}

func diffTools(server string, before, after []*tool) *toolsChanged {
	c := &toolsChanged{Server: server}
	old := make(map[string]*tool, len(before))
	for _, t := range before {
		old[t.def.name] = t
	}
	for _, t := range after {
		was := old[t.def.name]
		delete(old, t.def.name)
		switch {
		case was == nil:
			c.Added = append(c.Added, t.name)
		case was == t:
			continue
		case was.name != t.name:
			if c.Renamed == nil {
				c.Renamed = map[string]string{}
			}
			c.Renamed[was.name] = t.name
		default:
			c.Changed = append(c.Changed, t.name)
		}
		if !t.flags.deferred && (was == nil || was.flags.deferred) {
			c.Live = append(c.Live, t.name)
		}
	}
	for _, t := range old {
		c.Removed = append(c.Removed, t.name)
	}
	if c.Added == nil && c.Changed == nil && c.Removed == nil && c.Renamed == nil {
		return nil
	}
	for _, names := range [][]string{c.Added, c.Changed, c.Removed, c.Live} {
		slices.Sort(names)
	}
	return c
}
