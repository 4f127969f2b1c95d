package core

import (
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/config"
)

// TestStartTimeout: a server's own time for starting bounds its attempts alone,
// and the environment wins over both.
func TestStartTimeout(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	second := time.Second
	for _, c := range []struct {
		server        config.Server
		env           *time.Duration
		start, listed time.Duration
	}{
		{config.Server{}, nil, 30 * time.Second, 30 * time.Second},
		{config.Server{TimeoutMs: ms(5000)}, nil, 5 * time.Second, 5 * time.Second},
		{config.Server{StartupTimeoutMs: ms(20500)}, nil, 20500 * time.Millisecond, 30 * time.Second},
		{config.Server{StartupTimeoutMs: ms(20500), TimeoutMs: ms(0)}, nil, 20500 * time.Millisecond, 0},
		{config.Server{StartupTimeoutMs: ms(20500), TimeoutMs: ms(5000)}, &second, second, second},
	} {
		m := &Manager{opts: &Options{Timeout: 30 * time.Second, EnvTimeout: c.env}}
		if start, listed := m.startTimeout(&c.server), m.serverTimeout(&c.server); start != c.start || listed != c.listed {
			t.Errorf("%+v: %v %v, want %v %v", c.server, start, listed, c.start, c.listed)
		}
	}
}
