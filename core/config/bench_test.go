package config

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkDiscover: 20 files of many tools with 60 servers.
func BenchmarkDiscover(b *testing.B) {
	d := newDirs(b)
	json := func(wrapper, prefix string) string {
		return fmt.Sprintf(`{%q: {"%[2]s1": {"command": "npx", "args": ["-y", "%[2]s1"], "env": {"T": "${HOME}"}}, "%[2]s2": {"url": "https://%[2]s2.example.com/mcp", "headers": {"A": "Bearer ${HOME}"}}, "%[2]s3": {"command": "%[2]s3"}}}`, wrapper, prefix)
	}
	files := map[string]string{}
	for i, place := range []string{"$PROJECT/.mcprt/mcp.json", "$CONFIG/mcprt/mcp.json", "$PROJECT/.omp/mcp.json", "$HOME/.omp/agent/mcp.json", "$PROJECT/.claude/mcp.json",
		"$HOME/.claude.json", "$CONFIG/Claude/claude_desktop_config.json", "$PROJECT/.gemini/settings.json", "$HOME/.gemini/settings.json", "$PROJECT/.cursor/mcp.json",
		"$HOME/.cursor/mcp.json", "$HOME/.codeium/windsurf/mcp_config.json", "$PROJECT/.roo/mcp.json", "$PROJECT/.amazonq/mcp.json", "$PROJECT/.vscode/mcp.json", "$PROJECT/.mcp.json"} {
		files[place] = json("mcpServers", fmt.Sprintf("s%d-", i))
	}
	files["$PROJECT/opencode.json"], files["$PROJECT/.zed/settings.json"] = json("mcp", "o"), json("context_servers", "z")
	files["$HOME/.codex/config.toml"] = "[mcp_servers.c1]\ncommand = \"x\"\n[mcp_servers.c2]\nurl = \"https://c2.example.com\"\n[mcp_servers.c3]\ncommand = \"c3\"\nargs = [\"a\"]\n"
	files["$CONFIG/goose/config.yaml"] = "extensions:\n  g1:\n    cmd: g1\n  g2:\n    uri: https://g2.example.com\n  g3:\n    cmd: g3\n    args: [a]\n"
	for place, text := range files {
		d.write(b, place, text)
	}
	o := Options{Cwd: d.project, Env: d.env(nil), Project: true, User: User{All: true}, ProjectTrust: TrustAlways}
	b.ResetTimer()
	for b.Loop() {
		r, err := Discover(context.Background(), o)
		if err != nil || len(r.Entries) != 60 {
			b.Fatalf("%d servers: %v", len(r.Entries), err)
		}
	}
}

// BenchmarkBigStateFile compares reading a 30 MB ~/.claude.json alone with
// discovering what is in it.
func BenchmarkBigStateFile(b *testing.B) {
	d := newDirs(b)
	var text strings.Builder
	text.WriteString(`{"numStartups": 7, "projects": {`)
	for i := 0; text.Len() < 30<<20; i++ {
		fmt.Fprintf(&text, "%q: {\"history\": [{\"display\": \"%s\", \"pastedContents\": {}}], \"mcpServers\": {}},\n", fmt.Sprintf("/home/dev/p%d", i),
			strings.Repeat(`please fix the bug in [this] {file} and in the one beside it, and tell me what was wrong.\n\"Thanks\" `, 20))
	}
	fmt.Fprintf(&text, `%q: {"mcpServers": {"local": {"command": "x"}}}}, "mcpServers": {"a": {"command": "y"}}}`, d.project)
	path := d.write(b, "$HOME/.claude.json", text.String())
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(path); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("discover", func(b *testing.B) {
		o := Options{Cwd: d.project, Env: d.env(nil), User: User{IDs: []string{"claude"}}}
		for b.Loop() {
			r, err := Discover(context.Background(), o)
			if err != nil || len(r.Entries) != 2 {
				b.Fatalf("%+v %v", r, err)
			}
		}
	})
}
