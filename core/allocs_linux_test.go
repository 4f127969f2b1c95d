package core

import (
	"testing"

	"github.com/mcprt/mcprt/core/mcptest"
)

// callBudget is how many allocations a call over stdio may make, from the request's bytes to
// the result's: what it makes more is paid by the garbage collector at every call.
const callBudget = 12

// TestCallAllocations: of a real process, by the tool's name, the reader's part included.
func TestCallAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector sync.Pool drops some of what it is given")
	}
	r := openHTTP(t, map[string]any{"a": marked(mcptest.Script{}, newMark())}, nil)
	r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	request := []byte(`{"tool":"mcp_a_echo","arguments":{"path":"/tmp/some/file.txt","query":"hello"}}`)
	done := make(chan Status, 1)
	answer := func(st Status, _ Reply) { done <- st }
	n := testing.AllocsPerRun(2000, func() {
		r.m.Start(VerbCall, 0, request, answer)
		if st := <-done; st != OK {
			t.Fatal(st)
		}
	})
	if n > callBudget {
		t.Errorf("%v allocations for a call, more than %d", n, callBudget)
	}
}
