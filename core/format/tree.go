package format

import (
	"strconv"

	"github.com/mcprt/mcprt/core/rawjson"
)

// node is one JSON value. Scalars stay as they were sent, so that no number is
// rounded; an object's members keep their order.
type node struct {
	kind    byte // '{', '[', '"', 't' (true and false), '0' (a number), 'n' (null)
	raw     []byte
	text    string // of a string
	members []member
	items   []*node
	index   map[string]int // of members, where those are many and one was looked up
}

type member struct {
	key   string
	value *node
}

// maxDepth bounds how deep a document may be nested to be looked into. Schemas of
// real tools stay below 20.
const maxDepth = 100

// parse reads valid JSON in one pass; nil where it is nested deeper than maxDepth.
func parse(raw []byte) *node {
	p := &parser{b: raw}
	n := p.value(0)
	if p.tooDeep {
		return nil
	}
	return n
}

type parser struct {
	b       []byte
	i       int
	tooDeep bool
}

func (p *parser) space() byte {
	for p.i < len(p.b) {
		switch c := p.b[p.i]; c {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return c
		}
	}
	return 0
}

func (p *parser) scalar() []byte {
	start := p.i
	p.i = max(rawjson.Value(p.b, p.i), p.i+1) // ahead in any case: what is no JSON must not hold us
	p.i = min(p.i, len(p.b))
	return p.b[start:p.i]
}

func (p *parser) value(depth int) *node {
	c := p.space()
	if (c == '{' || c == '[') && depth >= maxDepth {
		p.tooDeep = true
	}
	if p.tooDeep {
		p.i = len(p.b)
		return null
	}
	switch c {
	case '{':
		n := &node{kind: '{'}
		for p.i++; p.space() == '"'; {
			key, _ := rawjson.String(p.scalar())
			if p.space() == ':' {
				p.i++
			}
			n.members = append(n.members, member{key, p.value(depth + 1)})
			if p.space() == ',' {
				p.i++
			}
		}
		p.i++
		n.dropRepeated()
		return n
	case '[':
		n := &node{kind: '['}
		for p.i++; p.space() != ']' && p.i < len(p.b); {
			n.items = append(n.items, p.value(depth+1))
			if p.space() == ',' {
				p.i++
			}
		}
		p.i++
		return n
	case '"':
		raw := p.scalar()
		s, _ := rawjson.String(raw)
		return &node{kind: '"', raw: raw, text: s}
	case 't', 'f':
		return &node{kind: 't', raw: p.scalar()}
	case 'n', 0:
		p.scalar()
		return null
	}
	return &node{kind: '0', raw: p.scalar()}
}

var null = &node{kind: 'n', raw: []byte("null")}

func str(s string) *node    { return &node{kind: '"', raw: rawjson.AppendString(nil, s), text: s} }
func boolean(b bool) *node  { return &node{kind: 't', raw: strconv.AppendBool(nil, b)} }
func list(n ...*node) *node { return &node{kind: '[', items: n} }
func strs(s []string) *node {
	n := list()
	for _, one := range s {
		n.items = append(n.items, str(one))
	}
	return n
}

func object(pairs ...any) *node {
	n := &node{kind: '{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		n.members = append(n.members, member{pairs[i].(string), pairs[i+1].(*node)})
	}
	return n
}

// is tells a kind, of a nil node too.
func (n *node) is(kind byte) bool { return n != nil && n.kind == kind }

func (n *node) isTrue() bool  { return n.is('t') && n.raw[0] == 't' }
func (n *node) isFalse() bool { return n.is('t') && n.raw[0] == 'f' }

// get gives a member, or nil.
func (n *node) get(key string) *node {
	if n.is('{') {
		if i := n.find(key); i >= 0 {
			return n.members[i].value
		}
	}
	return nil
}

// set replaces a member in its place, or appends it.
func (n *node) set(key string, value *node) {
	if i := n.find(key); i >= 0 {
		n.members[i].value = value
		return
	}
	n.members = append(n.members, member{key, value})
	if n.index != nil {
		n.index[key] = len(n.members) - 1
	}
}

func (n *node) find(key string) int {
	if n.index == nil {
		if len(n.members) <= 32 {
			for i := range n.members {
				if n.members[i].key == key {
					return i
				}
			}
			return -1
		}
		n.index = make(map[string]int, len(n.members))
		for i, m := range n.members {
			n.index[m.key] = i
		}
	}
	if i, ok := n.index[key]; ok {
		return i
	}
	return -1
}

// dropRepeated leaves the last of equal keys, as every decoder that hosts use does.
func (n *node) dropRepeated() {
	last := make(map[string]int, len(n.members))
	for i, m := range n.members {
		last[m.key] = i
	}
	if len(last) == len(n.members) {
		return
	}
	kept := n.members[:0]
	for i, m := range n.members {
		if last[m.key] == i {
			kept = append(kept, m)
		}
	}
	n.members = kept
}

// clone copies the outermost object, whose members may then be set.
func (n *node) clone() *node {
	c := *n
	c.members = append([]member(nil), n.members...)
	c.index = nil
	return &c
}

// without copies an object but for some members.
func (n *node) without(keys ...string) *node {
	c := &node{kind: '{'}
next:
	for _, m := range n.members {
		for _, k := range keys {
			if m.key == k {
				continue next
			}
		}
		c.members = append(c.members, m)
	}
	return c
}

// number gives a number's value.
func (n *node) number() (float64, bool) {
	if !n.is('0') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(n.raw), 64)
	return f, err == nil
}

// strings gives the strings in an array.
func (n *node) strings() (all []string) {
	if n.is('[') {
		for _, item := range n.items {
			if item.is('"') {
				all = append(all, item.text)
			}
		}
	}
	return all
}

func (n *node) append(b []byte) []byte {
	switch n.kind {
	case '{':
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(rawjson.AppendString(b, m.key), ':')
			b = m.value.append(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	}
	return append(b, n.raw...)
}
