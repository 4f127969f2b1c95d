package main

/*
#cgo noescape mp_op_complete
#cgo nocallback mp_op_complete
#cgo noescape mp_notice
#cgo nocallback mp_notice
#cgo noescape mp_request_open
#cgo nocallback mp_request_open
#cgo nocallback mp_request_done
#include "gocalls.h"
*/
import "C"

import (
	"os"
	"runtime/cgo"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// manager is what the boundary needs of core's manager; see core/host.go.
type manager interface {
	QueueLimits() core.QueueLimits
	Start(v core.Verb, tag uint64, req []byte, done core.Done) (cancel func())
	Answer(tag uint64, reply []byte) core.Status
	Decline(tag uint64)
	Close(graceMs int32)
}

// host is the Go half of one handle: core's manager on one side, C's on the
// other. It keeps of an operation only what is needed to cancel it; tags, limits
// and queues are C's.
type host struct {
	core   manager
	limits C.struct_mp_limits
	name   cgo.Handle // C's name for this host
	m      *C.struct_mp_manager

	alive sync.RWMutex // held for reading while core calls into C
	over  bool         // m was given back

	mu      sync.Mutex
	running map[uint64]*operation // by id; nil once closed
}

type operation struct {
	c      *C.struct_mp_op
	cancel func() // nil until core has started it
}

// newHost opens core's manager and starts to serve C's. It owns wakeFD at once.
func newHost(m *C.struct_mp_manager, options []byte, wakeFD int) (*host, error) {
	wake := os.NewFile(uintptr(wakeFD), "mcprt wake pipe")
	h := &host{m: m, running: map[uint64]*operation{}}
	opened := false
	defer func() {
		if !opened { // on an error and on a panic
			h.leave()
			_ = wake.Close()
		}
	}()
	c, err := openManager(options, h)
	if err != nil {
		return nil, err
	}
	h.core = c
	l := c.QueueLimits()
	h.limits = C.struct_mp_limits{
		in_flight:    C.uint64_t(max(l.MaxInFlight, 0)),
		queue_bytes:  C.uint64_t(max(l.QueueBytes, 0)),
		notices:      C.uint64_t(max(l.MaxNotices, 0)),
		notice_bytes: C.uint64_t(max(l.NoticeBytes, 0)),
	}
	h.name = cgo.NewHandle(h)
	opened = true
	C.mp_manager_retain(m)
	safe.Go(nil, func() { h.serve(wake) })
	return h, nil
}

// leave makes sure that core cannot reach C's manager any more.
func (h *host) leave() {
	h.alive.Lock()
	h.over = true
	h.alive.Unlock()
}

// start begins one operation. Whatever happens, op ends exactly once.
func (h *host) start(op *C.struct_mp_op, id uint64, verb core.Verb, tag uint64, text []byte) {
	o := &operation{c: op}
	h.mu.Lock()
	closed := h.running == nil
	if !closed {
		h.running[id] = o
	}
	h.mu.Unlock()
	if closed {
		complete(op, errClosed)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			h.fail(id, fault.Caught(v, debug.Stack()))
		}
	}()
	cancel := h.core.Start(verb, tag, text, func(st core.Status, r core.Reply) {
		if h.claim(id) != nil {
			completeWith(op, st, r)
		}
	})
	h.mu.Lock()
	o.cancel = cancel
	h.mu.Unlock()
}

var errClosed = fault.New(fault.Closed, "", "the manager is closed; open a new one")

// claim takes an operation out; whoever gets it must complete it.
func (h *host) claim(id uint64) *operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.running[id]
	delete(h.running, id)
	return o
}

func (h *host) fail(id uint64, err error) {
	if o := h.claim(id); o != nil {
		complete(o.c, err)
	}
}

func (h *host) cancel(id uint64) {
	h.mu.Lock()
	o := h.running[id]
	h.mu.Unlock()
	if o == nil || o.cancel == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			h.fail(id, fault.Caught(v, debug.Stack()))
		}
	}()
	o.cancel()
}

// close ends core's manager. What core has not ended by then is ended here: a
// host waits for each of its completions.
func (h *host) close(graceMs int32) {
	guard(func() { h.core.Close(graceMs) })
	h.mu.Lock()
	left := h.running
	h.running = nil
	h.mu.Unlock()
	for _, o := range left {
		complete(o.c, errClosed)
	}
	C.mp_core_closed(h.m)
}

// Notice implements core.Host.
func (h *host) Notice(data []byte) {
	h.alive.RLock()
	defer h.alive.RUnlock()
	if !h.over {
		bytes := addressable(data)
		C.mp_notice(h.m, (*C.char)(unsafe.Pointer(&bytes[0])), C.size_t(len(data)))
	}
}

// Request implements core.Host. What the queue does not take is declined.
func (h *host) Request(tag uint64, data []byte) {
	if !h.request(tag, data) {
		h.core.Decline(tag)
	}
}

func (h *host) request(tag uint64, data []byte) bool {
	h.alive.RLock()
	defer h.alive.RUnlock()
	if h.over {
		return false
	}
	bytes := addressable(data)
	return bool(C.mp_request_open(h.m, C.uint64_t(tag), (*C.char)(unsafe.Pointer(&bytes[0])), C.size_t(len(data))))
}

// RequestDone implements core.Host.
func (h *host) RequestDone(tag uint64, st core.Status) {
	h.alive.RLock()
	defer h.alive.RUnlock()
	if !h.over {
		C.mp_request_done(h.m, C.uint64_t(tag), C.int32_t(st))
	}
}

// largestReply leaves room for a frame's header and padding.
const largestReply = C.MCPRT_FRAME_MAX - 64

func completeWith(op *C.struct_mp_op, st core.Status, r core.Reply) {
	if n := len(r.Head) + len(r.Body) + len(r.Tail); n > largestReply {
		st, r = core.ErrorReply(fault.New(fault.TooLarge, fault.StageReceive,
			"the answer has %d bytes and does not fit one frame of %d; ask for less, or for a page of it", n, int64(C.MCPRT_FRAME_MAX)))
	}
	head, body, tail := addressable(r.Head), addressable(r.Body), addressable(r.Tail)
	C.mp_op_complete(op, C.int32_t(st),
		(*C.char)(unsafe.Pointer(&head[0])), C.size_t(len(r.Head)),
		(*C.char)(unsafe.Pointer(&body[0])), C.size_t(len(r.Body)),
		(*C.char)(unsafe.Pointer(&tail[0])), C.size_t(len(r.Tail)))
}

func complete(op *C.struct_mp_op, err error) {
	st, r := core.ErrorReply(err)
	completeWith(op, st, r)
}

// refuse fills the out of mcprt_open.
func refuse(out *C.mcprt_buf, err error) C.int32_t {
	st, r := core.ErrorReply(err)
	text := addressable(append(append(append([]byte(nil), r.Head...), r.Body...), r.Tail...))
	C.mp_buf_set(out, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return C.int32_t(st)
}

var oneByte [1]byte

// addressable gives a slice that has a first byte. cgo lets bytes out of a larger
// Go object through only in the form &b[0], which an empty slice has not.
func addressable(b []byte) []byte {
	if len(b) == 0 {
		return oneByte[:]
	}
	return b
}

// guard runs f and outlives its panic: one here would end the host's process.
func guard(f func()) {
	defer func() { _ = recover() }()
	f()
}
