package core

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
)

// remoteKinds are the lists that servers are asked for, with MCP's method and member.
var remoteKinds = map[string]struct{ method, member string }{
	"resources":         {"resources/list", "resources"},
	"resourceTemplates": {"resources/templates/list", "resourceTemplates"},
	"prompts":           {"prompts/list", "prompts"},
}

// listVerb gives tools and servers from the snapshot, and from the network only where
// the request says "refresh"; resources, templates and prompts come from the servers.
func (m *Manager) listVerb(ctx context.Context, req []byte) (Reply, error) {
	var r listRequest
	if err := parseRequest(req, &r); err != nil {
		return Reply{}, err
	}
	provider, formatted, err := formatOf(r.Format)
	if err != nil {
		return Reply{}, err
	}
	if formatted && r.Kind != "" && r.Kind != "tools" {
		return Reply{}, fault.New(fault.InvalidRequest, "", `"format" is for tools; %q have one form only`, r.Kind)
	}
	snap := m.snap.Load()
	if r.Server != "" && snap.index[r.Server] == nil {
		return Reply{}, m.unknownServer(snap, r.Server)
	}
	tail := []byte(`}`)
	if r.Refresh {
		if r.Kind != "" && r.Kind != "tools" {
			return Reply{}, fault.New(fault.InvalidRequest, "", `"refresh" is for tools; servers are always as they are now, and %s are asked for each time`, r.Kind)
		}
		failed, err := m.refreshTools(ctx, r.Server)
		if err != nil {
			return Reply{}, err
		}
		snap, tail = m.snap.Load(), append(appendNamed(nil, "errors", encode(failed)), '}')
		if r.Server != "" && snap.index[r.Server] == nil {
			return Reply{}, m.unknownServer(snap, r.Server)
		}
	}
	b := appendRevision(nil, snap.rev)
	switch r.Kind {
	case "", "tools", "servers":
		if r.IfRevision != nil && *r.IfRevision == snap.rev {
			return Reply{Body: append(append(b, `,"unchanged":true`...), tail...)}, nil
		}
	}
	switch r.Kind {
	case "", "tools":
		if formatted {
			return snap.formatted(provider).reply(b, snap, &r, tail)
		}
		if r.Server == "" && r.Names == nil && r.Search == "" {
			return Reply{Head: append(b, `,"tools":`...), Body: snap.allTools(), Tail: tail}, nil
		}
		return Reply{Body: append(appendNamed(b, "tools", snap.appendTools(nil, r.pick(snap))), tail...)}, nil
	case "servers":
		servers := snap.servers
		if r.Server != "" {
			servers = []*serverView{snap.index[r.Server]}
		}
		return Reply{Body: append(appendNamed(b, "servers", snap.appendServers(nil, servers)), '}')}, nil
	}
	kind, ok := remoteKinds[r.Kind]
	if !ok {
		return Reply{}, fault.New(fault.InvalidRequest, "", `"kind" is "tools", "servers", "resources", "resourceTemplates" or "prompts", not %q`, r.Kind)
	}
	items, failed, err := m.listRemote(ctx, snap, r.Server, kind.method, kind.member)
	if err != nil {
		return Reply{}, err
	}
	b = appendNamed(b, r.Kind, items)
	return Reply{Body: append(appendNamed(b, "errors", encode(failed)), '}')}, nil
}

// pick gives the tools that the request asks for, in the list's order.
func (r *listRequest) pick(snap *Snapshot) []*tool {
	var tools []*tool
	if r.Server == "" {
		tools = snap.sorted()
	} else {
		tools = slices.SortedFunc(slices.Values(snap.index[r.Server].tools), func(a, b *tool) int { return strings.Compare(a.name, b.name) })
	}
	words := strings.Fields(strings.ToLower(r.Search))
	var out []*tool
	for _, t := range tools {
		if r.Names != nil && !slices.Contains(r.Names, t.name) {
			continue
		}
		if t.matches(words) {
			out = append(out, t)
		}
	}
	return out
}

