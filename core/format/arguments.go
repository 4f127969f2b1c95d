package format

import (
	"errors"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/rawjson"
)

// wrapper is the property in which a schema stands that cannot be a root.
const wrapper = "input"

// back says how the arguments of one tool become MCP's again.
type back struct {
	wrapped    bool
	properties map[string]string // the server's names of properties, by the provider's
}

// Errors of Arguments, to be shown to the model that wrote them.
var (
	ErrNotJSON   = errors.New("the arguments are not valid JSON")
	ErrNotObject = errors.New("the arguments must be a JSON object")
)

// Arguments gives what a server is to be sent for what a model wrote: a JSON object, or
// a JSON string that holds one, as OpenAI's models give it; nil for none.
func (d *Definition) Arguments(written []byte) ([]byte, error) {
	if text, is := rawjson.String(written); is {
		if written = []byte(text); len(written) > 0 && !json.Valid(written) {
			return nil, ErrNotJSON
		}
	}
	if len(written) == 0 || string(written) == "null" {
		return nil, nil
	}
	if !rawjson.IsObject(written) {
		return nil, ErrNotObject
	}
	if d == nil {
		return written, nil
	}
	if d.back.wrapped {
		written = unwrap(written)
		if !rawjson.IsObject(written) {
			return nil, errors.New(`"` + wrapper + `" must be a JSON object: MCP has no other arguments`)
		}
	}
	if d.back.properties != nil {
		n := parse(written)
		if n == nil {
			return nil, errors.New("the arguments are nested too deeply")
		}
		written = d.back.rename(n).append(nil)
	}
	return written, nil
}

// unwrap takes the arguments out of the wrapper. Those of a model that saw the tool
// before it was wrapped stand there without one.
func unwrap(object []byte) []byte {
	count := 0
	var inner []byte
	_ = rawjson.Members(object, func(key string, value []byte) bool {
		if count++; key == wrapper {
			inner = value
		}
		return true
	})
	if count == 1 && inner != nil {
		return inner
	}
	return object
}

// rename gives properties their own names again, wherever they are: the provider's end in
// a digest, so that nothing else is called so.
func (k *back) rename(n *node) *node {
	switch n.kind {
	case '{':
		out := &node{kind: '{', members: make([]member, 0, len(n.members))}
		for _, m := range n.members {
			key := m.key
			if own, ok := k.properties[key]; ok {
				key = own
			}
			out.members = append(out.members, member{key, k.rename(m.value)})
		}
		return out
	case '[':
		out := list()
		for _, item := range n.items {
			out.items = append(out.items, k.rename(item))
		}
		return out
	}
	return n
}
