package core

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/transport"
)

// A program started from a desktop has the system's PATH, not the one that the
// user's shell sets up, where npx, uvx and docker are. So the option loginPath asks
// that shell, once, and only when a program is not to be found otherwise: it runs
// the user's own start-up files.

// loginShell prints PATH on a line of its own, since start-up files print too. It
// runs at home: a project directory must not decide what they do.
const (
	loginShell = `cd && exec "${SHELL:-/bin/sh}" -ilc 'printf "\nmcprt-path:%s\n" "$PATH"'`
	loginMark  = "mcprt-path:" // Output is trimmed: no line end before the first
)

// lookPath finds a server's program, and gives the environment to start it in.
func (m *Manager) lookPath(ctx context.Context, r *config.Resolved) (path string, env config.Env, err error) {
	path, err = m.env.LookPath(r.Command, r.Cwd)
	if err == nil || !m.opts.LoginPath || !errors.Is(err, fs.ErrNotExist) || m.env.IsPath(r.Command) || !transport.HasShell {
		return path, m.env, err
	}
	printed, failed := m.helpers.getIn(ctx, loginShell, true)
	if ctx.Err() != nil {
		return "", m.env, context.Cause(ctx)
	}
	at := strings.LastIndex(printed, loginMark)
	if failed != nil || at < 0 {
		return "", m.env, err
	}
	line, _, _ := strings.Cut(printed[at+len(loginMark):], "\n")
	env = m.env.With("PATH", line)
	if path, err = env.LookPath(r.Command, r.Cwd); err != nil {
		return "", m.env, err
	}
	return path, env, nil
}
