package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/mcprt/mcprt/core/fault"
)

// record is a Receiver that copies what it gets.
type record struct {
	mu     sync.Mutex
	got    []Message
	closed chan *fault.Error // capacity 2, so that a second Closed would show
	each   func(m *Message)
}

func newRecord() *record { return &record{closed: make(chan *fault.Error, 2)} }

func (r *record) Receive(m *Message) {
	c := *m
	for _, field := range []*[]byte{&c.ID, &c.Params, &c.Result, &c.Error} {
		*field = bytes.Clone(*field)
	}
	r.mu.Lock()
	r.got = append(r.got, c)
	r.mu.Unlock()
	if r.each != nil {
		r.each(&c)
	}
}

func (r *record) Closed(err *fault.Error) { r.closed <- err }

func (r *record) messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Message(nil), r.got...)
}

// read runs lines over the input and checks that all that is passed on is JSON.
func read(t *testing.T, src io.Reader, limit int) (*lines, []Message) {
	t.Helper()
	rec := newRecord()
	l := &lines{src: src, limit: limit, out: rec}
	if err := l.run(); !errors.Is(err, io.EOF) {
		t.Fatalf("run: %v", err)
	}
	for _, m := range rec.got {
		for _, raw := range [][]byte{m.ID, m.Params, m.Result, m.Error} {
			if raw != nil && !json.Valid(raw) {
				t.Errorf("invalid JSON was passed on: %.100q", raw)
			}
		}
	}
	return l, rec.got
}

