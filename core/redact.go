package core

import (
	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// redactor keeps the values that were resolved for one server out of everything
// that is said about it. nil redacts nothing.
type redactor struct{ clean func(string) string }

func newRedactor(r *config.Resolved, a *auth.Credentials) *redactor {
	fixed := config.NewRedactor(r.Secrets)
	if a == nil {
		return &redactor{fixed.Redact}
	}
	return &redactor{func(text string) string { // tokens come and go
		return fixed.Redact(config.NewRedactor(a.Secrets()).Redact(text))
	}}
}

// fault gives err as an error that holds no secret. It never changes err, which
// others may read.
func (r *redactor) fault(err error) *fault.Error {
	f := fault.From(err).Clone()
	if r == nil {
		return f
	}
	f.Message = r.clean(f.Message)
	if d := f.Data; d != nil {
		for _, s := range []*string{&d.Command, &d.Stderr, &d.Body, &d.Challenge, &d.RPCMessage} {
			*s = r.clean(*s)
		}
		if raw, ok := d.RPCData.(json.RawMessage); ok {
			d.RPCData = r.json(raw)
		}
	}
	return f
}

// json cleans a server's raw JSON. What was a number or a piece of JSON's own
// syntax is no JSON any more when it is masked, and then goes as a whole.
func (r *redactor) json(raw json.RawMessage) json.RawMessage {
	text := r.clean(string(raw))
	if text == string(raw) {
		return raw
	}
	if !json.Valid([]byte(text)) {
		text = `"***"`
	}
	return json.RawMessage(text)
}
