package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/goccy/go-json"
)

// Store keeps what outlives a process. Keys are 64 hex digits. Values hold secrets.
type Store interface {
	// Load returns nil where there is nothing.
	Load(key string) ([]byte, error)
	Save(key string, value []byte) error
	// Delete of what is not there is no error.
	Delete(key string) error
	// Lock keeps every other user of the store, in whichever process, from the key
	// until unlock. Load, Save and Delete do not lock by themselves.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

func storeKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// client is who we are at one authorization server.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method"`          // at the token endpoint
	Given  bool   `json:"given,omitempty"` // by the config: secret and key are there, not here
}

// grant is a server's sign-in as it is stored. It never changes in place. It names
// the issuer and the resource that it is for, and is used for no other.
type grant struct {
	Version    int       `json:"version"`
	ID         string    `json:"id"`     // random; stays over renewals: whose tool list a cached one is
	Server     string    `json:"server"` // for people
	URL        string    `json:"url"`
	Issuer     string    `json:"issuer"`
	Resource   string    `json:"resource,omitempty"`
	TokenURL   string    `json:"tokenUrl"`
	RevokeURL  string    `json:"revokeUrl,omitempty"`
	Own        bool      `json:"own,omitempty"` // the config names the authorization server
	Client     client    `json:"client"`
	Scopes     []string  `json:"scopes,omitempty"` // that were asked for, over all steps
	Access     string    `json:"access,omitempty"`
	Type       string    `json:"type,omitempty"` // "Bearer" or "DPoP"
	Refresh    string    `json:"refresh,omitempty"`
	ObtainedAt time.Time `json:"obtainedAt"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"` // zero: not known
	Key        string    `json:"key,omitempty"`      // PEM of the key that the tokens are bound to
}

const grantVersion = 1

// maxSkew is how long before its end a token is renewed.
const maxSkew = 30 * time.Second

// stale tells that the token should be renewed before it is used.
func (g *grant) stale(now time.Time) bool {
	if g.ExpiresAt.IsZero() {
		return false
	}
	life := g.ExpiresAt.Sub(g.ObtainedAt)
	return !now.Before(g.ExpiresAt.Add(-min(maxSkew, life/10)))
}

func (g *grant) expired(now time.Time) bool { return !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt) }

// load reads the stored grant. What is damaged, or of another server, is none.
func (c *Credentials) load() (*grant, error) {
	raw, err := c.cfg.Store.Load(c.key)
	if err != nil || raw == nil {
		return nil, err
	}
	var g grant
	if json.Unmarshal(raw, &g) != nil || g.Version != grantVersion || g.URL != canonical(c.url) || g.Issuer == "" {
		return nil, nil
	}
	return &g, nil
}

// adopt makes g the grant in use.
func (c *Credentials) adopt(g *grant) { c.use(g, false) }

// use makes g the grant in use; unsaved: the store did not take it.
func (c *Credentials) use(g *grant, unsaved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant, c.loaded, c.unsaved = g, true, unsaved
}

func (c *Credentials) isUnsaved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsaved && c.grant != nil
}

// keep adopts g and stores it. A token that cannot be stored is still good for this
// process.
func (c *Credentials) keep(g *grant) {
	raw, err := json.Marshal(g)
	if err == nil {
		err = c.cfg.Store.Save(c.key, raw)
	}
	c.use(g, err != nil)
	if err != nil {
		c.cfg.Warn("credentials_not_stored", "the sign-in to server \""+c.cfg.Server+"\" lasts only as long as this process, since it cannot be stored: "+err.Error())
	}
}

// held gives the grant in use; the store is read at the first time.
func (c *Credentials) held() *grant {
	c.mu.Lock()
	g, loaded := c.grant, c.loaded
	c.mu.Unlock()
	if loaded {
		return g
	}
	g, err := c.load()
	if err != nil {
		c.warnUnreadable(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		c.grant, c.loaded = g, true
	}
	return c.grant
}

// Principal names whose grant is in use; "" when there is none. It tells nothing
// about the token, and stays when that is renewed.
func (c *Credentials) Principal() string {
	if g := c.held(); g != nil && g.Access != "" {
		return g.ID
	}
	return ""
}

// View is what may be shown of a sign-in.
type View struct {
	Issuer    string    `json:"issuer"`
	Scopes    []string  `json:"scopes"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// View shows the grant in use; nil: there is none.
func (c *Credentials) View() *View {
	g := c.held()
	if g == nil || g.Access == "" {
		return nil
	}
	v := &View{Issuer: g.Issuer, Scopes: g.Scopes, ExpiresAt: g.ExpiresAt}
	if v.Scopes == nil {
		v.Scopes = []string{}
	}
	return v
}

// Worked tells whether the server has taken the token in use before.
func (c *Credentials) Worked() bool {
	g := c.held()
	c.mu.Lock()
	defer c.mu.Unlock()
	return g != nil && g.Access != "" && g.Access == c.worked
}

// Covers tells whether the scopes were asked for by the sign-in in use.
func (c *Credentials) Covers(scopes []string) bool {
	g := c.held()
	return g != nil && covers(g.Scopes, scopes)
}

func (c *Credentials) warnUnreadable(err error) {
	c.cfg.Warn("credentials_unreadable", "the stored sign-in to server \""+c.cfg.Server+"\" cannot be read, so it is as if there were none: "+err.Error())
}
