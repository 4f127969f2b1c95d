package core

// Host is the other side of a Manager: the C boundary, or a test. Its methods
// are called from any goroutine, never under a lock of core, and must not block.
type Host interface {
	// Notice passes one event (see docs/abi.md, MCPRT_EV_NOTICE). data is valid
	// only until Notice returns. Notices arrive in order.
	Notice(data []byte)
	// Request asks the host something (MCPRT_EV_REQUEST). tag is above TagMax; the
	// answer comes through Manager.Answer. data is valid only until Request returns.
	Request(tag uint64, data []byte)
	// RequestDone ends a request, exactly once, whoever ended it.
	RequestDone(tag uint64, st Status)
}

// TagMax is the largest tag a host may use; those of Host.Request lie above it
// and below 2^53.
const TagMax = 1<<52 - 1

// Status is the outcome of an operation as the C API numbers it.
type Status int32

const (
	OK        Status = 0
	EInval    Status = -1
	ETimeout  Status = -7
	ECanceled Status = -8
	EClosed   Status = -9
	ETag      Status = -11
	EFailed   Status = -20
	EInternal Status = -99
)

// Verb names an operation; the numbers are those of mcprt.h.
type Verb int32

const (
	VerbDiscover   Verb = 1
	VerbConnect    Verb = 2
	VerbList       Verb = 3
	VerbCall       Verb = 4
	VerbReload     Verb = 5
	VerbDisconnect Verb = 7
)

// Reply is the JSON answer of an operation, in up to three parts that are
// written one after another, so that a large result needs no copy for its
// envelope. The bytes are valid only until Done returns.
type Reply struct{ Head, Body, Tail []byte }

// Done takes the outcome of an operation. It is called exactly once, from any
// goroutine (the reader of a server's pipe among them), perhaps before Start
// returns, and must not block.
type Done func(st Status, r Reply)

// QueueLimits are the limits that the C queue enforces, from open's options.
type QueueLimits struct {
	MaxInFlight, QueueBytes, MaxNotices, NoticeBytes int64
}

// The surface that capi uses (implemented in manager.go):
//
//	func Open(options []byte, host Host) (*Manager, error)       // *fault.Error
//	func (m *Manager) QueueLimits() QueueLimits
//	func (m *Manager) Start(v Verb, tag uint64, req []byte, done Done) (cancel func())
//	        req is only read until Start returns. tag 0: a blocking verb (no progress notices).
//	        cancel asks; done still comes. Panics are caught inside.
//	func (m *Manager) Answer(tag uint64, reply []byte) Status    // OK or ETag or EInval (wrong JSON)
//	func (m *Manager) Decline(tag uint64)
//	func (m *Manager) Close(graceMs int32)                       // blocks; idempotent; < 0: configured grace
//	func ErrorReply(err error) (Status, Reply)                   // the JSON of an error, for capi's own errors
