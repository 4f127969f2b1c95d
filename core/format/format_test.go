package format

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

func TestToolShapes(t *testing.T) {
	tool := []byte(`{"name":"x","title":"T","description":"Says \"hi\".","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`)
	for p, want := range map[Provider]string{
		OpenAI:          `{"type":"function","function":{"name":"mcp_a_x","description":"Says \"hi\".","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}`,
		OpenAIResponses: `{"type":"function","name":"mcp_a_x","description":"Says \"hi\".","parameters":{"type":"object","properties":{"a":{"type":"string"}}},"strict":false}`,
		Anthropic:       `{"name":"mcp_a_x","description":"Says \"hi\".","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
		Gemini:          `{"name":"mcp_a_x","description":"Says \"hi\".","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}}`,
	} {
		if got := string(p.Make(tool).Append(nil, "mcp_a_x")); got != want {
			t.Errorf("%s:\n got  %s\n want %s", p, got, want)
		}
		if back, ok := Parse(p.String()); !ok || back != p {
			t.Errorf("%s is not parsed", p)
		}
	}
	if got := string(Gemini.Make([]byte(`{"name":"x","title":"T"}`)).Append(nil, "n")); got != `{"name":"n","description":"T"}` {
		t.Errorf("a tool with nothing but a title: %s", got)
	}
	long := strings.Repeat("ä", 2000)
	for p, want := range map[Provider]int{OpenAI: 1024, OpenAIResponses: 2000, Anthropic: 2000} {
		var got struct {
			Description string
			Function    struct{ Description string }
		}
		if err := json.Unmarshal(p.Make([]byte(`{"name":"x","description":"`+long+`"}`)).Append(nil, "x"), &got); err != nil {
			t.Fatal(err)
		}
		if n := len([]rune(got.Description + got.Function.Description)); n != want {
			t.Errorf("%s: a description of %d characters", p, n)
		}
	}
	for _, s := range []string{"", strings.Repeat("ä", 1024)} {
		if shorten(s, 1024) != s {
			t.Error("a description of 1024 characters was cut")
		}
	}
}

func TestNames(t *testing.T) {
	long := "mcp_" + strings.Repeat("x", 100)
	for _, c := range []struct {
		p       Provider
		name    string
		pattern string // "": it stays
	}{
		{OpenAI, "mcp_a-B_9", ""}, {OpenAI, "9", ""}, {OpenAI, "-", ""}, {OpenAI, strings.Repeat("x", 64), ""},
		{OpenAI, long, `^mcp_x{51}_[0-9a-f]{8}$`}, {OpenAIResponses, long, `^mcp_x{51}_[0-9a-f]{8}$`},
		{Anthropic, long, ""}, {Anthropic, strings.Repeat("y", 129), `^y{119}_[0-9a-f]{8}$`},
		{Gemini, long, `^mcp_x{51}_[0-9a-f]{8}$`}, {Gemini, "9lives", `^_9lives_[0-9a-f]{8}$`}, {Gemini, "-x", `^_-x_[0-9a-f]{8}$`}, {Gemini, "_x", ""},
	} {
		given := c.p.Names([]string{"other", c.name})
		if c.pattern == "" {
			if len(given) != 0 {
				t.Errorf("%s: %v", c.p, given)
			}
		} else if len(given) != 1 || !regexp.MustCompile(c.pattern).MatchString(given[c.name]) {
			t.Errorf("%s, %s: %v", c.p, c.name, given)
		}
	}
	// A server that offers the very names which others would get does not take them.
	first := OpenAI.Names([]string{long})[long]
	second := OpenAI.Names([]string{long, first})[long]
	if second == first || second == "" {
		t.Errorf("%q for both", second)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("%s%d", long, i))
	}
	seen := map[string]bool{}
	for _, name := range OpenAI.Names(many) {
		seen[name] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d names for 1000 tools", len(seen))
	}
}

