package core

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/transport"
)

const (
	helperTimeout = 10 * time.Second
	helperBytes   = 1 << 20
	maxHelpers    = 16 // that run at one moment
)

// helpers runs the helper commands of configs. What one printed holds for the
// manager's life; servers that start at the same time share one run. A failure is
// not kept: the next start tries again.
type helpers struct {
	m     *Manager
	slots chan struct{}

	mu      sync.Mutex
	printed map[string]string // by command
	running map[string]*helping
}

// helping is one run that some servers wait for. It ends when nobody does any more.
type helping struct {
	done    chan struct{}
	out     string
	err     error
	waiters int
	cancel  context.CancelFunc
}

func newHelpers(m *Manager) *helpers {
	return &helpers{m: m, slots: make(chan struct{}, maxHelpers), printed: map[string]string{}, running: map[string]*helping{}}
}

// known gives what a command printed before; it runs nothing.
func (h *helpers) known(command string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out, ok := h.printed[command]
	if !ok {
		return "", errors.New("has not run yet")
	}
	return out, nil
}

// get gives what a command prints. It is called by the start of a trusted server
// only, and never under a lock.
func (h *helpers) get(ctx context.Context, command string) (string, error) {
	return h.getIn(ctx, command, false)
}

// getIn is get for a command that must not see the host's terminal, if session is set.
func (h *helpers) getIn(ctx context.Context, command string, session bool) (string, error) {
	h.mu.Lock()
	if out, ok := h.printed[command]; ok {
		h.mu.Unlock()
		return out, nil
	}
	run := h.running[command]
	begin := run == nil
	var work context.Context
	if begin {
		run = &helping{done: make(chan struct{})}
		work, run.cancel = context.WithCancel(h.m.ctx)
		h.running[command] = run
	}
	run.waiters++
	h.mu.Unlock()
	if begin && !h.m.goSafe(func() { h.run(work, command, session, run) }) {
		h.over(command, run, "", errClosed)
	}
	select {
	case <-run.done:
		return run.out, run.err
	case <-ctx.Done():
	}
	h.mu.Lock()
	if run.waiters--; run.waiters == 0 {
		run.cancel()
		if h.running[command] == run { // whoever comes now needs a new one
			delete(h.running, command)
		}
	}
	h.mu.Unlock()
	return "", context.Cause(ctx)
}

func (h *helpers) run(ctx context.Context, command string, session bool, run *helping) {
	out, err := "", error(nil)
	defer func() { h.over(command, run, out, err) }()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		err = context.Cause(ctx)
		return
	}
	safe.Do(func(bug *fault.Error) { err = bug }, func() {
		var printed []byte
		printed, err = transport.Helper{Command: command, Env: h.m.env.ChildEnv(config.EnvPolicy{}, nil), Dir: h.m.opts.Cwd,
			Limit: helperBytes, Timeout: helperTimeout, Session: session}.Output(ctx)
		if out = strings.TrimSpace(string(printed)); err == nil && out == "" {
			err = errors.New("printed nothing")
		}
	})
}

func (h *helpers) over(command string, run *helping, out string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run.cancel()
	if run.err = err; err == nil {
		run.out, h.printed[command] = out, out
	}
	if h.running[command] == run {
		delete(h.running, command)
	}
	close(run.done)
}
