package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/trace"
)

// recorded makes a trace of a real run of two servers.
func recorded(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "t.jsonl")
	got := runTool(t, "", append([]string{"call", "mcp_demo_echo", `{"text":"hi"}`, "--trust-project", "--trace", file}, project(t)...)...)
	if got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	return file
}

// TestNothingIsRecorded: a file that is no trace is left alone, and each command says so,
// once and whatever else it shows.
func TestNothingIsRecorded(t *testing.T) {
	home(t)
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := append(project(t), "--trust-project", "--trace", file)
	for _, args := range [][]string{
		{"call", "--server", "demo", "echo", "text=hi"}, {"call", "--json", "--server", "demo", "echo", "text=hi"}, {"call", "--method", "mcprt/stats"},
		{"list"}, {"list", "--stats"}, {"discover"}, {"doctor"}, {"cache", "info"}, {"trust", "list"}, {"logout", "demo"},
	} {
		got := runTool(t, "", append(args, flags...)...)
		if n := strings.Count(got.stdout+got.stderr, "exists and is no trace of mcprt"); n != 1 {
			t.Errorf("%v says %d times that nothing is recorded: %+v", args, n, got)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestTraceShow(t *testing.T) {
	file := recorded(t)
	all := runTool(t, "", "trace", "show", file)
	if all.code != exitOK || all.stderr != "" {
		t.Fatalf("%+v", all)
	}
	for _, part := range []string{"mcprt ", "phase", "spawn", "connecting → ready", "→ request", "← response", "tools/call echo", "first_call", "end"} {
		if !strings.Contains(all.stdout, part) {
			t.Errorf("%q is not in\n%s", part, all.stdout)
		}
	}
	// Columns line up: the arrows of all messages are at one place.
	at := -1
	for line := range strings.Lines(all.stdout) {
		if i := strings.IndexAny(line, "→←"); i > 0 && strings.Contains(line, "request ") {
			if at >= 0 && i != at {
				t.Errorf("not aligned: %s", line)
			}
			at = i
		}
	}
	calls := runTool(t, "", "trace", "show", file, "--server", "demo", "--method", "tools/c*", "--payload")
	if lines := strings.Split(calls.stdout, "\n"); strings.Count(calls.stdout, "tools/call") != 2 || strings.Contains(calls.stdout, "spawn") || !strings.Contains(calls.stdout, `"text": "hi"`) || len(lines) < 10 {
		t.Errorf("%s", calls.stdout)
	}
	if none := runTool(t, "", "trace", "show", file, "--server", "nobody"); strings.Count(none.stdout, "\n") != 2 {
		t.Errorf("%s", none.stdout)
	}
	records := runTool(t, "", "trace", "show", file, "--json", "--method", "tools/call")
	lines := strings.Split(strings.TrimSpace(records.stdout), "\n")
	if len(lines) != 3 { // the header keeps it a trace
		t.Fatalf("%s", records.stdout)
	}
	for i, line := range lines {
		var r trace.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || i > 0 && (r.Tool != "echo" || r.Server != "demo") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestTraceCommandLines(t *testing.T) {
	file := recorded(t)
	for _, args := range [][]string{
		{"show"}, {"html"}, {"show", file, file}, {"nope"}, {"show", file, "--limit", "-1"}, {"show", file, "--method", "["}, {"show", file, "--color", "x"},
	} {
		if got := runTool(t, "", append([]string{"trace"}, args...)...); got.code != exitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, "mcprt: ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	other := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, other + ".none"} {
		for _, verb := range []string{"show", "html"} {
			if got := runTool(t, "", "trace", verb, path); got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, path) {
				t.Errorf("%+v", got)
			}
		}
	}
}

// nasty is text that a server could send to take over a terminal or a page.
var nasty = []string{
	`<script>document.title='owned'</script>`, `"><img src=http://127.0.0.1:1/x onerror="document.title='owned'">`, `' onmouseover='document.title=1`, `</pre></style></script><h1>`,
	`javascript:document.title='owned'`, "a\u202eb\u2066c\x1b[31md\x00\r\n", `{{.}}`, `<!--`, `]]>`, `\u003cscript\u003e`, `&lt;b&gt;`, `</title><base href="http://127.0.0.1:1/">`,
}

// nastyTrace puts such text into each member that a server or a config fills.
func nastyTrace(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	second := 0
	line := func(r map[string]any) {
		r["time"] = fmt.Sprintf("2026-12-01T00:00:00.%06dZ", second)
		second += 700
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	line(map[string]any{"type": "trace", "format": 1, "mcprt": nasty[0], "run": "x", "part": 1})
	for i, n := range nasty {
		own := map[string]any{"server": n, "generation": i + 1}
		with := func(more map[string]any) {
			for k, v := range own {
				more[k] = v
			}
			line(more)
		}
		with(map[string]any{"type": "start", "transport": n, "target": n})
		with(map[string]any{"type": "phase", "phase": "spawn", "durationMs": 0.5, "detail": n, "error": map[string]any{"code": n, "message": n}})
		with(map[string]any{"type": "phase", "phase": n, "durationMs": 1e300, "detail": n})
		with(map[string]any{"type": "phase", "phase": "list", "durationMs": -1e300})
		with(map[string]any{"type": "state", "state": n, "previous": "connecting", "error": map[string]any{"code": n, "message": n}})
		with(map[string]any{"type": "message", "direction": n, "kind": n, "method": n, "tool": n, "id": n, "bytes": -5, "outcome": n, "payload": map[string]any{n: n}, "durationMs": 0})
		with(map[string]any{"type": "message", "direction": "in", "kind": "response", "method": "m", "payloadText": n, "outcome": "ok"})
		with(map[string]any{"type": n})
	}
	line(map[string]any{"type": "phase", "phase": "gate", "durationMs": 90.5, "detail": nasty[0]})
	file := filepath.Join(t.TempDir(), "nasty.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTraceShowOfAHostileTrace(t *testing.T) {
	got := runTool(t, "", "trace", "show", nastyTrace(t), "--payload", "--color", "never")
	if got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	if strings.ContainsAny(got.stdout, "\x1b\x00\r\u202e\u2066") {
		t.Error("text of a server can steer the terminal")
	}
}

// TestTracePageIsSelfContained looks at the source; TestTracePageInABrowser at what becomes of it.
func TestTracePageIsSelfContained(t *testing.T) {
	for _, file := range []string{recorded(t), nastyTrace(t)} {
		out := filepath.Join(t.TempDir(), "t.html")
		got := runTool(t, "", "trace", "html", file, "-o", out)
		if got.code != exitOK || got.stdout != "" {
			t.Fatalf("%+v", got)
		}
		info, err := os.Stat(out)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		page := string(data)
		if piped := runTool(t, "", "trace", "html", file); piped.stdout != page {
			t.Error("stdout gets another page")
		}
		if !strings.Contains(page, `content="default-src &#39;none&#39;; style-src &#39;sha256-`) {
			t.Error("there is no policy")
		}
		// Elements that load or run, and attributes that would: only ours are there.
		for pattern, most := range map[string]int{`<script`: 1, `<style`: 1, `<(img|link|iframe|object|embed|base|video|audio|source|form [^>]*action)\b`: 0,
			`<h1`: 1, `<title>`: 1 << 20, `(?s)<[^>]*\son[a-z]+\s*=[^>]*>`: 0, `<[^>"]*\s(src|action|formaction|xlink:href)=`: 0, `\sstyle="`: 0, `href="[^#]`: 0} {
			if n := len(regexp.MustCompile(pattern).FindAllString(stripQuoted(page), -1)); n > most {
				t.Errorf("%s occurs %d times", pattern, n)
			}
		}
		if strings.ContainsAny(page, "\x00\x1b\u202e\u2066") {
			t.Error("characters that steer are not made visible")
		}
	}
}

// stripQuoted empties attribute values, whose text is no markup, and our own style and script.
func stripQuoted(page string) string {
	page = regexp.MustCompile(`(?s)(<script>|<style>).*?(</script>|</style>)`).ReplaceAllString(page, "$1$2")
	return regexp.MustCompile(`(aria-label|title|data-[a-z]+|content)="[^"]*"`).ReplaceAllString(page, `$1=""`)
}

func TestShortDurations(t *testing.T) {
	for ms, want := range map[float64]string{-1: "0 ms", 0: "0 ms", 0.25: "0.25 ms", 1: "1 ms", 1.5: "1.5 ms", 12.4: "12 ms", 250: "250 ms", 1000: "1 s", 1500: "1.5 s", 61000: "1m1s"} {
		r := trace.Record{DurationMs: &ms}
		if got := short(r.Duration()); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}
