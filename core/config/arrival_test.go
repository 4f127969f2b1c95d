package config

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// arriving gives text in pieces that end at cuts. None is empty.
func arriving(text string, cuts ...int) *arrival {
	a := &arrival{parts: make(chan int, len(cuts)+1), valid: true}
	for _, cut := range append(cuts, len(text)) {
		a.parts <- cut
	}
	close(a.parts)
	a.next()
	return a
}

// outlined is what going through a text finds.
type outlined struct {
	top     span
	ok      bool
	err     string
	at      Pos
	extents []extent
}

func outline(text string, cuts ...int) outlined {
	f := newJSONFile([]byte(text))
	if len(cuts) > 0 {
		f.arrival = arriving(text, cuts...)
		f.there = f.arrival.there
	}
	top, ok, err := f.root()
	o := outlined{top: top, ok: ok, extents: f.extents}
	o.top.in = nil
	if err != nil {
		o.err = err.Error()
		var syntax *syntaxError
		if errors.As(err, &syntax) {
			o.at = syntax.pos
		}
	}
	return o
}

var inPieces = []string{
	"", " ", "{}", `{"a": [1, -2.5e3, {"b\"c\\": "d\\\""}, true], "é": null}`, "// c\n{ /* * / */ \"a\" /**/: // x\r\n 1, }\n// end", `{"a": "b`, `{"a": "b\"`,
	`{"a": 1} x`, "{\"a\": 1} /", "{\"a\": 1} / x", "{/* x", "{/* x *", "[1, 2", "[1}", `{"a": é}`, `{"a": €`, "nul", "[[[]]", "]", `"\\\\"`, `{"a"  "b"}`, "\n\n{\n\"a\": \n/}",
}

// TestTextInPieces: a text that arrives in pieces is what it is in one, wherever they meet.
func TestTextInPieces(t *testing.T) {
	for _, text := range inPieces {
		want := outline(text)
		for first := 1; first < len(text); first++ {
			for second := first + 1; second < len(text); second++ {
				if got := outline(text, first, second); !reflect.DeepEqual(got, want) {
					t.Fatalf("%q cut at %d and %d: %+v, want %+v", text, first, second, got, want)
				}
			}
		}
	}
}

func FuzzTextInPieces(f *testing.F) {
	for _, text := range inPieces {
		f.Add(text, uint16(3), uint16(4))
	}
	f.Fuzz(func(t *testing.T, text string, first, length uint16) {
		if len(text) < 3 {
			return
		}
		at := 1 + int(first)%(len(text)-2)
		cuts := []int{at}
		if second := at + 1 + int(length)%8; second < len(text) {
			cuts = append(cuts, second)
		}
		if got, want := outline(text, cuts...), outline(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q cut at %d: %+v, want %+v", text, cuts, got, want)
		}
	})
}

// TestLargeFiles: what is found while a file is read is what is true of it.
func TestLargeFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	unit := []byte("aé€\U0001F600\n")
	text := bytes.Repeat(unit, 4*partSize/len(unit)+1)
	path := filepath.Join(t.TempDir(), "f")
	for range 40 {
		want := bytes.Clone(text[:len(text)-rng.IntN(len(unit)*3)])
		if rng.IntN(2) == 0 { // spoil it, where two parts meet
			at := (1+rng.IntN(3))*partSize - 6 + rng.IntN(12)
			want[at] = byte(0x80 + rng.IntN(0x80))
		}
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, a, err := startFile(path, 100<<20)
		if err != nil || a == nil || a.there < 1 {
			t.Fatal(a, err)
		}
		if err := a.wait(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d: %v", len(got), len(want), err)
		}
		if a.valid != utf8.Valid(want) {
			t.Errorf("UTF-8: %v", a.valid)
		}
		p, plain := newPlaces(want), newPlaces(want)
		p.lines = a.lines
		for range 20 {
			at := rng.IntN(len(want))
			if !utf8.RuneStart(want[at]) {
				continue
			}
			if got, want := p.pos(at), plain.pos(at); got != want {
				t.Errorf("offset %d is at %v, want %v", at, got, want)
			}
		}
	}
	if _, _, err := startFile(path, int64(len(text)/2)); !errors.Is(err, errFileTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	for _, n := range []int{3 * partSize, len(text) + partSize, 8 * partSize} { // it grew, or shrank, since its size was seen
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, a, err := start(file, n); err != nil || !errors.Is(a.wait(), errChanged) {
			t.Errorf("%d bytes of %d: %v, %v", n, len(text), err, a.err)
		}
	}
}

// TestLargeFilesOfAllKinds: a large file is read as a small one is: with a mark, in UTF-16,
// with bytes that are not UTF-8, in each format, and with an error far inside.
func TestLargeFilesOfAllKinds(t *testing.T) {
	const servers = `{"mcpServers": {"a": {"command": "x"}}`
	fill := strings.Repeat(" ", 3*partSize)
	wide := func(s string) string {
		b := []byte{0xff, 0xfe}
		for _, c := range s {
			b = append(b, byte(c), 0)
		}
		return string(b)
	}
	for _, c := range []struct{ name, text, code string }{
		{"a.json", fill + servers + "}", ""},
		{"a.json", servers + fill + "}", ""},
		{"a.json", byteOrderMark + servers + fill + "}", ""},
		{"a.json", wide(servers + fill + "}"), ""},
		{"a.json", servers + fill + ", \"x\": \"\xff\"}", "invalid_encoding"},
		{"a.json", servers + fill, "syntax"},
		{"a.json", servers + "," + fill + "]", "syntax"},
		{"a.toml", "[mcp_servers.a]\ncommand = \"x\"\n" + fill, ""},
		{"a.yaml", fill, "too_large"},
	} {
		d := newDirs(t)
		r, err := Discover(t.Context(), Options{Cwd: d.project, Env: newEnv("linux", map[string]string{"HOME": d.home}), User: User{None: true},
			Files: []string{d.write(t, "$PROJECT/"+c.name, c.text)}})
		if err != nil {
			t.Fatal(err)
		}
		codes := ""
		for _, found := range r.Diagnostics {
			codes += found.Code
		}
		if codes != c.code || (len(r.Entries) == 1) != (c.code == "" || c.code == "invalid_encoding") {
			t.Errorf("%s of %q…: %q, %+v", c.name, c.text[:30], codes, r.Entries)
		}
	}
}
