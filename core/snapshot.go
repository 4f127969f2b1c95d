package core

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/format"
	"github.com/mcprt/mcprt/core/session"
)

// Snapshot is what readers see: immutable, replaced as a whole. A reader takes
// one and works on it without a lock.
type Snapshot struct {
	rev     uint64
	servers []*serverView // by name
	index   map[string]*serverView
	// tools holds every tool by its minted name. It shares with the snapshot before it
	// whatever did not change: with thousands of tools each change of a server costs
	// what that server has.
	tools *iradix.Tree[*tool]
	// aliases are names that tools had before, since the last reload: a model may
	// still use them. Tools of today come first.
	aliases map[string]toolID

	// Shared with the snapshots before it in which they are the same.
	list    *encodedList
	formats *[format.Count]formatted
}

// encodedList is the JSON array of every tool, made when somebody asks first.
type encodedList struct {
	once sync.Once
	json []byte
}

func emptySnapshot() *Snapshot {
	return &Snapshot{index: map[string]*serverView{}, tools: iradix.New[*tool](), list: &encodedList{}, formats: new([format.Count]formatted)}
}

// serverView is one server in a snapshot.
type serverView struct {
	viewState
	tools []*tool   // in the server's order
	flags toolFlags // of each of them
	tail  []byte    // the end of each of them as JSON

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
	session   *hold     // only when ready
	clean     *redactor // of that session
	slots     *slots    // for its calls; nil: no limit
	info      session.Info
	connectMs int64
	err       *fault.Error
	retryAt   time.Time
	known     *toolSet
	drift     *drift
	counters  *counters
}

// build makes the next snapshot from the servers' records. Only servers in
// changed, and those whose tools got other names, are built anew; the others' views
// are shared with the old one.
func (old *Snapshot) build(rev uint64, servers map[string]*server, changed map[*server]bool, names *namer) *Snapshot {
	next := &Snapshot{rev: rev, index: make(map[string]*serverView, len(servers)), tools: old.tools, aliases: old.aliases, list: old.list, formats: old.formats}
	var gone, come []toolID
	anew := map[string]bool{}
	for name, s := range servers {
		v := old.index[name]
		if v == nil || changed[s] {
			was := v
			v = &serverView{viewState: s.view()}
			anew[name] = true
			gone, come = v.compare(was, gone, come)
		}
		next.index[name] = v
		next.servers = append(next.servers, v)
	}
	for _, was := range old.servers {
		if next.index[was.name] == nil {
			anew[was.name] = true
			gone = was.appendIDs(gone)
		}
	}
	renamed, all := names.update(gone, come)
	if all {
		for _, v := range next.servers {
			anew[v.name] = true
		}
	} else {
		maps.Copy(anew, renamed)
	}
	slices.SortFunc(next.servers, func(a, b *serverView) int { return strings.Compare(a.name, b.name) })
	for i, v := range next.servers {
		if anew[v.name] {
			v = v.remake(old.index[v.name], names, all || renamed[v.name])
			next.index[v.name], next.servers[i] = v, v
		}
	}
	next.replace(old, anew)
	return next
}

// compare adds to gone and come what the list of tools lost and won since was.
func (v *serverView) compare(was *serverView, gone, come []toolID) (_, _ []toolID) {
	if was == nil {
		return gone, v.appendIDs(come)
	}
	if v.offersSame(was) {
		return gone, come
	}
	before := map[toolID]bool{}
	for _, id := range was.appendIDs(nil) {
		before[id] = true
	}
	for _, id := range v.appendIDs(nil) {
		if before[id] {
			delete(before, id)
		} else {
			come = append(come, id)
		}
	}
	return slices.AppendSeq(gone, maps.Keys(before)), come
}

// offersSame tells that the two views have the same definitions to offer.
func (v *serverView) offersSame(was *serverView) bool {
	same := v.known == was.known || v.known != nil && was.known != nil && v.known.definitions == was.known.definitions
	return same && was.state.showsTools() == v.state.showsTools() && was.entry == v.entry
}

func (v *serverView) appendIDs(ids []toolID) []toolID {
	for _, d := range v.offered() {
		ids = append(ids, toolID{v.name, d.name})
	}
	return ids
}

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

// remake gives the view with its tools. It takes over from was, the view of this
// server before, every tool that did not change, so that its encoded form is not made
// again. A view that readers may hold already is copied.
func (v *serverView) remake(was *serverView, names *namer, renamed bool) *serverView {
	if v == was {
		v = &serverView{viewState: v.viewState}
	}
	v.flags = v.flagsNow()
	v.tail = v.flags.tail()
	label := v.label()
	if was != nil && !renamed && v.offersSame(was) && label == was.label() {
		v.tools = was.tools
		return v
	}
	var before map[string]*tool
	if was != nil {
		before = make(map[string]*tool, len(was.tools))
		for _, t := range was.tools {
			before[t.def.name] = t
		}
	}
	defs := v.offered()
	v.tools = make([]*tool, 0, len(defs))
	for _, d := range defs {
		name := names.name(toolID{v.name, d.name})
		if t := before[d.name]; t != nil && t.name == name && t.def == d && t.label == label {
			v.tools = append(v.tools, t)
			continue
		}
		v.tools = append(v.tools, &tool{name: name, server: v.name, def: d, label: label})
	}
	return v
}

// shown is what a server has in the list, which may be nil.
func (v *serverView) shown() (tools []*tool, tail []byte) {
	if v == nil || len(v.tools) == 0 {
		return nil, nil
	}
	return v.tools, v.tail
}

