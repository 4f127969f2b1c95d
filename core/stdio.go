package core

import (
	"context"
	"errors"
	"io/fs"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// dialStdio prepares the start of a server's process.
func dialStdio(m *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error) {
	return func(ctx context.Context, receiver transport.Receiver) (transport.Conn, error) {
		path, env, err := m.lookPath(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			advice := ""
			if errors.Is(err, fs.ErrNotExist) && !m.opts.LoginPath && transport.HasShell && !env.IsPath(r.Command) {
				advice = "; install it or give its full path; if a terminal does find it, the option loginPath does too"
			}
			return nil, fault.New(fault.SpawnFailed, fault.StageSpawn, "server %q cannot be started: %w%s", e.Name, err, advice).With(fault.Data{Command: e.Server.Command})
		}
		return transport.Stdio{
			Server: e.Name, Command: e.Server.Command, Path: path, Args: r.Args, Dir: r.Cwd,
			Env:        env.ChildEnv(m.opts.EnvPolicy, r.Env),
			MaxMessage: m.opts.Limits.MessageBytes, Grace: m.opts.Grace, Slots: m.slots,
			Redact: newRedactor(r, nil).clean,
			Warn: func(text string) {
				m.store.report(diagnostic{Severity: "warning", Code: "unguarded", Message: text})
			},
		}.Dial(ctx, receiver)
	}, nil
}
