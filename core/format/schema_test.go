package format

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// schemaOf gives the schema of a tool that has this one, "" where there is none.
func schemaOf(t *testing.T, p Provider, schema string) (string, *Definition) {
	t.Helper()
	d := p.Make([]byte(`{"name":"x","inputSchema":` + schema + `}`))
	b := d.Append(nil, "x")
	if !json.Valid(b) {
		t.Fatalf("%s: %s gives no JSON: %s", p, schema, b)
	}
	var out struct {
		Function struct {
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
		Parameters json.RawMessage `json:"parameters"`
		Input      json.RawMessage `json:"input_schema"`
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return string(out.Function.Parameters) + string(out.Parameters) + string(out.Input), d
}

const empty = `{"type":"object","properties":{}}`

// TestSchemas says what each provider gets. "same" is the server's own text.
func TestSchemas(t *testing.T) {
	for name, c := range map[string]struct{ schema, openai, anthropic, gemini string }{
		"as it should be": {`{"type": "object","properties":{"a":{"type":"string","maximum":9007199254740993}},"required":["a"]}`, "same", "same",
			`{"type":"OBJECT","properties":{"a":{"type":"STRING"}},"required":["a"]}`},
		"nothing":           {`{}`, `{"type":"object","properties":{}}`, `{"type":"object","properties":{}}`, ""},
		"no properties":     {`{"type":"object"}`, empty, empty, ""},
		"empty properties":  {empty, "same", "same", ""},
		"null":              {`null`, empty, empty, ""},
		"true":              {`true`, empty, empty, ""},
		"object or null":    {`{"type":["object","null"],"properties":{}}`, empty, empty, ""},
		"draft is kept":     {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}`, "same", "same", ""},
		"draft is replaced": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, empty, empty, ""},
		"definitions": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"a point"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"number"}},"description":"P"}}}`, "same",
			`{"type":"object","properties":{"p":{"type":"object","properties":{"x":{"type":"number"}},"description":"a point"}}}`,
			`{"type":"OBJECT","properties":{"p":{"type":"OBJECT","properties":{"x":{"type":"NUMBER"}},"description":"a point"}}}`},
		"more beside a $ref": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/P","minimum":5}},"$defs":{"P":{"type":"integer","minimum":3,"maximum":9}}}`, "same",
			`{"type":"object","properties":{"p":{"allOf":[{"type":"integer","minimum":3,"maximum":9},{"minimum":5}]}}}`,
			`{"type":"OBJECT","properties":{"p":{"type":"INTEGER","minimum":5,"maximum":9}}}`},
		"a $ref with escapes": {`{"type":"object","properties":{"p":{"$ref":"#/definitions/a~1b%25"}},"definitions":{"a/b%":{"type":"boolean"}}}`, "same",
			`{"type":"object","properties":{"p":{"type":"boolean"}}}`, `{"type":"OBJECT","properties":{"p":{"type":"BOOLEAN"}}}`},
		"an anchor": {`{"type":"object","properties":{"p":{"$ref":"#here"}},"$defs":{"x":{"$anchor":"here","type":"boolean"}}}`, "same",
			`{"type":"object","properties":{"p":{"type":"boolean"}}}`, `{"type":"OBJECT","properties":{"p":{"type":"BOOLEAN"}}}`},
		"a $ref to nothing": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/gone","title":"T"},"q":{"$ref":"https://example.com/s.json"}}}`,
			`{"type":"object","properties":{"p":{"title":"T"},"q":{}}}`, `{"type":"object","properties":{"p":{"title":"T"},"q":{}}}`,
			`{"type":"OBJECT","properties":{"p":` + anyGemini + `,"q":` + anyGemini + `}}`},
		"a root that is a $ref": {`{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"b":{"$ref":"#/definitions/B"}}},"B":{"type":"string"}}}`,
			`{"type":"object","properties":{"b":{"$ref":"#/definitions/B"}},"definitions":{"A":{"type":"object","properties":{"b":{"$ref":"#/definitions/B"}}},"B":{"type":"string"}}}`,
			`{"type":"object","properties":{"b":{"type":"string"}}}`, `{"type":"OBJECT","properties":{"b":{"type":"STRING"}}}`},
		"recursion": {`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"}}}}}`, "same",
			`{"type":"object","properties":{"n":{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"type":"object"}}}}}}}`,
			`{"type":"OBJECT","properties":{"n":{"type":"OBJECT","properties":{"next":{"type":"OBJECT","properties":{"next":{"type":"OBJECT"}}}}}}}`},
		"recursion through allOf": {`{"allOf":[{"$ref":"#/$defs/B"}],"$defs":{"B":{"type":"object","properties":{"x":{"allOf":[{"$ref":"#/$defs/B"}]}}}}}`,
			`{"type":"object","properties":{"x":{"allOf":[{"$ref":"#/$defs/B"}]}},"$defs":{"B":{"type":"object","properties":{"x":{"allOf":[{"$ref":"#/$defs/B"}]}}}}}`,
			`{"type":"object","properties":{"x":{"allOf":[{"type":"object","properties":{"x":{"allOf":[{"type":"object"}]}}}]}}}`,
			`{"type":"OBJECT","properties":{"x":{"type":"OBJECT","properties":{"x":{"type":"OBJECT"}}}}}`},
		"a root of itself": {`{"$ref":"#"}`, empty, empty, ""},
		"a root that is no object": {`{"type":"array","items":{"$ref":"#/$defs/A"},"$defs":{"A":{"type":"string"}}}`,
			`{"type":"object","properties":{"input":{"type":"array","items":{"$ref":"#/properties/input/$defs/A"},"$defs":{"A":{"type":"string"}}}},"required":["input"]}`,
			`{"type":"object","properties":{"input":{"type":"array","items":{"type":"string"}}},"required":["input"]}`,
			`{"type":"OBJECT","properties":{"input":{"type":"ARRAY","items":{"type":"STRING"}}},"required":["input"]}`},
		"a root of kinds": {`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"integer"}}}]}`,
			`{"type":"object","properties":{"input":{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"integer"}}}]}},"required":["input"]}`,
			`{"type":"object","properties":{"input":{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"integer"}}}]}},"required":["input"]}`,
			`{"type":"OBJECT","properties":{"input":{"anyOf":[{"type":"OBJECT","properties":{"a":{"type":"STRING"}}},{"type":"OBJECT","properties":{"b":{"type":"INTEGER"}}}]}},"required":["input"]}`},
		"one of them at least": {`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}`},
		"allOf of objects": {`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
			`{"properties":{"b":{"type":"string"},"a":{"type":"string"}},"required":["b","a"],"type":"object"}`, `{"properties":{"b":{"type":"string"},"a":{"type":"string"}},"required":["b","a"],"type":"object"}`,
			`{"type":"OBJECT","properties":{"b":{"type":"STRING"},"a":{"type":"STRING"}},"required":["b","a"]}`},
		"an array of nothing said": {`{"type":"object","properties":{"a":{"type":"array"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`,
			`{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":` + anyGemini + `}}}`},
		"older drafts": {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":false},"b":{"type":"number","minimum":1,"exclusiveMinimum":true,"required":true}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false},"b":{"type":"number","minimum":1,"exclusiveMinimum":1}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false},"b":{"type":"number","minimum":1,"exclusiveMinimum":1}}}`,
			`{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"STRING"}},"b":{"type":"NUMBER","minimum":1}}}`},
		"what is no schema": {`{"type":"object","properties":{"a":{"type":"any","enum":[],"minLength":-1,"description":7},"b":true,"c":5,"d":{"type":"str"}},"required":"a"}`,
			`{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{"type":"string"}}}`, `{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{"type":"string"}}}`,
			`{"type":"OBJECT","properties":{"a":` + anyGemini + `,"b":` + anyGemini + `,"c":` + anyGemini + `,"d":{"type":"STRING"}}}`},
		"names of properties": {`{"type":"object","properties":{"$top":{"type":"integer"},"a-b":{"type":"string"}},"required":["$top"]}`, "same",
			`{"type":"object","properties":{"_top_81bf98e4":{"type":"integer"},"a-b":{"type":"string"}},"required":["_top_81bf98e4"]}`,
			`{"type":"OBJECT","properties":{"_top_81bf98e4":{"type":"INTEGER"},"a_b_d44362d6":{"type":"STRING"}},"required":["_top_81bf98e4"]}`},
		"optional, as pydantic writes it": {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"d"},"b":{"anyOf":[{"type":"integer"},{"type":"string","description":"s"}],"description":"two"}}}`, "same", "same",
			`{"type":"OBJECT","properties":{"a":{"type":"STRING","description":"d","nullable":true},"b":{"anyOf":[{"type":"INTEGER","description":"two"},{"type":"STRING","description":"s"}]}}}`},
		"values": {`{"type":"object","properties":{"a":{"enum":["x","y"],"default":"x"},"b":{"type":"integer","enum":[1,2],"description":"n"},"c":{"const":"z"},"d":{"type":["string","integer"]},"e":{"type":"string","format":"uri","pattern":"^a"},"f":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}},"required":["a","gone"]}`, "same", "same",
			`{"type":"OBJECT","properties":{"a":{"type":"STRING","enum":["x","y"],"description":"Default: \"x\""},"b":{"type":"INTEGER","description":"n\nOne of: 1, 2."},"c":{"type":"STRING","enum":["z"]},"d":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]},"e":{"type":"STRING","pattern":"^a"},"f":{"type":"INTEGER","minimum":1,"maximum":9}},"required":["a"]}`},
		"what allows more inside allows less": {`{"type":"object","properties":{"a":{"oneOf":[{"type":"array"},{"type":"string"}]},"b":{"not":{"$ref":"#/$defs/b"}},"c":{"if":{"required":5},"then":{"type":"string"},"else":{"type":"number"}},"d":{"not":{"type":"string"}}},"$defs":{"b":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{}},{"type":"string"}]},"b":{},"c":{},"d":{"not":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{}},{"type":"string"}]},"b":{},"c":{},"d":{"not":{"type":"string"}}}}`,
			`{"type":"OBJECT","properties":{"a":{"anyOf":[{"type":"ARRAY","items":` + anyGemini + `},{"type":"STRING"}]},"b":` + anyGemini + `,"c":` + anyGemini + `,"d":` + anyGemini + `}}`},
		"conditions of two": {`{"type":"object","allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}},{"if":{"required":["c"]},"else":{"required":["d"]}}]}`,
			`{"type":"object","properties":{"input":{"type":"object","allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}},{"if":{"required":["c"]},"else":{"required":["d"]}}]}},"required":["input"]}`,
			`{"type":"object","properties":{"input":{"type":"object","allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}},{"if":{"required":["c"]},"else":{"required":["d"]}}]}},"required":["input"]}`, ""},
		"properties of any name": {`{"type":"object","additionalProperties":{"type":"string"}}`,
			`{"type":"object","additionalProperties":{"type":"string"},"properties":{}}`, `{"type":"object","additionalProperties":{"type":"string"},"properties":{}}`,
			`{"type":"OBJECT","properties":{"input":{"type":"OBJECT"}},"required":["input"]}`},
	} {
		for p, want := range map[Provider]string{OpenAI: c.openai, Anthropic: c.anthropic, Gemini: c.gemini} {
			got, _ := schemaOf(t, p, c.schema)
			if want == "same" {
				want = c.schema
			}
			if got != want {
				t.Errorf("%s, %s:\n got  %s\n want %s", name, p, got, want)
			}
		}
	}
}

