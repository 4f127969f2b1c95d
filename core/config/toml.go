package config

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/mcprt/mcprt/core/lazy"
)

// tomlReader builds a tree from TOML, one expression after the other. go-toml's
// decoder would stop at the first error and give no places, so its parser is
// used: after an error the reader goes on at the next table, and only the table
// with the error is lost.
type tomlReader struct {
	places
	tree    tree
	table   *Node          // that key-values belong to
	headers map[*Node]bool // tables that had a header
	values  int            // left of maxValues
}

// maxTOMLErrors bounds how often reading goes on after an error, since each time
// may cost the length of the file.
const maxTOMLErrors = 100

var errTooManyErrors = errors.New("it holds too many errors")

func parseTOML(text []byte) (document, error) {
	top := &Node{Kind: KindObject, Pos: Pos{1, 1}}
	r := &tomlReader{places: newPlaces(text), table: top, headers: map[*Node]bool{}, values: maxValues,
		tree: tree{top: top, broken: map[*Node]error{}}}
	if len(text) > maxTOMLBytes {
		return nil, tooManyBytes(maxTOMLBytes)
	}
	for from, errs := 0, 0; from < len(text); errs++ {
		if errs > maxTOMLErrors {
			return nil, errTooManyErrors
		}
		next, err := r.expressions(from)
		if err != nil {
			return nil, err
		}
		from = next
	}
	if len(top.Members) == 0 && len(r.tree.lost) == 0 {
		return &tree{}, nil
	}
	return &r.tree, nil
}

// tableHeader matches the line of a table's header, not one of an array's items.
var tableHeader = lazy.Regexp(`(?m)^[ \t]*\[\[?[ \t]*["'A-Za-z_]`)

// expressions reads from an offset to the end, or to the table after an error.
func (r *tomlReader) expressions(from int) (next int, err error) {
	var p unstable.Parser
	p.Reset(r.data[from:])
	done := from
	for p.NextExpression() {
		x := p.Expression()
		key := x.Key()
		key.Next()
		done = from + int(key.Node().Raw.Offset)
		if err := r.expression(x, from); err != nil {
			return 0, err
		}
	}
	if p.Error() == nil {
		return len(r.data), nil
	}
	bad, msg := r.fault(p.Error(), from)
	problem := &syntaxError{r.pos(bad), msg}
	line, _, _ := bytes.Cut(r.data[bytes.LastIndexByte(r.data[:bad], '\n')+1:], []byte{'\n'})
	if tableHeader().Match(line) || r.table == r.tree.top {
		// Whose table begins here is not known, and what stands at the top belongs
		// to no server.
		r.tree.lost = append(r.tree.lost, problem)
		done = max(done, bad)
	} else if r.tree.broken[r.table] == nil {
		r.tree.broken[r.table] = problem
	}
	// A string without an end runs to the end of the file, so the search begins at
	// the last thing that was understood.
	rest := r.data[done:]
	skip := bytes.IndexByte(rest, '\n')
	if skip < 0 {
		return len(r.data), nil
	}
	header := tableHeader().FindIndex(rest[skip+1:])
	if header == nil {
		return len(r.data), nil
	}
	return done + skip + 1 + header[0], nil
}

// fault gives the offset of a parser's error and its text, which quotes no more
// than one character of the file.
func (r *tomlReader) fault(err error, from int) (offset int, msg string) {
	var parse *unstable.ParserError
	if !errors.As(err, &parse) {
		return from, "this is not valid TOML"
	}
	offset = from
	if parse.Highlight != nil {
		offset = cap(r.data) - cap(parse.Highlight) // see unstable.Parser.Range
	}
	return min(max(offset, from), len(r.data)), "this is not valid TOML: " + parse.Message
}

func (r *tomlReader) expression(x *unstable.Node, from int) error {
	switch x.Kind {
	case unstable.KeyValue:
		return r.keyValue(r.table, x, from, 0)
	case unstable.Table, unstable.ArrayTable:
		return r.header(x, from)
	}
	return nil
}

