package session

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// The extension io.modelcontextprotocol/tasks: a server may answer tools/call with a
// task (resultType "task") in place of the result, and is asked for it again and again.
// To a caller that is one long call: it has the same timeout, which news of the task
// extend as progress does, the same cancellation, and the same result in the end.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	maxTaskID    = 1024 // bytes
	maxTaskPolls = 3    // failures in a row to learn how the task is

	defaultPoll  = time.Second
	shortestPoll = 50 * time.Millisecond
	longestPoll  = time.Minute
)

// taskState is what a server says of a task, in CreateTaskResult and in the result of tasks/get.
type taskState struct {
	ID       string                  `json:"taskId"`
	Status   string                  `json:"status"`
	Message  string                  `json:"statusMessage"`
	Updated  string                  `json:"lastUpdatedAt"`
	PollMs   *int64                  `json:"pollIntervalMs"`
	Requests map[string]inputRequest `json:"inputRequests"`
	Result   json.RawMessage         `json:"result"`
	Error    json.RawMessage         `json:"error"`
}

func (t *taskState) poll() time.Duration {
	if t.PollMs == nil {
		return defaultPoll
	}
	return min(max(time.Duration(min(*t.PollMs, longestPoll.Milliseconds()))*time.Millisecond, shortestPoll), longestPoll)
}

// followTask runs until the task is over, or p is.
func (s *Session) followTask(p *pending, created []byte) {
	result, err := s.awaitTask(p, created)
	s.endTask(p, result, err)
}

// endTask gives p its outcome, unless it was cancelled, timed out or lost meanwhile.
func (s *Session) endTask(p *pending, result []byte, err error) {
	s.mu.Lock()
	if s.pending[p.id] != p {
		s.mu.Unlock()
		return
	}
	if err != nil {
		err = s.name(fault.From(err))
	}
	s.conclude(p, result, err)
}

func (s *Session) awaitTask(p *pending, created []byte) (result []byte, err error) {
	state, err := s.readTask(p, created)
	if err != nil {
		return nil, err
	}
	id := state.ID
	defer context.AfterFunc(s.ctx, p.stopSend)()
	defer func() {
		if p.ctx.Err() != nil && s.ctx.Err() == nil {
			s.cancelTask(id)
		}
	}()
	asked := map[string]bool{} // a question stays in the list until the answer has taken effect
	said := state.Message
	for failures := 0; ; {
		switch state.Status {
		case "completed":
			if !rawjson.IsObject(state.Result) {
				return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q completed the task of %s without a result", s.cfg.Server, p.what())
			}
			return state.Result, nil
		case "failed":
			return nil, s.rpcError(state.Error, p)
		case "cancelled":
			return nil, s.errorf(fault.RPCError, fault.StageReceive, "server %q cancelled the task of %s: %s", s.cfg.Server, p.what(), clip(state.Message, maxRPCMessage))
		case "input_required":
			if err := s.answerTask(p, state, asked); err != nil {
				return nil, err
			}
		case "working":
		default:
			return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q says that the task of %s is %q, which is no status", s.cfg.Server, p.what(), clip(state.Status, 100))
		}
		select {
		case <-time.After(state.poll()):
		case <-p.ctx.Done():
			return nil, p.ctx.Err()
		}
		news, err := s.getTask(p, id)
		switch f := fault.From(err); {
		case err == nil:
			failures = 0
		case p.ctx.Err() != nil || !f.Retryable || failures >= maxTaskPolls:
			return nil, err
		default:
			failures++
			continue
		}
		if news.Updated != state.Updated || news.Status != state.Status || news.Message != said {
			p.taskNews(news.Message)
			said = news.Message
		}
		state = news
	}
}

func (s *Session) readTask(p *pending, raw []byte) (*taskState, error) {
	var t taskState
	if err := json.Unmarshal(raw, &t); err != nil || t.ID == "" || len(t.ID) > maxTaskID || len(t.Requests) > maxInputs {
		return nil, s.errorf(fault.Protocol, fault.StageProtocol, "server %q answered %s with a task that cannot be read", s.cfg.Server, p.what())
	}
	return &t, nil
}

