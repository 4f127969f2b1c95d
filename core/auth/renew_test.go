package auth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// A 401 with a token leads to one refresh, whoever else meets it at the same time.
func TestRefreshOnRefusal(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	c := w.credentials(store)
	w.mustSignIn(c)
	grantID := c.Principal()
	w.expire()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if n := w.asked("AS POST /token"); n != 2 {
		t.Errorf("%d requests for a token, want the first and one refresh", n)
	}
	if got := w.last(); got.Get("resource") != w.rs.URL+"/mcp" || got.Get("client_id") != "client1" {
		t.Errorf("the refresh was %v", got)
	}
	if c.Principal() != grantID {
		t.Error("a refresh made another principal")
	}
}

// Managers that share a store, as processes do, refresh once; the server revokes all
// when a refresh token comes twice.
func TestSharedRefresh(t *testing.T) {
	dir := t.TempDir()
	files := func() Store {
		s, err := NewFiles(dir + "/auth")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w := newWorld(t)
	w.mustSignIn(w.credentials(files()))
	w.expire()
	var all sync.WaitGroup
	for range 5 {
		c := w.credentials(files())
		all.Go(func() {
			if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if n := w.asked("AS POST /token"); n != 2 {
		t.Errorf("%d requests for a token, want the first and one refresh", n)
	}
}

// Before a token ends it is renewed; while the authorization server is out of order
// one that still serves is used, and is not held up by each request.
func TestRefreshBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	w.life = "100" // a text, as some servers send it
	store := NewMemory()
	c := w.credentials(store)
	w.mustSignIn(c)
	age := func(by time.Duration) *Credentials { // as if the sign-in were older
		g, err := c.load()
		if err != nil || g == nil {
			t.Fatal(err)
		}
		g.ObtainedAt, g.ExpiresAt = g.ObtainedAt.Add(-by), g.ExpiresAt.Add(-by)
		raw, _ := json.Marshal(g)
		if err := store.Save(c.key, raw); err != nil {
			t.Fatal(err)
		}
		return w.credentials(store)
	}
	if status, _, _ := age(80*time.Second).get(t, w.rs.URL+"/mcp"); status != 200 || w.asked("AS POST /token") != 1 {
		t.Errorf("a token of 20 s was renewed: %d", w.asked("AS POST /token"))
	}
	w.token = func(url.Values) (int, any) { return 503, "" }
	c = age(11 * time.Second) // 9 s are left of 100
	for range 3 {
		if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
	if n := w.asked("AS POST /token"); n != 2 {
		t.Errorf("%d requests for a token, want the first and one failure", n)
	}
	w.token = nil
	c = w.credentials(store)
	if status, _, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 || w.asked("AS POST /token") != 3 {
		t.Errorf("%d, %d requests for a token", status, w.asked("AS POST /token"))
	}
	w.token = func(url.Values) (int, any) { return 503, "" }
	c = age(101 * time.Second)
	if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 0 || !strings.Contains(body, "HTTP 503") {
		t.Errorf("a token that is over, and no other: %d %s", status, body)
	}
}

// A refresh token that is no good any more: the request goes without a token, so that
// the server says anew what it wants. What another process stored meanwhile stays.
func TestSpentRefreshToken(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	c := w.credentials(store)
	w.mustSignIn(c)
	w.expire()
	secret := c.held().Refresh
	w.mu.Lock()
	w.refresh = map[string]bool{}
	w.mu.Unlock()
	if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 401 || strings.Contains(body, secret) {
		t.Errorf("%d %s", status, body)
	}
	if g, err := c.load(); err != nil || g == nil || g.Access != "" || g.Refresh != "" || g.Issuer == "" {
		t.Errorf("%+v %v", g, err)
	}
	other := w.credentials(store)
	w.mustSignIn(other)
	if len(w.registered) != 1 {
		t.Errorf("%d registrations", len(w.registered))
	}
	// c sees what other did without asking anybody.
	if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// A refusal that is met by a token which another process has replaced meanwhile never
// deletes the new one.
func TestReplacedTokenStays(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	a, b := w.credentials(store), w.credentials(store)
	w.mustSignIn(a)
	if b.held() == nil {
		t.Fatal("b did not find the sign-in")
	}
	w.expire()
	if status, _, _ := a.get(t, w.rs.URL+"/mcp"); status != 200 {
		t.Fatal(status)
	}
	newest := a.held()
	if status, _, _ := b.get(t, w.rs.URL+"/mcp"); status != 200 {
		t.Error(status)
	}
	if got := b.held(); got == nil || got.Access != newest.Access || w.asked("AS POST /token") != 2 {
		t.Errorf("%v, %d requests for a token", got, w.asked("AS POST /token"))
	}
}

// A caller that gives up does not lose the token that is on its way.
func TestRefreshOutlivesItsCaller(t *testing.T) {
	w := newWorld(t)
	c := w.credentials(NewMemory())
	w.mustSignIn(c)
	w.expire()
	begun, release := make(chan struct{}), make(chan struct{})
	w.token = func(url.Values) (int, any) {
		close(begun)
		<-release
		return 0, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.rs.URL+"/mcp", strings.NewReader("x"))
		_, err := c.Wrap(http.DefaultTransport).RoundTrip(req)
		failed <- err
	}()
	<-begun
	cancel()
	if err := <-failed; err == nil {
		t.Error("the cancelled request succeeded")
	}
	close(release)
	c.Close(t.Context())
	if status, body, _ := c.get(t, w.rs.URL+"/mcp"); status != 200 || w.asked("AS POST /token") != 2 {
		t.Errorf("%d %s, %d requests for a token", status, body, w.asked("AS POST /token"))
	}
}

// No token goes to another origin, nor to this one by http where that is not this machine.
func TestTokenStaysAtItsOrigin(t *testing.T) {
	w := newWorld(t)
	c := w.credentials(NewMemory())
	w.mustSignIn(c)
	var got string
	elsewhere := tripFunc(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Authorization")
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	})
	for target, want := range map[string]bool{w.rs.URL + "/other": true, w.as.URL + "/mcp": false, "https://evil.example/mcp": false,
		strings.Replace(w.rs.URL, "127.0.0.1", "localhost", 1) + "/mcp": false} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if _, err := c.Wrap(elsewhere).RoundTrip(req); err != nil || (got != "") != want {
			t.Errorf("%s got %q (%v)", target, got, err)
		}
	}
	plain, _ := url.Parse("http://mcp.example/mcp")
	c = New(Config{Server: "s", URL: plain, Store: NewMemory(), Warn: func(string, string) {}})
	c.adopt(&grant{Access: "t0psecret", Type: "Bearer"})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, plain.String(), nil)
	if _, err := c.Wrap(elsewhere).RoundTrip(req); err != nil || got != "" {
		t.Errorf("http got %q", got)
	}
	if err := c.SignIn(t.Context(), "Bearer", time.Now(), nobody); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSignOut(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	c, other := w.credentials(store), w.credentials(store)
	w.mustSignIn(c)
	if status, _, _ := other.get(t, w.rs.URL+"/mcp"); status != 200 {
		t.Fatal(status)
	}
	had, revoked, err := c.SignOut(t.Context())
	if !had || !revoked || err != nil {
		t.Errorf("%v %v %v", had, revoked, err)
	}
	for _, c := range []*Credentials{c, other} {
		if status, _, _ := c.get(t, w.rs.URL+"/mcp"); status != 401 || c.View() != nil {
			t.Errorf("after signing out: %d", status)
		}
	}
	if had, _, err := c.SignOut(t.Context()); had || err != nil {
		t.Error(had, err)
	}
}
