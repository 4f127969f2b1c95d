package transport

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mcprt/mcprt/core/lazy"
	"github.com/mcprt/mcprt/core/safe"
)

const (
	startBuffer = 32 << 10  // what a connection holds while messages are small
	keepBuffer  = 256 << 10 // a buffer that grew beyond is given back as soon as its message is done
	edge        = 4 << 10   // how much of both ends of an over-long line is kept to find its id
	salvages    = 8         // failed tries per line: each may cost a pass over the whole line
)

// lines cuts a server's output into lines and delivers those that are messages.
// Servers print banners, logs and blank lines there too; these are skipped and
// counted, for one bad line must not cost the connection.
type lines struct {
	src   io.Reader
	limit int // the longest line that is delivered, without its newline
	out   Receiver

	buf              []byte
	start, seen, end int       // the current line is buf[start:end]; buf[start:seen] holds no newline
	ended            bool      // what is looked at now may be half a line
	grown            int       // what the last large message needed
	over             *overlong // set while the rest of an over-long line is skipped
	msg              Message   // reused: its address goes through an interface, so it lives on the heap

	skipped, repaired, tooLarge, received atomic.Int64
}

// run reads to the end and returns why reading ended; io.EOF is the usual reason.
func (l *lines) run() error {
	l.buf = make([]byte, l.startSize())
	for {
		n, err := l.src.Read(l.buf[l.end:])
		l.received.Add(int64(n))
		l.end += n
		safe.Point("transport.lines")
		l.cut()
		if err != nil {
			l.ended = true
			if l.start < l.end || l.over != nil {
				l.finish(l.buf[l.start:l.end]) // a last line need not be terminated
			}
			return err
		}
		l.makeRoom()
	}
}

func (l *lines) startSize() int { return min(startBuffer, l.limit+1) }

func (l *lines) cut() {
	for {
		newline := bytes.IndexByte(l.buf[l.seen:l.end], '\n')
		if newline < 0 {
			l.seen = l.end
			return
		}
		l.finish(l.buf[l.start : l.seen+newline])
		l.seen += newline + 1
		l.start = l.seen
	}
}

func (l *lines) finish(line []byte) {
	if l.over == nil {
		l.line(line)
		return
	}
	l.over.add(line)
	l.overrun(l.over)
	l.over = nil
}

// makeRoom prepares the buffer for the next read: it never holds more than one
// byte over the limit, and is small again after a large message.
func (l *lines) makeRoom() {
	rest := l.buf[l.start:l.end]
	if l.over != nil || len(rest) > l.limit {
		if l.over == nil {
			l.over = new(overlong)
		}
		l.over.add(rest)
		rest = nil
	}
	switch small := l.startSize(); {
	case len(l.buf) > keepBuffer && len(rest) < small/2:
		l.grown = len(l.buf)
		l.swap(make([]byte, small), rest)
	case len(rest) == 0:
	case l.end < len(l.buf):
		return
	case l.start > 0:
		copy(l.buf, rest)
	default:
		n := 2 * len(l.buf)
		if n > keepBuffer { // it is large, and then most likely as large as the last one
			n = max(n, l.grown)
		}
		l.swap(larger(min(n, l.limit+1)), rest)
	}
	l.start, l.seen, l.end = 0, len(rest), len(rest)
}

// swap goes on in another buffer.
func (l *lines) swap(to, rest []byte) {
	copy(to, rest)
	if used := l.buf; len(used) > keepBuffer {
		largeBuffers[class(len(used))].Put(&used)
	}
	l.buf = to
}

// largeBuffers are those that grew for a large message, by the powers of two that they hold.
// The next large message, of whatever server, need not have its memory cleared and made
// present again; the garbage collector takes those that nobody needs.
var largeBuffers [bits.UintSize]sync.Pool

func class(n int) int { return bits.Len(uint(n)) - 1 }

// larger gives a buffer of n bytes, whatever is in it.
func larger(n int) []byte {
	if n > keepBuffer {
		if b, ok := largeBuffers[class(n)].Get().(*[]byte); ok && len(*b) >= n {
			return (*b)[:n]
		}
	}
	return make([]byte, n)
}

