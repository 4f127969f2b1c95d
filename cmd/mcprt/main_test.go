package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// runAsTool makes the test binary behave as the mcprt tool, so that tests talk to
// it as a process.
const runAsTool = "MCPRT_TEST_RUN_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(runAsTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// tool is a command that runs mcprt with args; it ends with the test.
func tool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), runAsTool+"=1")
	return cmd
}

// output is what a finished run of the tool left behind.
type output struct {
	code           int
	stdout, stderr string
}

func runTool(t *testing.T, stdin string, args ...string) output {
	t.Helper()
	cmd := tool(t, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return output{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestVersionIsThatOfTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, part := range []string{"MAJOR", "MINOR", "PATCH"} {
		m := regexp.MustCompile(`#define MCPRT_VERSION_` + part + `\s+(\d+)`).FindSubmatch(header)
		if m == nil {
			t.Fatalf("include/mcprt.h has no MCPRT_VERSION_%s", part)
		}
		parts = append(parts, string(m[1]))
	}
	got := runTool(t, "", "version")
	want := fmt.Sprintf("mcprt %s (", strings.Join(parts, "."))
	if got.code != 0 || !strings.HasPrefix(got.stdout, want) {
		t.Fatalf("mcprt version = %+v, want a line that begins with %q", got, want)
	}
	if asJSON := runTool(t, "", "version", "--json"); !strings.Contains(asJSON.stdout, `"version":"`+strings.Join(parts, ".")+`"`) {
		t.Errorf("mcprt version --json = %+v", asJSON)
	}
	if flag := runTool(t, "", "--version"); flag != got {
		t.Errorf("mcprt --version = %+v, but mcprt version = %+v", flag, got)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"nope"}, {"--nope"}, {"version", "extra"}, {"demo-server", "extra"}, {"demo-server", "--start-delay", "x"},
		{"demo-server", "--start-delay", "-1s"}, {"help", "nope"}, {"help", "trace", "nope"}, {"completion", "tcsh"}, {"trace", "nope"}, {"trust", "nope"}, {"cache", "nope"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			got := runTool(t, "", args...)
			if got.code != exitUsage || got.stdout != "" {
				t.Errorf("got %+v, want status %d and nothing on stdout", got, exitUsage)
			}
			if strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "mcprt: ") {
				t.Errorf("stderr = %q, want one sentence", got.stderr)
			}
		})
	}
}

func TestHelpNamesEveryCommandAndExitStatus(t *testing.T) {
	got := runTool(t, "", "help")
	if got.code != exitOK || got.stderr != "" {
		t.Fatalf("mcprt help = %+v", got)
	}
	for _, command := range rootCommand().Commands() {
		if !command.Hidden && !strings.Contains(got.stdout, "\n  "+command.Name()+" ") {
			t.Errorf("help does not list %q", command.Name())
		}
	}
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitToolFailed, exitInterrupted} {
		if !strings.Contains(got.stdout, fmt.Sprintf("\n  %-3d  ", code)) {
			t.Errorf("help does not document exit status %d", code)
		}
	}
}

func TestTextOfServersCannotSteerATerminal(t *testing.T) {
	if got, want := printable("a\x1b[31mb\u202ec\td\n"), "a\uFFFD[31mb\uFFFDc\td\n"; got != want {
		t.Errorf("printable = %q, want %q", got, want)
	}
	if got, want := oneLine("  a\n\tb\r\n c "), "a b\uFFFD c"; got != want {
		t.Errorf("oneLine = %q, want %q", got, want)
	}
}

// TestLostOutputIsAFailure: a script must not take a full disk for an empty answer.
func TestLostOutputIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	flags := project(t)
	for _, args := range [][]string{{"discover"}, {"discover", "--json"}, {"list", "--trust-project"}, {"version"}} {
		if args[0] != "version" {
			args = append(args, flags...)
		}
		cmd := tool(t, args...)
		var errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errOut
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(errOut.String(), "no space left") {
			t.Errorf("%v: exit status %d, stderr %q", args, code, errOut.String())
		}
	}
}

// TestDiagnosticsNameTheServer: in a file of one line the line alone says nothing.
func TestDiagnosticsNameTheServer(t *testing.T) {
	for _, c := range []struct {
		d    diagnostic
		want string
	}{
		{diagnostic{Server: "a", Field: "env.A", Message: "the variable B is not set"}, `server "a": env.A: `},
		{diagnostic{Server: "a", Field: "env.A", Message: "env.A is null"}, `server "a": `},
		{diagnostic{Server: "a", Field: "env.A", Message: `server "a": env.A: is null`}, ""},
		{diagnostic{Message: "the file is null"}, ""},
	} {
		if got := c.d.about(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.d, got, c.want)
		}
	}
	var out bytes.Buffer
	stderr, err := newPainter(&out, "never")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{stderr: stderr}
	s.diagnostics([]diagnostic{{Severity: "error", Server: "a\x1b[2J", Path: "p.json", Line: 1, Column: 20, Message: "odd\nlines"}})
	if got := out.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || !strings.Contains(got, "p.json:1:20: server ") {
		t.Errorf("%q", got)
	}
}
