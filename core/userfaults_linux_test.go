package core

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestUserFaultsOfProcesses are the rows that need a shell and a table of processes.
func TestUserFaultsOfProcesses(t *testing.T) {
	for _, row := range []struct {
		name string
		test func(*testing.T)
	}{
		{"A8 a program that only a login shell finds", userFaultA8},
		{"A10 a host with the PATH of a desktop", userFaultA10},
		{"A11 the environment of a server", userFaultA11},
		{"B1 nothing is left behind a launcher", userFaultB1},
	} {
		t.Run(row.name, row.test)
	}
}

// desktop is the environment of a host that was started by clicking, whose user's
// shell puts dir into PATH, and prints and asks as start-up files do.
func desktop(t *testing.T, dir string) map[string]string {
	t.Helper()
	home := t.TempDir()
	rc := fmt.Sprintf("echo welcome; echo 'mcprt-path:/nowhere'; read answer; export PATH=%s:$PATH; tty -s && echo a terminal; echo run >>runs\n", dir)
	for _, name := range []string{".profile", ".bash_profile"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(rc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]string{"PATH": "/usr/bin:/bin", "HOME": home, "SHELL": "/bin/bash"}
}

// launcher writes a program that needs a second one beside it, as npx needs node.
func launcher(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "mcprt-test-node")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcprt-test-npx"), []byte("#!/usr/bin/env -S mcprt-test-node\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func userFaultA8(t *testing.T) {
	_, _, script := mcptest.Script{}.Command()
	env := desktop(t, launcher(t))
	r := newProcessRig(t, nil, map[string]any{"env": env, "loginPath": true,
		"server s": map[string]any{"command": "mcprt-test-npx", "args": []string{"x"}, "env": script},
		"server t": map[string]any{"command": "mcprt-test-node", "env": script},
		"server u": map[string]any{"command": "mcprt-no-such-program"}})
	a := connected(t, r, "s", "t")
	if e, _ := a.obj["errors"].(map[string]any)["u"].(map[string]any); e["code"] != "spawn_failed" {
		t.Errorf("%v", e)
	}
	sum(t, r, "s")
	got := r.must(VerbCall, `{"server":"t","tool":"env","arguments":{}}`)
	if !strings.Contains(got.raw, filepath.Dir(env["HOME"])) || strings.Contains(got.raw, "/nowhere") {
		t.Errorf("the server's environment: %s", got.raw)
	}
	if runs, _ := os.ReadFile(filepath.Join(env["HOME"], "runs")); strings.Count(string(runs), "run") != 1 {
		t.Errorf("the shell was asked %d times", strings.Count(string(runs), "run"))
	}
}

// Without the option the error says what there is to do; a shell that hangs or is
// not there costs only the server that needed it.
func userFaultA10(t *testing.T) {
	_, _, script := mcptest.Script{}.Command()
	env := desktop(t, launcher(t))
	needs := map[string]any{"command": "mcprt-test-npx", "env": script}
	r := newProcessRig(t, map[string]mcptest.Script{"good": {}}, map[string]any{"env": env, "server s": needs})
	a := connected(t, r, "good")
	if e, _ := a.obj["errors"].(map[string]any)["s"].(map[string]any); e["code"] != "spawn_failed" || !strings.Contains(fmt.Sprint(e["message"]), "loginPath") {
		t.Errorf("%v", e)
	}
	if _, err := os.Stat(filepath.Join(env["HOME"], "runs")); err == nil {
		t.Error("the shell was asked without the option")
	}
	env["SHELL"] = "/nonexistent/shell"
	r = newProcessRig(t, map[string]mcptest.Script{"good": {}}, map[string]any{"env": env, "server s": needs, "loginPath": true})
	a = connected(t, r, "good")
	if e, _ := a.obj["errors"].(map[string]any)["s"].(map[string]any); e["code"] != "spawn_failed" || !strings.Contains(fmt.Sprint(e["message"]), "not in PATH") {
		t.Errorf("%v", e)
	}
}

