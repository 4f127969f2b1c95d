package core

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

// ask is one question to the host that is open.
type ask struct {
	method string
	answer chan answer // capacity 1
}

type answer struct {
	result []byte
	err    *fault.Error
	status Status
}

// answerKind maps MCP's methods to the words of open's "answers".
var answerKind = map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

// declare gives the client capabilities: what the host answers, and roots, which
// mcprt answers itself where the host does not; but what our directories are called
// is no business of a remote server.
func declare(answers []string, roots bool) []byte {
	type object = map[string]any
	declared := object{}
	if roots {
		declared["roots"] = object{}
	}
	if slices.Contains(answers, "sampling") {
		declared["sampling"] = object{}
	}
	if slices.Contains(answers, "elicitation") {
		// A host sees in the params' mode what is asked, and can decline. To servers of
		// 2025-06-18, which know forms only, the members say nothing.
		declared["elicitation"] = object{"form": object{}, "url": object{}}
	}
	return encode(declared)
}

// answers tells whether the host answers this kind of questions.
func (m *Manager) answers(kind string) bool { return slices.Contains(m.opts.Answers, kind) }

// ask passes a server's request to the host and waits for its answer.
func (m *Manager) ask(ctx context.Context, server, method string, params []byte) ([]byte, error) {
	kind := answerKind[method]
	if kind == "" || !m.answers(kind) {
		if kind == "roots" {
			return m.roots(), nil
		}
		return nil, fault.New(fault.InvalidRequest, "", "this client does not answer %s", method)
	}
	return m.question(ctx, server, method, params)
}

// question asks the host on behalf of a server.
func (m *Manager) question(ctx context.Context, server, method string, params []byte) ([]byte, error) {
	timeout := m.opts.RequestTimeout
	a := &ask{method: method, answer: make(chan answer, 1)}
	m.mu.Lock()
	if m.closing != nil {
		m.mu.Unlock()
		return nil, errClosed
	}
	m.work.Add(1) // the host hears of the end before Close returns
	defer m.work.Done()
	m.lastAsk++
	tag := TagMax + m.lastAsk
	m.asks[tag] = a
	m.mu.Unlock()
	ended := false
	defer func() {
		if !ended { // a bug
			m.take(tag)
			m.host.RequestDone(tag, EInternal)
		}
	}()
	safe.Point("core.ask")
	b := append([]byte(`{"type":`), rawjson.AppendString(nil, method)...)
	b = append(append(b, `,"server":`...), rawjson.AppendString(nil, server)...)
	b = append(append(b, `,"params":`...), cloneOrNull(params)...)
	b = append(append(b, `,"timeoutMs":`...), encode(timeout.Milliseconds())...)
	m.host.Request(tag, append(b, `,"attempt":1}`...))

	var timer <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		timer = t.C
	}
	var got answer
	answered := false
	select {
	case got = <-a.answer:
		answered = true
	case <-timer:
		got = answer{status: ETimeout, err: fault.New(fault.Timeout, "", "the host did not answer within %d ms", timeout.Milliseconds())}
	case <-ctx.Done():
		got = answer{status: ECanceled, err: fault.New(fault.Canceled, "", "the request was withdrawn")}
		if m.ctx.Err() != nil {
			got = answer{status: EClosed, err: errClosed}
		}
	}
	if !answered && m.take(tag) == nil { // it was answered in the same moment: the answer counts
		got = <-a.answer
	}
	ended = true
	m.host.RequestDone(tag, got.status)
	if got.err != nil {
		return nil, got.err
	}
	if method == "elicitation/create" {
		return withDefaults(params, got.result), nil
	}
	return got.result, nil
}

// Answer passes the host's reply to a request: {"result":{…}} or
// {"error":{"code","message"}}. ETag: that request is over. EInval: the reply is
// not of that shape; the request has ended with it.
func (m *Manager) Answer(tag uint64, reply []byte) (st Status) {
	a := m.take(tag)
	if a == nil {
		return ETag
	}
	var got answer
	defer func() {
		if r := recover(); r != nil { // who asked waits for an answer
			got = answer{status: EInternal, err: caught(r)}
		}
		a.answer <- got
		st = got.status
	}()
	safe.Point("core.answer")
	got = readAnswer(a.method, reply)
	return got.status
}

// Decline ends a request without an answer.
func (m *Manager) Decline(tag uint64) {
	if a := m.take(tag); a != nil {
		a.answer <- declined(a.method)
	}
}

func (m *Manager) take(tag uint64) *ask {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.asks[tag]
	delete(m.asks, tag)
	return a
}

// JSON-RPC error codes that are sent to servers. userRejected is what the
// specification shows for a sampling request that the person refused.
const (
	internalError = -32603
	userRejected  = -1
)

// rpcFault is an error that goes to the server as it is.
func rpcFault(code int64, message string) *fault.Error {
	return fault.New(fault.RPCError, "", "%s", message).With(fault.Data{RPCCode: &code, RPCMessage: message})
}

// declined is what a server hears when the host declines: elicitation has a word
// for it, the other kinds fail.
func declined(method string) answer {
	if method == "elicitation/create" {
		return answer{status: ECanceled, result: []byte(`{"action":"decline"}`)}
	}
	return answer{status: ECanceled, err: rpcFault(userRejected, "the user declined the request")}
}

func readAnswer(method string, reply []byte) answer {
	var r struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    *int64 `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	err := json.Unmarshal(reply, &r)
	switch {
	case err == nil && r.Error != nil:
		code := int64(internalError)
		if r.Error.Code != nil {
			code = *r.Error.Code
		}
		return answer{status: OK, err: rpcFault(code, r.Error.Message)}
	case err == nil && rawjson.IsObject(r.Result):
		if _, ok := inputValue(r.Result); method == "input" && !ok {
			return answer{status: EInval, err: fault.New(fault.Internal, "", `the host's answer was not {"result":{"value":"…"}}`)}
		}
		if _, _, ok := authorization(r.Result); method == "authorization" && !ok {
			return answer{status: EInval, err: fault.New(fault.Internal, "", `the host's answer was not {"result":{}}, {"result":{"callbackUrl":"…"}} or {"result":{"declined":true}}`)}
		}
		return answer{status: OK, result: append([]byte(nil), r.Result...)}
	}
	return answer{status: EInval, err: fault.New(fault.Internal, "", `the host's answer was not {"result":{…}} or {"error":{…}}`)}
}

// roots is the project directory, as a file URL.
func (m *Manager) roots() []byte {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(m.opts.Cwd)}
	return encode(map[string]any{"roots": []any{map[string]string{"uri": u.String(), "name": filepath.Base(m.opts.Cwd)}}})
}
