package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yamlReader builds a tree from the first document of a YAML text.
type yamlReader struct {
	tree    tree
	lines   int // before the text that is read, in its file
	anchors map[string]*Node
	values  int // left of maxValues: aliases count each time, so they cannot explode
}

func parseYAML(text []byte) (document, error) {
	if len(text) > maxYAMLBytes {
		return nil, tooManyBytes(maxYAMLBytes)
	}
	r := &yamlReader{anchors: map[string]*Node{}, values: maxValues, tree: tree{broken: map[*Node]error{}}}
	top, err := r.read(string(text))
	if err != nil {
		var problem *syntaxError
		if !errors.As(err, &problem) {
			return nil, err
		}
		if top = r.salvage(text, problem); top == nil {
			return nil, err
		}
	}
	r.tree.top = top
	return &r.tree, nil
}

// read parses a whole text. The parser is not trusted with hostile input: a
// panic of it is an error of the file.
func (r *yamlReader) read(text string) (top *Node, err error) {
	defer func() {
		if recover() != nil {
			top, err = nil, &syntaxError{Pos{1 + r.lines, 1}, "this is not valid YAML"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if err := r.bound(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, r.fault(err)
	}
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType {
			return r.node(doc.Body, 0)
		}
	}
	return nil, nil
}

// fault gives a parser's error a place; its text quotes nothing of the file.
func (r *yamlReader) fault(err error) error {
	var bad *yaml.SyntaxError
	if errors.As(err, &bad) && bad.Token != nil && bad.Token.Position != nil {
		return &syntaxError{r.pos(bad.Token), "this is not valid YAML: check the indentation, quotes and colons here"}
	}
	return &syntaxError{Pos{1 + r.lines, 1}, "this is not valid YAML"}
}

func (r *yamlReader) pos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{}
	}
	return Pos{max(1, t.Position.Line) + r.lines, max(1, t.Position.Column)}
}

// maxYAMLPaths bounds what the parser spends on the paths that it keeps for
// every value: the names of all that the value lies in.
const maxYAMLPaths = 64 << 20

// maxYAMLSiblings bounds what the parser spends on long block mappings: at each
// member it looks at those before it.
const maxYAMLSiblings = 50_000_000

// bound refuses what would cost the parser a deep recursion, or much memory or time.
func (r *yamlReader) bound(tokens token.Tokens) error {
	type level struct {
		flow        bool // in brackets, else by indentation
		column, key int
		before      int // siblings
	}
	var stack []level
	path, paths, siblings := 0, 0, 0
	pop := func() {
		path -= stack[len(stack)-1].key + 1
		stack = stack[:len(stack)-1]
	}
	for _, t := range tokens {
		switch {
		case t.Type == token.MappingStartType || t.Type == token.SequenceStartType:
			stack = append(stack, level{flow: true})
			path++
		case t.Type == token.MappingEndType || t.Type == token.SequenceEndType:
			for len(stack) > 0 && !stack[len(stack)-1].flow {
				pop()
			}
			if len(stack) > 0 {
				pop()
			}
		case t.Type == token.SequenceEntryType, t.Type == token.MappingKeyType, t.Type == token.TagType, t.NextType() == token.MappingValueType,
			t.PreviousType() == token.MappingKeyType:
			before := 0
			for len(stack) > 0 && !stack[len(stack)-1].flow && t.Position.Column <= stack[len(stack)-1].column {
				if top := stack[len(stack)-1]; top.column == t.Position.Column {
					before = top.before + 1
				}
				pop()
			}
			stack = append(stack, level{column: t.Position.Column, key: len(t.Value), before: before})
			siblings += before
			path += len(t.Value) + 1
		}
		if len(stack) > maxDepth {
			return &syntaxError{r.pos(t), "it is nested deeper than " + strconv.Itoa(maxDepth) + " levels"}
		}
		if paths += path + 1; paths > maxYAMLPaths || siblings > maxYAMLSiblings {
			return errTooLarge
		}
	}
	return nil
}

