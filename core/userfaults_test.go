package core

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

// TestUserFaults are the faults that users of MCP clients report, one kind each; the
// letters and numbers are those of docs/fault-server.md's table of kinds. More rows
// are in userfaults_linux_test.go, and in the packages that own what they are about.
func TestUserFaults(t *testing.T) {
	for _, row := range []struct {
		name string
		test func(*testing.T)
	}{
		{"A1 banner and noise between messages", userFaultA1},
		{"A2 noise after the handshake", userFaultA2},
		{"A4 a flood of stderr", userFaultA4},
		{"A6 long lines and split characters", userFaultA6},
		{"A12 the reason of a failed start", userFaultA12},
		{"A13 killed during a call", userFaultA13},
		{"A15 parallel calls", userFaultA15},
		{"B2 restart while connecting", userFaultB2},
		{"B5 many sessions with the same servers", TestShare},
		{"B7 close in any order from anywhere", userFaultB7},
		{"C1 a session that expires", userFaultC1},
		{"C3 reconnect to a server of one session", userFaultC3},
		{"C4 GET is refused", userFaultC4},
		{"C6 line ends of event streams", userFaultC6},
		{"C8 private authority and proxy", TestRemoteTLSAndProxy},
		{"C10 metadata that never comes", userFaultC10},
		{"C11 a timeout above a minute", userFaultC11},
		{"D1 one bad server", userFaultD1},
		{"D2 one slow server", userFaultD2},
		{"D3 connect on the first call", userFaultD3},
		{"D4 servers that know no server/discover", userFaultD4},
		{"D5 a server that crashes", userFaultD5},
		{"D7 changes on a listen stream alone", userFaultD7},
		{"E1 tools past the first page", userFaultE1},
		{"E2 cursors that do not advance", userFaultE2},
		{"E3 long names", userFaultE3},
		{"E4 names with spaces and parentheses", userFaultE4},
		{"E6 schemas with references", userFaultE6},
		{"E7 schemas that are no objects", userFaultE7},
		{"F1 progress keeps a call alive", userFaultF1},
		{"F2 an abort reaches the server", userFaultF2},
		{"F4 large and doubled results", userFaultF4},
	} {
		t.Run(row.name, row.test)
	}
}

func sum(t *testing.T, r *rig, server string) {
	t.Helper()
	if a := r.do(VerbCall, `{"server":"`+server+`","tool":"add","arguments":{"a":40,"b":2}}`); a.st != OK || !strings.Contains(a.raw, `"42"`) {
		t.Errorf("add: %.500s", a.raw)
	}
}

func connected(t *testing.T, r *rig, names ...string) answerOf {
	t.Helper()
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	if got := a.names("connected"); !slices.Equal(got, names) {
		t.Fatalf("connected %q: %.2000s", got, a.raw)
	}
	return a
}

// skipped counts the lines that connections of r have passed over.
func skipped(r *rig) func() int64 {
	var mu sync.Mutex
	var conns []transport.Conn
	inner := r.m.deps.dial
	r.m.deps.dial = func(m *Manager, e *config.Entry, from *config.Resolved) (transport.Dial, error) {
		dial, err := inner(m, e, from)
		return func(ctx context.Context, rec transport.Receiver) (transport.Conn, error) {
			c, err := dial(ctx, rec)
			if err == nil {
				mu.Lock()
				conns = append(conns, c)
				mu.Unlock()
			}
			return c, err
		}, err
	}
	return func() (n int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			n += c.Info().Skipped
		}
		return n
	}
}

func userFaultA1(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {Banner: mcptest.DirtyLines(), Noise: mcptest.DirtyLines()}}, nil)
	count := skipped(r)
	connected(t, r, "s")
	for range 3 {
		sum(t, r, "s")
	}
	if n := count(); n < int64(4*len(mcptest.DirtyLines())) {
		t.Errorf("%d lines were counted", n)
	}
}

