package session

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

// serveHTTP starts a script on a socket.
func serveHTTP(t *testing.T, s mcptest.Script, set func(h *mcptest.HTTP)) *mcptest.HTTP {
	t.Helper()
	h := mcptest.NewHTTP(s)
	if set != nil {
		set(h)
	}
	t.Cleanup(h.Close)
	return h
}

func httpConfig(server *mcptest.HTTP, h *host) Config {
	return Config{Server: "demo", ClientInfo: ClientInfo{"mcprt", "0"}, Capabilities: []byte(allCapabilities),
		Dial:    transport.HTTP{Server: "demo", URL: server.URL, Headers: map[string]string{"X-Api-Key": "k"}, SSE: false}.Dial,
		Timeout: 20 * time.Second, Limits: Limits{Pages: 50, Tools: 2000}, Handler: h}
}

func connectHTTP(t *testing.T, cfg Config) *Session {
	t.Helper()
	s, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		s.Close(time.Second)
		<-s.Done()
	})
	return s
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

var modernOnly = mcptest.Script{Versions: []string{mcptest.Modern}}

func TestHTTPEras(t *testing.T) {
	for _, c := range []struct {
		name   string
		script mcptest.Script
		set    func(*mcptest.HTTP)
		known  *Verdict
		legacy bool
		want   string
		posts  int // until the tools are listed
	}{
		{"modern", modernOnly, nil, nil, false, mcptest.Modern, 2},
		{"modern known", modernOnly, nil, &Verdict{ProtocolVersion: mcptest.Modern, Modern: true,
			Discover: []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)}, false, mcptest.Modern, 1},
		{"both", mcptest.Script{Versions: append([]string{mcptest.Modern}, mcptest.Legacy...)}, nil, nil, false, mcptest.Modern, 2},
		{"legacy", mcptest.Script{}, nil, nil, false, mcptest.Latest, 4},
		{"legacy known", mcptest.Script{}, nil, &Verdict{ProtocolVersion: mcptest.Latest}, false, mcptest.Latest, 3},
		{"legacy, verdict modern", mcptest.Script{}, nil, &Verdict{ProtocolVersion: mcptest.Modern, Modern: true,
			Discover: []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)}, false, mcptest.Latest, 5},
		{"modern, verdict legacy", modernOnly, nil, &Verdict{ProtocolVersion: mcptest.Latest}, false, mcptest.Modern, 3},
		{"JSON", mcptest.Script{Versions: mcptest.Legacy[1:]}, func(h *mcptest.HTTP) { h.JSON = true }, nil, false, "2025-06-18", 4},
		{"SSE by fallback", mcptest.Script{Versions: []string{"2024-11-05"}}, func(h *mcptest.HTTP) { h.SSE = true }, nil, false, "2024-11-05", 5},
		{"SSE by config", mcptest.Script{Versions: []string{"2024-11-05"}}, func(h *mcptest.HTTP) { h.SSE = true }, nil, true, "2024-11-05", 3},
		{"SSE by config, streamable", mcptest.Script{}, nil, nil, true, mcptest.Latest, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serveHTTP(t, c.script, c.set)
			cfg := httpConfig(server, &host{})
			if c.known != nil {
				known := *c.known
				known.Asked = time.Now()
				cfg.Known = &known
			}
			if c.legacy {
				cfg.Legacy = true
				cfg.Dial = transport.HTTP{Server: "demo", URL: server.URL, SSE: true}.Dial
			}
			s := connectHTTP(t, cfg)
			list, err := s.ListTools(t.Context())
			if err != nil || len(list.Tools) != len(mcptest.DefaultTools()) {
				t.Fatalf("%+v, %v", list, err)
			}
			posts, _, _ := server.Requests()
			listen := slices.ContainsFunc(posts, func(h http.Header) bool { return h.Get("Mcp-Method") == "subscriptions/listen" })
			if n := len(posts); n != c.posts && !(listen && n == c.posts+1) {
				t.Errorf("%d POSTs until the tools were listed, want %d", n, c.posts)
			}
			if got := s.Info().ProtocolVersion; got != c.want {
				t.Errorf("version %s, want %s", got, c.want)
			}
			if r := run(s, tool("add", `{"a":2,"b":40}`)); r.err != nil || !strings.Contains(r.text, "42") {
				t.Errorf("%s, %v", r.text, r.err)
			}
			if r := run(s, tool("rpcerror", `{"code":-32050}`)); !isRPC(r.err, -32050) {
				t.Errorf("%s, %v", r.text, r.err)
			}
		})
	}
}

