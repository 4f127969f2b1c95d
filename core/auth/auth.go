// Package auth signs in to remote servers: the authorization of MCP, OAuth 2.1
// with the extensions that MCP's own extensions ask for.
//
// Credentials is one server's: it finds the authorization server, gets, renews and
// keeps tokens, and adds them to requests to the server's own origin, and to no
// other. It decides nothing about when a person is asked: core does, and calls
// SignIn.
//
// Whatever a server or an authorization server says is hostile until checked: see
// fetch.go for where requests may go, discover.go for whose metadata is believed.
package auth

import (
	"context"
	"crypto/tls"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// Grants, the words of a config's oauth.grant.
const (
	GrantCode       = "authorization_code"
	GrantClient     = "client_credentials"
	GrantJWT        = "jwt_bearer"         // workload identity: RFC 7523 with a token of the platform
	GrantEnterprise = "enterprise_managed" // an identity provider's ID-JAG
)

// Config says how to sign in to one server.
type Config struct {
	Server     string // its name, for messages
	URL        *url.URL
	Store      Store
	ClientName string // shown to people by the authorization server
	Version    string

	TLS   *tls.Config // authorities; a client certificate in it is not used here
	Proxy func(*url.URL) (*url.URL, error)
	Via   string                     // the config's own proxy and authorities: who reads along there gets no sign-in that was made without them
	Warn  func(code, message string) // what does not stop a sign-in; never nil

	ClientMetadataURL string // of a client ID metadata document; "": none
	Listen            bool   // take the callback on the loopback interface

	Patience time.Duration // for all that a sign-in asks servers before it asks the person; 0: only that of each request

	Settings
}

// Credentials are those of one server. All methods are safe from any goroutine.
type Credentials struct {
	cfg   Config
	url   *url.URL
	key   string
	fetch *fetcher
	near  atomic.Uint32 // reach of the server as its connections show it
	named bool          // its host is a name, which may lead anywhere

	gate    chan struct{} // who fills it changes the grant: never held while a person is waited for
	signing chan struct{} // who fills it asks a person

	mu      sync.Mutex
	loaded  bool
	grant   *grant    // immutable; nil: none
	unsaved bool      // the store did not take the grant in use: it is this process's alone
	placed  bool      // near is known from a connection
	failed  time.Time // when a renewal failed
	worked  string    // the access token that the server took last
	nonce   string    // the server's last DPoP nonce
	asNonce string    // the authorization server's
}

// New makes the credentials of a server. Nothing is read or sent yet.
func New(cfg Config) *Credentials {
	c := &Credentials{cfg: cfg, url: cfg.URL, gate: make(chan struct{}, 1), signing: make(chan struct{}, 1)}
	c.key = storeKey("grant", cfg.Server, canonical(cfg.URL), cfg.URL.RawQuery, cfg.ClientID, cfg.grant(), cfg.Via)
	c.near.Store(uint32(reachOfHost(cfg.URL.Hostname())))
	_, err := netip.ParseAddr(cfg.URL.Hostname())
	c.named = err != nil && !IsLoopbackHost(cfg.URL.Hostname())
	c.fetch = newFetcher(cfg.Server, func() reach { return reach(c.near.Load()) }, cfg.TLS, cfg.Proxy)
	return c
}

// Close waits for a renewal that is on its way, as long as ctx lasts, and lets go of
// idle connections.
func (c *Credentials) Close(ctx context.Context) {
	select {
	case c.gate <- struct{}{}:
		<-c.gate
	case <-ctx.Done():
	}
	c.fetch.close()
}

// Interactive tells that a person is needed to get a token.
func (c *Credentials) Interactive() bool { return c.cfg.grant() == GrantCode }

// tracing tells whether it must be seen where connections to the server lead.
func (c *Credentials) tracing() bool {
	if !c.named {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.placed || reach(c.near.Load()) != public
}

// seen notes where a connection to the server itself led.
func (c *Credentials) seen(address string) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || reachOf(at.Addr()) == special {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Once public is public for ever: a name that leads inside later must not open the
	// inside to what the server names.
	if now := uint32(reachOf(at.Addr())); !c.placed || reach(now) == public {
		c.placed = true
		c.near.Store(now)
	}
}

func (c *Credentials) errorf(code fault.Code, format string, args ...any) *fault.Error {
	return c.fetch.errorf(code, format, args...)
}

// Secrets are the values that no message may hold.
func (c *Credentials) Secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	if g := c.grant; g != nil {
		list = append(list, g.Access, g.Refresh, g.Client.Secret, g.Key)
	}
	s := &c.cfg.Settings
	return append(list, s.ClientSecret, s.PrivateKey, s.Assertion, s.IDToken, s.IDPClientSecret)
}
