package core

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// credentials are the sign-ins of a manager's servers.
type credentials struct {
	m *Manager

	mu    sync.Mutex
	store auth.Store
	made  map[string]*auth.Credentials // by all that they depend on
}

func newCredentials(m *Manager) *credentials {
	return &credentials{m: m, made: map[string]*auth.Credentials{}}
}

// signsIn tells whether a server is signed in to by OAuth: not when its config
// forbids it, nor when it brings a token of its own and says nothing of OAuth.
func signsIn(e *config.Entry, headers map[string]string) bool {
	if !remote(e) {
		return false
	}
	if on, ok := e.Server.OAuth["enabled"].(bool); ok {
		return on
	}
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return false
		}
	}
	return true
}

// asksToSignIn tells whether a person can be asked to sign in to a server.
func (m *Manager) asksToSignIn(e *config.Entry) bool {
	if !signsIn(e, e.Server.Headers) || !signsIn(e, e.Server.HeaderEnvVars) || e.Server.BearerTokenEnvVar != "" || !m.answers("authorization") && m.opts.Auth.OpenBrowser != "system" {
		return false
	}
	grant, _ := e.Server.OAuth["grant"].(string)
	return grant == "" || strings.ReplaceAll(grant, "-", "_") == auth.GrantCode
}

// of gives the credentials of a server, the same ones for the same config; nil: it
// has none.
func (c *credentials) of(e *config.Entry, r *config.Resolved) (*auth.Credentials, error) {
	if !signsIn(e, r.Headers) {
		return nil, nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Config, fault.StageConfig, "server %q: its url is not valid", e.Name)
	}
	settings, err := auth.ParseSettings(r.OAuth)
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "server %q: %w", e.Name, err)
	}
	o := &c.m.opts.Auth
	if settings.RedirectURI == "" && settings.RedirectPort == 0 {
		settings.RedirectURI, settings.RedirectPort = o.RedirectURI, o.RedirectPort
	}
	key := string(encode([]any{e.Name, r.URL, settings, r.TLS, r.Proxy}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.made[key]; have != nil {
		return have, nil
	}
	if c.store == nil {
		if c.store, err = c.open(); err != nil {
			return nil, err
		}
	}
	secure, proxy, err := c.m.route(e, r)
	if err != nil {
		return nil, err
	}
	made := auth.New(auth.Config{
		Server: e.Name, URL: u, Store: c.store, ClientName: c.m.opts.ClientInfo.Name, Version: Version, TLS: secure, Proxy: proxy, Via: via(r),
		Warn: func(code, message string) {
			c.m.store.report(diagnostic{Severity: "warning", Code: code, Server: e.Name, Message: message})
		},
		ClientMetadataURL: o.ClientMetadataURL, Listen: o.OpenBrowser != "never", Settings: settings,
		Patience: c.m.startTimeout(&e.Server),
	})
	c.made[key] = made
	return made, nil
}

// via is what of a config decides who can read what is sent to its server.
func via(r *config.Resolved) string {
	ca := ""
	if r.TLS != nil {
		ca = r.TLS.CAFile
	}
	if ca == "" && r.Proxy == "" {
		return ""
	}
	return string(encode([]string{r.Proxy, ca}))
}

// secrets are those of all sign-ins, now.
func (c *credentials) secrets() (all []string) {
	c.mu.Lock()
	made := slices.Collect(maps.Values(c.made))
	c.mu.Unlock()
	for _, creds := range made {
		all = append(all, creds.Secrets()...)
	}
	return all
}

// route says how a remote server is reached.
func (m *Manager) route(e *config.Entry, r *config.Resolved) (*tls.Config, func(*url.URL) (*url.URL, error), error) {
	secure, err := tlsConfig(r.TLS)
	if err != nil {
		return nil, nil, fault.New(fault.Config, fault.StageConfig, "server %q: tls: %w", e.Name, err)
	}
	proxy, err := proxyFor(m.env, r.Proxy)
	if err != nil {
		return nil, nil, fault.New(fault.Config, fault.StageConfig, "server %q: proxy: %w", e.Name, err)
	}
	return secure, proxy, nil
}

// open makes the store that the option names.
func (c *credentials) open() (auth.Store, error) {
	o := &c.m.opts.Auth
	if o.Store == "memory" {
		return auth.NewMemory(), nil
	}
	dir := o.Dir
	if dir == "" {
		base, err := c.m.env.UserConfigDir()
		if err != nil && o.Store == "auto" {
			c.m.store.note("credentials_unavailable", "", "sign-ins last only as long as this process: "+err.Error())
			return auth.NewMemory(), nil
		}
		if err != nil {
			return nil, fault.New(fault.Config, fault.StageConfig, "sign-ins have no place: %w", err)
		}
		dir = filepath.Join(base, "mcprt", "auth")
	} else if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.m.opts.Cwd, dir)
	}
	files, err := auth.NewFiles(dir)
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "%w", err)
	}
	switch {
	case o.Store == "keyring":
		return auth.NewKeyring(files), nil
	case o.Store == "auto" && c.hasKeyring():
		return auth.NewAuto(files), nil
	}
	return files, nil
}

// hasKeyring tells whether one may be tried. On Linux it is behind the session bus,
// whose address the library for it takes from the process: a host with another
// environment, or without a bus, must not have one started.
func (c *credentials) hasKeyring() bool {
	switch runtime.GOOS {
	case "darwin", "windows":
		return true
	}
	const bus = "DBUS_SESSION_BUS_ADDRESS"
	address := c.m.env.Value(bus)
	return address != "" && address == config.ProcessEnv().Value(bus)
}