// line delivers what one line holds: a message, a batch, a message behind other
// text, or the failure of an answer that is damaged.
func (l *lines) line(b []byte) {
	repaired := !utf8.Valid(b)
	if repaired {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\uFEFF")))
	err := Scan(b, &l.msg)
	switch {
	case err == nil:
		l.out.Receive(&l.msg)
	case l.batch(b) || l.salvage(b) || l.damaged(b, err):
	default:
		l.skipped.Add(1)
		return
	}
	if repaired {
		l.repaired.Add(1)
	}
}

// batch delivers the elements of an array of messages. JSON-RPC batches are part
// of protocol version 2025-03-26 alone, but servers of any version may send them.
func (l *lines) batch(b []byte) bool {
	if len(b) == 0 || b[0] != '[' || value(b, 0, maxDepth) != len(b) {
		return false
	}
	delivered := false
	for i := space(b, 1); b[i] != ']'; {
		end := value(b, i, maxDepth)
		if Scan(b[i:end], &l.msg) == nil {
			delivered = true
			l.out.Receive(&l.msg)
		}
		if i = space(b, end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return delivered
}

var opening = []byte(`{"jsonrpc"`)

// salvage finds messages that share their line with other text: an unterminated
// prompt before them, or another message. Each must reach to the end of the line
// or to the next message, else it is a quotation within a log line.
func (l *lines) salvage(b []byte) bool {
	delivered := false
	for i, failed := 0, 0; failed < salvages; {
		next := bytes.Index(b[i:], opening)
		if next < 0 {
			break
		}
		i += next
		end, err := scanAt(b, i, &l.msg)
		if err == nil {
			end = space(b, end)
		}
		if err != nil || end < len(b) && !bytes.HasPrefix(b[end:], opening) {
			failed++
			i += len(opening)
			continue
		}
		delivered = true
		l.out.Receive(&l.msg)
		i = end
	}
	return delivered
}

// damaged ends the request whose answer is no acceptable JSON (Python's encoder
// writes NaN and Infinity, for example) with what is wrong: to skip the
// line would let the caller wait for its timeout and learn nothing.
func (l *lines) damaged(b []byte, err error) bool {
	if l.ended || errors.Is(err, errEnvelope) || len(b) == 0 || b[0] != '{' {
		return false
	}
	answered := answerID(b, b[max(0, len(b)-edge):])
	if answered == nil || b[len(b)-1] != '}' {
		return false
	}
	l.msg = Message{ID: answered, Damaged: err.Error(), Bytes: int64(len(b))}
	l.out.Receive(&l.msg)
	return true
}

func (l *lines) overrun(o *overlong) {
	l.tooLarge.Add(1)
	if answered := answerID(o.head, o.tail); answered != nil {
		l.msg = Message{ID: answered, TooLarge: o.size}
		l.out.Receive(&l.msg)
	}
}

// overlong is what is kept of a line over the limit.
type overlong struct {
	head, tail []byte
	size       int64
}

func (o *overlong) add(p []byte) {
	o.size += int64(len(p))
	if room := edge - len(o.head); room > 0 {
		o.head = append(o.head, p[:min(room, len(p))]...)
	}
	o.tail = append(o.tail, p[max(0, len(p)-edge):]...)
	if extra := len(o.tail) - edge; extra > 0 {
		o.tail = append(o.tail[:0], o.tail[extra:]...)
	}
}

// lastID matches an id among the last members of an object. What ends a line of
// valid JSON closes its outermost object, so no inner id can match.
var lastID = lazy.Regexp(
	`,\s*"id"\s*:\s*(-?[0-9]+|"(?:[^"\\]|\\.)*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// answerID finds the id of a response of which only head and tail can be read;
// nil when there is none, or when it is a request or a notification.
func answerID(head, tail []byte) []byte {
	var e envelope
	e.scan(head, space(head, 0))
	if e.raw[method] != nil || e.raw[params] != nil || e.open == method || e.open == params {
		return nil
	}
	if own := e.raw[id]; own != nil {
		if own[0] == '"' || own[0] == '-' || own[0]-'0' <= 9 {
			return own
		}
		return nil
	}
	if e.open != result && e.open != failure {
		return nil
	}
	if m := lastID().FindSubmatch(bytes.TrimSpace(tail)); m != nil {
		return m[1]
	}
	return nil
}