func TestArguments(t *testing.T) {
	plain := `{"type":"object","properties":{"a":{}}}`
	for _, c := range []struct {
		p                     Provider
		schema, written, want string // want beginning with "!": an error that says so
	}{
		{OpenAI, plain, `{"a": 9007199254740993}`, `{"a": 9007199254740993}`},
		{OpenAI, plain, `"{\"a\": 9007199254740993}"`, `{"a": 9007199254740993}`},
		{OpenAI, plain, `""`, ``}, {OpenAI, plain, ``, ``}, {OpenAI, plain, `null`, ``},
		{OpenAI, plain, `"{\"a\""`, "!not valid JSON"}, {OpenAI, plain, `"[1]"`, "!must be a JSON object"}, {OpenAI, plain, `[1]`, "!must be a JSON object"},
		{OpenAI, `{"oneOf":[{"type":"object","properties":{"a":{}}}, {}]}`, `{"input":{"a":1}}`, `{"a":1}`},
		{OpenAI, `{"oneOf":[{"type":"object","properties":{"a":{}}}, {}]}`, `{"a":1}`, `{"a":1}`},
		{OpenAI, `{"oneOf":[{"type":"object","properties":{"a":{}}}, {}]}`, `{}`, `{}`},
		{OpenAI, `{"type":"array"}`, `{"input":[1]}`, `!"input" must be a JSON object`},
		{Anthropic, `{"type":"object","properties":{"$top":{},"l":{"type":"array","items":{"type":"object","properties":{"x y":{}}}}}}`,
			`{"_top_81bf98e4":1,"l":[{"x_y_f5f8a2cc":{"_top":2}}]}`, `{"$top":1,"l":[{"x_y_f5f8a2cc":{"_top":2}}]}`},
	} {
		_, d := schemaOf(t, c.p, c.schema)
		got, err := d.Arguments([]byte(c.written))
		if what, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %s, %v", c.written, got, err)
			}
		} else if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.written, got, err)
		}
	}
}

// TestWayBack: arguments that fit a provider's schema become those that fit the server's.
func TestWayBack(t *testing.T) {
	schema := `{"oneOf":[{"type":"object","properties":{"filter[id]":{"type":"string"},"` + strings.Repeat("n", 70) + `":{"type":"object","properties":{"@odata.type":{}}}}},{}]}`
	for _, p := range []Provider{Anthropic, Gemini} {
		got, d := schemaOf(t, p, schema)
		var names []string
		for name := range d.back.properties {
			if !strings.Contains(got, `"`+name+`"`) || !rules[p].property.allows(name) {
				t.Errorf("%s: %q", p, name)
			}
			names = append(names, name)
		}
		if len(names) != 3 || !d.back.wrapped {
			t.Fatalf("%s: %v", p, names)
		}
		at := func(own string) string {
			for name, is := range d.back.properties {
				if is == own {
					return name
				}
			}
			return ""
		}
		written := fmt.Sprintf(`{"input":{%q:"1",%q:{%q:[1.50]}}}`, at("filter[id]"), at(strings.Repeat("n", 70)), at("@odata.type"))
		want := fmt.Sprintf(`{"filter[id]":"1",%q:{"@odata.type":[1.50]}}`, strings.Repeat("n", 70))
		if back, err := d.Arguments([]byte(written)); err != nil || string(back) != want {
			t.Errorf("%s: %s, %v", p, back, err)
		}
	}
}

