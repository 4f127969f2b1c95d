package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// inbox is a Receiver that keeps copies.
type inbox struct {
	messages chan string
	closed   chan *fault.Error
}

func newInbox() *inbox {
	return &inbox{messages: make(chan string, 1000), closed: make(chan *fault.Error, 1)}
}

func (b *inbox) Receive(m *transport.Message) {
	b.messages <- m.Method + string(m.ID) + string(m.Params) + string(m.Result) + string(m.Error)
}
func (b *inbox) Closed(err *fault.Error) { b.closed <- err }

func TestMemoryConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(Script{StartDelay: time.Second, Tools: []string{Tool("echo"), `{"name": "b"}`}, PageSize: 1})
		box := newInbox()
		conn, err := memory.Dial(t.Context(), box)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ask := func(message string) string {
			if _, err := conn.Send(t.Context(), []byte(message)); err != nil {
				t.Fatal(err)
			}
			return <-box.messages
		}
		if got := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`); !strings.Contains(got, `"protocolVersion":"2025-03-26"`) {
			t.Errorf("initialize: %s", got)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("the start took %v, want 1s", took)
		}
		if got := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"at-1"}}`); got != `2{"tools":[{"name": "b"}]}` {
			t.Errorf("second page: %s", got)
		}
		if got := ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"n": 9007199254740993}}}`); got != `3{"content":[{"type":"text","text":"{\"n\": 9007199254740993}"}],"structuredContent":{"n": 9007199254740993}}` {
			t.Errorf("echo: %s", got)
		}
		conn.Close(time.Second, false)
		if err := <-box.closed; err.Code != fault.Closed {
			t.Errorf("closed with %v", err)
		}
		<-conn.Done()
		if c := memory.Counts(); c.Dials != 1 || c.Live != 0 || c.Initializes != 1 || c.Lists != 1 || c.Calls["echo"] != 1 || len(c.Received) != 3 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestMemoryClose(t *testing.T) {
	for _, c := range []struct {
		name   string
		script Script
		abort  bool
		want   time.Duration
	}{
		{"obeys EOF", Script{}, false, 0},
		{"ignores EOF", Script{IgnoreEOF: true}, false, time.Second},
		{"ignores both", Script{IgnoreEOF: true, IgnoreTerm: true}, false, 2 * time.Second},
		{"abort", Script{StartDelay: time.Hour}, true, 0},
		{"abort, ignores both", Script{IgnoreEOF: true, IgnoreTerm: true}, true, 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := newInbox()
				conn, err := NewMemory(c.script).Dial(t.Context(), box)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				conn.Close(2*time.Second, c.abort)
				<-conn.Done()
				if took := time.Since(start); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				if _, err := conn.Send(t.Context(), []byte(`{}`)); err == nil {
					t.Error("Send succeeds on a closed connection")
				}
			})
		})
	}
}

func TestMemoryDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newInbox()
		conn, err := NewMemory(Script{ExitAtStart: Code(7), Stderr: "no token\n"}).Dial(context.Background(), box)
		if err != nil {
			t.Fatal(err)
		}
		end := <-box.closed
		<-conn.Done()
		if end.Code != fault.Exited || end.Data == nil || *end.Data.ExitCode != 7 || end.Data.Stderr != "no token\n" {
			t.Errorf("ended with %+v, data %+v", end, end.Data)
		}
	})
}

func TestChild(t *testing.T) {
	logFile := filepath.Join(t.TempDir(), "log")
	script := Script{LogFile: logFile, Results: map[string]string{"raw": `{"a": [1,  9007199254740993]}`}, Noise: []string{"Server v1"}}
	command, args, env := script.Command()
	cmd := exec.Command(command, args...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"raw"}}`+"\n")
	lines := bufio.NewScanner(stdout)
	var got []string
	for len(got) < 2 && lines.Scan() {
		got = append(got, lines.Text())
	}
	want := []string{"Server v1", `{"jsonrpc":"2.0","id":"x","result":{"a": [1,  9007199254740993]}}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	io.WriteString(stdin, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"die","arguments":{"code":5}}}`+"\n")
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("exit: %v", err)
	}
	if !strings.Contains(stderr.String(), "dying as told") {
		t.Errorf("stderr %q", stderr.String())
	}
	text, err := os.ReadFile(logFile)
	if err != nil || !bytes.Contains(text, []byte(`"event":"start"`)) || !bytes.Contains(text, []byte(`"event":"exit"`)) {
		t.Errorf("log %s, %v", text, err)
	}
}
