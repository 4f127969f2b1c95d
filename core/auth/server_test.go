package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// world is an MCP server and its authorization server, each on its own port of this
// machine, with knobs for what they do wrong.
type world struct {
	t        *testing.T
	rs, as   *httptest.Server
	mu       sync.Mutex
	log      []string // "METHOD path" at either
	tokens   map[string]bool
	refresh  map[string]bool // refresh tokens that are good
	spent    map[string]bool
	codes    map[string]url.Values
	serial   int
	requests []url.Values // at the token endpoint
	headers  []http.Header
	seen     []string // Authorization at the MCP server

	challenge  string // of the 401; "{rs}" is the server's origin
	resource   func(path string) (int, any)
	meta       func(path string) (int, any)
	change     func(map[string]any) // of the usual metadata
	iss        func(string) (string, bool)
	token      func(url.Values) (int, any)
	life       any
	status     func(*http.Request) int // of the MCP server, 0: by the token
	registered []map[string]any
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, tokens: map[string]bool{}, refresh: map[string]bool{}, spent: map[string]bool{}, codes: map[string]url.Values{}, life: 3600,
		challenge: `Bearer resource_metadata="{rs}/.well-known/oauth-protected-resource/mcp"`}
	w.as = httptest.NewServer(http.HandlerFunc(w.serveAS))
	w.rs = httptest.NewServer(http.HandlerFunc(w.serveRS))
	t.Cleanup(w.as.Close)
	t.Cleanup(w.rs.Close)
	return w
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

func (w *world) asked(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, l := range w.log {
		if l == what {
			n++
		}
	}
	return n
}

func send(rw http.ResponseWriter, status int, body any) {
	if raw, ok := body.(string); ok {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, raw)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body)
}

func (w *world) serveRS(rw http.ResponseWriter, r *http.Request) {
	w.note("RS " + r.Method + " " + r.URL.Path)
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		if w.resource != nil {
			status, body := w.resource(r.URL.Path)
			if status/100 == 3 {
				rw.Header().Set("Location", body.(string))
			}
			send(rw, status, body)
			return
		}
		if r.URL.Path != "/.well-known/oauth-protected-resource/mcp" {
			http.NotFound(rw, r)
			return
		}
		send(rw, 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{w.as.URL}})
		return
	}
	auth := r.Header.Get("Authorization")
	w.mu.Lock()
	w.seen = append(w.seen, auth)
	good := w.tokens[strings.TrimPrefix(auth, "Bearer ")]
	w.mu.Unlock()
	if w.status != nil {
		if s := w.status(r); s != 0 {
			rw.Header().Set("WWW-Authenticate", strings.ReplaceAll(w.challenge, "{rs}", w.rs.URL))
			send(rw, s, map[string]any{})
			return
		}
	}
	if !good {
		rw.Header().Set("WWW-Authenticate", strings.ReplaceAll(w.challenge, "{rs}", w.rs.URL))
		send(rw, 401, map[string]any{"error": "invalid_token"})
		return
	}
	body, _ := io.ReadAll(r.Body)
	send(rw, 200, "ok "+string(body))
}

func (w *world) metadata() map[string]any {
	m := map[string]any{"issuer": w.as.URL, "authorization_endpoint": w.as.URL + "/authorize", "token_endpoint": w.as.URL + "/token",
		"registration_endpoint": w.as.URL + "/register", "revocation_endpoint": w.as.URL + "/revoke", "code_challenge_methods_supported": []string{"S256"}}
	if w.change != nil {
		w.change(m)
	}
	return m
}