func TestHTTPHeaders(t *testing.T) {
	definition := `{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"deep":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"On"}}}}}}`
	wrong := `{"name":"wrong","inputSchema":{"type":"object","properties":{"x":{"type":"number","x-mcp-header":"X"}}}}`
	script := modernOnly
	script.Tools = []string{definition, wrong, mcptest.Tool("größe")}
	server := serveHTTP(t, script, nil)
	s := connectHTTP(t, httpConfig(server, &host{}))
	list, err := s.ListTools(t.Context())
	if err != nil || len(list.Tools) != 2 || len(list.Unusable) != 1 || list.Unusable[0].Name != "wrong" || !strings.Contains(list.Unusable[0].Reason, "number") {
		t.Fatalf("%+v, %v", list, err)
	}
	call := tool("echo", `{"region":"süd","n":7,"deep":{"on":true},"other":null}`)
	call.Definition = list.Tools[0].Raw
	if r := run(s, call); r.err != nil {
		t.Fatal(r.err)
	}
	if r := run(s, tool("größe", `{}`)); r.err != nil {
		t.Fatal(r.err)
	}
	posts, gets, _ := server.Requests()
	if len(gets) != 0 {
		t.Errorf("%d GETs to a modern server", len(gets))
	}
	want := map[string]string{"Mcp-Protocol-Version": mcptest.Modern, "Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Param-Region": "=?base64?c8O8ZA==?=",
		"Mcp-Param-N": "7", "Mcp-Param-On": "true", "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Api-Key": "k", "Mcp-Session-Id": ""}
	// subscriptions/listen goes out beside the calls, at no certain place among them.
	posts = slices.DeleteFunc(posts, func(h http.Header) bool { return h.Get("Mcp-Method") != "tools/call" })
	if len(posts) != 2 {
		t.Fatalf("%d calls", len(posts))
	}
	h := posts[0]
	for name, value := range want {
		if h.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, h.Get(name), value)
		}
	}
	if name := posts[1].Get("Mcp-Name"); name != "=?base64?Z3LDtsOfZQ==?=" {
		t.Errorf("Mcp-Name: %q", name)
	}
}

func TestHTTPLegacyHeaders(t *testing.T) {
	server := serveHTTP(t, mcptest.Script{}, nil)
	s := connectHTTP(t, httpConfig(server, &host{}))
	if _, err := s.ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream is open", func() bool { _, gets, _ := server.Requests(); return len(gets) == 1 })
	s.Close(time.Second)
	<-s.Done()
	posts, gets, deletes := server.Requests()
	if posts[1].Get("Mcp-Session-Id") != "" || posts[1].Get("Mcp-Protocol-Version") != "" || posts[1].Get("Mcp-Method") != "" {
		t.Errorf("initialize: %v", posts[1])
	}
	if len(deletes) != 1 || len(gets) != 1 {
		t.Fatalf("%d DELETEs, %d GETs", len(deletes), len(gets))
	}
	for what, h := range map[string]http.Header{"initialized": posts[2], "tools/list": posts[3], "GET": gets[0], "DELETE": deletes[0]} {
		if !strings.HasPrefix(h.Get("Mcp-Session-Id"), "session-") || h.Get("Mcp-Protocol-Version") != mcptest.Latest || h.Get("X-Api-Key") != "k" {
			t.Errorf("%s: %v", what, h)
		}
	}
	if c := server.Counts(); c.Live != 0 {
		t.Errorf("%d sessions live on", c.Live)
	}
}

// A server's own messages arrive on every transport, and its requests are answered.
func TestHTTPBothWays(t *testing.T) {
	for name, c := range map[string]struct {
		set func(*mcptest.HTTP)
		v   []string
	}{
		"streams":      {nil, mcptest.Legacy},
		"one document": {func(h *mcptest.HTTP) { h.JSON = true }, mcptest.Legacy},
		"SSE":          {func(h *mcptest.HTTP) { h.SSE = true }, []string{"2024-11-05"}},
		"modern":       {nil, []string{mcptest.Modern}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveHTTP(t, mcptest.Script{Versions: c.v}, c.set)
			h := &host{}
			s := connectHTTP(t, httpConfig(server, h))
			asks := []string{"elicit", "sample", "roots"}
			if name == "modern" {
				asks = []string{"input"}
			}
			for _, ask := range asks {
				if r := run(s, tool(ask, `{}`)); r.err != nil || !strings.Contains(r.text, "answered") {
					t.Errorf("%s: %s, %v", ask, r.text, r.err)
				}
			}
			if name != "one document" {
				n := 0
				call := tool("progress", `{"n":3,"everyMs":1}`)
				call.Progress = func([]byte) { n++ }
				if r := run(s, call); r.err != nil || n != 3 {
					t.Errorf("%d notifications of progress, %v", n, r.err)
				}
			}
			eventually(t, "the server can tell of changes", func() bool {
				server.Notify("notifications/tools/list_changed", "")
				notices, _, _ := h.seen()
				return count(notices, "tools/list_changed") > 0
			})
		})
	}
}

func TestHTTPCancel(t *testing.T) {
	for name, versions := range map[string][]string{"legacy": mcptest.Legacy, "modern": {mcptest.Modern}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveHTTP(t, mcptest.Script{Versions: versions}, nil)
			s := connectHTTP(t, httpConfig(server, &host{}))
			r, wait, cancel := launch(s, tool("hang", `{}`))
			eventually(t, "the call runs", func() bool { return server.Counts().Calls["hang"] == 1 })
			cancel()
			<-wait
			wantFault(t, r.err, fault.Canceled)
			eventually(t, "the server knows", func() bool { return len(server.Counts().Cancelled) == 1 })
			late := tool("hang", `{}`)
			late.Timeout = 50 * time.Millisecond
			wantFault(t, run(s, late).err, fault.Timeout)
			eventually(t, "the server knows", func() bool { return len(server.Counts().Cancelled) == 2 })
			if n := count(server.Counts().Received, "notifications/cancelled"); (n == 2) != (name == "legacy") {
				t.Errorf("%d notices of cancellation", n)
			}
		})
	}
}

