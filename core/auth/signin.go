package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// Prompt is what a person is asked for: to open URL in a browser and to agree there.
type Prompt struct {
	URL         string   `json:"url"`
	RedirectURI string   `json:"redirectUri"`
	Issuer      string   `json:"issuer"`
	Scopes      []string `json:"scopes"`
}

// Ask shows a prompt. It returns the URL that the browser ended at, or "" when the
// listener is to wait for it. ctx ends when the answer has come by itself.
type Ask func(ctx context.Context, p Prompt) (callbackURL string, err error)

// SignIn gets a token with a person's help. challenge is the WWW-Authenticate of the
// refusal, "" when there was none; since is when the refused request began: a sign-in
// that was done meanwhile for another request serves this one, too. One runs at a time.
func (c *Credentials) SignIn(ctx context.Context, challenge string, since time.Time, ask Ask) (err error) {
	select {
	case c.signing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.signing }()
	if p := c.cfg.Patience; p > 0 {
		patient, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		late := c.errorf(fault.Timeout, "what a sign-in to it needs to know did not come within %d ms", p.Milliseconds()).Retry()
		timer := time.AfterFunc(p, func() { stop(late) })
		defer timer.Stop()
		person := ask
		ask = func(ctx context.Context, prompt Prompt) (string, error) {
			timer.Stop()
			return person(ctx, prompt)
		}
		defer func() {
			if err != nil && context.Cause(patient) == error(late) {
				err = late
			}
		}()
		ctx = patient
	}
	list := ParseChallenges([]string{challenge})
	which, dpop := ours(list)
	wanted := splitScopes(which.Params["scope"])
	if err := c.fetch.check(c.url, true); err != nil {
		return c.errorf(fault.NeedsAuth, "it is not signed in to: the token would go to its url, but %w", err)
	}
	if which.Scheme == "" && len(list) > 0 {
		return c.errorf(fault.NeedsAuth, `it asks for %q credentials, which no sign-in gives; put them into "headers"`, fault.Foreign(list[0].Scheme, 40))
	}
	before := c.held()
	if before != nil && before.Access != "" && before.ObtainedAt.After(since) && covers(before.Scopes, wanted) {
		return nil
	}
	f, err := c.discover(ctx, which, dpop)
	if err != nil {
		return err
	}
	if err := c.bound(f.as.Issuer); err != nil {
		return err
	}
	if !f.supportsPKCE() {
		return c.errorf(fault.NeedsAuth, "its authorization server %s does not say that it supports PKCE with S256, without which a sign-in is not safe", fault.Foreign(f.as.Issuer, 200))
	}
	g, err := c.authorize(ctx, f, wanted, ask)
	if err != nil {
		return err
	}
	_, err = c.apart(ctx, func(ctx context.Context) (*grant, error) {
		unlock, err := c.cfg.Store.Lock(ctx, c.key)
		if err != nil {
			c.cfg.Warn("credentials_not_stored", "the sign-in to server \""+c.cfg.Server+"\" lasts only as long as this process, since its place is locked: "+err.Error())
			c.use(g, true)
			return g, nil
		}
		defer unlock()
		c.keep(g)
		return g, nil
	})
	return err
}

// bound refuses to take what the config gave for one authorization server to
// another one: whoever controls the server could collect it so.
func (c *Credentials) bound(issuer string) error {
	if c.cfg.ClientID == "" && c.Interactive() || c.cfg.Issuer != "" {
		return nil
	}
	if g := c.held(); g != nil && g.Issuer != issuer {
		return c.errorf(fault.NeedsAuth, `it names another authorization server now, %q in place of %q; the configured client is not used there. If that is right, sign out, or set "oauth":{"issuer":%q} in its config`,
			fault.Foreign(issuer, 200), fault.Foreign(g.Issuer, 200), fault.Foreign(issuer, 200))
	}
	return nil
}

// authorize is the authorization code flow with PKCE.
func (c *Credentials) authorize(ctx context.Context, f *found, challenged []string, ask Ask) (*grant, error) {
	at, err := c.endpoint("authorization endpoint", f.as.Authorization, f.as.own)
	if err != nil {
		return nil, err
	}
	tokens, err := c.endpoint("token endpoint", f.as.Token, f.as.own)
	if err != nil {
		return nil, err
	}
	cb, err := c.openCallback()
	if err != nil {
		return nil, err
	}
	defer cb.close()
	who, err := c.identity(ctx, f, cb)
	if err != nil {
		return nil, err
	}
	var asked []string
	if g := c.held(); g != nil && g.Issuer == f.as.Issuer {
		asked = g.Scopes
	}
	scopes := c.scopes(f, challenged, asked)
	state, verifier := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	q := at.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": who.ID, "redirect_uri": cb.uri(), "state": state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
		"scope": strings.Join(scopes, " "), "resource": c.resourceOf(f),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, s := range scopes {
		if s == "offline_access" { // OpenID Connect Core section 11: else it is ignored
			q.Set("prompt", "consent")
		}
	}
	page := *at
	page.RawQuery = q.Encode()
	query, err := c.await(ctx, cb, state, Prompt{URL: page.String(), RedirectURI: cb.uri(), Issuer: f.as.Issuer, Scopes: append([]string{}, scopes...)}, ask)
	if err != nil {
		return nil, err
	}
	code, err := c.judge(f, state, query)
	if err != nil {
		if no := query.Get("error"); !who.Given && (no == "invalid_client" || no == "unauthorized_client") {
			c.forgetClient(f.as.Issuer, who.ID)
		}
		return nil, err
	}
	key, err := c.tokenKey(f)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {cb.uri()}, "code_verifier": {verifier}}
	if r := c.resourceOf(f); r != "" {
		form.Set("resource", r)
	}
	t, err := c.tokenRequest(ctx, tokens, f.as.own, who, f.as.Issuer, form, key)
	if err != nil {
		if no := (*refusal)(nil); errors.As(err, &no) && no.code == "invalid_client" && !who.Given {
			c.forgetClient(f.as.Issuer, who.ID)
		}
		return nil, plain(err)
	}
	return c.granted(c.base(f, who, scopes, key), t, time.Now()), nil
}

