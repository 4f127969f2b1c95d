package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/pflag"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/mcptest"
)

// quiet is a host that keeps the codes of diagnostics.
type quiet struct {
	mu    sync.Mutex
	codes []string
}

func (q *quiet) Notice(data []byte) {
	var n struct{ Type, Code string }
	if json.Unmarshal(data, &n) == nil && n.Type == "diagnostic" {
		q.mu.Lock()
		q.codes = append(q.codes, n.Code)
		q.mu.Unlock()
	}
}
func (q *quiet) Request(uint64, []byte)          {}
func (q *quiet) RequestDone(uint64, core.Status) {}

// faulty is one manager with one server "s", a fault-server with flags.
type faulty struct {
	t    *testing.T
	m    *core.Manager
	host *quiet
}

func openFaulty(t *testing.T, server map[string]any) *faulty {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"cwd": t.TempDir(), "servers": map[string]any{"s": server}, "discovery": map[string]any{"user": "none"},
		"cache": map[string]any{"enabled": false}, "startupTimeoutMs": 0})
	if err != nil {
		t.Fatal(err)
	}
	host := &quiet{}
	m, err := core.Open(raw, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(300) })
	return &faulty{t, m, host}
}

// stdioServer is the config of a fault-server process.
func stdioServer(t *testing.T, flags ...string) map[string]any {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"command": self, "args": append([]string{"fault-server"}, flags...), "env": map[string]string{runAsTool: "1"}, "timeoutMs": 15_000}
}

