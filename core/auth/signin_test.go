package auth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

func listening(c *Config) { c.Listen = true }

// The browser comes back to a page of ours; the host need say nothing more.
func TestLoopbackCallback(t *testing.T) {
	w := newWorld(t)
	c := w.credentials(NewMemory(), listening)
	var page, at string
	err := w.signIn(c, func(ctx context.Context, p Prompt) (string, error) {
		at = p.RedirectURI
		// What does not belong to this sign-in neither ends nor spoils it.
		for _, bad := range []string{"?code=evil", "?code=evil&state=evil", "/x?code=evil"} {
			resp, err := http.Get(strings.Replace(at+bad, "/callback/x", "/x", 1))
			if err != nil {
				return "", err
			}
			resp.Body.Close()
			if resp.StatusCode != 404 {
				t.Errorf("%s had %d", bad, resp.StatusCode)
			}
		}
		to, err := person(ctx, p)
		if err != nil {
			return "", err
		}
		rebound, _ := http.NewRequest(http.MethodGet, to, nil)
		rebound.Host = "evil.example"
		if resp, err := http.DefaultClient.Do(rebound); err != nil || resp.StatusCode != 404 {
			t.Errorf("a foreign host name had %v %v", resp, err)
		}
		resp, err := http.Get(to)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		page = string(body)
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page, "close this page") || strings.Contains(page, "code1") {
		t.Errorf("the page was %q", page)
	}
	u, _ := url.Parse(at)
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

// The host may say early that the listener is to wait.
func TestListenerAfterTheHost(t *testing.T) {
	w := newWorld(t)
	pages := make(chan string, 1)
	go func() {
		to, err := person(t.Context(), Prompt{URL: <-pages})
		if err == nil {
			_, err = http.Get(to)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	if err := w.signIn(w.credentials(NewMemory(), listening), func(_ context.Context, p Prompt) (string, error) {
		pages <- p.URL
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The answer by the listener ends the question to the host.
func TestCallbackEndsTheQuestion(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{})
	err := w.signIn(w.credentials(NewMemory(), listening), func(ctx context.Context, p Prompt) (string, error) {
		to, err := person(ctx, p)
		if err != nil {
			return "", err
		}
		resp, err := http.Get(to)
		if err != nil {
			return "", err
		}
		resp.Body.Close()
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
}

// Without a listener the host has to bring the answer; a taken port is said, and a
// host that pastes needs none.
func TestPastedCallback(t *testing.T) {
	w := newWorld(t)
	silent := func(context.Context, Prompt) (string, error) { return "", nil }
	if err := w.signIn(w.credentials(NewMemory()), silent); err == nil || !strings.Contains(err.Error(), "callbackUrl") {
		t.Error(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := func(c *Config) { c.Listen, c.RedirectURI = true, "http://"+taken.Addr().String()+"/back" }
	if err := w.signIn(w.credentials(NewMemory(), busy), silent); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	w.mustSignIn(w.credentials(NewMemory(), busy))
	onlyQuery := func(ctx context.Context, p Prompt) (string, error) {
		to, err := person(ctx, p)
		_, query, _ := strings.Cut(to, "?")
		return " ?" + query + "&iss=" + p.Issuer + "\n", err
	}
	if err := w.signIn(w.credentials(NewMemory()), onlyQuery); err != nil {
		t.Error(err)
	}
	any := func(c *Config) { c.Listen, c.RedirectURI = true, "http://localhost:0/done" }
	if err := w.signIn(w.credentials(NewMemory(), any), func(ctx context.Context, p Prompt) (string, error) {
		to, err := person(ctx, p)
		if err != nil || !strings.HasPrefix(to, "http://localhost:") || strings.HasPrefix(to, "http://localhost:0/") {
			t.Errorf("%s %v", to, err)
		}
		resp, err := http.Get(to)
		if err == nil {
			resp.Body.Close()
		}
		return "", err
	}); err != nil {
		t.Error(err)
	}
	own := func(c *Config) { c.RedirectURI = "com.example.app:/done" }
	if err := w.signIn(w.credentials(NewMemory(), own), person); err != nil {
		t.Error(err)
	}
}

// Who waits for another one's sign-in has a person's time, not a server's.
func TestSecondSignInWaits(t *testing.T) {
	w := newWorld(t)
	c := w.credentials(NewMemory(), func(c *Config) { c.Patience = 2 * time.Second })
	since := time.Now()
	asked, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- c.SignIn(t.Context(), "Bearer", since, func(ctx context.Context, p Prompt) (string, error) {
			close(asked)
			<-release
			return person(ctx, p)
		})
	}()
	<-asked
	second := make(chan error, 1)
	go func() { second <- c.SignIn(t.Context(), "Bearer", since, nobody) }()
	select {
	case err := <-second:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(2200 * time.Millisecond):
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestSignInFails(t *testing.T) {
	w := newWorld(t)
	no := errors.New("not today")
	if err := w.signIn(w.credentials(NewMemory()), func(context.Context, Prompt) (string, error) { return "", no }); !errors.Is(err, no) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled := errors.New("gone")
	err := w.credentials(NewMemory(), listening).SignIn(ctx, "Bearer", time.Now(), func(ctx context.Context, p Prompt) (string, error) {
		cancel(cancelled)
		return "", nil
	})
	if !errors.Is(err, cancelled) {
		t.Error(err)
	}
	err = w.credentials(NewMemory()).SignIn(t.Context(), `Basic realm="x"`, time.Now(), nobody)
	if err == nil || !strings.Contains(err.Error(), `"basic"`) || !strings.Contains(err.Error(), "headers") {
		t.Error(err)
	}
	err = w.credentials(NewMemory()).SignIn(t.Context(), "Bearer", time.Now(), func(context.Context, Prompt) (string, error) { panic("a bug") })
	if !fault.Is(err, fault.Internal) {
		t.Error(err)
	}
	// What the authorization server echoes of a request is kept out of the message.
	w.token = func(form url.Values) (int, any) {
		return 400, map[string]any{"error": "invalid_grant", "error_description": "bad " + form.Get("code") + " with " + form.Get("code_verifier") + "\x1b[31m\nnewline " + strings.Repeat("x", 5000)}
	}
	err = w.signIn(w.credentials(NewMemory()), person)
	if form := w.last(); err == nil || strings.Contains(err.Error(), form.Get("code_verifier")) || strings.Contains(err.Error(), "\x1b") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 700 {
		t.Error(err)
	}
	w.token = func(form url.Values) (int, any) { return 400, map[string]any{"error": "x" + form.Get("code_verifier")} }
	if err = w.signIn(w.credentials(NewMemory()), person); err == nil || strings.Contains(err.Error(), w.last().Get("code_verifier")) {
		t.Error(err)
	}
	for name, body := range map[string]any{"no token": map[string]any{"token_type": "bearer"}, "a page": "<html>", "a token that breaks a header": map[string]any{"access_token": "a\r\nX: y"},
		"an error with status 200": map[string]any{"error": "bad_verification_code"}, "a huge one": `{"access_token":"` + strings.Repeat("x", 2*maxBody) + `"}`} {
		w.token = func(url.Values) (int, any) { return 200, body }
		c := w.credentials(NewMemory())
		if err := w.signIn(c, person); err == nil || c.View() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who we are: the config's client before a metadata document before a registration.
func TestIdentity(t *testing.T) {
	const document = "https://client.example/mcp.json"
	for _, c := range []struct {
		name    string
		set     func(*world, *Config)
		client  string
		methods string
	}{
		{"registered", func(*world, *Config) {}, "client1", "none"},
		{"a document", func(w *world, c *Config) {
			c.ClientMetadataURL = document
			w.change = func(m map[string]any) { m["client_id_metadata_document_supported"] = true }
		}, document, "none"},
		{"a document that the server does not know", func(w *world, c *Config) { c.ClientMetadataURL = document }, "client1", "none"},
		{"given", func(w *world, c *Config) {
			c.ClientMetadataURL, c.ClientID = document, "mine"
			w.change = func(m map[string]any) { m["client_id_metadata_document_supported"] = true }
		}, "mine", "none"},
		{"given with a secret", func(w *world, c *Config) { c.ClientID, c.ClientSecret = "mi:ne", "s3:cret" }, "mi:ne", "client_secret_basic"},
		{"given with a secret, in the body", func(w *world, c *Config) {
			c.ClientID, c.ClientSecret = "mine", "s3cret"
			w.change = func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} }
		}, "mine", "client_secret_post"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			store := NewMemory()
			var cfg Config
			creds := w.credentials(store, func(made *Config) { c.set(w, made); cfg = *made })
			var prompt Prompt
			if err := w.signIn(creds, func(ctx context.Context, p Prompt) (string, error) { prompt = p; return person(ctx, p) }); err != nil {
				t.Fatal(err)
			}
			u, _ := url.Parse(prompt.URL)
			if got := u.Query().Get("client_id"); got != c.client {
				t.Errorf("the client is %q", got)
			}
			form, header := w.last(), w.headers[len(w.headers)-1]
			user, password, basic := (&http.Request{Header: header}).BasicAuth()
			switch c.methods {
			case "none":
				if basic || form.Has("client_secret") || form.Get("client_id") != c.client {
					t.Errorf("%v %v", form, header)
				}
			case "client_secret_basic":
				if user != url.QueryEscape(c.client) || password != url.QueryEscape(cfg.ClientSecret) || form.Has("client_secret") {
					t.Errorf("%v %v", form, header)
				}
			case "client_secret_post":
				if basic || form.Get("client_secret") != cfg.ClientSecret {
					t.Errorf("%v %v", form, header)
				}
			}
			raw, _ := store.Load(creds.key)
			if cfg.ClientSecret != "" && strings.Contains(string(raw), cfg.ClientSecret) {
				t.Error("the config's secret is stored")
			}
		})
	}
	w := newWorld(t)
	w.change = func(m map[string]any) { delete(m, "registration_endpoint") }
	if err := w.signIn(w.credentials(NewMemory()), nobody); err == nil || !strings.Contains(err.Error(), "clientId") {
		t.Error(err)
	}
}

// A registration is made once for an issuer, says what kind of client we are, and is
// never used at another issuer; nor is what the config gave.
func TestClientsAreOfOneIssuer(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	w.mustSignIn(w.credentials(store))
	second := w.credentials(store, func(c *Config) { c.Server = "t" })
	w.mustSignIn(second)
	if len(w.registered) != 1 {
		t.Errorf("%d registrations", len(w.registered))
	}
	r := w.registered[0]
	if r["application_type"] != "native" || r["client_name"] != "test" || r["scope"] != nil || r["token_endpoint_auth_method"] != "none" {
		t.Errorf("%v", r)
	}
	if grants, _ := r["grant_types"].([]any); !slices.Contains(grants, any("refresh_token")) {
		t.Errorf("%v", r)
	}
	given := w.credentials(store, func(c *Config) { c.Server, c.ClientID, c.ClientSecret = "g", "mine", "s3cret" })
	w.mustSignIn(given)
	// The server turns to another authorization server.
	evil := newWorld(t)
	w.resource = func(string) (int, any) {
		return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{evil.as.URL}}
	}
	w.expire()
	w.refresh = map[string]bool{}
	if err := w.signIn(second, person); err != nil {
		t.Error(err)
	}
	if len(evil.registered) != 1 || evil.last().Get("client_id") != "client1" {
		t.Errorf("%v %v", evil.registered, evil.requests)
	}
	if err := w.signIn(given, person); err == nil || !strings.Contains(err.Error(), evil.as.URL) {
		t.Errorf("the config's client went to another issuer: %v", err)
	}
	if len(evil.requests) != 1 || len(evil.registered) != 1 {
		t.Error("more requests than expected")
	}
	pinned := w.credentials(store, func(c *Config) { c.Server, c.ClientID, c.Issuer = "p", "mine", w.as.URL })
	if err := w.signIn(pinned, person); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Error(err)
	}
}

// A registration that stands where another issuer's belongs is not used.
func TestForeignRegistration(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	if err := store.Save(storeKey("client", w.as.URL), []byte(`{"issuer":"https://other.example","client":{"id":"foreign","method":"none"},"redirect":"http://127.0.0.1:33418/callback"}`)); err != nil {
		t.Fatal(err)
	}
	w.mustSignIn(w.credentials(store))
	if got := w.last().Get("client_id"); got != "client1" {
		t.Errorf("the client is %q", got)
	}
}

// Which scopes are asked for.
func TestScopeChoice(t *testing.T) {
	for _, c := range []struct {
		name      string
		config    []string
		challenge string
		resource  []string
		as        []string
		want      string
		consent   bool
	}{
		{"none known", nil, "", nil, nil, "", false},
		{"the challenge's", nil, "a b", []string{"x"}, nil, "a b", false},
		{"the resource's", nil, "", []string{"x", "y"}, nil, "x y", false},
		{"the config's, and what the challenge needs", []string{"c"}, "a", []string{"x"}, nil, "c a", false},
		{"with a refresh token", nil, "a", nil, []string{"a", "offline_access"}, "a offline_access", true},
		{"a refresh token alone narrows", nil, "", nil, []string{"offline_access"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.challenge = `Bearer scope="` + c.challenge + `"`
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{w.as.URL}, "scopes_supported": c.resource}
			}
			w.change = func(m map[string]any) { m["scopes_supported"] = c.as }
			creds := w.credentials(NewMemory(), func(cfg *Config) { cfg.Scopes = c.config })
			if err := w.signIn(creds, func(ctx context.Context, p Prompt) (string, error) {
				u, _ := url.Parse(p.URL)
				q := u.Query()
				if q.Get("scope") != c.want || q.Has("scope") != (c.want != "") || q.Has("prompt") != c.consent || strings.Join(p.Scopes, " ") != c.want || p.Scopes == nil {
					t.Errorf("%v", q)
				}
				return person(ctx, p)
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A step up asks for what was asked for and what is wanted now; a second request that
// needs the same meanwhile asks nobody.
func TestStepUp(t *testing.T) {
	w := newWorld(t)
	w.challenge = `Bearer scope="read"`
	c := w.credentials(NewMemory())
	w.mustSignIn(c)
	before := time.Now()
	scope := ""
	ask := func(ctx context.Context, p Prompt) (string, error) {
		scope = strings.Join(p.Scopes, " ")
		return person(ctx, p)
	}
	const more = `Bearer error="insufficient_scope", scope="write"`
	if err := c.SignIn(t.Context(), more, time.Now(), ask); err != nil || scope != "read write" {
		t.Errorf("%v, asked for %q", err, scope)
	}
	if !c.Covers([]string{"write", "read"}) || c.Covers([]string{"admin"}) {
		t.Error(c.View())
	}
	if err := c.SignIn(t.Context(), more, before, nobody); err != nil {
		t.Error(err)
	}
}
