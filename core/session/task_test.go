package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// TestTask: a task of the extension is to its caller one long call.
func TestTask(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		var heard []string
		c := tool("task", `{"polls":3}`)
		c.Progress = func(params []byte) { heard = append(heard, string(params)) }
		r := run(s, c)
		if r.err != nil || r.text != `{"content":[{"type":"text","text":"the task is done"}],"big":9007199254740993}` || r.done != 1 {
			t.Fatalf("%+v", r)
		}
		if n := memory.Counts().Calls["tasks/get"]; n != 4 || r.at < 400*time.Millisecond {
			t.Errorf("%d polls in %v", n, r.at)
		}
		if len(heard) != 3 || heard[0] != `{"progress":1,"message":"2 to go"}` {
			t.Errorf("progress %q", heard)
		}
		if r = run(s, tool("task", `{"ask":true}`)); r.err != nil || !strings.Contains(r.text, `answered`) {
			t.Errorf("%+v", r)
		}
		if _, asked, _ := h.seen(); count(asked, "elicitation/create") != 1 {
			t.Errorf("asked %v", asked)
		}
		f := wantFault(t, run(s, tool("task", `{"end":"failed"}`)).err, fault.RPCError, "it broke")
		if f.Data == nil || *f.Data.RPCCode != -32050 {
			t.Errorf("%+v", f.Data)
		}
		wantFault(t, run(s, tool("task", `{"end":"cancelled"}`)).err, fault.RPCError, "cancelled the task")
		wantFault(t, run(s, tool("task", `{"end":"sleeping"}`)).err, fault.Protocol, "sleeping")
	})
}

// TestTaskTimes: news of a task extends its call up to the ceiling, and whoever gives
// up a task tells the server.
func TestTaskTimes(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, _ *host) {
		c := tool("task", `{"polls":50}`)
		c.Timeout = 250 * time.Millisecond
		c.MaxTimeout = time.Hour
		if r := run(s, c); r.err != nil || r.at < 5*time.Second {
			t.Errorf("with news: %+v", r)
		}
		c.MaxTimeout = time.Second
		if r := run(s, c); r.at != time.Second {
			t.Errorf("up to the ceiling: %+v", r)
		} else {
			wantFault(t, r.err, fault.Timeout)
		}
		r, wait, cancel := launch(s, tool("task", `{"polls":1000}`))
		time.Sleep(time.Second)
		cancel()
		<-wait
		wantFault(t, r.err, fault.Canceled)
		time.Sleep(time.Second)
		if n := memory.Counts().Calls["tasks/cancel"]; n != 2 || r.done != 1 {
			t.Errorf("%d of 2 tasks were cancelled; %+v", n, r)
		}
		// A poll that was on its way may be cancelled, the call that became a task must not.
		for _, line := range memory.Counts().Received {
			if id := lastID([]string{line}, ""); strings.Contains(line, `"tools/call"`) && slices.Contains(memory.Counts().Cancelled, id) {
				t.Errorf("notifications/cancelled for %s", line)
			}
		}
	})
}

// TestLegacyTask: a tool of 2025-11-25 that can only be called as a task is.
func TestLegacyTask(t *testing.T) {
	script := mcptest.Script{Versions: []string{mcptest.Latest}, Capabilities: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}}`, CallDelay: time.Second}
	bubble(t, script, func(t *testing.T, s *Session, memory *mcptest.Memory, _ *host) {
		c := tool("task", `{}`)
		c.NeedsTask = true
		if r := run(s, c); r.err != nil || !strings.Contains(r.text, "the task is done") || !strings.Contains(strings.Join(memory.Counts().Received, "\n"), `"task":{}`) {
			t.Errorf("%+v", r)
		}
		r, wait, cancel := launch(s, c)
		time.Sleep(1500 * time.Millisecond)
		cancel()
		<-wait
		wantFault(t, r.err, fault.Canceled)
		time.Sleep(time.Second)
		if n := memory.Counts().Calls["tasks/cancel"]; n != 1 {
			t.Errorf("%d tasks/cancel", n)
		}
		c.NeedsTask, c.Name = false, "echo"
		if r := run(s, c); r.err != nil || strings.Contains(memory.Counts().Received[len(memory.Counts().Received)-1], `"task":{}`) {
			t.Errorf("%+v", r)
		}
	})
}
