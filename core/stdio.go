package core

import (
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// dialStdio prepares the start of a server's process.
func dialStdio(m *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error) {
	path, err := m.env.LookPath(r.Command, r.Cwd)
	if err != nil {
		return nil, fault.New(fault.SpawnFailed, fault.StageSpawn, "server %q cannot be started: %w", e.Name, err).With(fault.Data{Command: e.Server.Command})
	}
	return transport.Stdio{
		Server: e.Name, Command: e.Server.Command, Path: path, Args: r.Args, Dir: r.Cwd,
		Env:        m.env.ChildEnv(m.opts.EnvPolicy, r.Env),
		MaxMessage: m.opts.Limits.MessageBytes, Grace: m.opts.Grace, Slots: m.slots,
		Redact: newRedactor(r, nil).clean,
		Warn: func(text string) {
			m.store.report(diagnostic{Severity: "warning", Code: "unguarded", Message: text})
		},
	}.Dial, nil
}
