package core

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

// testHost collects what a host would get.
type testHost struct {
	counting atomic.Bool // count notices instead of keeping them: for floods
	counted  atomic.Int64
	mu       sync.Mutex
	notices  []map[string]any
	requests map[uint64]map[string]any
	ended    map[uint64]Status
}

func (h *testHost) Notice(data []byte) {
	if h.counting.Load() {
		h.counted.Add(1)
		return
	}
	var n map[string]any
	if err := json.Unmarshal(data, &n); err != nil {
		panic("a notice is not JSON: " + string(data))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, n)
}

func (h *testHost) Request(tag uint64, data []byte) {
	var r map[string]any
	if err := json.Unmarshal(data, &r); err != nil {
		panic("a request is not JSON: " + string(data))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests == nil {
		h.requests, h.ended = map[uint64]map[string]any{}, map[uint64]Status{}
	}
	h.requests[tag] = r
}

func (h *testHost) RequestDone(tag uint64, st Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.ended[tag]; twice {
		panic("a request ended twice")
	}
	h.ended[tag] = st
}

func (h *testHost) of(kind string) []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []map[string]any
	for _, n := range h.notices {
		if n["type"] == kind {
			out = append(out, n)
		}
	}
	return out
}

// rig is a manager whose servers run in memory.
type rig struct {
	t    testing.TB
	m    *Manager
	host *testHost
}

// servers are what a rig's manager can start, by name: *mcptest.Memory, a function
// that gives one for a resolved config, or an error that every dial returns.
type servers map[string]any

func newRig(t testing.TB, have servers, options map[string]any) *rig {
	t.Helper()
	inline := map[string]any{}
	for name := range have {
		inline[name] = map[string]any{"command": "scripted", "args": []string{name}}
	}
	all := map[string]any{"cwd": t.TempDir(), "env": map[string]string{"HOME": "/nonexistent"}, "servers": inline,
		"cache": map[string]any{"enabled": false}, "discovery": map[string]any{"user": "none"}}
	for k, v := range options {
		if k == "config" {
			for name, extra := range v.(map[string]map[string]any) {
				for field, value := range extra {
					inline[name].(map[string]any)[field] = value
				}
			}
			continue
		}
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	host := &testHost{}
	m, err := open(raw, host, deps{dial: have.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(0) })
	return &rig{t, m, host}
}

func (have servers) dial(_ *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error) {
	switch s := have[e.Name].(type) {
	case func(*config.Resolved) *mcptest.Memory:
		return s(r).Dial, nil
	case *mcptest.Memory:
		return s.Dial, nil
	case *fault.Error:
		return nil, s
	}
	return nil, fmt.Errorf("no server %s", e.Name)
}

func cacheIn(dir string) map[string]any { return map[string]any{"dir": dir, "enabled": true} }

type answerOf struct {
	st  Status
	raw string
	obj map[string]any
}

func (a answerOf) code() string {
	e, _ := a.obj["error"].(map[string]any)
	c, _ := e["code"].(string)
	return c
}

func (a answerOf) names(field string) []string {
	var out []string
	list, _ := a.obj[field].([]any)
	for _, v := range list {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case map[string]any:
			out = append(out, v["name"].(string))
		}
	}
	return out
}

// begin starts an operation; the answer comes on the channel.
func (r *rig) begin(v Verb, req string) (<-chan answerOf, func()) {
	ch := make(chan answerOf, 2)
	cancel := r.m.Start(v, 1, []byte(req), func(st Status, rep Reply) {
		raw := string(rep.Head) + string(rep.Body) + string(rep.Tail)
		a := answerOf{st: st, raw: raw}
		if err := json.Unmarshal([]byte(raw), &a.obj); err != nil {
			panic("an answer is not JSON: " + raw)
		}
		ch <- a
	})
	return ch, cancel
}

func (r *rig) do(v Verb, req string) answerOf {
	ch, _ := r.begin(v, req)
	return <-ch
}

func (r *rig) must(v Verb, req string) answerOf {
	r.t.Helper()
	a := r.do(v, req)
	if a.st != OK {
		r.t.Fatalf("verb %d %s: status %d %s", v, req, a.st, a.raw)
	}
	return a
}

func echo() *mcptest.Memory {
	return mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo")}})
}

func slow(d time.Duration) *mcptest.Memory {
	return mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo")}, StartDelay: d})
}

