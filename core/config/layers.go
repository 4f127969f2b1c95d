package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// layer maps the entries of sources whose files are layers: an entry is laid over
// the one of that name in the next file, and inherits what it does not say. The
// result belongs to the upper file and its level, so a project's entry that
// builds on a user's needs trust as a whole. A host-named file is alone: it is
// trusted, and must not inherit from a project.
func (d *discovery) layer(files []*planned) {
	lower := map[*Source]map[string]*Node{}
	for _, f := range slices.Backward(files) {
		if !f.wanted || !f.dialect.Layered {
			continue
		}
		under := lower[f.source]
		if under == nil || f.file.Level == LevelHost {
			under = map[string]*Node{}
			lower[f.source] = under
		}
		rep := &report{path: f.file.Path}
		mapped := f.parsed.Entries[:0]
		for _, raw := range f.parsed.Entries {
			at := Pos{raw.Origin.Line, raw.Origin.Column}
			n := raw.node
			if below := under[raw.Name]; below != nil {
				n = n.over(below, at)
			}
			under[raw.Name] = n.withAbsoluteFiles(filepath.Dir(f.file.Path), d.home)
			if e := mapEntry(raw.Name, at, n, f.dialect, rep); e != nil {
				e.Origin = raw.Origin
				mapped = append(mapped, e)
			}
		}
		f.parsed.Entries = mapped
		f.parsed.Diagnostics = append(f.parsed.Diagnostics, rep.list...)
		d.adopt(f)
	}
}

// over lays n over below. What is inherited gets the place at, since its own is
// in another file.
func (n *Node) over(below *Node, at Pos) *Node {
	if n.Kind != KindObject || below.Kind != KindObject {
		return n
	}
	c := *n
	c.Members = nil
	for _, m := range below.Members {
		if n.Get(m.Name) == nil {
			c.Members = append(c.Members, Member{m.Name, at, m.Value.placed(at)})
		}
	}
	for _, m := range n.Members {
		if inherited := below.Get(m.Name); inherited != nil {
			m.Value = m.Value.over(inherited, at)
		}
		c.Members = append(c.Members, m)
	}
	return &c
}

// placed copies n with one place for all of it.
func (n *Node) placed(at Pos) *Node {
	return n.mapped(func(c *Node) { c.Pos = at })
}

// withAbsoluteFiles copies n with the paths of {file:…} made absolute, so that
// they stay the same when an entry in another directory inherits them.
func (n *Node) withAbsoluteFiles(dir, home string) *Node {
	return n.mapped(func(c *Node) {
		if c.Kind != KindString || !strings.Contains(c.Text, "{file:") {
			return
		}
		c.Text = fileForm().ReplaceAllStringFunc(c.Text, func(form string) string {
			return "{file:" + absolute(form[len("{file:"):len(form)-1], dir, home) + "}"
		})
	})
}

// mapped copies n and all that is in it, each changed by f.
func (n *Node) mapped(f func(*Node)) *Node {
	c := *n
	c.Members, c.Items = slices.Clone(n.Members), slices.Clone(n.Items)
	for i := range c.Members {
		c.Members[i].Value = c.Members[i].Value.mapped(f)
	}
	for i := range c.Items {
		c.Items[i] = c.Items[i].mapped(f)
	}
	f(&c)
	return &c
}
