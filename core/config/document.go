package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Limits of a file beside its size. They keep a hostile file from costing a
// stack overflow (parsers recurse) or many times its size in memory.
const (
	maxDepth  = 200
	maxValues = 1 << 20 // in the decoded parts of one file
)

// Files that are decoded as a whole cost many times their size.
const (
	maxTOMLBytes = 4 << 20
	maxYAMLBytes = 1 << 20
)

func tooManyBytes(limit int64) error { return fmt.Errorf("%w of %d bytes", errFileTooLarge, limit) }

var errTooLarge = errors.New("it holds too many values")

// document is the text of a config file in one format. It is read in two steps:
// skim finds the members of an object, and node decodes one value. So a large
// file in which few members matter can stay cheap, and what is wrong inside one
// server's entry costs that entry only.
type document interface {
	// root finds the one value of the text. ok is false when there is none: an
	// empty file, or one of comments only.
	root() (s span, ok bool, err error)
	kind(s span) Kind
	// skim finds the members of an object, those with a name that is wanted; nil
	// wants all. Of equal names the last one wins; each earlier one is handed to
	// dropped, which may be nil.
	skim(object span, want func(name string) bool, dropped func(span)) ([]span, error)
	// node decodes one value. dropped is told of names that stand twice in one
	// object; the last one wins.
	node(s span, dropped func(name string, at Pos)) (*Node, error)
	// losses are errors after which reading went on.
	losses() []*syntaxError
	// slips are errors that left one sensible reading, as far as skim has come.
	slips() []*syntaxError
}

// span is one value of a document, and the name that it has as a member.
type span struct {
	name       string
	at         Pos     // of the name; in a text that is decoded piece by piece only its offset is known
	in         *places // that text
	offset     int
	start, end int   // where the value lies in it
	value      *Node // the value in a document that was decoded as a whole
}

// pos is the place of the name. Few of the members of a large file are asked.
func (s span) pos() Pos {
	if s.in != nil {
		return s.in.pos(s.offset)
	}
	return s.at
}

// syntaxError is a text that does not keep to its format, and where.
type syntaxError struct {
	pos Pos
	msg string
}

func (e *syntaxError) Error() string { return e.msg }

// newDocument reads text in the format that the file's name tells.
func newDocument(path string, text []byte) (document, error) {
	switch format(path) {
	case "toml":
		return parseTOML(text)
	case "yaml":
		return parseYAML(text)
	}
	return newJSONFile(text), nil
}

func format(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".toml":
		return "toml"
	case ".yaml", ".yml":
		return "yaml"
	}
	return "json"
}

// openDocument is newDocument and root, of a text that may still be on its way; or it gives
// errNotUTF8.
func openDocument(path string, text []byte, a *arrival) (f document, top span, ok bool, err error) {
	if a != nil && format(path) == "json" {
		return openJSON(text, a)
	}
	if err = a.wait(); err != nil {
		return nil, span{}, false, err
	}
	if !utf8.Valid(text) {
		return nil, span{}, false, errNotUTF8
	}
	if f, err = newDocument(path, text); err == nil {
		top, ok, err = f.root()
	}
	return f, top, ok, err
}

// lastWins keeps the last of items with equal names.
func lastWins[T any](items []T, name func(T) string, dropped func(T)) []T {
	last := make(map[string]int, len(items))
	for i, item := range items {
		last[name(item)] = i
	}
	if len(last) == len(items) {
		return items
	}
	unique := make([]T, 0, len(last))
	for i, item := range items {
		if last[name(item)] == i {
			unique = append(unique, item)
		} else if dropped != nil {
			dropped(item)
		}
	}
	return unique
}

// tree is a document that was decoded as a whole: TOML and YAML give no other
// choice. Its nodes may hold equal names, and parts that could not be read.
type tree struct {
	top    *Node // nil: the text holds nothing
	broken map[*Node]error
	lost   []*syntaxError // what could not be read and belongs to no node
}

func (t *tree) losses() []*syntaxError { return t.lost }
func (t *tree) slips() []*syntaxError  { return nil }

func (t *tree) root() (span, bool, error) {
	if t.top == nil {
		return span{}, false, nil
	}
	return span{at: t.top.Pos, value: t.top}, true, nil
}

func (t *tree) kind(s span) Kind { return s.value.Kind }

func (t *tree) skim(object span, want func(name string) bool, dropped func(span)) ([]span, error) {
	var members []span
	for _, m := range object.value.Members {
		if want == nil || want(m.Name) {
			members = append(members, span{name: m.Name, at: m.Pos, value: m.Value})
		}
	}
	return lastWins(members, func(s span) string { return s.name }, dropped), nil
}

func (t *tree) node(s span, dropped func(name string, at Pos)) (*Node, error) {
	return t.unique(s.value, dropped)
}

// unique copies n with unique names; it fails where a part of n is broken.
func (t *tree) unique(n *Node, dropped func(name string, at Pos)) (*Node, error) {
	if err := t.broken[n]; err != nil {
		return nil, err
	}
	c := *n
	c.Members = lastWins(c.Members, func(m Member) string { return m.Name }, func(m Member) {
		if dropped != nil {
			dropped(m.Name, m.Pos)
		}
	})
	c.Members = append([]Member(nil), c.Members...)
	c.Items = append([]*Node(nil), c.Items...)
	var err error
	for i := range c.Members {
		if c.Members[i].Value, err = t.unique(c.Members[i].Value, dropped); err != nil {
			return nil, err
		}
	}
	for i := range c.Items {
		if c.Items[i], err = t.unique(c.Items[i], dropped); err != nil {
			return nil, err
		}
	}
	return &c, nil
}