// warm fills a cache directory by connecting the same servers once.
func warm(t *testing.T, dir string, names ...string) {
	t.Helper()
	have := servers{}
	for _, n := range names {
		have[n] = echo()
	}
	r := newRig(t, have, map[string]any{"cache": cacheIn(dir)})
	if a := r.must(VerbConnect, `{}`); len(a.names("connected")) != len(names) {
		t.Fatalf("warming: %s", a.raw)
	}
	r.m.Close(0)
}

// TestGateWarm: with the cache warm and every server slow, connect returns at
// the gate's end with all tools deferred; eager does not wait at all.
func TestGateWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, names := t.TempDir(), []string{}
		have := servers{}
		for i := range 8 {
			n := fmt.Sprintf("s%d", i)
			names = append(names, n)
			have[n] = slow(3 * time.Second)
		}
		warm(t, dir, names...)
		r := newRig(t, have, map[string]any{"cache": cacheIn(dir)})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took < 250*time.Millisecond || took > 275*time.Millisecond {
			t.Errorf("the gate took %v", took)
		}
		if got := a.names("deferred"); !slices.Equal(got, names) {
			t.Errorf("deferred %v", got)
		}
		if ms := a.obj["elapsedMs"].(float64); ms < 250 || ms > 275 {
			t.Errorf("elapsedMs %v", ms)
		}
		for _, tool := range a.obj["tools"].([]any) {
			if tool.(map[string]any)["deferred"] != true {
				t.Errorf("a tool is not deferred: %v", tool)
			}
		}
		call := r.must(VerbCall, `{"tool":"mcp_s3_echo","arguments":{"x":1}}`)
		if took := time.Since(start); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("the call to a deferred tool came after %v", took)
		}
		if !strings.Contains(call.raw, `{\"x\":1}`) {
			t.Errorf("result %s", call.raw)
		}
		synctest.Wait()
		live := 0
		for _, n := range r.host.of("tools_changed") {
			live += len(n["live"].([]any))
		}
		if live != 8 {
			t.Errorf("%d tools were announced as live", live)
		}
		r.m.Close(0)

		r = newRig(t, have, map[string]any{"cache": cacheIn(dir), "gate": "eager"})
		start = time.Now()
		a = r.must(VerbConnect, `{}`)
		if took := time.Since(start); took != 0 {
			t.Errorf("eager waited %v", took)
		}
		if len(a.names("deferred")) != 8 || len(a.names("tools")) != 8 {
			t.Errorf("eager: %s", a.raw)
		}
		r.m.Close(0)
	})
}

func TestGateCold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{"fast": echo(), "slow": slow(2 * time.Second), "hang": mcptest.NewMemory(mcptest.Script{StartDelay: time.Hour})}
		own := map[string]map[string]any{"hang": {"timeoutMs": 5000}}
		r := newRig(t, have, map[string]any{"config": own})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("wait: took %v, not the hanging server's own timeout", took)
		}
		if got := a.names("connected"); !slices.Equal(got, []string{"fast", "slow"}) {
			t.Errorf("connected %v", got)
		}
		if e := a.obj["errors"].(map[string]any)["hang"].(map[string]any); e["code"] != "timeout" || e["data"].(map[string]any)["timeoutMs"] != 5000.0 {
			t.Errorf("hang: %v", e)
		}
		r.m.Close(0)

		r = newRig(t, have, map[string]any{"config": own, "uncached": "background"})
		start = time.Now()
		a = r.must(VerbConnect, `{}`)
		if took := time.Since(start); took < 250*time.Millisecond || took > 275*time.Millisecond {
			t.Errorf("background: took %v", took)
		}
		if got := a.names("pending"); !slices.Equal(got, []string{"hang", "slow"}) {
			t.Errorf("pending %v", got)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		changed := r.host.of("tools_changed")
		last := changed[len(changed)-1]
		if last["server"] != "slow" || !strings.Contains(fmt.Sprint(last["added"]), "mcp_slow_echo") || last["revision"].(float64) <= a.obj["revision"].(float64) {
			t.Errorf("the late server was announced as %v", last)
		}
		r.m.Close(0)
	})
}

