package config

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/mcp.schema.json"

// schema is docs/mcp.schema.json, as data and ready to validate.
func schema(t *testing.T) (doc map[string]any, validate *jsonschema.Schema) {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	data, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mcp.schema.json", data); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mcp.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return data.(map[string]any), s
}

func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// TestSchemaHasTheMappersFields: what the mapper reads of an entry in mcprt's
// dialect is in the schema, under the same meaning, and nothing else is.
func TestSchemaHasTheMappersFields(t *testing.T) {
	doc, _ := schema(t)
	properties := at(doc, "$defs", "server", "properties").(map[string]any)
	meaning := map[string]string{}
	for _, key := range ownDialect.URLKeys {
		meaning[key] = "url"
	}
	for key, name := range fieldNames {
		if ownDialect.urlRank(key) < 0 {
			meaning[key] = name
		}
	}
	for _, key := range slices.Sorted(maps.Keys(meaning)) {
		property, known := properties[key].(map[string]any)
		name := meaning[key]
		_, hasName := properties[name]
		switch {
		case !known:
			t.Errorf("the schema lacks %q", key)
		case key != name && hasName && key != "auth" && property["$ref"] != "#/$defs/server/properties/"+name:
			t.Errorf("%q is another spelling of %q, but the schema says %v", key, name, property)
		case key == name && property["description"] == nil:
			t.Errorf("%q has no description", key)
		}
	}
	for key := range properties {
		if meaning[key] == "" {
			t.Errorf("the schema has %q, which the mapper does not know", key)
		}
	}
	for _, word := range at(doc, "$defs", "server", "properties", "type", "enum").([]any) {
		if transportWords[fold(word.(string))] == "" {
			t.Errorf("the transport %q is not known", word)
		}
	}
}

// TestSchemaAgreesWithTheParser: an entry that the schema accepts is read without a
// complaint, and one that it refuses is not.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	_, s := schema(t)
	for entry, good := range map[string]bool{
		`{"command":"npx","args":["-y","x"],"env":{"A":"1"},"cwd":".","envFile":".env","timeoutMs":0,"lazy":true,"idleTimeoutMs":1000}`:           true,
		`{"type":"stdio","command":"x","allowTools":["a*"],"denyTools":[],"maxConcurrentCalls":3,"protocol":"2025-11-25","instructions":false}`:   true,
		`{"url":"https://a.example/mcp","headers":{"A":"!pass x"},"oauth":{"clientId":"x","scopes":["a"]},"proxy":"http://p.example:1"}`:          true,
		`{"type":"streamable-http","url":"https://a.example/mcp","oauth":false,"tls":{"caFile":"/x"},"timeout":"30s","startupTimeoutMs":"1m30s"}`: true,
		`{"url":"https://a.example/mcp","headerEnvVars":{"X":"VAR"},"bearerTokenEnvVar":"TOKEN","scopes":"a b","auth":"oauth"}`:                   true,
		`{"command":"x","envVars":["A","B_1"],"required":true,"tools":{"a":{"enabled":false}},"autoApprove":["x"]}`:                               true,
		`{"cmd":"x","environment":{"A":"1"}}`: true,
		`{"disabled":true}`:                   true,
		`{}`:                                  false,
		`[]`:                                  false,
		`{"args":["x"]}`:                      false,
		`{"command":"x","url":"https://a.example"}`: false,
		`{"command":7}`:                           false,
		`{"command":"x","args":"y"}`:              false,
		`{"command":"x","args":[1]}`:              false,
		`{"command":"x","env":{"A":1}}`:           false,
		`{"command":"x","env":{"A=B":"1"}}`:       false,
		`{"command":"x","env":["A=1"]}`:           false,
		`{"command":"x","enabled":"true"}`:        false,
		`{"command":"x","lazy":1}`:                false,
		`{"command":"x","timeoutMs":"soon"}`:      false,
		`{"command":"x","comand":"y"}`:            false,
		`{"type":"ws","url":"https://a.example"}`: false,
		`{"command":"x","tls":[]}`:                false,
		`{"command":"x","oauth":7}`:               false,
		`{"command":"x","tools":7}`:               false,
	} {
		e, found, err := parseInline("s", []byte(entry))
		accepted := err == nil && e != nil && !slices.ContainsFunc(found, func(d Diagnostic) bool { return d.Code == "unknown_field" || d.Code == "timeout_default" })
		doc, parseErr := jsonschema.UnmarshalJSON(strings.NewReader(`{"mcpServers":{"s":` + entry + `}}`))
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		valid := s.Validate(doc)
		if accepted != good {
			t.Errorf("%s: the parser says %v, %v", entry, found, err)
		}
		if (valid == nil) != good {
			t.Errorf("%s: the schema says %v", entry, valid)
		}
	}
}

// TestSchemaOfFiles: the samples that are in mcprt's own form, the one in the docs
// included, are valid, and so are the file's own members.
func TestSchemaOfFiles(t *testing.T) {
	_, s := schema(t)
	files := map[string]bool{
		`{"$schema":"../docs/mcp.schema.json","mcpServers":{"a":{"enabled":false}},"enabledServers":["x"],"disabledServers":[]}`: true,
		`{"mcpServers":{"a":{"command":"x"}},"inputs":[{"id":"k","type":"promptString","description":"d","password":true}]}`:     true,
		`{"mcpServers":{"":{"command":"x"}}}`:          false,
		`{"mcpServers":{"a\u0007b":{"command":"x"}}}`:  false,
		`{"mcpServers":[]}`:                            false,
		`{"enabledServers":"x"}`:                       false,
		`{"mcpServers":{},"inputs":[{"type":"none"}]}`: false,
		`[]`: false,
	}
	manual, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```jsonc\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
		files[m[1]] = true
	}
	for _, name := range []string{"01_claude_basic.mcp.json", "02_claude_defaults.mcp.json", "42_docker_env.json", "layering/user.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "fixtures", name))
		if err != nil {
			t.Fatal(err)
		}
		files[string(text)] = true
	}
	for text, good := range files {
		f := newJSONFile([]byte(text))
		top, _, err := f.root()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		n, err := f.node(top, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.canonical(nil))) // without comments
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
