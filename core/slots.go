package core

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// slots are the places for calls of one server; nil: there is no limit.
type slots struct {
	*semaphore.Weighted
	n  int    // calls that may run at once
	by string // the member that says so
}

// newSlots are those of a server with this config, which may be a project's: it can make
// the host's limit smaller, not larger.
func (m *Manager) newSlots(e *config.Entry) *slots {
	n, by := m.opts.Limits.CallsPerServer, "limits.callsPerServer"
	if own := e.Server.MaxConcurrentCalls; own > 0 && (n == 0 || own < n) {
		n, by = own, "maxConcurrentCalls of its config"
	}
	if n == 0 {
		return nil
	}
	return &slots{Weighted: semaphore.NewWeighted(int64(n)), n: n, by: by}
}

// renewed are the slots of a server's next session: those it had, which calls hold and
// wait for, unless its config has another limit now.
func (old *slots) renewed(now *slots) *slots {
	if old != nil && now != nil && old.n == now.n {
		return old
	}
	return now
}

// takeSlot takes one of a server's places for running calls, if there is one and
// nobody waits for it; nil: there is no limit.
func (op *callOp) takeSlot(of *slots) bool {
	if op.slot == of || of == nil {
		return true
	}
	op.giveSlot()
	if !of.TryAcquire(1) {
		return false
	}
	op.slot = of
	return true
}

// giveSlot gives the place back.
func (op *callOp) giveSlot() {
	if held := op.slot; held != nil {
		op.slot = nil
		held.Release(1)
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
		return true, fault.New(fault.Timeout, fault.StageSend, "server %q runs as many calls as %s allows (%d), and this one waited for its turn until its %d ms were over; call again later",
			v.name, v.slots.by, v.slots.n, ms).With(fault.Data{TimeoutMs: ms}).Retry()
	}
	op.slot = v.slots
	return true, nil
}
