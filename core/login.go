package core

import (
	"context"
	"time"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// loginReply is the result of mcprt/auth.login.
type loginReply struct {
	Server   string `json:"server"`
	SignedIn bool   `json:"signedIn"` // false: the server is used without
	*auth.View
}

// account finds a server and its credentials.
func (m *Manager) account(ctx context.Context, name string) (*server, *config.Entry, *auth.Credentials, error) {
	if name == "" {
		return nil, nil, nil, fault.New(fault.InvalidRequest, "", `"params" must have the "server" to sign in to or out of`)
	}
	if err := m.discoverOnce(); err != nil {
		return nil, nil, nil, err
	}
	m.mu.Lock()
	s := m.servers[name]
	if s == nil {
		m.mu.Unlock()
		return nil, nil, nil, m.unknownServer(m.snap.Load(), name)
	}
	e := s.entry
	m.mu.Unlock()
	if !m.trusted(e) {
		return nil, nil, nil, needsTrust(e)
	}
	r, err := m.resolve(ctx, e)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := m.credentials.of(e, r)
	if err == nil && a == nil {
		err = fault.New(fault.InvalidRequest, "", "server %q has no sign-in: it is a local one, or its config forbids that or has a token of its own", name)
	}
	return s, e, a, err
}

// login connects a server, and asks a person to sign in to it where that is needed.
func (m *Manager) login(ctx context.Context, name string) (any, error) {
	_, e, a, err := m.account(ctx, name)
	if err != nil {
		return nil, err
	}
	if a.Interactive() && !m.asksToSignIn(e) {
		return nil, fault.New(fault.InvalidRequest, "", `nobody can be asked to sign in to server %q: open with "answers":["authorization"], or with "auth":{"openBrowser":"system"}`, name)
	}
	kind := evStart
	for again := false; ; again = true {
		began := time.Now()
		_, _, err := m.awaitAfter(ctx, name, time.Time{}, func(s *server) { m.startAll([]*server{s}, kind, []string{name}, false) })
		if err != nil {
			return nil, err
		}
		view := a.View()
		if view != nil || again || !a.Interactive() {
			return loginReply{name, view != nil, view}, nil
		}
		// It works without, but may offer more to somebody whom it knows.
		offers, err := a.Offered(ctx)
		if err != nil {
			return nil, err
		}
		if !offers {
			return loginReply{Server: name}, nil
		}
		if err := m.signIn(ctx, e, "", began); err != nil {
			return nil, err
		}
		kind = evRestart
	}
}

// logout forgets a sign-in, and tells the authorization server so. A server that
// runs is connected anew, without.
func (m *Manager) logout(ctx context.Context, name string) (any, error) {
	s, _, a, err := m.account(ctx, name)
	if err != nil {
		return nil, err
	}
	had, revoked, err := a.SignOut(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	running := s.state.running()
	m.mu.Unlock()
	if had && running {
		m.fire(s, event{kind: evRestart})
	}
	return map[string]any{"server": name, "signedOut": had, "revoked": revoked}, nil
}
