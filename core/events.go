package core

import (
	"strconv"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

// notice is one event for the host, encoded outside the lock.
type notice interface{ encode() []byte }

// toolsChanged tells what became of one server's tools. Names are minted ones.
type toolsChanged struct {
	Type     string            `json:"type"`
	Revision uint64            `json:"revision"`
	Server   string            `json:"server"`
	Added    []string          `json:"added"`
	Removed  []string          `json:"removed"`
	Changed  []string          `json:"changed"`
	Live     []string          `json:"live"`
	Renamed  map[string]string `json:"renamed"`
}

func (c toolsChanged) encode() []byte {
	c.Type = "tools_changed"
	for _, names := range []*[]string{&c.Added, &c.Removed, &c.Changed, &c.Live} {
		if *names == nil {
			*names = []string{}
		}
	}
	if c.Renamed == nil {
		c.Renamed = map[string]string{}
	}
	return encode(c)
}

// stateNotice tells the new state of one server.
type stateNotice struct{ viewState }

func (n stateNotice) encode() []byte {
	b := append([]byte(`{"type":"server_state",`), (&serverView{viewState: n.viewState}).json()[1:]...)
	return b
}

// rawNotice passes on what a server sent, byte for byte.
type rawNotice struct {
	kind   string
	server string
	fields []rawField
}

type rawField struct {
	name  string
	value []byte // raw JSON; nil: left out
}

func (n rawNotice) encode() []byte {
	b := append([]byte(`{"type":`), rawjson.AppendString(nil, n.kind)...)
	if n.server != "" {
		b = append(b, `,"server":`...)
		b = rawjson.AppendString(b, n.server)
	}
	for _, f := range n.fields {
		if f.value == nil {
			continue
		}
		b = append(b, ',')
		b = rawjson.AppendString(b, f.name)
		b = append(b, ':')
		b = append(b, f.value...)
	}
	return append(b, '}')
}

// diagnosticNotice is a finding that came up after discovery.
type diagnosticNotice struct{ diagnostic }

func (n diagnosticNotice) encode() []byte {
	return append([]byte(`{"type":"diagnostic",`), encode(n.diagnostic)[1:]...)
}

// flush hands the outbox to the host. One goroutine at a time does it, so that
// notices keep the order in which the state changed.
func (m *Manager) flush() {
	m.mu.Lock()
	if m.flushing {
		m.mu.Unlock()
		return
	}
	m.flushing = true
	for len(m.outbox) > 0 {
		batch := m.outbox
		m.outbox = nil
		m.mu.Unlock()
		for _, n := range batch {
			m.guard(func() {
				safe.Point("core.event")
				m.host.Notice(n.encode())
			})
		}
		m.mu.Lock()
	}
	m.flushing = false
	m.mu.Unlock()
}

// tell passes on a notice that no change of state made, at once: a server that
// sends faster than the host takes them slows down itself alone, the outbox does
// not grow, and progress cannot come after the end of its call.
func (m *Manager) tell(n notice) { m.guard(func() { m.host.Notice(n.encode()) }) }

// json gives the ServerView of the contract.
func (v *serverView) json() []byte {
	v.encodeOnce.Do(func() {
		b := append([]byte(`{"name":`), rawjson.AppendString(nil, v.name)...)
		b = append(b, `,"status":"`+v.state.status()+`","state":"`+v.state.String()+`","toolCount":`...)
		b = strconv.AppendInt(b, int64(len(v.offered())), 10)
		b = append(b, `,"protocolVersion":`...)
		b = appendOrNull(b, v.info.ProtocolVersion)
		b = append(b, `,"serverInfo":`...)
		if len(v.info.ServerInfo) > 0 {
			b = append(b, v.info.ServerInfo...)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"instructions":`...)
		b = appendOrNull(b, v.instructions())
		b = append(b, `,"connectMs":`...)
		b = strconv.AppendInt(b, v.connectMs, 10)
		b = append(b, `,"error":`...)
		if v.err != nil {
			b = append(b, encode(v.err)...)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"retryAt":`...)
		if v.retryAt.IsZero() {
			b = append(b, "null"...)
		} else {
			b = append(b, '"')
			b = v.retryAt.UTC().AppendFormat(b, time.RFC3339Nano)
			b = append(b, '"')
		}
		b = append(b, `,"source":`...)
		b = append(b, encode(v.entry.Origin)...)
		b = append(b, `,"pid":`...)
		if v.info.PID > 0 {
			b = strconv.AppendInt(b, int64(v.info.PID), 10)
		} else {
			b = append(b, "null"...)
		}
		v.encoded = append(b, '}')
	})
	return v.encoded
}

func (v *serverView) instructions() string {
	if p := v.entry.Server.Instructions; p != nil && !*p {
		return ""
	}
	return v.info.Instructions
}

func appendOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return rawjson.AppendString(b, s)
}

// encode is for values of our own, which always can be encoded.
func encode(v any) []byte {
	b, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	if err != nil {
		return []byte("null")
	}
	return b
}