func TestResults(t *testing.T) {
	everything := `{"content":[{"type":"text","text":"a \"b\""},{"type":"text","text":""},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"audio","data":"BBBB","mimeType":"audio/wav"},` +
		`{"type":"resource","resource":{"uri":"x:/a.txt","text":"inside"}},{"type":"resource","resource":{"uri":"x:/d/a.pdf","mimeType":"application/pdf","blob":"CCCC"}},` +
		`{"type":"resource_link","uri":"x:/l","name":"L","mimeType":"text/plain"},{"type":"image","data":"DDDD","mimeType":"image/tiff"},{"type":"new","v":1},7]}`
	texts := `[x:/a.txt]\ninside`
	rest := `[resource x:/l, L, text/plain]`
	tiff := `[image/tiff, 3 bytes: cannot be shown here]`
	sound := `[audio/wav, 3 bytes: cannot be shown here]`
	newer := `{\"type\":\"new\",\"v\":1}`
	silent := `the tool failed and did not say why`
	notFiles := `{"content":[{"type":"image","data":"!!","mimeType":"image/png"},{"type":"audio","data":"","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"x:/a","mimeType":"application/pdf","blob":"A"}}]}`
	for _, c := range []struct {
		p              Provider
		result         string
		message, after string
	}{
		{OpenAI, everything,
			`{"role":"tool","tool_call_id":"c1","content":"a \"b\"\n[image/png: in the next message of the user]\n[audio/wav: in the next message of the user]\n` + texts + `\n[application/pdf: in the next message of the user]\n` + rest + `\n` + tiff + `\n` + newer + `"}`,
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,CCCC"}}]}`},
		{OpenAIResponses, everything,
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a \"b\""},{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_text","text":"` + sound + `"},{"type":"input_text","text":"` + texts +
				`"},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,CCCC"},{"type":"input_text","text":"` + rest + `"},{"type":"input_text","text":"` + tiff + `"},{"type":"input_text","text":"` + newer + `"}]}`, ""},
		{Anthropic, everything,
			`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a \"b\""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":"` + sound + `"},{"type":"text","text":"` + texts +
				`"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"CCCC"}},{"type":"text","text":"` + rest + `"},{"type":"text","text":"` + tiff + `"},{"type":"text","text":"` + newer + `"}]}`, ""},
		{Gemini, everything,
			`{"functionResponse":{"id":"c1","name":"t","response":{"output":"a \"b\"\n` + sound + `\n` + texts + `\n` + rest + `\n` + tiff + `\n` + newer + `"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"inlineData":{"mimeType":"application/pdf","data":"CCCC"}}]}}`, ""},
		{OpenAI, `{"isError":true,"content":[{"type":"text","text":"no"}]}`, `{"role":"tool","tool_call_id":"c1","content":"no"}`, ""},
		{OpenAIResponses, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"type":"function_call_output","call_id":"c1","output":"a\nb"}`, ""},
		{Anthropic, `{"isError":true,"content":[{"type":"text","text":"no"}]}`, `{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"no"}],"is_error":true}`, ""},
		{Gemini, `{"isError":true,"content":[{"type":"text","text":"no"}]}`, `{"functionResponse":{"id":"c1","name":"t","response":{"error":"no"}}}`, ""},
		{OpenAI, `{"structuredContent":{"n":9007199254740993}}`, `{"role":"tool","tool_call_id":"c1","content":"{\"n\":9007199254740993}"}`, ""},
		{Gemini, `{"structuredContent":{"n":9007199254740993}}`, `{"functionResponse":{"id":"c1","name":"t","response":{"output":{"n":9007199254740993}}}}`, ""},
		{Anthropic, `{"structuredContent":{"n":1},"content":[{"type":"text","text":"one"}]}`, `{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one"}]}`, ""},
		{Anthropic, `{}`, `{"type":"tool_result","tool_use_id":"c1","content":[]}`, ""},
		{OpenAI, `{"content":[{"type":"image"}]}`, `{"role":"tool","tool_call_id":"c1","content":"[application/octet-stream, 0 bytes: cannot be shown here]"}`, ""},
		{OpenAI, `[]`, `{"role":"tool","tool_call_id":"c1","content":""}`, ""},
		// A failure always says something, and to Anthropic in text alone.
		{OpenAI, `{"isError":true,"content":[]}`, `{"role":"tool","tool_call_id":"c1","content":"` + silent + `"}`, ""},
		{OpenAIResponses, `{"isError":true}`, `{"type":"function_call_output","call_id":"c1","output":"` + silent + `"}`, ""},
		{Gemini, `{"isError":true}`, `{"functionResponse":{"id":"c1","name":"t","response":{"error":"` + silent + `"}}}`, ""},
		{Anthropic, `{"isError":true,"content":[{"type":"text","text":""}]}`, `{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"` + silent + `"}],"is_error":true}`, ""},
		{Anthropic, `{"isError":true,"content":[{"type":"text","text":"no"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"resource","resource":{"uri":"x:/a.pdf","mimeType":"application/pdf","blob":"CCCC"}}]}`,
			`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"no"},{"type":"text","text":"[image/png, 3 bytes: cannot be shown here]"},{"type":"text","text":"[application/pdf, 3 bytes, x:/a.pdf: cannot be shown here]"}],"is_error":true}`, ""},
		{OpenAIResponses, `{"isError":true,"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`, `{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_text","text":"` + silent + `"}]}`, ""},
		{Gemini, `{"isError":true,"structuredContent":{"n":1}}`, `{"functionResponse":{"id":"c1","name":"t","response":{"error":"{\"n\":1}"}}}`, ""},
		// What is no file is none to any provider.
		{OpenAI, notFiles, `{"role":"tool","tool_call_id":"c1","content":"[image/png, no valid base64: cannot be shown here]\n[audio/wav, 0 bytes: cannot be shown here]\n[application/pdf, no valid base64, x:/a: cannot be shown here]"}`, ""},
		{OpenAIResponses, notFiles, `{"type":"function_call_output","call_id":"c1","output":"[image/png, no valid base64: cannot be shown here]\n[audio/wav, 0 bytes: cannot be shown here]\n[application/pdf, no valid base64, x:/a: cannot be shown here]"}`, ""},
		{Anthropic, notFiles, `{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"[image/png, no valid base64: cannot be shown here]"},{"type":"text","text":"[audio/wav, 0 bytes: cannot be shown here]"},{"type":"text","text":"[application/pdf, no valid base64, x:/a: cannot be shown here]"}]}`, ""},
		{Gemini, notFiles, `{"functionResponse":{"id":"c1","name":"t","response":{"output":"[image/png, no valid base64: cannot be shown here]\n[audio/wav, 0 bytes: cannot be shown here]\n[application/pdf, no valid base64, x:/a: cannot be shown here]"}}}`, ""},
		{Gemini, `{"content":[{"type":"image","data":"data:image/png;base64,-_8\nAAQ","mimeType":"image/png"}]}`, `{"functionResponse":{"id":"c1","name":"t","response":{"output":""},"parts":[{"inlineData":{"mimeType":"image/png","data":"+/8AAQ=="}}]}}`, ""},
		{Anthropic, `{"content":[{"type":"image","data":"AAAA","mimeType":"Image/JPG; q=1"},{"type":"image","data":"AAAA"}]}`, `{"type":"tool_result","tool_use_id":"c1","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}},{"type":"text","text":"[application/octet-stream, 3 bytes: cannot be shown here]"}]}`, ""},
		// What breaks the protocol, but is something to tell.
		{OpenAI, `{"content":"plain"}`, `{"role":"tool","tool_call_id":"c1","content":"plain"}`, ""},
		{OpenAI, `{"content":[{"type":"text","text":5},{"type":"text","text":null},{"type":"text"},{"type":"resource","resource":null}]}`, `{"role":"tool","tool_call_id":"c1","content":"5\n{\"type\":\"resource\",\"resource\":null}"}`, ""},
	} {
		if !json.Valid([]byte(c.result)) {
			t.Fatal(c.result)
		}
		message, after := c.p.Result("t", "c1", []byte(c.result))
		if string(message) != c.message || string(after) != c.after {
			t.Errorf("%s of %.60s:\n got  %s\n and  %s\n want %s\n and  %s", c.p, c.result, message, after, c.message, c.after)
		}
		if !json.Valid(message) || after != nil && !json.Valid(after) {
			t.Errorf("%s: no JSON", c.p)
		}
	}
	if size(strings.Repeat("A", 40_000)) != "30 kB" {
		t.Error(size(strings.Repeat("A", 40_000)))
	}
}

