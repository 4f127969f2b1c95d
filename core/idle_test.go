package core

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestIdle: a lazy server that nobody calls stops, keeps its tools, and comes back with
// the next call; one with a call or a subscription does not stop.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := mcptest.NewMemory(mcptest.Script{Replies: map[string]string{"resources/subscribe": "{}", "resources/unsubscribe": "{}"}})
		own, eager := echo(), echo()
		r := newRig(t, servers{"lazy": lazy, "own": own, "eager": eager}, map[string]any{"idleTimeoutMs": 60_000, "config": map[string]map[string]any{
			"lazy": {"lazy": true}, "own": {"lazy": true, "idleTimeoutMs": 5000}}})
		live := func(want ...int) {
			t.Helper()
			for i, s := range []*mcptest.Memory{lazy, own, eager} {
				if got := s.Counts().Live; got != want[i] {
					t.Errorf("%s: %d connections, want %d", []string{"lazy", "own", "eager"}[i], got, want[i])
				}
			}
		}
		r.must(VerbConnect, `{}`)
		live(1, 1, 1)
		time.Sleep(6 * time.Second)
		live(1, 0, 1)
		time.Sleep(50 * time.Second)
		r.must(VerbCall, `{"server":"lazy","tool":"echo"}`) // 56 s after the start
		time.Sleep(50 * time.Second)
		live(1, 0, 1)
		time.Sleep(11 * time.Second)
		live(0, 0, 1)
		if a := r.must(VerbList, `{"server":"own"}`); len(a.names("tools")) != 1 || !a.obj["tools"].([]any)[0].(map[string]any)["deferred"].(bool) {
			t.Errorf("the tools of the stopped server: %s", a.raw)
		}
		r.must(VerbCall, `{"server":"lazy","tool":"echo"}`)
		live(1, 0, 1)

		slow, _ := r.begin(VerbCall, `{"server":"lazy","tool":"slow","arguments":{"ms":300000},"timeoutMs":0}`)
		time.Sleep(4 * time.Minute)
		live(1, 0, 1)
		if a := <-slow; a.st != OK {
			t.Errorf("the long call: %s", a.raw)
		}
		r.must(VerbCall, `{"server":"lazy","method":"resources/subscribe","params":{"uri":"u"}}`)
		time.Sleep(10 * time.Minute)
		live(1, 0, 1)
		r.must(VerbCall, `{"server":"lazy","method":"resources/unsubscribe","params":{"uri":"u"}}`)
		time.Sleep(2 * time.Minute)
		live(0, 0, 1)
		if n := lazy.Counts().Dials; n != 2 {
			t.Errorf("%d starts", n)
		}
		r.m.Close(0)
	})
}

// TestIdleRacesCalls: calls that come in the moment of the stop all succeed.
func TestIdleRacesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r := newRig(t, servers{"a": s}, map[string]any{"lazy": true, "idleTimeoutMs": 1000})
		r.must(VerbConnect, `{}`)
		for range 200 {
			time.Sleep(time.Second)
			var all []<-chan answerOf
			for range 4 {
				ch, _ := r.begin(VerbCall, `{"server":"a","tool":"echo"}`)
				all = append(all, ch)
			}
			for _, ch := range all {
				if a := <-ch; a.st != OK {
					t.Fatal(a.raw)
				}
			}
		}
		r.m.Close(0)
	})
}
