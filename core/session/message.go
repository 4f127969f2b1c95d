package session

import (
	"bytes"
	"slices"
	"strconv"
	"sync"

	"github.com/mcprt/mcprt/core/rawjson"
)

// buffers holds the room in which requests are built; one that grew large is let go.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

const keptBuffer = 256 << 10

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte, used []byte) {
	if cap(used) <= keptBuffer {
		*b = used[:0]
		buffers.Put(b)
	}
}

// retry is what a multi round-trip request adds when it is sent again.
type retry struct {
	responses []byte // raw inputResponses object, or nil
	state     []byte // raw requestState, or nil
}

// appendRequest builds a request with the caller's raw JSON spliced in.
func appendRequest(b []byte, id int64, c *Call, modern []byte, again *retry) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	b = rawjson.AppendString(b, c.Method)
	if c.Method == "tools/call" && c.Params == nil {
		b = append(b, `,"params":{"name":`...)
		b = rawjson.AppendString(b, c.Name)
		b = append(b, `,"arguments":`...)
		if len(c.Arguments) == 0 {
			b = append(b, `{}`...)
		} else {
			b = appendRaw(b, c.Arguments)
		}
		if c.asTask {
			b = append(b, `,"task":{}`...)
		}
		b = append(b, ',')
		b = appendMeta(b, id, c, nil, modern)
		b = appendRetry(b, again)
		return append(b, `}}`...)
	}
	b = append(b, `,"params":{`...)
	start := len(b)
	var own []byte // a _meta that the host wrote into the params itself
	_ = rawjson.Members(c.Params, func(key string, value []byte) bool {
		if key == "_meta" {
			own = value
			return true
		}
		b = comma(b)
		b = rawjson.AppendString(b, key)
		b = append(b, ':')
		b = appendRaw(b, value)
		return true
	})
	meta := appendMeta(nil, id, c, own, modern)
	if len(meta) > 0 {
		b = append(comma(b), meta...)
	}
	b = appendRetry(b, again)
	if len(b) == start && c.Params == nil { // nothing to say: no params at all
		return append(b[:start-len(`,"params":{`)], '}')
	}
	return append(b, `}}`...)
}

func appendRetry(b []byte, again *retry) []byte {
	if again == nil {
		return b
	}
	if again.responses != nil {
		b = append(comma(b), `"inputResponses":`...)
		b = appendRaw(b, again.responses)
	}
	if again.state != nil {
		b = append(comma(b), `"requestState":`...)
		b = append(b, again.state...)
	}
	return b
}

// appendMeta adds a request's _meta: the host's members, then the progress token
// and the protocol's. Progress is asked for on every tools/call, listener or not:
// it keeps a long call from its timeout. It adds nothing when there is nothing to say.
func appendMeta(b []byte, id int64, c *Call, own, modern []byte) []byte {
	progress := c.Method == "tools/call" || c.Progress != nil
	if !progress && len(modern) == 0 && len(c.Meta) == 0 && len(own) == 0 {
		return b
	}
	b = append(b, `"_meta":{`...)
	b = appendMembers(b, own)
	b = appendMembers(b, c.Meta)
	if progress {
		b = comma(b)
		b = append(b, `"progressToken":`...)
		b = strconv.AppendInt(b, id, 10)
	}
	if len(modern) > 0 {
		b = comma(b)
		b = append(b, modern...)
	}
	return append(b, '}')
}

func comma(b []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return b
}

// modernMeta gives the members that each request of 2026-07-28 and later carries.
func modernMeta(cfg Config) []byte {
	b := []byte(`"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientCapabilities":`)
	b = append(b, withTasks(cfg.Capabilities)...)
	b = append(b, `,"io.modelcontextprotocol/clientInfo":`...)
	return appendClientInfo(b, cfg.ClientInfo)
}

func appendClientInfo(b []byte, info ClientInfo) []byte {
	b = rawjson.AppendString(append(b, `{"name":`...), info.Name)
	b = rawjson.AppendString(append(b, `,"version":`...), info.Version)
	return append(b, '}')
}

// reserved are the members of _meta that are the session's own, not the host's.
var reserved = []string{"progressToken", "io.modelcontextprotocol/protocolVersion",
	"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo"}

// appendMembers adds the members of a raw object of the host, without the reserved ones.
func appendMembers(b, object []byte) []byte {
	_ = rawjson.Members(object, func(key string, value []byte) bool {
		if !slices.Contains(reserved, key) {
			b = comma(b)
			b = rawjson.AppendString(b, key)
			b = append(b, ':')
			b = appendRaw(b, value)
		}
		return true
	})
	return b
}

func appendNotification(b []byte, method string, params []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","method":`...)
	b = rawjson.AppendString(b, method)
	if len(params) > 0 {
		b = append(b, `,"params":`...)
		b = appendRaw(b, params)
	}
	return append(b, '}')
}

// appendRaw copies raw JSON. A line break in it can only stand between tokens; it
// becomes a space, since a message is one line, and some peers split at \r too.
func appendRaw(b, raw []byte) []byte {
	from := len(b)
	b = append(b, raw...)
	for _, br := range []byte{'\n', '\r'} {
		for at := from; ; at++ {
			i := bytes.IndexByte(b[at:], br)
			if i < 0 {
				break
			}
			at += i
			b[at] = ' '
		}
	}
	return b
}

// parseID reads an id of ours, as the number that we sent, as the string that
// some servers make of it, or as 7.0, where a language has no whole numbers.
func parseID(raw []byte) (int64, bool) {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	raw = bytes.TrimSuffix(raw, []byte(".0"))
	if len(raw) == 0 || len(raw) > 18 {
		return 0, false
	}
	var id int64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = id*10 + int64(c-'0')
	}
	return id, true
}
