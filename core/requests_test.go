package core

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// open gives the one request that the host has not ended yet.
func (h *testHost) open(t *testing.T) uint64 {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for tag := range h.requests {
		if _, over := h.ended[tag]; !over {
			return tag
		}
	}
	t.Fatal("no request is open")
	return 0
}

func (h *testHost) endedWith(tag uint64) (Status, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st, ok := h.ended[tag]
	return st, ok
}

// TestRequestEnds: however a server's question ends, the host hears of it once
// (testHost panics at a second time), with the reason, and so does the server.
func TestRequestEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig, s *mcptest.Memory, tag uint64, cancel func())
		want Status
		call string // part of the call's reply
	}{
		{"declined", func(r *rig, _ *mcptest.Memory, tag uint64, _ func()) { r.m.Decline(tag) }, ECanceled, `\"action\":\"decline\"`},
		{"answered with an error", func(r *rig, _ *mcptest.Memory, tag uint64, _ func()) {
			r.m.Answer(tag, []byte(`{"error":{"code":-32001,"message":"not today"}}`))
		}, OK, "not today"},
		{"answered with junk", func(r *rig, _ *mcptest.Memory, tag uint64, _ func()) {
			if st := r.m.Answer(tag, []byte(`{"result":`)); st != EInval {
				t.Errorf("the junk had status %d", st)
			}
		}, EInval, "-32603"},
		{"timed out", func(*rig, *mcptest.Memory, uint64, func()) { time.Sleep(61 * time.Second) }, ETimeout, "60000 ms"},
		{"withdrawn by the server", func(_ *rig, _ *mcptest.Memory, _ uint64, cancel func()) { cancel() }, ECanceled, ""},
		{"the server died", func(_ *rig, s *mcptest.Memory, _ uint64, _ func()) { s.Kill(4) }, ECanceled, "outcome_unknown"},
		{"the server was disconnected", func(r *rig, _ *mcptest.Memory, _ uint64, _ func()) { r.do(VerbDisconnect, `{"server":"a"}`) }, ECanceled, "disconnected"},
		{"the manager was closed", func(r *rig, _ *mcptest.Memory, _ uint64, _ func()) { r.m.Close(0) }, EClosed, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.NewMemory(mcptest.Script{})
				r := newRig(t, servers{"a": s}, map[string]any{"answers": []string{"elicitation"}, "requestTimeoutMs": 60000})
				r.must(VerbConnect, `{}`)
				ch, cancel := r.begin(VerbCall, `{"server":"a","tool":"elicit"}`)
				synctest.Wait()
				tag := r.host.open(t)
				if _, over := r.host.endedWith(tag); over {
					t.Fatal("it ended before")
				}
				c.end(r, s, tag, cancel)
				if c.want == EClosed { // at once, not some time later
					if _, over := r.host.endedWith(tag); !over {
						t.Error("close returned before the host heard of the end")
					}
				}
				synctest.Wait()
				if st, over := r.host.endedWith(tag); !over || st != c.want {
					t.Errorf("ended %v with %d, want %d", over, st, c.want)
				}
				if a := <-ch; !strings.Contains(a.raw, c.call) {
					t.Errorf("the call: %s", a.raw)
				}
				if st := r.m.Answer(tag, []byte(`{"result":{}}`)); st != ETag {
					t.Errorf("a late answer: %d", st)
				}
				r.m.Decline(tag)
				synctest.Wait()
				r.m.Close(0)
				r.m.mu.Lock()
				if n := len(r.m.asks); n != 0 {
					t.Errorf("%d questions are left", n)
				}
				r.m.mu.Unlock()
			})
		})
	}
}

// TestUndeclared: what the host does not answer is never asked.
func TestUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		dir := filepath.Join(t.TempDir(), "pro ject", "a#b")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, servers{"a": s}, map[string]any{"cwd": dir})
		r.must(VerbConnect, `{}`)
		for _, tool := range []string{"elicit", "sample"} {
			if a := r.must(VerbCall, `{"server":"a","tool":"`+tool+`"}`); !strings.Contains(a.raw, "-32601") {
				t.Errorf("%s: %s", tool, a.raw)
			}
		}
		if a := r.must(VerbCall, `{"server":"a","tool":"roots"}`); !strings.Contains(a.raw, `file:///`) || !strings.Contains(a.raw, `/pro%20ject/a%23b`) {
			t.Errorf("roots: %s", a.raw)
		}
		if len(r.host.requests) != 0 {
			t.Errorf("the host was asked: %v", r.host.requests)
		}
		if got := strings.Join(s.Counts().Received, "\n"); strings.Contains(got, `"elicitation":{`) {
			t.Error("elicitation was declared")
		}
		r.m.Close(0)
	})
}

// TestProgress: notices carry the operation's tag and come before its end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{})}, nil)
		r.must(VerbConnect, `{}`)
		before := make(chan int, 1)
		r.m.Start(VerbCall, 77, []byte(`{"server":"a","tool":"progress","arguments":{"n":50},"progress":true}`), func(st Status, _ Reply) {
			before <- len(r.host.of("progress"))
		})
		n := <-before
		synctest.Wait()
		got := r.host.of("progress")
		if n != 50 || len(got) != 50 {
			t.Fatalf("%d of %d notices came before the end", n, len(got))
		}
		for i, p := range got {
			if p["tag"] != 77.0 || p["server"] != "a" || p["progress"] != float64(i+1) || p["total"] != 50.0 {
				t.Errorf("notice %d: %v", i, p)
			}
		}
		// A blocking verb has no tag; a call that did not ask gets none.
		for _, c := range []struct {
			tag uint64
			req string
		}{{0, `,"progress":true`}, {78, ``}} {
			done := make(chan struct{})
			r.m.Start(VerbCall, c.tag, []byte(`{"server":"a","tool":"progress"`+c.req+`}`), func(Status, Reply) { close(done) })
			<-done
		}
		if got := r.host.of("progress"); len(got) != 50 {
			t.Errorf("%d notices more", len(got)-50)
		}
		r.m.Close(0)
	})
}

// TestProgressBehindABusyOutbox: another goroutine that is handing over notices
// must not let a call's end overtake its progress.
func TestProgressBehindABusyOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{})}, nil)
		r.must(VerbConnect, `{}`)
		r.m.mu.Lock()
		r.m.flushing = true // as if one was under way
		r.m.mu.Unlock()
		before := make(chan int, 1)
		r.m.Start(VerbCall, 5, []byte(`{"server":"a","tool":"progress","progress":true}`), func(Status, Reply) { before <- len(r.host.of("progress")) })
		if n := <-before; n != 3 {
			t.Errorf("%d of 3 notices came before the end", n)
		}
		r.m.mu.Lock()
		r.m.flushing = false
		r.m.mu.Unlock()
		r.m.Close(0)
	})
}
