package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/mcptest"
)

// openHTTP makes a manager of real connections.
func openHTTP(t *testing.T, servers map[string]any, options map[string]any) *rig {
	t.Helper()
	all := map[string]any{"cwd": t.TempDir(), "env": map[string]string{"HOME": "/nonexistent"}, "servers": servers,
		"cache": map[string]any{"enabled": false}, "discovery": map[string]any{"user": "none"}, "startupTimeoutMs": 20_000}
	for k, v := range options {
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	host := &testHost{}
	m, err := Open(raw, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(0) })
	return &rig{t, m, host}
}

func serveScript(t *testing.T, s mcptest.Script, set func(*mcptest.HTTP)) *mcptest.HTTP {
	t.Helper()
	h := mcptest.NewHTTP(s)
	if set != nil {
		set(h)
	}
	t.Cleanup(h.Close)
	return h
}

func TestRemoteServers(t *testing.T) {
	sse := func(h *mcptest.HTTP) { h.SSE = true }
	legacy := serveScript(t, mcptest.Script{}, nil)
	modern := serveScript(t, mcptest.Script{Versions: []string{mcptest.Modern}}, nil)
	old := serveScript(t, mcptest.Script{Versions: []string{"2024-11-05"}}, sse)
	older := serveScript(t, mcptest.Script{Versions: []string{"2024-11-05"}}, sse)
	r := openHTTP(t, map[string]any{
		"legacy": map[string]any{"url": legacy.URL, "headers": map[string]string{"Authorization": "Bearer t0psecret"}},
		"modern": map[string]any{"type": "http", "url": modern.URL},
		"old":    map[string]any{"type": "sse", "url": old.URL},
		"older":  map[string]any{"url": older.URL},
	}, nil)
	a := r.must(VerbConnect, `{}`)
	if got := a.names("connected"); len(got) != 4 || strings.Contains(a.raw, "insecure_url") {
		t.Fatalf("%v: %s", got, a.raw)
	}
	for _, name := range []string{"legacy", "modern", "old", "older"} {
		if a := r.must(VerbCall, `{"server":"`+name+`","tool":"add","arguments":{"a":40,"b":2}}`); !strings.Contains(a.raw, "42") {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	posts, _, _ := legacy.Requests()
	for _, h := range posts {
		if h.Get("Authorization") != "Bearer t0psecret" {
			t.Errorf("a request without its header: %v", h)
		}
	}
	for _, h := range []*mcptest.HTTP{legacy, modern, old} {
		if got := strings.Join(h.Counts().Received, "\n"); strings.Contains(got, `"roots"`) {
			t.Errorf("a remote server is offered our directories: %s", got)
		}
	}
}

// A call that finds its session forgotten is answered after one reconnection.
func TestRemoteSessionForgotten(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, nil)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	r.must(VerbConnect, `{}`)
	for range 2 {
		server.Forget()
		if a := r.must(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":20000}`); !strings.Contains(a.raw, "42") {
			t.Fatal(a.raw)
		}
	}
	if c := server.Counts(); c.Initializes != 3 || c.Calls["add"] != 2 {
		t.Errorf("%d sessions, %d calls", c.Initializes, c.Calls["add"])
	}
}

// A burst of calls that finds the session forgotten is answered whole, after one reconnection:
// none is lost, and none runs twice.
func TestRemoteSessionForgottenByABurst(t *testing.T) {
	server := serveScript(t, mcptest.Script{}, nil)
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	r.must(VerbConnect, `{}`)
	const n = 30
	for range 3 {
		server.Forget()
		var calls []<-chan answerOf
		for range n {
			ch, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":20000}`)
			calls = append(calls, ch)
		}
		for _, ch := range calls {
			if a := <-ch; !strings.Contains(a.raw, "42") {
				t.Error(a.raw)
			}
		}
	}
	if c := server.Counts(); c.Initializes != 4 || c.Calls["add"] != 3*n {
		t.Errorf("%d sessions, %d calls", c.Initializes, c.Calls["add"])
	}
}

// What a remote server that is lost too often is told to do next is what it does.
func TestRemoteCrashLoopIsTriedAgain(t *testing.T) {
	var lost atomic.Bool
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if !lost.Load() || !strings.Contains(string(body), `"tools/call"`) {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			return true
		}
	})
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	r.must(VerbConnect, `{}`)
	lost.Store(true)
	var a answerOf
	for range 10 {
		if a = r.do(VerbCall, `{"server":"s","tool":"add","timeoutMs":20000}`); a.code() == "crash_loop" {
			break
		}
	}
	if a.code() != "crash_loop" || !strings.Contains(a.raw, "is tried again in 1") || strings.Contains(a.raw, "by itself") || r.server("s")["retryAt"] == nil {
		t.Errorf("%s, %v", a.raw, r.server("s"))
	}
}

