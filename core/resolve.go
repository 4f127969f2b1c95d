package core

import (
	"errors"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// resolve makes an entry ready to start; it is done anew at every start.
func (m *Manager) resolve(e *config.Entry) (*config.Resolved, error) {
	r, found, err := config.Resolve(e, m.env, config.ResolveOptions{Cwd: m.opts.Cwd, Vars: m.opts.Discovery.Variables})
	for _, d := range found {
		m.store.report(d)
	}
	if err == nil {
		return r, nil
	}
	var re *config.ResolveError
	if !errors.As(err, &re) {
		return nil, fault.New(fault.Config, fault.StageConfig, "%w", err)
	}
	code := fault.Config
	if re.Code == "needs_input" {
		code = fault.NeedsInput
	}
	return nil, fault.New(code, fault.StageConfig, "%s", re.Message).With(fault.Data{Path: re.Path, Line: re.Line, Column: re.Column})
}

// serverTimeout bounds an attempt and each of its requests; 0: nothing does.
func (m *Manager) serverTimeout(s *config.Server) time.Duration { return m.callTimeout(nil, s) }

// startTimeout bounds an attempt as a whole, where a server has one of its own for it.
func (m *Manager) startTimeout(s *config.Server) time.Duration {
	if s.StartupTimeoutMs != nil && m.opts.EnvTimeout == nil {
		return time.Duration(*s.StartupTimeoutMs) * time.Millisecond
	}
	return m.serverTimeout(s)
}

// callTimeout: per call, then MCPRT_TIMEOUT_MS, then the server's, then open's.
func (m *Manager) callTimeout(perCall *int64, s *config.Server) time.Duration {
	switch {
	case perCall != nil:
		return time.Duration(*perCall) * time.Millisecond
	case m.opts.EnvTimeout != nil:
		return *m.opts.EnvTimeout
	case s.TimeoutMs != nil:
		return time.Duration(*s.TimeoutMs) * time.Millisecond
	}
	return m.opts.Timeout
}
