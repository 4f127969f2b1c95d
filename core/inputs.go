package core

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// maxQuestions bounds what one start may ask a person for.
const maxQuestions = 32

// inputs are the host's answers to ${input:id}, for the manager's life. They are
// secrets. An answer belongs to the file that asked: another file that uses the
// same id must not get it.
type inputs struct {
	mu    sync.Mutex
	given map[inputID]string
}

type inputID struct{ provider, path, id string }

func idOf(e *config.Entry, id string) inputID {
	return inputID{e.Origin.Provider, e.Origin.Path, id}
}

// of gives the answers that an entry may use.
func (in *inputs) of(e *config.Entry) map[string]string {
	in.mu.Lock()
	defer in.mu.Unlock()
	answers := map[string]string{}
	for key, value := range in.given {
		if key.provider == e.Origin.Provider && key.path == e.Origin.Path {
			answers[key.id] = value
		}
	}
	return answers
}

func (in *inputs) keep(key inputID, value string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.given == nil {
		in.given = map[inputID]string{}
	}
	in.given[key] = value
}

// missing describes inputs as the entry's file does. What it does not describe is
// taken for a secret.
func missing(e *config.Entry, ids []string) []fault.Input {
	list := make([]fault.Input, 0, len(ids))
	for _, id := range ids {
		in := fault.Input{ID: id, Password: true}
		for _, p := range e.Prompts {
			if p.ID == id {
				in = fault.Input{ID: id, Description: p.Description, Password: p.Password, Default: p.Default, Options: p.Options}
			}
		}
		list = append(list, in)
	}
	return list
}

// inquire begins to ask the host for what the server misses. Under the lock.
func (m *Manager) inquire(s *server, fx *effects) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	s.cancel = cancel
	gen, entry, stored, began := s.gen, s.entry, s.err, s.began
	s.prompted = s.state != stateNeedsAuth // a sign-in asks servers first
	ask, failed := m.askInputs, "server %q needs a value that the host must give, and it gave none: %s"
	if s.state == stateNeedsAuth {
		ask, failed = func(ctx context.Context, e *config.Entry, stored *fault.Error) error {
			return m.signIn(ctx, e, stored.Data.Challenge, began)
		}, "server %q wants a sign-in, and there was none: %s"
	}
	m.work.Add(1)
	fx.run = append(fx.run, func() {
		m.working(func() {
			defer cancel(nil)
			var err error
			safe.Do(func(bug *fault.Error) { err = bug }, func() { err = ask(ctx, entry, stored) })
			if err != nil {
				f := stored.Clone()
				f.Message = fmt.Sprintf(failed, s.name, strings.TrimPrefix(fault.From(err).Message, fmt.Sprintf("server %q: ", s.name)))
				m.fire(s, event{kind: evNotGiven, gen: gen, err: f})
				return
			}
			m.fire(s, event{kind: evGiven, gen: gen})
		})
	})
}

// askInputs asks for one input after the other.
func (m *Manager) askInputs(ctx context.Context, e *config.Entry, stored *fault.Error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = caught(r)
		}
	}()
	list := stored.Data.Inputs
	if len(list) > maxQuestions {
		return fault.New(fault.TooLarge, fault.StageConfig, "it needs %d inputs; at most %d are asked for", len(list), maxQuestions)
	}
	for _, in := range list {
		result, err := m.question(ctx, e.Name, "input", encode(in))
		if err != nil {
			return err
		}
		value, _ := inputValue(result)
		m.inputs.keep(idOf(e, in.ID), value)
	}
	return nil
}

// inputValue reads the result of an input request.
func inputValue(result []byte) (string, bool) {
	var r struct {
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(result, &r); err != nil || r.Value == nil {
		return "", false
	}
	return *r.Value, true
}
