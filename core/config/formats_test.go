package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// parseAs reads a text as a host-named file of this name, in a source's dialect.
func parseAs(t *testing.T, source, path, text string) (servers, found []string, out Parsed) {
	t.Helper()
	dialect := unknownDialect
	var s *Source
	for i := range sources {
		if sources[i].ID == source {
			s, dialect = &sources[i], sources[i].Dialect
		}
	}
	if s == nil && source != "" {
		t.Fatalf("no source %q", source)
	}
	dialect.Layered = false
	out = s.parse(Input{Data: []byte(text), Path: path, Level: LevelHost, Dialect: dialect})
	for _, e := range out.Entries {
		servers = append(servers, fmt.Sprintf("%s@%d:%d", e.Name, e.Origin.Line, e.Origin.Column))
	}
	for _, d := range out.Diagnostics {
		found = append(found, fmt.Sprintf("%s/%s/%s/%d:%d", d.Code, d.Server, d.Field, d.Line, d.Column))
	}
	return servers, found, out
}

func TestTOML(t *testing.T) {
	for _, c := range []struct{ name, text, servers, found string }{
		{"empty", "", "", ""},
		{"comments", "# a\n\n# b", "", ""},
		{"other settings", "model = \"x\"\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n", "", ""},
		{"one", "[mcp_servers.a]\ncommand = \"x\"\n", "a@1:14", ""},
		{"the other wrapper", "[mcpServers.\"a b\"]\ncommand = 'x'\n", "a b@1:13", ""},
		{"inline tables", "mcp_servers = { a = { command = \"x\", args = [\"1\", \"2\"] }, b = {url = \"https://b.example.com\"} }", "a@1:17 b@1:59", ""},
		{"dotted", "mcp_servers.a.command = \"x\"\nmcp_servers.a.env.K = \"v\"\nmcp_servers.b.url = \"http://localhost\"", "a@1:13 b@3:13", ""},
		{"child before parent", "[mcp_servers.a.env]\nK = \"v\"\n[mcp_servers.a]\ncommand = \"x\"", "a@1:14", ""},
		{"number in env", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nPORT = 0x10", "a@1:14", "wrong_type/a/env.PORT/4:8"},
		{"twice", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a]\ncommand = \"y\"", "a@3:14", "duplicate_server/a//1:14"},
		{"key twice", "[mcp_servers.a]\ncommand = \"x\"\ncommand = \"y\"", "a@1:14", "duplicate_key/a/command/2:1"},
		{"one broken table", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b]\ncommand = x\n[mcp_servers.c]\ncommand = \"z\"", "a@1:14 c@5:14", "syntax/b//4:11"},
		{"broken after the command", "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"--safe\n[mcp_servers.b]\ncommand = \"y\"", "b@4:14", "syntax/a//3:16"},
		{"broken sub-table", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nK = \n[mcp_servers.b]\ncommand = \"y\"", "b@5:14", "syntax/a//4:5"},
		{"broken header", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b b]\ncommand = \"q\"\n[mcp_servers.c]\ncommand = \"z\"", "a@1:14 c@5:14", "syntax///3:16"},
		{"broken at the top", "model = \n[mcp_servers.c]\ncommand = \"z\"", "c@2:14", "syntax///1:9"},
		{"broken elsewhere", "[features]\nx = \n[mcp_servers.c]\ncommand = \"z\"", "c@3:14", ""},
		{"string without an end", "[mcp_servers.a]\ncommand = \"\"\"x\n[mcp_servers.b]\ncommand = \"y\"", "b@3:14", "syntax/a//4:13"},
		{"array of tables", "[[mcp_servers]]\nname = \"a\"\ncommand = \"x\"\n[[mcp_servers]]\ncommand = \"y\"", "a@1:3", "invalid_name//mcp_servers.1/4:3"},
		{"not a table", "mcp_servers = 3", "", "wrong_type//mcp_servers/1:1"},
		{"entry is no table", "[mcp_servers]\na = 1\nb = { command = \"x\" }", "b@3:1", "wrong_type/a//2:5"},
		{"windows line ends", "[mcp_servers.a]\r\ncommand = \"x\"\r\n\r\n[mcp_servers.b]\r\ncommand = 7\r\n", "a@1:14 b@4:14", "wrong_type/b/command/5:11"},
		{"byte order mark", "\ufeff[mcp_servers.a]\ncommand = \"x\"", "a@1:14", ""},
		{"null", "null", "", "syntax///1:4"},
		{"json", `{"mcp_servers": {}}`, "", "syntax///1:1"},
	} {
		servers, found, _ := parseAs(t, "codex", "/h/.codex/config.toml", c.text)
		if strings.Join(servers, " ") != c.servers || strings.Join(found, " ") != c.found {
			t.Errorf("%s\n got %v %v\nwant %s %s", c.name, servers, found, c.servers, c.found)
		}
	}
}