// matches tells whether name, title or description hold every word.
func (t *tool) matches(words []string) bool {
	if len(words) == 0 {
		return true
	}
	title, _ := rawjson.String(rawjson.Get(t.def.raw, "title"))
	description, _ := rawjson.String(rawjson.Get(t.def.raw, "description"))
	text := strings.ToLower(t.name + " " + t.def.name + " " + title + " " + description)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// askAll lets ask run at one server, which is waited for, or at every ready one. A
// failure at one of several is in errs, at its view's place, and loses nobody else's answer.
func askAll[T any](ctx context.Context, m *Manager, snap *Snapshot, only string, ask func(context.Context, *serverView) (T, error)) (views []*serverView, got []T, errs []*fault.Error, err error) {
	if only != "" {
		v, _, err := m.await(ctx, only, time.Time{})
		if err != nil {
			return nil, nil, nil, err
		}
		views = []*serverView{v}
	} else {
		for _, v := range snap.servers {
			if v.session != nil {
				views = append(views, v)
			}
		}
	}
	got, errs = make([]T, len(views)), make([]*fault.Error, len(views))
	var group errgroup.Group
	group.SetLimit(16)
	for i, v := range views {
		group.Go(func() error {
			safe.Do(func(bug *fault.Error) { errs[i] = bug }, func() {
				ctx := ctx
				if timeout := m.serverTimeout(&v.entry.Server); timeout > 0 {
					var end context.CancelFunc
					ctx, end = context.WithTimeout(ctx, timeout)
					defer end()
				}
				var err error
				if got[i], err = ask(ctx, v); err != nil {
					errs[i] = v.clean.fault(err)
				}
			})
			return nil
		})
	}
	_ = group.Wait() // each failure is in errs
	if only != "" && errs[0] != nil {
		return nil, nil, nil, errs[0]
	}
	return views, got, errs, nil
}

// refreshTools asks for tools anew, as a host does that does not trust its servers to say when
// they change.
func (m *Manager) refreshTools(ctx context.Context, only string) (failed map[string]*fault.Error, err error) {
	views, _, errs, err := askAll(ctx, m, m.snap.Load(), only, func(ctx context.Context, v *serverView) (none struct{}, err error) {
		m.mu.Lock()
		s := m.servers[v.name]
		m.mu.Unlock()
		if s == nil || v.session == nil {
			return none, nil // it was removed meanwhile
		}
		return none, m.fetchTools(ctx, s, v.session, v.gen, v.entry)
	})
	return failures(views, errs), err
}

func failures(views []*serverView, errs []*fault.Error) map[string]*fault.Error {
	failed := map[string]*fault.Error{}
	for i, v := range views {
		if errs[i] != nil {
			failed[v.name] = errs[i]
		}
	}
	return failed
}

// listRemote asks one server, or every ready one, for a list. Each item gets a "server"
// member in front; the rest is as it was sent.
func (m *Manager) listRemote(ctx context.Context, snap *Snapshot, only, method, member string) ([]byte, map[string]*fault.Error, error) {
	views, lists, errs, err := askAll(ctx, m, snap, only, func(ctx context.Context, v *serverView) (*session.ItemList, error) {
		return v.session.List(ctx, method, member)
	})
	if err != nil {
		return nil, nil, err
	}
	out := []byte{'['}
	for i, v := range views {
		if errs[i] != nil {
			continue
		}
		for _, item := range lists[i].Items {
			if !rawjson.IsObject(item) {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, `{"server":`...)
			out = rawjson.AppendString(out, v.name)
			_ = rawjson.Members(item, func(key string, value []byte) bool {
				if key != "server" {
					out = appendNamed(out, key, value)
				}
				return true
			})
			out = append(out, '}')
		}
	}
	return append(out, ']'), failures(views, errs), nil
}
