package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/goccy/go-json"
)

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (w *world) mustCall(c *Credentials) {
	w.t.Helper()
	if status, body, _ := c.get(w.t, w.rs.URL+"/mcp"); status != 200 {
		w.t.Fatalf("%d %s", status, body)
	}
}

func TestClientCredentials(t *testing.T) {
	w := newWorld(t)
	w.challenge = `Bearer scope="a b"`
	c := w.credentials(NewMemory(), func(c *Config) { c.Grant, c.ClientID, c.ClientSecret = GrantClient, "robot", "s3cret" })
	w.mustCall(c)
	form := w.last()
	if form.Get("grant_type") != "client_credentials" || form.Get("scope") != "a b" || form.Get("resource") != w.rs.URL+"/mcp" || c.Interactive() {
		t.Errorf("%v", form)
	}
	w.mustCall(c)
	if n := w.asked("AS POST /token"); n != 1 {
		t.Errorf("%d requests for a token", n)
	}
	// A refused new token is not replaced without end.
	w.expire()
	w.token = func(url.Values) (int, any) {
		return 200, map[string]any{"access_token": "bad", "token_type": "Bearer"}
	}
	c.adopt(&grant{Access: "old", Type: "Bearer", Issuer: w.as.URL})
	for range 3 {
		if status, _, _ := c.get(t, w.rs.URL+"/mcp"); status != 401 {
			t.Error(status)
		}
	}
	if n := w.asked("AS POST /token"); n != 2 {
		t.Errorf("%d requests for a token", n)
	}
}

// More scopes are got without a person, twice at most for one request.
func TestMachineStepUp(t *testing.T) {
	w := newWorld(t)
	w.status = func(r *http.Request) int {
		if last := w.last(); r.Header.Get("Authorization") != "" && !strings.Contains(last.Get("scope"), "write") {
			w.challenge = `Bearer error="insufficient_scope", scope="write"`
			return 403
		}
		return 0
	}
	w.challenge = `Bearer scope="read"`
	c := w.credentials(NewMemory(), func(c *Config) { c.Grant, c.ClientID, c.ClientSecret = GrantClient, "robot", "s3cret" })
	w.mustCall(c)
	if got := w.last().Get("scope"); got != "read write" {
		t.Errorf("asked for %q", got)
	}
}

func TestClientAssertion(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  crypto.Signer
		alg  string
		want jose.SignatureAlgorithm
	}{{ec, "", jose.ES256}, {ec384, "", jose.ES384}, {ed, "", jose.EdDSA}, {rs, "", jose.RS256}, {rs, "PS256", jose.PS256}, {ec, "ES256", jose.ES256}} {
		w := newWorld(t)
		creds := w.credentials(NewMemory(), func(cfg *Config) {
			cfg.Grant, cfg.ClientID, cfg.PrivateKey, cfg.Algorithm, cfg.KeyID = GrantClient, "robot", pkcs8(t, c.key), c.alg, "k1"
		})
		w.mustCall(creds)
		form := w.last()
		token, err := jwt.ParseSigned(form.Get("client_assertion"), []jose.SignatureAlgorithm{c.want})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.Claims
		if err := token.Claims(c.key.Public(), &claims); err != nil || claims.Issuer != "robot" || claims.Subject != "robot" || !claims.Audience.Contains(w.as.URL) || claims.ID == "" ||
			token.Headers[0].KeyID != "k1" || claims.Expiry == nil {
			t.Errorf("%+v %v", claims, err)
		}
	}
	w := newWorld(t)
	for _, bad := range []Settings{{PrivateKey: "s3cret junk"}, {PrivateKey: pkcs8(t, ec), Algorithm: "RS256"}, {PrivateKey: pkcs8(t, ec), Algorithm: "none"}} {
		bad.Grant, bad.ClientID = GrantClient, "robot"
		c := w.credentials(NewMemory(), func(cfg *Config) { cfg.Settings = bad })
		if status, why, _ := c.get(t, w.rs.URL+"/mcp"); status != 0 || !strings.Contains(why, "oauth.") || strings.Contains(why, "s3cret") {
			t.Errorf("%d %s", status, why)
		}
	}
}