func TestYAML(t *testing.T) {
	const good = "  good:\n    type: stdio\n    cmd: g\n"
	for _, c := range []struct{ name, text, servers, found string }{
		{"empty", "", "", ""},
		{"comments", "# a\n", "", ""},
		{"other settings", "GOOSE_MODEL: x\nGOOSE_MODE: auto\n", "", ""},
		{"null", "null\n", "", "null_root///1:1"},
		{"scalar", "just words\n", "", "wrong_type///1:1"},
		{"no extensions", "extensions:\n", "", "wrong_type//extensions/1:1"},
		{"empty extensions", "extensions: {}\n", "", ""},
		{"built in", "extensions:\n  developer:\n    type: builtin\n    enabled: true\n  tom:\n    type: platform\n", "", ""},
		{"one", "extensions:\n" + good, "good@2:3", ""},
		{"flow", `extensions: {a: {cmd: x, args: ["1", two]}, b: {uri: "https://b.example.com"}}`, "a@1:14 b@1:45", ""},
		{"a document start", "---\nextensions:\n" + good + "...\n", "good@3:3", ""},
		{"anchor and merge", "base: &b\n  cmd: x\n  timeout: 5\nextensions:\n  a:\n    <<: *b\n    timeout: 7\n  c: *b\n", "a@5:3 c@8:3", ""},
		{"twice", "extensions:\n  a:\n    cmd: x\n  a:\n    cmd: y\n", "a@4:3", "duplicate_server/a//2:3"},
		{"key twice", "extensions:\n  a:\n    cmd: x\n    cmd: y\n", "a@2:3", "duplicate_key/a/cmd/3:5"},
		{"numbers and booleans", "extensions:\n  a:\n    cmd: x\n    envs: {V: 1.10, B: true, O: 0o17, S: !!str 5}\n", "a@2:3",
			"wrong_type/a/env.V/4:15 wrong_type/a/env.B/4:24 wrong_type/a/env.O/4:33"},
		{"a broken entry", "extensions:\n" + good + "  bad:\n    cmd: \"x\n  last:\n    cmd: y\n", "good@2:3 last@7:3", "syntax/bad//6:10"},
		{"a tab in an entry", "extensions:\n  bad:\n\t cmd: x\n" + good, "good@4:3", "syntax/bad//3:1"},
		{"broken elsewhere", "keys: [1, 2\nextensions:\n" + good, "good@3:3", "syntax///2:1"},
		{"truncated", "extensions:\n  a:\n    cmd: \"x", "", "syntax/a//3:10"},
		{"an alias of nothing", "extensions:\n  a: *no\n" + good, "good@3:3", "syntax/a//2:6"},
		{"windows line ends", "extensions:\r\n  a:\r\n    cmd: 5\r\n", "a@2:3", "wrong_type/a/cmd/3:10"},
	} {
		servers, found, _ := parseAs(t, "goose", "/h/goose/config.yaml", c.text)
		if strings.Join(servers, " ") != c.servers || strings.Join(found, " ") != c.found {
			t.Errorf("%s\n got %v %v\nwant %s %s", c.name, servers, found, c.servers, c.found)
		}
	}
	_, _, out := parseAs(t, "goose", "/h/goose/config.yaml", "extensions:\n  a:\n    cmd: x\n    envs: {V: 1.10, O: 0o17, S: !!str 5.0}\n    args: [~, 1e3, 0x10]\n")
	if e := out.Entries[0].Server; e.Env["V"] != "1.10" || e.Env["O"] != "15" || e.Env["S"] != "5.0" || strings.Join(e.Args, " ") != "1e3 16" {
		t.Errorf("%+v", e)
	}
}