func TestStandardBase64(t *testing.T) {
	for sent, want := range map[string]string{
		"AAAA": "AAAA", "AA==": "AA==", "AAA=": "AAA=", "+/+/": "+/+/",
		"-_-_": "+/+/", "AA": "AA==", "AAA": "AAA=", "AAAA\r\nBBBB\n": "AAAABBBB", "AA=\n=": "AA==", "data:image/png;base64,AAAA": "AAAA", "AAAA====": "AAAA",
		"": "", "A": "", "AAAAA": "", "A===": "", "====": "", "=AAA": "", "AA=A": "", "!!!!": "", "data:,AAAA": "", "data:image/png;base64,": "", "\x00AAA": "", "ÄÄ": "",
	} {
		got, ok := standardBase64(sent)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v, not %q", sent, got, ok, want)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"anyOf":[{"$ref":"#"},{"type":"array"}]}}}`))
	f.Add([]byte(`{"allOf":[{"oneOf":[{"enum":[1,"a",null]}]}],"required":["$"],"properties":{"$":{"const":1}}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) {
			return
		}
		for p := range Count {
			d := p.Make(append(append([]byte(`{"name":"x","inputSchema":`), schema...), '}'))
			if b := d.Append(nil, "x"); !json.Valid(b) {
				t.Errorf("%s of %s is no JSON: %s", p, schema, b)
			}
			if _, err := d.Arguments([]byte(`{"a":1}`)); err != nil {
				t.Errorf("%s of %s: %v", p, schema, err)
			}
			p.Result("a", "b", schema)
		}
	})
}
