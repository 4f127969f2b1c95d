package core

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

func serveGuarded(t *testing.T) *mcptest.Guarded {
	t.Helper()
	g := mcptest.NewGuarded(mcptest.Script{})
	t.Cleanup(g.Close)
	return g
}

func tokensOf(g *mcptest.Guarded) int {
	asked, _ := g.Tokens()
	return asked
}

// question waits for the next open request of a kind.
func (r *rig) question(kind string) (uint64, map[string]any) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		r.host.mu.Lock()
		for tag, q := range r.host.requests {
			if _, over := r.host.ended[tag]; !over && q["type"] == kind {
				r.host.mu.Unlock()
				return tag, q
			}
		}
		r.host.mu.Unlock()
	}
	r.t.Fatalf("no question of kind %s", kind)
	return 0, nil
}

// browse opens the page of a question and gives where the browser ended.
func browse(t testing.TB, q map[string]any) string {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(q["params"].(map[string]any)["url"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Header.Get("Location")
}

// agree signs in as a person would.
func (r *rig) agree() map[string]any {
	r.t.Helper()
	tag, q := r.question("authorization")
	if st := r.m.Answer(tag, encode(map[string]any{"result": map[string]any{"callbackUrl": browse(r.t, q)}})); st != OK {
		r.t.Fatalf("the answer had status %d", st)
	}
	return q
}

func openGuarded(t *testing.T, g *mcptest.Guarded, options map[string]any) *rig {
	t.Helper()
	all := map[string]any{"answers": []string{"authorization"}, "auth": map[string]any{"store": "memory"}}
	for k, v := range options {
		all[k] = v
	}
	return openHTTP(t, map[string]any{"s": map[string]any{"url": g.URL}}, all)
}

// TestSignInOfACall: a start does not ask; a call does, once for all that wait, and a
// person's time is not the call's.
func TestSignInOfACall(t *testing.T) {
	g := serveGuarded(t)
	r := openGuarded(t, g, nil)
	if a := r.must(VerbConnect, `{}`); strings.Join(a.names("needsAuth"), "") != "s" || len(r.host.asked()) != 0 {
		t.Fatal(a.raw)
	}
	first, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":3000}`)
	second, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":3000}`)
	_, q := r.question("authorization")
	p := q["params"].(map[string]any)
	if q["server"] != "s" || !strings.HasPrefix(p["url"].(string), "http://127.0.0.1") || !strings.HasPrefix(p["redirectUri"].(string), "http://127.0.0.1:") ||
		p["issuer"] == "" || fmt.Sprint(p["scopes"]) != "[read]" {
		t.Errorf("%v", q)
	}
	time.Sleep(3100 * time.Millisecond) // a person thinks
	r.agree()
	for _, ch := range []<-chan answerOf{first, second} {
		if a := <-ch; a.st != OK || !strings.Contains(a.raw, "42") {
			t.Error(a.raw)
		}
	}
	if len(r.host.asked()) != 1 {
		t.Errorf("asked %v", r.host.asked())
	}
	if list := r.must(VerbList, `{"kind":"servers"}`); strings.Contains(list.raw, "t0psecret") {
		t.Error(list.raw)
	}
	r.must(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`)
	if len(r.host.asked()) != 1 || tokensOf(g) != 1 {
		t.Errorf("asked %v, %d tokens", r.host.asked(), tokensOf(g))
	}
}

// The browser comes back to the listener: the host only shows the page.
func TestSignInByListener(t *testing.T) {
	g := serveGuarded(t)
	r := openGuarded(t, g, nil)
	r.must(VerbConnect, `{"authorize":["s"]}`)
	tag, q := r.question("authorization")
	if st := r.m.Answer(tag, []byte(`{"result":{}}`)); st != OK {
		t.Fatal(st)
	}
	resp, err := http.Get(browse(t, q))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if a := r.must(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`); !strings.Contains(a.raw, "42") {
		t.Error(a.raw)
	}
}

func TestSignInRefused(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *rig, tag uint64)
		want string
	}{
		"declined by its answer": {func(r *rig, tag uint64) { r.m.Answer(tag, []byte(`{"result":{"declined":true}}`)) }, "declined"},
		"declined":               {func(r *rig, tag uint64) { r.m.Decline(tag) }, "declined"},
		"an error":               {func(r *rig, tag uint64) { r.m.Answer(tag, []byte(`{"error":{"code":1,"message":"no browser"}}`)) }, "no browser"},
		"junk": {func(r *rig, tag uint64) {
			if st := r.m.Answer(tag, []byte(`{"result":{"callbackUrl":7}}`)); st != EInval {
				panic(st)
			}
		}, "callbackUrl"},
		"another page": {func(r *rig, tag uint64) {
			r.m.Answer(tag, []byte(`{"result":{"callbackUrl":"http://127.0.0.1:1/x?code=a"}}`))
		}, "is not an answer to this sign-in"},
		"too late": {func(*rig, uint64) {}, "1000 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serveGuarded(t)
			patience := 60_000
			if name == "too late" {
				patience = 1000
			}
			r := openGuarded(t, g, map[string]any{"requestTimeoutMs": patience})
			r.must(VerbConnect, `{}`)
			ch, _ := r.begin(VerbCall, `{"server":"s","tool":"echo"}`)
			tag, _ := r.question("authorization")
			c.end(r, tag)
			if a := <-ch; a.code() != "needs_auth" || !strings.Contains(a.raw, c.want) || tokensOf(g) != 0 {
				t.Error(a.raw)
			}
			if s := r.server("s"); s["state"] != "needs_auth" {
				t.Error(s)
			}
			// The next call asks again.
			ch, cancel := r.begin(VerbCall, `{"server":"s","tool":"echo"}`)
			r.question("authorization")
			cancel()
			if a := <-ch; a.st != ECanceled {
				t.Error(a.raw)
			}
		})
	}
}

