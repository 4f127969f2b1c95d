package core

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

var manyServers = flag.Int("many", 60, "servers of TestManyServers, each with 100 tools; `make soak` starts 500")

// TestManyServers: hundreds of processes are connected, listed, called and ended at
// once, in bounded memory.
func TestManyServers(t *testing.T) {
	n, mark := *manyServers, newMark()
	options := map[string]any{"maxInFlight": 2000}
	for i := range n {
		options[fmt.Sprintf("server s%d", i)] = marked(mcptest.Script{Name: fmt.Sprint("s", i), Tools: mcptest.NumberedTools(100)}, mark)
	}
	r := newProcessRig(t, nil, options)
	r.host.counting.Store(true)
	lap := time.Now()
	step := func(what string) {
		t.Logf("%-8s %5d ms, %4d MiB resident", what, time.Since(lap).Milliseconds(), residentMiB(t))
		lap = time.Now()
	}
	a := r.must(VerbConnect, `{"startupTimeoutMs":0,"tools":false}`)
	if got := len(a.names("connected")); got != n {
		t.Fatalf("%d of %d servers are connected: %.2000s", got, n, a.raw)
	}
	step("connect")
	if got := strings.Count(r.must(VerbList, `{}`).raw, `"inputSchema"`); got != 100*n {
		t.Errorf("%d tools are listed of %d", got, 100*n)
	}
	step("list")
	var ends []<-chan answerOf
	for round := range 4 {
		for i := range n {
			ch, _ := r.begin(VerbCall, fmt.Sprintf(`{"server":"s%d","tool":"tool_%04d"}`, i, round*25))
			ends = append(ends, ch)
		}
	}
	for _, ch := range ends {
		if a := <-ch; a.st != OK {
			t.Errorf("a call failed: %s", a.raw)
		}
	}
	step("call")
	if got := residentMiB(t); got > 1024 {
		t.Errorf("%d MiB are resident", got)
	}
	r.m.Close(5000)
	step("close")
	eventually(t, 2*time.Second, "no process is left", func() bool { return len(processes(t, mark)) == 0 })
}

func residentMiB(t *testing.T) int {
	t.Helper()
	var size, resident int
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize() >> 20
}
