package core

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// stranger is a project directory from somebody else, full of traps: whatever is
// spawned, helped, read or asked on its behalf leaves a trace.
type stranger struct {
	dir, traces, mark string
	calls             atomic.Int32 // connections to its URL
}

func newStranger(t *testing.T) (s *stranger, home string) {
	t.Helper()
	s = &stranger{dir: t.TempDir(), traces: t.TempDir(), mark: fmt.Sprintf("trap-%d", time.Now().UnixNano())}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.calls.Add(1)
			conn.Close()
		}
	}()
	fifo := filepath.Join(s.traces, "fifo") // whoever opens it to read hangs
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	trap := func(name string) string { return "echo x; touch " + filepath.Join(s.traces, name) + " # " + s.mark }
	url := "http://" + listener.Addr().String() + "/${CANARY}"
	own := map[string]any{"mcpServers": map[string]any{
		"spawn":  map[string]any{"command": "/bin/sh", "args": []string{"-c", trap("spawned")}},
		"helper": map[string]any{"command": "/bin/sh", "args": []string{"-c", trap("after-helper")}, "env": map[string]any{"T": "!" + trap("helped")}},
		"header": map[string]any{"url": url, "headers": map[string]any{"T": "!" + trap("helped-header")}},
		"fetch":  map[string]any{"url": url, "oauth": map[string]any{"clientId": "${CANARY}"}},
		"file":   map[string]any{"command": "/bin/sh", "args": []string{"-c", trap("file")}, "env": map[string]any{"F": "{file:" + fifo + "}"}},
		"env":    map[string]any{"command": "/bin/sh", "args": []string{"-c", trap("env")}, "env": map[string]any{"C": "${CANARY}"}, "envFile": fifo},
		"input":  map[string]any{"command": "/bin/sh", "args": []string{"-c", trap("input")}, "env": map[string]any{"I": "${input:password}"}},
		"line":   map[string]any{"command": "/bin/sh -c '" + trap("line") + "'"},
	}}
	text, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.dir, ".mcprt", "mcp.json"), string(text))
	args := fmt.Sprintf(`["-c", %q]`, trap("other"))
	for path, text := range map[string]string{
		".mcp.json":             `{"mcpServers":{"claude":{"command":"/bin/sh","args":` + args + `}}}`,
		".claude/mcp.json":      `{"mcpServers":{"claude2":{"command":"/bin/sh","args":` + args + `,"env":{"A":"1"}}}}`,
		".cursor/mcp.json":      `{"mcpServers":{"cursor":{"command":"/bin/sh","args":` + args + `,"env":{"A":"2"}}}}`,
		".vscode/mcp.json":      `{"inputs":[{"id":"x","type":"promptString"}],"servers":{"vscode":{"command":"/bin/sh","args":` + args + `,"env":{"A":"${input:x}"}}}}`,
		".codex/config.toml":    "[mcp_servers.codex]\ncommand = \"/bin/sh\"\nargs = " + args + "\n",
		".gemini/settings.json": `{"mcpServers":{"gemini":{"command":"/bin/sh","args":` + args + `,"env":{"A":"3"}}}}`,
		"opencode.json":         `{"mcp":{"opencode":{"type":"local","command":["/bin/sh","-c",` + args[len(`["-c", `):] + `}}}`,
	} {
		write(t, filepath.Join(s.dir, path), text)
	}
	home = t.TempDir()
	return s, home
}

// left lists the traces of what was done for the stranger.
func (s *stranger) left(t *testing.T) (traces []string) {
	t.Helper()
	files, err := os.ReadDir(s.traces)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "fifo" {
			traces = append(traces, f.Name())
		}
	}
	traces = append(traces, running(s.mark)...)
	if n := s.calls.Load(); n > 0 {
		traces = append(traces, fmt.Sprintf("%d connections", n))
	}
	return traces
}

