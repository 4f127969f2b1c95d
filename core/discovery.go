package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/store"
	"github.com/mcprt/mcprt/core/trace"
)

// discover reads every source. It changes no server. The caller holds discovering.
func (m *Manager) discover(ctx context.Context) (*config.Result, error) {
	safe.Point("core.discover")
	trusted := m.store.trusted()
	d := m.opts.Discovery
	began := time.Now()
	found, err := config.Discover(ctx, config.Options{
		Cwd: m.opts.Cwd, Env: m.env, Inline: m.opts.Servers, Files: d.Files, Project: d.Project, User: d.User, Exclude: d.Exclude,
		MaxBytes: m.opts.Limits.ConfigBytes, Vars: d.Variables, FilterExa: d.FilterExa, FilterBrowser: d.FilterBrowser, LastGood: m.watcher.lastGood(),
		ProjectTrust: m.opts.ProjectTrust, Trusted: func(hash string) bool { return trusted[hash] },
	})
	m.trace.Phase(trace.PhaseDiscover, began, "", err)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the end of the operation is no fault of a file
	}
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "the servers could not be discovered: %w", err)
	}
	m.watcher.follow(found)
	return found, nil
}

func (m *Manager) result() *config.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found
}

// startable are the entries that become servers: a second name for one
// connection stays listed but is not started.
func startable(found *config.Result) map[string]*config.Entry {
	entries := make(map[string]*config.Entry, len(found.Entries))
	for _, e := range found.Owners() { // an untrusted project entry must not take a user's server's place
		if e.DuplicateOf == "" {
			entries[e.Name] = e
		}
	}
	return entries
}

// adopt takes what discovery found: new servers are added, those that do not run
// get their new config or go. What runs goes on as it is until a reload.
func (m *Manager) adopt(found *config.Result) {
	entries := startable(found)
	m.change(func(fx *effects) {
		m.found = found
		for name, s := range m.servers {
			if entries[name] == nil && !s.pinned && !s.state.running() {
				m.apply(s, event{kind: evRemove}, fx)
			}
		}
		for name, e := range entries {
			s := m.servers[name]
			switch {
			case s == nil:
				m.add(e, e.Origin.Level == config.LevelHost && e.Origin.Provider == "inline", fx)
			case s.pinned, s.state.running():
			default:
				s.use(e)
				fx.changed[s] = true
			}
		}
	})
}

// add makes the record of a new server, under the lock.
func (m *Manager) add(e *config.Entry, pinned bool, fx *effects) *server {
	s := newServer(e)
	s.pinned = pinned
	switch {
	case m.closing != nil: // discovery ended after the manager: nothing comes back
		s.state, s.settled = stateClosed, true
		return s
	case !e.Enabled:
		s.state, s.settled = stateDisabled, true
	case !e.Trusted:
		s.state, s.settled, s.err = stateNeedsTrust, true, needsTrust(e)
	}
	m.servers[e.Name] = s
	fx.changed[s] = true
	return s
}

// sameEntry tells whether two entries are written alike.
func sameEntry(a, b *config.Entry) bool {
	return a.Enabled == b.Enabled && a.Trusted == b.Trusted && bytes.Equal(a.Canonical(), b.Canonical())
}

// sameConfig tells whether a reload may keep the running server: nothing was
// written otherwise, and it still resolves to the same. now is nil where it does
// not resolve.
func (s *server) sameConfig(e *config.Entry, now *config.Resolved) bool {
	if !sameEntry(s.entry, e) {
		return false
	}
	return s.resolved == nil || now != nil && s.resolved.Equal(now)
}

