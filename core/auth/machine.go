package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

const (
	jwtBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"
)

// obtain gets a token by a grant that needs no person. used is the grant that was
// refused, nil when the request had none; nil without an error: asking again would
// give the same.
func (c *Credentials) obtain(ctx context.Context, used *grant, list []Challenge) (*grant, error) {
	if g := c.held(); newer(g, used) {
		return g, nil
	}
	which, dpop := ours(list)
	dpop = dpop || list == nil && used != nil && used.Key != "" // a renewal, without a refusal that would say so
	wanted := splitScopes(which.Params["scope"])
	if used != nil && covers(used.Scopes, wanted) && !used.stale(time.Now()) && time.Since(used.ObtainedAt) < justNow {
		return nil, nil
	}
	f, err := c.discover(ctx, which, dpop)
	if err != nil {
		return nil, err
	}
	if err := c.bound(f.as.Issuer); err != nil {
		return nil, err
	}
	at, err := c.endpoint("token endpoint", f.as.Token, f.as.own)
	if err != nil {
		return nil, err
	}
	who := client{ID: c.cfg.ClientID, Method: c.cfg.AuthMethod, Given: true}
	if who.Method == "" {
		who.Method = method(f.as.Methods, c.cfg.ClientSecret != "", c.cfg.PrivateKey != "")
	}
	var asked []string
	if used != nil && used.Issuer == f.as.Issuer {
		asked = used.Scopes
	}
	scopes := c.scopes(f, wanted, asked)
	key, err := c.tokenKey(f)
	if err != nil {
		return nil, err
	}
	form := url.Values{}
	if r := c.resourceOf(f); r != "" {
		form.Set("resource", r)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	switch c.cfg.grant() {
	case GrantClient:
		form.Set("grant_type", "client_credentials")
	case GrantJWT:
		assertion, err := c.fromFile("assertion", c.cfg.Assertion, c.cfg.AssertionFile)
		if err != nil {
			return nil, err
		}
		form.Set("grant_type", jwtBearer)
		form.Set("assertion", assertion)
	case GrantEnterprise:
		assertion, err := c.idJAG(ctx, f, scopes)
		if err != nil {
			return nil, err
		}
		form.Set("grant_type", jwtBearer)
		form.Set("assertion", assertion)
	}
	t, err := c.tokenRequest(ctx, at, f.as.own, who, f.as.Issuer, form, key)
	if err != nil {
		return nil, plain(err)
	}
	g := c.granted(c.base(f, who, scopes, key), t, time.Now())
	g.Refresh = "" // it can be asked for again at any time
	if used != nil {
		g.ID = used.ID
	}
	if old := c.held(); old == nil || old.Issuer != g.Issuer { // whom the config's secrets go to is remembered, see bound
		place := *g
		place.Access = ""
		c.keep(&place)
	}
	c.adopt(g)
	return g, nil
}

// justNow is how long after it was got a refused token is not replaced by another
// one that would be refused alike.
const justNow = 10 * time.Second

// idJAG exchanges the person's identity token at the identity provider for an
// assertion to the authorization server (enterprise-managed authorization).
func (c *Credentials) idJAG(ctx context.Context, f *found, scopes []string) (string, error) {
	idToken, err := c.fromFile("idToken", c.cfg.IDToken, c.cfg.IDTokenFile)
	if err != nil {
		return "", err
	}
	target := c.cfg.IDPTokenEndpoint
	if target == "" {
		if target, err = c.idpEndpoint(ctx); err != nil {
			return "", err
		}
	}
	at, err := url.Parse(target)
	if err != nil {
		return "", c.errorf(fault.Config, "oauth.idpTokenEndpoint is no valid url")
	}
	form := url.Values{"grant_type": {tokenExchange}, "subject_token": {idToken}, "subject_token_type": {typeIDToken}, "requested_token_type": {typeIDJAG},
		"audience": {f.as.Issuer}, "resource": {f.resource}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	who := client{ID: c.cfg.IDPClientID, Secret: c.cfg.IDPClientSecret, Method: "none"}
	if who.Secret != "" {
		who.Method = "client_secret_post"
	}
	t, err := c.tokenRequest(ctx, at, true, who, "", form, "")
	if err != nil {
		if no := (*refusal)(nil); errors.As(err, &no) {
			return "", c.errorf(fault.NeedsAuth, "the identity provider gave no assertion for it: %s", no.fault.Message)
		}
		return "", err
	}
	if t.Issued != "" && t.Issued != typeIDJAG {
		return "", c.errorf(fault.NeedsAuth, "the identity provider gave a token of another kind, %s", fault.Foreign(t.Issued, 100))
	}
	return t.Access, nil
}

// idpEndpoint finds the token endpoint of the configured identity provider.
func (c *Credentials) idpEndpoint(ctx context.Context) (string, error) {
	for _, known := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		var m serverMeta
		ok, err := c.document(ctx, strings.TrimSuffix(c.cfg.IDPIssuer, "/")+known, true, &m)
		if err != nil {
			return "", err
		}
		if ok && m.Issuer == c.cfg.IDPIssuer && m.Token != "" {
			return m.Token, nil
		}
	}
	return "", c.errorf(fault.NeedsAuth, "the configured oauth.idpIssuer publishes no metadata of its own; give oauth.idpTokenEndpoint")
}

// fromFile gives a token of the config, or of a file that somebody else keeps fresh.
func (c *Credentials) fromFile(name, value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		var raw []byte
		raw, err = io.ReadAll(io.LimitReader(f, maxToken))
		value = strings.TrimSpace(string(raw))
	}
	if err != nil {
		return "", c.errorf(fault.NeedsAuth, "oauth.%sFile cannot be read: %w", name, err)
	}
	if !visible(value) {
		return "", c.errorf(fault.NeedsAuth, "oauth.%sFile holds no token", name)
	}
	return value, nil
}

// revokeRequest gives a token back.
func (c *Credentials) revokeRequest(ctx context.Context, at *url.URL, g *grant, form url.Values) bool {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if c.identify(g.Client, g.Issuer, form, header) != nil {
		return false
	}
	r, err := c.fetch.do(ctx, http.MethodPost, at, g.Own, header, []byte(form.Encode()))
	return err == nil && r.status/100 == 2
}
