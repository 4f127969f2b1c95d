package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// served is one frame of `mcprt serve`; internal/serve has the protocol's own tests.
func served(manager, tag uint64, kind uint16, data string) []byte {
	size := (24 + len(data) + 8) &^ 7
	b := make([]byte, 8+size)
	binary.LittleEndian.PutUint64(b, manager)
	binary.LittleEndian.PutUint64(b[8:], tag)
	binary.LittleEndian.PutUint16(b[20:], kind)
	binary.LittleEndian.PutUint32(b[24:], uint32(len(data)))
	binary.LittleEndian.PutUint32(b[28:], uint32(size))
	copy(b[32:], data)
	return b
}

// TestServeCallsAServer: a whole conversation with the command, whose stdin ends at once.
func TestServeCallsAServer(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options, err := json.Marshal(map[string]any{
		"cwd": dir, "cache": map[string]any{"enabled": false}, "discovery": map[string]any{"user": "none", "project": false},
		"servers": map[string]any{"demo": map[string]any{"command": self, "args": []string{"demo-server"}, "env": map[string]string{runAsTool: "1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"serve"}, in, out, &errOut)
		out.Close()
	}()
	var got bytes.Buffer
	ask := func(frame []byte, answer string) {
		t.Helper()
		if _, err := to.Write(frame); err != nil {
			t.Fatal(err)
		}
		for block := make([]byte, 4096); !strings.Contains(got.String(), answer); {
			n, err := from.Read(block)
			got.Write(block[:n])
			if err != nil || strings.Contains(got.String(), `"error":{`) {
				t.Fatalf("%v after %q", err, got.String())
			}
		}
	}
	ask(served(1, 0, 16, string(options)), `"maxInFlight"`)
	ask(served(1, 1, 2, `{"startupTimeoutMs":20000}`), `"connected":["demo"]`)
	ask(served(1, 2, 4, `{"server":"demo","tool":"add","arguments":{"a":2,"b":40},"timeoutMs":20000}`), `"sum":42`)
	to.Close()
	if c := <-code; c != exitOK || errOut.Len() > 0 {
		t.Errorf("status %d, stderr %q", c, errOut.String())
	}
}

// TestServeSignals: an interrupt is for the program that runs it; SIGTERM ends it.
func TestServeSignals(t *testing.T) {
	cmd := tool(t, "serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, 32)
	if _, err := out.Read(hello); err != nil { // now its handlers are set
		t.Fatal(err)
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGTERM} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal != syscall.SIGTERM {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
