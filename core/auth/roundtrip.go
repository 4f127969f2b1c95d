package auth

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// Wrap adds the credentials to a server's requests, also to those of its streams.
// A request that is refused is sent once more where a new token can be had without a
// person; else the refusal comes back as it is.
func (c *Credentials) Wrap(base http.RoundTripper) http.RoundTripper { return &tripper{c, base} }

type tripper struct {
	c    *Credentials
	base http.RoundTripper
}

// maxTries of one request: without a token, with a stored one, with a new one, and
// once more for a nonce.
const maxTries = 5

func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.c
	if !config.SameOrigin(req.URL, c.url) || c.url.Scheme != "https" && !IsLoopbackHost(c.url.Hostname()) { // never elsewhere, whatever leads there
		return t.base.RoundTrip(req)
	}
	ctx := req.Context()
	g, err := c.token(ctx)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	renewed, began := 0, time.Now()
	for try := 1; ; try++ {
		resp, err := t.send(req, g)
		if err != nil || try == maxTries || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		list := ParseChallenges(resp.Header.Values("WWW-Authenticate"))
		again := false
		switch {
		case resp.StatusCode == http.StatusUnauthorized && g != nil && g.Key != "" && wantsNonce(list, resp):
			again = true
		// What another process stored may be over, too; a token that came just now is not replaced.
		case resp.StatusCode == http.StatusUnauthorized && (renewed == 0 || renewed == 1 && g != nil && g.ObtainedAt.Before(began)), c.stepsUp(g, resp.StatusCode, list) && renewed < 2:
			renewed++
			next, err := c.refused(ctx, g, list)
			if err != nil {
				discard(resp)
				return nil, err
			}
			again, g = next != nil, next
		}
		if !again || !rewind(req) {
			return resp, nil
		}
		discard(resp)
		if req, err = resend(ctx, req); err != nil {
			return nil, err
		}
	}
}

// stepsUp tells a refusal that a token with more scopes, got without a person, would cure.
func (c *Credentials) stepsUp(g *grant, status int, list []Challenge) bool {
	if status != http.StatusForbidden || c.Interactive() || g == nil {
		return false
	}
	scopes, ok := InsufficientScope(list)
	return ok && !covers(g.Scopes, scopes)
}

func wantsNonce(list []Challenge, resp *http.Response) bool {
	for _, ch := range list {
		if ch.Scheme == "dpop" && ch.Params["error"] == "use_dpop_nonce" {
			return resp.Header.Get("DPoP-Nonce") != ""
		}
	}
	return false
}

func rewind(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func resend(ctx context.Context, req *http.Request) (*http.Request, error) {
	next := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		next.Body = body
	}
	return next, nil
}

// send makes one try.
func (t *tripper) send(req *http.Request, g *grant) (*http.Response, error) {
	c := t.c
	if g == nil && !c.tracing() { // nothing to add
		return t.base.RoundTrip(req)
	}
	ctx := req.Context()
	if c.tracing() && (c.cfg.Proxy == nil || direct(c, req)) {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			c.seen(i.Conn.RemoteAddr().String())
		}})
	}
	next := req.Clone(ctx)
	if g != nil {
		next.Header.Set("Authorization", g.Type+" "+g.Access)
		if g.Key != "" && g.Type == "DPoP" {
			c.mu.Lock()
			nonce := c.nonce
			c.mu.Unlock()
			p, err := proof(g.Key, req.Method, req.URL, nonce, g.Access)
			if err != nil {
				closeBody(req)
				return nil, c.errorf(fault.NeedsAuth, "%w", err)
			}
			next.Header.Set("DPoP", p)
		}
	}
	resp, err := t.base.RoundTrip(next)
	if err == nil && g != nil && resp.StatusCode != http.StatusUnauthorized {
		c.mu.Lock()
		c.worked = g.Access
		c.mu.Unlock()
	}
	if err == nil {
		if nonce := resp.Header.Get("DPoP-Nonce"); nonce != "" && len(nonce) < 4096 {
			c.mu.Lock()
			c.nonce = nonce
			c.mu.Unlock()
		}
	}
	return resp, err
}

func direct(c *Credentials, req *http.Request) bool {
	p, err := c.cfg.Proxy(req.URL)
	return err == nil && p == nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// discard lets the connection be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}
