package format

import "slices"

// annotations say something about a value and allow none less.
var annotations = []string{"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
	"$comment", "$schema", "$id", "$defs", "definitions", "$anchor", "$dynamicAnchor"}

// leads are the keywords without which others have no meaning.
var leads = map[string]string{"if": "if", "then": "if", "else": "if", "contains": "contains", "minContains": "contains", "maxContains": "contains"}

// merge makes one schema of two that both hold. exact is false where it allows more than
// both together do; it never allows less. Annotations of b win.
func merge(a, b *node) (merged *node, exact bool) {
	if len(a.members) == 0 {
		return b, true
	}
	if len(b.members) == 0 {
		return a, true
	}
	out, exact := a.clone(), true
	for _, m := range b.members {
		if lead := leads[m.key]; lead != "" && a.get(lead) != nil && b.get(lead) != nil {
			exact = exact && string(a.get(lead).append(nil)) == string(b.get(lead).append(nil)) && a.get(m.key) != nil
			continue // what belongs to one condition says nothing with another one
		}
		have := out.get(m.key)
		if have == nil || slices.Contains(annotations, m.key) {
			out.set(m.key, m.value)
			continue
		}
		if string(have.append(nil)) == string(m.value.append(nil)) {
			continue
		}
		switch m.key {
		case "properties", "$defs", "definitions":
			both, ok := mergeProperties(have, m.value)
			out.set(m.key, both)
			exact = exact && ok
		case "required":
			out.set(m.key, strs(unique(append(have.strings(), m.value.strings()...))))
		case "type":
			out.set(m.key, narrower(have, m.value))
		case "enum":
			if both := common(have, m.value); len(both.items) > 0 {
				out.set(m.key, both)
			} else {
				exact = false
			}
		case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
			out.set(m.key, bound(have, m.value, func(x, y float64) bool { return x > y }))
		case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
			out.set(m.key, bound(have, m.value, func(x, y float64) bool { return x < y }))
		default:
			exact = false // the first one stays
		}
	}
	// A property of one is an additional one of the other.
	for _, closed := range []string{"additionalProperties", "unevaluatedProperties"} {
		inA, inB := a.get(closed), b.get(closed)
		if inA == nil && inB == nil || sameKeys(a.get("properties"), b.get("properties")) {
			continue
		}
		out = out.without(closed)
		exact = false
	}
	return out, exact
}

func unique(all []string) (once []string) {
	seen := make(map[string]bool, len(all))
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	return once
}

func mergeProperties(a, b *node) (*node, bool) {
	if !a.is('{') || !b.is('{') {
		return a, false
	}
	out, exact := a.clone(), true
	at := make(map[string]int, len(out.members))
	for i, m := range out.members {
		at[m.key] = i
	}
	for _, m := range b.members {
		i, both := at[m.key]
		if !both {
			out.members = append(out.members, m)
			continue
		}
		have := out.members[i].value
		if have.is('{') && m.value.is('{') {
			// Not merged here, since it may hold $refs: whoever looks at it does that.
			out.members[i].value = object("allOf", list(have, m.value))
		} else if have.isTrue() {
			out.members[i].value = m.value
		} else if !m.value.isTrue() {
			exact = false
		}
	}
	return out, exact
}

func sameKeys(a, b *node) bool {
	if !a.is('{') || !b.is('{') || len(a.members) != len(b.members) {
		return false
	}
	keys := make(map[string]bool, len(a.members))
	for _, m := range a.members {
		keys[m.key] = true
	}
	return !slices.ContainsFunc(b.members, func(m member) bool { return !keys[m.key] })
}

// typesOf gives the types that a schema names, nil where it names none.
func typesOf(t *node) []string {
	if t.is('"') {
		return []string{t.text}
	}
	return t.strings()
}

func narrower(a, b *node) *node {
	var both []string
	for _, x := range typesOf(a) {
		for _, y := range typesOf(b) {
			switch {
			case x == y:
				both = append(both, x)
			case x == "integer" && y == "number", x == "number" && y == "integer":
				both = append(both, "integer")
			}
		}
	}
	switch len(both) {
	case 0: // nothing fits both: the first one says at least what was meant
		return a
	case 1:
		return str(both[0])
	}
	return strs(both)
}

func common(a, b *node) *node {
	in := map[string]bool{}
	for _, item := range b.items {
		in[string(item.append(nil))] = true
	}
	out := list()
	for _, item := range a.items {
		if in[string(item.append(nil))] {
			out.items = append(out.items, item)
		}
	}
	return out
}

func bound(a, b *node, stricter func(x, y float64) bool) *node {
	x, ok := a.number()
	y, fine := b.number()
	if ok && fine && stricter(y, x) || !ok && fine {
		return b
	}
	return a
}
