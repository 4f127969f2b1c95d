package session

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/transport"
)

// How much a server may ask at once.
const (
	maxRequests  = 64  // open at the host
	maxReplies   = 256 // goroutines that hold a reply, refusals included; beyond that there is none
	maxRequestID = 256 // bytes
)

// capabilityOf names the client capability that allows a server's request.
var capabilityOf = map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

// refusal is a JSON-RPC error for the server.
type refusal struct {
	code    int64
	message string
}

// serverRequest runs on the reader's goroutine and starts the answer of one request.
func (s *Session) serverRequest(m *transport.Message) {
	// From 2026-07-28 on a server asks through results, and a client sends no responses.
	if s.modern.Load() || len(m.ID) > maxRequestID || s.replies.Load() >= maxReplies {
		s.refused.Add(1)
		return
	}
	id, method := bytes.Clone(m.ID), m.Method
	capability, known := capabilityOf[method]
	switch {
	case method == "ping":
		s.reply(id, []byte(`{}`), nil)
		return
	case !known || !s.declared[capability]:
		s.reply(id, nil, &refusal{-32601, "this client does not answer " + method})
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	_, twice := s.requests[string(id)]
	full := len(s.requests) >= maxRequests
	if !twice && !full {
		s.requests[string(id)] = cancel
	}
	s.mu.Unlock()
	switch {
	case twice:
		cancel()
		s.refused.Add(1)
		s.reply(id, nil, &refusal{-32600, "a request with this id is open"})
	case full:
		cancel()
		s.refused.Add(1)
		s.reply(id, nil, &refusal{-32000, "too many requests are open"})
	default:
		s.replies.Add(1)
		go s.answer(ctx, cancel, id, method, bytes.Clone(m.Params))
	}
}

// answer asks the host and replies, unless the server has withdrawn its request.
func (s *Session) answer(ctx context.Context, cancel func(), id []byte, method string, params []byte) {
	defer s.replies.Add(-1)
	defer s.guard()
	defer cancel()
	result, err := s.askHost(ctx, method, params)
	s.mu.Lock()
	delete(s.requests, string(id))
	s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	var no *refusal
	if err != nil {
		no = refusalOf(err)
	}
	s.sendReply(id, result, no)
}

// askHost stops the clock of this session's calls while the host, perhaps a person, thinks.
func (s *Session) askHost(ctx context.Context, method string, params []byte) (result []byte, err error) {
	s.hold()
	defer s.release()
	result, err = s.cfg.Handler.Request(ctx, s, method, params)
	if err == nil && !rawjson.IsObject(result) {
		return nil, s.errorf(fault.Internal, fault.StageSend, "the answer to %s is no JSON object", method)
	}
	return result, err
}

func refusalOf(err error) *refusal {
	no := &refusal{-32603, err.Error()}
	var f *fault.Error
	if errors.As(err, &f) && f.Data != nil && f.Data.RPCCode != nil {
		no.code = *f.Data.RPCCode
		if f.Data.RPCMessage != "" {
			no.message = f.Data.RPCMessage
		}
	}
	return no
}

// reply sends from a goroutine of its own: the reader must not wait for a server that does not read.
func (s *Session) reply(id, result []byte, no *refusal) {
	s.replies.Add(1)
	go func() {
		defer s.replies.Add(-1)
		defer s.guard()
		s.sendReply(id, result, no)
	}()
}

func (s *Session) sendReply(id, result []byte, no *refusal) {
	<-s.dialled
	if s.conn == nil {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	if no != nil {
		b = append(b, `,"error":{"code":`...)
		b = strconv.AppendInt(b, no.code, 10)
		b = append(b, `,"message":`...)
		b = rawjson.AppendString(b, no.message)
		b = append(b, `}}`...)
	} else {
		b = append(b, `,"result":`...)
		b = appendRaw(b, result)
		b = append(b, '}')
	}
	// It fails when the session ends, and then nobody waits for the reply.
	_ = s.send(s.ctx, b, "")
}

// requestCancelled is the server's notifications/cancelled.
func (s *Session) requestCancelled(params []byte) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.mu.Lock()
	cancel := s.requests[string(p.RequestID)]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