// TestIsolation: one good server, and three that fail each in its own way.
func TestIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{
			"good":    echo(),
			"missing": fault.New(fault.SpawnFailed, fault.StageSpawn, "no such program").With(fault.Data{Command: "no-such"}),
			"hang":    mcptest.NewMemory(mcptest.Script{SilentInitialize: true, Discover: mcptest.DiscoverSilence}),
			"exits":   mcptest.NewMemory(mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"}),
		}
		r := newRig(t, have, map[string]any{"uncached": "background"})
		start := time.Now()
		a := r.must(VerbConnect, `{}`)
		if took := time.Since(start); took > 275*time.Millisecond {
			t.Errorf("something waited for the hanging server: %v", took)
		}
		if !slices.Equal(a.names("tools"), []string{"mcp_good_echo"}) {
			t.Errorf("tools %v", a.names("tools"))
		}
		errs := a.obj["errors"].(map[string]any)
		if len(errs) != 2 {
			t.Errorf("errors %v", errs)
		}
		if e := errs["missing"].(map[string]any); e["code"] != "spawn_failed" || e["data"].(map[string]any)["command"] != "no-such" {
			t.Errorf("missing: %v", e)
		}
		e := errs["exits"].(map[string]any)
		data := e["data"].(map[string]any)
		if e["code"] != "exited" || data["exitCode"] != 3.0 || !strings.Contains(data["stderr"].(string), "no licence") {
			t.Errorf("exits: %v", e)
		}
		r.m.Close(0)
	})
}

func TestDisconnectDuringGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(100 * time.Millisecond)
		r := newRig(t, servers{"a": echo(), "b": s}, nil)
		connect, _ := r.begin(VerbConnect, `{}`)
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		r.must(VerbDisconnect, `{"server":"b"}`)
		if took := time.Since(start); took > time.Second {
			t.Errorf("disconnect took %v", took)
		}
		if n := s.Counts().Live; n != 0 {
			t.Errorf("%d connections live after disconnect", n)
		}
		a := <-connect
		if got := a.names("connected"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("connected %v", got)
		}
		time.Sleep(time.Minute)
		if a := r.must(VerbList, `{}`); !slices.Equal(a.names("tools"), []string{"mcp_a_echo"}) {
			t.Errorf("the disconnected server came back: %v", a.names("tools"))
		}
		if a := r.do(VerbCall, `{"server":"b","tool":"echo"}`); a.code() != "disconnected" {
			t.Errorf("a call to it: %s", a.raw)
		}
		r.must(VerbConnect, `{"only":["b"]}`)
		if a := r.must(VerbList, `{}`); len(a.names("tools")) != 2 {
			t.Errorf("connect did not revive it: %v", a.names("tools"))
		}
		r.m.Close(0)
	})
}

// TestReloadWhileConnecting: however often a reload replaces an attempt, one
// connection per server is left, and no two ever overlap.
func TestReloadWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(time.Second)
		r := newRig(t, servers{"a": s}, nil)
		first, _ := r.begin(VerbConnect, `{}`)
		var all []<-chan answerOf
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			ch, _ := r.begin(VerbReload, `{"mode":"full"}`)
			all = append(all, ch)
		}
		<-first
		for _, ch := range all {
			if a := <-ch; a.st != OK {
				t.Fatalf("reload: %s", a.raw)
			}
		}
		synctest.Wait()
		if c := s.Counts(); c.Live != 1 || c.MaxLive != 1 {
			t.Errorf("%d live, %d at once", c.Live, c.MaxLive)
		}
		a := r.must(VerbReload, `{}`)
		if ch := a.obj["changes"].(map[string]any); fmt.Sprint(ch["kept"]) != "[a]" {
			t.Errorf("changes %v", ch)
		}
		dials := s.Counts().Dials
		r.must(VerbReload, `{}`)
		if s.Counts().Dials != dials {
			t.Error("a diff reload restarted an unchanged server")
		}
		r.m.Close(0)
	})
}

// TestListChangedWhileListing: a change between tools/list and its answer is not lost.
func TestListChangedWhileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo")}, ListChanged: 1, ListDelay: 20 * time.Millisecond})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		time.Sleep(time.Second)
		if n := s.Counts().Lists; n != 2 {
			t.Errorf("%d lists", n)
		}
		before := s.Counts().Lists
		for range 20 {
			s.SetTools([]string{mcptest.Tool("echo"), mcptest.Tool("add")})
		}
		time.Sleep(time.Second)
		if n := s.Counts().Lists - before; n < 1 || n > 2 {
			t.Errorf("a burst of 20 changes cost %d lists", n)
		}
		if a := r.must(VerbList, `{}`); len(a.names("tools")) != 2 {
			t.Errorf("tools %v", a.names("tools"))
		}
		r.m.Close(0)
	})
}

