package core

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestParity has the checks of docs/parity.md that no other test makes.
func TestParity(t *testing.T) {
	for _, check := range []struct {
		name string
		test func(*testing.T)
	}{
		{"6 a failed list is told though its server does not end", parityFailedList},
		{"7 a handshake that timed out is tried again", parityHandshakeTimeout},
		{"8 a disconnect stops that", parityDisconnectStopsRetry},
		{"10 enabling a server adds its tools", parityEnable},
		{"11 the states of a lost server", parityStates},
		{"14 an aborted handshake is no error", parityAborted},
		{"15 names with a colon", parityColon},
		{"20 a shorter life of the cache", parityCacheLife},
		{"22 templates that fail", parityTemplates},
		{"27 who hears of a change sees it", parityChangeIsSeen},
		{"32 the server's name for a request", parityTraceID},
		{"36 a notification whose refusal stalls", parityNotifyStalls},
		{"39 the stream outlives a request's time", parityStreamOutlives},
		{"40 silence without a timeout", paritySilence},
		{"41 close ends a POST of HTTP+SSE", parityPendingPost},
	} {
		t.Run(check.name, check.test)
	}
}

func parityFailedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
			if dial == 1 {
				return mcptest.Script{Cursors: mcptest.CursorsNumber, IgnoreEOF: true, IgnoreTerm: true}
			}
			return mcptest.Script{}
		})
		r := newRig(t, servers{"a": s}, map[string]any{"reconnect": "manual"})
		start := time.Now()
		a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		if e, _ := a.obj["errors"].(map[string]any)["a"].(map[string]any); e["code"] != "protocol" || time.Since(start) > time.Second {
			t.Errorf("after %v: %s", time.Since(start), a.raw)
		}
		if a := r.must(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`); len(a.names("connected")) != 1 || s.Counts().MaxLive != 1 {
			t.Errorf("again: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// states are the states of a server that the host was told of, in order.
func (r *rig) states(name string) (out []string) {
	for _, n := range r.host.of("server_state") {
		if s := n["state"].(string); n["name"] == name && (len(out) == 0 || out[len(out)-1] != s) {
			out = append(out, s)
		}
	}
	return out
}

func parityHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemoryFunc(func(dial int) mcptest.Script { return mcptest.Script{SilentInitialize: dial == 1} })
		r := newRig(t, servers{"a": s}, map[string]any{"config": map[string]map[string]any{"a": {"timeoutMs": 1500}}})
		a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		if e, _ := a.obj["errors"].(map[string]any)["a"].(map[string]any); e["code"] != "timeout" || !strings.Contains(fmt.Sprint(e["message"]), "1500 ms") {
			t.Errorf("%s", a.raw)
		}
		time.Sleep(10 * time.Second)
		if got := r.states("a"); !slices.Equal(got, []string{"connecting", "backoff", "connecting", "ready"}) {
			t.Errorf("states %q", got)
		}
		r.m.Close(0)
	})
}

func parityDisconnectStopsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{SilentInitialize: true})
		r := newRig(t, servers{"a": s}, map[string]any{"config": map[string]map[string]any{"a": {"timeoutMs": 1000}}})
		r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		dials := s.Counts().Dials
		r.must(VerbDisconnect, `{"server":"a"}`)
		time.Sleep(time.Hour)
		if c := s.Counts(); c.Dials != dials || c.Live != 0 || r.server("a")["state"] != "stopped" {
			t.Errorf("%d dials then %d", dials, c.Dials)
		}
		r.m.Close(0)
	})
}

func parityEnable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, file := t.TempDir(), `{"mcpServers":{"a":{"command":"scripted","args":["a"]},"b":{"command":"scripted","args":["b"],"enabled":%v}}}`
		write(t, filepath.Join(dir, ".mcp.json"), fmt.Sprintf(file, false))
		have := servers{}
		r := newRig(t, have, map[string]any{"cwd": dir, "projectTrust": "always"})
		have["a"], have["b"] = echo(), echo()
		if a := connected(t, r, "a"); !slices.Equal(a.names("tools"), []string{"mcp_a_echo"}) {
			t.Error(a.raw)
		}
		for _, enabled := range []bool{true, false, true} {
			write(t, filepath.Join(dir, ".mcp.json"), fmt.Sprintf(file, enabled))
			want := []string{"mcp_a_echo"}
			if enabled {
				want = append(want, "mcp_b_echo")
			}
			if a := r.must(VerbReload, `{"startupTimeoutMs":0}`); !slices.Equal(a.names("tools"), want) {
				t.Errorf("enabled %v: %s", enabled, a.raw)
			}
		}
		if have["a"].(*mcptest.Memory).Counts().Dials != 1 {
			t.Error("the other server was restarted")
		}
		r.m.Close(0)
	})
}

func parityStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r := newRig(t, servers{"a": s}, nil)
		connected(t, r, "a")
		time.Sleep(stableAfter)
		s.Kill(1)
		time.Sleep(time.Second)
		if got := r.states("a"); !slices.Equal(got, []string{"connecting", "ready", "connecting", "ready"}) {
			t.Errorf("states %q", got)
		}
		r.m.Close(0)
	})
}

func parityAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow(time.Minute)
		r := newRig(t, servers{"a": s}, map[string]any{"timeoutMs": 0})
		connect, _ := r.begin(VerbConnect, `{"startupTimeoutMs":0}`)
		time.Sleep(time.Second)
		start := time.Now()
		r.must(VerbDisconnect, `{}`)
		a := <-connect
		if e, _ := a.obj["errors"].(map[string]any); len(e) != 0 || len(a.names("connected")) != 0 {
			t.Errorf("%s", a.raw)
		}
		if s.Counts().Live != 0 || time.Since(start) > time.Second {
			t.Errorf("%d live after %v", s.Counts().Live, time.Since(start))
		}
		r.m.Close(0)
	})
}

func parityColon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{"atlassian": echo(), "atlassian:atlassian": mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("more")}})}
		r := newRig(t, have, nil)
		connected(t, r, "atlassian", "atlassian:atlassian")
		r.must(VerbDisconnect, `{"server":"atlassian"}`)
		a := r.must(VerbList, `{}`)
		if got := a.names("tools"); len(got) != 2 || strings.Contains(a.raw, `"server":"atlassian","`) {
			t.Errorf("%q %s", got, a.raw)
		}
		r.m.Close(0)
	})
}

func parityCacheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		time.Sleep(time.Hour)
		for life, want := range map[int]int{7_200_000: 1, 60_000: 0, 0: 0} {
			r := newRig(t, servers{"a": slow(time.Second)}, map[string]any{"cache": map[string]any{"dir": dir, "ttlMs": life}, "uncached": "background"})
			if a := r.must(VerbConnect, `{}`); len(a.names("deferred")) != want {
				t.Errorf("ttlMs %d: %s", life, a.raw)
			}
			r.m.Close(0)
		}
	})
}

func parityTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{Replies: map[string]string{"resources/list": `{"resources":[{"uri":"x://1"}]}`, "resources/templates/list": `{"resourceTemplates":7}`}})
		r := newRig(t, servers{"a": s}, nil)
		connected(t, r, "a")
		if a := r.do(VerbList, `{"kind":"resourceTemplates","server":"a"}`); a.code() != "protocol" {
			t.Errorf("templates: %s", a.raw)
		}
		if a := r.must(VerbList, `{"kind":"resources","server":"a"}`); len(a.obj["resources"].([]any)) != 1 {
			t.Errorf("resources: %s", a.raw)
		}
		if n := strings.Count(strings.Join(s.Counts().Received, "\n"), `"resources/list"`); n != 1 {
			t.Errorf("%d requests", n)
		}
		r.m.Close(0)
	})
}

// seeing is a host that looks at the list whenever it hears of a change.
type seeing struct {
	testHost
	m    atomic.Pointer[Manager]
	seen atomic.Pointer[[]string]
}

func (h *seeing) Notice(data []byte) {
	if m := h.m.Load(); m != nil && strings.Contains(string(data), `"type":"tools_changed"`) {
		var names []string
		for _, def := range m.snap.Load().index["a"].offered() {
			names = append(names, def.name)
		}
		h.seen.Store(&names)
	}
	h.testHost.Notice(data)
}

func parityChangeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r := newRig(t, servers{"a": s}, nil)
		host := &seeing{}
		host.m.Store(r.m)
		r.m.host, r.host = host, &host.testHost
		connected(t, r, "a")
		s.SetTools([]string{mcptest.Tool("x"), mcptest.Tool("y")})
		time.Sleep(time.Second)
		if got := host.seen.Load(); got == nil || !slices.Equal(*got, []string{"x", "y"}) {
			t.Errorf("it sees %v", got)
		}
		r.m.Close(0)
	})
}

func parityTraceID(t *testing.T) {
	for _, c := range []struct{ header, value, want string }{
		{"X-Request-Id", "req-1:2/3.4", "req-1:2/3.4"}, {"CF-Ray", "8f-AMS", "8f-AMS"}, {"X-Trace-Id", "no good", ""}, {"Traceparent", strings.Repeat("a", 129), ""},
	} {
		server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
			h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if !strings.Contains(string(body), `"tools/call"`) {
					return false
				}
				w.Header().Set(c.header, c.value)
				w.WriteHeader(500)
				fmt.Fprint(w, "token t0psecret ", strings.Repeat("x", 100_000))
				return true
			}
		})
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL, "headers": map[string]string{"Authorization": "Bearer t0psecret"}}}, nil)
		connected(t, r, "s")
		a := r.do(VerbCall, `{"server":"s","tool":"add"}`)
		e, _ := a.obj["error"].(map[string]any)
		data, _ := e["data"].(map[string]any)
		if id, _ := data["traceId"].(string); e["code"] != "http_status" || id != c.want || strings.Contains(a.raw, "t0psecret") || len(a.raw) > 12_000 {
			t.Errorf("%s: %s gives %q: %.300s", c.header, c.value, id, a.raw)
		}
	}
}

func parityNotifyStalls(t *testing.T) {
	stop := make(chan struct{})
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if !strings.Contains(string(body), "notifications/cancelled") {
				return false
			}
			w.WriteHeader(500)
			fmt.Fprint(w, "half a ")
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-stop:
			}
			return true
		}
	})
	defer close(stop)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	connected(t, r, "s")
	for range 3 {
		if a := r.do(VerbCall, `{"server":"s","tool":"hang","timeoutMs":100}`); a.code() != "timeout" {
			t.Errorf("%s", a.raw)
		}
	}
	sum(t, r, "s")
	start := time.Now()
	if r.m.Close(300); time.Since(start) > 2*time.Second {
		t.Errorf("close took %v", time.Since(start))
	}
}

func parityStreamOutlives(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, nil)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL, "timeoutMs": 500}}, nil)
	connected(t, r, "s")
	sum(t, r, "s")
	time.Sleep(time.Second)
	server.Notify("notifications/message", `{"level":"info","data":"still here"}`)
	eventuallyHeard(t, r, "still here")
	if n := server.Counts().Initializes; n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func eventuallyHeard(t *testing.T, r *rig, word string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !strings.Contains(fmt.Sprint(r.host.of("log")), word); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q does not come", word)
		}
	}
}

func paritySilence(t *testing.T) {
	for _, sse := range []bool{false, true} {
		server := serveScript(t, mcptest.Script{Versions: []string{"2024-11-05"}}, func(h *mcptest.HTTP) { h.SSE = sse })
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL, "timeoutMs": 0}}, nil)
		connected(t, r, "s")
		if a := r.do(VerbCall, `{"server":"s","tool":"slow","arguments":{"ms":1500},"timeoutMs":0}`); a.st != OK || server.Counts().Calls["slow"] != 1 {
			t.Errorf("sse %v: %s", sse, a.raw)
		}
	}
}

func parityPendingPost(t *testing.T) {
	stop := make(chan struct{})
	server := serveScript(t, mcptest.Script{Versions: []string{"2024-11-05"}}, func(h *mcptest.HTTP) {
		h.SSE = true
		h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if !strings.Contains(string(body), `"tools/call"`) {
				return false
			}
			select { // not even the headers
			case <-r.Context().Done():
			case <-stop:
			}
			return true
		}
	})
	defer close(stop)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	connected(t, r, "s")
	call, _ := r.begin(VerbCall, `{"server":"s","tool":"add"}`)
	time.Sleep(100 * time.Millisecond)
	start := time.Now()
	r.m.Close(300)
	if a := <-call; a.st != EClosed || time.Since(start) > 2*time.Second {
		t.Errorf("after %v: %s", time.Since(start), a.raw)
	}
}
