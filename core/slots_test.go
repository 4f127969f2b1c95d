package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestCallsPerServer: no more calls than allowed run at a server at once; the others
// wait in order, and one that is cancelled or too late leaves the queue. Other servers
// have queues of their own.
func TestCallsPerServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := mcptest.NewMemory(mcptest.Script{}), mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": a, "b": b}, map[string]any{"limits": map[string]any{"callsPerServer": 2}})
		r.must(VerbConnect, `{}`)
		began := time.Now()
		type end struct {
			n    int
			at   time.Duration
			text string
		}
		ends := make(chan end, 20)
		start := func(n int, request string) (cancel func()) {
			ch, cancel := r.begin(VerbCall, request)
			go func() {
				got := <-ch
				ends <- end{n, time.Since(began), got.raw}
			}()
			synctest.Wait()
			return cancel
		}
		second := `{"server":"a","tool":"slow","arguments":{"ms":1000}%s}`
		for n := range 6 {
			start(n, fmt.Sprintf(second, ""))
		}
		cancel := start(6, fmt.Sprintf(second, ""))
		start(7, fmt.Sprintf(second, `,"timeoutMs":1500`))
		start(8, `{"server":"b","tool":"slow","arguments":{"ms":1000}}`)
		synctest.Wait()
		if n := a.Counts().Calls["slow"]; n != 2 {
			t.Errorf("%d calls run at once", n)
		}
		if a := r.must(VerbCall, `{"method":"mcprt/stats"}`); !strings.Contains(a.raw, `"queued":6`) {
			t.Errorf("stats: %s", a.raw)
		}
		cancel()
		got := map[int]end{}
		for range 9 {
			e := <-ends
			got[e.n] = e
		}
		for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 2 * time.Second, 4: 3 * time.Second, 5: 3 * time.Second, 6: 0, 7: 1500 * time.Millisecond, 8: time.Second} {
			if got[n].at != want {
				t.Errorf("call %d ended after %v, want %v: %s", n, got[n].at, want, got[n].text)
			}
		}
		if !strings.Contains(got[6].text, `"canceled"`) || !strings.Contains(got[7].text, "waited for its turn") || !strings.Contains(got[7].text, `"timeout"`) {
			t.Errorf("cancelled: %s\nlate: %s", got[6].text, got[7].text)
		}
		if n := a.Counts().Calls["slow"]; n != 6 {
			t.Errorf("%d calls were sent, though two never had their turn", n)
		}
		if st := r.must(VerbCall, `{"server":"a","tool":"echo"}`); st.st != OK { // nothing is held for ever
			t.Error(st.raw)
		}
		r.m.Close(0)
	})
}

// TestCallsPerServerWhereItDies: calls that the death of a server ends give their places back.
func TestCallsPerServerWhereItDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": a}, map[string]any{"limits": map[string]any{"callsPerServer": 1}})
		r.must(VerbConnect, `{}`)
		hang, _ := r.begin(VerbCall, `{"server":"a","tool":"die"}`)
		queued, _ := r.begin(VerbCall, `{"server":"a","tool":"echo"}`)
		if got := <-hang; got.st == OK {
			t.Error(got.raw)
		}
		if got := <-queued; got.st != OK {
			t.Errorf("the one that waited: %s", got.raw)
		}
		for range 5 {
			r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		}
		r.m.Close(0)
	})
}

// TestCallsThatWaitOutliveTheirServer: a call that waits for its turn is not given up because
// the server is lost meanwhile, however often.
func TestCallsThatWaitOutliveTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, map[string]any{"limits": map[string]any{"callsPerServer": 1}})
		r.must(VerbConnect, `{}`)
		const killed = 8 // more often than a call is sent again
		var calls []<-chan answerOf
		for range killed {
			ch, _ := r.begin(VerbCall, `{"server":"a","tool":"hang","timeoutMs":0}`)
			calls = append(calls, ch)
			synctest.Wait()
		}
		last, _ := r.begin(VerbCall, `{"server":"a","tool":"echo","timeoutMs":0}`)
		for range killed + 1 {
			time.Sleep(time.Minute) // then it is started again at once
			s.Kill(3)
			synctest.Wait()
		}
		for _, ch := range calls {
			if a := <-ch; a.code() != "outcome_unknown" {
				t.Error(a.raw)
			}
		}
		if a := <-last; a.st != OK {
			t.Error(a.raw)
		}
		if n := s.Counts().Calls["hang"]; n != killed {
			t.Errorf("%d of the calls came to the server", n)
		}
		r.m.Close(0)
	})
}

// TestListChangesAreCoalesced: a server that announces changes without end is passed
// on at a pace, and the last one always.
func TestListChangesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		for range 1000 {
			s.Notify("notifications/resources/list_changed", "")
			s.Notify("notifications/prompts/list_changed", "")
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		for _, kind := range []string{"resources_changed", "prompts_changed"} {
			if n := len(r.host.of(kind)); n < 5 || n > 12 {
				t.Errorf("%d %s in a second", n, kind)
			}
		}
		before := len(r.host.of("resources_changed"))
		s.Notify("notifications/resources/list_changed", "")
		s.Notify("notifications/resources/list_changed", "")
		time.Sleep(time.Second)
		if n := len(r.host.of("resources_changed")) - before; n != 2 {
			t.Errorf("%d notices of two changes", n)
		}
		r.m.Close(0)
	})
}

// TestCallsOfAServersOwnConfig: maxConcurrentCalls of a config holds for its server alone,
// never beyond the host's limit, and a new number holds after a reload.
func TestCallsOfAServersOwnConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := func(n int) map[string]any { return map[string]any{"maxConcurrentCalls": n} }
		have, seen := servers{}, map[string]func() int{}
		for _, name := range []string{"one", "many", "none"} {
			s := mcptest.NewMemory(mcptest.Script{})
			have[name], seen[name] = s, func() int { return s.Counts().Calls["slow"] }
		}
		r := newRig(t, have, map[string]any{"limits": map[string]any{"callsPerServer": 3},
			"config": map[string]map[string]any{"one": own(1), "many": own(9), "none": own(0)}})
		r.must(VerbConnect, `{}`)
		for name, want := range map[string]int{"one": 1, "many": 3, "none": 3} {
			var calls []<-chan answerOf
			for range 4 {
				ch, _ := r.begin(VerbCall, `{"server":"`+name+`","tool":"slow","arguments":{"ms":1000},"timeoutMs":0}`)
				calls = append(calls, ch)
			}
			synctest.Wait()
			if n := seen[name](); n != want {
				t.Errorf("%s: %d calls run at once, want %d", name, n, want)
			}
			if late := r.do(VerbCall, `{"server":"`+name+`","tool":"echo","timeoutMs":10}`); !strings.Contains(late.raw, map[bool]string{true: "maxConcurrentCalls of its config", false: "limits.callsPerServer"}[name == "one"]) {
				t.Errorf("%s: %s", name, late.raw)
			}
			for _, ch := range calls {
				if a := <-ch; a.st != OK {
					t.Error(a.raw)
				}
			}
		}
		r.must(VerbConnect, `{"servers":{"one":{"command":"scripted","args":["one"],"maxConcurrentCalls":2}},"restart":true}`)
		before := seen["one"]()
		for range 4 {
			r.begin(VerbCall, `{"server":"one","tool":"slow","arguments":{"ms":1000},"timeoutMs":0}`)
		}
		synctest.Wait()
		if n := seen["one"]() - before; n != 2 {
			t.Errorf("%d calls run at once after the config changed, want 2", n)
		}
		r.m.Close(0)
	})
}
