package core

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/fault"
)

// newSlots are the places for calls of one server; nil: there is no limit.
func (m *Manager) newSlots() *semaphore.Weighted {
	if n := m.opts.Limits.CallsPerServer; n > 0 {
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
		return true, fault.New(fault.Timeout, fault.StageSend, "server %q has %d calls running, which is all that limits.callsPerServer allows, and this one waited for its turn until its %d ms were over; call again later",
			v.name, op.m.opts.Limits.CallsPerServer, ms).With(fault.Data{TimeoutMs: ms}).Retry()
	}
	op.slot = v.slots
	return true, nil
}