// node converts one value.
func (r *yamlReader) node(x ast.Node, depth int) (*Node, error) {
	if r.values--; r.values < 0 {
		return nil, errTooLarge
	}
	n := &Node{Kind: KindNull}
	if x == nil {
		return n, nil
	}
	n.Pos = r.pos(x.GetToken())
	if depth > maxDepth {
		return nil, &syntaxError{n.Pos, "it is nested deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	switch x := x.(type) {
	case *ast.BoolNode:
		n.Kind, n.Text = KindBool, strconv.FormatBool(x.Value)
	case *ast.IntegerNode:
		n.setNumber(x.Token.Value)
		if n.Kind != KindNumber || !jsonNumber().MatchString(x.Token.Value) {
			n.setNumber(fmt.Sprint(x.Value)) // 0o17
		}
	case *ast.FloatNode:
		n.setNumber(x.Token.Value)
		if n.Kind != KindNumber && !math.IsInf(x.Value, 0) {
			n.setNumber(strconv.FormatFloat(x.Value, 'g', -1, 64))
		}
	case *ast.StringNode:
		n.Kind, n.Text = KindString, x.Value
	case *ast.LiteralNode:
		n.Kind, n.Text = KindString, x.Value.Value
	case *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Text = KindString, x.GetToken().Value
	case *ast.TagNode:
		return r.tagged(x, depth)
	case *ast.AnchorNode:
		return r.anchor(x, depth)
	case *ast.AliasNode:
		return r.alias(x, depth)
	case *ast.SequenceNode:
		n.Kind = KindArray
		for _, item := range x.Values {
			v, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, v)
		}
	case *ast.MappingNode:
		return n, r.members(n, x.Values, depth)
	case *ast.MappingValueNode:
		return n, r.members(n, []*ast.MappingValueNode{x}, depth)
	}
	return n, nil
}

// members adds those of a mapping, and with << the ones of other mappings that
// it does not name itself.
func (r *yamlReader) members(n *Node, values []*ast.MappingValueNode, depth int) error {
	n.Kind = KindObject
	var inherited []Member
	for _, m := range values {
		value, err := r.node(m.Value, depth+1)
		if err != nil {
			return err
		}
		at := r.pos(m.Key.GetToken())
		if !m.Key.IsMergeKey() {
			name, err := r.key(m.Key, depth)
			if err != nil {
				return err
			}
			n.Members = append(n.Members, Member{name, at, value})
			continue
		}
		from := []*Node{value}
		if value.Kind == KindArray {
			from = value.Items
		}
		for _, other := range from {
			for _, member := range other.Members {
				inherited = append(inherited, Member{member.Name, at, member.Value})
			}
		}
	}
	if len(inherited) == 0 {
		return nil
	}
	own := map[string]bool{}
	for _, m := range n.Members {
		own[m.Name] = true
	}
	first := make([]Member, 0, len(inherited))
	for _, m := range inherited {
		if !own[m.Name] { // of several mappings the first one counts
			own[m.Name] = true
			first = append(first, m)
		}
	}
	n.Members = append(first, n.Members...)
	return nil
}

func (r *yamlReader) key(x ast.MapKeyNode, depth int) (string, error) {
	switch x := x.(type) {
	case *ast.StringNode:
		return x.Value, nil
	case *ast.MappingKeyNode:
		n, err := r.node(x.Value, depth+1)
		if err != nil {
			return "", err
		}
		return n.Text, nil
	}
	return x.GetToken().Value, nil
}

// tagged reads the value under a tag. Only !!str changes what a value is here.
func (r *yamlReader) tagged(x *ast.TagNode, depth int) (*Node, error) {
	n, err := r.node(x.Value, depth+1)
	if err == nil && x.Start.Value == "!!str" && (n.Kind == KindNumber || n.Kind == KindBool) {
		n.Kind, n.Text = KindString, x.Value.GetToken().Value
	}
	return n, err
}

func (r *yamlReader) anchor(x *ast.AnchorNode, depth int) (*Node, error) {
	n, err := r.node(x.Value, depth+1)
	if err == nil && x.Name != nil {
		r.anchors[x.Name.GetToken().Value] = n
	}
	return n, err
}

// alias copies what the anchor names, and counts it.
func (r *yamlReader) alias(x *ast.AliasNode, depth int) (*Node, error) {
	at := r.pos(x.GetToken())
	target := r.anchors[x.Value.GetToken().Value]
	if target == nil {
		return nil, &syntaxError{at, "this alias names no anchor before it"}
	}
	n, err := r.copied(target, depth)
	if err == nil {
		n.Pos = at
	}
	return n, err
}

func (r *yamlReader) copied(n *Node, depth int) (*Node, error) {
	if r.values--; r.values < 0 {
		return nil, errTooLarge
	}
	if depth > maxDepth {
		return nil, &syntaxError{n.Pos, "it is nested deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	c := *n
	c.Members, c.Items = slices.Clone(n.Members), slices.Clone(n.Items)
	var err error
	for i := range c.Members {
		if c.Members[i].Value, err = r.copied(c.Members[i].Value, depth+1); err != nil {
			return nil, err
		}
	}
	for i := range c.Items {
		if c.Items[i], err = r.copied(c.Items[i], depth+1); err != nil {
			return nil, err
		}
	}
	return &c, nil
}