// TestDeathInACall: the call fails at once and is not sent twice; the next one works.
func TestDeathInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("die"), mcptest.Tool("echo")}, Stderr: "last words\n"})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		start := time.Now()
		a := r.do(VerbCall, `{"tool":"mcp_a_die"}`)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the call failed after %v", took)
		}
		e, _ := a.obj["error"].(map[string]any)
		if a.st != EFailed || a.code() != "outcome_unknown" || e["data"].(map[string]any)["exitCode"] != 3.0 {
			t.Errorf("died: %s", a.raw)
		}
		if res, _ := a.obj["result"].(map[string]any); res["isError"] != true {
			t.Errorf("no result for the model: %s", a.raw)
		}
		r.must(VerbCall, `{"tool":"mcp_a_echo","arguments":{}}`)
		if c := s.Counts(); c.Calls["die"] != 1 || c.Live != 1 {
			t.Errorf("counts %+v", c.Calls)
		}
		r.m.Close(0)
	})
}

func TestManyFirstCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		s := slow(time.Second)
		r := newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir), "lazy": true})
		if a := r.must(VerbConnect, `{}`); len(a.names("tools")) != 1 || s.Counts().Dials != 0 {
			t.Fatalf("lazy: %d dials, %s", s.Counts().Dials, a.raw)
		}
		var all []<-chan answerOf
		for i := range 200 {
			ch, _ := r.begin(VerbCall, fmt.Sprintf(`{"tool":"mcp_a_echo","arguments":{"n":%d}}`, i))
			all = append(all, ch)
		}
		for i, ch := range all {
			if a := <-ch; a.st != OK || !strings.Contains(a.raw, fmt.Sprintf(`{\"n\":%d}`, i)) {
				t.Fatalf("call %d: %s", i, a.raw)
			}
		}
		if c := s.Counts(); c.Dials != 1 || c.Calls["echo"] != 200 {
			t.Errorf("%d dials, %d calls", c.Dials, c.Calls["echo"])
		}
		r.m.Close(0)
	})
}

// TestRawBytes: what a server sends comes back byte for byte.
func TestRawBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := `{ "content":[{"type":"hologram","x":9007199254740993,"é":"\u00e9\/"}],  "future":{"big":1.10e3, "n":-0.0} }`
		schema := `{"type":"object",  "properties":{"n":{"default":9007199254740993}},"$defs":{"é":true}}`
		def := `{"description":"d","x-unknown":[1, 2],"name":"raw","inputSchema":` + schema + `,"_meta":{"k":1.10}}`
		s := mcptest.NewMemory(mcptest.Script{Tools: []string{def}, Results: map[string]string{"raw": result}})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		a := r.must(VerbCall, `{"tool":"mcp_a_raw","arguments":{"n":9007199254740993}}`)
		if a.raw != `{"result":`+result+`}` {
			t.Errorf("result changed:\n%s\n%s", a.raw, result)
		}
		list := r.must(VerbList, `{}`)
		for _, part := range []string{`"inputSchema":` + schema, `"x-unknown":[1, 2]`, `"_meta":{"k":1.10}`} {
			if !strings.Contains(list.raw, part) {
				t.Errorf("the list lost %s: %s", part, list.raw)
			}
		}
		if got := s.Counts().Received; !strings.Contains(strings.Join(got, "\n"), `"arguments":{"n":9007199254740993}`) {
			t.Error("the arguments did not arrive as they were")
		}
		r.m.Close(0)
	})
}

func TestCloseDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{}), "b": slow(time.Hour)}, map[string]any{"uncached": "background"})
		r.must(VerbConnect, `{}`)
		var all []<-chan answerOf
		for range 20 {
			ch, _ := r.begin(VerbCall, `{"server":"a","tool":"hang","timeoutMs":0}`)
			all = append(all, ch)
			ch, _ = r.begin(VerbCall, `{"server":"b","tool":"echo"}`)
			all = append(all, ch)
			ch, _ = r.begin(VerbConnect, `{"only":["b"],"startupTimeoutMs":0}`)
			all = append(all, ch)
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		r.m.Close(100)
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("close took %v", took)
		}
		for _, ch := range all {
			if a := <-ch; a.st != EClosed || a.code() != "closed" {
				t.Fatalf("status %d %s", a.st, a.raw)
			}
		}
		if a := r.do(VerbList, `{}`); a.st != EClosed {
			t.Errorf("list after close: %s", a.raw)
		}
		r.m.Close(0)
	})
}

func TestCancelAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s, "b": slow(time.Hour)}, map[string]any{"uncached": "background"})
		r.must(VerbConnect, `{}`)
		for _, req := range []string{`{"server":"a","tool":"hang"}`, `{"server":"b","tool":"echo"}`} {
			ch, cancel := r.begin(VerbCall, req)
			time.Sleep(time.Millisecond)
			cancel()
			a := <-ch
			if a.st != ECanceled || a.code() != "canceled" || a.obj["result"] != nil {
				t.Errorf("%s cancelled: %d %s", req, a.st, a.raw)
			}
			start := time.Now()
			a = r.do(VerbCall, strings.Replace(req, "}", `,"timeoutMs":1500}`, 1))
			if took := time.Since(start); a.st != ETimeout || took < 1500*time.Millisecond || took > 1600*time.Millisecond {
				t.Errorf("%s timed out after %v: %s", req, took, a.raw)
			}
			if data := a.obj["error"].(map[string]any)["data"].(map[string]any); data["timeoutMs"] != 1500.0 {
				t.Errorf("%s: data %v", req, data)
			}
			if a.obj["result"] == nil {
				t.Errorf("%s: a timeout has no result for the model: %s", req, a.raw)
			}
		}
		synctest.Wait()
		if n := len(s.Counts().Cancelled); n != 2 {
			t.Errorf("the server heard of %d cancellations", n)
		}
		r.m.Close(0)
	})
}

// TestToolGone: a cached tool that the live list no longer has is refused, never sent.
func TestToolGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		s := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("add")}, StartDelay: time.Second})
		r := newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir)})
		r.must(VerbConnect, `{}`)
		if a := r.do(VerbCall, `{"tool":"mcp_a_echo","arguments":{}}`); a.code() != "tool_gone" {
			t.Errorf("gone: %s", a.raw)
		}
		if n := s.Counts().Calls["echo"]; n != 0 {
			t.Error("it was sent")
		}
		r.m.Close(0)
	})
}

// TestFailedServerGivesItsReason: its cached tools stay, marked, and a call says why.
func TestFailedServerGivesItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no licence\n"})}, map[string]any{"cache": cacheIn(dir)})
		r.must(VerbConnect, `{}`)
		time.Sleep(time.Minute)
		a := r.must(VerbList, `{}`)
		tool := a.obj["tools"].([]any)[0].(map[string]any)
		if tool["unavailable"] != true || tool["deferred"] != true {
			t.Errorf("tool %v", tool)
		}
		call := r.do(VerbCall, `{"tool":"mcp_a_echo"}`)
		if call.st != EFailed || !strings.Contains(call.raw, "no licence") {
			t.Errorf("call: %s", call.raw)
		}
		r.m.Close(0)
	})
}

