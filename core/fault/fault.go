// Package fault is the one error type that crosses package borders.
//
// Every failure that a host can see is an *Error: a code from a small closed
// set, a sentence for a person, and fields for a program. It is a leaf package
// because transport, session and core all make such errors and none of them may
// import another one's maker.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Code is one of the closed set of error codes. Each has one C status, one
// Python class and one Node class; docs/errors.md lists causes.
type Code string

const (
	InvalidRequest     Code = "invalid_request"
	UnknownServer      Code = "unknown_server"
	UnknownTool        Code = "unknown_tool"
	ToolGone           Code = "tool_gone"
	Filtered           Code = "filtered"
	Timeout            Code = "timeout"
	Canceled           Code = "canceled"
	Closed             Code = "closed"
	Busy               Code = "busy"
	Config             Code = "config"
	SpawnFailed        Code = "spawn_failed"
	Exited             Code = "exited"
	ConnectFailed      Code = "connect_failed"
	Protocol           Code = "protocol"
	UnsupportedVersion Code = "unsupported_version"
	TooLarge           Code = "too_large"
	HTTPStatus         Code = "http_status"
	RPCError           Code = "rpc_error"
	NeedsAuth          Code = "needs_auth"
	NeedsTrust         Code = "needs_trust"
	NeedsInput         Code = "needs_input"
	Disconnected       Code = "disconnected"
	Unavailable        Code = "unavailable"
	CrashLoop          Code = "crash_loop"
	OutcomeUnknown     Code = "outcome_unknown"
	Internal           Code = "internal"
)

// Codes lists every code, in the order of the documentation. Bindings are
// tested against it.
var Codes = []Code{
	InvalidRequest, UnknownServer, UnknownTool, ToolGone, Filtered, Timeout, Canceled, Closed, Busy, Config,
	SpawnFailed, Exited, ConnectFailed, Protocol, UnsupportedVersion, TooLarge, HTTPStatus, RPCError, NeedsAuth,
	NeedsTrust, NeedsInput, Disconnected, Unavailable, CrashLoop, OutcomeUnknown, Internal,
}

// Stage says during which step an operation failed.
type Stage string

const (
	StageConfig   Stage = "config"
	StageSpawn    Stage = "spawn"
	StageConnect  Stage = "connect"
	StageSend     Stage = "send"
	StageReceive  Stage = "receive"
	StageDecode   Stage = "decode"
	StageProtocol Stage = "protocol"
	StageAuth     Stage = "auth"
)

// Error is a failure as the host sees it. Fields are set by whoever knows them;
// Server and Tool are usually filled in by core.
type Error struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Server    string `json:"server,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Stage     Stage  `json:"stage,omitempty"`
	Retryable bool   `json:"retryable"` // the same request may succeed later without a change of config
	Data      *Data  `json:"data,omitempty"`

	cause error
}

// Data holds the details of an error as fields. Zero fields are left out.
type Data struct {
	Command      string  `json:"command,omitempty"`
	ExitCode     *int    `json:"exitCode,omitempty"`
	Signal       string  `json:"signal,omitempty"`
	Stderr       string  `json:"stderr,omitempty"` // last lines, at most 4 KiB
	HTTPStatus   int     `json:"httpStatus,omitempty"`
	Challenge    string  `json:"challenge,omitempty"`    // WWW-Authenticate of a 401 or 403
	Body         string  `json:"body,omitempty"`         // first bytes, at most 4 KiB
	RetryAfterMs int64   `json:"retryAfterMs,omitempty"` // the server's wish
	TraceID      string  `json:"traceId,omitempty"`      // by which the server's operator finds the request
	RPCCode      *int64  `json:"rpcCode,omitempty"`
	RPCMessage   string  `json:"rpcMessage,omitempty"`
	RPCData      any     `json:"rpcData,omitempty"` // the server's raw JSON (json.RawMessage)
	TimeoutMs    int64   `json:"timeoutMs,omitempty"`
	Inputs       []Input `json:"inputs,omitempty"` // that a server misses
	Hash         string  `json:"hash,omitempty"`   // of an entry that needs trust
	Path         string  `json:"path,omitempty"`
	Line         int     `json:"line,omitempty"`
	Column       int     `json:"column,omitempty"`
}

// Input is a value that only a person has, and what to ask for.
type Input struct {
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Password    bool     `json:"password"` // hide it while it is typed
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"` // the values to choose from
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

// New makes an error with a formatted message; a %w in the format sets the cause.
func New(code Code, stage Stage, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Stage: stage, Message: err.Error(), cause: errors.Unwrap(err)}
}

// With returns e after it set its data; it lets a caller write one expression.
func (e *Error) With(d Data) *Error { e.Data = &d; return e }

// Retry returns e marked as retryable.
func (e *Error) Retry() *Error { e.Retryable = true; return e }

// Clone returns a copy that may be changed (Server, Tool) without touching an
// error that other goroutines read.
func (e *Error) Clone() *Error {
	c := *e
	if e.Data != nil {
		d := *e.Data
		c.Data = &d
	}
	return &c
}

// From gives any error as an *Error: an *Error in its chain, the context errors
// as timeout and canceled, all else as internal. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Timeout, Message: "the time for this operation ran out", Retryable: true, cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Canceled, Message: "the operation was cancelled", cause: err}
	}
	return &Error{Code: Internal, Message: err.Error(), cause: err}
}

// Is reports whether err is an *Error with this code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Caught turns a recovered panic value into an error. The stack goes into the
// cause only, for the log: a host never sees it.
func Caught(value any, stack []byte) *Error {
	return &Error{Code: Internal, Message: fmt.Sprintf("a bug in mcprt was caught: %v; please report it", value),
		cause: fmt.Errorf("panic: %v\n%s", value, stack)}
}
