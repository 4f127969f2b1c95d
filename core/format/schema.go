package format

import (
	"slices"
	"strconv"
	"strings"
)

var noArguments = []byte(`{"type":"object","properties":{}}`)

// schema gives the provider's form of an inputSchema, nil where the provider wants none
// for a tool without arguments.
func (p Provider) schema(raw []byte) ([]byte, back) {
	var root *node
	if len(raw) <= maxSchemaBytes {
		root = parse(raw)
	}
	if !root.is('{') {
		if p == Gemini {
			return nil, back{}
		}
		return noArguments, back{}
	}
	c, out := p.convert(root, len(raw), rules[p].inline)
	if out != nil && !c.inline && c.changed && (c.negated || !stillMean(out)) {
		c, out = p.convert(root, len(raw), true)
	}
	switch {
	case out == nil:
		return nil, c.back
	case !c.changed:
		return raw, c.back
	}
	return out.without("$schema").append(nil), c.back // it may no longer be of that draft
}

func (p Provider) convert(root *node, size int, inline bool) (c *converter, out *node) {
	// Where unfolding leads too far, definitions are followed less often, so that what is
	// left is cut evenly and not behind the first half.
	for recursion := maxRecursion; recursion > 0; recursion-- {
		c = &converter{rules: rules[p].property, inline: inline, refs: newRefs(root, size, recursion), doc: root}
		if p == Gemini {
			out = c.geminiRoot(root)
		} else {
			out = c.root(root, rules[p].root)
		}
		if !c.refs.spent() {
			break
		}
	}
	return c, out
}

// stillMean tells whether the $refs of a changed document may stay: each has its target
// in it, and none means the root, which now is an object's.
func stillMean(root *node) bool {
	refs := newRefs(root, 0, 1)
	var all func(n *node) bool
	all = func(n *node) bool {
		if ref, has := refOf(n); has {
			if target := refs.target(ref); target == nil || target == root {
				return false
			}
		}
		return !slices.ContainsFunc(n.members, func(m member) bool { return !all(m.value) }) &&
			!slices.ContainsFunc(n.items, func(item *node) bool { return !all(item) })
	}
	return all(root)
}

// converter makes one schema fit for a provider.
type converter struct {
	rules   *nameRule
	inline  bool
	refs    *refs
	doc     *node
	changed bool // the result differs from what the server sent
	within  int  // keywords within which what allows more allows less outside
	negated bool // a $ref is within one: it is not seen there whether its target changed
	prefix  string
	back    back
	keys    map[string]string // the provider's names of properties, by the server's
	taken   map[string]bool
}

func (c *converter) anything() *node {
	c.changed = true
	return object()
}

// root makes a schema of arguments: an object's, with nothing at its top that the
// provider refuses there.
func (c *converter) root(n *node, refused []string) *node {
	n, through := c.flatten(n, true)
	defer c.leave(through)
	types := typesOf(n.get("type"))
	wrap := types != nil && !slices.Contains(types, "object")
	for _, key := range refused {
		v := n.get(key)
		switch {
		case v == nil:
		case onlyRequired(v): // "at least one of them": the server checks that
			n, c.changed = n.without(key), true
		default:
			wrap = true
		}
	}
	if wrap {
		return c.wrap(n)
	}
	if len(types) != 1 {
		n, c.changed = n.clone(), true
		n.set("type", str("object"))
	}
	if !n.get("properties").is('{') {
		n, c.changed = n.clone(), true
		n.set("properties", object())
	}
	return c.keyword(n)
}

