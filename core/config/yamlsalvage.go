package config

import (
	"errors"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

// maxSalvaged bounds the members that are read one by one.
const maxSalvaged = 2000

// salvage reads what can be read of a YAML text with an error in it. It takes
// the text for what config files are, a block mapping: it reads each member by
// itself, and so the members of one that cannot be read. An error in one
// server's entry then costs that entry, not its neighbours.
func (r *yamlReader) salvage(text []byte, problem *syntaxError) *Node {
	top := &Node{Kind: KindObject, Pos: Pos{1, 1}}
	left := maxSalvaged
	for _, b := range yamlBlocks(strings.SplitAfter(string(text), "\n"), 0) {
		if left--; left < 0 {
			break
		}
		if members, err := r.block(b); err == nil {
			top.Members = append(top.Members, members...)
			continue
		}
		key := blockKey().FindStringSubmatch(b.lines[0])
		inner := yamlBlocks(b.lines[1:], b.before+1)
		if key == nil || key[2] != "" || len(inner) == 0 {
			continue
		}
		parent := &Node{Kind: KindObject, Pos: Pos{b.before + 1, 1}}
		top.Members = append(top.Members, Member{unquoted(key[1]), parent.Pos, parent})
		for _, entry := range inner {
			if left--; left < 0 {
				break
			}
			members, err := r.block(entry)
			if err == nil {
				parent.Members = append(parent.Members, members...)
			} else if key := blockKey().FindStringSubmatch(entry.lines[0]); key != nil {
				broken := &Node{Kind: KindObject, Pos: Pos{entry.before + 1, 1}}
				r.tree.broken[broken] = err
				parent.Members = append(parent.Members, Member{unquoted(key[1]), broken.Pos, broken})
			}
		}
	}
	if len(top.Members) == 0 {
		return nil
	}
	if len(r.tree.broken) == 0 { // it is in no entry that could be named
		r.tree.lost = append(r.tree.lost, problem)
	}
	return top
}

// yamlBlock is one member of a block mapping, with all its lines.
type yamlBlock struct {
	lines  []string
	before int // lines before it in the file
}

// blockKey matches a member's name and what stands behind the colon.
var blockKey = lazy.Regexp(`^\s*("[^"]*"|'[^']*'|[^\s#"'\[\]{}-][^:#]*)\s*:(?:\s+([^\s#].*)?|$)`)

func unquoted(name string) string { return strings.Trim(strings.TrimSpace(name), `"'`) }

// yamlBlocks splits lines at those that are indented like the first one.
func yamlBlocks(lines []string, before int) (blocks []yamlBlock) {
	indent := -1
	for i, line := range lines {
		plain := strings.TrimLeft(line, " ")
		if strings.TrimSpace(plain) == "" || plain[0] == '#' && len(blocks) == 0 || strings.HasPrefix(plain, "---") {
			continue
		}
		if here := len(line) - len(plain); indent < 0 || here == indent && plain[0] != '-' && plain[0] != '#' && plain[0] != '\t' {
			indent = here
			blocks = append(blocks, yamlBlock{before: before + i})
		}
		last := &blocks[len(blocks)-1]
		last.lines = lines[last.before-before : i+1]
	}
	return blocks
}

// block reads a block by itself.
func (r *yamlReader) block(b yamlBlock) ([]Member, error) {
	r.lines = b.before
	n, err := r.read(strings.Join(b.lines, ""))
	if err != nil {
		return nil, err
	}
	if n == nil || n.Kind != KindObject {
		return nil, errors.New("it is no member")
	}
	return n.Members, nil
}
