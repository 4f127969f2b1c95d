package session

import (
	"context"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// A modern server tells of changed lists only on a subscriptions/listen request,
// which stays open for as long as the session does.

const acknowledged = "notifications/subscriptions/acknowledged"

// How long to wait before listening again after the server ended the request.
const (
	listenPause    = time.Second
	maxListenPause = time.Minute
)

// listen subscribes, once, to what the server offers. It is no concern of the
// handshake: a server that refuses is one whose lists do not change.
func (s *Session) listen() {
	filter := s.listenFilter()
	if filter == nil || s.listening.Swap(true) {
		return
	}
	s.listenAgain(filter, listenPause)
}

func (s *Session) listenAgain(filter []byte, pause time.Duration) {
	started := time.Now()
	s.Start(&Call{Method: "subscriptions/listen", Params: filter, Done: func(_ []byte, err error) {
		if err != nil {
			if s.Ended() || !fault.From(err).Retryable { // or refused
				return
			}
			s.unheard.Store(true)
		}
		if time.Since(started) > maxListenPause {
			pause = listenPause
		}
		again := time.AfterFunc(pause, func() {
			defer s.guard()
			s.listenAgain(filter, min(2*pause, maxListenPause))
		})
		context.AfterFunc(s.ctx, func() { again.Stop() })
	}})
}

// heardAgain takes every granted list for changed, after a broken request was
// replaced: what changed meanwhile was told to nobody.
func (s *Session) heardAgain(params []byte) {
	if !s.unheard.Swap(false) {
		return
	}
	granted := rawjson.Get(params, "notifications")
	for i, name := range []string{"toolsListChanged", "resourcesListChanged", "promptsListChanged"} {
		if string(rawjson.Get(granted, name)) == "true" {
			s.notices.add(notice{method: listChanged[i]})
		}
	}
}

// listenFilter asks for the list_changed notifications that the server declares; nil for none.
func (s *Session) listenFilter() []byte {
	type offer struct {
		ListChanged bool `json:"listChanged"`
	}
	var offers struct {
		Tools     offer `json:"tools"`
		Resources offer `json:"resources"`
		Prompts   offer `json:"prompts"`
	}
	if !s.modern.Load() || json.Unmarshal(s.Info().Capabilities, &offers) != nil {
		return nil
	}
	var filter struct {
		Notifications struct {
			Tools     bool `json:"toolsListChanged,omitempty"`
			Resources bool `json:"resourcesListChanged,omitempty"`
			Prompts   bool `json:"promptsListChanged,omitempty"`
		} `json:"notifications"`
	}
	n := &filter.Notifications
	n.Tools, n.Resources, n.Prompts = offers.Tools.ListChanged, offers.Resources.ListChanged, offers.Prompts.ListChanged
	if !n.Tools && !n.Resources && !n.Prompts {
		return nil
	}
	params, err := json.Marshal(filter)
	if err != nil {
		return nil
	}
	return params
}