func userFaultA11(t *testing.T) {
	host := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "XDG_DATA_HOME": "/data", "HTTPS_PROXY": "http://proxy:1", "SECRET": "x"}
	for policy, want := range map[string][]string{
		`"inherit"`:                     {"HOME", "HTTPS_PROXY", "OWN", "PATH", "SECRET", "XDG_DATA_HOME"},
		`{"allow":["XDG_*","*_PROXY"]}`: {"HTTPS_PROXY", "OWN", "XDG_DATA_HOME"},
		`"clear"`:                       {"OWN"},
	} {
		command, args, env := mcptest.Script{}.Command()
		env["OWN"] = "1"
		r := newProcessRig(t, nil, map[string]any{"env": host, "envPolicy": json.RawMessage(policy), "server s": map[string]any{"command": command, "args": args, "env": env}})
		connected(t, r, "s")
		a := r.must(VerbCall, `{"server":"s","tool":"env","arguments":{}}`)
		var text struct {
			Result struct{ Content []struct{ Text string } }
		}
		var seen struct{ Env []string }
		if json.Unmarshal([]byte(a.raw), &text) != nil || json.Unmarshal([]byte(text.Result.Content[0].Text), &seen) != nil {
			t.Fatal(a.raw)
		}
		var names []string
		for _, v := range seen.Env {
			if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "MCPTEST_") {
				names = append(names, name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s: %q", policy, names)
		}
	}
}

// hostOptions makes this binary a host: it opens a manager with these options,
// connects, prints a line and waits.
const hostOptions = "MCPRT_TEST_HOST_OPTIONS"

func hostMain() {
	options := os.Getenv(hostOptions)
	if options == "" {
		return
	}
	os.Unsetenv(hostOptions)
	m, err := Open([]byte(options), &testHost{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	done := make(chan string)
	m.Start(VerbConnect, 1, []byte(`{"startupTimeoutMs":0}`), func(_ Status, r Reply) { done <- string(r.Head) + string(r.Body) + string(r.Tail) })
	fmt.Println(<-done)
	select {}
}

// zombies are dead children of pid that nobody has reaped.
func zombies(t *testing.T, parent int) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		_, rest, ok := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); err == nil && ok && fields[0] == "Z" && fields[1] == fmt.Sprint(parent) {
			found = append(found, string(text))
		}
	}
	return found
}

// wrapped is a server behind a shell that neither reads its stdin nor passes
// signals on.
func wrapped(s mcptest.Script, mark string) map[string]any {
	cfg := marked(s, mark)
	return map[string]any{"command": "/bin/sh", "args": []string{"-c", `exec 3<&0; "$0" <&3 3<&- & wait`, cfg["command"].(string)}, "env": cfg["env"]}
}

func userFaultB1(t *testing.T) {
	mark := newMark()
	all := map[string]any{"a": wrapped(mcptest.Script{}, mark), "b": wrapped(mcptest.Script{IgnoreEOF: true}, mark),
		"c": wrapped(mcptest.Script{IgnoreEOF: true, IgnoreTerm: true, Grandchild: true}, mark)}
	options := map[string]any{"cwd": t.TempDir(), "servers": all, "discovery": map[string]any{"user": "none"}, "cache": map[string]any{"enabled": false}, "graceMs": 300}
	gone := func(how string) {
		t.Helper()
		eventually(t, 10*time.Second, how+": no process is left", func() bool { return len(processes(t, mark)) == 0 })
	}
	t.Run("close", func(t *testing.T) {
		raw, err := json.Marshal(options)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(raw, &testHost{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, m: m}
		for range 2 {
			connected(t, r, "a", "b", "c")
			r.must(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`)
			if n := len(processes(t, mark)); n != 7 { // 3 shells, 3 servers, 1 grandchild
				t.Errorf("%d processes", n)
			}
		}
		m.Close(-1)
		if left := processes(t, mark); len(left) != 0 {
			t.Errorf("after close: %v", left)
		}
		eventually(t, 5*time.Second, "no zombie is left", func() bool { return len(zombies(t, os.Getpid())) == 0 })
	})
	for name, end := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(options)
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(os.Args[0])
			host.Env = append(os.Environ(), hostOptions+"="+string(raw))
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || !strings.Contains(line, `"connected":["a","b","c"]`) || len(processes(t, mark)) != 7 {
				t.Errorf("the host says %.500s %v", line, err)
			}
			host.Process.Signal(end)
			host.Wait()
			gone(name)
		})
	}
}