// The workload's token comes from the config, or from a file that the platform renews.
func TestWorkloadIdentity(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first.jwt.one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.credentials(NewMemory(), func(c *Config) { c.Grant, c.AssertionFile = GrantJWT, file })
	w.mustCall(c)
	if form := w.last(); form.Get("grant_type") != jwtBearer || form.Get("assertion") != "first.jwt.one" || form.Has("client_id") {
		t.Errorf("%v", form)
	}
	if err := os.WriteFile(file, []byte("second.jwt.two"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.expire()
	c.mu.Lock()
	g := *c.grant
	g.ObtainedAt = g.ObtainedAt.Add(-justNow)
	c.grant = &g
	c.mu.Unlock()
	w.mustCall(c)
	if form := w.last(); form.Get("assertion") != "second.jwt.two" {
		t.Errorf("%v", form)
	}
	// A refusal is final: neither again nor by another grant.
	w = newWorld(t)
	w.token = func(form url.Values) (int, any) {
		return 400, map[string]any{"error": "invalid_grant", "error_description": "not " + form.Get("assertion")}
	}
	c = w.credentials(NewMemory(), func(c *Config) { c.Grant, c.Assertion = GrantJWT, "s3cret.jwt.x" })
	if status, why, _ := c.get(t, w.rs.URL+"/mcp"); status != 0 || !strings.Contains(why, "invalid_grant") || strings.Contains(why, "s3cret") {
		t.Errorf("%d %s", status, why)
	}
	if n := w.asked("AS POST /token"); n != 1 {
		t.Errorf("%d requests for a token", n)
	}
	c = w.credentials(NewMemory(), func(c *Config) { c.Grant, c.AssertionFile = GrantJWT, "/nonexistent/token" })
	if status, why, _ := c.get(t, w.rs.URL+"/mcp"); status != 0 || !strings.Contains(why, "assertionFile") {
		t.Errorf("%d %s", status, why)
	}
}

// Enterprise-managed: the identity provider turns the person's token into an assertion
// for this authorization server and this resource.
func TestEnterpriseManaged(t *testing.T) {
	w := newWorld(t)
	var exchange url.Values
	var idp *httptest.Server
	idp = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			send(rw, 200, map[string]any{"issuer": idp.URL, "token_endpoint": idp.URL + "/token"})
			return
		}
		_ = r.ParseForm()
		exchange = r.PostForm
		if r.PostForm.Get("subject_token") != "id.token.x" {
			send(rw, 400, map[string]any{"error": "invalid_request"})
			return
		}
		send(rw, 200, map[string]any{"access_token": "the.id.jag", "issued_token_type": typeIDJAG, "token_type": "N_A"})
	}))
	t.Cleanup(idp.Close)
	set := func(token string) func(*Config) {
		return func(c *Config) {
			c.Grant, c.ClientID, c.ClientSecret, c.IDToken, c.IDPClientID, c.IDPIssuer = GrantEnterprise, "app", "s3cret", token, "desk", idp.URL
		}
	}
	w.mustCall(w.credentials(NewMemory(), set("id.token.x")))
	if exchange.Get("audience") != w.as.URL || exchange.Get("resource") != w.rs.URL+"/mcp" || exchange.Get("client_id") != "desk" ||
		exchange.Get("grant_type") != tokenExchange || exchange.Get("requested_token_type") != typeIDJAG || exchange.Get("subject_token_type") != typeIDToken {
		t.Errorf("%v", exchange)
	}
	if form := w.last(); form.Get("grant_type") != jwtBearer || form.Get("assertion") != "the.id.jag" {
		t.Errorf("%v", form)
	}
	if status, why, _ := w.credentials(NewMemory(), set("another")).get(t, w.rs.URL+"/mcp"); status != 0 || !strings.Contains(why, "identity provider") {
		t.Errorf("%d %s", status, why)
	}
}

