package auth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
)

// registration is a client that an authorization server made for us (RFC 7591). It
// belongs to that issuer alone.
type registration struct {
	Issuer    string    `json:"issuer"`
	Client    client    `json:"client"`
	Redirect  string    `json:"redirect"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // of the secret
}

// identity finds who we are at the authorization server: given by the config, a
// metadata document of our own, or registered now. redirect may be nil where no
// person comes back.
func (c *Credentials) identity(ctx context.Context, f *found, redirect *callback) (client, error) {
	m := c.cfg.AuthMethod
	switch {
	case c.cfg.ClientID != "":
		if m == "" {
			m = method(f.as.Methods, c.cfg.ClientSecret != "", c.cfg.PrivateKey != "")
		}
		return client{ID: c.cfg.ClientID, Method: m, Given: true}, nil
	case f.as.MetadataID && c.cfg.ClientMetadataURL != "":
		return client{ID: c.cfg.ClientMetadataURL, Method: "none"}, nil
	case f.as.Registration != "" && redirect != nil:
		return c.register(ctx, f, redirect)
	}
	if f.as.MetadataID {
		return client{}, c.errorf(fault.NeedsAuth, `its authorization server knows clients by a metadata document only; give open's "auth":{"clientMetadataUrl"}, or "oauth":{"clientId"} in the server's config`)
	}
	return client{}, c.errorf(fault.NeedsAuth, `its authorization server registers no clients by itself; register one there by hand, with the redirect URI %s, and put its id into the server's config: "oauth":{"clientId":"…"}`, redirect.uri())
}

// register uses an earlier registration while its redirect URI still can be
// answered, else makes a new one.
func (c *Credentials) register(ctx context.Context, f *found, redirect *callback) (client, error) {
	key := storeKey("client", f.as.Issuer)
	if old := c.registered(key, f.as.Issuer); old != nil && redirect.moveTo(old.Redirect) {
		return old.Client, nil
	}
	at, err := c.endpoint("registration endpoint", f.as.Registration, f.as.own)
	if err != nil {
		return client{}, err
	}
	want := "none"
	if len(f.as.Methods) > 0 && !slices.Contains(f.as.Methods, want) {
		want = method(f.as.Methods, true, false)
	}
	kind := "native"
	if u, err := url.Parse(redirect.uri()); err == nil && u.Scheme == "https" {
		kind = "web"
	}
	body, err := json.Marshal(map[string]any{
		"client_name": c.cfg.ClientName, "software_id": "mcprt", "software_version": c.cfg.Version, "application_type": kind,
		"redirect_uris": []string{redirect.uri()}, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": want,
	})
	if err != nil {
		return client{}, err
	}
	r, err := c.fetch.do(ctx, http.MethodPost, at, f.as.own, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return client{}, err
	}
	var answer struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Method  string `json:"token_endpoint_auth_method"`
		Expires any    `json:"client_secret_expires_at"`
		oauthError
	}
	if err := json.Unmarshal(r.body, &answer); err != nil || r.status/100 != 2 || answer.ID == "" {
		if f.as.guessed {
			return client{}, c.errorf(fault.NeedsAuth, `it publishes nothing about how to sign in, so mcprt cannot; give a token in "headers", or "oauth":{"metadataUrl":"…"} in its config`)
		}
		why := "HTTP " + strconv.Itoa(r.status)
		if answer.Code != "" {
			why = answer.oauthError.String()
		}
		return client{}, c.errorf(fault.NeedsAuth, `its authorization server did not register mcprt: %s; register a client there by hand, with the redirect URI %s, and put its id into the server's config: "oauth":{"clientId":"…"}`, why, redirect.uri())
	}
	who := client{ID: answer.ID, Secret: answer.Secret, Method: answer.Method}
	if !slices.Contains(authMethods, who.Method) || who.Method == "private_key_jwt" {
		who.Method = method(f.as.Methods, who.Secret != "", false)
	}
	if who.Secret == "" {
		who.Method = "none"
	}
	made := registration{Issuer: f.as.Issuer, Client: who, Redirect: redirect.uri()}
	if seconds, ok := answer.Expires.(float64); ok && seconds > 0 && seconds < 1<<40 {
		made.ExpiresAt = time.Unix(int64(seconds), 0)
	}
	if raw, err := json.Marshal(made); err == nil {
		if err := c.cfg.Store.Save(key, raw); err != nil {
			c.cfg.Warn("credentials_not_stored", "the registration at the authorization server of server \""+c.cfg.Server+"\" cannot be stored: "+err.Error())
		}
	}
	return who, nil
}

func (c *Credentials) registered(key, issuer string) *registration {
	raw, err := c.cfg.Store.Load(key)
	var r registration
	if err != nil || raw == nil || json.Unmarshal(raw, &r) != nil || r.Issuer != issuer || r.Client.ID == "" ||
		!r.ExpiresAt.IsZero() && !time.Now().Before(r.ExpiresAt.Add(-time.Minute)) {
		return nil
	}
	return &r
}

// forgetClient drops a registration that the server does not know any more, unless
// another one took its place.
func (c *Credentials) forgetClient(issuer, id string) {
	key := storeKey("client", issuer)
	if r := c.registered(key, issuer); r != nil && r.Client.ID == id {
		_ = c.cfg.Store.Delete(key)
	}
}

// scope gives what to ask for: the config's word, else the challenge's, else all
// that the resource has; besides what was asked for before.
func (c *Credentials) scopes(f *found, challenged []string, before []string) []string {
	want := c.cfg.Scopes
	switch {
	case len(want) > 0:
		want = union(want, challenged)
	case len(challenged) > 0:
		want = challenged
	default:
		want = splitScopes(strings.Join(f.scopes, " "))
	}
	want = union(before, want)
	const offline = "offline_access" // without it some servers give no refresh token
	if len(want) > 0 && c.Interactive() && slices.Contains(f.as.Scopes, offline) {
		want = union(want, []string{offline})
	}
	return want
}
