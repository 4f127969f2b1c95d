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

// needsInput reads the result's type. Most results have none: that is found out
// without decoding them.
func (s *Session) needsInput(p *pending, result []byte) (bool, *fault.Error) {
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return false, nil
	}
	raw := rawjson.Get(result, "resultType")
	if raw == nil {
		return false, nil
	}
	kind, ok := rawjson.String(raw)
	switch {
	case ok && kind == "complete":
		return false, nil
	case ok && kind == "input_required" && (p.call.Method == "tools/call" || p.call.Method == "prompts/get" || p.call.Method == "resources/read"):
		return true, nil
	}
	return false, s.errorf(fault.Protocol, fault.StageProtocol, "server %q answered %s with a result of the unknown type %s",
		s.cfg.Server, p.what(), clip(string(raw), 100))
}

// answerInputs asks the host what the server asked, and sends the request again.
func (s *Session) answerInputs(p *pending, result []byte) {
	defer s.guard()
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
		Requests map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
	}
	if err := json.Unmarshal(result, &asked); err != nil || len(asked.Requests) > maxInputs {
		return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for input in a form that cannot be read", s.cfg.Server)
	}
	again := &retry{state: rawjson.Get(result, "requestState")}
	if len(asked.Requests) == 0 {
		return again, nil
	}
	for _, request := range asked.Requests {
		if !s.declared[capabilityOf[request.Method]] {
			return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for %q, which this client did not declare", s.cfg.Server, request.Method)
		}
	}
	answers := make(map[string]json.RawMessage, len(asked.Requests))
	group, ctx := errgroup.WithContext(p.ctx)
	defer context.AfterFunc(s.ctx, p.stopSend)()
	for name, request := range asked.Requests {
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
	var err error
	again.responses, err = json.Marshal(answers)
	return again, err
}
