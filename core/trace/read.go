package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/goccy/go-json"
)

// Limits of what is read: a file may come from anywhere.
const (
	maxLine = 8 << 20
	maxFile = 4 << 30
)

// Trace is what was read of one recorder.
type Trace struct {
	Header  Record
	Records []Record // by time; without the headers
	Damaged int      // lines that are no records
	Missing bool     // an earlier part is gone
	LeftOut int      // messages over the limit, the first ones

	messages []Record // until all is read
}

// maxSteps bounds the records that are no messages.
const maxSteps = 500_000

// isHeader tells the first line of a trace from that of any other file.
func isHeader(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var rec Record
	return json.Unmarshal(line, &rec) == nil && rec.Type == TypeTrace && rec.Format > 0
}

// ReadFile reads a trace; where it was rotated, File.1 before it. Of the messages it
// keeps the last limit; 0: all.
func ReadFile(path string, limit int) (*Trace, error) {
	t, err := readOne(path, limit)
	if err != nil {
		return nil, err
	}
	if t.Header.Part > 1 {
		t.Missing = true
		if before, err := readOne(path+".1", limit); err == nil && before.Header.Run == t.Header.Run && before.Header.Part == t.Header.Part-1 {
			t.Missing = before.Header.Part > 1
			t.Header = before.Header
			t.Records = append(before.Records, t.Records...)
			t.messages = append(before.messages, t.messages...)
			t.Damaged += before.Damaged
			t.LeftOut += before.LeftOut
		}
	}
	t.join(limit)
	return t, nil
}

// join puts messages and steps into one order.
func (t *Trace) join(limit int) {
	t.trim(limit)
	t.Records = append(t.Records, t.messages...)
	t.messages = nil
	slices.SortStableFunc(t.Records, func(a, b Record) int { return a.Time.Compare(b.Time) })
}

// trim drops the first messages over the limit.
func (t *Trace) trim(limit int) {
	if extra := len(t.messages) - limit; limit > 0 && extra > 0 {
		t.messages = append(t.messages[:0], t.messages[extra:]...)
		t.LeftOut += extra
	}
}

func (t *Trace) add(rec Record, limit int) {
	switch {
	case rec.Type != TypeMessage && len(t.Records) < maxSteps:
		t.Records = append(t.Records, rec)
	case rec.Type == TypeMessage:
		t.messages = append(t.messages, rec)
		if limit > 0 && len(t.messages) > 2*limit {
			t.trim(limit)
		}
	}
}

func readOne(path string, limit int) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	t, err := readLines(io.LimitReader(f, maxFile), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

var errNoTrace = errors.New("this is no trace of mcprt: its first line is no header (see docs/trace.md)")

// Read reads the lines of one file, as ReadFile does. A damaged line, such as the
// last one of a host that was killed, is counted and left out.
func Read(in io.Reader, limit int) (*Trace, error) {
	t, err := readLines(in, limit)
	if err != nil {
		return nil, err
	}
	t.join(limit)
	return t, nil
}

func readLines(in io.Reader, limit int) (*Trace, error) {
	t := &Trace{}
	r := bufio.NewReaderSize(in, 64<<10)
	for first := true; ; first = false {
		line, long, err := readLine(r)
		if len(line) > 0 || long {
			var rec Record
			bad := long || json.Unmarshal(line, &rec) != nil || rec.Type == "" || rec.Time.IsZero()
			switch {
			case first && (bad || rec.Type != TypeTrace || rec.Format < 1):
				return nil, errNoTrace
			case first && rec.Format > Format:
				return nil, fmt.Errorf("this trace is of format %d, and this mcprt reads up to %d: use a newer one", rec.Format, Format)
			case first:
				t.Header = rec
			case bad:
				t.Damaged++
			default:
				t.add(rec, limit)
			}
		} else if first {
			return nil, errNoTrace
		}
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readLine gives a line without its end; long: it was over the limit and is left out.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = nil, true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSpace(line), long, err
	}
}
