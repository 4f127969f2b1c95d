package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadArguments(t *testing.T) {
	for _, c := range []struct {
		name, stdin string
		args        []string
		want, fault string
	}{
		{name: "none", want: ""},
		{name: "JSON stays as written", args: []string{`{"n": 9007199254740993, "n2":1e400}`}, want: `{"n": 9007199254740993, "n2":1e400}`},
		{name: "stdin", stdin: "{\"a\":1}\n", args: []string{"-"}, want: "{\"a\":1}\n"},
		{name: "pairs", args: []string{"a=1", "b=x y", "c=[true]", "d=", "e=k=v", "f=1e"}, want: `{"a":1,"b":"x y","c":[true],"d":"","e":"k=v","f":"1e"}`},
		{name: "both", args: []string{"{}", "a=1"}, fault: "not both"},
		{name: "array", args: []string{"[]"}, fault: "NAME=VALUE"},
		{name: "array on stdin", stdin: "[]", args: []string{"-"}, fault: "one JSON object"},
		{name: "null", stdin: "null", args: []string{"-"}, fault: "one JSON object"},
		{name: "twice", args: []string{"a=1", "a=2"}, fault: "twice"},
		{name: "junk", args: []string{"{"}, fault: "one JSON object"},
		{name: "two values", args: []string{"{}{}"}, fault: "one JSON object"},
		{name: "pair without value", args: []string{"a"}, fault: "NAME=VALUE"},
		{name: "pair without name", args: []string{"=1"}, fault: "NAME=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readArguments(strings.NewReader(c.stdin), c.args)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("error = %v, want one with %q", err, c.fault)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

// project makes a project folder with a good and a broken server, both this tool.
func project(t *testing.T) (flags []string) {
	t.Helper()
	return projectOf(t, map[string]any{"demo": demoServer(t), "broken": demoServer(t, "--fail-start", "DEMO_TOKEN is not set")})
}

// demoServer is a config of the demo server, in this process's own program.
func demoServer(t *testing.T, args ...string) map[string]any {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"command": self, "args": append([]string{"demo-server"}, args...), "env": map[string]string{runAsTool: "1"}}
}

func projectOf(t *testing.T, servers map[string]any) (flags []string) {
	t.Helper()
	file, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--cwd", dir, "--cache-dir", t.TempDir(), "--user", "none"}
}

func TestDiscover(t *testing.T) {
	flags := project(t)
	got := runTool(t, "", append([]string{"discover"}, flags...)...)
	if got.code != exitOK {
		t.Fatalf("discover = %+v", got)
	}
	for _, want := range []string{"demo", "broken", "stdio", "needs trust", ".mcp.json:1", "demo-server --fail-start 'DEMO_TOKEN is not set'"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if !strings.Contains(got.stderr, "not approved; --trust-project runs it") || strings.Contains(got.stdout, string(filepath.Separator)+".mcp.json") {
		t.Errorf("no advice about trust, or a source that is not named from the project: %+v", got)
	}
	got = runTool(t, "", append([]string{"discover", "--json", "--trust-project"}, flags...)...)
	var reply discovered
	if err := json.Unmarshal([]byte(got.stdout), &reply); err != nil || len(reply.Servers) != 2 || !reply.Servers[0].Trusted {
		t.Errorf("discover --json = %+v (%v)", got, err)
	}
}

func TestListTools(t *testing.T) {
	flags := project(t)
	got := runTool(t, "", append([]string{"list", "--trust-project"}, flags...)...)
	if got.code != exitOK || !strings.Contains(got.stdout, "mcp_demo_echo") || !strings.Contains(got.stdout, "live") {
		t.Errorf("list = %+v", got)
	}
	if !strings.Contains(got.stderr, "error broken: ") || !strings.Contains(got.stderr, "DEMO_TOKEN is not set") {
		t.Errorf("stderr does not say what is wrong with the broken server: %q", got.stderr)
	}
	got = runTool(t, "", append([]string{"list", "servers", "--trust-project"}, flags...)...)
	if got.code != exitOK || !strings.Contains(got.stdout, "ready") {
		t.Errorf("list servers = %+v", got)
	}
	got = runTool(t, "", append([]string{"list"}, flags...)...)
	if got.code != exitOK || strings.Contains(got.stdout, "mcp_demo_echo") || !strings.Contains(got.stderr, "--trust-project") {
		t.Errorf("list without trust = %+v", got)
	}
	got = runTool(t, "", append([]string{"list", "--server", "broken", "--trust-project"}, flags...)...)
	if got.code != exitFailed || !strings.Contains(got.stderr, "DEMO_TOKEN is not set") {
		t.Errorf("list of the broken server = %+v", got)
	}
}

// TestTimeoutInWordsOfTheTool: what to raise is a flag here, not a member of a request.
func TestTimeoutInWordsOfTheTool(t *testing.T) {
	flags := append(project(t), "--trust-project", "--timeout", "1s")
	if got := runTool(t, "", append([]string{"call", "--server", "demo", "slow", "ms=60000", "steps=1"}, flags...)...); got.code != exitFailed || !strings.Contains(got.stderr, "raise --timeout") {
		t.Errorf("%+v", got)
	}
}

// TestApproveForGood is the way that `mcprt help discover` shows.
func TestApproveForGood(t *testing.T) {
	flags := project(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	call := append([]string{"call", "echo", "--server", "demo", "text=hi"}, flags...)
	if got := runTool(t, "", call...); got.code != exitFailed || !strings.Contains(got.stderr, "`mcprt trust add demo`") || strings.Contains(got.stderr, "sha256") {
		t.Errorf("call without trust = %+v", got)
	}
	if got := runTool(t, "", append([]string{"discover"}, flags...)...); !strings.Contains(got.stderr, "`mcprt trust add NAME` approves it for good") {
		t.Errorf("discover = %+v", got)
	}
	if got := runTool(t, "", append([]string{"trust", "add", "demo"}, flags...)...); got.code != exitOK {
		t.Fatalf("trust add = %+v", got)
	}
	if got := runTool(t, "", call...); got.code != exitOK || got.stdout != "hi\n" {
		t.Errorf("call with a trust record = %+v", got)
	}
}

func TestBrokenAndMissingProjects(t *testing.T) {
	dir := t.TempDir()
	if got := runTool(t, "", "discover", "--user", "none", "--cwd", filepath.Join(dir, "gone")); got.code != exitUsage || !strings.Contains(got.stderr, "is no directory") {
		t.Errorf("a folder that does not exist: %+v", got)
	}
	for _, flag := range []string{"--cwd", "--config", "--cache-dir", "--trace"} {
		got := runTool(t, "", "list", "--user", "none", flag, filepath.Join(dir, "caf\xe9"))
		if got.code != exitUsage || !strings.Contains(got.stderr, `caf\xe9" is not UTF-8`) {
			t.Errorf("%s that is not UTF-8: %+v", flag, got)
		}
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitOK, []string{"discover"}}, {exitOK, []string{"list"}}, {exitOK, []string{"list", "servers"}}, {exitFailed, []string{"doctor"}},
		{exitFailed, []string{"doctor", "--json"}}, {exitFailed, []string{"call", "mcp_demo_echo"}}, {exitFailed, []string{"login", "demo"}}, {exitFailed, []string{"list", "--server", "demo"}},
	} {
		if got := runTool(t, "", append(c.args, "--user", "none", "--cwd", dir)...); got.code != c.code || !strings.Contains(got.stdout+got.stderr, "no server is configured here") {
			t.Errorf("%s in an empty folder: %+v", c.args, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(`{"mcpServers": {`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runTool(t, "", "discover", "--user", "none", "--cwd", dir)
	if strings.Contains(got.stderr, "no server is configured") || !strings.Contains(got.stderr, "error ") {
		t.Errorf("a broken file: %+v", got)
	}
}

func TestCall(t *testing.T) {
	flags := append(project(t), "--trust-project")
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // "" and nothing else: must be empty
	}{
		{args: []string{"mcp_demo_echo", `{"text":"grüß dich"}`}, stdout: "grüß dich\n"},
		{args: []string{"add", "--server", "demo", "a=2", "b=40"}, stdout: "42\n"},
		{args: []string{"fail", "--server", "demo", "message=no luck"}, code: exitToolFailed, stdout: "no luck\n"},
		{args: []string{"add", "--server", "demo", "--json", `{"a":1,"b":2}`}, stdout: `"structuredContent":{"sum":3}`},
		{args: []string{"image", "--server", "demo"}, stdout: "[image, image/png, "},
		{args: []string{"--server", "demo", "--method", "resources/read", `{"uri":"file:///a"}`}, code: exitFailed, stderr: "resources/read"},
		{args: []string{"--method", "mcprt/stats"}, stdout: `"servers":`},
		{args: []string{"nope", "--server", "demo"}, code: exitFailed, stderr: "nope"},
		{args: []string{"echo", "--server", "broken"}, code: exitFailed, stderr: "DEMO_TOKEN is not set"},
		{args: []string{"echo", "--server", "missing"}, code: exitFailed, stderr: "missing"},
		{args: []string{"demo", "echo", "text=hi"}, code: exitUsage, stderr: "--server SERVER TOOL"},
		{args: []string{}, code: exitUsage, stderr: "call takes a tool"},
		{args: []string{"--method", "ping"}, code: exitUsage, stderr: "--method needs --server"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			got := runTool(t, "", append(append([]string{"call"}, c.args...), flags...)...)
			if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("got %+v, want %+v", got, c)
			}
			if c.stdout == "" && got.stdout != "" || c.stderr == "" && got.stderr != "" {
				t.Errorf("more was written than wanted: %+v", got)
			}
		})
	}
}

func TestInterruptCancelsACall(t *testing.T) {
	flags := append([]string{"call", "slow", "--server", "demo", "ms=20000", "--trust-project"}, project(t)...)
	cmd := tool(t, flags...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// In the connect or in the call, wherever the command is after a second: it ends the same way.
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	time.Sleep(time.Second)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || out.Len() != 0 || errOut.String() != "mcprt: interrupted\n" {
		t.Errorf("status %d, stdout %q, stderr %q", code, out.String(), errOut.String())
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the interrupted call took %v", took)
	}
}