const anyGemini = `{"anyOf":[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"},{"type":"OBJECT"},{"type":"ARRAY","items":{"type":"STRING"}}]}`

// TestReferencesStay: OpenAI knows $refs, and they still lead somewhere when a root was replaced.
func TestReferencesStay(t *testing.T) {
	for _, schema := range []string{
		`{"allOf":[{"$ref":"#/$defs/B"}],"$defs":{"B":{"type":"object","properties":{"x":{"allOf":[{"$ref":"#/$defs/B"}]}}}}}`,
		`{"$ref":"#/$defs/B","$defs":{"B":{"type":"object","properties":{"x":{"$ref":"#/$defs/B"}}}}}`,
		`{"anyOf":[{"$ref":"#/$defs/B"},{"$ref":"#/$defs/C"}],"$defs":{"B":{"type":"object","properties":{"x":{"$ref":"#"},"y":{"$ref":"#b"}}},"C":{"$anchor":"b"}}}`,
	} {
		got, _ := schemaOf(t, OpenAI, schema)
		if !stillMean(parse([]byte(got))) || !strings.Contains(got, "$ref") {
			t.Errorf("%s", got)
		}
	}
}

// TestLongSchemas: a schema without $refs is never cut, however long it is.
func TestLongSchemas(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `"p%d":{"type":"array","items":{"type":"string"},"description":"%d"},`, i, i)
	}
	for p := range Count {
		got, _ := schemaOf(t, p, `{"properties":{`+many.String()+`"last":{"type":"array"}}}`)
		if n := strings.Count(strings.ToLower(got), `"type":"string"`); n < 10_000 || len(got) < many.Len() {
			t.Errorf("%s: %d of 10000", p, n)
		}
	}
}

