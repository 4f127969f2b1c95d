//go:build mcprt_scripted

package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
)

// scripted stands in for core's manager when the boundary is tested with Go but
// without servers (testdata/ctest.c). It answers like testdata/stub.c, and has
// the misbehaviours that only Go can have: panics, and an answer that never comes.
type scripted struct {
	host   core.Host
	limits core.QueueLimits
	ask    time.Duration

	mu       sync.Mutex
	closed   bool
	inFlight map[*scriptedOp]bool
	asked    map[uint64]*scriptedOp
	last     uint64
}

type scriptedOp struct {
	done   core.Done
	once   sync.Once
	stuck  bool // ignores cancel and close
	asking uint64
}

func openManager(options []byte, h core.Host) (manager, error) {
	o := struct {
		MaxInFlight, QueueBytes, MaxNotices, NoticeBytes, RequestTimeoutMs int64
		StubRefuse, StubPanic                                              bool
	}{MaxInFlight: 4096, QueueBytes: 1 << 28, MaxNotices: 4096, NoticeBytes: 1 << 24, RequestTimeoutMs: 300000}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, fault.New(fault.InvalidRequest, "", "options: %w", err)
	}
	if o.StubPanic {
		panic("told to")
	}
	if o.StubRefuse {
		return nil, fault.New(fault.InvalidRequest, "", "the stub was told to refuse")
	}
	return &scripted{
		host:     h,
		limits:   core.QueueLimits{MaxInFlight: o.MaxInFlight, QueueBytes: o.QueueBytes, MaxNotices: o.MaxNotices, NoticeBytes: o.NoticeBytes},
		ask:      time.Duration(o.RequestTimeoutMs) * time.Millisecond,
		inFlight: map[*scriptedOp]bool{},
		asked:    map[uint64]*scriptedOp{},
		last:     core.TagMax,
	}, nil
}

func (s *scripted) QueueLimits() core.QueueLimits { return s.limits }

func (s *scripted) end(op *scriptedOp, st core.Status, text string) {
	op.once.Do(func() {
		s.mu.Lock()
		delete(s.inFlight, op)
		asking := op.asking
		delete(s.asked, asking)
		s.mu.Unlock()
		if asking != 0 {
			s.host.RequestDone(asking, core.ECanceled) // withdrawn: its operation is over
		}
		// In three parts, and from inside a larger Go object that has pointers, as a
		// reader's buffer may be.
		holder := &struct {
			text [64]byte
			next *scripted
		}{next: s}
		n := copy(holder.text[:], text)
		op.done(st, core.Reply{Head: holder.text[:n], Body: []byte(text)[n:]})
	})
}

func (s *scripted) fail(op *scriptedOp, code fault.Code, format string, args ...any) {
	st, r := core.ErrorReply(fault.New(code, "", format, args...))
	s.end(op, st, string(slices.Concat(r.Head, r.Body, r.Tail)))
}