// A server that goes away and comes back at its place, with sessions of its own, is used again.
func TestRemoteRestart(t *testing.T) {
	first := mcptest.NewHTTP(mcptest.Script{})
	defer first.Close()
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": first.URL}}, nil)
	r.must(VerbConnect, `{}`)
	address := first.Listener.Addr().String()
	first.Close()
	done, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":20000,"retry":"always"}`) // it may have met a connection that was just dying
	time.Sleep(100 * time.Millisecond)
	second := mcptest.NewHTTP(mcptest.Script{})
	defer second.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &httptest.Server{Listener: listener, Config: &http.Server{Handler: second.Server.Handler}}
	again.Start()
	defer again.Close()
	defer r.m.Close(0)
	if a := <-done; a.st != OK || !strings.Contains(a.raw, "42") {
		t.Errorf("%d %s", a.st, a.raw)
	}
}

// A call whose answer is lost is sent again only where that is safe; its session goes on.
func TestRemoteAnswerLost(t *testing.T) {
	var cut atomic.Int64
	server := serveScript(t, mcptest.Script{Tools: []string{mcptest.Tool("echo"), `{"name":"add","inputSchema":{},"annotations":{"readOnlyHint":true}}`}}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if strings.Contains(string(body), "tools/call") && cut.Add(1) <= 2 {
				panic(http.ErrAbortHandler)
			}
			return false
		}
	})
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	r.must(VerbConnect, `{}`)
	if a := r.do(VerbCall, `{"server":"s","tool":"echo","arguments":{}}`); a.code() != "outcome_unknown" {
		t.Errorf("%s", a.raw)
	}
	if a := r.do(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`); a.st != OK || !strings.Contains(a.raw, "42") {
		t.Errorf("%s", a.raw)
	}
	if c := server.Counts(); c.Initializes != 1 {
		t.Errorf("%d sessions for one lost answer", c.Initializes)
	}
}

// A tool whose headers have changed is listed again and called then.
func TestRemoteHeaderMismatch(t *testing.T) {
	tool := `{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"%s"}}}}`
	var moved atomic.Bool
	server := serveScript(t, mcptest.Script{Versions: []string{mcptest.Modern}, Tools: []string{fmt.Sprintf(tool, "Old")}}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case moved.Load() && r.Header.Get("Mcp-Method") == "tools/list":
				var m struct{ ID json.RawMessage }
				if err := json.Unmarshal(body, &m); err != nil {
					t.Error(err)
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[%s]}}`, m.ID, fmt.Sprintf(tool, "New"))
				return true
			case moved.Load() && r.Header.Get("Mcp-Method") == "tools/call" && r.Header.Get("Mcp-Param-New") != "here":
				w.WriteHeader(400)
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"header mismatch"}}`)
				return true
			}
			return false
		}
	})
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
	r.must(VerbConnect, `{}`)
	moved.Store(true)
	if a := r.must(VerbCall, `{"server":"s","tool":"echo","arguments":{"region":"here"}}`); !strings.Contains(a.raw, "here") {
		t.Error(a.raw)
	}
	if c := server.Counts(); c.Calls["echo"] != 1 {
		t.Errorf("%d calls", c.Calls["echo"])
	}
}

func TestRemoteNeedsAuth(t *testing.T) {
	var shut atomic.Bool
	server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
		h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if !shut.Load() && r.Header.Get("Authorization") == "" {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, "the token %s is bad", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			return true
		}
	})
	r := openHTTP(t, map[string]any{"shut": map[string]any{"url": server.URL, "headers": map[string]string{"Authorization": "Bearer t0psecret"}},
		"later": map[string]any{"url": server.URL}}, nil)
	a := r.must(VerbConnect, `{}`)
	if got := a.names("needsAuth"); len(got) != 1 || got[0] != "shut" || strings.Contains(a.raw, "t0psecret") {
		t.Fatal(a.raw)
	}
	shut.Store(true)
	a = r.do(VerbCall, `{"server":"later","tool":"echo"}`)
	if a.code() != "needs_auth" || !strings.Contains(a.raw, `"challenge":"Bearer error=\"invalid_token\""`) {
		t.Fatal(a.raw)
	}
	if v := r.m.snap.Load().index["later"]; v.state != stateNeedsAuth {
		t.Errorf("state %v", v.state)
	}
	if a := r.do(VerbCall, `{"server":"shut","tool":"echo"}`); a.code() != "needs_auth" || strings.Contains(a.raw, "t0psecret") {
		t.Error(a.raw)
	}
}

func TestRemoteConfig(t *testing.T) {
	for _, c := range []struct {
		entry map[string]any
		want  string
	}{
		{map[string]any{"url": "http://127.0.0.1:1/x", "headers": map[string]string{"A": "b\nc"}}, "no valid header"},
		{map[string]any{"url": "http://127.0.0.1:1/x", "tls": map[string]string{"caFile": "/nonexistent/ca.pem"}}, "tls: "},
		{map[string]any{"url": "http://127.0.0.1:1/x", "proxy": "ftp://h"}, "proxy: "},
		{map[string]any{"url": "http://127.0.0.1:1/x"}, "cannot be reached at 127.0.0.1:1"},
	} {
		r := openHTTP(t, map[string]any{"s": c.entry}, map[string]any{"reconnect": "manual"})
		if a := r.must(VerbConnect, `{}`); !strings.Contains(a.raw, c.want) {
			t.Errorf("%v: %s", c.entry, a.raw)
		}
	}
	r := openHTTP(t, map[string]any{"s": map[string]any{"url": "http://192.0.2.1/x"}}, map[string]any{"startupTimeoutMs": 1})
	if a := r.must(VerbConnect, `{}`); !strings.Contains(a.raw, "insecure_url") {
		r.must(VerbConnect, `{}`)
		if a := r.must(VerbConnect, `{}`); !strings.Contains(a.raw, "insecure_url") {
			t.Error(a.raw)
		}
	}
}

// A private authority is trusted where the config names it, and a proxy is used but for loopback.
func TestRemoteTLSAndProxy(t *testing.T) {
	plain := serveScript(t, mcptest.Script{}, nil)
	secure := httptest.NewUnstartedServer(plain.Server.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var proxied []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		proxied = append(proxied, r.URL.Host)
		mu.Unlock()
		r.URL.Host = ""
		plain.Server.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	r := openHTTP(t, map[string]any{
		"trusted": map[string]any{"url": secure.URL + "/mcp", "tls": map[string]string{"caFile": ca}},
		"unknown": map[string]any{"url": secure.URL + "/other"},
		"proxied": map[string]any{"url": "http://example.invalid/mcp", "proxy": proxy.URL},
		"by env":  map[string]any{"url": "http://env.invalid/mcp"},
		"direct":  map[string]any{"url": plain.URL},
	}, map[string]any{"env": map[string]string{"HOME": "/nonexistent", "http_proxy": proxy.URL}})
	a := r.must(VerbConnect, `{}`)
	if got := strings.Join(a.names("connected"), ","); got != "by env,direct,proxied,trusted" {
		t.Fatalf("%s: %s", got, a.raw)
	}
	f, _ := a.obj["errors"].(map[string]any)["unknown"].(map[string]any)
	if f["code"] != "connect_failed" || f["retryable"] != false || !strings.Contains(fmt.Sprint(f["message"]), "caFile") {
		t.Errorf("%v", f)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, host := range proxied {
		if host != "example.invalid" && host != "env.invalid" {
			t.Errorf("%s was asked for through the proxy", host)
		}
	}
}

// TestRemoteRefusalOfParams: a server's complaint about a call's params is the call's
// answer, also where it is sent with 400 or 404 and speaks of a session.
func TestRemoteRefusalOfParams(t *testing.T) {
	for status, message := range map[int]string{400: "argument session must be a number", 404: "Unknown tool"} {
		server := serveScript(t, mcptest.Script{}, func(h *mcptest.HTTP) {
			h.Intercept = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%q}}`, m.ID, message)
				return true
			}
		})
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": server.URL}}, nil)
		r.must(VerbConnect, `{}`)
		a := r.do(VerbCall, `{"server":"s","tool":"add","arguments":{"a":1,"b":2}}`)
		if n := server.Counts().Initializes; n != 1 || !strings.Contains(a.raw, `"rpc_error"`) || !strings.Contains(a.raw, message) {
			t.Errorf("%d: %d initializes, %s", status, n, a.raw)
		}
	}
}

