package core

import (
	"net/url"
	"os/exec"
	"runtime"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// browse opens a page in the system's browser, by a program with the URL as its
// argument and never through a shell.
func (m *Manager) browse(page string) error {
	u, err := url.Parse(page)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !auth.IsLoopbackHost(u.Hostname())) {
		return fault.New(fault.NeedsAuth, fault.StageAuth, "the page of a sign-in is no https url, so no browser is opened with it")
	}
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"/usr/bin/open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	path, err := m.env.LookPath(command[0], m.opts.Cwd)
	if err != nil {
		return fault.New(fault.NeedsAuth, fault.StageAuth, "no browser can be opened, since there is no %s: %w", command[0], err)
	}
	cmd := exec.Command(path, append(command[1:], u.String())...)
	cmd.Env = m.env.ChildEnv(config.EnvPolicy{}, nil)
	if err := cmd.Start(); err != nil { // its output goes nowhere
		return fault.New(fault.NeedsAuth, fault.StageAuth, "no browser can be opened: %w", err)
	}
	safe.Go(nil, func() { _ = cmd.Wait() })
	return nil
}