func ids(got []Message) string {
	var all []string
	for _, m := range got {
		s := string(m.ID) + m.Method
		if m.TooLarge > 0 {
			s = fmt.Sprintf("%s(%d bytes)", s, m.TooLarge)
		}
		if m.Error != nil || m.Damaged != "" {
			s += "!"
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func answer(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

func TestLines(t *testing.T) {
	big := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name, in, want              string
		skipped, repaired, tooLarge int64
	}{
		{"plain", answer(1) + "\n" + answer(2) + "\n", "1 2", 0, 0, 0},
		{"no last newline", answer(1) + "\n" + answer(2), "1 2", 0, 0, 0},
		{"half a line at the end", answer(1) + "\n" + answer(2)[:20], "1", 1, 0, 0},
		{"half an answer at the end", answer(1) + "\n" + answer(2)[:len(answer(2))-1], "1", 1, 0, 0},
		{"CRLF, blanks, BOM, ANSI, banner", "\uFEFF" + answer(1) + "\r\n\r\n\nServer v1 running\n\x1b[32mok\x1b[0m\n" + answer(2) + "\r\n", "1 2", 4, 0, 0},
		{"JSON log line", `{"level":30,"msg":"x","id":1,"result":2}` + "\n" + answer(1), "1", 1, 0, 0},
		{"prefix glued to a message", "Loading… " + answer(1) + "\n\x1b[0m" + answer(2), "1 2", 0, 0, 0},
		{"two messages on one line", answer(1) + answer(2) + " " + answer(3) + "\n", "1 2 3", 0, 0, 0},
		{"quoted in a log line", "sent " + answer(1) + " to client\n" + answer(2), "2", 1, 0, 0},
		{"batch", "[" + answer(1) + ` , {"x":[1]},` + answer(2) + "]\n[]\n[1]\n", "1 2", 2, 0, 0},
		{"log line in brackets", "[2026-01-01] " + answer(1) + "\n[info] x\n", "1", 1, 0, 0},
		{"invalid UTF-8", `{"jsonrpc":"2.0","id":1,"result":"a` + "\xff\xfe" + `b"}` + "\n\xff\n", "1", 1, 1, 0},
		{"NaN in an answer", `{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}` + "\n" + `{"result":Infinity,"id":"q"}` + "\n", `1! "q"!`, 0, 0, 0},
		{"NaN in a request", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":NaN}}` + "\n", "", 1, 0, 0},
		{"pretty-printed", "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {}\n}\n" + answer(2), "2", 5, 0, 0},
		{"too large, id first", `{"jsonrpc":"2.0","id":5,"result":"` + big + "\"}\n" + answer(6) + "\n", "5(3036 bytes) 6", 0, 0, 1},
		{"too large, id last", `{"jsonrpc":"2.0","result":"` + big + `","id":"a\"b"}` + "\n" + answer(6), `"a\"b"(3041 bytes) 6`, 0, 0, 1},
		{"too large, id before the version", `{"result":["` + big + `"] , "id" : -5, "jsonrpc": "2.0" }` + "\r\n" + answer(6), `-5(3047 bytes) 6`, 0, 0, 1},
		{"too large, inner id only", `{"jsonrpc":"2.0","result":[{"a":"` + big + `","id":7}]}` + "\n" + answer(6), "6", 0, 0, 1},
		{"too large request", `{"jsonrpc":"2.0","id":5,"method":"x","params":"` + big + `"}` + "\n" + answer(6), "6", 0, 0, 1},
		{"too large request, method last", `{"jsonrpc":"2.0","id":5,"params":"` + big + `","method":"x"}` + "\n", "", 0, 0, 1},
		{"too large junk", big + "\n" + answer(6) + "\n" + big, "6", 0, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				l, got := read(t, src, 2000)
				if ids(got) != c.want {
					t.Errorf("%s: got %s, want %s", how, ids(got), c.want)
				}
				if l.skipped.Load() != c.skipped || l.repaired.Load() != c.repaired || l.tooLarge.Load() != c.tooLarge || l.received.Load() != int64(len(c.in)) {
					t.Errorf("%s: skipped %d repaired %d too large %d received %d", how,
						l.skipped.Load(), l.repaired.Load(), l.tooLarge.Load(), l.received.Load())
				}
			}
		})
	}
}

func TestLinesLimitIsExact(t *testing.T) {
	line := answer(1)
	if _, got := read(t, strings.NewReader(line+"\n"), len(line)); ids(got) != "1" {
		t.Errorf("a line of exactly the limit: %s", ids(got))
	}
	if _, got := read(t, strings.NewReader(line+"\n"), len(line)-1); ids(got) != fmt.Sprintf("1(%d bytes)", len(line)) {
		t.Errorf("a line of one byte more: %s", ids(got))
	}
}

func TestLinesDamageIsExplained(t *testing.T) {
	_, got := read(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+"}\n"), 2000)
	if len(got) != 1 || got[0].Error != nil || got[0].Damaged != "JSON nested too deeply" {
		t.Fatalf("got %+v", got)
	}
}

// Multi-byte characters lie across every buffer border; the buffer grows for a
// large message and is small again afterwards.
func TestLinesBuffer(t *testing.T) {
	text := strings.Repeat("é😀", 1<<18)
	in := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%q}`+"\n%s\n", text, answer(2))
	l, got := read(t, strings.NewReader(in), 64<<20)
	var back string
	if ids(got) != "1 2" || json.Unmarshal(got[0].Result, &back) != nil || back != text {
		t.Fatalf("got %s", ids(got))
	}
	if len(l.buf) != startBuffer || l.repaired.Load() != 0 {
		t.Errorf("buffer %d, repaired %d", len(l.buf), l.repaired.Load())
	}
}

// A line made to be slow: many openings that all fail, each over a long tail.
func TestLinesSalvageIsBounded(t *testing.T) {
	in := strings.Repeat(`{"jsonrpc":`, 400) + "[" + strings.Repeat("1,", 1<<18) + "1"
	if _, got := read(t, strings.NewReader(in), 64<<20); len(got) != 0 {
		t.Errorf("got %s", ids(got))
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("x"+answer(1)+answer(2)+"\n["+answer(1)+"]\n"), 100)
	f.Add([]byte(`{"jsonrpc":"2.0","result":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx","id":1}`), 30)
	f.Add([]byte("\xff"+`{"jsonrpc":"2.0","id":1,"result":[NaN]}`), 200)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 1 || limit > 1<<16 {
			limit = 100
		}
		a, got := read(t, bytes.NewReader(in), limit)
		b, again := read(t, iotest.OneByteReader(bytes.NewReader(in)), limit)
		if ids(got) != ids(again) || a.skipped.Load() != b.skipped.Load() || a.tooLarge.Load() != b.tooLarge.Load() {
			t.Fatalf("depends on how it arrives: %s / %s", ids(got), ids(again))
		}
		for _, m := range got {
			if m.Method == "" && m.ID == nil {
				t.Fatalf("neither a method nor an id: %+v", m)
			}
		}
	})
}
