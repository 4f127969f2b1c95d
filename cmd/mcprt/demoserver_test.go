package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// demo is a running demo-server and a client that has shaken hands with it.
type demo struct {
	*mcpclient.Client
	info  mcp.Implementation
	notes chan mcp.JSONRPCNotification
}

// startDemo starts the server with args and initialises it with protocol, or with
// whatever the two negotiate when protocol is "".
func startDemo(t *testing.T, protocol string, args ...string) *demo {
	t.Helper()
	cmd := tool(t, append([]string{"demo-server"}, args...)...)
	stdio := transport.NewStdioWithOptions(cmd.Path, nil, cmd.Args[1:], transport.WithCommandFunc(
		func(context.Context, string, []string, []string) (*exec.Cmd, error) { return cmd, nil }))
	var options []mcpclient.ClientOption
	if protocol != "" {
		options = append(options, mcpclient.WithProtocolVersion(protocol))
	}
	d := &demo{Client: mcpclient.NewClient(stdio, options...), notes: make(chan mcp.JSONRPCNotification, 100)}
	d.OnNotification(func(n mcp.JSONRPCNotification) { d.notes <- n })
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = protocol
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	result, err := d.Initialize(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	d.info = result.ServerInfo
	return d
}

func (d *demo) call(t *testing.T, name string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	result, err := d.CallTool(t.Context(), toolRequest(name, arguments))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

func toolRequest(name string, arguments map[string]any) mcp.CallToolRequest {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = name, arguments
	return r
}

func text(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) == 0 {
		t.Fatal("the result has no content")
	}
	c, ok := r.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("the content is %T", r.Content[0])
	}
	return c.Text
}

func TestDemoTools(t *testing.T) {
	for _, protocol := range []string{"", "2025-06-18", "2024-11-05"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, protocol)
			list, err := d.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
				if a := tool.Annotations; a.ReadOnlyHint == nil || !*a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint {
					t.Errorf("%s is not announced as read-only", tool.Name)
				}
			}
			if got, want := strings.Join(names, " "), "add echo fail image slow"; got != want {
				t.Errorf("tools = %q, want %q", got, want)
			}
			if got := text(t, d.call(t, "echo", map[string]any{"text": "grüß\x00\u2028"})); got != "grüß\x00\u2028" {
				t.Errorf("echo = %q", got)
			}
			sum := d.call(t, "add", map[string]any{"a": 1.5, "b": 2})
			if got := text(t, sum); got != "3.5" {
				t.Errorf("add = %q", got)
			}
			if got, _ := json.Marshal(sum.StructuredContent); string(got) != `{"sum":3.5}` {
				t.Errorf("add's structured content = %s", got)
			}
			if failed := d.call(t, "fail", map[string]any{"message": "no luck"}); !failed.IsError || text(t, failed) != "no luck" {
				t.Errorf("fail = %+v", failed)
			}
			for name, arguments := range map[string]map[string]any{
				"echo": {}, "add": {"a": 1}, "slow": {"ms": -1}, "image": {"size": 100000},
			} {
				if r := d.call(t, name, arguments); !r.IsError {
					t.Errorf("%s%v succeeded", name, arguments)
				}
			}
		})
	}
}

func TestDemoImageIsAPNG(t *testing.T) {
	r := startDemo(t, "").call(t, "image", map[string]any{"size": 8})
	for _, content := range r.Content {
		if picture, ok := content.(mcp.ImageContent); ok {
			data, err := base64.StdEncoding.DecodeString(picture.Data)
			if err != nil {
				t.Fatal(err)
			}
			config, err := png.DecodeConfig(bytes.NewReader(data))
			if err != nil || config.Width != 8 || config.Height != 8 || picture.MIMEType != "image/png" {
				t.Fatalf("the picture is %+v of type %s (%v)", config, picture.MIMEType, err)
			}
			return
		}
	}
	t.Fatal("no picture in the result")
}

