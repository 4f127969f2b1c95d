package session

import (
	"bytes"

	"github.com/mcprt/mcprt/core/lazy"
	"github.com/mcprt/mcprt/core/rawjson"
)

// A host's span travels in a call's _meta (SEP-414). Over HTTP it also goes out as the
// headers of W3C Trace Context, as mcp-go's propagator would write them: gateways and
// servers' HTTP layers look there.

var (
	traceparentKey = []byte(`"traceparent"`)
	// version, trace id, parent id, flags; all-zero ids and version ff are invalid.
	traceparent = lazy.Regexp(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	noTrace     = lazy.Regexp(`^(ff-|..-0{32}-|.{35}-0{16}-)`)
	tracestate  = lazy.Regexp(`^[\x20-\x7e]{1,512}$`)
)

// addTraceContext adds the headers for what c's _meta holds. What is malformed stays in
// _meta alone, where it is the host's affair.
func addTraceContext(headers map[string]string, c *Call) map[string]string {
	meta := c.Meta
	if rawjson.Get(meta, "traceparent") == nil {
		if !bytes.Contains(c.Params, traceparentKey) {
			return headers
		}
		meta = rawjson.Get(c.Params, "_meta")
	}
	parent, _ := rawjson.String(rawjson.Get(meta, "traceparent"))
	if !traceparent().MatchString(parent) || noTrace().MatchString(parent) {
		return headers
	}
	if headers == nil {
		headers = map[string]string{}
	}
	headers["Traceparent"] = parent
	if state, _ := rawjson.String(rawjson.Get(meta, "tracestate")); tracestate().MatchString(state) {
		headers["Tracestate"] = state
	}
	return headers
}