// httpServer starts a fault-server with --http and gives its config.
func httpServer(t *testing.T, flags ...string) map[string]any {
	cmd := tool(t, append([]string{"fault-server", "--http", "127.0.0.1:0"}, flags...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"url": strings.TrimSpace(url), "timeoutMs": 10_000}
}

func (f *faulty) do(v core.Verb, req string) string {
	done := make(chan string, 1)
	f.m.Start(v, 1, []byte(req), func(_ core.Status, r core.Reply) { done <- string(r.Head) + string(r.Body) + string(r.Tail) })
	return <-done
}

// connect connects, and fails unless the server is there in the end.
func (f *faulty) connect() {
	f.t.Helper()
	if a := f.do(core.VerbConnect, `{}`); !strings.Contains(a, `"connected":["s"]`) {
		f.t.Fatalf("not connected: %.2000s", a)
	}
}

// refused connects, expects a failure, and gives the answer.
func (f *faulty) refused(code string) string {
	f.t.Helper()
	a := f.do(core.VerbConnect, `{}`)
	if !strings.Contains(a, `"code":"`+code+`"`) {
		f.t.Errorf("not %s: %.2000s", code, a)
	}
	return a
}

func (f *faulty) call(tool, args string) string {
	return f.do(core.VerbCall, `{"server":"s","tool":"`+tool+`","arguments":`+args+`,"timeoutMs":10000}`)
}

// sums calls add and fails on anything but the sum.
func (f *faulty) sums() {
	f.t.Helper()
	if a := f.call("add", `{"a":40,"b":2}`); !strings.Contains(a, `"42"`) {
		f.t.Errorf("add: %.2000s", a)
	}
}

func (f *faulty) tools() (names []string) {
	f.t.Helper()
	var list struct {
		Tools []struct{ Name, Tool string }
	}
	a := f.do(core.VerbList, `{"kind":"tools"}`)
	if err := json.Unmarshal([]byte(a), &list); err != nil {
		f.t.Fatalf("%v: %.2000s", err, a)
	}
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	return names
}

// works is what most faults should come to: the server is used as if it had none.
func works(f *faulty) {
	f.t.Helper()
	f.connect()
	f.sums()
}

func wants(n int) func(*faulty) {
	return func(f *faulty) {
		f.t.Helper()
		f.connect()
		if got := f.tools(); len(got) != n {
			f.t.Errorf("%d tools, not %d: %q", len(got), n, got)
		}
	}
}

func fails(code string, words ...string) func(*faulty) {
	return func(f *faulty) {
		f.t.Helper()
		a := f.refused(code)
		for _, w := range words {
			if !strings.Contains(a, w) {
				f.t.Errorf("no %s in %.2000s", w, a)
			}
		}
	}
}

// TestFaultServer: for each flag, what docs/fault-server.md says that a host should see.
func TestFaultServer(t *testing.T) {
	dir := t.TempDir()
	log, state, ca := filepath.Join(dir, "log"), filepath.Join(dir, "state"), filepath.Join(dir, "ca.pem")
	withCA := func(server map[string]any) map[string]any {
		server["tls"] = map[string]string{"caFile": ca}
		return server
	}
	cases := []struct {
		flags  string
		server func(map[string]any) map[string]any // changes the config
		see    func(*faulty)
	}{
		{"", nil, works},
		{"--name other --log " + log, nil, func(f *faulty) {
			works(f)
			if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"event":"recv"`) {
				f.t.Errorf("the log: %.200s %v", text, err)
			}
		}},
		{"--dirty", nil, works},
		{"--dirty-late", nil, works},
		{"--stderr no-licence --exit-at-start 3", nil, fails("exited", `"exitCode":3`, "no-licence", `"command":`)},
		{"--exit-at-initialize 4", nil, fails("exited", `"exitCode":4`)},
		{"--stderr-bytes 1048576", nil, works},
		{"--start-delay 700ms", nil, works},
		{"--initialize-delay 700ms", nil, works},
		{"--silent-initialize", func(s map[string]any) map[string]any { s["timeoutMs"] = 700; return s }, fails("timeout", `"timeoutMs":700`)},
		{"--crashes 1 --state " + state, nil, func(f *faulty) {
			f.do(core.VerbConnect, `{}`)
			// By the second process; the first may die with the call in its pipe.
			if a := f.do(core.VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"retry":"always"}`); !strings.Contains(a, `"42"`) {
				f.t.Errorf("add: %.2000s", a)
			}
		}},
		{"--ignore-eof --ignore-term", nil, ends},
		{"--wrapped --ignore-eof", nil, ends},
		{"--grandchild --ignore-term", nil, ends},
		{"--modern", nil, func(f *faulty) {
			works(f)
			if a := f.do(core.VerbList, `{"kind":"servers"}`); !strings.Contains(a, mcptest.Modern) {
				f.t.Errorf("not %s: %s", mcptest.Modern, a)
			}
		}},
		{"--dual", nil, works},
		{"--discover exit", nil, works},
		{"--discover silence", nil, works},
		{"--discover methodNotFound", nil, works},
		{"--discover invalidParams", nil, works},
		{"--answer-version 1999-01-01", nil, fails("unsupported_version", "1999-01-01")},
		{"--string-ids", nil, works},
		{"--tools 101 --page-size 50", nil, wants(101)},
		{"--tools 10 --page-size 4 --cursors empty", nil, wants(10)},
		{"--tools 10 --page-size 4 --cursors null", nil, wants(10)},
		{"--tools 10 --page-size 4 --cursors same", nil, fails("protocol", "circle")},
		{"--tools 10 --page-size 4 --cursors aba", nil, fails("protocol", "circle")},
		{"--tools 10 --page-size 4 --cursors number", nil, fails("protocol", "cursor")},
		{"--name-bytes 80", nil, func(f *faulty) {
			wants(2)(f)
			for _, n := range f.tools() {
				if len(n) > 64 {
					f.t.Errorf("a name of %d bytes: %s", len(n), n)
				}
			}
		}},
		{"--odd-schemas", nil, wants(len(mcptest.OddSchemas()))},
		{"--ref-schemas", nil, wants(len(mcptest.RefSchemas()))},
		{"--no-tools", nil, wants(0)},
		{"--list-delay 700ms --list-changed 1", nil, works},
		{"--call-delay 1s", nil, func(f *faulty) {
			f.connect()
			start := time.Now()
			var wait sync.WaitGroup
			for range 5 {
				wait.Go(f.sums)
			}
			if wait.Wait(); time.Since(start) > 4*time.Second {
				f.t.Errorf("five calls of a second took %v", time.Since(start))
			}
		}},
		{"http", nil, works},
		{"http --http-tls " + ca, withCA, works},
		{"http --http-tls " + ca + ".other", nil, fails("connect_failed", "caFile")},
		{"http --http-sse", nil, works},
		{"http --http-json", nil, works},
		{"http --http-get 404", nil, works},
		{"http --http-status 503", nil, fails("http_status", "503")},
		{"http --http-newline lf", nil, works},
		{"http --http-newline cr --http-bytes", nil, works},
		{"http --http-expire 1", nil, func(f *faulty) { works(f); f.sums(); f.sums() }},
		{"http --http-one-session", nil, func(f *faulty) {
			works(f)
			if a := f.do(core.VerbConnect, `{"restart":true}`); !strings.Contains(a, `"connected":["s"]`) {
				f.t.Errorf("restart: %s", a)
			}
			f.sums()
		}},
		{"http --http-cut", nil, func(f *faulty) {
			f.connect()
			if a := f.call("add", `{}`); !strings.Contains(a, "outcome_unknown") {
				f.t.Errorf("call: %s", a)
			}
		}},
		{"http --http-401", nil, func(f *faulty) {
			start := time.Now()
			if a := f.do(core.VerbConnect, `{}`); !strings.Contains(a, "auth") || time.Since(start) > 12*time.Second {
				f.t.Errorf("after %v: %s", time.Since(start), a)
			}
		}},
	}
	tried := map[string]bool{"http": true}
	for _, c := range cases {
		for _, word := range strings.Fields(c.flags) {
			if flag, ok := strings.CutPrefix(word, "--"); ok {
				tried[flag] = true
			}
		}
		t.Run(strings.ReplaceAll(c.flags, dir, ""), func(t *testing.T) {
			t.Parallel()
			flags := strings.Fields(c.flags)
			var config map[string]any
			if len(flags) > 0 && flags[0] == "http" {
				config = httpServer(t, flags[1:]...)
			} else {
				config = stdioServer(t, flags...)
			}
			if c.server != nil {
				config = c.server(config)
			}
			c.see(openFaulty(t, config))
		})
	}
	faultServerCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !tried[f.Name] {
			t.Errorf("no case has --%s", f.Name)
		}
	})
}