func TestSignInWithdrawn(t *testing.T) {
	g := serveGuarded(t)
	r := openGuarded(t, g, nil)
	r.must(VerbConnect, `{}`)
	ch, _ := r.begin(VerbCall, `{"server":"s","tool":"echo"}`)
	tag, q := r.question("authorization")
	r.must(VerbDisconnect, `{"server":"s"}`)
	if a := <-ch; a.code() != "disconnected" {
		t.Error(a.raw)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if st, over := r.host.endedWith(tag); over && st == ECanceled {
			break
		} else if over || time.Now().After(end) {
			t.Fatalf("the question ended %v with %d", over, st)
		}
	}
	redirect, _ := url.Parse(q["params"].(map[string]any)["redirectUri"].(string))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if _, err := http.Get("http://" + redirect.Host); err != nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("it still listens")
		}
	}
}

// A sign-in that ends while calls go on is asked for anew, and the call runs once.
func TestSignInAgain(t *testing.T) {
	g := serveGuarded(t)
	r := openGuarded(t, g, nil)
	r.must(VerbConnect, `{"authorize":["s"]}`)
	r.agree()
	r.must(VerbCall, `{"server":"s","tool":"echo"}`)
	g.Scope("")
	ch, _ := r.begin(VerbCall, `{"server":"s","tool":"echo"}`)
	r.agree()
	if a := <-ch; a.st != OK {
		t.Error(a.raw)
	}
	if c := g.Counts(); c.Calls["echo"] != 2 {
		t.Errorf("%d calls", c.Calls["echo"])
	}
}

// A call that needs more rights asks for them; the session and other calls live on, and
// who declines has lost this call alone.
func TestStepUpOfACall(t *testing.T) {
	g := serveGuarded(t)
	r := openGuarded(t, g, nil)
	g.Needs["add"] = "write"
	r.must(VerbConnect, `{"authorize":["s"]}`)
	r.agree()
	r.must(VerbCall, `{"server":"s","tool":"echo"}`)
	ch, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`)
	tag, q := r.question("authorization")
	if scopes := fmt.Sprint(q["params"].(map[string]any)["scopes"]); scopes != "[read write]" {
		t.Error(scopes)
	}
	r.must(VerbCall, `{"server":"s","tool":"echo"}`)
	r.m.Decline(tag)
	if a := <-ch; a.code() != "needs_auth" || !strings.Contains(a.raw, "declined") {
		t.Error(a.raw)
	}
	if s := r.server("s"); s["state"] != "ready" {
		t.Error(s)
	}
	ch, _ = r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`)
	r.agree()
	if a := <-ch; !strings.Contains(a.raw, "42") {
		t.Error(a.raw)
	}
	// Rights that the authorization server does not give are not asked for again.
	g.Scope("read")
	g.Lock()
	g.Needs["echo"] = "write"
	g.Unlock()
	asked := len(r.host.asked())
	if a := r.do(VerbCall, `{"server":"s","tool":"echo"}`); a.code() != "needs_auth" || len(r.host.asked()) != asked {
		t.Error(a.raw)
	}
	if c := g.Counts(); c.Initializes+c.Discovers > 2+2 {
		t.Errorf("the session did not live: %+v", c)
	}
}