// TestRemoteClientCertificate: a server that wants to know who asks gets the config's
// certificate; without one the error says what is missing.
func TestRemoteClientCertificate(t *testing.T) {
	plain := serveScript(t, mcptest.Script{}, nil)
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "host"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	if !known.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) {
		t.Fatal("the certificate cannot be read")
	}
	secure := httptest.NewUnstartedServer(plain.Server.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	at := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
		return path
	}
	ca := at("ca.pem", "CERTIFICATE", secure.Certificate().Raw)
	r := openHTTP(t, map[string]any{
		"known":   map[string]any{"url": secure.URL, "tls": map[string]string{"caFile": ca, "certFile": at("cert.pem", "CERTIFICATE", der), "keyFile": at("key.pem", "PRIVATE KEY", keyDER)}},
		"unknown": map[string]any{"url": secure.URL + "/other", "tls": map[string]string{"caFile": ca}},
	}, nil)
	a := r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	if got := a.names("connected"); len(got) != 1 || got[0] != "known" {
		t.Fatalf("connected %v: %s", got, a.raw)
	}
	if f, _ := a.obj["errors"].(map[string]any)["unknown"].(map[string]any); !strings.Contains(fmt.Sprint(f["message"]), "certificate") {
		t.Errorf("%v", f)
	}
}

func TestProxyFor(t *testing.T) {
	for _, c := range []struct{ env, url, want string }{
		{"HTTPS_PROXY=http://p:1", "https://h/", "http://p:1"}, {"https_proxy=http://p:1 NO_PROXY=h", "https://h/", ""},
		{"ALL_PROXY=socks5://p:1", "https://h/", "socks5://p:1"}, {"HTTP_PROXY=http://p:1", "https://h/", ""}, {"HTTP_PROXY=http://p:1", "http://localhost/", ""},
		{"HTTP_PROXY=http://p:1 REQUEST_METHOD=GET", "http://h/", ""},
	} {
		vars := map[string]string{}
		for _, v := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		proxy, err := proxyFor(config.ParseEnv(vars), "")
		if err != nil {
			t.Fatal(err)
		}
		to, _ := url.Parse(c.url)
		got, err := proxy(to)
		shown := ""
		if got != nil {
			shown = got.String()
		}
		if shown != c.want || (err != nil) != strings.Contains(c.env, "REQUEST_METHOD") {
			t.Errorf("%s, %s: %s, %v", c.env, c.url, shown, err)
		}
	}
}
