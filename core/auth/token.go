package auth

import (
	"context"
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
)

// tokenReply is an answer of a token endpoint.
type tokenReply struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Expires any    `json:"expires_in"` // some servers send a text
	Issued  string `json:"issued_token_type"`
	oauthError
}

type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (e oauthError) String() string {
	if e.Description == "" {
		return fault.Foreign(e.Code, 100)
	}
	return fault.Foreign(e.Code, 100) + ": " + fault.Foreign(e.Description, 300)
}

const (
	maxToken = 256 << 10
	maxLife  = 10 * 365 * 24 * time.Hour
)

// expiry reads expires_in; zero: not known.
func (r *tokenReply) expiry(now time.Time) time.Time {
	var seconds float64
	switch v := r.Expires.(type) {
	case float64:
		seconds = v
	case string:
		seconds, _ = strconv.ParseFloat(strings.TrimSpace(v), 64)
	}
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return time.Time{}
	}
	return now.Add(time.Duration(min(seconds, maxLife.Seconds()) * float64(time.Second)))
}

// refusal is a token endpoint's no, as opposed to its being out of reach.
type refusal struct {
	fault *fault.Error
	code  string
}

func (r *refusal) Error() string { return r.fault.Message }
func (r *refusal) Unwrap() error { return r.fault }

// gone tells that the grant itself is no good any more.
func (r *refusal) gone() bool {
	switch r.code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "invalid_token", "expired_token":
		return true
	}
	return false
}

// tokenRequest asks a token endpoint. key, if given, is the one that the token is
// to be bound to.
func (c *Credentials) tokenRequest(ctx context.Context, at *url.URL, own bool, who client, issuer string, form url.Values, key string) (*tokenReply, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if err := c.identify(who, issuer, form, header); err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		if key != "" {
			c.mu.Lock()
			nonce := c.asNonce
			c.mu.Unlock()
			p, err := proof(key, http.MethodPost, at, nonce, "")
			if err != nil {
				return nil, c.errorf(fault.NeedsAuth, "%w", err)
			}
			header.Set("DPoP", p)
		}
		r, err := c.fetch.do(ctx, http.MethodPost, at, own, header, []byte(form.Encode()))
		if err != nil {
			return nil, err
		}
		if nonce := r.header.Get("DPoP-Nonce"); nonce != "" && len(nonce) < 4096 {
			c.mu.Lock()
			c.asNonce = nonce
			c.mu.Unlock()
		}
		reply, err := c.readToken(at, r, form)
		if no, ok := err.(*refusal); ok && no.code == "use_dpop_nonce" && key != "" && !again && r.header.Get("DPoP-Nonce") != "" {
			continue
		}
		return reply, err
	}
}

func (c *Credentials) readToken(at *url.URL, r *reply, form url.Values) (*tokenReply, error) {
	var t tokenReply
	err := json.Unmarshal(r.body, &t)
	switch {
	case r.status/100 == 2 && err == nil && t.Access != "" && t.Code == "":
		if len(t.Access) > maxToken || len(t.Refresh) > maxToken || !visible(t.Access) {
			return nil, c.errorf(fault.NeedsAuth, "%s gave a token that cannot be sent", shownURL(at))
		}
		return &t, nil
	case err == nil && t.Code != "": // some say so with status 200
		said := oauthError{without(t.Code, form), without(t.Description, form)}
		e := c.errorf(fault.NeedsAuth, "%s gave no token: %s", shownURL(at), said)
		return nil, &refusal{e, t.Code}
	case r.status >= 500 || r.status == http.StatusTooManyRequests:
		return nil, c.errorf(fault.ConnectFailed, "%s, which signs in to the server, answered with HTTP %d", shownURL(at), r.status).Retry()
	}
	e := c.errorf(fault.NeedsAuth, "%s gave no token, but HTTP %d and no reason that can be read", shownURL(at), r.status)
	return nil, &refusal{e, ""}
}

// without takes out of a reason what the request held: a server may echo it.
func without(reason string, form url.Values) string {
	for name, values := range form {
		switch name {
		case "grant_type", "client_id", "scope", "resource", "audience", "redirect_uri", "subject_token_type", "requested_token_type", "client_assertion_type":
			continue
		}
		for _, v := range values {
			if len(v) >= 4 {
				reason = strings.ReplaceAll(reason, v, "***")
			}
		}
	}
	return reason
}

// visible tells what may stand in a header.
func visible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7E })
}

// identify says who the client is, by its method.
func (c *Credentials) identify(who client, issuer string, form url.Values, header http.Header) error {
	secret := who.Secret
	if who.Given {
		secret = c.cfg.ClientSecret
	}
	switch who.Method {
	case "client_secret_basic":
		// RFC 6749 section 2.3.1: both parts are form-encoded first.
		pair := url.QueryEscape(who.ID) + ":" + url.QueryEscape(secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case "client_secret_post":
		form.Set("client_id", who.ID)
		form.Set("client_secret", secret)
	case "private_key_jwt":
		signed, err := c.clientAssertion(issuer)
		if err != nil {
			return c.errorf(fault.Config, "%w", err)
		}
		form.Set("client_id", who.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", signed)
	default:
		if who.ID != "" {
			form.Set("client_id", who.ID)
		}
	}
	return nil
}

// method picks how a client with these means says who it is; supported is the
// server's list, nil where it has none.
func method(supported []string, secret, key bool) string {
	has := func(m string) bool { return slices.Contains(supported, m) }
	switch {
	case key && (has("private_key_jwt") || !secret):
		return "private_key_jwt"
	case !secret:
		return "none"
	case has("client_secret_basic"), !has("client_secret_post"): // RFC 8414: the default
		return "client_secret_basic"
	}
	return "client_secret_post"
}

// granted makes a grant of a reply.
func (c *Credentials) granted(base grant, t *tokenReply, now time.Time) *grant {
	base.Access, base.ObtainedAt, base.ExpiresAt = t.Access, now, t.expiry(now)
	base.Type = "Bearer"
	if strings.EqualFold(t.Type, "DPoP") {
		base.Type = "DPoP"
	}
	if t.Refresh != "" && visible(t.Refresh) {
		base.Refresh = t.Refresh
	}
	return &base
}
