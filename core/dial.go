package core

import (
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// dial prepares the connection to a server.
func dial(m *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error) {
	switch r.Type {
	case "stdio":
		return dialStdio(m, e, r)
	case "http", "sse":
		return dialHTTP(m, e, r)
	}
	return nil, fault.New(fault.Config, fault.StageConfig, "server %q is of the unknown type %q", e.Name, r.Type)
}

// remote tells a server that is not a process of ours.
func remote(e *config.Entry) bool { return e.Server.Type != "stdio" }
