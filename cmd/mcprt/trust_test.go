package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// home gives the tool a user of its own.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, ".config"))
	return dir
}

func TestTrust(t *testing.T) {
	home(t)
	flags := project(t)
	run := func(args ...string) output { return runTool(t, "", append(args, flags...)...) }
	if got := run("trust", "list"); got.code != exitOK || got.stdout != "" || !strings.Contains(got.stderr, "nothing was approved") {
		t.Errorf("an empty list: %+v", got)
	}
	if got := run("list"); strings.Contains(got.stdout, "mcp_demo") {
		t.Fatalf("it runs without trust: %+v", got)
	}
	got := run("trust", "add", "demo")
	if got.code != exitOK || !strings.Contains(got.stdout, "approved demo of") || !strings.Contains(got.stdout, "demo-server") {
		t.Errorf("add: %+v", got)
	}
	if got := run("list"); !strings.Contains(got.stdout, "mcp_demo_echo") || !strings.Contains(got.stderr, "broken") {
		t.Errorf("it does not run: %+v", got)
	}
	var list struct {
		Result struct{ Records []trustRecord }
	}
	got = run("trust", "list", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list.Result.Records) != 1 || list.Result.Records[0].Name != "demo" {
		t.Fatalf("list: %+v, %v", got, err)
	}
	hash := list.Result.Records[0].Hash
	if got := run("trust", "list"); !strings.Contains(got.stdout, hash) || !strings.Contains(got.stdout, ".mcp.json") {
		t.Errorf("list: %+v", got)
	}
	for name, args := range map[string][]string{
		"no file of this project names": {"trust", "add", "nobody"},
		"no longer has this hash":       {"trust", "add", "demo", "--hash", "sha256:" + strings.Repeat("0", 64)},
		"nothing was approved under":    {"trust", "remove", "broken"},
	} {
		if got := run(args...); got.code != exitFailed || !strings.Contains(got.stderr, name) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	// The same name in another project is another server.
	other := runTool(t, "", "trust", "remove", "demo", "--cwd", t.TempDir())
	if other.code != exitFailed {
		t.Errorf("removed from another project: %+v", other)
	}
	if got := run("trust", "remove", "demo", "--json"); got.code != exitOK || strings.TrimSpace(got.stdout) != `{"removed":["`+hash+`"]}` {
		t.Errorf("remove: %+v", got)
	}
	if got := run("list"); strings.Contains(got.stdout, "mcp_demo") {
		t.Errorf("it still runs: %+v", got)
	}
	if got := run("trust", "add", "demo", "--hash", hash, "--json"); got.code != exitOK || !strings.Contains(got.stdout, `"added":true`) {
		t.Errorf("add by hash: %+v", got)
	}
	if got := run("trust", "remove", hash); got.code != exitOK || !strings.Contains(got.stdout, "took back 1") {
		t.Errorf("remove by hash: %+v", got)
	}
	for _, args := range [][]string{{"trust", "add"}, {"trust", "remove", "a", "b"}, {"trust", "list", "x"}, {"trust", "nope"}} {
		if got := run(args...); got.code != exitUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestDoctor(t *testing.T) {
	dir := home(t)
	flags := project(t)
	got := runTool(t, "", append([]string{"doctor", "--json", "--trust-project"}, flags...)...)
	var c checkup
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	by := map[string]examined{}
	for _, e := range c.Servers {
		by[e.Name] = e
	}
	if e := by["demo"]; e.State != "ready" || !e.OK || !strings.HasSuffix(e.Source, ".mcp.json:1") || !strings.Contains(e.Reason, "tools") {
		t.Errorf("demo: %+v", e)
	}
	if e := by["broken"]; e.OK || !strings.Contains(e.Reason, "DEMO_TOKEN is not set") {
		t.Errorf("broken: %+v", e)
	}
	if got.code != exitFailed || c.OK {
		t.Errorf("status %d, ok %v", got.code, c.OK)
	}
	if len(c.Checks) != 2 || !c.Checks[0].OK || !c.Checks[1].OK {
		t.Errorf("checks %+v", c.Checks)
	}

	// Without a start: what is not approved, missing or switched off.
	there := t.TempDir()
	file := `{"mcpServers":{"sh":{"command":"sh","args":["-c","touch started"]},"gone":{"command":"no-such-program-mcprt"},"off":{"command":"cat","disabled":true}}}`
	if err := os.WriteFile(filepath.Join(there, ".mcp.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".config", "mcprt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".config", "mcprt", "trust.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = runTool(t, "", "doctor", "--no-start", "--cwd", there, "--cache-dir", "/dev/null/x", "--user", "none")
	for _, want := range []string{"needs_trust", "mcprt trust add sh", "disabled", "switches it off", "no-such-program-mcprt", "no such program in PATH", "cannot be used", "tools are not cached, so every start waits for its servers: no tool cache: mkdir /dev/null: not a directory; --cache-dir"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(there, "started")); err == nil || got.code != exitFailed {
		t.Errorf("started, or status %d", got.code)
	}

	// Nothing to complain of.
	if err := os.Remove(filepath.Join(dir, ".config", "mcprt", "trust.json")); err != nil {
		t.Fatal(err)
	}
	got = runTool(t, "", append([]string{"doctor", "--trust-project"}, projectOf(t, map[string]any{"demo": demoServer(t)})...)...)
	if got.code != exitOK || strings.Contains(got.stdout, "PROBLEM") {
		t.Errorf("a sound place: %+v", got)
	}
}
