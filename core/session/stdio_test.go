package session

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

// The same scripts as a child process: what the fakes promise holds for real pipes.
func TestOverProcesses(t *testing.T) {
	dial := func(script mcptest.Script) transport.Dial {
		command, args, env := script.Command()
		list := os.Environ()
		for name, value := range env {
			list = append(list, name+"="+value)
		}
		return transport.Stdio{Server: "demo", Path: command, Command: "demo", Args: args, Env: list, Dir: t.TempDir()}.Dial
	}
	config := func(script mcptest.Script) Config {
		cfg := configFor(mcptest.NewMemory(script), &host{})
		cfg.Dial = dial(script)
		return cfg
	}
	for name, script := range map[string]mcptest.Script{
		"-32601":       {Noise: []string{"Server v1", ""}, StringIDs: true},
		"dies of it":   {Discover: mcptest.DiscoverExit},
		"modern":       {Versions: []string{mcptest.Modern}},
		"rich results": {Results: map[string]string{"raw": `{"content":[],  "n":9007199254740993}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Connect(t.Context(), config(script))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { s.Close(2 * time.Second); <-s.Done() }()
			if list, err := s.ListTools(t.Context()); err != nil || !slices.ContainsFunc(list.Tools, func(r RawTool) bool { return r.Name == "echo" }) {
				t.Fatalf("%+v, %v", list, err)
			}
			if raw := script.Results["raw"]; raw != "" {
				if r := run(s, tool("raw", `{}`)); r.text != raw {
					t.Errorf("got %s, %v", r.text, r.err)
				}
			}
			if r := run(s, tool("spam", `{}`)); r.err != nil {
				t.Errorf("1 MiB of stderr: %v", r.err)
			}
			died := time.Now()
			r := run(s, tool("die", `{"code":6}`))
			f := wantFault(t, r.err, fault.Exited)
			if f.Data == nil || f.Data.ExitCode == nil || *f.Data.ExitCode != 6 || !strings.HasSuffix(strings.TrimSpace(f.Data.Stderr), "dying as told") {
				t.Errorf("data %+v", f.Data)
			}
			if time.Since(died) > 5*time.Second || NeverWritten(r.err) {
				t.Errorf("after %v, never written %v", time.Since(died), NeverWritten(r.err))
			}
		})
	}
	t.Run("exits at start", func(t *testing.T) {
		t.Parallel()
		_, err := Connect(t.Context(), config(mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no token\n"}))
		f := wantFault(t, err, fault.Exited, "demo")
		if f.Data == nil || *f.Data.ExitCode != 3 || !strings.Contains(f.Data.Stderr, "no token") {
			t.Errorf("data %+v", f.Data)
		}
	})
}
