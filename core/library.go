package core

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// own answers the library's own methods, call {"method":"mcprt/…"}.
func (op *callOp) own() {
	m := op.m
	defer func() {
		if r := recover(); r != nil {
			op.fail(fault.Caught(r, debug.Stack()))
		}
	}()
	ctx, stop := context.WithCancelCause(m.ctx)
	defer stop(nil)
	if !op.during(op.resends, func() { stop(errCanceled) }) {
		stop(errCanceled)
	}
	if ms := op.req.TimeoutMs; ms != nil && *ms > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, time.Duration(*ms)*time.Millisecond, fault.New(fault.Timeout, "", "%s did not end within %d ms", op.req.Method, *ms).
			With(fault.Data{TimeoutMs: *ms}).Retry())
		defer end()
	}
	var params struct {
		Hash   string `json:"hash"`
		Server string `json:"server"`
	}
	if !isNull(op.req.Params) {
		if err := parseRequest(op.req.Params, &params); err != nil {
			op.fail(err)
			return
		}
	}
	var result any
	var err error
	switch op.req.Method {
	case "mcprt/cache.info":
		result, err = m.store.cacheInfo()
	case "mcprt/cache.clear":
		result, err = m.store.cacheClear()
	case "mcprt/trust.list":
		result, err = m.store.trustList()
	case "mcprt/trust.add":
		err = m.trustOne(params.Server, params.Hash)
		if err == nil {
			m.startTrusted(params.Hash)
			result = map[string]any{"added": true, "hash": params.Hash}
		}
	case "mcprt/trust.remove":
		result, err = m.trustRemove(params.Hash)
	case "mcprt/stats":
		result = m.stats()
	case "mcprt/auth.login":
		result, err = m.login(ctx, params.Server)
	case "mcprt/auth.logout":
		result, err = m.logout(ctx, params.Server)
	default:
		err = fault.New(fault.InvalidRequest, "", "the library has no method %q", op.req.Method)
	}
	if err != nil {
		op.fail(ended(ctx, err))
		return
	}
	op.out.succeed(Reply{Head: resultHead, Body: encode(result), Tail: resultTail})
}
