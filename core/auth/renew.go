package auth

import (
	"context"
	"errors"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// token gives the grant to use now, renewed if it is about to end; nil: there is
// none, so that the request goes without and brings back a fresh challenge.
func (c *Credentials) token(ctx context.Context) (*grant, error) {
	g := c.held()
	if g == nil || g.Access == "" {
		return nil, nil
	}
	now := time.Now()
	if !g.stale(now) {
		return g, nil
	}
	usable := !g.expired(now)
	c.mu.Lock()
	failing := now.Sub(c.failed) < failurePause
	c.mu.Unlock()
	if usable && failing { // one that still serves is not held up again and again
		return g, nil
	}
	next, err := c.refused(ctx, g, nil)
	if err != nil && usable && ctx.Err() == nil {
		c.mu.Lock()
		c.failed = now
		c.mu.Unlock()
		return g, nil
	}
	return next, err
}

// failurePause is how long after a failure a token that is about to end is not
// renewed again.
const failurePause = 10 * time.Second

// renewLimit bounds a renewal: the wait for another process's, and one's own.
const renewLimit = 90 * time.Second

// apart runs f, which holds the gate meanwhile. When ctx ends f goes on: a request
// that its caller gave up must not lose the token that is on its way.
func (c *Credentials) apart(ctx context.Context, f func(context.Context) (*grant, error)) (*grant, error) {
	type result struct {
		g   *grant
		err error
	}
	select {
	case c.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: c.errorf(fault.Internal, "its sign-in could not be renewed")}
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fault.Caught(p, debug.Stack())}
			}
			<-c.gate
			done <- r
		}()
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
		defer cancel()
		r.g, r.err = f(own)
	}()
	select {
	case r := <-done:
		return r.g, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// refused gives another grant than the one with which a request was refused; nil:
// there is none without a person. used may be nil.
func (c *Credentials) refused(ctx context.Context, used *grant, list []Challenge) (*grant, error) {
	return c.apart(ctx, func(ctx context.Context) (*grant, error) {
		if !c.Interactive() {
			return c.obtain(ctx, used, list)
		}
		return c.renew(ctx, used)
	})
}

// renew replaces used, which may be nil: by what this or another process has stored
// since, else by a refresh. Everybody who shares the store waits for one refresh:
// many servers take a second use of a refresh token for theft, and revoke all.
func (c *Credentials) renew(ctx context.Context, used *grant) (*grant, error) {
	g := c.held()
	if newer(g, used) {
		return g, nil
	}
	if c.isUnsaved() { // nobody else has it
		return c.replace(ctx, g, func() { c.adopt(nil) })
	}
	stored, err := c.load()
	switch {
	case err != nil && used == nil: // as if there were none: it can be had anew
		c.warnUnreadable(err)
		return nil, nil
	case err != nil:
		return nil, c.unreadable(err)
	case stored == nil && used == nil:
		return nil, nil
	case newer(stored, used):
		c.adopt(stored)
		return stored, nil
	}
	unlock, err := c.cfg.Store.Lock(ctx, c.key)
	if err != nil {
		return nil, c.unreadable(err)
	}
	defer unlock()
	stored, err = c.load() // another process may have been faster
	switch {
	case err != nil:
		return nil, c.unreadable(err)
	case newer(stored, used):
		c.adopt(stored)
		return stored, nil
	case stored == nil: // signed out elsewhere
		c.adopt(nil)
		return nil, nil
	}
	return c.replace(ctx, stored, func() {
		// The lock is ours: nobody has changed it since it was read. Who we are and
		// what was asked for stays.
		spent := *stored
		spent.Access, spent.Refresh = "", ""
		c.keep(&spent)
	})
}

// replace refreshes g and keeps what comes. gone is called when g is no good any more;
// then, and where there is nothing to refresh with, there is no grant and no error.
func (c *Credentials) replace(ctx context.Context, g *grant, gone func()) (*grant, error) {
	if g.Refresh == "" {
		c.adopt(g)
		return nil, nil
	}
	next, err := c.refresh(ctx, g)
	if no := (*refusal)(nil); errors.As(err, &no) {
		if !no.gone() {
			return nil, no.fault
		}
		gone()
		if no.code == "invalid_client" && !g.Client.Given {
			c.forgetClient(g.Issuer, g.Client.ID)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.keep(next)
	return next, nil
}

// newer tells that g is another grant than used, and one that can be tried.
func newer(g, used *grant) bool {
	if g == nil || g.Access == "" || g.expired(time.Now()) {
		return false
	}
	return used == nil || g.Access != used.Access
}

func (c *Credentials) unreadable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return c.errorf(fault.NeedsAuth, "its stored sign-in cannot be used: %w", err)
}

// refresh is RFC 6749 section 6, for the same issuer and resource.
func (c *Credentials) refresh(ctx context.Context, g *grant) (*grant, error) {
	if g.Client.Given && g.Client.ID != c.cfg.ClientID {
		return nil, &refusal{c.errorf(fault.NeedsAuth, "its config names another client now"), "invalid_client"}
	}
	at, err := c.endpoint("token endpoint", g.TokenURL, g.Own)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	t, err := c.tokenRequest(ctx, at, g.Own, g.Client, g.Issuer, form, g.Key)
	if err != nil {
		return nil, err
	}
	return c.granted(*g, t, time.Now()), nil
}

// SignOut forgets the grant and tells the authorization server so, where that has a
// place for it (RFC 7009). had tells whether there was one, revoked whether the
// server took it back.
func (c *Credentials) SignOut(ctx context.Context) (had, revoked bool, err error) {
	select {
	case c.gate <- struct{}{}:
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
	defer func() { <-c.gate }()
	unlock, err := c.cfg.Store.Lock(ctx, c.key)
	if err != nil {
		return false, false, c.unreadable(err)
	}
	defer unlock()
	g, err := c.load()
	if err != nil {
		return false, false, c.unreadable(err)
	}
	if g == nil {
		g = c.held()
	}
	if err := c.cfg.Store.Delete(c.key); err != nil {
		return false, false, c.unreadable(err)
	}
	c.adopt(nil)
	if g == nil {
		return false, false, nil
	}
	if !g.Client.Given { // the next sign-in begins from nothing
		defer c.forgetClient(g.Issuer, g.Client.ID)
	}
	if g.Access == "" {
		return false, false, nil
	}
	return true, c.revoke(ctx, g), nil
}

func (c *Credentials) revoke(ctx context.Context, g *grant) bool {
	at, err := c.endpoint("revocation endpoint", g.RevokeURL, g.Own)
	if err != nil {
		return false
	}
	form := url.Values{"token": {g.Access}, "token_type_hint": {"access_token"}}
	if g.Refresh != "" { // takes the access tokens of the grant with it
		form = url.Values{"token": {g.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	return c.revokeRequest(ctx, at, g, form)
}
