package core

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/mcptest"
)

// helped is a rig of servers in memory whose TOKEN is a helper command; seen is
// what each was started with.
func helped(t *testing.T, commands map[string]string, options map[string]any) (r *rig, dir string, seen func(name string) []string) {
	t.Helper()
	var mu sync.Mutex
	got := map[string][]string{}
	have, configs := servers{}, map[string]map[string]any{}
	for name, command := range commands {
		configs[name] = map[string]any{"env": map[string]any{"TOKEN": "!" + command}}
		have[name] = func(r *config.Resolved) *mcptest.Memory {
			mu.Lock()
			defer mu.Unlock()
			got[name] = append(got[name], r.Env["TOKEN"])
			return echo()
		}
	}
	dir = t.TempDir()
	all := map[string]any{"config": configs, "cwd": dir, "env": map[string]string{"PATH": "/usr/bin:/bin", "FROM_ENV": "given"}}
	for name, value := range options {
		all[name] = value
	}
	return newRig(t, have, all), dir, func(name string) []string {
		mu.Lock()
		defer mu.Unlock()
		return got[name]
	}
}

func runs(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestHelper: what the command prints is the value, in the project directory with
// open's env; servers that start together share one run, later starts too.
func TestHelper(t *testing.T) {
	command := `echo x >>runs; sleep 0.1; printf ' \t%s in %s\n\n' "$FROM_ENV" "$(basename "$PWD")"`
	r, dir, seen := helped(t, map[string]string{"a": command, "b": command, "c": command}, nil)
	if err := r.must(VerbDiscover, `{}`); runs(t, dir) != 0 || strings.Contains(err.raw, "helper_command") {
		t.Errorf("discover ran it, or complains: %s", err.raw)
	}
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	want := fmt.Sprintf("given in %s", filepath.Base(dir))
	for _, name := range []string{"a", "b", "c"} {
		if got := seen(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s was started with %q, want %q", name, got, want)
		}
	}
	r.must(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`)
	if got := changed(r.must(VerbReload, `{}`)); !strings.Contains(got, "kept [a b c]") {
		t.Errorf("reload: %s", got)
	}
	if n := runs(t, dir); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if strings.Contains(a.raw, want) {
		t.Errorf("shown: %s", a.raw)
	}
}

// TestHelperFails: its server fails and says so, without command and output; the
// others start; a restart tries again.
func TestHelperFails(t *testing.T) {
	r, dir, seen := helped(t, map[string]string{
		"code": `echo x >>runs; echo leaked-output; echo leaked-output >&2; test -e mended || exit 7; echo mended`,
		"mute": `true`, "good": `echo fine`}, nil)
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	errs := a.obj["errors"].(map[string]any)
	for name, want := range map[string]string{"code": `env.TOKEN: its helper command exited with code 7`, "mute": `env.TOKEN: its helper command printed nothing`} {
		e, _ := errs[name].(map[string]any)
		if message := fmt.Sprint(e["message"]); e["code"] != "config" || !strings.Contains(message, want) || !strings.Contains(message, `"`+name+`"`) {
			t.Errorf("%s: %v", name, e)
		}
	}
	if strings.Contains(a.raw, "leaked-output") || strings.Contains(a.raw, "mended") || len(seen("good")) != 1 || len(seen("code")) != 0 {
		t.Errorf("connect: %s", a.raw)
	}
	write(t, filepath.Join(dir, "mended"), "")
	a = r.must(VerbConnect, `{"only":["code"],"startupTimeoutMs":0}`)
	if got := seen("code"); len(got) != 1 || !strings.HasSuffix(got[0], "mended") || runs(t, dir) != 2 {
		t.Errorf("started with %q after %d runs: %s", got, runs(t, dir), a.raw)
	}
}

// TestHelperEndsWithItsServer: a disconnect, and close, do not wait for a helper,
// and leave none behind.
func TestHelperEndsWithItsServer(t *testing.T) {
	for _, how := range []string{"disconnect", "close"} {
		t.Run(how, func(t *testing.T) {
			mark := "3" + strings.ReplaceAll(time.Now().Format(".150405.000000000"), ".", "")
			r, dir, _ := helped(t, map[string]string{"a": "echo x >>runs; sleep " + mark}, nil)
			r.must(VerbConnect, `{"uncached":"background","startupTimeoutMs":1}`)
			eventually(t, 10*time.Second, "the helper runs", func() bool { return runs(t, dir) == 1 && len(running(mark)) > 0 })
			began := time.Now()
			if how == "close" {
				r.m.Close(0)
			} else {
				r.must(VerbDisconnect, `{}`)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			eventually(t, 10*time.Second, "the helper is gone", func() bool { return len(running(mark)) == 0 })
		})
	}
}

// running finds the processes that run with a word in their command line.
func running(word string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), word) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}