func (w *world) serveAS(rw http.ResponseWriter, r *http.Request) {
	w.note("AS " + r.Method + " " + r.URL.Path)
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/authorize":
		q := r.URL.Query()
		w.mu.Lock()
		w.serial++
		code := fmt.Sprintf("code%d", w.serial)
		w.codes[code] = q
		w.mu.Unlock()
		to, _ := url.Parse(q.Get("redirect_uri"))
		answer := url.Values{"code": {code}, "state": {q.Get("state")}}
		if w.iss != nil {
			if iss, ok := w.iss(w.as.URL); ok {
				answer.Set("iss", iss)
			}
		}
		to.RawQuery = answer.Encode()
		http.Redirect(rw, r, to.String(), http.StatusFound)
	case "/register":
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.mu.Lock()
		w.registered = append(w.registered, body)
		id := fmt.Sprintf("client%d", len(w.registered))
		w.mu.Unlock()
		send(rw, 201, map[string]any{"client_id": id, "token_endpoint_auth_method": "none"})
	case "/revoke":
		w.mu.Lock()
		delete(w.refresh, r.PostForm.Get("token"))
		w.tokens = map[string]bool{}
		w.mu.Unlock()
	case "/token":
		w.mu.Lock()
		w.requests = append(w.requests, r.PostForm)
		w.headers = append(w.headers, r.Header)
		w.mu.Unlock()
		if w.token != nil {
			if status, body := w.token(r.PostForm); status != 0 {
				send(rw, status, body)
				return
			}
		}
		w.grantTo(rw, r.PostForm)
	default:
		if w.meta != nil {
			status, body := w.meta(r.URL.Path)
			send(rw, status, body)
			return
		}
		if r.URL.Path == "/.well-known/oauth-authorization-server" {
			send(rw, 200, w.metadata())
			return
		}
		http.NotFound(rw, r)
	}
}

// grantTo rotates refresh tokens, and takes a second use for theft.
func (w *world) grantTo(rw http.ResponseWriter, form url.Values) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch form.Get("grant_type") {
	case "authorization_code":
		q := w.codes[form.Get("code")]
		delete(w.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != form.Get("redirect_uri") {
			send(rw, 400, map[string]any{"error": "invalid_grant"})
			return
		}
	case "refresh_token":
		old := form.Get("refresh_token")
		if w.spent[old] {
			w.tokens, w.refresh = map[string]bool{}, map[string]bool{}
		}
		if !w.refresh[old] {
			send(rw, 400, map[string]any{"error": "invalid_grant", "error_description": "the token " + old + " is spent"})
			return
		}
		delete(w.refresh, old)
		w.spent[old] = true
	}
	w.serial++
	access, refresh := fmt.Sprintf("access%d", w.serial), fmt.Sprintf("refresh%d", w.serial)
	w.tokens[access], w.refresh[refresh] = true, true
	send(rw, 200, map[string]any{"access_token": access, "token_type": "bearer", "refresh_token": refresh, "expires_in": w.life})
}

// expire makes every access token bad, as a server does whose clock runs faster.
func (w *world) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens = map[string]bool{}
}

// last gives the last token request.
func (w *world) last() url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) == 0 {
		return url.Values{}
	}
	return w.requests[len(w.requests)-1]
}

func (w *world) credentials(store Store, change ...func(*Config)) *Credentials {
	w.t.Helper()
	u, err := url.Parse(w.rs.URL + "/mcp")
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{Server: "s", URL: u, Store: store, ClientName: "test", Warn: func(code, m string) { w.t.Logf("%s: %s", code, m) }}
	for _, f := range change {
		f(&cfg)
	}
	c := New(cfg)
	w.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// person opens the page and gives back where the browser ended.
func person(ctx context.Context, p Prompt) (string, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(p.URL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.Header.Get("Location"), nil
}

func nobody(context.Context, Prompt) (string, error) { return "", errors.New("nobody may be asked") }

// get makes one request as the transport does.
func (c *Credentials) get(t *testing.T, target string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	resp, err := c.Wrap(pool).RoundTrip(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header
}

// signIn meets the refusal, asks the person, and calls.
func (w *world) signIn(c *Credentials, ask Ask) error {
	w.t.Helper()
	status, body, header := c.get(w.t, w.rs.URL+"/mcp")
	if status != 401 {
		w.t.Fatalf("the first request had %d %s", status, body)
	}
	return c.SignIn(w.t.Context(), strings.Join(header.Values("WWW-Authenticate"), ", "), time.Now(), ask)
}

func (w *world) mustSignIn(c *Credentials) {
	w.t.Helper()
	if err := w.signIn(c, person); err != nil {
		w.t.Fatal(err)
	}
	if status, body, _ := c.get(w.t, w.rs.URL+"/mcp"); status != 200 || body != "ok hello" {
		w.t.Fatalf("after the sign-in: %d %s", status, body)
	}
}

func (w *world) wells() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.log), func(s string) bool { return !strings.Contains(s, "/.well-known/") && !strings.Contains(s, "openid") })
}

// handlerOf serves both roles at one origin, with or without metadata.
func handlerOf(w *world, published bool) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/mcp", strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected"):
			w.serveRS(rw, r)
		case strings.HasPrefix(r.URL.Path, "/.well-known/") && !published:
			http.NotFound(rw, r)
		default:
			w.serveAS(rw, r)
		}
	})
}
