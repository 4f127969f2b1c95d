package core

import (
	"context"
	"fmt"
	"time"

	"github.com/mcprt/mcprt/core/trace"
)

// gate says how long a start-up waits for servers.
type gate struct {
	timeout    time.Duration // 0: for every server
	eager      bool          // servers whose tools the cache knows are not waited for
	background bool          // servers without known tools are not waited for after the timeout
}

// wait returns when the servers have settled: ready, or their first attempt
// failed, or they need a person. After the timeout it goes on waiting only for
// those whose tools nobody knows, and for these not longer than their own
// attempt may take. It never fails: only ctx ends it early.
func (m *Manager) wait(ctx context.Context, servers []*server, g gate) error {
	var expired <-chan time.Time
	if g.timeout > 0 {
		timer := time.NewTimer(g.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	late := false
	began := time.Now()
	for {
		m.mu.Lock()
		pending, unknown := 0, 0
		for _, s := range servers {
			if s.state != stateConnecting || s.settled {
				continue
			}
			pending++
			if s.known == nil {
				unknown++
			}
		}
		pulse := m.pulse
		m.mu.Unlock()
		switch {
		case pending == 0, g.eager && unknown == 0, late && (g.background || unknown == 0):
			m.trace.Phase(trace.PhaseGate, began, waited(len(servers), pending, late), nil)
			return nil
		}
		select {
		case <-pulse:
		case <-expired:
			late, expired = true, nil
		case <-ctx.Done():
			err := context.Cause(ctx)
			m.trace.Phase(trace.PhaseGate, began, waited(len(servers), pending, late), err)
			return err
		}
	}
}

// waited says how a gate ended.
func waited(servers, pending int, late bool) string {
	how := "before its time"
	if late {
		how = "after its time"
	}
	return fmt.Sprintf("%d servers, %d still start, %s", servers, pending, how)
}
