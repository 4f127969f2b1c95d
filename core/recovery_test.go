package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// server gives one server's view.
func (r *rig) server(name string) map[string]any {
	r.t.Helper()
	a := r.must(VerbList, `{"kind":"servers","server":"`+name+`"}`)
	return a.obj["servers"].([]any)[0].(map[string]any)
}

// TestCrashLoop: five starts, then the server is left alone with the reason; a call
// after half a minute tries once, a restart begins anew.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		s := mcptest.NewMemoryFunc(func(int) mcptest.Script {
			if broken {
				return mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"}
			}
			return mcptest.Script{}
		})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		time.Sleep(29 * time.Second)
		if n := s.Counts().Dials; n != maxStarts {
			t.Errorf("%d starts", n)
		}
		v := r.server("a")
		e, _ := v["error"].(map[string]any)
		if v["state"] != "failed" || e["code"] != "crash_loop" || !strings.Contains(fmt.Sprint(e), "no licence") || !strings.Contains(fmt.Sprint(e), "not started again by itself") || v["retryAt"] == nil {
			t.Errorf("after the loop: %v", v)
		}
		if a := r.do(VerbCall, `{"server":"a","tool":"echo"}`); a.code() != "crash_loop" || s.Counts().Dials != maxStarts {
			t.Errorf("a call too early: %s, %d starts", a.raw, s.Counts().Dials)
		}
		time.Sleep(31 * time.Second)
		start := time.Now()
		if a := r.do(VerbCall, `{"server":"a","tool":"echo"}`); a.code() != "crash_loop" || !strings.Contains(a.raw, "no licence") {
			t.Errorf("a call in time: %s", a.raw)
		}
		if took := time.Since(start); took != 0 || s.Counts().Dials != maxStarts+1 {
			t.Errorf("it tried %d times in %v, not once", s.Counts().Dials-maxStarts, took)
		}
		time.Sleep(time.Hour)
		if n := s.Counts().Dials; n != maxStarts+1 {
			t.Errorf("it was started %d times by itself afterwards", n-maxStarts-1)
		}
		broken = false
		r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		broken = true
		s.Kill(9)
		time.Sleep(time.Minute)
		if v := r.server("a"); v["state"] != "failed" {
			t.Errorf("died again: %v", v)
		}
		broken = false
		before := s.Counts().Dials
		if a := r.must(VerbConnect, `{"only":["a"],"restart":true}`); len(a.names("connected")) != 1 || s.Counts().Dials != before+1 {
			t.Errorf("restart: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestReconnect: what each policy does when a server is lost.
func TestReconnect(t *testing.T) {
	for _, c := range []struct {
		policy, state string
		dials         int // after the loss
		call          string
	}{
		{"auto", "ready", 2, ""},
		{"onCall", "idle", 1, ""},
		{"manual", "failed", 1, "exited"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.NewMemory(mcptest.Script{})
				r := newRig(t, servers{"a": s}, map[string]any{"reconnect": c.policy})
				r.must(VerbConnect, `{}`)
				time.Sleep(stableAfter)
				s.Kill(9)
				synctest.Wait()
				time.Sleep(time.Minute)
				if v := r.server("a"); v["state"] != c.state || s.Counts().Dials != c.dials {
					t.Errorf("after the loss: %v, %d dials", v["state"], s.Counts().Dials)
				}
				if a := r.do(VerbCall, `{"server":"a","tool":"echo"}`); a.code() != c.call {
					t.Errorf("a call then: %s", a.raw)
				}
				r.must(VerbConnect, `{"only":["a"],"restart":true}`)
				r.must(VerbCall, `{"server":"a","tool":"echo"}`)
				r.m.Close(0)
			})
		})
	}
}

// TestRetry: what a call does whose server died before it answered.
func TestRetry(t *testing.T) {
	tool := func(name, hints string) string {
		return `{"name":"` + name + `","inputSchema":{},"annotations":{` + hints + `}}`
	}
	for _, c := range []struct {
		tool, retry string
		sent        int
		code        string
	}{
		{"plain", "", 1, "outcome_unknown"},
		{"plain", "safe", 1, "outcome_unknown"},
		{"plain", "always", 2, ""},
		{"reads", "", 2, ""},
		{"reads", "never", 1, "outcome_unknown"},
		{"same", "safe", 2, ""},
		{"lies", "safe", 1, "outcome_unknown"},
	} {
		t.Run(c.tool+" "+c.retry, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
					script := mcptest.Script{Do: map[string]string{}, Tools: []string{tool("plain", ""), tool("reads", `"readOnlyHint":true`),
						tool("same", `"idempotentHint":true`), tool("lies", `"readOnlyHint":"true","destructiveHint":true`)}}
					if dial == 1 {
						script.Do[c.tool] = "die"
					}
					return script
				})
				r := newRig(t, servers{"a": s}, nil)
				r.must(VerbConnect, `{}`)
				a := r.do(VerbCall, `{"server":"a","tool":"`+c.tool+`","retry":"`+c.retry+`"}`)
				if a.code() != c.code || s.Counts().Calls[c.tool] != c.sent {
					t.Errorf("sent %d times: %s", s.Counts().Calls[c.tool], a.raw)
				}
				r.must(VerbCall, `{"server":"a","tool":"`+c.tool+`"}`)
				r.m.Close(0)
			})
		})
	}
}