func userFaultA2(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {Noise: []string{"[info] tool called", `{"level":30,"msg":"x"}`}, NoiseLate: true}}, nil)
	count := skipped(r)
	connected(t, r, "s")
	start := time.Now()
	for range 5 {
		sum(t, r, "s")
	}
	if took := time.Since(start); took > 5*time.Second || count() == 0 {
		t.Errorf("%d lines, %v", count(), took)
	}
}

func userFaultA4(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {StderrBytes: 1 << 20}}, nil)
	connected(t, r, "s")
	for range 2 {
		if a := r.do(VerbCall, `{"server":"s","tool":"spam","arguments":{"bytes":1048576}}`); a.st != OK {
			t.Error(a.raw)
		}
	}
	sum(t, r, "s")
}

func userFaultA6(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {}}, nil)
	connected(t, r, "s")
	if a := r.do(VerbCall, `{"server":"s","tool":"big","arguments":{"bytes":5242880}}`); a.st != OK || strings.Count(a.raw, "0123456789abcdef") != 5<<20/16+1 {
		t.Errorf("%d bytes, %.300s", len(a.raw), a.raw)
	}
	for shift := range 3 { // each byte of a character falls on each boundary once
		a := r.do(VerbCall, fmt.Sprintf(`{"server":"s","tool":"unicode","arguments":{"bytes":300000,"shift":%d}}`, shift))
		if a.st != OK || strings.Count(a.raw, "€") != 100_000 || strings.Contains(a.raw, "\uFFFD") {
			t.Errorf("shift %d: %d characters, %.200s", shift, strings.Count(a.raw, "€"), a.raw)
		}
	}
}

func userFaultA12(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {ExitAtStart: mcptest.Code(3), Stderr: "API_KEY is not set\n"}}, map[string]any{"reconnect": "manual"})
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	e, _ := a.obj["errors"].(map[string]any)["s"].(map[string]any)
	data, _ := e["data"].(map[string]any)
	if e["code"] != "exited" || data["exitCode"] != 3.0 || data["command"] == nil || !strings.Contains(fmt.Sprint(data["stderr"]), "API_KEY is not set") {
		t.Errorf("%v", e)
	}
	for _, part := range []string{`"s"`, "code 3", "API_KEY is not set"} {
		if !strings.Contains(fmt.Sprint(e["message"]), part) {
			t.Errorf("%s is not in %q", part, e["message"])
		}
	}
}

func userFaultA13(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {}}, nil)
	connected(t, r, "s")
	other, _ := r.begin(VerbCall, `{"server":"s","tool":"hang","timeoutMs":1800000}`)
	start := time.Now()
	a := r.do(VerbCall, `{"server":"s","tool":"die","arguments":{"kill":true},"timeoutMs":1800000}`)
	b := <-other
	if took := time.Since(start); took > time.Second {
		t.Errorf("they failed after %v", took)
	}
	for _, a := range []answerOf{a, b} {
		if a.code() != "outcome_unknown" || !strings.Contains(a.raw, "SIGKILL") {
			t.Errorf("%s", a.raw)
		}
	}
	sum(t, r, "s") // by a new process
}

func userFaultA15(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"s": mcptest.NewMemory(mcptest.Script{})}, nil)
		connected(t, r, "s")
		start := time.Now()
		var all []<-chan answerOf
		for range 5 {
			ch, _ := r.begin(VerbCall, `{"server":"s","tool":"slow","arguments":{"ms":500}}`)
			all = append(all, ch)
		}
		for _, ch := range all {
			if a := <-ch; a.st != OK {
				t.Error(a.raw)
			}
		}
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("five calls of 0.5 s took %v", took)
		}
		r.m.Close(0)
	})
}

