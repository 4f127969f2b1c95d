package core

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// within checks a fake clock: what is measured takes no time of its own.
func within(t *testing.T, what string, took, want time.Duration) {
	t.Helper()
	if took < want || took > want+25*time.Millisecond {
		t.Errorf("%s took %v, want %v", what, took, want)
	}
}

// TestGateTimeouts: where the gate's time comes from, and what 0 means.
func TestGateTimeouts(t *testing.T) {
	background := map[string]any{"uncached": "background"}
	for _, c := range []struct {
		name    string
		options map[string]any
		request string
		want    time.Duration
	}{
		{"the default", background, `{}`, 250 * time.Millisecond},
		{"open's option", map[string]any{"uncached": "background", "startupTimeoutMs": 700}, `{}`, 700 * time.Millisecond},
		{"the request", background, `{"startupTimeoutMs":900}`, 900 * time.Millisecond},
		{"0 waits for every server", background, `{"startupTimeoutMs":0}`, 2 * time.Second},
		{"the environment wins over open", map[string]any{"uncached": "background", "startupTimeoutMs": 700,
			"env": map[string]string{"HOME": "/nonexistent", "MCPRT_STARTUP_TIMEOUT_MS": "400"}}, `{}`, 400 * time.Millisecond},
		{"the request asks to wait", background, `{"uncached":"wait"}`, 2 * time.Second},
		{"eager with nothing cached waits as the timer does", background, `{"gate":"eager"}`, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, servers{"slow": slow(2 * time.Second)}, c.options)
				start := time.Now()
				r.must(VerbConnect, c.request)
				within(t, "the gate", time.Since(start), c.want)
				r.m.Close(0)
			})
		})
	}
}

// TestGateEndsEarly: nothing that only a person or a timer can change is waited for.
func TestGateEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers":{"stranger":{"command":"scripted"}}}`)
		r := newRig(t, servers{
			"good":   echo(),
			"failed": fault.New(fault.SpawnFailed, fault.StageSpawn, "no such program"),
			"again":  mcptest.NewMemory(mcptest.Script{ExitAtStart: mcptest.Code(1)}),
			"asks":   echo(),
		}, map[string]any{"cwd": dir, "env": map[string]string{"HOME": t.TempDir()},
			"config": map[string]map[string]any{"asks": {"env": map[string]string{"KEY": "${input:key}"}}}})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("something held the gate for %v", took)
		}
		states := map[string]any{}
		for _, v := range a.obj["servers"].([]any) {
			states[v.(map[string]any)["name"].(string)] = v.(map[string]any)["state"]
		}
		for name, want := range map[string]string{"good": "ready", "failed": "failed", "again": "backoff", "stranger": "needs_trust"} {
			if states[name] != want {
				t.Errorf("%s is %v, want %s", name, states[name], want)
			}
		}
		if e := a.obj["errors"].(map[string]any); e["good"] != nil || e["failed"] == nil || e["again"] == nil {
			t.Errorf("errors %v", e)
		}
		r.m.Close(0)
	})
}

// TestIncrementalConnect: one more server leaves the others as they are, and the
// reply speaks of errors of what was tried only.
func TestIncrementalConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers":{"unfit":{"args":["no command"]}}}`)
		a0, late := echo(), echo()
		have := servers{"a": a0, "bad": fault.New(fault.SpawnFailed, fault.StageSpawn, "no such program")}
		r := newRig(t, have, map[string]any{"cwd": dir, "projectTrust": "always"})
		have["late"] = late
		first := r.must(VerbConnect, `{}`)
		if e := first.obj["errors"].(map[string]any); e["bad"] == nil || e["unfit"] == nil {
			t.Errorf("the first connect tried all: %v", e)
		}
		for _, req := range []string{`{"servers":{"late":{"command":"scripted"}}}`, `{"only":["a"]}`} {
			got := r.must(VerbConnect, req)
			if e := got.obj["errors"].(map[string]any); len(e) != 0 {
				t.Errorf("%s: errors %v", req, e)
			}
			if names := got.names("tools"); !slices.Equal(names, []string{"mcp_a_echo", "mcp_late_echo"}) {
				t.Errorf("%s: tools %v %s", req, names, got.raw)
			}
		}
		if a0.Counts().Dials != 1 || late.Counts().Dials != 1 {
			t.Errorf("dials %d and %d", a0.Counts().Dials, late.Counts().Dials)
		}
		got := r.must(VerbConnect, `{"only":["unfit","nobody","bad"]}`)
		for name, code := range map[string]string{"unfit": "config", "nobody": "unknown_server", "bad": "spawn_failed"} {
			if e, _ := got.obj["errors"].(map[string]any)[name].(map[string]any); e["code"] != code {
				t.Errorf("%s: %v", name, e)
			}
		}
		got = r.must(VerbConnect, `{"servers":{"wrong":{"command":7}}}`)
		if e := got.obj["errors"].(map[string]any); len(e) != 1 || e["wrong"] == nil {
			t.Errorf("a wrong inline server: %v", e)
		}
		r.m.Close(0)
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
