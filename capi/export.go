package main

/*
#cgo CFLAGS: -std=gnu11 -fvisibility=hidden -I${SRCDIR}/../include
#cgo CFLAGS: -Wall -Wextra -Werror=incompatible-pointer-types -Werror=int-conversion
#cgo !windows LDFLAGS: -pthread
#cgo windows CFLAGS: -DMCPRT_BUILD -D__USE_MINGW_ANSI_STDIO=1 -Wno-dangling-pointer
#include "gocalls.h"
*/
import "C"

import (
	"runtime/cgo"
	"runtime/debug"
	"unsafe"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
)

//export mcprtgo_open
func mcprtgo_open(m *C.struct_mp_manager, options *C.char, n C.size_t, wakeFD C.int32_t, name *C.uintptr_t, limits *C.struct_mp_limits, out *C.mcprt_buf) (st C.int32_t) {
	defer func() {
		if v := recover(); v != nil {
			st = refuse(out, fault.Caught(v, debug.Stack()))
		}
	}()
	h, err := newHost(m, borrowed(options, n), int(wakeFD))
	if err != nil {
		return refuse(out, err)
	}
	*name = C.uintptr_t(h.name)
	*limits = h.limits
	return C.MCPRT_OK
}

//export mcprtgo_start
func mcprtgo_start(name C.uintptr_t, op *C.struct_mp_op, id C.uint64_t, verb C.int32_t, text *C.char, n C.size_t) {
	defer func() {
		if v := recover(); v != nil {
			complete(op, fault.Caught(v, debug.Stack()))
		}
	}()
	cgo.Handle(name).Value().(*host).start(op, uint64(id), core.Verb(verb), 0, borrowed(text, n))
}

// borrowed gives text of C as a slice, without a copy.
func borrowed(text *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(text)), int(n))
}
