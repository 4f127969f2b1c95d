package auth

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// resourceMeta is what is used of protected resource metadata (RFC 9728).
type resourceMeta struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Bound    bool     `json:"dpop_bound_access_tokens_required"`
}

// serverMeta is what is used of authorization server metadata (RFC 8414, OpenID
// Connect Discovery).
type serverMeta struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Grants        []string `json:"grant_types_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	DPoP          []string `json:"dpop_signing_alg_values_supported"`
	MetadataID    bool     `json:"client_id_metadata_document_supported"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported"`

	guessed bool // no metadata: the endpoints of 2025-03-26 by their default names
	own     bool // the config itself names it
}

// found is where a server lets one sign in.
type found struct {
	resource string // for "resource" of RFC 8707
	scopes   []string
	bound    bool // the server wants tokens bound to a key
	as       serverMeta
	legacy   bool // no resource metadata: the rules of 2025-03-26
}

const maxAuthServers = 8

// discover finds the authorization server of the server's URL.
func (c *Credentials) discover(ctx context.Context, challenge Challenge, dpop bool) (*found, error) {
	meta, err := c.resource(ctx, challenge.Params["resource_metadata"])
	if err != nil {
		return nil, err
	}
	if meta == nil {
		return c.discoverLegacy(ctx)
	}
	f := &found{resource: meta.Resource, scopes: meta.Scopes, bound: meta.Bound || dpop}
	if len(meta.Servers) == 0 && c.cfg.MetadataURL == "" {
		return nil, c.errorf(fault.NeedsAuth, "its resource metadata names no authorization server, so mcprt cannot sign in; give a token in \"headers\", or tell its operator")
	}
	f.as, err = c.authServer(ctx, meta.Servers)
	return f, err
}

// resource finds the resource metadata; nil: there is none.
func (c *Credentials) resource(ctx context.Context, named string) (*resourceMeta, error) {
	root := c.url.Scheme + "://" + c.url.Host
	path := strings.TrimSuffix(c.url.EscapedPath(), "/")
	candidates := []string{}
	if named != "" {
		candidates = append(candidates, named)
	}
	if path != "" {
		candidates = append(candidates, root+"/.well-known/oauth-protected-resource"+path)
	}
	candidates = append(candidates, root+"/.well-known/oauth-protected-resource")
	var failed error
	for i, target := range candidates {
		var m resourceMeta
		ok, err := c.document(ctx, target, false, &m)
		if err != nil {
			if named != "" && i == 0 && fault.Is(err, fault.NeedsAuth) {
				return nil, err // an address that is refused: no other may stand for it
			}
			failed = err
			continue
		}
		if !ok {
			continue
		}
		if err := c.matches(m.Resource); err != nil {
			return nil, err
		}
		return &m, nil
	}
	return nil, failed
}

// matches refuses metadata of another resource: its authorization server could
// collect tokens for somebody else.
func (c *Credentials) matches(resource string) error {
	r, err := url.Parse(resource)
	if resource == "" || err != nil || !config.SameOrigin(r, c.url) || !within(c.url.EscapedPath(), r.EscapedPath()) {
		return c.errorf(fault.NeedsAuth, "its resource metadata is for %q, not for its own url; it is not signed in to", fault.Foreign(resource, 200))
	}
	return nil
}

// within tells that path is at or below base.
func within(path, base string) bool {
	path, base = strings.TrimSuffix(path, "/"), strings.TrimSuffix(base, "/")
	return path == base || strings.HasPrefix(path, base+"/")
}

// document fetches a JSON object. false: there is none at that place. The server
// may say so by any status or page; only its own trouble is an error.
func (c *Credentials) document(ctx context.Context, target string, own bool, into any) (bool, error) {
	r, err := c.fetch.get(ctx, target, own)
	switch {
	case err != nil:
		return false, err
	case r.status >= 500 && r.status != 501:
		u, _ := url.Parse(target)
		return false, c.errorf(fault.ConnectFailed, "%s answered with HTTP %d, so the way to sign in is not known", shownURL(u), r.status).Retry()
	case r.status != 200 || !rawjson.IsObject(r.body):
		return false, nil
	}
	return json.Unmarshal(r.body, into) == nil, nil
}

// authServer takes the first of the named authorization servers that can be used.
func (c *Credentials) authServer(ctx context.Context, issuers []string) (serverMeta, error) {
	if c.cfg.MetadataURL != "" {
		return c.configured(ctx)
	}
	if c.cfg.Issuer != "" {
		if !slices.Contains(issuers, c.cfg.Issuer) {
			return serverMeta{}, c.errorf(fault.NeedsAuth, "its authorization server is now %q, and its config says \"oauth\":{\"issuer\":%q}; if the change is right, change the config",
				fault.Foreign(strings.Join(issuers, ", "), 300), c.cfg.Issuer)
		}
		issuers = []string{c.cfg.Issuer}
	}
	var first error
	for _, issuer := range issuers[:min(len(issuers), maxAuthServers)] {
		m, err := c.metadata(ctx, issuer)
		if err == nil {
			return m, nil
		}
		if first == nil {
			first = err
		}
	}
	return serverMeta{}, first
}

