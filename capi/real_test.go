package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// realProgram builds realtest.c against the library with its real core:
// MCPRT_TEST_LIBRARY, which sanitize.sh sets together with the flags, or one of
// its own.
func realProgram(t *testing.T) string {
	t.Helper()
	lib := os.Getenv("MCPRT_TEST_LIBRARY")
	if lib == "" {
		lib = library(t, "real")
	}
	program := filepath.Join(t.TempDir(), "realtest")
	args := append(append([]string{}, strict...), "-O1")
	args = append(args, strings.Fields(os.Getenv("MCPRT_TEST_CFLAGS"))...)
	tool(t, gcc(), append(args, "-I../include", "testdata/realtest.c", lib, "-Wl,-rpath,"+filepath.Dir(lib), "-o", program)...)
	return program
}

// server gives a script as a server's config.
func server(s mcptest.Script) map[string]any {
	command, args, env := s.Command()
	return map[string]any{"command": command, "args": args, "env": env}
}

// options writes the options of open to a file.
func options(t *testing.T, servers map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	return write(t, filepath.Join(dir, "options.json"), map[string]any{"cwd": dir, "servers": servers,
		"discovery": map[string]any{"user": "none"}, "cache": map[string]any{"dir": filepath.Join(dir, "cache")}})
}

func write(t *testing.T, path string, content any) string {
	t.Helper()
	text, ok := content.(string)
	if !ok {
		b, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// silent runs the program, which must print nothing: whatever there is, the library wrote.
func silent(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.Len() > 0 {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
}

// TestReal: the whole library, its real core and real processes, from C.
func TestReal(t *testing.T) {
	t.Parallel()
	program := realProgram(t)
	dir := t.TempDir()
	t.Run("main", func(t *testing.T) {
		t.Parallel()
		testMain(t, program)
	})
	t.Run("deferred", func(t *testing.T) {
		t.Parallel()
		late := server(mcptest.Script{Name: "late", Tools: []string{mcptest.Tool("echo")}})
		delay := filepath.Join(dir, "delay")
		late["args"] = []string{"-c", `sleep "$(cat "$1")"; exec "$2"`, "sh", delay, late["command"].(string)}
		late["command"] = "sh"
		file := options(t, map[string]any{"late": late})
		write(t, delay, "0")
		fill := exec.Command(program, "victim", file) // connects once, so that the cache knows the tools
		started(t, fill)
		time.Sleep(100 * time.Millisecond) // the cache is written after the connect has returned
		_ = fill.Process.Kill()
		_ = fill.Wait()
		write(t, delay, "1.2")
		silent(t, program, "deferred", file)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		mark := fmt.Sprintf("mcprt-realtest-%d", time.Now().UnixNano())
		stubborn := server(mcptest.Script{Name: mark, IgnoreEOF: true, Tools: []string{mcptest.Tool("echo")}})
		stubborn["args"] = []string{"-c", `exec 3<&0; "$1" "$2" <&3 3<&- & wait`, "sh", stubborn["command"].(string), mark}
		stubborn["command"] = "sh"
		victim := exec.Command(program, "victim", options(t, map[string]any{"stubborn": stubborn}))
		started(t, victim)
		if n := len(marked(t, mark)); n < 2 {
			t.Fatalf("%d processes of the server run", n)
		}
		_ = victim.Process.Kill()
		_ = victim.Wait()
		for end := time.Now().Add(2 * time.Second); len(marked(t, mark)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("two seconds after the host was killed there are still %v", marked(t, mark))
			}
		}
	})
}

// testMain runs the part "main" of realtest; program may begin with what runs it.
func testMain(t *testing.T, program ...string) {
	t.Helper()
	result := "{ \"content\":[{\"type\":\"hologram\",\"x\":9007199254740993,\"é\":\"\\u00e9\\/\"}],\t \"future\":{\"n\":-0.0, \"big\":[1.10]} }"
	schema := `{"type":"object",  "properties":{"n":{"default":9007199254740993}}}`
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	file := options(t, map[string]any{
		"raw":   server(mcptest.Script{Name: "raw", Tools: []string{`{"name":"raw", "x-unknown":[1, 2],"inputSchema":` + schema + `}`}, Results: map[string]string{"raw": result}}),
		"good":  server(mcptest.Script{Name: "good", LogFile: log}),
		"exits": server(mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"}),
	})
	silent(t, program[0], append(program[1:], "main", file, write(t, filepath.Join(dir, "result"), result), write(t, filepath.Join(dir, "tool"), `"x-unknown":[1, 2],"inputSchema":`+schema))...)
	events, err := os.ReadFile(log)
	if err != nil || bytes.Count(events, []byte(`"event":"cancelled"`)) < 1 {
		t.Errorf("the server did not hear of the cancellation: %v", err)
	}
	if n := bytes.Count(events, []byte(`"name":"die"`)); n != 1 {
		t.Errorf("the call in which the server died was sent %d times", n)
	}
}

// started starts a victim and waits until it is connected.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		_ = cmd.Process.Kill()
		t.Fatalf("the victim said %q, %v", line, err)
	}
}

// marked lists the processes with a word on their command line.
func marked(t *testing.T, word string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(word)) {
			found = append(found, f+": "+string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}
