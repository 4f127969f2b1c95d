package core

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/format"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/session"
)

// toolDef is one tool as its server defined it. It never changes.
type toolDef struct {
	name   string
	raw    []byte // the whole definition, byte for byte
	schema bool   // it has an inputSchema
	safe   bool   // readOnlyHint or idempotentHint; believed only of a live list
	task   bool   // it can only be called as a task

	formats [format.Count]atomic.Pointer[format.Definition]
}

func newToolDef(t session.RawTool) *toolDef {
	d := &toolDef{name: t.Name, raw: t.Raw}
	_ = rawjson.Members(t.Raw, func(key string, value []byte) bool {
		switch key {
		case "inputSchema":
			d.schema = true
		case "execution":
			support, _ := rawjson.String(rawjson.Get(value, "taskSupport"))
			d.task = support == "required"
		case "annotations":
			_ = rawjson.Members(value, func(hint string, v []byte) bool {
				if hint == "readOnlyHint" || hint == "idempotentHint" {
					d.safe = d.safe || string(v) == "true"
				}
				return true
			})
		}
		return true
	})
	return d
}

// toolSet is what is known of one server's tools: a live list, or one from the
// cache. It never changes; a new list is a new set.
type toolSet struct {
	*definitions
	fetchedAt time.Time
	ttl       time.Duration // the server's own ttlMs; < 0: it gave none
}

// definitions are shared by the sets of lists that are the same.
type definitions struct {
	list   *session.ToolList // that they were made of; nil: one from the cache
	defs   []*toolDef        // in the server's order, unfiltered
	byName map[string]*toolDef
}

func newToolSet(tools []session.RawTool, fetchedAt time.Time, ttlMs *int64) *toolSet {
	all := &definitions{defs: make([]*toolDef, 0, len(tools)), byName: make(map[string]*toolDef, len(tools))}
	for _, t := range tools {
		d := newToolDef(t)
		all.defs = append(all.defs, d)
		all.byName[t.Name] = d
	}
	set := &toolSet{definitions: all, fetchedAt: fetchedAt, ttl: -1}
	if ttlMs != nil {
		set.ttl = time.Duration(*ttlMs) * time.Millisecond
	}
	return set
}

// fetched is the set of a list that a server gave just now; was is what was known of it, or nil.
func fetched(list *session.ToolList, was *toolSet) *toolSet {
	if was != nil && was.list == list {
		return &toolSet{definitions: was.definitions, fetchedAt: time.Now(), ttl: was.ttl}
	}
	set := newToolSet(list.Tools, time.Now(), list.TTLMs)
	set.list = list
	return set
}

// stale tells whether the server's own promise about its list has run out. A
// server that gave none leaves that to list_changed.
func (s *toolSet) stale() bool { return s.ttl >= 0 && time.Since(s.fetchedAt) >= s.ttl }

// tool is one entry of the list that hosts see. It never changes.
type tool struct {
	name     string // minted
	server   string
	def      *toolDef
	label    string
	headOnce sync.Once
	head     []byte
}

// toolFlags are what all tools of a server have in common.
type toolFlags struct {
	deferred, stale, unavailable bool
	fetchedAt                    time.Time // as it is shown: in whole seconds
}

// appendTo appends the Tool object of the contract, of which tail is the end. Members that the
// server sent are copied byte for byte, those that mcprt does not know included; a member of
// the server that has one of mcprt's own names is left out.
func (t *tool) appendTo(b, tail []byte) []byte {
	t.headOnce.Do(func() {
		h := make([]byte, 0, len(t.def.raw)+len(t.name)+len(t.label)+80)
		h = append(h, `{"name":`...)
		h = rawjson.AppendString(h, t.name)
		h = append(h, `,"server":`...)
		h = rawjson.AppendString(h, t.server)
		h = append(h, `,"tool":`...)
		h = rawjson.AppendString(h, t.def.name)
		h = append(h, `,"label":`...)
		h = rawjson.AppendString(h, t.label)
		_ = rawjson.Members(t.def.raw, func(key string, value []byte) bool {
			switch key {
			case "name", "server", "tool", "label", "deferred", "stale", "unavailable", "fetchedAt":
				return true
			}
			h = append(h, ',')
			h = rawjson.AppendString(h, key)
			h = append(h, ':')
			h = append(h, value...)
			return true
		})
		if !t.def.schema {
			h = append(h, `,"inputSchema":{}`...)
		}
		t.head = h
	})
	return append(append(b, t.head...), tail...)
}

// tail is the end of each Tool object.
func (f toolFlags) tail() []byte {
	b := append([]byte(nil), `,"deferred":`...)
	b = strconv.AppendBool(b, f.deferred)
	b = append(b, `,"stale":`...)
	b = strconv.AppendBool(b, f.stale)
	b = append(b, `,"unavailable":`...)
	b = strconv.AppendBool(b, f.unavailable)
	b = append(b, `,"fetchedAt":"`...)
	b = f.fetchedAt.UTC().AppendFormat(b, time.RFC3339)
	return append(b, `"}`...)
}
