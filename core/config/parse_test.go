package config

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/goccy/go-json"
)

// parse reads a text as an .mcp.json and gives "name" per entry and
// "code/server/field/line:column" per diagnostic.
func parse(t *testing.T, d Dialect, text string) (names []string, found []string, out Parsed) {
	t.Helper()
	out = parseFile(Input{Data: []byte(text), Path: "/p/x.json", Level: LevelHost, Dialect: d})
	for _, e := range out.Entries {
		names = append(names, e.Name)
	}
	for _, d := range out.Diagnostics {
		if d.Message == "" || d.Severity == "" || d.Path != "/p/x.json" {
			t.Errorf("incomplete diagnostic %+v", d)
		}
		found = append(found, fmt.Sprintf("%s/%s/%s/%d:%d", d.Code, d.Server, d.Field, d.Line, d.Column))
	}
	return names, found, out
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, names, found string }{
		{``, "", ""},
		{"  // nothing\n/* at all */", "", ""},
		{`{}`, "", ""},
		{`{"other": 1}`, "", ""},
		{`[]`, "", "wrong_type///1:1"},
		{`"x"`, "", "wrong_type///1:1"},
		{`{"mcpServers": null}`, "", "wrong_type//mcpServers/1:2"},
		{`{"mcpServers": []}`, "", "wrong_type//mcpServers/1:2"},
		{`{"mcpServers": {}} x`, "", "syntax///1:20"},
		{`{"mcpServers": {"a": {"command": "x"}}`, "", "syntax///1:39"},
		{`{"mcpServers": {"a": {"command": "x"}]}`, "", "syntax///1:38"},
		{`{"mcpServers": {"a": {"command": "x}}}`, "", "syntax///1:34"},
		{`/* open`, "", "syntax///1:1"},
		{`{'a': 1}`, "", "syntax///1:2"},
		// One entry's syntax error costs that entry only.
		{"{\"mcpServers\": {\n\"a\": {\"command\": },\n\"b\": {\"command\": \"b\"}}}", "b", "syntax/a//2:18"},
		{"{\"mcpServers\": {\"a\": {\"command\": \"x\" \"y\"}, \"b\": {\"command\": \"b\"}}}", "b", "syntax/a//1:38"},
		{`{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}`, "a", "duplicate_server/a//1:17"},
		{`{"mcpServers": {}, "mcpServers": {"a": {"command": "b"}}}`, "a", "duplicate_key//mcpServers/1:2"},
		{`{"mcpServers": {"a": {"command": "a", "command": "b"}}}`, "a", "duplicate_key/a/command/1:23"},
		{`{"servers": {"a": {"command": "b"}}}`, "a", ""},
		{`{"mcp": {"servers": {"a": {"command": "b"}}}}`, "a", ""},
		{`{"a": {"command": "b"}, "c": {"url": "http://x/"}}`, "a,c", "bare_root///1:1"},
		{`{"a": {"command": "b"}, "c": {"d": 1}}`, "", ""},
		// A member that was meant to hold the servers is not passed over in silence.
		{`{"mcpServer": {"a": {"command": "b"}}}`, "", "unknown_wrapper//mcpServer/1:2"},
		{`{"x": 1, "MCP-Server": {}}`, "", "unknown_wrapper//MCP-Server/1:10"},
		{`{"tools": {"a": {"command": "b"}}}`, "", "unknown_wrapper//tools/1:2"},
		{`{"$schema": "x", "options": {"level": 1}, "empty": {}}`, "", ""},
		{`{"mcpServer": {"a": {"command": "b"}}, "mcpServers": {}}`, "", ""},
		{`{"mcpServers": {"a": 1, "b": {"command": "b"}, "c": "x", "d": null, "e": []}}`, "b",
			"wrong_type/a//1:22,wrong_type/c//1:53,wrong_type/d//1:63,wrong_type/e//1:74"},
		{`{"mcpServers": {" ": {"command": "b"}, "a\u0007": {"command": "b"}}}`, "", "invalid_name///1:17,invalid_name///1:40"},
	} {
		names, found, _ := parse(t, claudeDialect, c.text)
		if strings.Join(names, ",") != c.names || strings.Join(found, ",") != c.found {
			t.Errorf("%s\n got %v %v\nwant %s %s", c.text, names, found, c.names, c.found)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPositionsCountCharacters(t *testing.T) {
	_, _, out := parse(t, claudeDialect, "{\r\n  \"mcpServers\": {\n\t\"é\": {\"command\": \"x\"}, \"数据\": {\"command\": 7}}}")
	e := out.Entries[1]
	if e.Origin.Line != 3 || e.Origin.Column != 25 {
		t.Errorf("entry at %d:%d", e.Origin.Line, e.Origin.Column)
	}
	if d := out.Diagnostics[0]; d.Line != 3 || d.Column != 43 {
		t.Errorf("field at %d:%d", d.Line, d.Column)
	}
}

func TestEncodings(t *testing.T) {
	text := `{"mcpServers": {"é🔥": {"command": "x"}}}`
	units := utf16.Encode([]rune(text))
	little, big := make([]byte, 0, 2*len(units)), make([]byte, 0, 2*len(units))
	for _, u := range units {
		little = binary.LittleEndian.AppendUint16(little, u)
		big = binary.BigEndian.AppendUint16(big, u)
	}
	for name, data := range map[string]string{
		"BOM": "\xef\xbb\xbf" + text, "UTF-16LE BOM": "\xff\xfe" + string(little), "UTF-16BE BOM": "\xfe\xff" + string(big),
		"UTF-16LE": string(little), "UTF-16BE": string(big),
	} {
		names, found, _ := parse(t, claudeDialect, data)
		if len(names) != 1 || names[0] != "é🔥" || len(found) != 0 {
			t.Errorf("%s: %v %v", name, names, found)
		}
	}
	if _, found, _ := parse(t, claudeDialect, "\xff\xfe"+string(little)+"x"); len(found) != 1 || !strings.HasPrefix(found[0], "invalid_encoding") {
		t.Errorf("odd UTF-16: %v", found)
	}
	names, found, _ := parse(t, claudeDialect, "{\"mcpServers\": {\"a\": {\"command\": \"x\xff\"}}}")
	if len(names) != 1 || len(found) != 1 || !strings.HasPrefix(found[0], "invalid_encoding") {
		t.Errorf("not UTF-8: %v %v", names, found)
	}
}

func TestMapperMends(t *testing.T) {
	for _, c := range []struct{ entry, want, found string }{
		{`{"command": "c", "env": {"A": 5432, "B": true, "C": null, "D": 1e3}}`, `{"type":"stdio","command":"c","env":{"A":"5432","B":"true","D":"1e3"}}`,
			"wrong_type/s/env.A,wrong_type/s/env.B,wrong_type/s/env.C,wrong_type/s/env.D"},
		{`{"command": "c", "args": "one two"}`, `{"type":"stdio","command":"c","args":["one two"]}`, "wrong_type/s/args"},
		{`{"command": "c", "args": [1, "a", null, false]}`, `{"type":"stdio","command":"c","args":["1","a","false"]}`, "wrong_type/s/args.0,wrong_type/s/args.2,wrong_type/s/args.3"},
		{`{"command": ["c", "x"], "args": ["y"]}`, `{"type":"stdio","command":"c","args":["x","y"]}`, "wrong_type/s/command"},
		{`{"command": "c", "enabled": "true"}`, `{"type":"stdio","command":"c","enabled":true}`, "wrong_type/s/enabled"},
		{`{"command": "c", "disabled": 1}`, `{"type":"stdio","command":"c","enabled":false}`, "wrong_type/s/disabled"},
		{`{"command": "c", "enabled": true, "disabled": true}`, `{"type":"stdio","command":"c","enabled":false}`, ""},
		{`{"command": "", "url": "https://h/", "cwd": ""}`, `{"type":"http","url":"https://h/"}`, ""},
		{`{"command": "c", "env": ["A=1", "B=x=y"]}`, `{"type":"stdio","command":"c","env":{"A":"1","B":"x=y"}}`, "wrong_type/s/env"},
		{`{"url": "https://h/", "type": "Streamable-HTTP"}`, `{"type":"http","url":"https://h/"}`, ""},
		{`{"url": "https://h/", "transport": "remote"}`, `{"type":"http","url":"https://h/"}`, ""},
		{`{"url": "https://h/", "transportType": "SSE"}`, `{"type":"sse","url":"https://h/"}`, ""},
		{`{"command": "c", "type": "local"}`, `{"type":"stdio","command":"c"}`, ""},
		{`{"serverUrl": "https://h/"}`, `{"type":"http","url":"https://h/"}`, ""},
		{`{"uri": "https://b/", "url": "https://a/"}`, `{"type":"http","url":"https://a/"}`, ""},
		{`{"url": "localhost:3000/mcp"}`, `{"type":"http","url":"http://localhost:3000/mcp"}`, "missing_scheme/s/url"},
		{`{"url": "127.0.0.1:1"}`, `{"type":"http","url":"http://127.0.0.1:1"}`, "missing_scheme/s/url"},
		{`{"command": "c", "timeout": "30s"}`, `{"type":"stdio","command":"c","timeoutMs":30000}`, ""},
		{`{"command": "c", "timeout": "1500"}`, `{"type":"stdio","command":"c","timeoutMs":1500}`, "wrong_type/s/timeout"},
		{`{"command": "c", "timeoutMs": 0}`, `{"type":"stdio","command":"c","timeoutMs":0}`, ""},
		{`{"command": "c", "timeout": 1e300}`, `{"type":"stdio","command":"c"}`, "wrong_type/s/timeout"},
		{`{"command": "c", "timeout": {}}`, `{"type":"stdio","command":"c"}`, "wrong_type/s/timeout"},
		{`{"command": "c", "tools": {"a*": {"enabled": false}}}`, `{"type":"stdio","command":"c","denyTools":["a\\*"]}`, ""},
		// What has no sensible reading is not started.
		{`{"command": {}}`, "", "wrong_type/s/command"},
		{`{"command": "c", "env": "A"}`, "", "wrong_type/s/env"},
		{`{"command": "c", "env": {"A=B": "x"}}`, "", "wrong_type/s/env"},
		{`{"command": "c", "args": ["a\u0000b"]}`, "", "wrong_type/s/args.0"},
		{`{"command": "c", "enabled": "perhaps"}`, "", "wrong_type/s/enabled"},
		{`{"command": "c", "url": "https://h/"}`, "", "ambiguous_transport/s/url"},
		{`{"type": "http", "transport": "sse", "url": "https://h/"}`, "", "ambiguous_transport/s/transport"},
		{`{"type": "ws", "url": "wss://h/"}`, "", "unsupported_transport/s/type"},
		{`{"url": "wss://h/"}`, "", "unsupported_transport/s/url"},
		{`{"url": "unix:///tmp/s"}`, "", "unsupported_transport/s/url"},
		{`{"url": "example.com/mcp"}`, "", "invalid_url/s/url"},
		{`{"url": "http://127.0.0.1::8089"}`, "", "invalid_url/s/url"},
		{`{"url": "http://"}`, "", "invalid_url/s/url"},
		{`{"type": "sse", "command": "c"}`, "", "missing_url/s/"},
		{`{"type": "stdio", "url": "https://h/"}`, "", "missing_command/s/"},
		{`{"args": ["x"]}`, "", "missing_command/s/"},
		{`{}`, "", "missing_command/s/"},
	} {
		_, _, out := parse(t, claudeDialect, `{"mcpServers": {"s": `+c.entry+`}}`)
		got := ""
		if len(out.Entries) == 1 {
			got = marshal(t, out.Entries[0].Server)
		}
		var found []string
		for _, d := range out.Diagnostics {
			found = append(found, d.Code+"/"+d.Server+"/"+d.Field)
		}
		if got != c.want || strings.Join(found, ",") != c.found {
			t.Errorf("%s\n got %s %v\nwant %s %s", c.entry, got, found, c.want, c.found)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := `{"mcpServers": {"ok": {"command": "c"}, "deep": ` + strings.Repeat("[", 1_000_000)
	if _, found, _ := parse(t, claudeDialect, deep); len(found) != 1 || !strings.HasPrefix(found[0], "syntax") {
		t.Errorf("deep nesting: %v", found)
	}
	var b strings.Builder
	b.WriteString(`{"mcpServers": {`)
	for i := range maxServers + 5 {
		fmt.Fprintf(&b, `"s%d": {"command": "c"},`, i)
	}
	b.WriteString(`}}`)
	names, found, _ := parse(t, claudeDialect, b.String())
	if len(names) != maxServers || len(found) != 1 || !strings.HasPrefix(found[0], "too_large") {
		t.Errorf("%d servers, %v", len(names), found)
	}
	many := `{"mcpServers": {"wide": {"command": "c", "x": [` + strings.Repeat("0,", maxValues) + `]}, "ok": {"command": "c"}}}`
	names, found, _ = parse(t, claudeDialect, many)
	if len(names) != 0 || len(found) != 2 {
		t.Errorf("too many values: %v %v", names, found)
	}
	args := `{"mcpServers": {"a": {"command": "c", "args": [` + strings.Repeat(`"",`, maxListItems+1) + `]}, "ok": {"command": "c"}}}`
	names, found, _ = parse(t, claudeDialect, args)
	if len(names) != 1 || names[0] != "ok" || len(found) != 1 {
		t.Errorf("too many args: %v %v", names, found)
	}
	bad := `{"mcpServers": {` + strings.Repeat(`"x": 1, "x": 1, `, maxDiagnostics) + `}}`
	if _, found, _ = parse(t, claudeDialect, bad); len(found) != maxDiagnostics+1 || !strings.HasPrefix(found[maxDiagnostics], "too_many_diagnostics") {
		t.Errorf("%d diagnostics", len(found))
	}
}

func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	_, _, out := parse(t, claudeDialect, `{"mcpServers": {"`+long+`": {"command": "c"}, "a": {"command": "c", "sandbox": 1, "env": {"`+long+`": 1}}}}`)
	if len(out.Diagnostics) != 3 {
		t.Fatalf("%d diagnostics", len(out.Diagnostics))
	}
	for _, d := range out.Diagnostics {
		if len(d.Server)+len(d.Field)+len(d.Message) > 2000 {
			t.Errorf("%s has %d, %d and %d bytes", d.Code, len(d.Server), len(d.Field), len(d.Message))
		}
	}
}

func TestMessagesHoldNoMendedValue(t *testing.T) {
	_, _, out := parse(t, claudeDialect, `{"mcpServers": {"a": {"command": "c", "env": {"PIN": 987654}, "headers": {"X": 987654}}}}`)
	for _, d := range out.Diagnostics {
		if strings.Contains(d.Message, "987654") {
			t.Errorf("a value is shown: %s", d.Message)
		}
	}
	if len(out.Diagnostics) != 2 {
		t.Errorf("%+v", out.Diagnostics)
	}
}

// TestBigStateFile: a big file in which few members matter is
// scanned, and what lies in the rest does not matter.
func TestBigStateFile(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"history": [`)
	for b.Len() < 8<<20 {
		b.WriteString(`{"display": "say \"hi\" // [{", "n": [1, 2, {"x": null}]},` + "\n")
	}
	b.WriteString(`0], "mcpServers": {"a": {"command": "x"}}, "projects": {"/p": {"mcpServers": {"b": {"command": "y"}}}, "/q": {"mcpServers": {"c": {"command": "z"}}}}}`)
	before := time.Now()
	out := parseClaude(Input{Data: []byte(b.String()), Path: "/h/" + claudeHome, Level: LevelUser, Dialect: claudeDialect, Project: []string{"/p"}})
	if len(out.Entries) != 2 || out.Entries[0].Name != "a" || out.Entries[1].Name != "b" || out.Entries[1].Origin.Level != LevelLocal || len(out.Diagnostics) != 0 {
		t.Errorf("%+v %+v", out.Entries, out.Diagnostics)
	}
	if took := time.Since(before); took > 10*time.Second { // a scan takes a fraction of a second; what is quadratic takes hours
		t.Errorf("it took %v", took)
	}
}

func TestSyntaxMessagesHoldNoValue(t *testing.T) {
	_, _, out := parse(t, claudeDialect, `{"mcpServers": {"a": {"command": "c", "env": {"T": "s3cret\q"}}, "b": {"command": s3cret}}}`)
	if len(out.Diagnostics) != 2 {
		t.Fatalf("%+v", out.Diagnostics)
	}
	for _, d := range out.Diagnostics {
		if strings.Contains(d.Message, "s3cret") {
			t.Errorf("a value is shown: %s", d.Message)
		}
	}
}

// FuzzParse feeds any bytes to the JSONC reader and the mapper, in the dialects
// of all sources.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": ["x"], "env": {"A": 1}, "tools": {"x": {"enabled": false}}}}}`))
	f.Add([]byte(`{"projects": {"/p": {"mcpServers": {"a": {"url": "http://x", "oauth": {"scopes": "a b"}}}}}}`))
	f.Add([]byte("{\"a\": {\"command\": \"x\", /* c */ \"timeout\": \"30s\",}, // d\n}"))
	f.Add([]byte(`{"enabledServers": ["a"], "mcp": {"servers": {"b": {"httpUrl": "localhost:1"}}}}`))
	f.Add([]byte("\xff\xfe{\x00}\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for i := range sources {
			for _, path := range []string{"/p/mcp.json", "/p/" + claudeHome} {
				out := sources[i].parse(Input{Data: data, Path: path, Level: LevelUser, Dialect: sources[i].Dialect, Project: []string{"/p"}})
				seen := map[string]bool{}
				for _, e := range out.Entries {
					if e.node != nil { // of a layered source
						at, level := Pos{e.Origin.Line, e.Origin.Column}, e.Origin.Level
						if e = mapEntry(e.Name, at, e.node.over(e.node, at), sources[i].Dialect, &report{}); e == nil {
							continue
						}
						e.Origin.Level = level
					}
					key := string(e.Origin.Level) + "\x00" + e.Name
					if seen[key] {
						t.Fatalf("two entries %q", e.Name)
					}
					seen[key] = true
					if badName(e.Name) != "" || !e.overlay && e.Server.Command == "" && e.Server.URL == "" {
						t.Fatalf("entry %+v cannot be started", e)
					}
					if e.Origin.Line < 1 || e.Origin.Column < 1 {
						t.Fatalf("entry %q has no place", e.Name)
					}
					e.Canonical()
					e.connection()
					Redact(e.Server)
				}
				if len(out.Diagnostics) > maxDiagnostics+1 {
					t.Fatalf("%d diagnostics", len(out.Diagnostics))
				}
			}
		}
	})
}