func (c *Credentials) configured(ctx context.Context) (m serverMeta, err error) {
	ok, err := c.document(ctx, c.cfg.MetadataURL, true, &m)
	switch {
	case err != nil:
		return m, err
	case !ok:
		return m, c.errorf(fault.NeedsAuth, "there is no authorization server metadata at the configured \"metadataUrl\"")
	case c.cfg.Issuer != "" && m.Issuer != c.cfg.Issuer:
		return m, c.errorf(fault.NeedsAuth, "the metadata at the configured \"metadataUrl\" is of %q, and \"issuer\" is %q", fault.Foreign(m.Issuer, 200), c.cfg.Issuer)
	}
	m.own = true
	return m, nil
}

// metadata finds an issuer's metadata: RFC 8414 with the path behind the
// well-known part, then OpenID Connect in both orders.
func (c *Credentials) metadata(ctx context.Context, issuer string) (m serverMeta, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return m, c.errorf(fault.NeedsAuth, "%q, named as its authorization server, is no valid issuer", fault.Foreign(issuer, 200))
	}
	if err := c.fetch.check(u, false); err != nil {
		return m, c.errorf(fault.NeedsAuth, "its authorization server %s is not used: %w", shownURL(u), err)
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	candidates := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		candidates = append(candidates, root+path+"/.well-known/openid-configuration")
	}
	var failed error
	for _, target := range candidates {
		var m serverMeta
		ok, err := c.document(ctx, target, false, &m)
		switch {
		case err != nil:
			failed = err
		case ok && m.Issuer != issuer: // exactly, RFC 8414 section 3.3: else one server could speak for another
			return m, c.errorf(fault.NeedsAuth, "the metadata of its authorization server %q says that it is of %q; it is not signed in to", fault.Foreign(issuer, 200), fault.Foreign(m.Issuer, 200))
		case ok:
			return m, nil
		}
	}
	if failed == nil {
		failed = c.errorf(fault.NeedsAuth, "its authorization server %s publishes no metadata", shownURL(u))
	}
	return m, failed
}

// discoverLegacy is for servers of 2025-03-26: the authorization server is at the
// server's own origin, its metadata there, or its endpoints under default names.
func (c *Credentials) discoverLegacy(ctx context.Context) (*found, error) {
	f := &found{resource: canonical(c.url), legacy: true}
	if c.cfg.MetadataURL != "" {
		m, err := c.configured(ctx)
		f.as = m
		return f, err
	}
	root := c.url.Scheme + "://" + c.url.Host
	for _, target := range []string{root + "/.well-known/oauth-authorization-server", root + "/.well-known/openid-configuration"} {
		var m serverMeta
		ok, err := c.document(ctx, target, false, &m)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			continue
		case m.Issuer != root && m.Issuer != root+"/":
			return nil, c.errorf(fault.NeedsAuth, "the metadata of its authorization server %q says that it is of %q; it is not signed in to", root, fault.Foreign(m.Issuer, 200))
		}
		f.as = m
		return f, nil
	}
	f.as = serverMeta{Issuer: root, Authorization: root + "/authorize", Token: root + "/token", Registration: root + "/register", guessed: true}
	if c.cfg.Issuer != "" && c.cfg.Issuer != root {
		return nil, c.errorf(fault.NeedsAuth, "it does not name its authorization server, and its config says \"oauth\":{\"issuer\":%q}", c.cfg.Issuer)
	}
	return f, nil
}

// canonical is the server's URL as a resource identifier (RFC 8707): no fragment, no query.
func canonical(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// endpoint checks an address of the metadata before it is used.
func (c *Credentials) endpoint(name, raw string, own bool) (*url.URL, error) {
	if raw == "" {
		return nil, c.errorf(fault.NeedsAuth, "its authorization server has no %s", name)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Fragment != "" {
		return nil, c.errorf(fault.NeedsAuth, "the %s of its authorization server is no valid url", name)
	}
	if err := c.fetch.check(u, own); err != nil {
		return nil, c.errorf(fault.NeedsAuth, "the %s of its authorization server is not used: %w", name, err)
	}
	return u, nil
}

// supportsPKCE: from 2025-11-25 on a client refuses a server that does not say that
// it does. A server of 2025-03-26 had to, and need not say so.
func (f *found) supportsPKCE() bool {
	return slices.Contains(f.as.Challenges, "S256") || f.legacy && len(f.as.Challenges) == 0
}

// Offered tells whether a server that works without a sign-in says where one can be had.
func (c *Credentials) Offered(ctx context.Context) (bool, error) {
	meta, err := c.resource(ctx, "")
	return meta != nil, err
}
