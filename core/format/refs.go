package format

import (
	"net/url"
	"strconv"
	"strings"
)

// Limits of what one tool's schema may become. A few definitions that name each other
// twice would otherwise unfold to more than any machine holds. What grows with the
// schema's own size leaves room for every schema without $refs.
const (
	maxSchemaBytes = 1 << 20 // a longer schema is not looked into
	moreNodes      = 1_000   // schemas that one may unfold to, beside one for every two of its bytes
	moreBytes      = 32 << 10
	growth         = 4  // with moreBytes: how long names and values may become that are unfolded
	maxRefs        = 32 // $refs inside one another
	maxRecursion   = 2  // how often a definition may be inside itself
)

// refs finds the targets of a document's $refs, and bounds what following them makes.
type refs struct {
	root      *node
	anchors   map[string]*node
	recursion int // how often a definition may be inside itself
	open      map[*node]int
	depth     int
	nodes     int // how many more schemas there may be
	bytes     int
}

// newRefs is for a document of so many bytes.
func newRefs(root *node, size, recursion int) *refs {
	return &refs{root: root, recursion: recursion, open: map[*node]int{}, nodes: moreNodes + size/2, bytes: moreBytes + growth*size}
}

// spend counts one schema; false: there is no more room.
func (r *refs) spend(n *node) bool {
	r.nodes--
	for _, m := range n.members {
		r.bytes -= len(m.key) + len(m.value.raw)
		for _, item := range m.value.items {
			r.bytes -= len(item.raw)
		}
	}
	return !r.spent()
}

func (r *refs) spent() bool { return r.nodes < 0 || r.bytes < 0 }

// enter goes into a $ref's target; leave it afterwards. ok is false where there is none,
// or where it would go around too often: then anything may stand there.
func (r *refs) enter(target *node) (ok bool) {
	if target == nil || r.depth >= maxRefs || r.open[target] >= r.recursion || r.spent() {
		return false
	}
	r.depth++
	r.open[target]++
	return true
}

func (r *refs) leave(target *node) {
	r.depth--
	r.open[target]--
}

// target is what a reference inside the document points to, or nil: other documents are
// never fetched.
func (r *refs) target(ref string) *node {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		id := r.root.get("$id")
		if !id.is('"') || id.text == "" {
			return nil
		}
		if fragment, local = strings.CutPrefix(ref, strings.TrimSuffix(id.text, "#")); !local {
			return nil
		}
		fragment = strings.TrimPrefix(fragment, "#")
	}
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	if fragment == "" {
		return r.root
	}
	if !strings.HasPrefix(fragment, "/") {
		if r.anchors == nil {
			r.anchors = map[string]*node{}
			r.findAnchors(r.root)
		}
		return r.anchors[fragment]
	}
	at := r.root
	for _, step := range strings.Split(fragment[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch {
		case at.is('{'):
			at = at.get(step)
		case at.is('['):
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at.items) {
				return nil
			}
			at = at.items[i]
		default:
			return nil
		}
	}
	return at
}

func (r *refs) findAnchors(n *node) {
	for _, m := range n.members {
		if (m.key == "$anchor" || m.key == "$dynamicAnchor") && m.value.is('"') && r.anchors[m.value.text] == nil {
			r.anchors[m.value.text] = n
		}
		r.findAnchors(m.value)
	}
	for _, item := range n.items {
		r.findAnchors(item)
	}
}

// refOf gives a schema's reference.
func refOf(n *node) (string, bool) {
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref := n.get(key); ref.is('"') {
			return ref.text, true
		}
	}
	return "", false
}

// deref follows a schema's $refs until there is one without: for a schema that has to
// be seen as a whole. What stands beside a $ref is laid over the target. The targets
// that it went through are to be left by the caller.
func (r *refs) deref(n *node) (*node, []*node) {
	var through []*node
	for {
		ref, has := refOf(n)
		if !has {
			return n, through
		}
		beside := n.without("$ref", "$dynamicRef", "$recursiveRef")
		target := r.target(ref)
		switch {
		case target.isTrue(), target.isFalse():
			return beside, through
		case !target.is('{'):
			return beside, through
		case !r.enter(target):
			return cut(target, beside), through
		}
		through = append(through, target)
		merged, _ := merge(target, beside)
		n = merged
	}
}

// cut is what stands where a definition may not be followed any more: all that its kind
// of value may hold.
func cut(target, beside *node) *node {
	n := object()
	for _, key := range []string{"type", "title", "description"} {
		if v := target.get(key); v != nil {
			n.set(key, v)
		}
	}
	for _, m := range beside.members {
		n.set(m.key, m.value)
	}
	return n
}
