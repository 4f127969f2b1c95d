package session

import "github.com/mcprt/mcprt/core/rawjson"

// maxWatched bounds the URIs that are remembered; a session with more is never idle.
const maxWatched = 10_000

// watchSubscriptions remembers which resources the host has subscribed to.
func (s *Session) watchSubscriptions(p *pending) {
	subscribes := p.call.Method == "resources/subscribe"
	if !subscribes && p.call.Method != "resources/unsubscribe" {
		return
	}
	uri, _ := rawjson.String(rawjson.Get(p.call.Params, "uri"))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !subscribes:
		delete(s.watched, uri)
	case len(s.watched) < maxWatched:
		if s.watched == nil {
			s.watched = map[string]struct{}{}
		}
		s.watched[uri] = struct{}{}
	}
}

// Subscribed tells whether the host has subscriptions at the server.
func (s *Session) Subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watched) > 0
}
