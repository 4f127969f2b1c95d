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

// listVerb gives tools and servers from the snapshot, never from the network;
// resources, templates and prompts come from the servers.
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
	b := appendRevision(nil, snap.rev)
	switch r.Kind {
	case "", "tools", "servers":
		if r.IfRevision != nil && *r.IfRevision == snap.rev {
			return Reply{Body: append(b, `,"unchanged":true}`...)}, nil
		}
	}
	switch r.Kind {
	case "", "tools":
		if formatted {
			return snap.formatted(provider).reply(b, snap, &r), nil
		}
		if r.Server == "" && r.Names == nil && r.Search == "" {
			return Reply{Head: append(b, `,"tools":`...), Body: snap.allTools(), Tail: []byte(`}`)}, nil
		}
		return Reply{Body: append(appendNamed(b, "tools", appendTools(nil, r.pick(snap))), '}')}, nil
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

// listRemote asks one server, which is waited for, or every ready one, for a
// list. Each item gets a "server" member in front; the rest is as it was sent.
// One server's failure does not lose the others' items.
func (m *Manager) listRemote(ctx context.Context, snap *Snapshot, only, method, member string) ([]byte, map[string]*fault.Error, error) {
	var views []*serverView
	if only != "" {
		v, _, err := m.await(ctx, only, time.Time{})
		if err != nil {
			return nil, nil, err
		}
		views = []*serverView{v}
	} else {
		for _, v := range snap.servers {
			if v.session != nil {
				views = append(views, v)
			}
		}
	}
	lists := make([]*session.ItemList, len(views))
	errs := make([]*fault.Error, len(views))
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
				items, err := v.session.List(ctx, method, member)
				if err != nil {
					errs[i] = v.clean.fault(err)
					return
				}
				lists[i] = items
			})
			return nil
		})
	}
	_ = group.Wait() // each failure is in errs
	out, failed := []byte{'['}, map[string]*fault.Error{}
	for i, v := range views {
		if errs[i] != nil {
			if only != "" {
				return nil, nil, errs[i]
			}
			failed[v.name] = errs[i]
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
	return append(out, ']'), failed, nil
}
