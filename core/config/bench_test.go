package config

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

// BenchmarkBigStateFile says what a 30 MB ~/.claude.json adds to discovery, as a multiple
// of the time that reading it alone takes. A host discovers when it starts, so each
// measurement is of a process of its own, whose memory is fresh; they take turns.
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
	times := map[string][]float64{}
	for b.Loop() {
		for _, what := range []string{"read", "with", "without"} {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestBigStateChild$")
			cmd.Env = append(os.Environ(), bigStateChild+"="+what, "HOME="+filepath.Dir(path), "MCPRT_TEST_PROJECT="+d.project)
			out, err := cmd.Output()
			var ns float64
			if _, scanErr := fmt.Sscanf(string(out), "%f ns", &ns); err != nil || scanErr != nil {
				b.Fatalf("%v: %s", err, out)
			}
			times[what] = append(times[what], ns/1e6)
		}
	}
	median := func(what string) float64 {
		slices.Sort(times[what])
		return times[what][len(times[what])/2]
	}
	b.ReportMetric(median("read"), "ms/read")
	b.ReportMetric(median("with")-median("without"), "ms/added")
	b.ReportMetric((median("with")-median("without"))/median("read"), "added/read")
}

// bigStateChild names what a child of BenchmarkBigStateFile measures.
const bigStateChild = "MCPRT_TEST_BIG_STATE"

func TestMain(m *testing.M) {
	if what := os.Getenv(bigStateChild); what != "" {
		measureBigState(what)
		return
	}
	os.Exit(m.Run())
}

func measureBigState(what string) {
	home, project := os.Getenv("HOME"), os.Getenv("MCPRT_TEST_PROJECT")
	o := Options{Cwd: project, Env: newEnv("linux", map[string]string{"HOME": home, "PATH": "/nonexistent"}), User: User{IDs: []string{"claude"}}}
	want := 2
	if what == "without" {
		o.Env, want = newEnv("linux", map[string]string{"HOME": project, "PATH": "/nonexistent"}), 0
	}
	start := time.Now()
	if what == "read" {
		if _, err := os.ReadFile(filepath.Join(home, ".claude.json")); err != nil {
			panic(err)
		}
	} else if r, err := Discover(context.Background(), o); err != nil || len(r.Entries) != want {
		panic(fmt.Sprintf("%+v %v", r, err))
	}
	fmt.Printf("%d ns\n", time.Since(start).Nanoseconds())
}
