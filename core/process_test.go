package core

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	hostMain()
	os.Exit(m.Run())
}

// newProcessRig is a rig whose servers are real processes.
func newProcessRig(t *testing.T, scripts map[string]mcptest.Script, options map[string]any) *rig {
	t.Helper()
	inline := map[string]any{}
	for name, s := range scripts {
		command, args, env := s.Command()
		inline[name] = map[string]any{"command": command, "args": args, "env": env}
	}
	for name, extra := range options {
		if cfg, ok := extra.(map[string]any); ok && strings.HasPrefix(name, "server ") {
			inline[strings.TrimPrefix(name, "server ")] = cfg
			delete(options, name)
		}
	}
	all := map[string]any{"cwd": t.TempDir(), "servers": inline, "discovery": map[string]any{"user": "none"}, "cache": map[string]any{"dir": filepath.Join(t.TempDir(), "cache")}}
	for k, v := range options {
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	host := &testHost{}
	m, err := Open(raw, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(500) })
	return &rig{t, m, host}
}

// TestEightSlowProcesses: the gate holds with real processes too.
func TestEightSlowProcesses(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	scripts := map[string]mcptest.Script{}
	for i := range 8 {
		name := fmt.Sprintf("s%d", i)
		scripts[name] = mcptest.Script{Name: name, Tools: []string{mcptest.Tool("echo")}}
	}
	own := map[string]any{"dir": cache}
	r := newProcessRig(t, scripts, map[string]any{"cache": own})
	if a := r.must(VerbConnect, `{"startupTimeoutMs":0}`); len(a.names("connected")) != 8 {
		t.Fatal(a.raw)
	}
	r.m.Close(500)
	r = newProcessRig(t, scripts, map[string]any{"cache": own})
	// The configs are the same, so that the cache knows them; the processes are slow now.
	r.m.deps.dial = func(m *Manager, e *config.Entry, from *config.Resolved) (transport.Dial, error) {
		late := scripts[e.Name]
		late.StartDelay = 2 * time.Second
		as := *from
		_, _, as.Env = late.Command()
		return dialStdio(m, e, &as)
	}
	a := r.must(VerbConnect, `{}`)
	if ms := a.obj["elapsedMs"].(float64); ms < 250 || ms > 400 {
		t.Errorf("elapsedMs %v", ms)
	}
	if len(a.names("deferred")) != 8 {
		t.Errorf("deferred: %v", a.names("deferred"))
	}
	if a := r.must(VerbCall, `{"server":"s5","tool":"echo","arguments":{"deferred":true}}`); !strings.Contains(a.raw, `deferred`) {
		t.Errorf("call: %s", a.raw)
	}
}

// TestProcessFailures: what a real process does wrong arrives as fields.
func TestProcessFailures(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{
		"good":  {},
		"exits": {ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"},
		"hang":  {StartDelay: time.Hour},
	}, map[string]any{"uncached": "background", "server missing": map[string]any{"command": "mcprt-no-such-program"}})
	a := r.must(VerbConnect, `{}`)
	if ms := a.obj["elapsedMs"].(float64); ms > 400 {
		t.Errorf("elapsedMs %v", ms)
	}
	r.must(VerbCall, `{"server":"good","tool":"echo","arguments":{}}`)
	for range 20 {
		a = r.must(VerbConnect, `{"only":["exits","missing"],"tools":false}`)
		if errs := a.obj["errors"].(map[string]any); errs["exits"] != nil && errs["missing"] != nil {
			break
		}
	}
	errs := a.obj["errors"].(map[string]any)
	data := func(name string) map[string]any { return errs[name].(map[string]any)["data"].(map[string]any) }
	if errs["missing"].(map[string]any)["code"] != "spawn_failed" || data("missing")["command"] != "mcprt-no-such-program" {
		t.Errorf("missing: %v", errs["missing"])
	}
	if data("exits")["exitCode"] != 3.0 || !strings.Contains(data("exits")["stderr"].(string), "no licence") || data("exits")["command"] == nil {
		t.Errorf("exits: %v", errs["exits"])
	}
	start := time.Now()
	r.must(VerbDisconnect, `{"server":"hang"}`)
	if took := time.Since(start); took > time.Second {
		t.Errorf("the hanging server was gone after %v", took)
	}
}

// TestSecretsInFailures: what a variable held is in no error, wherever it came from.
func TestSecretsInFailures(t *testing.T) {
	const secret = "sk-0123456789"
	r := newProcessRig(t, nil, map[string]any{
		"env":         map[string]string{"TOKEN": secret, "PATH": "/usr/bin:/bin"},
		"server name": map[string]any{"command": "${TOKEN}"},
		"server path": map[string]any{"command": "/nope/${TOKEN}"},
		"server cwd":  map[string]any{"command": "sh", "cwd": "/nope/${TOKEN}"},
		"server talk": map[string]any{"command": "sh", "args": []string{"-c", "echo no entry for $T >&2; exit 3"}, "env": map[string]string{"T": "${TOKEN}"}},
	})
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	if errs := a.obj["errors"].(map[string]any); len(errs) != 4 {
		t.Errorf("errors %v", errs)
	}
	if strings.Contains(a.raw, secret) {
		t.Errorf("the secret is in %s", a.raw)
	}
}

// TestCallToADyingServer: a call that meets a broken pipe, before the end of the server
// is known, was never written: it waits for the next process and is sent to that.
func TestCallToADyingServer(t *testing.T) {
	// A shell reads no further than a line, so that its stdin is closed before the next call.
	const server = `while read -r line; do
		id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
		case $line in
		*'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
		*'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
		*'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"shut","inputSchema":{"type":"object"}},{"name":"hi","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
		*'"shut"'*) exec <&-; printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id"; sleep 0.4; exit 0 ;;
		*'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}\n' "$id" ;;
		esac
	done`
	r := newProcessRig(t, nil, map[string]any{"server s": map[string]any{"command": "/bin/sh", "args": []string{"-c", server}}})
	connected(t, r, "s")
	for range 2 {
		if a := r.do(VerbCall, `{"server":"s","tool":"shut","arguments":{}}`); a.st != OK {
			t.Fatal(a.raw)
		}
		if a := r.do(VerbCall, `{"server":"s","tool":"hi","arguments":{},"retry":"never"}`); a.st != OK || !strings.Contains(a.raw, "hello") {
			t.Errorf("%s", a.raw)
		}
	}
}
