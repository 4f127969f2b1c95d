package session

import (
	"bytes"
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/transport"
)

// What a transport with headers asks of a session: from 2026-07-28 on, gateways
// route by headers that repeat parts of the message.

// send sends a message that is no request of ours; method is "" for a reply.
func (s *Session) send(ctx context.Context, message []byte, method string) error {
	if s.carrier == nil {
		_, err := s.conn.Send(ctx, message)
		return err
	}
	_, err := s.carrier.SendMeta(ctx, message, transport.Meta{Method: method, Version: s.Info().ProtocolVersion, Modern: s.modern.Load()})
	return err
}

func (s *Session) requestMeta(p *pending) transport.Meta {
	m := transport.Meta{ID: p.id, Method: p.call.Method, Modern: p.modern}
	switch {
	case p.modern:
		m.Version, m.Headers = modernVersion, headersOf(&p.call)
	case p.call.Method != string(mcp.MethodInitialize): // that one settles the version
		m.Version = s.Info().ProtocolVersion
	}
	m.Headers = addTraceContext(m.Headers, &p.call)
	return m
}

var annotation = []byte(`"x-mcp-header"`)

// headersOf gives Mcp-Name, and Mcp-Param-* for the arguments that the tool's
// definition wants there.
func headersOf(c *Call) map[string]string {
	key := "name"
	switch mcp.MCPMethod(c.Method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
	case mcp.MethodResourcesRead:
		key = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		key = "taskId"
	default:
		return nil
	}
	name, arguments := c.Name, c.Arguments
	if c.Params != nil {
		name, _ = rawjson.String(rawjson.Get(c.Params, key))
		arguments = rawjson.Get(c.Params, "arguments")
	}
	headers := map[string]string{}
	if encoded, ok := mcp.EncodeHeaderValue(name); ok {
		headers[mcp.HeaderName] = encoded
	}
	if len(arguments) > 0 && bytes.Contains(c.Definition, annotation) {
		params := append(append([]byte(`{"arguments":`), arguments...), '}')
		for header, value := range mcp.GenerateParamHeaders(headerTool(c.Definition), params) {
			headers[header] = value
		}
	}
	return headers
}

func headerTool(definition []byte) *mcp.Tool {
	return &mcp.Tool{RawInputSchema: rawjson.Get(definition, "inputSchema")}
}

// wrongHeaders says why a tool must be dropped; "" when it need not be.
func (s *Session) wrongHeaders(definition []byte) string {
	if s.carrier == nil || !s.modern.Load() || !bytes.Contains(definition, annotation) {
		return ""
	}
	if err := mcp.ValidateParamHeaderAnnotations(headerTool(definition)); err != nil {
		return err.Error()
	}
	return ""
}