// TestMovedTargets: a $ref to a place that is not there any more is followed instead.
func TestMovedTargets(t *testing.T) {
	got, _ := schemaOf(t, OpenAI, `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]},"b":{"$ref":"#/properties/a/items/0"}}}`)
	if want := `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":{}},"b":{"type":"string"}}}`; got != want {
		t.Error(got)
	}
}

// TestHostileSchemas: whatever a server writes, the schema stays small enough and takes no time.
func TestHostileSchemas(t *testing.T) {
	var chain, wide strings.Builder
	for i := range 60 { // 2^60 schemas, unfolded
		fmt.Fprintf(&chain, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	for i := range 150 { // each has each other inside
		fmt.Fprintf(&wide, `"d%d":{"type":"object","properties":{`, i)
		for j := range 150 {
			fmt.Fprintf(&wide, `"p%d":{"$ref":"#/$defs/d%d"},`, j, j)
		}
		wide.WriteString(`"z":{}}},`)
	}
	manyRefs := strings.Repeat(`{"$ref":"#/$defs/`+strings.Repeat("x", 30)+`"},`, 15_000)
	loop := `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`
	names := make([]string, 0, 20_000)
	for i := range 20_000 {
		names = append(names, fmt.Sprintf(`"$%d":{}`, i))
	}
	for name, schema := range map[string]string{
		"doubling":        `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + chain.String() + `"d60":{"type":"string"}}}`,
		"all in all":      `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"},"b":{"$ref":"#/$defs/d1"}},"$defs":{` + wide.String() + `"e":{}}}`,
		"a loop":          loop,
		"allOf of itself": `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		"anyOf of itself": `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"$ref":"#/properties/a"},{"type":"string"}]}}}`,
		"deep":            `{"type":"object","properties":{"a":` + strings.Repeat(`{"items":`, 5_000) + `{}` + strings.Repeat("}", 5_000) + `}}`,
		"long":            `{"type":"object","description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`,
		"many choices":    `{"type":"object","properties":{"a":{"anyOf":[` + manyRefs + `{}]}},"$defs":{"` + strings.Repeat("x", 30) + `":{"type":"string","enum":["` + strings.Repeat("y", 1000) + `"]}}}`,
		"many names":      `{"type":"object","properties":{` + strings.Join(names, ",") + `}}`,
		"equal keys":      `{` + strings.Repeat(`"a":1,`, 100_000) + `"type":"object"}`,
		"many required":   `{"type":"object","allOf":[{"required":[` + strings.Repeat(`"a",`, 50_000) + `"b"]},{"required":[` + strings.Repeat(`"c",`, 50_000) + `"b"]}]}`,
	} {
		for p := range Count {
			began := time.Now()
			got, _ := schemaOf(t, p, schema)
			if len(got) > 16*moreBytes+32*len(schema) {
				t.Errorf("%s, %s: %d bytes become %d", name, p, len(schema), len(got))
			}
			t.Logf("%s, %s: %d bytes become %d in %v", name, p, len(schema), len(got), time.Since(began))
		}
	}
}
