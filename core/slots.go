package core

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// callLimit is how many calls may run at once at a server with this config, and the
// member that says so; 0: there is no limit. The config of a server, which may be a
// project's, can make the host's limit smaller, not larger.
func (m *Manager) callLimit(e *config.Entry) (n int, by string) {
	n, by = m.opts.Limits.CallsPerServer, "limits.callsPerServer"
	if own := e.Server.MaxConcurrentCalls; own > 0 && (n == 0 || own < n) {
		n, by = own, "maxConcurrentCalls of its config"
	}
	return n, by
}

// newSlots are the places for calls of one server; nil: there is no limit.
func (m *Manager) newSlots(e *config.Entry) *semaphore.Weighted {
	if n, _ := m.callLimit(e); n > 0 {
		return semaphore.NewWeighted(int64(n))
	}
	return nil
}

// takeSlot takes one of a server's places for running calls, if there is one and
// nobody waits for it; nil: there is no limit.
func (op *callOp) takeSlot(slots *semaphore.Weighted) bool {
	if op.slot == slots || slots == nil {
		return true
	}
	op.giveSlot()
	if !slots.TryAcquire(1) {
		return false
	}
	op.slot = slots
	return true
}

// giveSlot gives the place back.
func (op *callOp) giveSlot() {
	if slots := op.slot; slots != nil {
		op.slot = nil
		slots.Release(1)
	}
}

// queue waits for a place: first come, first served. A call that is cancelled, or whose
// time is over, leaves the queue. waited tells that there was none free.
func (op *callOp) queue(ctx context.Context, v *serverView, deadline time.Time) (waited bool, err error) {
	if op.takeSlot(v.slots) {
		return false, nil
	}
	wait := ctx
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		wait, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	op.m.mu.Lock()
	s := op.m.servers[v.name]
	if s != nil {
		s.waiting++ // for mcprt/stats
	}
	op.m.mu.Unlock()
	err = v.slots.Acquire(wait, 1)
	if s != nil {
		op.m.mu.Lock()
		s.waiting--
		op.m.mu.Unlock()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return true, cause
		}
		ms := op.timeout.Milliseconds()
		n, by := op.m.callLimit(v.entry)
		return true, fault.New(fault.Timeout, fault.StageSend, "server %q runs as many calls as %s allows (%d), and this one waited for its turn until its %d ms were over; call again later",
			v.name, by, n, ms).With(fault.Data{TimeoutMs: ms}).Retry()
	}
	op.slot = v.slots
	return true, nil
}
