package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// toolID is a tool's identity: the names that the config and the server gave it.
// Calls are routed by it; minted names are never parsed back.
type toolID struct{ Server, Tool string }

const (
	// minNameLength leaves room for a digest that nobody can make two tools share.
	minNameLength = 32
	digestStep    = 8 // hex digits per level
)

// namer gives every tool that is known a name that model providers accept, of the
// form prefix + server + "_" + tool, at most maxLength (at least minNameLength) bytes.
//
// A name whose parts sanitising changed, or that had to be cut, ends in a digest of
// the identity whoever else is there, so that it does not depend on the company.
// Where two unchanged names are equal both get one; where a server offers, under
// its plain name, what another tool's digested name is, the plain one yields. The
// result depends on the set of tools alone, not on their order nor on those that
// were there before.
//
// It is kept from one change to the next, so that a change costs what it changes.
// Its owner is the manager, under its lock.
type namer struct {
	prefix string
	minter
	tools map[toolID]*minted
}

func newNamer(prefix string, maxLength int) *namer {
	n := &namer{prefix: prefix, tools: map[toolID]*minted{}}
	n.maxLength = maxLength
	n.seen = map[string]*occupant{}
	return n
}

// name is the current name of a tool that came and has not gone.
func (n *namer) name(id toolID) string { return n.tools[id].name }

// update takes tools out and puts others in. It gives the servers some of whose other
// tools may have changed their names; all says that it can be any.
func (n *namer) update(gone, come []toolID) (renamed map[string]bool, all bool) {
	for _, id := range gone {
		t := n.tools[id]
		if t == nil {
			continue
		}
		delete(n.tools, id)
		// Who met nobody leaves no trace. Without any other, whom it met may get its
		// plain name back, and whoever that one met, and so on.
		if o := n.seen[t.name]; t.raised || o.visitors > 1 {
			all = true
		} else {
			delete(n.seen, t.name)
		}
	}
	n.moved = map[string]bool{}
	if all {
		n.seen = make(map[string]*occupant, len(n.tools))
		for _, t := range n.tools {
			n.enter(t.id)
		}
	}
	for _, id := range come {
		if n.tools[id] == nil {
			n.enter(id)
		}
	}
	n.run()
	return n.moved, all
}

// enter puts a tool at the beginning of its way to a name.
func (n *namer) enter(id toolID) {
	t := &minted{id: id}
	t.base, t.level = naturalName(id, n.prefix)
	if len(t.base) > n.maxLength {
		t.level = 1
	}
	n.tools[id] = t
	n.queue = append(n.queue, t)
}

// naturalName returns the sanitised name, and level 1 when it lost something.
func naturalName(id toolID, prefix string) (string, int) {
	server, tool := sanitizeName(id.Server), sanitizeName(id.Tool)
	level := 0
	if server != id.Server || tool != id.Tool || server == "" || tool == "" {
		level = 1
	}
	// puppeteer + puppeteer_screenshot: the server's name is not said twice.
	if rest, ok := strings.CutPrefix(tool, server+"_"); ok && rest != "" && server != "" {
		tool = rest
	}
	return prefix + server + "_" + tool, level
}

// sanitizeName keeps A-Z a-z 0-9 _ - and makes one "_" of each run of anything else.
func sanitizeName(s string) string {
	var b strings.Builder
	replaced := false
	for i := range len(s) {
		if plainNameByte(s[i]) {
			b.WriteByte(s[i])
			replaced = false
		} else if !replaced {
			b.WriteByte('_')
			replaced = true
		}
	}
	return b.String()
}

func plainNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// minted is a tool on its way to a name. Level 0 is the natural name, each further
// level a digest longer by digestStep. Levels only rise.
type minted struct {
	id     toolID
	base   string
	level  int
	raised bool // it is no more at the level where it entered
	name   string
}

// occupant is who came to a name first, as a natural name and as a digested one.
// Whoever came stays in the record after it moved on: that makes the outcome the
// same in every order, and the work linear, however many names a server lines up
// so that each pushes the next.
type occupant struct {
	natural, digested *minted
	visitors          int // all who came, whether they stayed or not
}

type minter struct {
	maxLength int
	seen      map[string]*occupant
	queue     []*minted
	moved     map[string]bool // the servers of tools that were raised
}

func (m *minter) run() {
	for len(m.queue) > 0 {
		t := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		t.name = m.nameOf(t)
		o := m.seen[t.name]
		if o == nil {
			o = &occupant{}
			m.seen[t.name] = o
		}
		o.visitors++
		if t.level > 0 {
			if o.digested == nil {
				o.digested = t
			} else {
				m.raise(o.digested, t.level)
				m.raise(t, t.level)
			}
			if o.natural != nil {
				m.raise(o.natural, 0)
			}
			continue
		}
		if o.natural == nil {
			o.natural = t
		} else {
			m.raise(o.natural, 0)
			m.raise(t, 0)
		}
		if o.digested != nil {
			m.raise(t, 0)
		}
	}
}

// raise moves a tool that still is at a level to the next one, if there is one.
func (m *minter) raise(t *minted, level int) {
	if t.level == level && m.digits(level) < m.digits(level+1) {
		t.level++
		t.raised = true
		m.moved[t.id.Server] = true
		m.queue = append(m.queue, t)
	}
}

// digits is the length of a level's digest.
func (m *minter) digits(level int) int {
	return min(level*digestStep, m.maxLength-1, 2*sha256.Size)
}

func (m *minter) nameOf(t *minted) string {
	if t.level == 0 {
		return t.base
	}
	digits := m.digits(t.level)
	return t.base[:min(len(t.base), m.maxLength-1-digits)] + "_" + digest(t.id, t.level)[:digits]
}

// digest is SHA-256(server, NUL, tool) at level 1. Those of the longer ones, which
// only a server that searched for equal digests needs, are of an input that no two
// identities share, whatever bytes they hold.
func digest(id toolID, level int) string {
	var in []byte
	if level > 1 {
		in = binary.BigEndian.AppendUint64(in, uint64(len(id.Server)))
	}
	in = append(in, id.Server...)
	in = append(in, 0)
	in = append(in, id.Tool...)
	sum := sha256.Sum256(in)
	return hex.EncodeToString(sum[:])
}
