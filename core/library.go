package core

import (
	"github.com/mcprt/mcprt/core/fault"
)

// own answers the library's own methods, call {"method":"mcprt/…"}.
func (op *callOp) own() {
	m := op.m
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
	default:
		err = fault.New(fault.InvalidRequest, "", "the library has no method %q", op.req.Method)
	}
	if err != nil {
		op.fail(err)
		return
	}
	op.out.succeed(Reply{Head: resultHead, Body: encode(result), Tail: resultTail})
}