func TestLoginAndLogout(t *testing.T) {
	g := serveGuarded(t)
	dir := filepath.Join(t.TempDir(), "auth")
	options := map[string]any{"auth": map[string]any{"store": "file", "dir": dir}}
	r := openGuarded(t, g, options)
	const login, logout = `{"method":"mcprt/auth.login","params":{"server":"s"}}`, `{"method":"mcprt/auth.logout","params":{"server":"s"}}`
	ch, _ := r.begin(VerbCall, login)
	r.agree()
	a := <-ch
	if !strings.Contains(a.raw, `"signedIn":true`) || !strings.Contains(a.raw, `"scopes":["read"]`) || strings.Contains(a.raw, "t0psecret") {
		t.Fatal(a.raw)
	}
	if a := r.must(VerbCall, login); !strings.Contains(a.raw, `"signedIn":true`) || len(r.host.asked()) != 1 {
		t.Error(a.raw)
	}
	// Another process finds it.
	other := openGuarded(t, g, options)
	if a := other.must(VerbConnect, `{}`); strings.Join(a.names("connected"), "") != "s" || len(other.host.asked()) != 0 {
		t.Error(a.raw)
	}
	if a := r.must(VerbCall, logout); !strings.Contains(a.raw, `"signedOut":true`) || !strings.Contains(a.raw, `"revoked":true`) {
		t.Error(a.raw)
	}
	if _, revoked := g.Tokens(); revoked != 1 {
		t.Errorf("%d tokens were taken back", revoked)
	}
	if a := r.must(VerbCall, logout); !strings.Contains(a.raw, `"signedOut":false`) {
		t.Error(a.raw)
	}
	r.must(VerbConnect, `{"startupTimeoutMs":0}`)
	if s := r.server("s"); s["state"] != "needs_auth" {
		t.Error(s)
	}
	for _, bad := range []string{`{"method":"mcprt/auth.login"}`, `{"method":"mcprt/auth.login","params":{"server":"x"}}`, `{"method":"mcprt/auth.logout","params":{"server":""}}`} {
		if a := r.do(VerbCall, bad); a.st == OK {
			t.Error(a.raw)
		}
	}
	ch, cancel := r.begin(VerbCall, login)
	r.question("authorization")
	cancel()
	if a := <-ch; a.st != ECanceled {
		t.Error(a.raw)
	}
	dumb := openGuarded(t, g, map[string]any{"answers": []string{}})
	if a := dumb.do(VerbCall, login); a.st == OK || !strings.Contains(a.raw, "answers") {
		t.Error(a.raw)
	}
	if a := dumb.do(VerbCall, `{"server":"s","tool":"echo"}`); a.code() != "needs_auth" {
		t.Error(a.raw)
	}
}

// A server that works without knows more of who signs in.
func TestLoginWhereNoneIsNeeded(t *testing.T) {
	g := serveGuarded(t)
	g.Free = true
	r := openGuarded(t, g, nil)
	r.must(VerbConnect, `{}`)
	ch, _ := r.begin(VerbCall, `{"method":"mcprt/auth.login","params":{"server":"s"}}`)
	r.agree()
	if a := <-ch; !strings.Contains(a.raw, `"signedIn":true`) {
		t.Error(a.raw)
	}
	posts, _, _ := g.Requests()
	if last := posts[len(posts)-1].Get("Authorization"); !strings.HasPrefix(last, "Bearer t0psecret") {
		t.Errorf("the last request had %q", last)
	}
	plain := serveScript(t, mcptest.Script{}, nil)
	r = openHTTP(t, map[string]any{"s": map[string]any{"url": plain.URL}}, map[string]any{"answers": []string{"authorization"}, "auth": map[string]any{"store": "memory"}})
	if a := r.must(VerbCall, `{"method":"mcprt/auth.login","params":{"server":"s"}}`); !strings.Contains(a.raw, `"signedIn":false`) {
		t.Error(a.raw)
	}
}

// What the config says of OAuth: none, or the person's own token.
func TestNoSignIn(t *testing.T) {
	g := serveGuarded(t)
	r := openHTTP(t, map[string]any{
		"off":   map[string]any{"url": g.URL, "oauth": false},
		"token": map[string]any{"url": g.URL, "headers": map[string]string{"Authorization": "Bearer own"}},
		"bad":   map[string]any{"url": g.URL, "oauth": map[string]any{"grant": "client_credentials", "clientId": "x"}},
	}, map[string]any{"answers": []string{"authorization"}, "auth": map[string]any{"store": "memory"}})
	a := r.must(VerbConnect, `{"authorize":["off","token","bad"]}`)
	if strings.Join(a.names("needsAuth"), " ") != "off token" || !strings.Contains(a.raw, "clientSecret or privateKeyPem") {
		t.Error(a.raw)
	}
	for _, name := range []string{"off", "token"} {
		if a := r.do(VerbCall, `{"server":"`+name+`","tool":"echo"}`); a.code() != "needs_auth" {
			t.Error(a.raw)
		}
	}
	if len(r.host.asked()) != 0 || tokensOf(g) != 0 {
		t.Errorf("asked %v", r.host.asked())
	}
}

