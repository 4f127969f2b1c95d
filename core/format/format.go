// Package format gives MCP's tools and results the shapes that model providers take, and
// takes what a model then calls back to MCP's.
//
// A schema that a provider is given never allows less than the server's own: what the
// provider has no words for is left out, and the server goes on checking. Only Gemini,
// which wants a type everywhere, gets the likeliest one where the server names none.
package format

import (
	"strconv"
	"strings"

	"github.com/mcprt/mcprt/core/rawjson"
)

// Provider is one of the shapes.
type Provider int

const (
	// OpenAI is that of Chat Completions, which many other providers take, too.
	OpenAI Provider = iota
	// OpenAIResponses is that of OpenAI's Responses API.
	OpenAIResponses
	// Anthropic is that of the Messages API.
	Anthropic
	// Gemini is that of generateContent.
	Gemini
	// Count is how many there are.
	Count
)

var names = [Count]string{"openai", "openai-responses", "anthropic", "gemini"}

// String is the provider's name in requests.
func (p Provider) String() string { return names[p] }

// Parse finds a provider by its name in requests.
func Parse(name string) (Provider, bool) {
	for p, n := range names {
		if n == name {
			return Provider(p), true
		}
	}
	return 0, false
}

// Known lists the names of all providers, for an error message.
func Known() string { return `"` + strings.Join(names[:], `", "`) + `"` }

// rules are what the providers refuse. Each refuses a whole request for one tool that
// breaks them.
var rules = [Count]struct {
	tool        nameRule
	property    *nameRule // nil: any
	root        []string  // keywords that may not stand at the top of a schema
	inline      bool      // $refs are refused, or not followed
	description int       // most characters; 0: any number
}{
	// Names: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of
	// 64" (OpenAI's API reference, FunctionDefinition.name). Roots: the API's error "schema must have
	// type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
	// (github.com/langchain-ai/langchainjs/issues/9804). Descriptions: its error
	// "Expected a string with maximum length 1024" (github.com/getsentry/sentry-mcp/issues/106), of Chat Completions alone.
	OpenAI:          {tool: nameRule{max: 64, other: "-", digit: true}, root: []string{"oneOf", "anyOf", "allOf", "enum", "not"}, description: 1024},
	OpenAIResponses: {tool: nameRule{max: 64, other: "-", digit: true}, root: []string{"oneOf", "anyOf", "allOf", "enum", "not"}},
	// Names: ^[a-zA-Z0-9_-]{1,128}$. Roots and properties: the API's errors "input_schema does not support oneOf, allOf, or anyOf at the top level"
	// (github.com/anthropics/claude-code/issues/40075) and "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
	// (github.com/ComposioHQ/composio/issues/3500). $ref: not allowed in custom tools of managed agents
	// (platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes), so it is followed here.
	// With OpenAI's other keywords refused, too, these schemas are what any provider of a framework takes.
	Anthropic: {tool: nameRule{max: 128, other: "-", digit: true}, property: &nameRule{max: 64, other: ".-", digit: true},
		root: []string{"oneOf", "anyOf", "allOf", "enum", "not"}, inline: true},
	// FunctionDeclaration of the Gemini API and of Vertex AI: a name begins with a letter or an underscore; 64 is the
	// older of the two limits. "Parameter names must start with a letter or an underscore and must only contain chars
	// a-z, A-Z, 0-9, or underscores with a maximum length of 64."
	Gemini: {tool: nameRule{max: 64, other: "-"}, property: &nameRule{max: 64}, inline: true},
}

// Definition is one tool for one provider, without its name. It never changes.
type Definition struct {
	head, tail []byte
	back       back
}

// Make reads a tool's definition as its server sent it: valid JSON.
func (p Provider) Make(tool []byte) *Definition {
	d := &Definition{}
	description, _ := rawjson.String(rawjson.Get(tool, "description"))
	if description == "" {
		description, _ = rawjson.String(rawjson.Get(tool, "title"))
	}
	var schema []byte
	schema, d.back = p.schema(rawjson.Get(tool, "inputSchema"))
	switch p {
	case OpenAI:
		d.head = []byte(`{"type":"function","function":{"name":`)
	case OpenAIResponses:
		d.head = []byte(`{"type":"function","name":`)
	default:
		d.head = []byte(`{"name":`)
	}
	b := make([]byte, 0, len(schema)+len(description)+64)
	if description != "" {
		b = append(b, `,"description":`...)
		b = rawjson.AppendString(b, shorten(description, rules[p].description))
	}
	if schema != nil {
		member := `,"parameters":`
		if p == Anthropic {
			member = `,"input_schema":`
		}
		b = append(append(b, member...), schema...)
	}
	switch p {
	case OpenAI:
		b = append(b, '}')
	case OpenAIResponses: // where nothing said is strict, which few schemas of servers can be
		b = append(b, `,"strict":false`...)
	}
	d.tail = append(b, '}')
	return d
}

// Append appends the tool under a name.
func (d *Definition) Append(b []byte, name string) []byte {
	b = append(b, d.head...)
	b = rawjson.AppendString(b, name)
	return append(b, d.tail...)
}

// shorten cuts a text to so many characters.
func shorten(s string, most int) string {
	if most == 0 || len(s) <= most {
		return s
	}
	n := 0
	cutAt := 0
	for i := range s {
		if n == most-1 {
			cutAt = i
		}
		if n++; n > most {
			return s[:cutAt] + "…"
		}
	}
	return s
}

// size says how much base64 text holds, for a model that cannot be shown it.
func size(base64 string) string {
	bytes := len(strings.TrimRight(base64, "=")) * 3 / 4
	if bytes < 10_000 {
		return strconv.Itoa(bytes) + " bytes"
	}
	return strconv.Itoa(bytes/1000) + " kB"
}
