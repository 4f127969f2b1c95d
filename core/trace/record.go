// Package trace is the flight recorder: it writes what happened between this
// library and its servers into a file, one JSON object a line, and reads such files
// again. docs/trace.md describes the lines.
//
// What is recorded is redacted before it is written. Recording never makes a call
// wait: what the disk does not take in time is dropped and counted.
package trace

import (
	"time"

	"github.com/goccy/go-json"
)

// Format is the version of the lines; readers refuse a higher one.
const Format = 1

// Types of records.
const (
	TypeTrace   = "trace"   // the first line of a file
	TypeStart   = "start"   // an attempt to start a server begins
	TypePhase   = "phase"   // a step that has ended: Time is its begin
	TypeState   = "state"   // a server has another state
	TypeMessage = "message" // one JSON-RPC message
	TypeDropped = "dropped" // Count records are missing here
	TypeEnd     = "end"     // the last line of a recorder that was closed
)

// Phases of a start-up and of the end.
const (
	PhaseDiscover  = "discover"   // of the manager: all config files are read
	PhaseGate      = "gate"       // of the manager: a connect or reload waits for servers
	PhaseResolve   = "resolve"    // variables, secrets and helper commands
	PhaseWait      = "wait"       // for the end of the server's earlier process
	PhaseSpawn     = "spawn"      // a process is started
	PhaseDial      = "dial"       // a remote server's connection is prepared
	PhaseProbe     = "probe"      // server/discover
	PhaseHandshake = "handshake"  // initialize, up to notifications/initialized
	PhaseList      = "list"       // all pages of tools/list
	PhaseFirstCall = "first_call" // the first tools/call of this start
	PhaseClose     = "close"      // from the wish, or the loss, to the end of the connection
)

// Outcomes of a response.
const (
	OutcomeOK        = "ok"
	OutcomeError     = "error"      // a JSON-RPC error
	OutcomeToolError = "tool_error" // a result with isError
	OutcomeFailed    = "failed"     // no usable answer: Error says why
)

// Record is one line. Which members are there depends on Type.
type Record struct {
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Server     string    `json:"server,omitempty"`
	Generation uint64    `json:"generation,omitempty"` // which start of a server; one counter per manager

	// Of TypeMessage.
	Direction string          `json:"direction,omitempty"` // "out": to the server, "in": from it
	Kind      string          `json:"kind,omitempty"`      // "request", "response", "notification"
	Method    string          `json:"method,omitempty"`    // of a response: that of its request
	Tool      string          `json:"tool,omitempty"`      // of tools/call: the server's own name
	ID        json.RawMessage `json:"id,omitempty"`
	Bytes     int64           `json:"bytes,omitempty"` // of the whole message
	Outcome   string          `json:"outcome,omitempty"`
	// Payload is params, result or error, where all of it is here; else PayloadText is
	// its beginning, which is no complete JSON.
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadText string          `json:"payloadText,omitempty"`

	// Of a response, and of TypePhase.
	DurationMs *float64 `json:"durationMs,omitempty"`
	Error      *Failure `json:"error,omitempty"`

	// Of TypePhase.
	Phase  string `json:"phase,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Detail string `json:"detail,omitempty"`

	// Of TypeStart.
	Transport string `json:"transport,omitempty"`
	Target    string `json:"target,omitempty"` // the command line or URL, without secrets

	// Of TypeState.
	State    string `json:"state,omitempty"`
	Previous string `json:"previous,omitempty"`

	// Of TypeTrace.
	Format int    `json:"format,omitempty"`
	Mcprt  string `json:"mcprt,omitempty"` // the library's version
	Run    string `json:"run,omitempty"`   // one recorder's files have the same
	Part   int    `json:"part,omitempty"`  // from 1; each rotation begins a new one

	// Of TypeDropped and TypeEnd.
	Count   int64 `json:"count,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
}

// Failure is an error in a record.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Duration is DurationMs as a duration; 0 where there is none.
func (r *Record) Duration() time.Duration {
	if r.DurationMs == nil {
		return 0
	}
	return time.Duration(*r.DurationMs * float64(time.Millisecond))
}

// ms gives a duration as the files have it: milliseconds with three decimals.
func ms(d time.Duration) *float64 {
	v := float64(d.Round(time.Microsecond).Microseconds()) / 1000
	return &v
}