// TestRetryIsBounded: a tool that kills its server each time is not sent for ever.
func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		a := r.do(VerbCall, `{"server":"a","tool":"die","retry":"always"}`)
		if n := s.Counts().Calls["die"]; a.code() != "outcome_unknown" || n != 1+maxResends {
			t.Errorf("sent %d times: %s", n, a.raw)
		}
		r.m.Close(0)
	})
}

// TestUnwrittenIsSentAgain: a call that never reached its server is sent to the
// next one, whatever its tool does; "never" is about calls that may have run.
func TestUnwrittenIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		r.must(VerbCall, `{"server":"a","tool":"deaf"}`)
		ch, _ := r.begin(VerbCall, `{"server":"a","tool":"echo","arguments":{"n":1},"retry":"never"}`)
		synctest.Wait()
		s.Kill(1)
		if a := <-ch; a.st != OK || s.Counts().Calls["echo"] != 1 {
			t.Errorf("sent %d times: %s", s.Counts().Calls["echo"], a.raw)
		}
		r.m.Close(0)
	})
}

// TestRestartEndsOld: the old connection has ended before the new one begins, and a
// call in flight is not left waiting.
func TestRestartEndsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{IgnoreEOF: true, IgnoreTerm: true})
		r := newRig(t, servers{"a": s}, map[string]any{"graceMs": 1000})
		r.must(VerbConnect, `{}`)
		ch, _ := r.begin(VerbCall, `{"server":"a","tool":"hang"}`)
		time.Sleep(time.Millisecond)
		start := time.Now()
		a := r.must(VerbConnect, `{"only":["a"],"restart":true,"startupTimeoutMs":0}`)
		within(t, "the restart", time.Since(start), time.Second)
		if len(a.names("connected")) != 1 || s.Counts().MaxLive != 1 {
			t.Errorf("%d lived at once: %s", s.Counts().MaxLive, a.raw)
		}
		if call := <-ch; call.code() != "outcome_unknown" {
			t.Errorf("the call in flight: %s", call.raw)
		}
		r.m.Close(0)
	})
}

// TestCancelDuringResend: a call that looks for its server again can be cancelled.
func TestCancelDuringResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
			if dial == 1 {
				return mcptest.Script{}
			}
			return mcptest.Script{StartDelay: time.Hour}
		})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		ch, cancel := r.begin(VerbCall, `{"server":"a","tool":"die","retry":"always","timeoutMs":0}`)
		time.Sleep(2 * time.Second)
		cancel()
		synctest.Wait()
		select {
		case a := <-ch:
			if a.st != ECanceled {
				t.Errorf("cancelled: %s", a.raw)
			}
		default:
			t.Error("the cancellation was lost")
		}
		r.m.Close(0)
	})
}

// TestErrorsWhileTryingAgain: a server that failed has its error in the reply and in
// its view also in the moments in which the next attempt runs.
func TestErrorsWhileTryingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
			if dial == 1 {
				return mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"}
			}
			return mcptest.Script{StartDelay: time.Hour}
		})
		r := newRig(t, servers{"a": s, "b": slow(time.Hour)}, map[string]any{"uncached": "background", "startupTimeoutMs": 2000})
		a := r.must(VerbConnect, `{}`)
		if s.Counts().Dials != 2 {
			t.Fatalf("%d dials", s.Counts().Dials)
		}
		if e, _ := a.obj["errors"].(map[string]any)["a"].(map[string]any); e["code"] != "exited" {
			t.Errorf("errors %v", a.obj["errors"])
		}
		if got := a.names("pending"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("pending %v", got)
		}
		if v := r.server("a"); v["state"] != "connecting" || v["error"] == nil {
			t.Errorf("view %v", v)
		}
		r.m.Close(0)
	})
}

// TestLateCallSaysWhy: a call that waited in vain for a server that is tried again
// and again says what is wrong with it.
func TestLateCallSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := fault.New(fault.Exited, fault.StageReceive, "no licence was found").Retry()
		r := newRig(t, servers{"a": down}, nil)
		r.must(VerbConnect, `{}`)
		a := r.do(VerbCall, `{"server":"a","tool":"echo","timeoutMs":700}`)
		if a.st != ETimeout || !strings.Contains(a.raw, "no licence was found") || !strings.Contains(a.raw, "700 ms") {
			t.Errorf("status %d %s", a.st, a.raw)
		}
		r.m.Close(0)
	})
}

// TestLateCallOfARemovedServer: a reload removed the server, and the call's time is
// over before it could begin to wait.
func TestLateCallOfARemovedServer(t *testing.T) {
	r := newRig(t, servers{"a": echo()}, nil)
	r.must(VerbConnect, `{}`)
	var got string
	op := &callOp{m: r.m, began: time.Now().Add(-time.Second), timeout: time.Millisecond, req: callRequest{Server: "gone", Tool: "echo"},
		out: &outcome{done: func(_ Status, reply Reply) { got = string(reply.Body) }}}
	op.demand()
	if !strings.Contains(got, `"code":"unknown_server"`) {
		t.Errorf("got %s", got)
	}
	r.m.Close(0)
}