func TestDemoSlowReportsProgress(t *testing.T) {
	d := startDemo(t, "2025-06-18")
	r := toolRequest("slow", map[string]any{"ms": 60, "steps": 3})
	r.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	start := time.Now()
	if _, err := d.CallTool(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("slow took only %v", took)
	}
	for _, want := range []float64{1, 2} {
		note := d.note(t)
		if got := note.Params.AdditionalFields; note.Method != "notifications/progress" || got["progress"] != want ||
			got["total"] != 3.0 || got["progressToken"] != "p" {
			t.Fatalf("notification = %+v, want progress %v of 3", note, want)
		}
	}
}

func (d *demo) note(t *testing.T) mcp.JSONRPCNotification {
	t.Helper()
	select {
	case n := <-d.notes:
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("no notification came")
		panic("unreachable")
	}
}

func TestDemoListChanged(t *testing.T) {
	d := startDemo(t, "2025-06-18", "--list-changed-after", "1s")
	if note := d.note(t); note.Method != "notifications/tools/list_changed" {
		t.Fatalf("notification = %+v", note)
	}
	if got := text(t, d.call(t, "late", nil)); got != "better late than never" {
		t.Errorf("late = %q", got)
	}
}

func TestDemoName(t *testing.T) {
	d := startDemo(t, "2025-06-18", "--name", "other")
	if got := d.info; got.Name != "other" || got.Version != version {
		t.Errorf("serverInfo = %+v", got)
	}
}

// conversation is a demo-server whose pipes a test holds itself.
type conversation struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func converse(t *testing.T, args ...string) *conversation {
	t.Helper()
	cmd := tool(t, append([]string{"demo-server"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &conversation{cmd, in, bufio.NewReader(out)}
}

func (c *conversation) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the process and says how it ended and what it had written last.
func (c *conversation) ends(t *testing.T) (code int, rest string) {
	t.Helper()
	left, err := io.ReadAll(c.out)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	return c.ProcessState.ExitCode(), string(left)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestDemoCancelledCallStopsAtOnce(t *testing.T) {
	c := converse(t)
	c.send(t, initialize)
	if _, err := c.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"ms":20000,"steps":100},"_meta":{"progressToken":1}}}`)
	if line, err := c.out.ReadString('\n'); err != nil || !strings.Contains(line, "notifications/progress") {
		t.Fatalf("line %q (%v), want progress: the call runs", line, err)
	}
	c.send(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id":2`) {
			if strings.Contains(line, "waited") {
				t.Errorf("the cancelled call finished: %s", line)
			}
			break
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the cancelled call took %v", took)
	}
	c.in.Close()
	if code, _ := c.ends(t); code != 0 {
		t.Errorf("status %d after the end of stdin", code)
	}
}

func TestDemoStartDelay(t *testing.T) {
	start := time.Now()
	startDemo(t, "2025-06-18", "--start-delay", "300ms")
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("the server answered after %v", took)
	}
}

func TestDemoEndsDuringItsStart(t *testing.T) {
	for name, end := range map[string]func(*conversation) error{
		"end of stdin": func(c *conversation) error { return c.in.Close() },
		"SIGTERM":      func(c *conversation) error { return c.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := converse(t, "--start-delay", "25s")
			c.send(t, `not JSON`) // answered at once, so the server runs and its signal handler is there
			if line, err := c.out.ReadString('\n'); err != nil || !strings.Contains(line, "Parse error") {
				t.Fatalf("line %q (%v)", line, err)
			}
			c.send(t, initialize)
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if code, _ := c.ends(t); code != 0 {
				t.Errorf("status %d, want 0", code)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("the server ended only after %v", took)
			}
		})
	}
}

func TestDemoFailStart(t *testing.T) {
	got := runTool(t, "", "demo-server", "--fail-start", "DEMO_TOKEN is not set")
	if want := (output{exitDemoFailed, "", "mcprt: DEMO_TOKEN is not set\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