// addInline adds the servers that a connect brings; the host's own word needs no
// trust. A server that is there already under that name gets the new config.
func (m *Manager) addInline(raw []byte, rep *report) error {
	if !rawjson.IsObject(raw) {
		return fault.New(fault.InvalidRequest, "", `"servers" must be an object {name: config}`)
	}
	var entries []*config.Entry
	err := rawjson.Members(raw, func(name string, value []byte) bool {
		rep.given = append(rep.given, name)
		e, diags, err := config.ParseServer(name, value)
		rep.diagnostics = append(rep.diagnostics, diags...)
		if err != nil {
			f := fault.New(fault.Config, fault.StageConfig, "%w", err)
			f.Server = name
			rep.errors[name] = f
			return true
		}
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return fault.New(fault.InvalidRequest, "", `"servers" is not understood: %w`, err)
	}
	resolved := m.resolveAll(entries)
	m.change(func(fx *effects) {
		for _, e := range entries {
			s := m.servers[e.Name]
			if s == nil {
				m.add(e, true, fx)
				continue
			}
			s.pinned = true
			if !s.sameConfig(e, resolved[e]) {
				m.apply(s, event{kind: evChanged, entry: e}, fx)
			}
		}
	})
	return nil
}

// resolveAll resolves the entries that may start, to compare them with what runs.
func (m *Manager) resolveAll(entries []*config.Entry) map[*config.Entry]*config.Resolved {
	out := map[*config.Entry]*config.Resolved{}
	for _, e := range entries {
		if e.Enabled && e.Trusted {
			if r, err := m.resolveKnown(e); err == nil { // what runs has run its helpers
				out[e] = r
			}
		}
	}
	return out
}

// trust records hashes by server name and discovers again, since an entry that is
// trusted may take a name or turn out to be the same connection as another one. An
// entry that changed meanwhile has another hash then. The caller holds discovering.
func (m *Manager) trust(ctx context.Context, hashes map[string]string, failed func(name string, err error)) {
	recorded := false
	for name, hash := range hashes {
		if err := m.trustAdd(name, hash); err != nil {
			failed(name, err)
		} else {
			recorded = true
		}
	}
	if !recorded {
		return
	}
	found, err := m.discover(ctx)
	if err != nil {
		failed(".mcp.json", err)
		return
	}
	m.adopt(found)
}

// trustOne trusts one entry outside a connect; like connect it discovers first if
// nothing was, so that a program whose only job is to trust can do it.
func (m *Manager) trustOne(name, hash string) (err error) {
	if err := m.discoverOnce(); err != nil {
		return err
	}
	m.discovering.Lock()
	defer m.discovering.Unlock()
	m.trust(m.ctx, map[string]string{name: hash}, func(_ string, failed error) { err = failed })
	return err
}

// discoverOnce reads the sources if nothing did yet.
func (m *Manager) discoverOnce() error {
	m.discovering.Lock()
	defer m.discovering.Unlock()
	if m.result() != nil {
		return nil
	}
	found, err := m.discover(m.ctx)
	if err == nil {
		m.adopt(found)
	}
	return err
}

// trustAdd records that the entry which discover showed with this hash may run.
func (m *Manager) trustAdd(name, hash string) error {
	e := m.entryOf(name, hash)
	if e == nil {
		who := "no server"
		if name != "" {
			who = fmt.Sprintf("no server %q", name)
		}
		f := fault.New(fault.NeedsTrust, fault.StageConfig, "%s with this hash was discovered; it may have changed: discover again and look at it", who)
		f.Server = name
		return f
	}
	if e.Origin.Level == config.LevelProject {
		t, err := m.store.trust()
		if err != nil {
			return err
		}
		err = t.Add(store.Record{Hash: e.Hash, Path: e.Origin.Path, Project: m.opts.Cwd, Provider: e.Origin.Provider, Name: e.Name, AddedAt: time.Now().UTC()})
		if err != nil {
			return fault.New(fault.Config, fault.StageConfig, "the trust record could not be written: %w", err)
		}
	}
	return m.approve(hash)
}

// entryOf finds what was shown with this hash, servers that connect brought included.
func (m *Manager) entryOf(name, hash string) *config.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []*config.Entry
	if m.found != nil {
		entries = slices.Clone(m.found.Entries)
	}
	for _, s := range m.servers {
		if s.pinned {
			entries = append(entries, s.entry)
		}
	}
	i := slices.IndexFunc(entries, func(e *config.Entry) bool { return e.Hash == hash && (name == "" || e.Name == name) })
	if i < 0 {
		return nil
	}
	return entries[i]
}