// DPoP where the server wants it: the token is bound to a key, each request proves it,
// and nonces of both servers are honoured.
func TestDPoP(t *testing.T) {
	w := newWorld(t)
	w.challenge = `DPoP algs="ES256"`
	w.change = func(m map[string]any) { m["dpop_signing_alg_values_supported"] = []string{"ES256"} }
	proofs := map[string]bool{}
	check := func(header http.Header, method, target string) map[string]any {
		token, err := jwt.ParseSigned(header.Get("DPoP"), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Errorf("%s %s: %v", method, target, err)
			return nil
		}
		var claims map[string]any
		if err := token.Claims(token.Headers[0].JSONWebKey, &claims); err != nil || claims["htm"] != method || claims["htu"] != target || token.Headers[0].ExtraHeaders["typ"] != "dpop+jwt" {
			t.Errorf("%v %v", claims, err)
		}
		if !token.Headers[0].JSONWebKey.IsPublic() || proofs[header.Get("DPoP")] {
			t.Error("the private key is shown, or a proof comes twice")
		}
		proofs[header.Get("DPoP")] = true
		return claims
	}
	w.token = func(form url.Values) (int, any) {
		check(w.headers[len(w.headers)-1], "POST", w.as.URL+"/token")
		w.tokens["bound"] = true
		return 200, map[string]any{"access_token": "bound", "token_type": "DPoP", "expires_in": 3600}
	}
	nonces := 0
	w.rs.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" || r.Header.Get("Authorization") == "" {
			w.serveRS(rw, r)
			return
		}
		if r.Header.Get("Authorization") != "DPoP bound" {
			t.Error(r.Header)
		}
		claims := check(r.Header, "POST", w.rs.URL+"/mcp")
		if claims["nonce"] != "n1" {
			nonces++
			rw.Header().Set("DPoP-Nonce", "n1")
			rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			rw.WriteHeader(401)
			return
		}
		if claims["ath"] == nil {
			t.Error("the proof names no token")
		}
		send(rw, 200, "ok hello")
	})
	store := NewMemory()
	c := w.credentials(store)
	w.mustSignIn(c)
	w.mustCall(c)
	if nonces != 1 {
		t.Errorf("%d requests without the nonce", nonces)
	}
	w.mustCall(w.credentials(store)) // the key is stored with the token
	off := false
	plain := w.credentials(NewMemory(), func(c *Config) { c.DPoP = &off })
	w.token = nil
	if err := w.signIn(plain, person); err != nil || w.headers[len(w.headers)-1].Get("DPoP") != "" {
		t.Errorf("DPoP though the config forbids it: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		block map[string]any
		want  string
	}{
		{map[string]any{"enabled": true}, ""},
		{map[string]any{"clientId": "x", "scopes": []string{"a"}, "callbackPort": float64(3000), "resource": false, "other": 7}, ""},
		{map[string]any{"grant": "client-credentials", "clientId": "x", "clientSecret": "y"}, ""},
		{map[string]any{"grant": "client_credentials", "clientId": "x"}, "clientSecret or privateKeyPem"},
		{map[string]any{"grant": "jwt_bearer"}, "assertion"},
		{map[string]any{"grant": "enterprise_managed", "clientId": "x"}, "idToken"},
		{map[string]any{"grant": "password"}, "oauth.grant"},
		{map[string]any{"clientSecret": 7}, "oauth.clientSecret"},
		{map[string]any{"scopes": []any{"a b"}}, "oauth.scopes"},
		{map[string]any{"scopes": 7}, "oauth.scopes"},
		{map[string]any{"callbackPort": 70000}, "oauth.callbackPort"},
		{map[string]any{"callbackPort": "x"}, "oauth.callbackPort"},
		{map[string]any{"tokenEndpointAuthMethod": "tls"}, "oauth.tokenEndpointAuthMethod"},
		{map[string]any{"dpop": "yes"}, "oauth.dpop"},
		{map[string]any{"resource": true}, "oauth.resource"},
	} {
		_, err := ParseSettings(c.block)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.block, err, c.want)
		}
	}
}

// The schema of config files has the members that are read, and no other.
func TestSchemaHasTheSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/mcp.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Defs struct {
			Server struct {
				Properties struct {
					OAuth struct {
						AnyOf []struct{ Properties map[string]any }
					} `json:"oauth"`
				}
			} `json:"server"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var have map[string]any
	for _, form := range doc.Defs.Server.Properties.OAuth.AnyOf {
		if form.Properties != nil {
			have = form.Properties
		}
	}
	manual, err := os.ReadFile("../../docs/auth.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"enabled": true, "scopes": true, "callbackPort": true, "resource": true, "dpop": true}
	for name := range new(Settings).texts() {
		want[name] = true
	}
	for name := range want {
		if have[name] == nil {
			t.Errorf("the schema lacks oauth.%s", name)
		}
		if !strings.Contains(string(manual), "`"+name+"`") {
			t.Errorf("docs/auth.md lacks %s", name)
		}
	}
	for name := range have {
		if !want[name] {
			t.Errorf("the schema has oauth.%s, which is not read", name)
		}
	}
}
