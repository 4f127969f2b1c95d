package format

import (
	"math"
	"slices"
	"strings"
)

// Gemini's "parameters" are a part of OpenAPI 3.0's schemas: no $ref, no allOf, no
// oneOf, no const; one type, which has to be said; enums of strings only. What it
// refuses was learned from its errors:
//   - "must be specified when not using one_of, any_of or all_of fields"
//     (github.com/danny-avila/LibreChat/issues/6971)
//   - "When using any_of, it must be the only field set" (Vertex AI)
//   - "only allowed for STRING type", and for OBJECT type
//     (github.com/NousResearch/hermes-agent/pull/15082, github.com/anomalyco/opencode/issues/11889)
//   - "should be non-empty for OBJECT type", of an empty "properties"
//     (github.com/containers/kubernetes-mcp-server/issues/340)
//   - a property in "required" that there is not, an array without "items"
//
// "parametersJsonSchema" takes more, but not everywhere that "parameters" is taken.

var geminiTypes = map[string]string{"string": "STRING", "number": "NUMBER", "integer": "INTEGER", "boolean": "BOOLEAN", "array": "ARRAY", "object": "OBJECT"}

// geminiRoot gives the parameters, or nil for a tool that has none.
func (c *converter) geminiRoot(n *node) *node {
	c.changed = true
	n, through := c.flatten(n, false)
	defer c.leave(through)
	types := typesOf(n.get("type"))
	wrap := types != nil && !slices.Contains(types, "object")
	for _, key := range []string{"anyOf", "oneOf"} {
		if v := n.get(key); v != nil && !onlyRequired(v) {
			wrap = true
		}
	}
	properties := n.get("properties")
	if !wrap && (!properties.is('{') || len(properties.members) == 0) {
		more := n.get("additionalProperties")
		if !more.isTrue() && !(more.is('{') && len(more.members) > 0) && n.get("patternProperties") == nil {
			return nil
		}
		wrap = true // any names: an object without properties cannot be the parameters
	}
	if wrap {
		c.back.wrapped = true
		return object("type", str("OBJECT"), "properties", object(wrapper, c.gemini(n)), "required", strs([]string{wrapper}))
	}
	return c.geminiTyped(n.without("anyOf", "oneOf"), "object")
}

// gemini converts a schema.
func (c *converter) gemini(n *node) *node {
	if !n.is('{') || !c.refs.spend(n) {
		return anyOfGemini("")
	}
	n, through := c.flatten(n, false)
	defer c.leave(through)
	types := typesOf(n.get("type"))
	nullable := n.get("nullable").isTrue() || slices.Contains(types, "null") || n.get("const").is('n')
	known := []string{}
	for _, t := range types {
		if t, ok := jsonTypes[strings.ToLower(t)]; ok && t != "null" && !slices.Contains(known, t) {
			known = append(known, t)
		} else if !ok {
			known = nil // a word that nobody knows, such as "any"
			break
		}
	}
	if e := n.get("enum"); e.is('[') {
		nullable = nullable || slices.ContainsFunc(e.items, func(i *node) bool { return i.is('n') })
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		choice := n.get(key)
		if !choice.is('[') || len(choice.items) == 0 {
			continue
		}
		if onlyRequired(choice) {
			n = n.without(key)
			continue
		}
		return c.geminiChoice(n.without("anyOf", "oneOf"), choice.items, nullable)
	}
	if len(known) > 1 {
		var variants []*node
		for _, t := range known {
			variants = append(variants, object("type", str(t)))
		}
		return c.geminiChoice(n, variants, nullable)
	}
	kind := ""
	if len(known) == 1 {
		kind = known[0]
	} else if types == nil {
		kind = guess(n)
	}
	var out *node
	if kind == "" {
		out = anyOfGemini(description(n))
	} else {
		out = c.geminiTyped(n, kind)
	}
	return orNull(out, nullable)
}

// geminiChoice gives a schema whose value is as one of the variants says.
func (c *converter) geminiChoice(base *node, variants []*node, nullable bool) *node {
	outer := description(base)
	plain := base.without(append([]string{"type"}, annotations...)...)
	baseTypes := base.get("type")
	var made []*node
	seen := map[string]bool{}
	for _, v := range variants {
		if v.isFalse() {
			continue
		}
		if !v.is('{') {
			v = object()
		}
		at, through := c.flatten(v, false)
		if t := typesOf(at.get("type")); len(t) == 1 && t[0] == "null" || at.get("const").is('n') {
			nullable = true
			c.leave(through)
			continue
		}
		if len(plain.members) > 0 {
			at, _ = merge(at, plain)
		}
		if at.get("type") == nil && baseTypes != nil {
			at = at.clone()
			at.set("type", baseTypes)
		}
		one := c.gemini(at)
		c.leave(through)
		nested := []*node{one}
		if inner := one.get("anyOf"); inner != nil {
			nested = inner.items
		}
		for _, one := range nested {
			if text := string(one.append(nil)); !seen[text] {
				seen[text] = true
				made = append(made, one)
			}
		}
	}
	switch len(made) {
	case 0:
		return orNull(anyOfGemini(outer), nullable)
	case 1:
		return orNull(described(made[0], outer), nullable)
	}
	if outer != "" { // an anyOf may have nothing beside it
		if inner := description(made[0]); inner != "" {
			outer += "\n" + inner
		}
		made[0] = described(made[0], outer)
	}
	return orNull(object("anyOf", list(made...)), nullable)
}

