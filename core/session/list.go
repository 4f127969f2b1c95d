package session

import (
	"bytes"
	"context"
	"math"
	"slices"

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
	first, known := s.first, s.tools
	s.first = nil
	s.mu.Unlock()
	items, pages, err := s.list(ctx, "tools/list", "tools", first, known.pages)
	if err != nil {
		return nil, err
	}
	if known.list != nil && slices.Equal(pages, known.pages) {
		return known.list, nil
	}
	list := s.toolList(items)
	s.mu.Lock()
	s.tools = knownTools{pages, list}
	s.mu.Unlock()
	return list, nil
}

// knownTools is the last list of tools, and the pages that it was made of. Most lists that are
// asked for again are what they were, and to compare bytes is much cheaper than to read them.
type knownTools struct {
	pages []*page
	list  *ToolList
}

func (s *Session) toolList(items *ItemList) *ToolList {
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
	return list
}

// List asks for the whole list of a kind: ("resources/list", "resources") and the
// like. Each page is bounded by Config.Timeout, all of them by Config.Limits.
func (s *Session) List(ctx context.Context, method, key string) (*ItemList, error) {
	list, _, err := s.list(ctx, method, key, nil, nil)
	return list, err
}

// offers tells whether the server declared a capability; one that declared nothing
// readable is asked.
func (s *Session) offers(capability string) bool {
	declared := s.Info().Capabilities
	return !rawjson.IsObject(declared) || rawjson.Get(declared, capability) != nil
}

// list asks for page after page. first is the first one, if it came already; known are the pages
// of the last time.
func (s *Session) list(ctx context.Context, method, key string, first json.RawMessage, known []*page) (*ItemList, []*page, error) {
	list := &ItemList{CacheScope: "public"}
	seen := map[string]bool{} // a cursor that comes again leads round in a circle
	size := 0
	var cursor *string
	var pages []*page
	for {
		n := len(pages)
		result := first
		if result == nil || n > 0 {
			var err error
			if result, err = s.Request(ctx, method, listParams(cursor)); err != nil {
				if n == 0 && isRPC(err, -32601) {
					return &ItemList{CacheScope: "private"}, nil, nil
				}
				return nil, nil, err
			}
		}
		size += len(result)
		var p *page
		if n < len(known) && bytes.Equal(result, known[n].raw) {
			p = known[n]
		} else {
			var err error
			if p, err = s.page(result, method, key); err != nil {
				return nil, nil, err
			}
		}
		if cursor != nil && *cursor == "" && p.cursor != nil && *p.cursor == "" && bytes.Equal(p.array, pages[0].array) {
			return list, pages, nil // this server means "no more" by "", and starts again when asked for it
		}
		pages = append(pages, p)
		list.Items = append(list.Items, p.items...)
		list.merge(p)
		if err := s.withinLimits(method, list, len(pages), size, p.cursor != nil); err != nil {
			return nil, nil, err
		}
		if p.cursor == nil {
			return list, pages, nil
		}
		if seen[*p.cursor] {
			return nil, nil, s.badList(method, "its pages lead round in a circle: a cursor came twice")
		}
		seen[*p.cursor] = true
		cursor = p.cursor
	}
}

func listParams(cursor *string) []byte {
	if cursor == nil {
		return nil
	}
	return append(rawjson.AppendString([]byte(`{"cursor":`), *cursor), '}')
}

// page is one result; its slices alias it. It never changes.
type page struct {
	raw    []byte // the whole result
	array  []byte // of items
	items  []json.RawMessage
	cursor *string
	ttl    *int64
	public bool
}

// page reads one result, and of its items one more than is allowed at most.
func (s *Session) page(result []byte, method, key string) (*page, error) {
	p := &page{raw: result, array: []byte("[]")}
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
		p.array = items
	}
	if err := rawjson.Elements(p.array, func(item []byte) bool {
		p.items = append(p.items, item)
		return len(p.items) <= s.cfg.Limits.Tools
	}); err != nil {
		return nil, s.badList(method, "the list is damaged")
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