// ends: the server works, and closing takes no longer than its grace and a moment.
func ends(f *faulty) {
	works(f)
	start := time.Now()
	if f.m.Close(300); time.Since(start) > 5*time.Second {
		f.t.Errorf("close took %v", time.Since(start))
	}
}

// TestFaultServerDocs: the tables name each flag and tool, and nothing else.
func TestFaultServerDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/fault-server.md")
	if err != nil {
		t.Fatal(err)
	}
	flags, tools, found := strings.Cut(string(text), "\n## Tools\n")
	if !found {
		t.Fatal("no tools")
	}
	var named, have []string
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)").FindAllStringSubmatch(flags, -1) {
		named = append(named, m[1])
	}
	faultServerCommand().Flags().VisitAll(func(f *pflag.Flag) { have = append(have, f.Name) })
	if !slices.Equal(named, have) {
		t.Errorf("flags are documented as\n%q\nand are\n%q", named, have)
	}
	named, have = nil, nil
	for _, m := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(tools, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			named = append(named, strings.Trim(name, "`"))
		}
	}
	for _, raw := range mcptest.DefaultTools() {
		var tool struct{ Name string }
		if err := json.Unmarshal([]byte(raw), &tool); err != nil {
			t.Fatal(err)
		}
		have = append(have, tool.Name)
	}
	slices.Sort(named)
	if slices.Sort(have); !slices.Equal(named, have) {
		t.Errorf("tools are documented as\n%q\nand are\n%q", named, have)
	}
}

func TestFaultServerCommandLine(t *testing.T) {
	for _, args := range []string{"--discover what", "--cursors x", "--http-get 404", "--crashes 2", "--start-delay -1s", "--tools -1", "extra", "--http 127.0.0.1:0 --http-newline x"} {
		got := runTool(t, "", append([]string{"fault-server"}, strings.Fields(args)...)...)
		if got.code != exitUsage || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := runTool(t, "", "fault-server", "--http", "256.0.0.1:0"); got.code != exitFailed || !strings.Contains(got.stderr, "cannot listen") {
		t.Errorf("%+v", got)
	}
}
