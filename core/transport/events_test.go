package transport

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func readEvents(src io.Reader, limit int64) (got []string, e *events, err error) {
	e = newEvents(src, limit)
	for {
		var ev event
		if err := e.next(&ev); err != nil {
			return got, e, err
		}
		if ev.tooLarge > 0 {
			got = append(got, ev.name+" too large")
			continue
		}
		got = append(got, ev.name+" "+string(ev.data))
	}
}

func TestEvents(t *testing.T) {
	stream := "\uFEFF: hello\nid: 1\nretry: 500\ndata: a\n\n" + // comment, id, retry
		"event: endpoint\ndata:/x\n\n" + // no space
		"data: one\ndata:  two\ndata\n\n" + // several lines; one space is cut; a bare field
		"id: 2\ndata:\n\n" + // only a place to go on from
		"id: bad\x00id\ndata: b\n\n" +
		"unknown: x\ndata: c\n\nretry: no\ndata: last"
	want := []string{"message a", "endpoint /x", "message one\n two\n", "message b", "message c", "message last"}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		text := strings.ReplaceAll(stream, "\n", end)
		for name, src := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"halves": iotest.HalfReader(strings.NewReader(text)), "with EOF": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, e, err := readEvents(src, 1<<20)
			if err != io.EOF || !slices.Equal(got, want) {
				t.Errorf("%q, %s: %q, %v", end, name, got, err)
			}
			if e.lastID != "2" || e.retry != 500*time.Millisecond || e.count != len(want) {
				t.Errorf("%q, %s: id %q, retry %v, count %d", end, name, e.lastID, e.retry, e.count)
			}
		}
	}
}

func TestEventsOverTheLimit(t *testing.T) {
	big := strings.Repeat("x", 100)
	stream := "id: 1\ndata: " + big + "\n\ndata: " + big[:40] + "\ndata: " + big[:40] + "\n\n: " + big + big + "\ndata: ok\n\n"
	got, e, err := readEvents(iotest.OneByteReader(strings.NewReader(stream)), 64)
	if want := []string{"message too large", "message too large", "message ok"}; err != io.EOF || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if e.lastID != "1" || cap(e.line) > 1024 || cap(e.data) > 1024 {
		t.Errorf("id %q, kept %d and %d bytes", e.lastID, cap(e.line), cap(e.data))
	}
}

// TestEventsCut: a stream that serves one request ends where a line or an event goes on
// without an end, whatever it is; what is within the limit never ends it.
func TestEventsCut(t *testing.T) {
	fine := strings.Repeat(": ping\n", 100) + "event: " + strings.Repeat("e", 60) + "\ndata: ok\n\n"
	for name, start := range map[string]string{
		"data": "data: ", "data after a mark": "\uFEFFdata: ", "bare": "", "comment": ": ", "event": "event: ", "id": "id: ", "retry": "retry: 5",
		"many lines": "data: " + strings.Repeat("x", 40) + "\ndata: ",
	} {
		e := newEvents(io.MultiReader(strings.NewReader(fine+start), endless{}), 64)
		e.cut = true
		if strings.HasPrefix(start, "\uFEFF") {
			e = newEvents(io.MultiReader(strings.NewReader(start), endless{}), 64)
			e.cut = true
		} else {
			var ev event
			if err := e.next(&ev); err != nil || string(ev.data) != "ok" || ev.tooLarge != 0 {
				t.Errorf("%s: %q, %v", name, ev.data, err)
			}
		}
		var ev event
		if err := e.next(&ev); err != nil || ev.tooLarge <= 64 {
			t.Errorf("%s: %d bytes are too large, %v", name, ev.tooLarge, err)
		}
		if err := e.next(&ev); err != io.EOF {
			t.Errorf("%s: the stream goes on: %v", name, err)
		}
	}
}

// endless is a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '5'
	}
	return len(p), nil
}

func TestEventsBrokenOff(t *testing.T) {
	broken := errors.New("reset")
	got, _, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: half"), iotest.ErrReader(broken)), 64)
	if err != broken || !slices.Equal(got, []string{"message a"}) {
		t.Errorf("half an event was delivered: %q, %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\r\n\r\nid: 1\ndata: b\n\n", 3)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		whole, a, _ := readEvents(strings.NewReader(stream), 32)
		cut, b, _ := readEvents(io.MultiReader(strings.NewReader(stream[:min(max(size, 0), len(stream))]),
			iotest.OneByteReader(strings.NewReader(stream[min(max(size, 0), len(stream)):]))), 32)
		if !slices.Equal(whole, cut) || a.lastID != b.lastID || a.retry != b.retry {
			t.Errorf("%q and %q", whole, cut)
		}
	})
}