func userFaultB2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(100 * time.Millisecond)
		r := newRig(t, servers{"s": s}, nil)
		var all []<-chan answerOf
		for i := range 50 {
			verb, req := VerbConnect, `{"restart":true}`
			if i%2 == 1 {
				verb, req = VerbReload, `{"mode":"full"}`
			}
			ch, _ := r.begin(verb, req)
			all = append(all, ch)
			time.Sleep(time.Duration(i%7) * 20 * time.Millisecond)
		}
		for _, ch := range all {
			<-ch
		}
		r.must(VerbCall, `{"server":"s","tool":"echo","arguments":{}}`)
		synctest.Wait()
		if c := s.Counts(); c.Live != 1 || c.MaxLive != 1 {
			t.Errorf("%d processes, at most %d at once", c.Live, c.MaxLive)
		}
		r.m.Close(0)
		synctest.Wait()
		if n := s.Counts().Live; n != 0 {
			t.Errorf("%d processes after close", n)
		}
	})
}

func userFaultB7(t *testing.T) {
	const n = 6
	for round := range 4 {
		var all []*rig
		for range n {
			r := newRig(t, servers{"s": echo()}, nil)
			connected(t, r, "s")
			all = append(all, r)
		}
		var wait sync.WaitGroup
		for i := range n {
			r := all[(i*5+round)%n]
			wait.Go(func() {
				call, _ := r.begin(VerbCall, `{"server":"s","tool":"echo","arguments":{}}`)
				r.m.Close(int32(round) - 1)
				r.m.Close(0)
				if a := <-call; a.st != OK && a.st != EClosed && a.code() != "outcome_unknown" {
					t.Errorf("%d %s", a.st, a.raw)
				}
			})
		}
		wait.Wait()
	}
}

func userFaultC1(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) { h.ExpireAfter = 1 })
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	connected(t, r, "s")
	for range 3 {
		sum(t, r, "s")
	}
	if c := server.Counts(); c.Calls["add"] != 3 || c.Initializes > 4 {
		t.Errorf("%d calls, %d sessions", c.Calls["add"], c.Initializes)
	}

	// A server that knows no session at all: the call ends, and soon.
	var posts atomic.Int64
	lost := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if !strings.Contains(string(body), `"tools/call"`) {
				return false
			}
			posts.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return true
		}
	})
	r = openHTTP(t, map[string]any{"s": map[string]any{"url": lost.URL}}, nil)
	connected(t, r, "s")
	a := r.do(VerbCall, `{"server":"s","tool":"add","arguments":{"a":1,"b":2},"timeoutMs":15000}`)
	if a.st == OK || a.code() == "timeout" || posts.Load() > 5 {
		t.Errorf("after %d tries: %s", posts.Load(), a.raw)
	}
}