func (s *scripted) Start(v core.Verb, tag uint64, req []byte, done core.Done) func() {
	op := &scriptedOp{done: done}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.inFlight[op] = true
	}
	s.mu.Unlock()
	cancel := func() {
		if !op.stuck {
			s.fail(op, fault.Canceled, "the operation was cancelled")
		}
	}
	if closed {
		s.fail(op, fault.Closed, "the manager is closed")
		return cancel
	}
	var call struct {
		Tool      string
		TimeoutMs *int64
		Progress  bool
		Arguments json.RawMessage
	}
	args := struct {
		Text             json.RawMessage
		Ms, Bytes, Count int64
	}{Text: json.RawMessage(`""`)}
	if err := json.Unmarshal(req, &call); err != nil {
		s.fail(op, fault.InvalidRequest, "%v", err)
		return cancel
	}
	if call.Arguments != nil {
		if err := json.Unmarshal(call.Arguments, &args); err != nil {
			s.fail(op, fault.InvalidRequest, "%v", err)
			return cancel
		}
	}
	if v != core.VerbCall {
		s.end(op, core.OK, `{"revision":1,"tools":[],"servers":[]}`)
		return cancel
	}
	switch call.Tool {
	case "mcp_demo_echo":
		s.end(op, core.OK, fmt.Sprintf(`{"result":{"content":[{"type":"text","text":%s}],"arguments":%s}}`, args.Text, call.Arguments))
	case "mcp_demo_slow":
		for i := 1; call.Progress && tag != 0 && i <= 3; i++ {
			s.host.Notice(fmt.Appendf(nil, `{"type":"progress","tag":%d,"server":"demo","progress":%d}`, tag, i))
		}
		wait := time.Duration(args.Ms) * time.Millisecond
		if call.TimeoutMs != nil && *call.TimeoutMs < args.Ms {
			time.AfterFunc(time.Duration(*call.TimeoutMs)*time.Millisecond, func() { s.fail(op, fault.Timeout, "demo did not answer in time") })
		} else {
			time.AfterFunc(wait, func() {
				s.end(op, core.OK, fmt.Sprintf(`{"result":{"content":[{"type":"text","text":"slept %d ms"}]}}`, args.Ms))
			})
		}
	case "mcp_demo_hang":
	case "mcp_demo_stuck":
		op.stuck = true
	case "mcp_demo_panic":
		panic("told to")
	case "mcp_demo_twice":
		s.end(op, core.OK, `{"result":{}}`)
		op.done(core.OK, core.Reply{Body: []byte(`{"result":"again"}`)})
	case "mcp_demo_huge":
		op.once.Do(func() { op.done(core.OK, core.Reply{Body: make([]byte, 1<<30)}) }) // never touched, so no memory
	case "mcp_demo_fail":
		s.fail(op, fault.RPCError, "demo: the tool failed on purpose (-32000)")
	case "mcp_demo_error":
		s.end(op, core.OK, `{"result":{"isError":true,"content":[]}}`)
	case "mcp_demo_big":
		s.end(op, core.OK, fmt.Sprintf(`{"result":{"content":[{"type":"text","text":"%s"}]}}`, bytes.Repeat([]byte("x"), int(args.Bytes))))
	case "mcp_demo_flood":
		for i := int64(1); i <= args.Count; i++ {
			s.host.Notice(fmt.Appendf(nil, `{"type":"log","server":"demo","level":"info","logger":"flood","data":%d}`, i))
		}
		s.end(op, core.OK, fmt.Sprintf(`{"result":{"content":[{"type":"text","text":"%d notices"}]}}`, args.Count))
	case "mcp_demo_ask":
		s.mu.Lock()
		s.last++
		op.asking = s.last
		question := op.asking
		s.asked[question] = op
		s.mu.Unlock()
		time.AfterFunc(s.ask, func() {
			s.askEnded(question, core.ETimeout, core.EFailed, `{"error":{"code":"timeout","message":"nobody answered","retryable":true}}`)
		})
		s.host.Request(question, []byte(`{"type":"elicitation/create","server":"demo","params":{"message":"Your name?"},"timeoutMs":300000,"attempt":1}`))
	default:
		s.fail(op, fault.UnknownTool, "no such tool; list shows them")
	}
	return cancel
}

func (s *scripted) askEnded(question uint64, requestStatus, st core.Status, text string) core.Status {
	s.mu.Lock()
	op := s.asked[question]
	delete(s.asked, question)
	if op != nil {
		op.asking = 0
	}
	s.mu.Unlock()
	if op == nil {
		return core.ETag
	}
	s.host.RequestDone(question, requestStatus)
	s.end(op, st, text)
	return requestStatus
}

func (s *scripted) Answer(tag uint64, reply []byte) core.Status {
	var r struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(reply, &r); err == nil && r.Result != nil {
		return s.askEnded(tag, core.OK, core.OK, fmt.Sprintf(`{"result":{"content":[],"answer":%s}}`, r.Result))
	} else if err == nil && r.Error != nil {
		return s.askEnded(tag, core.OK, core.EFailed, `{"error":{"code":"rpc_error","message":"the host answered with an error","retryable":false}}`)
	}
	return s.askEnded(tag, core.EInval, core.EFailed, `{"error":{"code":"invalid_request","message":"an answer has a result or an error","retryable":false}}`)
}

func (s *scripted) Decline(tag uint64) {
	s.askEnded(tag, core.ECanceled, core.EFailed, `{"error":{"code":"canceled","message":"the host declined","retryable":false}}`)
}

func (s *scripted) Close(int32) {
	s.mu.Lock()
	s.closed = true
	var left []*scriptedOp
	for op := range s.inFlight {
		left = append(left, op)
	}
	s.mu.Unlock()
	for _, op := range left {
		if op.stuck {
			continue
		}
		s.mu.Lock()
		question := op.asking
		s.mu.Unlock()
		if question != 0 {
			s.askEnded(question, core.EClosed, core.EClosed, `{"error":{"code":"closed","message":"the manager was closed","retryable":false}}`)
			continue
		}
		s.fail(op, fault.Closed, "the manager was closed while the operation ran")
	}
}
