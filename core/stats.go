package core

import (
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// stats is the result of mcprt/stats; docs/options.md says what each number is.
type stats struct {
	Revision uint64        `json:"revision"`
	Tools    int           `json:"tools"`
	UptimeMs int64         `json:"uptimeMs"`
	Trace    *traceStats   `json:"trace"` // null: nothing is recorded
	Servers  []serverStats `json:"servers"`
}

type traceStats struct {
	Records int64 `json:"records"`
	Dropped int64 `json:"dropped"`
}

type serverStats struct {
	Name       string               `json:"name"`
	State      string               `json:"state"`
	Tools      int                  `json:"tools"`
	Calls      int64                `json:"calls"`
	InFlight   int                  `json:"inFlight"`
	Queued     int                  `json:"queued"`
	Resends    int64                `json:"resends"`
	Errors     map[fault.Code]int64 `json:"errors"`
	Starts     int64                `json:"starts"`
	Reconnects int64                `json:"reconnects"`
	BytesIn    int64                `json:"bytesIn"`
	BytesOut   int64                `json:"bytesOut"`
	JunkLines  int64                `json:"junkLines"`
	Repaired   int64                `json:"repaired"`
	TooLarge   int64                `json:"tooLarge"`
	Unmatched  int64                `json:"unmatched"`
	Dropped    int64                `json:"droppedNotifications"`
	Refused    int64                `json:"refusedRequests"`
	Latency    latencyStats         `json:"latency"`
}

// stats gives what was counted since open. The numbers of a server that is removed go with it.
func (m *Manager) stats() *stats {
	snap := m.snap.Load()
	out := &stats{Revision: snap.rev, Tools: snap.tools.Len(), UptimeMs: time.Since(m.opened).Milliseconds(), Servers: []serverStats{}}
	if m.trace != nil {
		written, dropped := m.trace.Stats()
		out.Trace = &traceStats{written, dropped}
	}
	queued := map[string]int{}
	m.mu.Lock()
	for name, s := range m.servers {
		queued[name] = s.waiting
	}
	m.mu.Unlock()
	for _, v := range snap.servers {
		s := v.counters.stats()
		s.Name, s.State, s.Tools, s.Queued = v.name, v.state.String(), len(v.tools), queued[v.name]
		if v.session != nil {
			s.InFlight = v.session.InFlight()
		}
		out.Servers = append(out.Servers, s)
	}
	return out
}

func (c *counters) stats() serverStats {
	s := serverStats{Calls: c.calls.Load(), Resends: c.resends.Load(), Errors: map[fault.Code]int64{}, Starts: c.starts.Load(),
		Reconnects: max(c.connects.Load()-1, 0), Latency: c.latency.stats()}
	for i, code := range fault.Codes {
		if n := c.errors[i].Load(); n > 0 {
			s.Errors[code] = n
		}
	}
	t := c.traffic()
	s.BytesIn, s.BytesOut, s.JunkLines, s.Repaired, s.TooLarge = t.in, t.out, t.junk, t.repaired, t.tooLarge
	s.Unmatched, s.Dropped, s.Refused = t.unmatched, t.dropped, t.refused
	return s
}
