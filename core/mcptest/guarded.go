package mcptest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/goccy/go-json"
)

// Guarded is a server that wants a token, and its authorization server, at the same
// origin. Everybody is signed in at once.
type Guarded struct {
	*HTTP
	Free  bool              // it works without a token, too
	Needs map[string]string // tool → the scope that it wants; under Lock

	sync.Mutex
	serial  int
	good    map[string]string // token → its scopes
	asked   map[string]string // code → scopes
	tokens  int
	revoked int
	to      string // all calls are sent there, with status
	status  int
}

// NewGuarded starts one. Close it.
func NewGuarded(s Script) *Guarded {
	g := &Guarded{good: map[string]string{}, asked: map[string]string{}, Needs: map[string]string{}}
	g.HTTP = NewHTTP(s)
	g.HTTP.Intercept = g.intercept
	return g
}

func (g *Guarded) intercept(w http.ResponseWriter, r *http.Request, body []byte) bool {
	g.Lock()
	defer g.Unlock()
	root := "http://" + r.Host
	reply := func(status int, v any) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
		return true
	}
	form, _ := url.ParseQuery(string(body))
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource":
		return reply(200, map[string]any{"resource": root, "authorization_servers": []string{root}})
	case "/.well-known/oauth-authorization-server":
		return reply(200, map[string]any{"issuer": root, "authorization_endpoint": root + "/authorize", "token_endpoint": root + "/token",
			"registration_endpoint": root + "/register", "revocation_endpoint": root + "/revoke", "code_challenge_methods_supported": []string{"S256"}})
	case "/register":
		return reply(201, map[string]any{"client_id": "me"})
	case "/authorize":
		g.serial++
		q := r.URL.Query()
		code := fmt.Sprintf("code%d", g.serial)
		g.asked[code] = q.Get("scope")
		to, _ := url.Parse(q.Get("redirect_uri"))
		to.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
		http.Redirect(w, r, to.String(), http.StatusFound)
		return true
	case "/token":
		g.tokens++
		scopes, ok := g.asked[form.Get("code")]
		if !ok {
			return reply(400, map[string]any{"error": "invalid_grant"})
		}
		token := fmt.Sprintf("t0psecret-%d", g.serial)
		g.good[token] = scopes
		return reply(200, map[string]any{"access_token": token, "token_type": "Bearer"})
	case "/revoke":
		g.revoked++
		delete(g.good, form.Get("token"))
		return true
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		http.NotFound(w, r)
		return true
	}
	if g.status != 0 {
		http.Redirect(w, r, g.to, g.status)
		return true
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	scopes, ok := g.good[token]
	if !ok && (!g.Free || token != "") {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", scope="read"`)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "the token %s is bad", token)
		return true
	}
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m)
	if need := g.Needs[m.Params.Name]; m.Method == "tools/call" && need != "" && !strings.Contains(scopes, need) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+need+`"`)
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	return false
}

// Scope makes every token good for these scopes, "" for no token to be good any more.
func (g *Guarded) Scope(scopes string) {
	g.Lock()
	defer g.Unlock()
	for token := range g.good {
		if g.good[token] = scopes; scopes == "" {
			delete(g.good, token)
		}
	}
}

// Redirect answers every request with a status and another place; 0 ends that.
func (g *Guarded) Redirect(status int, to string) {
	g.Lock()
	defer g.Unlock()
	g.status, g.to = status, to
}

// Tokens counts the tokens that were asked for, and those that were taken back.
func (g *Guarded) Tokens() (asked, revoked int) {
	g.Lock()
	defer g.Unlock()
	return g.tokens, g.revoked
}
