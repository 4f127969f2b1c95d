package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUnderWine lets the Windows build of this tool start, call and end servers. `make
// test-wine` builds it and says where it is.
func TestUnderWine(t *testing.T) {
	exe := os.Getenv("MCPRT_WINE")
	if exe == "" {
		t.Skip("it needs Wine: make test-wine runs it")
	}
	dir := t.TempDir()
	own := filepath.Join(dir, "mcprt.exe") // a path of this test's own tells its processes from others
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	windows := `Z:` + strings.ReplaceAll(own, "/", `\`)
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"demo":   map[string]any{"command": windows, "args": []string{"demo-server"}},
		"broken": map[string]any{"command": windows, "args": []string{"demo-server", "--fail-start", "no licence"}},
		"none":   map[string]any{"command": "no-such-program"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	wine := func(args ...string) *exec.Cmd {
		cmd := exec.Command("wine", append([]string{own}, args...)...)
		cmd.Dir = dir
		cmd.WaitDelay = 5 * time.Second
		return cmd
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "windows/amd64"},
		{[]string{"call", "--trust-project", "--server", "demo", "echo", "text=grüß dich"}, "grüß dich"},
		{[]string{"list", "servers", "--trust-project"}, "no licence"},
		{[]string{"list", "servers", "--trust-project"}, "no-such-program"},
	} {
		cmd := wine(c.args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if text := out.String(); err != nil || !strings.Contains(text, c.want) {
			t.Errorf("%q: %v, no %q in\n%s", c.args, err, c.want, text)
		}
	}

	// A host that is killed takes its servers with it: they are in one job. At its first
	// events they are being created, which is when one may be outside.
	for _, until := range [][2]string{{`"demo"`, `"ready"`}, {`"demo"`, `"connecting"`}, {`"broken"`, `"connecting"`}, {`"broken"`, `"backoff"`}} {
		host := wine("watch", "--trust-project", "--json")
		out, err := host.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		lines, seen := bufio.NewScanner(out), false
		for !seen && lines.Scan() {
			seen = strings.Contains(lines.Text(), `"name":`+until[0]) && strings.Contains(lines.Text(), `"state":`+until[1])
		}
		if n := len(processesOf(t, windows)); !seen || until[1] == `"ready"` && n < 2 {
			t.Fatalf("%s was seen: %v; %d processes run", until, seen, n)
		}
		if err := host.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = host.Wait()
		for end := time.Now().Add(5 * time.Second); len(processesOf(t, windows)) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("5 s after the host was killed at %s there are still %q", until, processesOf(t, windows))
			}
		}
	}
}

// processesOf gives the command lines with this program in them.
func processesOf(t *testing.T, program string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	unix := strings.ReplaceAll(strings.TrimPrefix(program, "Z:"), `\`, "/")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if line := strings.ReplaceAll(string(text), "\x00", " "); err == nil && (strings.Contains(line, program) || strings.Contains(line, unix)) {
			found = append(found, line)
		}
	}
	return found
}
