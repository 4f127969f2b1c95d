package main

/*
#cgo noescape mp_work_next
#cgo nocallback mp_work_next
#include "gocalls.h"
*/
import "C"

import (
	"math"
	"os"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/safe"
)

// serve does what C's manager hands over, in order, until its end. It sleeps in
// the netpoller: no thread is held.
func (h *host) serve(wake *os.File) {
	bytes := make([]byte, 64)
	for {
		for work := C.mp_work_next(h.m); work != nil; work = C.mp_work_next(h.m) {
			for ; work != nil; work = work.next {
				if work.kind == C.MP_WORK_END {
					_ = wake.Close()
					h.name.Delete()
					h.leave()
					C.mp_manager_release(h.m)
					return
				}
				h.do(work)
			}
		}
		if _, err := wake.Read(bytes); err != nil {
			// The host closed our descriptor, as daemons do with all they find: it
			// still gets its answers, only later.
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// do begins one piece of work; none of them blocks.
func (h *host) do(w *C.struct_mp_work) {
	text := borrowed(w.text, w.len)
	switch w.kind {
	case C.MP_WORK_START:
		h.start(w.op, uint64(w.id), core.Verb(w.verb), uint64(w.tag), text)
	case C.MP_WORK_CANCEL:
		h.cancel(uint64(w.id))
	case C.MP_WORK_ANSWER:
		guard(func() { h.core.Answer(uint64(w.tag), text) })
	case C.MP_WORK_DECLINE:
		guard(func() { h.core.Decline(uint64(w.tag)) })
	case C.MP_WORK_CLOSE:
		graceMs := int32(w.grace_ms)
		if w.op != nil {
			graceMs = graceOf(text)
		}
		safe.Go(nil, func() { h.close(graceMs) })
	}
}

// graceOf reads the request of MCPRT_CLOSE; -1, the configured grace, where it
// names none that can be used, since a close cannot fail.
func graceOf(text []byte) int32 {
	graceMs := int32(-1)
	guard(func() {
		var req struct {
			GraceMs *float64 `json:"graceMs"`
		}
		if err := json.Unmarshal(text, &req); err == nil && req.GraceMs != nil {
			graceMs = int32(min(max(*req.GraceMs, -1), math.MaxInt32))
		}
	})
	return graceMs
}