func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, map[string]any{"config": map[string]map[string]any{"a": {"allowTools": []string{"e*", "add"}, "denyTools": []string{"elicit"}}}})
		a := r.must(VerbConnect, `{}`)
		if got := a.names("tools"); !slices.Equal(got, []string{"mcp_a_add", "mcp_a_echo", "mcp_a_env"}) {
			t.Errorf("tools %v", got)
		}
		for _, tool := range []string{"fail", "elicit"} {
			if a := r.do(VerbCall, `{"server":"a","tool":"`+tool+`"}`); a.code() != "filtered" {
				t.Errorf("%s: %s", tool, a.raw)
			}
		}
		if a := r.do(VerbCall, `{"server":"a","method":"tools/call","params":{"name":"fail"}}`); a.code() != "invalid_request" {
			t.Errorf("the method route passed the filter: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestElicitation passes a server's request to the host and its answer back.
func TestElicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{})}, map[string]any{"answers": []string{"elicitation"}})
		r.must(VerbConnect, `{}`)
		ch, _ := r.begin(VerbCall, `{"server":"a","tool":"elicit"}`)
		time.Sleep(40 * time.Second) // longer than the call's timeout: its clock stands still for a person
		synctest.Wait()
		var tag uint64
		r.host.mu.Lock()
		for tag = range r.host.requests {
			if r.host.requests[tag]["type"] != "elicitation/create" || r.host.requests[tag]["server"] != "a" {
				t.Errorf("request %v", r.host.requests[tag])
			}
		}
		r.host.mu.Unlock()
		if tag <= TagMax {
			t.Fatalf("tag %d", tag)
		}
		if st := r.m.Answer(tag, []byte(`{"result":{"action":"accept","content":{"name":"Ada"}}}`)); st != OK {
			t.Fatalf("answer: %d", st)
		}
		if a := <-ch; a.st != OK || !strings.Contains(a.raw, "Ada") {
			t.Errorf("call: %s", a.raw)
		}
		if st := r.m.Answer(tag, []byte(`{"result":{}}`)); st != ETag {
			t.Errorf("a second answer: %d", st)
		}
		if r.host.ended[tag] != OK {
			t.Errorf("the request ended with %d", r.host.ended[tag])
		}
		r.m.Close(0)
	})
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, servers{}, nil)
	for _, c := range []struct {
		v    Verb
		req  string
		code string
	}{
		{VerbCall, `{}`, "invalid_request"},
		{VerbCall, `[]`, "invalid_request"},
		{VerbCall, `{"tool":1}`, "invalid_request"},
		{VerbCall, `{"tool":"x","arguments":[]}`, "invalid_request"},
		{VerbCall, `{"tool":"x","method":"y"}`, "invalid_request"},
		{VerbCall, `{"tool":"x"}`, "unknown_tool"},
		{VerbCall, `{"server":"x","tool":"y"}`, "unknown_server"},
		{VerbCall, `{"server":"x","method":"initialize"}`, "invalid_request"},
		{VerbCall, `{"method":"mcprt/none"}`, "invalid_request"},
		{VerbCall, `{"tool":"x","retry":"maybe"}`, "invalid_request"},
		{VerbCall, `{"tool":"x","timeoutMs":-1}`, "invalid_request"},
		{VerbList, `{"kind":"nothing"}`, "invalid_request"},
		{VerbList, `{"format":"unheard-of"}`, "invalid_request"},
		{VerbList, `{"server":"x"}`, "unknown_server"},
		{VerbConnect, `{"gate":"never"}`, "invalid_request"},
		{VerbConnect, `{"startupTimeoutMs":-1}`, "invalid_request"},
		{VerbConnect, `{"servers":[]}`, "invalid_request"},
		{VerbReload, `{"mode":"half"}`, "invalid_request"},
		{VerbDisconnect, `{"server":"x"}`, "unknown_server"},
		{Verb(99), `{}`, "invalid_request"},
	} {
		if a := r.do(c.v, c.req); a.code() != c.code || a.st == OK {
			t.Errorf("%d %s: status %d %s", c.v, c.req, a.st, a.raw)
		}
	}
}

// TestCloseRacesEverything: whatever begins while the manager closes ends exactly
// once, and nothing is connected afterwards.
func TestCloseRacesEverything(t *testing.T) {
	for round := range 8 {
		a, b := echo(), echo()
		r := newRig(t, servers{"a": a, "b": b}, nil)
		r.must(VerbConnect, `{"only":["a"]}`)
		var ended, begun atomic.Int64
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				for i := range 40 {
					v := []Verb{VerbCall, VerbReload, VerbConnect, VerbDisconnect, VerbCall, VerbDiscover}[(i+worker)%6]
					req := map[Verb]string{VerbCall: `{"server":"b","tool":"echo"}`, VerbReload: `{"mode":"full"}`, VerbConnect: `{"servers":{"a":{"command":"scripted","args":["new"]}}}`}[v]
					begun.Add(1)
					once := new(atomic.Bool)
					r.m.Start(v, 0, []byte(req), func(Status, Reply) {
						if once.Swap(true) {
							t.Error("an operation ended twice")
						}
						ended.Add(1)
					})
				}
			})
		}
		time.Sleep(time.Duration(round%5) * 200 * time.Microsecond)
		r.m.Close(100)
		group.Wait()
		for end := time.Now().Add(10 * time.Second); ended.Load() != begun.Load() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if ended.Load() != begun.Load() {
			t.Fatalf("%d of %d operations ended", ended.Load(), begun.Load())
		}
		if live := a.Counts().Live + b.Counts().Live; live != 0 {
			t.Fatalf("round %d: %d connections are left", round, live)
		}
	}
}

// TestPing works in every version, also in that which has no ping any more.
func TestPing(t *testing.T) {
	for _, versions := range [][]string{nil, {mcptest.Modern}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{Versions: versions})}, nil)
			r.must(VerbConnect, `{}`)
			if a := r.must(VerbCall, `{"server":"a","method":"ping"}`); a.raw != `{"result":{}}` {
				t.Errorf("%v: %s", versions, a.raw)
			}
			r.m.Close(0)
		})
	}
}