// header opens the table that [a.b.c] or [[a.b.c]] names.
func (r *tomlReader) header(x *unstable.Node, from int) error {
	table, last := r.tree.top, (*unstable.Node)(nil)
	for key, depth := x.Key(), 0; key.Next(); depth++ {
		if depth >= maxDepth {
			return r.tooDeep(key.Node(), from)
		}
		if last != nil {
			table = r.child(table, last, from)
		}
		last = key.Node()
	}
	name, at := string(last.Data), r.pos(from+int(last.Raw.Offset))
	if err := r.count(); err != nil {
		return err
	}
	old := lastMember(table, name)
	if x.Kind == unstable.ArrayTable {
		if old == nil || old.Kind != KindArray {
			old = &Node{Kind: KindArray, Pos: at}
			table.Members = append(table.Members, Member{name, at, old})
		}
		r.table = &Node{Kind: KindObject, Pos: at}
		old.Items = append(old.Items, r.table)
		return nil
	}
	if old == nil || old.Kind != KindObject || r.headers[old] {
		old = &Node{Kind: KindObject, Pos: at} // named twice: the last one wins
		table.Members = append(table.Members, Member{name, at, old})
	}
	r.headers[old], r.table = true, old
	return nil
}

// child is the table of this name in table; of an array, the one that was added
// last.
func (r *tomlReader) child(table *Node, key *unstable.Node, from int) *Node {
	found := lastMember(table, string(key.Data))
	if found != nil && found.Kind == KindArray && len(found.Items) > 0 {
		found = found.Items[len(found.Items)-1]
	}
	if found == nil || found.Kind != KindObject {
		at := r.pos(from + int(key.Raw.Offset))
		found = &Node{Kind: KindObject, Pos: at}
		table.Members = append(table.Members, Member{string(key.Data), at, found})
	}
	return found
}

func lastMember(n *Node, name string) *Node {
	for i := len(n.Members) - 1; i >= 0; i-- {
		if n.Members[i].Name == name {
			return n.Members[i].Value
		}
	}
	return nil
}

// keyValue adds a.b.c = value to table.
func (r *tomlReader) keyValue(table *Node, x *unstable.Node, from, depth int) error {
	var last *unstable.Node
	for key := x.Key(); key.Next(); depth++ {
		if depth >= maxDepth {
			return r.tooDeep(key.Node(), from)
		}
		if last != nil {
			table = r.child(table, last, from)
		}
		last = key.Node()
	}
	at := r.pos(from + int(last.Raw.Offset))
	value, err := r.value(x.Value(), at, from, depth)
	if err != nil {
		return err
	}
	table.Members = append(table.Members, Member{string(last.Data), at, value})
	return nil
}

// value converts a value. near is its place where the parser gives none.
func (r *tomlReader) value(x *unstable.Node, near Pos, from, depth int) (*Node, error) {
	if err := r.count(); err != nil {
		return nil, err
	}
	if depth >= maxDepth {
		return nil, r.tooDeep(x, from)
	}
	n := &Node{Pos: near}
	if x.Raw.Length > 0 {
		n.Pos = r.pos(from + int(x.Raw.Offset))
	}
	switch x.Kind {
	case unstable.Array:
		n.Kind = KindArray
		for items := x.Children(); items.Next(); {
			item, err := r.value(items.Node(), near, from, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case unstable.InlineTable:
		n.Kind = KindObject
		for items := x.Children(); items.Next(); {
			if err := r.keyValue(n, items.Node(), from, depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Bool:
		n.Kind, n.Text = KindBool, string(x.Data)
	case unstable.Integer, unstable.Float:
		n.setNumber(string(x.Data))
	default: // strings, and dates, which no config of a server holds
		n.Kind, n.Text = KindString, string(x.Data)
	}
	return n, nil
}

func (r *tomlReader) count() error {
	if r.values--; r.values < 0 {
		return errTooLarge
	}
	return nil
}

func (r *tomlReader) tooDeep(x *unstable.Node, from int) error {
	return &syntaxError{r.pos(from + int(x.Raw.Offset)), "it is nested deeper than " + strconv.Itoa(maxDepth) + " levels"}
}

// jsonNumber matches numbers that mean in JSON what they mean elsewhere.
var jsonNumber = lazy.Regexp(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// setNumber makes n a number, in JSON's spelling, so that every reader of a Node
// understands it; inf and nan become strings.
func (n *Node) setNumber(written string) {
	n.Kind, n.Text = KindNumber, written
	if jsonNumber().MatchString(written) {
		return
	}
	plain := strings.ReplaceAll(strings.TrimPrefix(written, "+"), "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		n.Text = strconv.FormatInt(i, 10)
	} else if f, err := strconv.ParseFloat(plain, 64); err == nil && jsonNumber().MatchString(strconv.FormatFloat(f, 'g', -1, 64)) {
		n.Text = strconv.FormatFloat(f, 'g', -1, 64)
	} else {
		n.Kind = KindString
	}
}