func userFaultC3(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) { h.OneSession = true })
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	connected(t, r, "s")
	sum(t, r, "s")
	for range 2 {
		if a := r.must(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`); len(a.names("connected")) != 1 {
			t.Fatalf("restart: %s", a.raw)
		}
		sum(t, r, "s")
	}
	_, _, deletes := server.Requests()
	if c := server.Counts(); len(deletes) != 2 || c.Initializes != 3 || c.MaxLive != 1 {
		t.Errorf("%d sessions deleted, %d made, %d at once", len(deletes), c.Initializes, c.MaxLive)
	}
	server.Forget() // a restart of the server: new ids
	sum(t, r, "s")
}

func userFaultC4(t *testing.T) {
	for _, status := range []int{404, 405, 406, 400, 501} {
		server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) { h.NoGet = status })
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
		connected(t, r, "s")
		for range 2 {
			sum(t, r, "s")
		}
		if v := r.server("s"); v["state"] != "ready" || server.Counts().Initializes != 1 {
			t.Errorf("%d: %v, %d sessions", status, v["state"], server.Counts().Initializes)
		}
	}
}

func userFaultC6(t *testing.T) {
	for _, sse := range []bool{false, true} {
		for _, newline := range []string{"\n", "\r\n", "\r"} {
			for _, bytewise := range []bool{false, true} {
				server := serveScript(t, mcptest.Script{Versions: []string{"2024-11-05"}}, func(h *mcptest.HTTP) { h.SSE, h.Newline, h.ByteByByte = sse, newline, bytewise })
				r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
				connected(t, r, "s")
				if a := r.do(VerbCall, `{"server":"s","tool":"unicode","arguments":{"bytes":60}}`); a.st != OK || strings.Count(a.raw, "€") != 20 {
					t.Errorf("sse %v, %q, byte by byte %v: %s", sse, newline, bytewise, a.raw)
				}
				r.m.Close(0)
			}
		}
	}
}

func userFaultC10(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) { h.Unauthorized = true })
	good := serveScript(t, mcptest.Script{}, nil)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL, "timeoutMs": 2000}, "good": map[string]any{"url": good.URL}}, nil)
	start := time.Now()
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the start took %v", took)
	}
	if !slices.Equal(a.names("connected"), []string{"good"}) || !strings.Contains(a.raw, "needs_auth") {
		t.Error(a.raw)
	}
	sum(t, r, "good")
	for _, c := range []struct {
		answers []string // with "authorization" a call begins a sign-in
		server  int
	}{{nil, 2000}, {[]string{"authorization"}, 1000}, {[]string{"authorization"}, 60_000}} {
		answers := c.answers
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL, "timeoutMs": c.server}}, map[string]any{"answers": answers})
		r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		start := time.Now()
		if a := r.do(VerbCall, `{"server":"s","tool":"add","timeoutMs":2000}`); a.st == OK || time.Since(start) > 5*time.Second {
			t.Errorf("%q: after %v: %s", answers, time.Since(start), a.raw)
		}
		start = time.Now()
		if r.m.Close(300); time.Since(start) > 2*time.Second {
			t.Errorf("close took %v", time.Since(start))
		}
	}
}

func userFaultC11(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func() *mcptest.Memory {
			return mcptest.NewMemory(mcptest.Script{InitializeDelay: 70 * time.Second, Tools: []string{mcptest.Tool("echo")}})
		}
		r := newRig(t, servers{"a": late(), "b": late()}, map[string]any{"startupTimeoutMs": 0,
			"config": map[string]map[string]any{"a": {"timeoutMs": 90_000}, "b": {"timeoutMs": 65_000}}})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took < 70*time.Second || took > 71*time.Second || !slices.Equal(a.names("connected"), []string{"a"}) {
			t.Errorf("after %v: %s", took, a.raw)
		}
		if e, _ := a.obj["errors"].(map[string]any)["b"].(map[string]any); e["code"] != "timeout" || e["data"].(map[string]any)["timeoutMs"] != 65_000.0 {
			t.Errorf("b: %v", e)
		}
		r.m.Close(0)
	})
}

func userFaultD1(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{
		"good": {}, "hang": {StartDelay: time.Hour}, "exits": {ExitAtStart: mcptest.Code(1)},
	}, map[string]any{"server missing": map[string]any{"command": "mcprt-no-such-program"}, "uncached": "background", "reconnect": "manual"})
	a := r.must(VerbConnect, `{"startupTimeoutMs":3000}`)
	if !slices.Equal(a.names("connected"), []string{"good"}) || len(a.names("tools")) != len(mcptest.DefaultTools()) {
		t.Errorf("%.2000s", a.raw)
	}
	errs := a.obj["errors"].(map[string]any)
	if errs["missing"].(map[string]any)["code"] != "spawn_failed" || errs["exits"].(map[string]any)["code"] != "exited" || len(errs) != 2 {
		t.Errorf("%v", errs)
	}
	sum(t, r, "good")
}

func userFaultD2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, have, names := t.TempDir(), servers{}, []string{}
		for i := range 20 {
			n := fmt.Sprintf("s%02d", i)
			names, have[n] = append(names, n), echo()
		}
		warm(t, dir, names...)
		have["s07"] = slow(30 * time.Second)
		r := newRig(t, have, map[string]any{"cache": cacheIn(dir), "timeoutMs": 60_000})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took > 275*time.Millisecond || len(a.names("tools")) != 20 || !slices.Equal(a.names("deferred"), []string{"s07"}) {
			t.Errorf("after %v: %.2000s", took, a.raw)
		}
		r.must(VerbCall, `{"server":"s08","tool":"echo","arguments":{}}`)
		r.must(VerbCall, `{"server":"s07","tool":"echo","arguments":{}}`)
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the call to the slow one came after %v", took)
		}
		r.m.Close(0)
	})
}

func userFaultD3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a", "b")
		a, b := echo(), echo()
		r := newRig(t, servers{"a": a, "b": b}, map[string]any{"cache": cacheIn(dir), "lazy": true})
		start := r.must(VerbConnect, `{}`)
		time.Sleep(time.Minute)
		if a.Counts().Dials+b.Counts().Dials != 0 || len(start.names("tools")) != 2 || len(r.must(VerbList, `{"kind":"tools"}`).names("tools")) != 2 {
			t.Errorf("%d and %d starts: %s", a.Counts().Dials, b.Counts().Dials, start.raw)
		}
		r.must(VerbCall, `{"server":"a","tool":"echo","arguments":{}}`)
		if a.Counts().Dials != 1 || b.Counts().Dials != 0 {
			t.Errorf("the call started %d and %d", a.Counts().Dials, b.Counts().Dials)
		}
		r.m.Close(0)
	})
}

func userFaultD4(t *testing.T) {
	scripts := map[string]mcptest.Script{}
	for _, how := range []mcptest.Discover{mcptest.DiscoverExit, mcptest.DiscoverSilence, mcptest.DiscoverMethodNotFound, mcptest.DiscoverInvalidParams} {
		scripts[string(how)] = mcptest.Script{Discover: how}
	}
	scripts["strict"] = mcptest.Script{RequireInitialize: true}
	r := newProcessRig(t, scripts, nil)
	start := time.Now()
	connected(t, r, "exit", "invalidParams", "methodNotFound", "silence", "strict")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for name := range scripts {
		sum(t, r, name)
	}
}

func userFaultD5(t *testing.T) {
	for _, c := range []struct {
		crashes int
		state   string
	}{{1, "ready"}, {3, "ready"}, {1 << 20, "failed"}} {
		t.Run(fmt.Sprint(c.crashes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var healed atomic.Bool
				s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
					if dial <= c.crashes && !healed.Load() {
						return mcptest.Script{ExitAtInitialize: mcptest.Code(7), Stderr: "out of memory\n"}
					}
					return mcptest.Script{}
				})
				r := newRig(t, servers{"s": s}, nil)
				r.must(VerbConnect, `{}`)
				time.Sleep(time.Minute)
				v := r.server("s")
				if v["state"] != c.state || s.Counts().Dials > 2*maxStarts { // a start may try a second process without the probe
					t.Errorf("%v after %d starts", v["state"], s.Counts().Dials)
				}
				if c.state == "failed" && !strings.Contains(fmt.Sprint(v["error"]), "out of memory") {
					t.Errorf("the reason is lost: %v", v["error"])
				}
				healed.Store(true)
				sum(t, r, "s")
				r.m.Close(0)
			})
		})
	}
}

func userFaultD7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{Versions: []string{mcptest.Modern}, Tools: []string{mcptest.Tool("one")}})
		r := newRig(t, servers{"s": s}, nil)
		connected(t, r, "s")
		synctest.Wait() // the listen request is out
		s.SetTools([]string{mcptest.Tool("one"), mcptest.Tool("two")})
		time.Sleep(time.Second)
		if got := r.must(VerbList, `{"kind":"tools"}`).names("tools"); !slices.Equal(got, []string{"mcp_s_one", "mcp_s_two"}) || len(r.host.of("tools_changed")) == 0 {
			t.Errorf("%q", got)
		}
		r.m.Close(0)
	})
}

func userFaultE1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"s": mcptest.NewMemory(mcptest.Script{Tools: mcptest.NumberedTools(101), PageSize: 50})}, nil)
		a := connected(t, r, "s")
		got := a.names("tools")
		if len(got) != 101 || got[0] != "mcp_s_tool_0000" || got[100] != "mcp_s_tool_0100" {
			t.Errorf("%d tools", len(got))
		}
		r.must(VerbCall, `{"tool":"mcp_s_tool_0100","arguments":{}}`)
		r.m.Close(0)
	})
}

func userFaultE2(t *testing.T) {
	for cursors, want := range map[mcptest.Cursors]int{
		mcptest.CursorsSame: -2, mcptest.CursorsABA: -3, mcptest.CursorsNew: -20, mcptest.CursorsNumber: -1, mcptest.CursorsEmpty: 10, mcptest.CursorsNull: 10,
	} {
		t.Run(string(cursors), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.NewMemory(mcptest.Script{Tools: mcptest.NumberedTools(10), PageSize: 4, Cursors: cursors})
				r := newRig(t, servers{"s": s, "good": echo()}, map[string]any{"startupTimeoutMs": 0, "limits": map[string]any{"pages": 20}})
				a := r.must(VerbConnect, `{}`)
				e, _ := a.obj["errors"].(map[string]any)["s"].(map[string]any)
				lists := s.Counts().Lists
				switch {
				case want > 0 && len(a.names("tools")) != want+1:
					t.Errorf("%d tools: %v", len(a.names("tools")), e)
				case want < 0 && (e["code"] != "protocol" && e["code"] != "too_large" || lists > -want || len(a.names("tools")) != 1):
					t.Errorf("after %d lists: %v", lists, e)
				}
				r.m.Close(0)
			})
		})
	}
}

func userFaultE3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := strings.Repeat("s", 40)
		s := mcptest.NewMemory(mcptest.Script{Tools: mcptest.LongNamedTools(2, 60)})
		r := newRig(t, servers{name: s}, nil)
		a := connected(t, r, name)
		got := a.names("tools")
		if len(got) != 2 || got[0] == got[1] {
			t.Fatalf("%q", got)
		}
		for i, n := range got {
			if len(n) > 64 {
				t.Errorf("%d bytes: %s", len(n), n)
			}
			r.must(VerbCall, `{"tool":"`+n+`","arguments":{}}`)
			raw := a.obj["tools"].([]any)[i].(map[string]any)["tool"].(string)
			if s.Counts().Calls[raw] != 1 {
				t.Errorf("%s did not call %s", n, raw)
			}
		}
		r.m.Close(0)
	})
}

func userFaultE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{"my server (local)": echo(), "käse/brot": echo(), "a.b": echo(), "日本": echo()}
		r := newRig(t, have, nil)
		a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		if len(a.names("connected")) != len(have) || len(a.names("tools")) != len(have) {
			t.Fatalf("%s", a.raw)
		}
		for _, n := range a.names("tools") {
			if len(n) > 64 || strings.ContainsFunc(n, func(c rune) bool {
				return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", c)
			}) {
				t.Errorf("%q", n)
			}
			r.must(VerbCall, `{"tool":"`+n+`","arguments":{}}`)
		}
		for n, s := range have {
			if c := s.(*mcptest.Memory).Counts().Calls["echo"]; c != 1 {
				t.Errorf("%s was called %d times", n, c)
			}
		}
		r.m.Close(0)
	})
}

// sentAsTheyWere: each definition's input schema is in the answer byte for byte.
func sentAsTheyWere(t *testing.T, tools []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"s": mcptest.NewMemory(mcptest.Script{Tools: tools})}, nil)
		a := connected(t, r, "s")
		if got := a.names("tools"); len(got) != len(tools) {
			t.Fatalf("%q: %s", got, a.raw)
		}
		for _, raw := range tools {
			var tool struct {
				Name        string
				InputSchema json.RawMessage `json:"inputSchema"`
			}
			if err := json.Unmarshal([]byte(raw), &tool); err != nil {
				t.Fatal(err)
			}
			if tool.InputSchema != nil && !strings.Contains(a.raw, `"inputSchema":`+string(tool.InputSchema)) {
				t.Errorf("%s is not in %s", tool.InputSchema, a.raw)
			}
			r.must(VerbCall, `{"server":"s","tool":"`+tool.Name+`","arguments":{}}`)
		}
		r.m.Close(0)
	})
}

func userFaultE6(t *testing.T) { sentAsTheyWere(t, mcptest.RefSchemas()) }

func userFaultE7(t *testing.T) { sentAsTheyWere(t, mcptest.OddSchemas()) }

func userFaultF1(t *testing.T) {
	for _, listener := range []bool{true, false} {
		t.Run(fmt.Sprint("listener ", listener), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, servers{"s": mcptest.NewMemory(mcptest.Script{})}, map[string]any{"maxTimeoutMs": 5000})
				connected(t, r, "s")
				call := func(n int) (answerOf, time.Duration) {
					start := time.Now()
					a := r.do(VerbCall, fmt.Sprintf(`{"server":"s","tool":"progress","arguments":{"n":%d,"everyMs":300},"timeoutMs":1000,"progress":%v}`, n, listener))
					return a, time.Since(start)
				}
				if a, took := call(10); a.st != OK || took != 3*time.Second {
					t.Errorf("3 s of progress: %v, %s", took, a.raw)
				}
				if a, took := call(100); a.code() != "timeout" || took != 5*time.Second {
					t.Errorf("the ceiling: %v, %s", took, a.raw)
				}
				if a := r.do(VerbCall, `{"server":"s","tool":"hang","timeoutMs":1000}`); a.code() != "timeout" {
					t.Errorf("silence: %s", a.raw)
				}
				if n := len(r.host.of("progress")); listener != (n > 0) {
					t.Errorf("%d notices", n)
				}
				r.m.Close(0)
			})
		})
	}
}

func userFaultF2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		never := mcptest.NewMemory(mcptest.Script{SilentInitialize: true})
		r := newRig(t, servers{"s": s, "never": never}, map[string]any{"uncached": "background", "reconnect": "manual", "config": map[string]map[string]any{"never": {"timeoutMs": 3000}}})
		r.must(VerbConnect, `{}`)
		ch, cancel := r.begin(VerbCall, `{"server":"s","tool":"hang"}`)
		time.Sleep(time.Second)
		cancel()
		if a := <-ch; a.st != ECanceled {
			t.Errorf("abort: %d %s", a.st, a.raw)
		}
		if a := r.do(VerbCall, `{"server":"s","tool":"late","arguments":{"ms":2000},"timeoutMs":1000}`); a.code() != "timeout" {
			t.Errorf("timeout: %s", a.raw)
		}
		time.Sleep(3 * time.Second) // the late answer comes, and so has the end of never
		if got := s.Counts().Cancelled; len(got) != 2 {
			t.Errorf("the server was told of %q", got)
		}
		if got := never.Counts().Cancelled; len(got) != 0 {
			t.Errorf("initialize was cancelled: %q", got)
		}
		sum(t, r, "s")
		r.m.Close(0)
	})
}

func userFaultF4(t *testing.T) {
	r := newProcessRig(t, map[string]mcptest.Script{"s": {}}, map[string]any{"limits": map[string]any{"messageBytes": 20 << 20}})
	connected(t, r, "s")
	a := r.do(VerbCall, `{"server":"s","tool":"picture","arguments":{"bytes":6291456}}`)
	if size := 6291456 / 3 * 4; a.st != OK || len(a.raw) < 2*size || len(a.raw) > 2*size+1000 || strings.Contains(a.raw, `"type":"text"`) {
		t.Errorf("%d bytes for an image and its copy: %.200s", len(a.raw), a.raw)
	}
	if a := r.do(VerbCall, `{"server":"s","tool":"lines","arguments":{"n":300000}}`); a.st != OK || !strings.Contains(a.raw, `line 300000\n`) {
		t.Errorf("%d bytes: %.200s", len(a.raw), a.raw)
	}
	if a := r.do(VerbCall, `{"server":"s","tool":"big","arguments":{"bytes":25000000}}`); a.code() != "too_large" {
		t.Errorf("above the limit: %.300s", a.raw)
	}
	sum(t, r, "s")
}