// geminiTyped gives a schema of one type: only what Gemini knows of that one.
func (c *converter) geminiTyped(n *node, kind string) *node {
	out := object("type", str(geminiTypes[kind]))
	text := description(n)
	allowed := n.get("enum")
	if one := n.get("const"); one != nil {
		allowed = list(one)
	}
	if allowed.is('[') && len(allowed.items) > 0 {
		if values := allowed.strings(); kind == "string" && len(values) > 0 && !slices.Contains(values, "") {
			out.set("enum", strs(unique(values)))
		} else if kind != "object" && kind != "array" {
			text = strings.TrimSpace(text + "\nOne of: " + valuesOf(allowed) + ".")
		}
	}
	copyCount := func(keys ...string) {
		for _, key := range keys {
			if v := n.get(key); v.is('0') && c.isCount(v) {
				f, _ := v.number()
				out.set(key, count(int(f)))
			}
		}
	}
	switch kind {
	case "string":
		if f := n.get("format"); f.is('"') && f.text == "date-time" {
			out.set("format", f)
		}
		if p := n.get("pattern"); p.is('"') {
			out.set("pattern", p)
		}
		copyCount("minLength", "maxLength")
	case "number", "integer":
		formats := []string{"float", "double"}
		if kind == "integer" {
			formats = []string{"int32", "int64"}
		}
		if f := n.get("format"); f.is('"') && slices.Contains(formats, f.text) {
			out.set("format", f)
		}
		for _, end := range []struct {
			key, exclusive string
			step           float64
		}{{"minimum", "exclusiveMinimum", 1}, {"maximum", "exclusiveMaximum", -1}} {
			limit := n.get(end.key)
			if beyond := n.get(end.exclusive); !limit.is('0') && beyond.is('0') {
				limit = beyond // that value too: the server refuses it
				if f, ok := beyond.number(); ok && kind == "integer" && f == math.Trunc(f) && math.Abs(f) < 1<<52 {
					limit = count(int(f + end.step))
				}
			}
			if _, ok := limit.number(); ok {
				out.set(end.key, limit)
			}
		}
	case "array":
		out.set("items", c.geminiItems(n))
		copyCount("minItems", "maxItems")
	case "object":
		c.geminiProperties(n, out)
	}
	if title := n.get("title"); title.is('"') {
		out.set("title", title)
	}
	if d := n.get("default"); d != nil && !d.is('n') {
		text = strings.TrimSpace(text + "\nDefault: " + clip(string(d.append(nil))))
	}
	return described(out, text)
}

func (c *converter) geminiItems(n *node) *node {
	items := n.get("items")
	tuple := n.get("prefixItems")
	if items.is('[') {
		tuple, items = items, n.get("additionalItems")
	}
	if tuple.is('[') && len(tuple.items) > 0 {
		variants := slices.Clone(tuple.items)
		if !items.isFalse() && items != nil {
			variants = append(variants, items)
		}
		return c.geminiChoice(object(), variants, false)
	}
	return c.gemini(items)
}

func (c *converter) geminiProperties(n, out *node) {
	have := n.get("properties")
	if !have.is('{') || len(have.members) == 0 {
		return // any properties: an empty "properties" is refused
	}
	properties := &node{kind: '{', members: make([]member, 0, len(have.members))}
	names := make(map[string]bool, len(have.members))
	for _, m := range have.members {
		if m.value.isFalse() {
			continue
		}
		names[m.key] = true
		properties.members = append(properties.members, member{c.property(m.key), c.gemini(m.value)})
	}
	if len(properties.members) == 0 {
		return
	}
	out.set("properties", properties)
	required := list()
	for _, name := range unique(n.get("required").strings()) {
		if names[name] {
			required.items = append(required.items, str(c.property(name)))
		}
	}
	if len(required.items) > 0 {
		out.set("required", required)
	}
}

// anyOfGemini is a schema of any value, which Gemini has no word for.
func anyOfGemini(text string) *node {
	return object("anyOf", list(described(object("type", str("STRING")), text), object("type", str("NUMBER")), object("type", str("BOOLEAN")),
		object("type", str("OBJECT")), object("type", str("ARRAY"), "items", object("type", str("STRING")))))
}

// guess finds the type of a schema that names none.
func guess(n *node) string {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return n.get(k) != nil })
	}
	values := n.get("enum")
	if one := n.get("const"); one != nil {
		values = list(one)
	}
	switch {
	case values.is('[') && len(values.items) > 0:
		kinds := map[byte]string{'"': "string", '0': "number", 't': "boolean", '{': "object", '[': "array"}
		kind := ""
		for _, v := range values.items {
			if k := kinds[v.kind]; k != "" && kind != "" && k != kind {
				return ""
			} else if k != "" {
				kind = k
			}
		}
		return kind
	case has("properties", "additionalProperties", "required", "patternProperties"):
		return "object"
	case has("items", "prefixItems", "minItems", "maxItems"):
		return "array"
	case has("minLength", "maxLength", "pattern"):
		return "string"
	case has("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return "number"
	}
	return ""
}

func description(n *node) string {
	if d := n.get("description"); d.is('"') {
		return d.text
	}
	return ""
}

func described(n *node, text string) *node {
	if text == "" {
		return n
	}
	n = n.clone()
	n.set("description", str(text))
	return n
}

func orNull(n *node, nullable bool) *node {
	if !nullable {
		return n
	}
	if variants := n.get("anyOf"); variants != nil {
		out := list()
		for _, v := range variants.items {
			out.items = append(out.items, orNull(v, true))
		}
		return object("anyOf", out)
	}
	n = n.clone()
	n.set("nullable", boolean(true))
	return n
}

// valuesOf lists values in words.
func valuesOf(values *node) string {
	var b []byte
	for i, v := range values.items {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b = v.append(b); len(b) > 300 {
			break
		}
	}
	return clip(string(b))
}

func clip(s string) string { return shorten(s, 300) }
