package config

import (
	"slices"

	"github.com/goccy/go-json"
)

// Pos is a place in a file. Both count from 1; the column counts characters.
// The zero Pos is "somewhere in the file".
type Pos struct{ Line, Column int }

// Kind says what a Node is.
type Kind byte

const (
	KindNull   Kind = 'n'
	KindBool   Kind = 'b'
	KindNumber Kind = '0'
	KindString Kind = '"'
	KindObject Kind = '{'
	KindArray  Kind = '['
)

// Node is a value in a config file, whatever the file's format: parsers of all
// formats make Nodes, and one mapper reads them.
type Node struct {
	Kind    Kind
	Text    string // string: its value; number and bool: as written
	Pos     Pos
	Members []Member // of an object: in file order, names unique
	Items   []*Node  // of an array
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Pos   Pos // of the name
	Value *Node
}

// Get returns the member with this exact name, or nil.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(n.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return n.Members[i].Value
}

// canonical renders n as compact JSON in the written order of members: the
// "entry as written" that a trust record covers. Comments and white space are
// left out, because they change nothing that runs.
func (n *Node) canonical(b []byte) []byte {
	switch n.Kind {
	case KindString:
		return appendJSONString(b, n.Text)
	case KindNumber, KindBool:
		return append(b, n.Text...)
	case KindObject:
		b = append(b, '{')
		for i, m := range n.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, m.Name), ':')
			b = m.Value.canonical(b)
		}
		return append(b, '}')
	case KindArray:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.canonical(b)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

func appendJSONString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a string always encodes
		return append(b, `""`...)
	}
	return append(b, text...)
}

// any gives n as plain Go values, for members that are passed on as they are.
// Numbers stay json.Number so that no digit is lost.
func (n *Node) any() any {
	switch n.Kind {
	case KindString:
		return n.Text
	case KindNumber:
		return json.Number(n.Text)
	case KindBool:
		return n.Text == "true"
	case KindObject:
		m := make(map[string]any, len(n.Members))
		for _, member := range n.Members {
			m[member.Name] = member.Value.any()
		}
		return m
	case KindArray:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.any()
		}
		return list
	}
	return nil
}