// TestHostileDocuments: what would cost a parser its stack, its memory or its
// time is refused soon.
func TestHostileDocuments(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	long := strings.Repeat("k", 100_000)
	wide := func(n int, line string) string { return strings.Repeat(line, n) }
	for _, c := range []struct{ name, path, text string }{
		{"alias bomb", "x.yaml", bomb + "extensions: *a11\n"},
		{"flow depth", "x.yaml", strings.Repeat("[", 200_000)},
		{"flow map depth", "x.yaml", strings.Repeat("{a: ", 50_000)},
		{"block depth", "x.yaml", strings.Repeat("- ", 100_000)},
		{"key depth", "x.yaml", strings.Repeat("? ", 100_000)},
		{"tag depth", "x.yaml", strings.Repeat("!a ", 100_000)},
		{"anchor depth", "x.yaml", strings.Repeat("&a ", 50_000)},
		{"long paths", "x.yaml", long + ":\n" + wide(50_000, "  - a\n")},
		{"many documents", "x.yaml", wide(50_000, "---\n")},
		{"many errors", "x.yaml", wide(60_000, "a: \"\n")},
		{"many keys", "x.yaml", wide(100_000, "a: 1\n")},
		{"2 MiB of YAML", "x.yaml", wide(2<<18, "abcdefg\n")},
		{"array depth", "x.toml", "a = " + strings.Repeat("[", 300_000)},
		{"table depth", "x.toml", strings.Repeat("a = {", 500_000)},
		{"header depth", "x.toml", "[" + strings.Repeat("a.", 200_000) + "a]"},
		{"dotted tables", "x.toml", strings.Repeat("a.a.a.a.a.a.a.a.a.a.a.a.a.a = {", 3_000)},
		{"many errors", "x.toml", wide(200_000, "[a]\nx = \n")},
		{"many strings without an end", "x.toml", wide(200_000, "[a]\nx = '''\n")},
		{"many tables", "x.toml", wide(100_000, "[[a]]\n")},
		{"many headers", "x.toml", wide(100_000, "[a]\n")},
		{"5 MiB of TOML", "x.toml", wide(5<<17, "# 45678\n")},
		{"depth", "x.json", strings.Repeat("[", 1_000_000)},
	} {
		before := time.Now()
		_, _, out := parseAs(t, "", "/p/"+c.path, c.text)
		if len(out.Entries) > 1 || len(out.Diagnostics) > maxDiagnostics+1 {
			t.Errorf("%s %s: %d entries, %d diagnostics", c.path, c.name, len(out.Entries), len(out.Diagnostics))
		}
		if took := time.Since(before); took > 20*time.Second {
			t.Errorf("%s %s: took %v", c.path, c.name, took)
		}
	}
}

// FuzzTOML and FuzzYAML feed any bytes to the parsers of these formats and the
// mapper: no panic, no end that does not come, and every entry has its place.
func FuzzTOML(f *testing.F) {
	f.Add([]byte("[mcp_servers.a]\ncommand = \"x\"\nargs = ['a', \"\"\"b\"\"\"]\n[mcp_servers.a.env]\nK = 1_0\n[[x]]\ny = {z = 1979-05-27}\n"))
	f.Add([]byte("mcp_servers = {a = {url = \"http://x\"}}\nx = \n[b b]\n[mcp_servers.\"c d\"]\nurl = 'http://localhost'"))
	f.Fuzz(func(t *testing.T, data []byte) { checkFormat(t, "codex", "/h/.codex/config.toml", data) })
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte("a: &b {cmd: x}\nextensions:\n  c:\n    <<: *b\n    timeout: 7\n  d: *b\n  e:\n    uri: |\n      http://x\n"))
	f.Add([]byte("extensions:\n  a:\n    cmd: \"x\n  b:\n    cmd: y\n    args: [~, 1e3, 0x10, !!str 5]\n"))
	f.Fuzz(func(t *testing.T, data []byte) { checkFormat(t, "goose", "/h/goose/config.yaml", data) })
}

func checkFormat(t *testing.T, source, path string, data []byte) {
	servers, _, out := parseAs(t, source, path, string(data))
	lines := strings.Count(string(data), "\n") + 2
	for i, e := range out.Entries {
		if badName(e.Name) != "" || !e.overlay && e.Server.Command == "" && e.Server.URL == "" {
			t.Fatalf("entry %+v cannot be started", e)
		}
		if e.Origin.Line < 1 || e.Origin.Column < 1 || e.Origin.Line > lines {
			t.Fatalf("entry %s has no place", servers[i])
		}
		e.Canonical()
		e.connection()
		Redact(e.Server)
	}
	if len(out.Diagnostics) > maxDiagnostics+1 {
		t.Fatalf("%d diagnostics", len(out.Diagnostics))
	}
}
