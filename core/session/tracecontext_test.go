package session

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcprt/mcprt/core/mcptest"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTraceContext: a host's span reaches the server in _meta over every transport, and
// over HTTP in the headers too, in both eras.
func TestTraceContext(t *testing.T) {
	meta := []byte(`{"traceparent":"` + parent + `","tracestate":"a=1,b=2","baggage":"user=7"}`)
	call := tool("echo", `{}`)
	call.Meta = meta
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, _ *host) {
		if r := run(s, call); r.err != nil {
			t.Fatal(r.err)
		}
		received := memory.Counts().Received
		if last := received[len(received)-1]; !strings.Contains(last, string(meta[1:len(meta)-1])) {
			t.Errorf("stdio: %s", last)
		}
	})
	for era, script := range map[string]mcptest.Script{"legacy": {}, "modern": modernOnly} {
		server := serveHTTP(t, script, nil)
		s := connectHTTP(t, httpConfig(server, &host{}))
		if r := run(s, call); r.err != nil {
			t.Fatal(r.err)
		}
		run(s, Call{Method: "prompts/get", Params: []byte(`{"name":"x","_meta":{"traceparent":"` + parent + `"}}`)})
		run(s, tool("echo", `{"traceparent":"`+parent+`"}`))
		posts, _, _ := server.Requests()
		var got []string
		for _, h := range posts {
			if h.Get("Traceparent") != "" {
				got = append(got, h.Get("Traceparent")+" "+h.Get("Tracestate"))
			}
		}
		if want := []string{parent + " a=1,b=2", parent + " "}; !slices.Equal(got, want) {
			t.Errorf("%s: %q", era, got)
		}
		if !slices.ContainsFunc(server.Counts().Received, func(m string) bool { return strings.Contains(m, `"baggage":"user=7"`) }) {
			t.Errorf("%s: it is not in _meta", era)
		}
	}
}

func TestOnlyAWellFormedTraceContextBecomesHeaders(t *testing.T) {
	for _, bad := range []string{"", "x", parent + "\\r\\nEvil: 1", strings.ToUpper(parent), "ff" + parent[2:], "00-" + strings.Repeat("0", 32) + parent[35:], parent[:36] + strings.Repeat("0", 16) + "-01", parent + "-00", "\\u0000" + parent} {
		if h := addTraceContext(nil, &Call{Meta: []byte(`{"traceparent":"` + bad + `"}`)}); h != nil {
			t.Errorf("%q became %v", bad, h)
		}
	}
	for _, bad := range []string{`"a=1\r\nEvil: 1"`, `"` + strings.Repeat("a", 513) + `"`, `"ü"`, `7`, `""`} {
		h := addTraceContext(map[string]string{"A": "b"}, &Call{Meta: []byte(`{"traceparent":"` + parent + `","tracestate":` + bad + `}`)})
		if len(h) != 2 || h[http.CanonicalHeaderKey("traceparent")] != parent {
			t.Errorf("%s became %v", bad, h)
		}
	}
	for _, raw := range []string{"", "{}", "null", "[]", `{"traceparent":7}`, `{"traceparent":`} {
		if h := addTraceContext(nil, &Call{Meta: []byte(raw), Params: []byte(raw)}); h != nil {
			t.Errorf("%s: %v", raw, h)
		}
	}
}