func (m *Manager) trustRemove(hash string) (any, error) {
	t, err := m.store.trust()
	if err != nil {
		return nil, err
	}
	removed, err := t.Remove(hash)
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "the trust record could not be removed: %w", err)
	}
	if pins, err := m.pins(); err != nil || pins.Forget(hash) != nil { // it may be trusted again, with other tools
		m.pinsFailed("", errors.New("the record of its approved tools could not be removed"))
	}
	m.checkTrust()
	return map[string]any{"removed": removed}, nil
}

// trusted compares one entry with the records as they are now.
func (m *Manager) trusted(e *config.Entry) bool {
	return e.TrustedBy(m.opts.ProjectTrust, func(hash string) bool { return m.store.trusted()[hash] })
}

// checkTrust makes the known entries agree with the records, which other processes
// change too. Entries never change in place, since snapshots hold them.
func (m *Manager) checkTrust() {
	recorded := sync.OnceValue(m.store.trusted)
	turn := func(e *config.Entry) *config.Entry {
		trusted := e.TrustedBy(m.opts.ProjectTrust, func(hash string) bool { return recorded()[hash] })
		if trusted == e.Trusted {
			return e
		}
		c := *e
		c.Trusted = trusted
		return &c
	}
	m.mu.Lock()
	asks := m.found != nil && slices.ContainsFunc(m.found.Entries, func(e *config.Entry) bool { return e.Origin.Level == config.LevelProject })
	m.mu.Unlock()
	if !asks || m.opts.ProjectTrust != config.TrustRecorded {
		return
	}
	recorded() // reads a file: not under the lock
	m.change(func(fx *effects) {
		next := *m.found
		next.Entries = nil
		for _, e := range m.found.Entries {
			next.Entries = append(next.Entries, turn(e))
		}
		m.found = &next
		for _, s := range m.servers {
			if e := turn(s.entry); e != s.entry {
				s.use(e)
				fx.changed[s] = true
			}
		}
	})
}

// startTrusted starts the servers that waited for this hash.
func (m *Manager) startTrusted(hash string) {
	m.change(func(fx *effects) {
		for _, s := range m.servers {
			if s.state == stateNeedsTrust && s.entry.Trusted && s.entry.Hash == hash {
				m.apply(s, event{kind: evStart}, fx)
			}
		}
	})
}

// lookUp reads the cache for a server that is about to be started: for a lazy one, to know
// whether it need be, and, behind an eager gate, for any, since the gate opens on what is
// known. One whose helper commands have not run yet is left to its attempt: whose tools it may
// see is not known without them, and a helper may take seconds.
func (m *Manager) lookUp(s *server, eager bool) *event {
	m.mu.Lock()
	entry, gen := s.entry, s.gen
	wanted := (eager || m.lazy(entry)) && s.state == stateIdle && s.known == nil && entry.Enabled && entry.Trusted
	m.mu.Unlock()
	if !wanted {
		return nil
	}
	resolved, err := m.resolveKnown(entry)
	if err != nil {
		return nil // the start will say why
	}
	creds, err := m.credentials.of(entry, resolved)
	if err != nil {
		return nil
	}
	stored := m.store.place(entry, resolved, principal(creds)).load()
	if stored == nil {
		return nil
	}
	return &event{kind: evCached, gen: gen, tools: stored.set}
}

func (m *Manager) lazy(e *config.Entry) bool {
	if e.Server.Lazy != nil {
		return *e.Server.Lazy
	}
	return m.opts.Lazy
}