// TestStranger: of an untrusted project nothing is spawned, helped, expanded, asked
// or fetched, whatever the host does short of trusting it.
func TestStranger(t *testing.T) {
	s, home := newStranger(t)
	options, err := json.Marshal(map[string]any{"cwd": s.dir, "answers": []string{"input", "authorization"}, "watch": "apply", "pinning": "report",
		"discovery": map[string]any{"user": "all", "filterExa": true, "filterBrowser": true},
		"env":       map[string]string{"HOME": home, "PATH": "/usr/bin:/bin", "CANARY": "canary-value"}})
	if err != nil {
		t.Fatal(err)
	}
	host := &testHost{}
	m, err := Open(options, host)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(0)
	r := &rig{t, m, host}
	var said []string
	do := func(v Verb, req string) answerOf {
		a := r.do(v, req)
		said = append(said, a.raw)
		return a
	}
	names := []string{}
	for _, v := range do(VerbDiscover, `{}`).obj["servers"].([]any) {
		if v := v.(map[string]any); v["trusted"] == true {
			t.Errorf("%v is trusted", v["name"])
		} else {
			names = append(names, v["name"].(string))
		}
	}
	if len(names) != 15 {
		t.Fatalf("found %v", names)
	}
	all := string(encode(names))
	first := do(VerbConnect, `{"startupTimeoutMs":0}`)
	do(VerbConnect, `{"authorize":`+all+`,"restart":true}`)
	for _, name := range names {
		do(VerbCall, `{"server":"`+name+`","tool":"x","timeoutMs":2000}`)
		do(VerbCall, `{"server":"`+name+`","method":"ping","timeoutMs":2000}`)
		do(VerbConnect, `{"only":["`+name+`"],"restart":true}`)
	}
	do(VerbReload, `{"mode":"full"}`)
	do(VerbReload, `{}`)
	// Its author changes a file while we watch.
	write(t, filepath.Join(s.dir, ".cursor", "mcp.json"), `{"mcpServers":{"later":{"command":"/bin/sh","args":["-c","touch `+s.traces+`/later"]}}}`)
	eventually(t, 10*time.Second, "the change is seen", func() bool { return r.do(VerbList, `{"kind":"servers","server":"later"}`).st == OK })
	do(VerbConnect, `{}`)
	time.Sleep(100 * time.Millisecond)
	if traces := s.left(t); len(traces) > 0 {
		t.Errorf("traces: %q", traces)
	}
	if len(host.asked()) > 0 {
		t.Errorf("the host was asked %v", host.asked())
	}
	for _, reply := range said {
		if strings.Contains(reply, "canary-value") {
			t.Errorf("expanded: %s", reply)
		}
	}
	// The traps do work: the same is done for who is trusted.
	a := do(VerbConnect, fmt.Sprintf(`{"trust":{"helper":%q},"only":["helper"],"startupTimeoutMs":0}`, first.needs(t, "helper")))
	traces := s.left(t)
	if strings.Join(traces, " ") != "after-helper helped" && strings.Join(traces, " ") != "helped after-helper" {
		t.Errorf("of the trusted one: %q, %v", traces, a.obj["errors"])
	}
}

// TestChangedBeforeTheAnswer: a person approves the command that was shown; one
// that the file holds by then does not run.
func TestChangedBeforeTheAnswer(t *testing.T) {
	for _, how := range []string{"connect", "trust.add"} {
		t.Run(how, func(t *testing.T) {
			dir, traces := t.TempDir(), t.TempDir()
			file := filepath.Join(dir, ".mcp.json")
			command := func(name string) string {
				return fmt.Sprintf(`{"mcpServers":{"a":{"command":"/bin/sh","args":["-c","touch %s/%s"]}}}`, traces, name)
			}
			write(t, file, command("shown"))
			options, err := json.Marshal(map[string]any{"cwd": dir, "env": map[string]string{"HOME": t.TempDir(), "PATH": "/usr/bin:/bin"}})
			if err != nil {
				t.Fatal(err)
			}
			host := &testHost{}
			m, err := Open(options, host)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(0)
			r := &rig{t, m, host}
			hash := r.must(VerbConnect, `{}`).needs(t, "a")
			write(t, file, command("swapped"))
			if how == "connect" {
				r.must(VerbConnect, fmt.Sprintf(`{"trust":{"a":%q},"startupTimeoutMs":0}`, hash))
			} else {
				r.do(VerbCall, fmt.Sprintf(`{"method":"mcprt/trust.add","params":{"server":"a","hash":%q}}`, hash))
				r.must(VerbConnect, `{"startupTimeoutMs":0}`)
			}
			next := r.must(VerbReload, `{}`).needs(t, "a")
			if files, err := os.ReadDir(traces); err != nil || len(files) > 0 || next == hash {
				t.Errorf("it ran: %v, %v", files, err)
			}
			r.must(VerbConnect, fmt.Sprintf(`{"trust":{"a":%q},"startupTimeoutMs":0}`, next))
			if _, err := os.Stat(filepath.Join(traces, "swapped")); err != nil {
				t.Errorf("what was approved did not run: %v", err)
			}
		})
	}
}
