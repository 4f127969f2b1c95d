package session

import (
	"bytes"
	"context"

	"github.com/goccy/go-json"
	"golang.org/x/sync/errgroup"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// Multi round-trip requests of 2026-07-28: a server that needs something answers
// with resultType "input_required", and the client sends the same request again,
// under a new id, with the answers and the server's state.
const (
	maxRounds = 10
	maxInputs = 64 // questions of one round
)

// sequel reads the result's type, and gives what comes after it: nil when it is the
// result itself. Most results have no type: that is found out without decoding them.
func (s *Session) sequel(p *pending, result []byte) (func(*pending, []byte), *fault.Error) {
	if !s.modern.Load() {
		if p.call.asTask && rawjson.Get(result, "task") != nil {
			return s.followLegacyTask, nil
		}
		return nil, nil
	}
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return nil, nil
	}
	raw := rawjson.Get(result, "resultType")
	if raw == nil {
		return nil, nil
	}
	kind, ok := rawjson.String(raw)
	switch {
	case ok && kind == "complete":
		return nil, nil
	case ok && kind == "input_required" && (p.call.Method == "tools/call" || p.call.Method == "prompts/get" || p.call.Method == "resources/read"):
		return s.answerInputs, nil
	case ok && kind == "task" && p.call.Method == "tools/call":
		return s.followTask, nil
	}
	return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q answered %s with a result of the unknown type %s",
		s.cfg.Server, p.what(), clip(string(raw), 100))
}

// answerInputs asks the host what the server asked, and sends the request again.
func (s *Session) answerInputs(p *pending, result []byte) {
	again, err := s.inputs(p, result)
	s.mu.Lock()
	if s.pending[p.id] != p { // cancelled, timed out or lost meanwhile
		s.mu.Unlock()
		return
	}
	delete(s.pending, p.id)
	if err == nil {
		s.register(p)
	}
	s.mu.Unlock()
	if err != nil {
		p.abort(s.name(fault.From(err)))
		return
	}
	s.write(p, again)
}

func (s *Session) inputs(p *pending, result []byte) (*retry, error) {
	if p.rounds++; p.rounds > maxRounds {
		return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for input more than %d times in %s", s.cfg.Server, maxRounds, p.what())
	}
	var asked struct {
		Requests map[string]inputRequest `json:"inputRequests"`
	}
	if err := json.Unmarshal(result, &asked); err != nil || len(asked.Requests) > maxInputs {
		return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for input in a form that cannot be read", s.cfg.Server)
	}
	again := &retry{state: rawjson.Get(result, "requestState")}
	if len(asked.Requests) == 0 {
		return again, nil
	}
	var err error
	again.responses, err = s.answers(p, asked.Requests)
	return again, err
}

// inputRequest is one question of a server, in a result.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answers asks the host every question and gives the raw inputResponses object.
func (s *Session) answers(p *pending, requests map[string]inputRequest) ([]byte, error) {
	for _, request := range requests {
		if !s.declared[capabilityOf[request.Method]] {
			return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for %q, which this client did not declare", s.cfg.Server, request.Method)
		}
	}
	answers := make(map[string]json.RawMessage, len(requests))
	group, ctx := errgroup.WithContext(p.ctx)
	defer context.AfterFunc(s.ctx, p.stopSend)()
	for name, request := range requests {
		group.Go(func() error {
			defer s.guard()
			answer, err := s.askHost(ctx, request.Method, request.Params)
			if err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			answers[name] = answer
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return json.Marshal(answers)
}