// base is a grant before its tokens.
func (c *Credentials) base(f *found, who client, scopes []string, key string) grant {
	g := grant{Version: grantVersion, ID: rand.Text(), Server: c.cfg.Server, URL: canonical(c.url), Issuer: f.as.Issuer, Resource: c.resourceOf(f),
		TokenURL: f.as.Token, RevokeURL: f.as.Revocation, Own: f.as.own, Client: who, Scopes: scopes, Key: key}
	if who.Given { // it stands in the config, and only there
		g.Client.Secret = ""
	}
	return g
}

// resourceOf is the resource indicator (RFC 8707); "" when the config forbids it.
func (c *Credentials) resourceOf(f *found) string {
	if c.cfg.Resource != nil {
		return *c.cfg.Resource
	}
	return f.resource
}

// tokenKey makes the key that tokens are bound to, where the server wants that and
// the authorization server can.
func (c *Credentials) tokenKey(f *found) (string, error) {
	want := f.bound
	if c.cfg.DPoP != nil {
		want = *c.cfg.DPoP
	}
	able := len(f.as.DPoP) == 0 && c.cfg.DPoP != nil
	for _, alg := range f.as.DPoP {
		able = able || alg == "ES256"
	}
	if !want || !able {
		return "", nil
	}
	return newBoundKey()
}

// await shows the prompt and waits for the answer, by whichever way it comes first.
func (c *Credentials) await(ctx context.Context, cb *callback, state string, p Prompt, ask Ask) (url.Values, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cb.serve(ctx, state)
	type pasted struct {
		url string
		err error
	}
	answer := make(chan pasted, 1)
	go func() {
		a := pasted{err: errors.New("the prompt failed")}
		defer func() {
			if r := recover(); r != nil {
				a.err = fault.Caught(r, nil)
			}
			answer <- a
		}()
		a.url, a.err = ask(ctx, p)
	}()
	for {
		select {
		case query := <-cb.arrived:
			cancel()
			if answer != nil {
				<-answer // the host has heard of the end before anything else follows
			}
			return query, nil
		case a := <-answer:
			switch {
			case a.err != nil:
				select { // both in one moment: the answer counts
				case query := <-cb.arrived:
					return query, nil
				default:
				}
				return nil, a.err
			case a.url == "" && len(cb.listeners) == 0:
				if cb.busy != nil {
					return nil, c.errorf(fault.NeedsAuth, "nothing listens at the redirect URI %s (%w), and the host gave no callbackUrl", cb.uri(), cb.busy)
				}
				return nil, c.errorf(fault.NeedsAuth, "nothing listens at the redirect URI %s, so the host must give the callbackUrl", cb.uri())
			case a.url != "":
				query, ok := cb.paste(a.url)
				if !ok {
					return nil, c.errorf(fault.NeedsAuth, "the callbackUrl that the host gave is not an answer to this sign-in; it must be the address that the browser ended at, %s?…", cb.uri())
				}
				return query, nil
			}
			answer = nil // the listener does the rest
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// judge checks the authorization response and gives its code. The issuer comes
// first: also an error counts only when it comes from whom we asked (RFC 9207).
func (c *Credentials) judge(f *found, state string, q url.Values) (string, error) {
	if !sameText(q.Get("state"), state) {
		return "", c.errorf(fault.NeedsAuth, "the answer of the browser belongs to another sign-in (its state differs); it is not used")
	}
	switch iss := q.Get("iss"); {
	case q.Has("iss") && iss != f.as.Issuer:
		return "", c.errorf(fault.NeedsAuth, "the answer of the browser is of %q, but %q was asked; it is not used", fault.Foreign(iss, 200), fault.Foreign(f.as.Issuer, 200))
	case !q.Has("iss") && f.as.Iss:
		return "", c.errorf(fault.NeedsAuth, "the answer of the browser does not say which authorization server it is of, though %q promises that; it is not used", fault.Foreign(f.as.Issuer, 200))
	}
	if q.Has("error") {
		e := oauthError{q.Get("error"), q.Get("error_description")}
		return "", c.errorf(fault.NeedsAuth, "its authorization server refused the sign-in: %s", e)
	}
	if q.Get("code") == "" {
		return "", c.errorf(fault.NeedsAuth, "the answer of the browser has no code")
	}
	return q.Get("code"), nil
}

// plain gives a refusal as the error that a host sees.
func plain(err error) error {
	if no := (*refusal)(nil); errors.As(err, &no) {
		return no.fault
	}
	return err
}