// flatten follows a schema's $ref, and takes its allOf and a choice of one into it. The
// targets that it went through are to be left by the caller.
func (c *converter) flatten(n *node, exactly bool) (*node, []*node) {
	var through []*node
	for range maxRefs {
		if _, has := refOf(n); has {
			at, more := c.refs.deref(n)
			through = append(through, more...)
			at = at.clone()
			for _, key := range []string{"$defs", "definitions", "$id"} { // other $refs point there
				if v := c.doc.get(key); v != nil && !c.inline {
					at.set(key, v)
				}
			}
			n, c.changed = at, true
			continue
		}
		merged, more, ok := c.absorb(n, exactly)
		through = append(through, more...)
		if !ok {
			return n, through
		}
		n, c.changed = merged, true
	}
	return n, through
}

// absorb takes an allOf, or a choice of one, into the schema; false: there is nothing to
// take in, or, where it has to be exact, it cannot be.
func (c *converter) absorb(n *node, exactly bool) (out *node, through []*node, ok bool) {
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		v := n.get(key)
		if !v.is('[') || len(v.items) == 0 || len(v.items) > 1 && key != "allOf" {
			continue
		}
		out, exact := n.without(key), true
		var through []*node
		for _, part := range v.items {
			if !part.is('{') {
				continue
			}
			at, more := c.refs.deref(part)
			through = append(through, more...)
			var ok bool
			// What stands outside says more about this place than what it is made of.
			out, ok = merge(at, out)
			exact = exact && ok
		}
		if exact || !exactly {
			return out, through, true
		}
		c.leave(through)
	}
	return nil, nil, false
}

func (c *converter) leave(through []*node) {
	for _, target := range through {
		c.refs.leave(target)
	}
}

// onlyRequired tells that a choice is just one of names that have to be there.
func onlyRequired(choice *node) bool {
	if !choice.is('[') {
		return !choice.is('{') // it is no schema
	}
	for _, v := range choice.items {
		if !v.is('{') {
			continue
		}
		for _, m := range v.members {
			if m.key != "required" && !slices.Contains(annotations, m.key) {
				return false
			}
		}
	}
	return true
}

// wrap puts a schema that cannot be a root into a property.
func (c *converter) wrap(n *node) *node {
	c.changed, c.back.wrapped = true, true
	c.prefix = "#/properties/" + wrapper
	return object("type", str("object"), "properties", object(wrapper, c.keyword(n.without("$schema"))), "required", strs([]string{wrapper}))
}

// schema converts a schema inside another one.
func (c *converter) schema(n *node) *node {
	switch {
	case n.isTrue():
		return c.anything()
	case n.isFalse():
		c.changed = true
		return object("not", object())
	case !n.is('{'):
		return c.anything()
	}
	ref, has := refOf(n)
	if !has {
		return c.keyword(n)
	}
	target := c.refs.target(ref)
	beside := n.without("$ref", "$dynamicRef", "$recursiveRef")
	if !c.inline {
		c.negated = c.negated || c.within > 0
		if !target.is('{') && !target.is('t') { // no such definition: the API refuses the whole request
			c.changed = true
			return c.keyword(beside)
		}
		out := c.keyword(beside).clone()
		if c.prefix != "" {
			ref, c.changed = c.moved(ref), true
		}
		out.members = append([]member{{"$ref", str(ref)}}, out.members...)
		if n.get("$ref") == nil {
			c.changed = true
		}
		return out
	}
	c.changed = true
	if target.is('t') {
		return c.schema(target)
	}
	if !c.refs.enter(target) {
		if target == nil {
			return c.keyword(beside)
		}
		return c.keyword(cut(target, beside))
	}
	defer c.refs.leave(target)
	for _, m := range beside.members {
		if !slices.Contains(annotations, m.key) {
			return c.keyword(object("allOf", list(target, beside)))
		}
	}
	at := target.clone()
	for _, m := range beside.members {
		at.set(m.key, m.value)
	}
	return c.schema(at)
}

// moved gives a reference from inside the wrapper.
func (c *converter) moved(ref string) string {
	_, fragment, _ := strings.Cut(ref, "#")
	if fragment == "" || strings.HasPrefix(fragment, "/") {
		return c.prefix + fragment
	}
	return "#" + fragment // an anchor
}

