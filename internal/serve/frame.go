// Package serve is the C API without C: the functions of include/mcprt.h as frames
// over a pair of pipes. A host that cannot load the library (musl) runs the command
// line tool with it instead, and has the same verbs, events and questions with the
// same JSON. docs/serve.md is the protocol.
package serve

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of frames to the host. Those of the queue have the numbers of mcprt.h.
const (
	evDone    = 1
	evNotice  = 2
	evRequest = 3
	evDropped = 4
	evClosed  = 5

	kindHello  = 16 // the first frame: version, and what a host must know of us
	kindOpened = 17 // answers open: status, limits or an error
	kindEnded  = 18 // every server is gone; evClosed is in the queue
)

// Kinds of frames from the host. 1 to 8 are the verbs of mcprt.h.
const (
	verbReply = 6
	verbClose = 8

	kindOpen   = 16
	kindCancel = 17
	kindFree   = 18
	kindCredit = 19
)

// Flags of a verb, in the frame's status.
const (
	flagHold     = 1 // MCPRT_F_HOLD: the completion does not go through the queue
	flagBlocking = 4 // a blocking verb: held, and not counted in maxInFlight
	flagForget   = 2 // of cancel: MCPRT_F_FORGET
)

const (
	headerSize = 32
	// frameMax is MCPRT_FRAME_MAX.
	frameMax = 0x40000000
	// window is how many bytes of a manager's queue are sent before the host has
	// taken them out.
	window = 256 << 10
)

// frame is one message: the number of a manager, then an mcprt_frame with its data.
type frame struct {
	manager uint64
	tag     uint64
	status  int32
	kind    uint16
	data    []byte
}

// size is that of the mcprt_frame, with its data and padding.
func size(length int) int { return (24 + length + 8) &^ 7 }

// encode gives the bytes of a frame whose data comes in parts.
func encode(f frame, parts ...[]byte) []byte {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	step := size(length)
	b := make([]byte, 8+step)
	le := binary.LittleEndian
	le.PutUint64(b, f.manager)
	le.PutUint64(b[8:], f.tag)
	le.PutUint32(b[16:], uint32(f.status))
	le.PutUint16(b[20:], f.kind)
	le.PutUint32(b[24:], uint32(length))
	le.PutUint32(b[28:], uint32(step))
	at := headerSize
	for _, p := range parts {
		at += copy(b[at:], p)
	}
	return b
}

// readFrame reads one frame. The data grows with what really comes, so that a wrong
// length costs no memory.
func readFrame(r io.Reader) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	le := binary.LittleEndian
	f := frame{manager: le.Uint64(h[:]), tag: le.Uint64(h[8:]), status: int32(le.Uint32(h[16:])), kind: le.Uint16(h[20:])}
	length, step := int64(le.Uint32(h[24:])), int64(le.Uint32(h[28:]))
	if length > frameMax || step != int64(size(int(length))) {
		return f, fmt.Errorf("a frame of kind %d says that it has %d bytes in a step of %d: at most %d bytes are allowed, and padding to a multiple of 8", f.kind, length, step, frameMax)
	}
	const chunk = 1 << 20
	left := step - 24
	f.data = make([]byte, 0, min(left, chunk))
	for left > 0 {
		n := min(left, chunk)
		at := len(f.data)
		f.data = append(f.data, make([]byte, n)...)
		if _, err := io.ReadFull(r, f.data[at:]); err != nil {
			return f, io.ErrUnexpectedEOF
		}
		left -= n
	}
	f.data = f.data[:length]
	return f, nil
}