// Lists of one person's sign-in are not shown to another's.
func TestCacheOfASignIn(t *testing.T) {
	g := serveGuarded(t)
	cache := filepath.Join(t.TempDir(), "cache")
	open := func(dir string) *rig {
		return openGuarded(t, g, map[string]any{"cache": map[string]any{"dir": cache}, "auth": map[string]any{"store": "file", "dir": dir}, "lazy": true})
	}
	one := filepath.Join(t.TempDir(), "auth")
	r := open(one)
	r.must(VerbConnect, `{"authorize":["s"]}`)
	r.agree()
	r.must(VerbCall, `{"server":"s","tool":"echo"}`)
	r.m.Close(0)
	if a := open(one).must(VerbConnect, `{}`); strings.Join(a.names("deferred"), "") != "s" {
		t.Errorf("the cache is not found again: %s", a.raw)
	}
	if a := open(filepath.Join(t.TempDir(), "auth")).must(VerbConnect, `{}`); len(a.names("deferred")) != 0 || strings.Join(a.names("needsAuth"), "") != "s" {
		t.Errorf("somebody else's list is shown: %s", a.raw)
	}
}

// The system's browser is a program with the address as its one argument.
func TestSystemBrowser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("xdg-open is Linux's")
	}
	bin, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	script := "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > " + seen + ".new && mv " + seen + ".new " + seen + "\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	g := serveGuarded(t)
	r := openGuarded(t, g, map[string]any{"answers": []string{}, "auth": map[string]any{"store": "memory", "openBrowser": "system"},
		"env": map[string]string{"HOME": "/nonexistent", "PATH": bin + ":/usr/bin:/bin"}})
	r.must(VerbConnect, `{}`)
	ch, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`)
	var got []byte
	for end := time.Now().Add(20 * time.Second); len(got) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got, _ = os.ReadFile(seen)
	}
	count, page, _ := strings.Cut(strings.TrimSpace(string(got)), "\n")
	if count != "1" {
		t.Fatalf("the browser was started with %q", got)
	}
	resp, err := http.Get(page) // follows to the listener
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if a := <-ch; !strings.Contains(a.raw, "42") {
		t.Error(a.raw)
	}
	for _, bad := range []string{"file:///etc/passwd", "javascript:alert(1)", "http://mcp.example/", "https:", "-x"} {
		if err := r.m.browse(bad); err == nil {
			t.Errorf("%q was opened", bad)
		}
	}
}

// The older transport is signed in to like the newer one, its stream included.
func TestSignInOverSSE(t *testing.T) {
	g := mcptest.NewGuarded(mcptest.Script{Versions: []string{"2024-11-05"}})
	t.Cleanup(g.Close)
	g.SSE = true
	for _, kind := range []string{"sse", "http"} {
		r := openHTTP(t, map[string]any{"s": map[string]any{"url": g.URL, "type": kind}},
			map[string]any{"answers": []string{"authorization"}, "auth": map[string]any{"store": "memory"}})
		if a := r.must(VerbConnect, `{}`); strings.Join(a.names("needsAuth"), "") != "s" {
			t.Fatalf("%s: %s", kind, a.raw)
		}
		ch, _ := r.begin(VerbCall, `{"server":"s","tool":"add","arguments":{"a":40,"b":2}}`)
		r.agree()
		if a := <-ch; !strings.Contains(a.raw, "42") {
			t.Errorf("%s: %s", kind, a.raw)
		}
	}
	_, gets, _ := g.Requests()
	if last := gets[len(gets)-1].Get("Authorization"); !strings.HasPrefix(last, "Bearer t0psecret") {
		t.Errorf("the stream was asked for with %q", last)
	}
}

// A redirect to another origin takes neither the message nor the token along.
func TestTokenAndRedirect(t *testing.T) {
	var got []string
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(evil.Close)
	g := serveGuarded(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := openGuarded(t, g, nil)
		r.must(VerbConnect, `{"authorize":["s"]}`)
		r.agree()
		r.must(VerbCall, `{"server":"s","tool":"echo"}`)
		g.Redirect(status, evil.URL+"/mcp")
		if a := r.do(VerbCall, `{"server":"s","tool":"echo","retry":"never"}`); a.st == OK || strings.Contains(a.raw, "t0psecret") {
			t.Errorf("%d: %s", status, a.raw)
		}
		g.Redirect(0, "")
		r.m.Close(0)
	}
	if len(got) != 0 {
		t.Errorf("the other origin had %q", got)
	}
}
