package transport

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// event is one server-sent event.
type event struct {
	name     string // "message" when the stream gave none
	data     []byte // valid until the next call of next
	tooLarge int64  // > 0: data was over the limit and skipped; this many bytes
}

// events reads a stream of server-sent events: lines that end in LF, CRLF or CR,
// cut by the network anywhere, even within a CRLF.
type events struct {
	src   io.Reader
	limit int // bytes of one event's data
	// cut ends the stream where an event or a line of any kind passes the limit, rather than
	// waiting for its end, which may never come: right for a stream that serves one request.
	cut bool

	lastID string        // of the last event that had one: where a successor may go on
	retry  time.Duration // the server's wish; < 0: it has none
	count  int           // events that were delivered

	buf    []byte
	r, w   int
	err    error // of src
	begun  bool  // the first line, which may carry a byte order mark, is past
	skipLF bool  // the last line ended in a CR

	line []byte
	data []byte
	size int64 // of data, whatever of it was kept
}

func newEvents(src io.Reader, limit int64) *events {
	return &events{src: src, limit: int(min(limit, 1<<31-1)), retry: -1, buf: make([]byte, 4<<10)}
}

// errCut tells that an event passed the limit of a stream that is cut there.
var errCut = errors.New("an event is over the limit")

// keepAll is the limit with room for the field's name, which the size of a line has too.
func keepAll(limit int) int64 { return int64(limit) + int64(len("data: ")) }

// maxRetryWish bounds what a server may make us wait before the next connection.
const maxRetryWish = 5 * time.Minute

// next reads one event that has data. An error means that there are no more; data
// before it that no blank line follows is an event only when the stream ended cleanly.
func (e *events) next(ev *event) error {
	*ev = event{}
	e.data, e.size = e.data[:0], 0
	if cap(e.data) > keepBuffer {
		e.data = nil
	}
	id, hasID, hasData := "", false, false
	for {
		size, err := e.readLine()
		if err == errCut {
			ev.tooLarge = e.size + size
			e.err, e.r = io.EOF, e.w
			e.count++
			return nil
		}
		if err != nil && (err != io.EOF || size == 0 && !hasData) {
			return err
		}
		if size == 0 {
			if hasID {
				e.lastID = id
			}
			if e.size == 0 { // an id without data is a place to go on from
				if err != nil {
					return err
				}
				ev.name, hasID, hasData = "", false, false
				continue
			}
			if ev.name == "" {
				ev.name = "message"
			}
			ev.data = e.data
			if e.size > int64(e.limit) {
				ev.data, ev.tooLarge = nil, e.size
			}
			e.count++
			return nil
		}
		field, value, _ := bytes.Cut(e.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if hasData {
				e.add([]byte("\n"), 1)
			}
			hasData = true
			e.add(value, int64(len(value))+size-int64(len(e.line)))
		case "event":
			ev.name = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) && len(value) <= 4<<10 && size == int64(len(e.line)) {
				id, hasID = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				e.retry = min(time.Duration(ms)*time.Millisecond, maxRetryWish)
			}
		}
	}
}

// add keeps data up to the limit and counts all of it.
func (e *events) add(p []byte, size int64) {
	e.size += size
	if e.size <= int64(e.limit) {
		e.data = append(e.data, p...)
	}
}

// readLine puts the next line into e.line, without its end and cut at the limit,
// and returns its whole length.
func (e *events) readLine() (size int64, err error) {
	e.line = e.line[:0]
	if cap(e.line) > keepBuffer {
		e.line = nil
	}
	keep := e.limit + 64 // and the field's name
	for {
		if e.r == e.w {
			if e.err != nil {
				return size, e.err
			}
			var n int
			n, e.err = e.src.Read(e.buf)
			e.r, e.w = 0, max(n, 0)
			continue
		}
		if e.skipLF {
			e.skipLF = false
			if e.buf[e.r] == '\n' {
				e.r++
				continue
			}
		}
		rest := e.buf[e.r:e.w]
		end := bytes.IndexAny(rest, "\r\n")
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		size += int64(len(part))
		if room := keep - len(e.line); room > 0 {
			e.line = append(e.line, part[:min(room, len(part))]...)
		}
		if e.cut && (size > int64(keep) || e.size+size > keepAll(e.limit) && bytes.HasPrefix(e.line, []byte("data"))) {
			return size, errCut
		}
		if end < 0 {
			e.r = e.w
			continue
		}
		e.r += end + 1
		e.skipLF = rest[end] == '\r'
		if !e.begun {
			e.begun = true
			if trimmed := strings.TrimPrefix(string(e.line), "\uFEFF"); len(trimmed) < len(e.line) {
				size -= int64(len(e.line) - len(trimmed))
				e.line = append(e.line[:0], trimmed...)
			}
		}
		return size, nil
	}
}
