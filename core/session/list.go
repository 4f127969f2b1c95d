package session

import (
	"bytes"
	"context"
	"math"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// maxListBytes bounds what all pages of one list hold together.
const maxListBytes = 256 << 20

// ListTools asks for the whole list of tools. A server that declares no tools is not asked.
func (s *Session) ListTools(ctx context.Context) (*ToolList, error) {
	if !s.offers("tools") {
		return &ToolList{CacheScope: "private"}, nil
	}
	s.mu.Lock()
	first := s.first
	s.first = nil
	s.mu.Unlock()
	items, err := s.list(ctx, "tools/list", "tools", first)
	if err != nil {
		return nil, err
	}
	list := &ToolList{Tools: make([]RawTool, 0, len(items.Items)), TTLMs: items.TTLMs, CacheScope: items.CacheScope}
	seen := make(map[string]struct{}, len(items.Items))
	for _, raw := range items.Items {
		name, ok := rawjson.String(rawjson.Get(raw, "name"))
		if !ok {
			list.Dropped++
			continue
		}
		if _, twice := seen[name]; twice {
			list.Duplicates++
			continue
		}
		seen[name] = struct{}{}
		if reason := s.wrongHeaders(raw); reason != "" {
			list.Unusable = append(list.Unusable, UnusableTool{name, reason})
			continue
		}
		list.Tools = append(list.Tools, RawTool{Name: name, Raw: raw})
	}
	return list, nil
}

// List asks for the whole list of a kind: ("resources/list", "resources") and the
// like. Each page is bounded by Config.Timeout, all of them by Config.Limits.
func (s *Session) List(ctx context.Context, method, key string) (*ItemList, error) {
	return s.list(ctx, method, key, nil)
}

// offers tells whether the server declared a capability; one that declared nothing
// readable is asked.
func (s *Session) offers(capability string) bool {
	declared := s.Info().Capabilities
	return !rawjson.IsObject(declared) || rawjson.Get(declared, capability) != nil
}

func (s *Session) list(ctx context.Context, method, key string, first json.RawMessage) (*ItemList, error) {
	list := &ItemList{CacheScope: "public"}
	seen := map[string]bool{} // a cursor that comes again leads round in a circle
	size := 0
	var cursor *string
	var firstItems []byte
	for pages := 1; ; pages++ {
		result := first
		if result == nil || pages > 1 {
			var err error
			if result, err = s.Request(ctx, method, listParams(cursor)); err != nil {
				if pages == 1 && isRPC(err, -32601) {
					return &ItemList{CacheScope: "private"}, nil
				}
				return nil, err
			}
		}
		size += len(result)
		page, err := s.page(result, method, key)
		if err != nil {
			return nil, err
		}
		if pages == 1 {
			firstItems = page.items
		} else if cursor != nil && *cursor == "" && page.cursor != nil && *page.cursor == "" && bytes.Equal(page.items, firstItems) {
			return list, nil // this server means "no more" by "", and starts again when asked for it
		}
		if err := rawjson.Elements(page.items, func(item []byte) bool {
			list.Items = append(list.Items, item)
			return len(list.Items) <= s.cfg.Limits.Tools
		}); err != nil {
			return nil, s.badList(method, "the list is damaged")
		}
		list.merge(page)
		if err := s.withinLimits(method, list, pages, size, page.cursor != nil); err != nil {
			return nil, err
		}
		if page.cursor == nil {
			return list, nil
		}
		if seen[*page.cursor] {
			return nil, s.badList(method, "its pages lead round in a circle: a cursor came twice")
		}
		seen[*page.cursor] = true
		cursor = page.cursor
	}
}

func listParams(cursor *string) []byte {
	if cursor == nil {
		return nil
	}
	return append(rawjson.AppendString([]byte(`{"cursor":`), *cursor), '}')
}

type page struct {
	items  []byte // the raw array
	cursor *string
	ttl    *int64
	public bool
}

// page reads one result; its slices alias it.
func (s *Session) page(result []byte, method, key string) (*page, error) {
	p := &page{items: []byte("[]")}
	if !json.Valid(result) {
		return nil, s.badList(method, "it is not valid JSON")
	}
	var items, next []byte
	err := rawjson.Members(result, func(name string, value []byte) bool {
		switch name {
		case key:
			items = value
		case "nextCursor":
			next = value
		case "ttlMs":
			p.ttl = ttl(value)
		case "cacheScope":
			p.public = string(value) == `"public"`
		}
		return true
	})
	if err != nil || items == nil {
		return nil, s.badList(method, "it has no "+key)
	}
	if string(items) != "null" { // what Go servers make of an empty list
		p.items = items
	}
	if next != nil && string(next) != "null" {
		cursor, ok := rawjson.String(next)
		if !ok {
			return nil, s.badList(method, "its cursor is no string")
		}
		p.cursor = &cursor
	}
	return p, nil
}

// ttl reads a time leniently: what is no number says nothing, a negative one means 0.
func ttl(raw []byte) *int64 {
	var ms float64
	if json.Unmarshal(raw, &ms) != nil || string(raw) == "null" {
		return nil
	}
	n := int64(min(max(ms, 0), math.MaxInt32*1000))
	return &n
}

func (l *ItemList) merge(p *page) {
	if !p.public {
		l.CacheScope = "private"
	}
	if p.ttl != nil && (l.TTLMs == nil || *p.ttl < *l.TTLMs) {
		l.TTLMs = p.ttl
	}
}

func (s *Session) withinLimits(method string, list *ItemList, pages, size int, more bool) error {
	limits := s.cfg.Limits
	var limit string
	switch {
	case len(list.Items) > limits.Tools:
		limit = "limits.tools"
	case pages >= limits.Pages && more:
		limit = "limits.pages"
	case size > maxListBytes:
		limit = "256 MiB"
	default:
		return nil
	}
	return s.errorf(fault.TooLarge, fault.StageReceive, "the answer of server %q to %s is longer than %s allows (%d items on %d pages so far)",
		s.cfg.Server, method, limit, len(list.Items), pages)
}

func (s *Session) badList(method, what string) error {
	return s.errorf(fault.Protocol, fault.StageDecode, "the answer of server %q to %s cannot be used: %s", s.cfg.Server, method, what)
}

func isRPC(err error, code int64) bool {
	f := fault.From(err)
	return f.Code == fault.RPCError && f.Data != nil && f.Data.RPCCode != nil && *f.Data.RPCCode == code
}