func (v *serverView) label() string {
	if v.entry.Origin.ProviderName == "" {
		return "mcp:" + v.name
	}
	return "mcp:" + v.name + " via " + v.entry.Origin.ProviderName
}

func (v *serverView) flagsNow() toolFlags {
	if v.known == nil {
		return toolFlags{}
	}
	f := toolFlags{deferred: v.state != stateReady, fetchedAt: v.known.fetchedAt.Truncate(time.Second)}
	f.stale = f.deferred && v.known.stale()
	f.unavailable = v.state == stateFailed || v.state == stateNeedsAuth || v.state == stateNeedsInput
	return f
}

// replace takes the tools of the views that were made anew out of those of old, and
// puts the new ones in.
func (s *Snapshot) replace(old *Snapshot, anew map[string]bool) {
	txn := old.tools.Txn()
	var put []*tool // after all that goes is out: a name may pass from tool to tool
	differs := false
	for server := range anew {
		is, tail := s.index[server].shown()
		had, wasTail := old.index[server].shown()
		if !bytes.Equal(tail, wasTail) {
			s.list = &encodedList{}
		}
		if slices.Equal(is, had) {
			continue
		}
		if !differs {
			differs = true
			s.aliases = maps.Clone(s.aliases) // readers hold the old one
			s.list, s.formats = &encodedList{}, new([format.Count]formatted)
		}
		now := make(map[string]*tool, len(is))
		for _, t := range is {
			now[t.def.name] = t
		}
		kept := map[*tool]bool{}
		for _, t := range had {
			n := now[t.def.name]
			if n == t {
				kept[t] = true
				continue
			}
			txn.Delete([]byte(t.name))
			if n != nil && n.name != t.name {
				if s.aliases == nil {
					s.aliases = map[string]toolID{}
				}
				s.aliases[t.name] = toolID{server, t.def.name}
			}
		}
		for _, t := range now {
			if !kept[t] {
				put = append(put, t)
			}
		}
		maps.DeleteFunc(s.aliases, func(_ string, id toolID) bool { return id.Server == server && now[id.Tool] == nil })
	}
	for _, t := range put {
		txn.Insert([]byte(t.name), t)
	}
	s.tools = txn.Commit()
}

// route tells which tool has, or had since the last reload, this name.
func (s *Snapshot) route(name string) (toolID, bool) {
	// The tree only reads its key, so that no copy is needed.
	if t, ok := s.tools.Get(unsafe.Slice(unsafe.StringData(name), len(name))); ok {
		return toolID{t.server, t.def.name}, true
	}
	id, ok := s.aliases[name]
	return id, ok
}

// forgetAliases drops the names that were out of date in old already. The caller has
// not published s yet.
func (s *Snapshot) forgetAliases(old *Snapshot) {
	s.aliases = maps.Clone(s.aliases)
	for name := range old.aliases {
		delete(s.aliases, name)
	}
}

// sorted gives every tool by name.
func (s *Snapshot) sorted() []*tool {
	tools := make([]*tool, 0, s.tools.Len())
	s.tools.Root().Walk(func(_ []byte, t *tool) bool {
		tools = append(tools, t)
		return false
	})
	return tools
}

// allTools gives the JSON array of every tool.
func (s *Snapshot) allTools() []byte {
	s.list.once.Do(func() { s.list.json = s.appendTools(nil, s.sorted()) })
	return s.list.json
}

func (s *Snapshot) appendTools(b []byte, tools []*tool) []byte {
	n := 2
	for _, t := range tools {
		n += len(t.def.raw) + len(t.name) + 250
	}
	b = append(slices.Grow(b, n), '[')
	var v *serverView
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		if v == nil || v.name != t.server {
			v = s.index[t.server]
		}
		b = t.appendTo(b, v.tail)
	}
	return append(b, ']')
}

// changes says what became of the tools of each server from old to s.
func (s *Snapshot) changes(old *Snapshot) []toolsChanged {
	var out []toolsChanged
	for _, v := range s.servers {
		if c := v.changes(old.index[v.name]); c != nil {
			out = append(out, *c)
		}
	}
	for _, was := range old.servers {
		if s.index[was.name] == nil {
			if c := (&serverView{viewState: viewState{name: was.name}}).changes(was); c != nil {
				out = append(out, *c)
			}
		}
	}
	return out
}

// changes says what became of the server's tools since was, or nil. That a list was fetched
// anew and found to be the same is no change.
func (v *serverView) changes(was *serverView) *toolsChanged {
	if v == was {
		return nil
	}
	before := &serverView{}
	if was != nil {
		before = was
	}
	flags, old := v.flags, before.flags
	flags.fetchedAt, old.fetchedAt = time.Time{}, time.Time{}
	alike := flags == old
	if alike && slices.Equal(before.tools, v.tools) {
		return nil
	}
	c := &toolsChanged{Server: v.name}
	had := make(map[string]*tool, len(before.tools))
	for _, t := range before.tools {
		had[t.def.name] = t
	}
	for _, t := range v.tools {
		prior := had[t.def.name]
		delete(had, t.def.name)
		switch {
		case prior == nil:
			c.Added = append(c.Added, t.name)
		case prior.name != t.name:
			if c.Renamed == nil {
				c.Renamed = map[string]string{}
			}
			c.Renamed[prior.name] = t.name
		case alike && (prior == t || prior.label == t.label && bytes.Equal(prior.def.raw, t.def.raw)):
			continue
		default:
			c.Changed = append(c.Changed, t.name)
		}
		if !v.flags.deferred && (prior == nil || before.flags.deferred) {
			c.Live = append(c.Live, t.name)
		}
	}
	for _, t := range had {
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
