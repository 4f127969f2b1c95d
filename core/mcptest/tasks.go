package mcptest

import (
	"context"
	"fmt"

	"github.com/goccy/go-json"
)

// task is one task of a tools/call: in the modern era's extension, or as 2025-11-25 has it.
type task struct {
	polls  int // that find it working
	ask    bool
	end    string // "completed", "failed", "cancelled"
	input  json.RawMessage
	ctx    context.Context
	cancel context.CancelFunc
}

// makeTask answers a call with a task that is done after some polls:
//
//	task {polls, ask, end}
func makeTask(c *call) {
	var args struct {
		Polls int    `json:"polls"`
		Ask   bool   `json:"ask"`
		End   string `json:"end"`
	}
	if len(c.params.Arguments) > 0 && json.Unmarshal(c.params.Arguments, &args) != nil || args.End == "" {
		args.End = "completed"
	}
	s := c.server
	t := &task{polls: args.Polls, ask: args.Ask, end: args.End}
	t.ctx, t.cancel = context.WithCancel(s.done)
	s.mu.Lock()
	id := fmt.Sprintf("task-%d", len(s.tasks)+1)
	if s.tasks == nil {
		s.tasks = map[string]*task{}
	}
	s.tasks[id] = t
	s.mu.Unlock()
	state := `"taskId":` + quote(id) + `,"status":"working","statusMessage":"begun","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"0","ttlMs":null,"pollIntervalMs":100`
	if s.modern() && !s.initialized.Load() {
		c.reply(`{"resultType":"task",` + state + `}`)
		return
	}
	c.reply(`{"task":{` + state + `}}`)
}

const taskResult = `{"content":[{"type":"text","text":"the task is done"}],"big":9007199254740993}`

func (s *server) taskRequest(m *envelope) {
	var p struct {
		ID        string          `json:"taskId"`
		Responses json.RawMessage `json:"inputResponses"`
	}
	_ = json.Unmarshal(m.Params, &p) // an id that is not there is not found
	s.log.called(m.Method)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[p.ID]
	if t == nil {
		s.fail(m.ID, `{"code":-32602,"message":"Task not found"}`)
		return
	}
	switch m.Method {
	case "tasks/update":
		t.input = p.Responses
		s.reply(m.ID, `{"resultType":"complete"}`)
	case "tasks/cancel":
		t.end = "cancelled"
		t.cancel()
		s.reply(m.ID, `{"resultType":"complete"}`)
	case "tasks/result":
		id, end := m.ID, t.end
		go func() {
			if s.sleep(t.ctx, s.script.CallDelay) && end == "completed" {
				s.reply(id, taskResult)
				return
			}
			s.fail(id, `{"code":-32603,"message":"the task `+end+`"}`)
		}()
	case "tasks/get":
		state := fmt.Sprintf(`{"resultType":"complete","taskId":%s,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"%d","ttlMs":null,"pollIntervalMs":100,`, quote(p.ID), t.polls)
		switch {
		case t.polls > 0:
			t.polls--
			state += fmt.Sprintf(`"status":"working","statusMessage":"%d to go"}`, t.polls)
		case t.ask && t.input == nil:
			state += `"status":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}`
		case t.end == "completed":
			result := taskResult
			if t.input != nil {
				result = `{"content":[{"type":"text","text":` + quote(string(t.input)) + `}]}`
			}
			state += `"status":"completed","result":` + result + `}`
		case t.end == "failed":
			state += `"status":"failed","error":{"code":-32050,"message":"it broke"}}`
		default:
			state += `"status":` + quote(t.end) + `}`
		}
		s.reply(m.ID, state)
	}
}
