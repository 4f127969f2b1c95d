package core

import (
	"sync"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/format"
	"github.com/mcprt/mcprt/core/rawjson"
)

// formatOf reads the "format" of a request. formatted is false for MCP's own.
func formatOf(name string) (p format.Provider, formatted bool, err error) {
	if name == "" || name == "mcp" {
		return 0, false, nil
	}
	p, ok := format.Parse(name)
	if !ok {
		return 0, false, fault.New(fault.InvalidRequest, "", `"format" is "mcp", %s, not %q`, format.Known(), name)
	}
	return p, true, nil
}

// formatted is the list as one provider takes it, made when somebody asks first.
type formatted struct {
	provider format.Provider
	once     sync.Once
	given    map[string]string // the provider's names, by ours, of tools whose name it would not take
	ours     map[string]string // the other way round

	allOnce sync.Once
	all     []byte // the members "tools" and "names" of the whole list
	allErr  error
}

// maxFormatted bounds a list. Schemas may become longer than the servers' own are.
const maxFormatted = 256 << 20

// formatted gives the snapshot's list for a provider.
func (s *Snapshot) formatted(p format.Provider) *formatted {
	f := &s.formats[p]
	f.once.Do(func() {
		f.provider = p
		tools := s.sorted()
		names := make([]string, 0, len(tools))
		for _, t := range tools {
			names = append(names, t.name)
		}
		f.given = p.Names(names)
		f.ours = make(map[string]string, len(f.given))
		for own, given := range f.given {
			f.ours[given] = own
		}
	})
	return f
}

func (f *formatted) name(t *tool) string {
	if given, ok := f.given[t.name]; ok {
		return given
	}
	return t.name
}

func (f *formatted) reply(head []byte, s *Snapshot, r *listRequest, tail []byte) (Reply, error) {
	if r.Server == "" && r.Names == nil && r.Search == "" {
		f.allOnce.Do(func() { f.all, f.allErr = f.appendTools(nil, s.sorted(), maxFormatted) })
		return Reply{Head: head, Body: f.all, Tail: tail}, f.allErr
	}
	body, err := f.appendTools(head, r.pick(s), maxFormatted)
	return Reply{Body: append(body, tail...)}, err
}

// appendTools appends the tools, and the names of those that are called otherwise here.
func (f *formatted) appendTools(b []byte, tools []*tool, most int) ([]byte, error) {
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		if b = t.def.formatted(f.provider).Append(b, f.name(t)); len(b) > most {
			return nil, fault.New(fault.TooLarge, "", `the %d tools in the format %q are over %d MB; choose some of them with "server", "names" or "search"`, len(tools), f.provider, most>>20)
		}
	}
	b = append(b, `],"names":{`...)
	some := false
	for _, t := range tools {
		given, other := f.given[t.name]
		if !other {
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(rawjson.AppendString(b, given), ':')
		b = rawjson.AppendString(b, t.name)
	}
	return append(b, '}'), nil
}

// formatted gives the definition for a provider, made at most once or so: two that ask
// at the same moment may both make it.
func (d *toolDef) formatted(p format.Provider) *format.Definition {
	made := d.formats[p].Load()
	if made == nil {
		made = p.Make(d.raw)
		d.formats[p].Store(made)
	}
	return made
}

// spoken is the provider whose model made a call, and what it calls things.
type spoken struct {
	provider format.Provider
	name     string // of the tool
	callID   string
}

// listen takes a call as a provider's model made it: from here on it is MCP's.
func (op *callOp) listen() error {
	r := &op.req
	p, formatted, err := formatOf(r.Format)
	switch {
	case err != nil:
		return err
	case !formatted && r.CallID != "":
		return fault.New(fault.InvalidRequest, "", `"callId" is for the model of a "format"`)
	case !formatted:
		return nil
	case r.Method != "" || r.Server != "":
		return fault.New(fault.InvalidRequest, "", `with "format", "tool" is a name from the list of that format, and there is no "server" or "method"`)
	}
	op.out.spoken = &spoken{p, r.Tool, r.CallID}
	snap := op.m.snap.Load()
	if own, ok := snap.formatted(p).ours[r.Tool]; ok {
		r.Tool = own
	}
	var def *format.Definition
	if id, ok := snap.route(r.Tool); ok {
		if v := snap.index[id.Server]; v != nil && v.known != nil && v.known.byName[id.Tool] != nil {
			def = v.known.byName[id.Tool].formatted(p)
		}
	}
	if r.Arguments, err = def.Arguments(r.Arguments); err != nil {
		e := fault.New(fault.InvalidRequest, "", "the call of %q cannot be made: %v", r.Tool, err)
		e.Tool = r.Tool
		return e
	}
	return nil
}

// appendMessage appends the members that say the result as the provider takes it.
func (s *spoken) appendMessage(b, result []byte) []byte {
	message, followUp := s.provider.Result(s.name, s.callID, result)
	b = append(append(b, `,"message":`...), message...)
	if followUp != nil {
		b = append(append(b, `,"followUp":`...), followUp...)
	}
	return b
}