// A session that the server has forgotten ends, once, and its call was not run.
func TestHTTPSessionExpires(t *testing.T) {
	for name, refusal := range map[string]struct {
		status int
		body   string
	}{
		"404": {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`}, "404 text": {404, "not found"},
		"410": {410, ""}, "400 TypeScript": {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		"400 text": {400, "Invalid or expired session"}, "400 uninitialised": {400, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &host{}
			server := serveHTTP(t, mcptest.Script{}, func(h *mcptest.HTTP) {
				h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if !strings.Contains(string(body), "tools/call") {
						return false
					}
					w.WriteHeader(refusal.status)
					fmt.Fprint(w, refusal.body)
					return true
				}
			})
			s := connectHTTP(t, httpConfig(server, h))
			r := run(s, tool("echo", `{}`))
			f := wantFault(t, r.err, fault.Disconnected, "ended the session")
			if !NeverWritten(r.err) || !f.Retryable || !s.Ended() || f.Data.HTTPStatus != refusal.status {
				t.Errorf("unsent %v, %+v", NeverWritten(r.err), f)
			}
			<-s.Done()
			if _, _, lost := h.seen(); len(lost) != 1 || lost[0].Code != fault.Disconnected {
				t.Errorf("lost %v", lost)
			}
			if _, _, deletes := server.Requests(); len(deletes) != 0 {
				t.Error("a session that is gone was ended again")
			}
		})
	}
}

// What is about the server or about us says nothing of the era.
func TestHTTPRefusedConnect(t *testing.T) {
	for _, c := range []struct {
		status int
		header map[string]string
		code   fault.Code
		posts  int
	}{
		{500, nil, fault.HTTPStatus, 1}, {503, map[string]string{"Retry-After": "7"}, fault.HTTPStatus, 1}, {429, map[string]string{"Retry-After": "7"}, fault.HTTPStatus, 1},
		{401, map[string]string{"WWW-Authenticate": `Bearer resource_metadata="x"`}, fault.NeedsAuth, 1}, {403, map[string]string{"WWW-Authenticate": `Bearer scope="x"`}, fault.NeedsAuth, 1},
		{403, nil, fault.HTTPStatus, 1}, {404, nil, fault.HTTPStatus, 2}, {302, map[string]string{"Location": "https://elsewhere.invalid/mcp?secret"}, fault.HTTPStatus, 1},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			t.Parallel()
			server := serveHTTP(t, mcptest.Script{}, func(h *mcptest.HTTP) {
				h.Intercept = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					for name, value := range c.header {
						w.Header().Set(name, value)
					}
					w.WriteHeader(c.status)
					fmt.Fprint(w, "the reason \xff")
					return true
				}
			})
			_, err := Connect(t.Context(), httpConfig(server, &host{}))
			f := wantFault(t, err, c.code, fmt.Sprint("HTTP ", c.status))
			if f.Data.HTTPStatus != c.status || c.status != 302 && !strings.Contains(f.Data.Body, "the reason") {
				t.Errorf("%+v", f.Data)
			}
			if c.header["Retry-After"] != "" && (f.Data.RetryAfterMs != 7000 || !f.Retryable) {
				t.Errorf("%+v", f)
			}
			if f.Data.Challenge != c.header["WWW-Authenticate"] {
				t.Errorf("challenge %q", f.Data.Challenge)
			}
			if strings.Contains(f.Message, "secret") {
				t.Errorf("the message shows a query: %s", f.Message)
			}
			if posts, _, _ := server.Requests(); len(posts) != c.posts {
				t.Errorf("%d POSTs", len(posts))
			}
			if _, err := json.Marshal(f); err != nil {
				t.Error(err)
			}
		})
	}
}

// A broken listen request is made again, and what was missed is asked for.
func TestHTTPListensAgain(t *testing.T) {
	h := &host{}
	cut := make(chan context.CancelFunc, 10)
	server := serveHTTP(t, modernOnly, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
				ctx, cancel := context.WithCancel(r.Context())
				*r = *r.WithContext(ctx)
				cut <- cancel
			}
			return false
		}
	})
	s := connectHTTP(t, httpConfig(server, h))
	end := <-cut
	eventually(t, "it listens", func() bool {
		server.Notify("notifications/tools/list_changed", "")
		notices, _, _ := h.seen()
		return count(notices, "tools/list_changed") > 0
	})
	before, _, _ := h.seen()
	end()
	<-cut
	eventually(t, "the lists count as changed", func() bool { now, _, _ := h.seen(); return len(now) > len(before) })
	if s.Ended() {
		t.Error("the session ended with one request")
	}
}
