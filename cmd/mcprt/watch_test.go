package main

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/goccy/go-json"
)

func TestReadEvent(t *testing.T) {
	for event, want := range map[string]eventLine{
		`{"type":"server_state","name":"a","state":"ready"}`:                                                           {server: "a", text: "ready", style: green},
		`{"type":"server_state","name":"a","state":"failed","error":{"code":"exited","message":"it\u001b[2J\nended"}}`: {server: "a", text: "failed: it\uFFFD[2J ended", style: red},
		`{"type":"server_state","name":"a","state":"connecting","error":{"code":"exited","message":"x"}}`:              {server: "a", text: "connecting again", style: yellow},
		`{"type":"tools_changed","server":"a","added":["x","y"],"removed":[],"changed":["z"],"live":["x"]}`:            {server: "a", text: "tools: 2 new, 1 changed, 1 live", style: faint},
		`{"type":"tools_changed","server":"a","added":[],"removed":[],"changed":[],"live":[]}`:                         {server: "a", style: faint},
		`{"type":"log","server":"a","level":"info","data":"hi"}`:                                                       {server: "a", text: "info: hi", style: faint},
		`{"type":"log","server":"a","level":"info","data":{"n":1}}`:                                                    {server: "a", text: `info: {"n":1}`, style: faint},
		`{"type":"log","server":"a","level":"error","logger":"mcprt","data":"what server_state says"}`:                 {},
		`{"type":"diagnostic","severity":"warning","server":"a","message":"odd"}`:                                      {server: "a", text: "odd", style: yellow},
		`{"type":"config_changed","applied":false,"paths":["/p"],"added":["x"],"removed":[],"changed":[]}`:             {text: "/p: 1 new; not applied until a reload"},
		`{"type":"progress","server":"a","progress":1,"total":4,"message":"m"}`:                                        {server: "a", text: "m 25%", style: faint},
		`{"type":"resource_updated","server":"a","uri":"file:///x"}`:                                                   {server: "a", text: "updated file:///x", style: faint},
		`{"type":"prompts_changed","server":"a"}`:                                                                      {server: "a", text: "prompts changed", style: faint},
		`{"type":"notification","server":"a","method":"notifications/x","params":{}}`:                                  {server: "a", text: "notifications/x", style: faint},
		`{"type":"something_new","server":"a"}`:                                                                        {server: "a", text: "something_new", style: faint},
		`junk`:                                                                                                         {},
	} {
		if got := readEvent([]byte(event), time.Time{}); got != want {
			t.Errorf("%s\n got %+v\nwant %+v", event, got, want)
		}
	}
}

// TestWatchLines: events come as lines until an interrupt, which is no failure.
func TestWatchLines(t *testing.T) {
	for name, flags := range map[string][]string{"text": nil, "JSON": {"--json"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := tool(t, append(append([]string{"watch", "--trust-project"}, project(t)...), flags...)...)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			var seen []string
			for lines.Scan() {
				line := lines.Text()
				seen = append(seen, line)
				if flags != nil && !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
				if strings.Contains(line, "demo") && strings.Contains(line, "ready") {
					break
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatalf("%v; it wrote %q and %q", err, seen, errOut.String())
			}
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v; stderr %q", err, errOut.String())
			}
		})
	}
}

// TestWatchView draws screens without a terminal.
func TestWatchView(t *testing.T) {
	v := &watchView{s: &session{stdout: &painter{}}, busy: "connecting"}
	v.Update(tea.WindowSizeMsg{Width: 60, Height: 16})
	var servers []serverView
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		servers = append(servers, serverView{Name: name, State: "ready", ToolCount: 2})
	}
	v.Update(refreshed{servers: servers})
	for range 600 {
		v.Update(eventLine{server: "a", text: strings.Repeat("long ", 30)})
	}
	screen := v.draw()
	lines := strings.Split(screen, "\n")
	if len(lines) != 16 || len(v.log) != maxLog {
		t.Errorf("%d lines, %d events kept:\n%s", len(lines), len(v.log), screen)
	}
	for _, want := range []string{"6 of 6 servers ready, 12 tools", ">  a ", "and 2 more", "connecting …"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for range 9 {
		v.Update(tea.KeyPressMsg(tea.Key{Code: tea.KeyDown}))
	}
	if screen = v.draw(); !strings.Contains(screen, ">  f ") {
		t.Errorf("the marked server is not shown:\n%s", screen)
	}
	if _, cmd := v.Update(tea.KeyPressMsg(tea.Key{Code: 'r', Text: "r"})); cmd != nil {
		t.Error("a second command while one runs")
	}
	v.Update(ended{said: "reloaded"})
	if _, cmd := v.Update(tea.KeyPressMsg(tea.Key{Code: 'q', Text: "q"})); cmd == nil || v.busy != "" {
		t.Error("q does not quit")
	}
}

func TestCache(t *testing.T) {
	flags := project(t)
	if got := runTool(t, "", append([]string{"list", "--trust-project"}, flags...)...); got.code != exitOK {
		t.Fatalf("list = %+v", got)
	}
	for _, c := range []struct{ verb, want string }{{"info", "tools of 1 servers"}, {"clear", "forgot the tools of 1 servers"}, {"info", "tools of 0 servers"}} {
		if got := runTool(t, "", append([]string{"cache", c.verb}, flags...)...); got.code != exitOK || !strings.Contains(got.stdout, c.want) {
			t.Errorf("cache %s = %+v, want %q", c.verb, got, c.want)
		}
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if got := runTool(t, "", "cache", "info"); got.code != exitOK || !strings.Contains(got.stdout, "home directory") || !strings.Contains(got.stdout, "--cache-dir") {
		t.Errorf("without a home: %+v", got)
	}
}

// TestCompletion: shells get scripts, and names are completed without starting anything.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := runTool(t, "", "completion", shell); got.code != exitOK || !strings.Contains(got.stdout, "mcprt") {
			t.Errorf("completion %s = %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
	flags := project(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(append([]string{"__complete", "call"}, flags...), "--server", ""), "demo\nbroken\n:4\n"},
		{append(append([]string{"__complete", "trust", "add"}, flags...), ""), "demo\nbroken\n:4\n"},
		{[]string{"__complete", "list", ""}, strings.Join(listKinds, "\n") + "\n:4\n"},
		{[]string{"__complete", "list", "--color", ""}, "auto\nalways\nnever\n:4\n"},
	} {
		got := runTool(t, "", c.args...)
		words := func(s string) []string { return slices.Sorted(slices.Values(strings.Fields(s))) }
		if !slices.Equal(words(got.stdout), words(c.want)) {
			t.Errorf("%q completes to %q, want %q", c.args, got.stdout, c.want)
		}
	}
}
