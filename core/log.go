package core

import "slices"

// Records of the library itself come as log events whose logger is "mcprt"; the
// option log.level bounds them. What servers log is passed on as they sent it.
var logLevels = []string{"off", "error", "warn", "info", "debug"}

// logs tells whether records of this level are wanted.
func (m *Manager) logs(level string) bool {
	return slices.Index(logLevels, level) <= slices.Index(logLevels, m.opts.Log.Level)
}

// logFailure records, under the lock, that a server failed: a host that looks at
// nothing else still learns of a late failure.
func (m *Manager) logFailure(s *server) {
	level := "error"
	switch s.state {
	case stateBackoff:
		level = "warn"
	case stateFailed:
	default:
		return
	}
	if s.err == nil || !m.logs(level) {
		return
	}
	word := map[string]string{"error": "error", "warn": "warning"}[level] // MCP's own words
	m.outbox = append(m.outbox, rawNotice{kind: "log", server: s.name,
		fields: []rawField{{"level", encode(word)}, {"logger", encode("mcprt")}, {"data", encode(s.err.Message)}}})
}