// close waits, as long as ctx lasts, for tokens that are on their way: a refresh whose
// answer is lost may cost the sign-in.
func (c *credentials) close(ctx context.Context) {
	c.mu.Lock()
	made := slices.Collect(maps.Values(c.made))
	c.mu.Unlock()
	for _, a := range made {
		a.Close(ctx)
	}
}

// known gives the credentials of an entry without a start.
func (c *credentials) known(e *config.Entry) (*auth.Credentials, error) {
	r, err := c.m.resolveKnown(e)
	if err != nil {
		return nil, err
	}
	return c.of(e, r)
}

// principal is whose sign-in a server is used with; "" where there is none.
func principal(a *auth.Credentials) string {
	if a == nil {
		return ""
	}
	return a.Principal()
}

// signIn asks a person for a sign-in. since is when the refused request began.
func (m *Manager) signIn(ctx context.Context, e *config.Entry, challenge string, since time.Time) error {
	r, err := m.resolve(ctx, e)
	if err != nil {
		return err
	}
	a, err := m.credentials.of(e, r)
	if err != nil {
		return err
	}
	if a == nil || !a.Interactive() {
		return fault.New(fault.NeedsAuth, fault.StageAuth, "server %q is not signed in to by a person, as its config says", e.Name)
	}
	if timeout := m.opts.RequestTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fault.New(fault.Timeout, fault.StageAuth, "nobody signed in to server %q within %d ms", e.Name, timeout.Milliseconds()))
		defer cancel()
	}
	return ended(ctx, a.SignIn(ctx, challenge, since, m.prompt(e.Name)))
}

// mayHelp tells whether another sign-in can cure a refusal: scopes are wanted that
// were not asked for yet, or a token that the server took before is no good any more.
func (m *Manager) mayHelp(e *config.Entry, f *fault.Error) bool {
	if f.Data == nil {
		return false
	}
	a, err := m.credentials.known(e)
	if err != nil || a == nil {
		return false
	}
	if f.Data.HTTPStatus == http.StatusUnauthorized {
		return a.Worked()
	}
	scopes, ok := auth.InsufficientScope(auth.ParseChallenges([]string{f.Data.Challenge}))
	return ok && !a.Covers(scopes)
}

// authorize follows a call that was refused for want of valid credentials. true: it
// goes on after a sign-in. A 401 is about the server as a whole, a 403 about this call
// alone: its session lives.
func (op *callOp) authorize(t target, f *fault.Error) bool {
	m, e := op.m, t.view.entry
	status := 0
	if f.Data != nil {
		status = f.Data.HTTPStatus
	}
	if status == http.StatusUnauthorized {
		m.report(t.view, evAuth, f)
	}
	if !m.asksToSignIn(e) || op.signIns >= maxSignIns || m.ctx.Err() != nil {
		return false
	}
	switch status {
	case http.StatusUnauthorized:
		if op.signIns > 0 {
			return false
		}
		op.signIns++
		op.resends++
		op.later()
		return true
	case http.StatusForbidden:
		if !m.mayHelp(e, f) {
			return false
		}
		op.signIns++
		op.resends++
		return m.goSafe(func() { op.stepUp(e, f) })
	}
	return false
}

// stepUp asks for a token with more scopes, and calls again.
func (op *callOp) stepUp(e *config.Entry, f *fault.Error) {
	defer func() {
		if r := recover(); r != nil {
			op.fail(fault.Caught(r, debug.Stack()))
		}
	}()
	ctx, stop := context.WithCancelCause(op.m.ctx)
	defer stop(nil)
	if !op.during(op.resends, func() { stop(errCanceled) }) {
		stop(errCanceled)
	}
	began := time.Now()
	if err := op.m.signIn(ctx, e, f.Data.Challenge, op.began); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			op.fail(op.about(fault.From(cause)))
			return
		}
		refused := op.about(f)
		refused.Message = fmt.Sprintf("server %q wants a sign-in with more rights for this call, and there was none: %s", e.Name, fault.From(err).Message)
		op.fail(refused)
		return
	}
	op.began = op.began.Add(time.Since(began)) // a person's time is not the call's
	op.demand()
}

// prompt shows a sign-in to the person: by the host, in the system's browser, or both.
func (m *Manager) prompt(server string) auth.Ask {
	return func(ctx context.Context, p auth.Prompt) (string, error) {
		m.prompted(server)
		if m.opts.Auth.OpenBrowser == "system" {
			if err := m.browse(p.URL); err != nil && !m.answers("authorization") {
				return "", err
			}
		}
		if !m.answers("authorization") {
			return "", nil
		}
		result, err := m.question(ctx, server, "authorization", encode(p))
		if err != nil {
			return "", err
		}
		to, declined, _ := authorization(result)
		if declined {
			return "", fault.New(fault.NeedsAuth, fault.StageAuth, "the user declined to sign in")
		}
		return to, nil
	}
}

// prompted: from now on a person is waited for, whose time is not that of the calls.
func (m *Manager) prompted(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.servers[name]; s != nil && s.asking && !s.prompted {
		s.prompted = true
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// authorization reads the result of an authorization request.
func authorization(result []byte) (callbackURL string, declined, ok bool) {
	var r struct {
		CallbackURL string `json:"callbackUrl"`
		Declined    bool   `json:"declined"`
	}
	err := json.Unmarshal(result, &r)
	return r.CallbackURL, r.Declined, err == nil
}
