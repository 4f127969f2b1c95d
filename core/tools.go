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
	defs      []*toolDef // in the server's order, unfiltered
	byName    map[string]*toolDef
	fetchedAt time.Time
	ttl       time.Duration // the server's own ttlMs; < 0: it gave none
}

func newToolSet(tools []session.RawTool, fetchedAt time.Time, ttlMs *int64) *toolSet {
	set := &toolSet{fetchedAt: fetchedAt, ttl: -1, defs: make([]*toolDef, 0, len(tools)), byName: make(map[string]*toolDef, len(tools))}
	if ttlMs != nil {
		set.ttl = time.Duration(*ttlMs) * time.Millisecond
	}
	for _, t := range tools {
		d := newToolDef(t)
		set.defs = append(set.defs, d)
		set.byName[t.Name] = d
	}
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
	flags    toolFlags
	encodeMu sync.Once
	encoded  []byte
}

type toolFlags struct {
	deferred, stale, unavailable bool
	fetchedAt                    time.Time
}

// json gives the Tool object of the contract. Members that the server sent are
// copied byte for byte, those that mcprt does not know included; a member of the
// server that has one of mcprt's own names is left out.
func (t *tool) json() []byte {
	t.encodeMu.Do(func() {
		b := make([]byte, 0, len(t.def.raw)+len(t.name)+len(t.label)+160)
		b = append(b, `{"name":`...)
		b = rawjson.AppendString(b, t.name)
		b = append(b, `,"server":`...)
		b = rawjson.AppendString(b, t.server)
		b = append(b, `,"tool":`...)
		b = rawjson.AppendString(b, t.def.name)
		b = append(b, `,"label":`...)
		b = rawjson.AppendString(b, t.label)
		_ = rawjson.Members(t.def.raw, func(key string, value []byte) bool {
			switch key {
			case "name", "server", "tool", "label", "deferred", "stale", "unavailable", "fetchedAt":
				return true
			}
			b = append(b, ',')
			b = rawjson.AppendString(b, key)
			b = append(b, ':')
			b = append(b, value...)
			return true
		})
		if !t.def.schema {
			b = append(b, `,"inputSchema":{}`...)
		}
		b = append(b, `,"deferred":`...)
		b = strconv.AppendBool(b, t.flags.deferred)
		b = append(b, `,"stale":`...)
		b = strconv.AppendBool(b, t.flags.stale)
		b = append(b, `,"unavailable":`...)
		b = strconv.AppendBool(b, t.flags.unavailable)
		b = append(b, `,"fetchedAt":"`...)
		b = t.flags.fetchedAt.UTC().AppendFormat(b, time.RFC3339)
		b = append(b, `"}`...)
		t.encoded = b
	})
	return t.encoded
}
