// Package transport moves JSON-RPC messages: over the pipes of a child process
// here, over HTTP in files beside it. It knows framing and processes, and
// nothing of what the messages mean: ids, calls and results belong to session.
package transport

import (
	"context"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// Message is one JSON-RPC envelope, split but not decoded. All slices alias the
// reader's buffer: they are valid only until Receive returns.
type Message struct {
	ID       []byte // raw id token: `7`, `"7"`, `null`; nil when the member is absent
	Method   string // "" for a response
	Params   []byte // raw JSON or nil
	Result   []byte // raw JSON or nil
	Error    []byte // raw JSON of the error object or nil
	Bytes    int64  // length of the whole message; 0 where nothing of it was kept
	TooLarge int64  // > 0: a response over the message limit was skipped; this many bytes; only ID is set
	Damaged  string // a response that is no acceptable JSON was skipped; what is wrong with it; only ID is set

	// Failed ends the request ID in place of an answer: over HTTP one request can
	// fail while the connection lives. Unsent tells that the server did not run it.
	Failed *fault.Error
	Unsent bool
}

// Receiver takes what the server sends. Its methods are called one at a time, in the
// order of arrival, and must not block: whatever may take time goes elsewhere.
type Receiver interface {
	Receive(m *Message)
	// Closed is called exactly once, after the last Receive. err is never nil; it
	// says how the connection ended (code exited with exit code, signal and stderr
	// tail; closed when our side closed it).
	Closed(err *fault.Error)
}

// Conn is one live connection. Methods are safe from any goroutine.
type Conn interface {
	// Send hands over one whole JSON message without a newline. It does not block
	// for the peer: what the pipe does not take at once is queued, and ctx bounds
	// only the wait for room in that queue. On error nothing of msg was or will be
	// written. msg may be reused when Send returns. seq rises by one per message.
	Send(ctx context.Context, msg []byte) (seq uint64, err error)
	// Begun tells whether any byte of message seq reached the peer's pipe; asked
	// after Closed, to know what may be sent again.
	Begun(seq uint64) bool
	// Close starts the end and returns at once: stdin closed now, SIGTERM to the
	// process group at grace/2, SIGKILL at grace. abort is for a server that is
	// still in its handshake: SIGTERM at once, SIGKILL after at most 500 ms.
	// Further calls may only shorten it.
	Close(grace time.Duration, abort bool)
	// Done is closed when everything is over: process reaped, pipes closed, Closed delivered.
	Done() <-chan struct{}
	Info() Info
}

// Prompt is a Conn that can also refuse a message for which its queue has no room,
// for callers that must not wait.
type Prompt interface {
	// TrySend is Send without the wait; ok is false when only Send could take msg.
	TrySend(msg []byte) (seq uint64, ok bool, err error)
}

// Meta is what a transport with headers has to know of a message beside its bytes.
type Meta struct {
	ID      int64  // of a request of ours; 0: a notification or a reply
	Method  string // "" for a reply
	Version string // the protocol version that the message is of; "" before that is settled
	Modern  bool   // that version is 2026-07-28 or later
	Headers map[string]string
}

// Carrier is a Conn of requests that travel one by one.
type Carrier interface {
	Conn
	// SendMeta is Send with what becomes of the message's headers.
	SendMeta(ctx context.Context, msg []byte, meta Meta) (seq uint64, err error)
	// Cancel gives up request id: nothing more of it is received. In the modern era
	// that is also how the server learns of it.
	Cancel(id int64)
}

// Info says what is known of a connection from outside the protocol.
type Info struct {
	PID       int   // 0 where there is no process
	Skipped   int64 // lines that were no JSON-RPC and were skipped
	Repaired  int64 // messages in which invalid UTF-8 was replaced by U+FFFD
	TooLarge  int64 // messages skipped because of their size
	SentBytes int64
	RecvBytes int64
}

// Dial opens one connection. ctx bounds the dialling only, not the connection's life.
type Dial func(ctx context.Context, r Receiver) (Conn, error)