// jsonTypes are JSON Schema's, with the words that servers say instead.
var jsonTypes = map[string]string{"string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "object": "object", "array": "array", "null": "null",
	"str": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean", "dict": "object", "list": "array", "none": "null"}

// keyword converts a schema's keywords, to those of JSON Schema 2020-12. One that is not
// as it should be is left out: a provider that checks refuses every tool for it.
func (c *converter) keyword(n *node) *node {
	if !c.refs.spend(n) {
		return c.anything()
	}
	out := &node{kind: '{', members: make([]member, 0, len(n.members))}
	put := func(key string, v *node) { out.members = append(out.members, member{key, v}) }
	dropped := map[string]bool{}
	for _, m := range n.members {
		v := m.value
		switch m.key {
		case "properties":
			if c.is(v, '{') {
				put(m.key, c.each(v, c.property))
			}
		case "patternProperties", "dependentSchemas", "$defs", "definitions":
			switch {
			case c.inline && (m.key == "$defs" || m.key == "definitions"):
				c.changed = true
			case c.is(v, '{'):
				put(m.key, c.each(v, func(key string) string { return key }))
			}
		case "items":
			if v.is('[') { // a tuple, as it was written until 2019-09
				c.changed = true
				if len(v.items) > 0 {
					put("prefixItems", c.all(v))
				}
				if more := n.get("additionalItems"); more.is('{') || more.is('t') {
					put("items", c.boolOrSchema(more))
				} else {
					put("items", object())
				}
			} else {
				put(m.key, c.boolOrSchema(v))
			}
		case "additionalItems":
			c.changed = true
		case "prefixItems", "anyOf", "allOf":
			if c.is(v, '[') && len(v.items) > 0 {
				put(m.key, c.all(v))
			} else {
				c.changed = true
			}
		case "oneOf":
			if !c.is(v, '[') || len(v.items) == 0 {
				c.changed = true
			} else if all, changed := c.noting(func() *node { return c.all(v) }); !changed {
				put(m.key, all)
			} else if n.get("anyOf") == nil { // variants that allow more may not stay apart
				put("anyOf", all)
			}
		case "not", "if", "contains": // what allows more here allows less outside
			if inner, changed := c.noting(func() *node { return c.schema(v) }); !changed {
				put(m.key, inner)
			} else {
				dropped[m.key] = true
			}
		case "unevaluatedProperties", "unevaluatedItems":
			if (v.is('{') || v.is('t')) && !c.inline { // where a definition was cut nothing is evaluated
				put(m.key, c.boolOrSchema(v))
			} else {
				c.changed = true
			}
		case "additionalProperties":
			if v.is('{') || v.is('t') {
				put(m.key, c.boolOrSchema(v))
			} else {
				c.changed = true
			}
		case "propertyNames", "then", "else", "contentSchema":
			put(m.key, c.schema(v))
		case "type":
			if t := c.types(v); t != nil {
				put(m.key, t)
			}
		case "required":
			if c.is(v, '[') {
				put(m.key, c.required(v))
			}
		case "enum":
			if c.is(v, '[') && len(v.items) > 0 {
				put(m.key, v)
			} else {
				c.changed = true
			}
		case "exclusiveMinimum", "exclusiveMaximum":
			switch {
			case v.is('0'):
				put(m.key, v)
			case v.isTrue(): // as it was written in draft 4, beside minimum
				if limit := n.get(strings.ToLower(strings.TrimPrefix(m.key, "exclusive"))); limit.is('0') {
					put(m.key, limit)
				}
				c.changed = true
			default:
				c.changed = true
			}
		case "minimum", "maximum", "multipleOf":
			if c.is(v, '0') {
				put(m.key, v)
			}
		case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
			if c.isCount(v) {
				put(m.key, v)
			}
		case "title", "description", "pattern", "format", "$comment":
			if c.is(v, '"') {
				put(m.key, v)
			}
		case "$id", "$anchor", "$dynamicAnchor", "id":
			if c.inline || c.prefix != "" && m.key == "$id" {
				c.changed = true
			} else {
				put(m.key, v)
			}
		case "$ref", "$dynamicRef", "$recursiveRef": // more of them in a row than are followed
			c.changed = true
		default:
			put(m.key, v)
		}
	}
	if dropped["if"] {
		out = out.without("then", "else")
	}
	if dropped["contains"] {
		out = out.without("minContains", "maxContains")
	}
	if slices.Contains(typesOf(out.get("type")), "array") && out.get("items") == nil {
		c.changed = true // refused as "array schema missing items": github.com/apify/apify-mcp-server/issues/36
		put("items", object())
	}
	return out
}

// noting tells whether what make makes differs from what the server sent.
func (c *converter) noting(make func() *node) (n *node, changed bool) {
	before := c.changed
	c.changed = false
	c.within++
	n = make()
	c.within--
	changed = c.changed
	c.changed = before || changed
	return n, changed
}

func (c *converter) is(v *node, kind byte) bool {
	if !v.is(kind) {
		c.changed = true
		return false
	}
	return true
}

func (c *converter) isCount(v *node) bool {
	f, ok := v.number()
	if !ok || f < 0 || f != float64(int64(f)) {
		c.changed = true
		return false
	}
	return true
}

func (c *converter) each(n *node, key func(string) string) *node {
	out := &node{kind: '{', members: make([]member, 0, len(n.members))}
	for _, m := range n.members {
		out.members = append(out.members, member{key(m.key), c.schema(m.value)})
	}
	return out
}

func (c *converter) all(n *node) *node {
	out := list()
	for _, item := range n.items {
		out.items = append(out.items, c.schema(item))
	}
	return out
}

func (c *converter) boolOrSchema(v *node) *node {
	if v.is('t') {
		return v
	}
	return c.schema(v)
}

// types gives a schema's "type" in JSON Schema's words, or nil.
func (c *converter) types(v *node) *node {
	var good []string
	for _, t := range typesOf(v) {
		if t, ok := jsonTypes[strings.ToLower(t)]; ok {
			good = append(good, t)
		}
	}
	good = unique(good)
	out := strs(good)
	switch {
	case len(good) == 0, len(good) < len(typesOf(v)) && slices.ContainsFunc(typesOf(v), func(t string) bool { return jsonTypes[strings.ToLower(t)] == "" }):
		c.changed = true // a word that nobody knows, such as "any": it allows more than the others
		return nil
	case v.is('"'):
		out = str(good[0])
	}
	if string(out.append(nil)) == string(v.append(nil)) {
		return v
	}
	c.changed = true
	return out
}

func (c *converter) required(v *node) *node {
	out := list()
	for _, name := range unique(v.strings()) {
		out.items = append(out.items, str(c.property(name)))
	}
	if len(out.items) != len(v.items) {
		c.changed = true
	}
	return out
}

// property gives the provider's name of a property.
func (c *converter) property(name string) string {
	if c.rules.allows(name) {
		return name
	}
	if new, ok := c.keys[name]; ok {
		return new
	}
	if c.taken == nil {
		c.taken, c.keys, c.back.properties = map[string]bool{}, map[string]string{}, map[string]string{}
		c.collect(c.doc)
	}
	new := c.rules.rename(name, func(s string) bool { return c.taken[s] })
	c.taken[new], c.keys[name], c.back.properties[new] = true, new, name
	c.changed = true
	return new
}

// collect finds every name that a property has, or could.
func (c *converter) collect(n *node) {
	for _, m := range n.members {
		c.taken[m.key] = true
		c.collect(m.value)
	}
	for _, item := range n.items {
		c.collect(item)
	}
}

func count(n int) *node { return &node{kind: '0', raw: strconv.AppendInt(nil, int64(n), 10)} }