// taskRequest sends a request about a task. Its id goes into a header, so that
// whatever stands before a server finds the instance that has the task.
func (s *Session) taskRequest(ctx context.Context, method, id string, more ...byte) ([]byte, error) {
	params := append(rawjson.AppendString([]byte(`{"taskId":`), id), more...)
	return s.ask(ctx, &pending{s: s, call: Call{Method: method, Params: append(params, '}'), Timeout: s.cfg.Timeout}})
}

func (s *Session) getTask(p *pending, id string) (*taskState, error) {
	raw, err := s.taskRequest(p.ctx, "tasks/get", id)
	if err != nil {
		return nil, err
	}
	return s.readTask(p, raw)
}

// answerTask asks the host what the server asks and was not asked yet.
func (s *Session) answerTask(p *pending, t *taskState, asked map[string]bool) error {
	open := maps.Clone(t.Requests)
	maps.DeleteFunc(open, func(name string, _ inputRequest) bool { return asked[name] })
	if len(open) == 0 {
		return nil
	}
	if len(asked)+len(open) > maxRounds*maxInputs {
		return s.errorf(fault.Protocol, fault.StageProtocol, "server %q asked for input more than %d times in %s", s.cfg.Server, maxRounds*maxInputs, p.what())
	}
	answers, err := s.answers(p, open)
	if err != nil {
		return err
	}
	for name := range open {
		asked[name] = true
	}
	_, err = s.taskRequest(p.ctx, "tasks/update", t.ID, append([]byte(`,"inputResponses":`), answers...)...)
	return err
}

// cancelTask is best effort: the caller has its outcome already.
func (s *Session) cancelTask(id string) {
	ctx, cancel := context.WithTimeout(s.ctx, cancelPatience)
	defer cancel()
	_, _ = s.taskRequest(ctx, "tasks/cancel", id)
}

// taskNews is what progress is to other calls.
func (p *pending) taskNews(message string) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[p.id] != p {
		return
	}
	p.extend()
	if p.call.Progress == nil || message == "" {
		return
	}
	p.news++
	params := strconv.AppendInt([]byte(`{"progress":`), p.news, 10)
	params = rawjson.AppendString(append(params, `,"message":`...), clip(message, maxRPCMessage))
	p.queued++
	if !s.notices.add(notice{p: p, params: append(params, '}')}) {
		p.queued--
	}
}

// offersTasks tells whether a server of 2025-11-25 runs calls as tasks of that version's
// own, experimental kind.
func (s *Session) offersTasks() bool {
	declared := s.Info().Capabilities
	for _, name := range []string{"tasks", "requests", "tools", "call"} {
		declared = rawjson.Get(declared, name)
	}
	return declared != nil
}

// followLegacyTask asks for the result of a task of 2025-11-25: that request is open
// until the task is over, and what the server asks meanwhile comes as ever.
func (s *Session) followLegacyTask(p *pending, created []byte) {
	var result []byte
	state, err := s.readTask(p, rawjson.Get(created, "task"))
	if err == nil {
		defer context.AfterFunc(s.ctx, p.stopSend)()
		params := append(rawjson.AppendString([]byte(`{"taskId":`), state.ID), '}')
		result, err = s.ask(p.ctx, &pending{s: s, call: Call{Method: "tasks/result", Params: params}})
		if p.ctx.Err() != nil && s.ctx.Err() == nil {
			s.cancelTask(state.ID)
		}
	}
	s.endTask(p, result, err)
}

// withTasks declares the extension beside what the host answers.
func withTasks(capabilities []byte) []byte {
	declared := map[string]json.RawMessage{}
	extensions := map[string]json.RawMessage{}
	if json.Unmarshal(capabilities, &declared) != nil || declared == nil {
		declared = map[string]json.RawMessage{}
	}
	if raw := declared["extensions"]; raw != nil && json.Unmarshal(raw, &extensions) != nil {
		extensions = map[string]json.RawMessage{}
	}
	extensions[tasksExtension] = json.RawMessage(`{}`)
	b := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if name != "extensions" {
			b = append(append(rawjson.AppendString(comma(b), name), ':'), bytes.TrimSpace(declared[name])...)
		}
	}
	b = append(comma(b), `"extensions":{`...)
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		b = append(append(rawjson.AppendString(comma(b), name), ':'), extensions[name]...)
	}
	return append(b, "}}"...)
}
