package core

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// TestManyTools: 20,000 tools are offered, found and called like one.
func TestManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := make([]string, 20_000)
		for i := range tools {
			tools[i] = mcptest.Tool(fmt.Sprintf("t%05d", i))
		}
		s := mcptest.NewMemory(mcptest.Script{Tools: tools, PageSize: 500})
		r := newRig(t, servers{"a": s, "b": echo()}, nil)
		if a := r.must(VerbConnect, `{"tools":false}`); len(a.names("connected")) != 2 {
			t.Fatal(a.raw[:500])
		}
		if n := len(r.must(VerbList, `{}`).names("tools")); n != 20_001 {
			t.Errorf("%d tools", n)
		}
		r.must(VerbCall, `{"tool":"mcp_a_t19999"}`)
		r.m.Close(0)
	})
}

// TestTooManyTools: a server over the limit fails by itself, for good and with the option's name.
func TestTooManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := mcptest.NewMemory(mcptest.Script{Tools: mcptest.NumberedTools(11)})
		endless := mcptest.NewMemory(mcptest.Script{Tools: mcptest.NumberedTools(1), Cursors: mcptest.CursorsNew})
		r := newRig(t, servers{"many": many, "endless": endless, "good": echo()}, map[string]any{"limits": map[string]any{"tools": 10, "pages": 5}})
		a := r.must(VerbConnect, `{}`)
		errs := a.obj["errors"].(map[string]any)
		for _, name := range []string{"many", "endless"} {
			e, _ := errs[name].(map[string]any)
			if e["code"] != "too_large" || !strings.Contains(fmt.Sprint(e["message"]), "limits.") {
				t.Errorf("%s: %v", name, e)
			}
		}
		time.Sleep(time.Hour)
		if many.Counts().Dials != 1 || len(a.names("tools")) != 1 {
			t.Errorf("%d dials, tools %v", many.Counts().Dials, a.names("tools"))
		}
		r.m.Close(0)
	})
}

// TestHugeNames: names and texts of any size and content give valid JSON and tools that can be called.
func TestHugeNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{strings.Repeat("n", 100_000), "", " ", "\u0000\"\\\n", "ключ", "日本", strings.Repeat("é", 70), "a/../b", "__proto__", "mcp_a_echo"}
		var tools []string
		for _, n := range names {
			tools = append(tools, `{"name":`+string(encode(n))+`,"description":"`+strings.Repeat("d", 50_000)+`","inputSchema":{}}`)
		}
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{Tools: tools, Instructions: strings.Repeat("i", 1<<20)})}, nil)
		got := r.must(VerbConnect, `{}`).names("tools")
		if len(got) != len(names) {
			t.Fatalf("%d tools of %d", len(got), len(names))
		}
		for _, n := range got {
			if len(n) > 64 || strings.Trim(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
				t.Errorf("name %q", n)
			}
			r.must(VerbCall, `{"tool":"`+n+`"}`)
		}
		r.m.Close(0)
	})
}

// TestNoticeFlood: a server that talks without end neither fills memory nor keeps
// others' operations from ending.
func TestNoticeFlood(t *testing.T) {
	s := mcptest.NewMemory(mcptest.Script{})
	r := newRig(t, servers{"loud": s, "quiet": echo()}, nil)
	r.must(VerbConnect, `{}`)
	r.host.counting.Store(true)
	stop, stopped := make(chan struct{}), make(chan struct{})
	line := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1000) + `"}}`
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				for range 200 {
					s.Say(line)
				}
				s.Notify("notifications/tools/list_changed", "")
				time.Sleep(time.Millisecond)
			}
		}
	}()
	for range 20 {
		r.must(VerbConnect, `{"only":["quiet"],"restart":true,"tools":false}`)
		r.must(VerbCall, `{"server":"quiet","tool":"echo"}`)
	}
	r.m.mu.Lock()
	if n := len(r.m.outbox); n > 1000 {
		t.Errorf("%d notices wait in the outbox", n)
	}
	r.m.mu.Unlock()
	close(stop)
	<-stopped
	r.m.Close(0)
	if r.host.counted.Load() == 0 {
		t.Error("no notice arrived")
	}
}

// TestListThatChangesForEver: a server that announces a change with each list is
// listed again and again, but at a pace.
func TestListThatChangesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{ListChanged: 1 << 30})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		before := s.Counts().Lists
		time.Sleep(10 * time.Second)
		if n := s.Counts().Lists - before; n < 90 || n > 101 {
			t.Errorf("%d lists in ten seconds", n)
		}
		r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		r.m.Close(0)
	})
}

// TestThousandBrokenServers: each has its own reason, and nothing is left of them.
func TestThousandBrokenServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{"good": echo()}
		for i := range 1000 {
			have[fmt.Sprintf("s%03d", i)] = fault.New(fault.SpawnFailed, fault.StageSpawn, "no program number %d", i)
		}
		r := newRig(t, have, nil)
		a := r.must(VerbConnect, `{}`)
		errs := a.obj["errors"].(map[string]any)
		if e, _ := errs["s777"].(map[string]any); len(errs) != 1000 || !strings.Contains(fmt.Sprint(e["message"]), "number 777") {
			t.Errorf("%d errors, one is %v", len(errs), e)
		}
		r.must(VerbCall, `{"server":"good","tool":"echo"}`)
		if n := runtime.NumGoroutine(); n > 100 {
			t.Errorf("%d goroutines", n)
		}
		r.m.Close(0)
	})
}

// TestQuestionFlood: a server cannot have more questions open than the session allows.
func TestQuestionFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, map[string]any{"answers": []string{"elicitation"}})
		r.must(VerbConnect, `{}`)
		for i := range 5000 {
			s.Ask(fmt.Sprintf(`"q%d"`, i), "elicitation/create", `{"message":"?"}`)
		}
		synctest.Wait()
		r.host.mu.Lock()
		if n := len(r.host.requests); n == 0 || n > 64 {
			t.Errorf("the host has %d questions", n)
		}
		r.host.mu.Unlock()
		r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		r.m.Close(0)
		synctest.Wait()
		if len(r.host.ended) != len(r.host.requests) {
			t.Errorf("%d of %d questions ended", len(r.host.ended), len(r.host.requests))
		}
	})
}
