package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// jsonFile is a JSONC text: comments and trailing commas are fine. It is decoded
// piece by piece.
type jsonFile struct {
	places
	there   int      // how much of the text is there; all of it after root
	arrival *arrival // of the rest
	values  int      // left of maxValues
	// extents are where the objects and arrays of the upper levels lie, by their
	// start: so a large file is gone through once, not once per level.
	extents []extent
	sibling int            // the extent after the last one that was asked for
	commas  []*syntaxError // that are missing between members
}

// next is the index of the first extent that is not in this one.
type extent struct{ start, end, values, next int }

const (
	extentDepth = 3       // what lies deeper is gone through anew
	maxExtents  = 1 << 17 // as is what comes after these
)

func newJSONFile(text []byte) *jsonFile {
	return &jsonFile{places: newPlaces(text), there: len(text), values: maxValues}
}

// openJSON goes through a text while it arrives.
func openJSON(text []byte, a *arrival) (document, span, bool, error) {
	f := newJSONFile(text)
	f.there, f.arrival = a.there, a
	top, ok, err := f.root()
	switch lost := a.wait(); {
	case lost != nil:
		return nil, span{}, false, lost
	case !a.valid:
		return nil, span{}, false, errNotUTF8
	}
	f.there, f.arrival, f.lines = len(text), nil, a.lines
	return f, top, ok, err
}

// more waits for more of the text. False: there is none.
func (f *jsonFile) more() bool {
	if f.arrival == nil || !f.arrival.next() {
		return false
	}
	f.there = f.arrival.there
	return true
}

func (f *jsonFile) losses() []*syntaxError { return nil }
func (f *jsonFile) slips() []*syntaxError  { return f.commas }

// commaMissing notes that behind the member that ends here the next one begins. It is the
// commonest slip in files that are written by hand, and only one reading makes sense.
func (f *jsonFile) commaMissing(end int) {
	at := f.pos(end)
	if len(f.commas) < maxCommas && !slices.ContainsFunc(f.commas, func(e *syntaxError) bool { return e.pos == at }) {
		f.commas = append(f.commas, &syntaxError{at, "\",\" is missing after the value"})
	}
}

const maxCommas = 20 // that are told of

func (f *jsonFile) errorAt(offset int, format string, args ...any) error {
	return &syntaxError{f.pos(min(offset, len(f.data))), fmt.Sprintf(format, args...)}
}

func (f *jsonFile) root() (s span, ok bool, err error) {
	i, err := f.space(0)
	if err != nil || i == len(f.data) {
		return span{}, false, err
	}
	end, _, err := f.skip(i)
	if err != nil {
		return span{}, false, err
	}
	rest, err := f.space(end)
	if err != nil {
		return span{}, false, err
	}
	if rest < len(f.data) {
		return span{}, false, f.errorAt(rest, "there is text after the end of the JSON value")
	}
	return span{in: &f.places, offset: i, start: i, end: end}, true, nil
}

func (f *jsonFile) kind(s span) Kind {
	switch c := f.data[s.start]; c {
	case '{', '[', '"', 'n':
		return Kind(c)
	case 't', 'f':
		return KindBool
	}
	return KindNumber
}

// skim decodes no value.
func (f *jsonFile) skim(object span, want func(name string) bool, dropped func(span)) ([]span, error) {
	var members []span
	i, err := f.space(object.start + 1)
	if err != nil {
		return nil, err
	}
	for f.data[i] != '}' {
		if f.data[i] != '"' {
			return nil, f.errorAt(i, "a member's name in double quotes is expected here")
		}
		nameStart := i
		i, _, err = f.skip(i)
		if err != nil {
			return nil, err
		}
		name, err := f.text(nameStart, i)
		if err != nil {
			return nil, err
		}
		s := span{name: name, in: &f.places, offset: nameStart}
		if i, err = f.expect(i, ":", "after the name"); err != nil {
			return nil, err
		}
		if i, err = f.space(i + 1); err != nil {
			return nil, err
		}
		s.start = i
		if s.end, _, err = f.skip(i); err != nil {
			return nil, err
		}
		if want == nil || want(name) {
			members = append(members, s)
		}
		if i, err = f.space(s.end); err != nil {
			return nil, err
		}
		if i < len(f.data) && f.data[i] == '"' {
			f.commaMissing(s.end)
			continue
		}
		if i, err = f.expect(i, ",}", "after the value"); err != nil {
			return nil, err
		}
		if f.data[i] == ',' {
			if i, err = f.space(i + 1); err != nil {
				return nil, err
			}
		}
	}
	return lastWins(members, func(s span) string { return s.name }, dropped), nil
}

// expect moves over space to one of the characters in any. The object was
// skipped as a whole before, so its end is always found.
func (f *jsonFile) expect(i int, any, where string) (int, error) {
	i, err := f.space(i)
	if err != nil {
		return i, err
	}
	if i == len(f.data) || strings.IndexByte(any, f.data[i]) < 0 {
		return i, f.errorAt(i, "%q is expected %s", any[:1], where)
	}
	return i, nil
}

// space moves over white space and comments.
func (f *jsonFile) space(i int) (int, error) {
	for i < f.there || f.more() {
		switch f.data[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '/':
			end, err := f.comment(i)
			if err != nil {
				return i, err
			}
			i = end
		default:
			return i, nil
		}
	}
	return i, nil
}

func (f *jsonFile) comment(i int) (int, error) {
	for i+2 > f.there && f.more() {
		continue
	}
	switch rest := f.data[i:f.there]; {
	case bytes.HasPrefix(rest, []byte("//")):
		if end := f.index(i+2, "\n"); end >= 0 {
			return end + 1, nil
		}
		return len(f.data), nil
	case bytes.HasPrefix(rest, []byte("/*")):
		if end := f.index(i+2, "*/"); end >= 0 {
			return end + 2, nil
		}
		return i, f.errorAt(i, "this comment has no end")
	}
	return i, f.errorAt(i, "a single '/' stands here; comments begin with // or /*")
}

// index is where what stands next from i on, or -1.
func (f *jsonFile) index(i int, what string) int {
	for {
		if n := bytes.Index(f.data[i:f.there], []byte(what)); n >= 0 {
			return i + n
		}
		i = max(i, f.there-len(what)+1) // its beginning may be there
		if !f.more() {
			return -1
		}
	}
}

// extentAt finds the extent that begins at i. Mostly it is the one after the last.
func (f *jsonFile) extentAt(i int) (extent, bool) {
	n, known := f.sibling, true
	if n >= len(f.extents) || f.extents[n].start != i {
		n, known = slices.BinarySearchFunc(f.extents, i, func(e extent, start int) int { return e.start - start })
	}
	if !known {
		return extent{}, false
	}
	f.sibling = f.extents[n].next
	return f.extents[n], true
}

// skip moves over one value. It checks strings, brackets and depth only; values
// counts how many values lie in it, at most.
func (f *jsonFile) skip(i int) (end, values int, err error) {
	if e, known := f.extentAt(i); known {
		return e.end, e.values, nil
	}
	type level struct {
		opening byte
		values  int
		extent  int // its index, or -1
	}
	first := f.extents == nil // later ones would not be in order
	start := i
	var open []level
	for i < f.there || f.more() {
		switch c := f.data[i]; c {
		case '"':
			if i, err = f.skipString(i); err != nil {
				return i, 0, err
			}
		case '{', '[':
			if len(open) == maxDepth {
				return i, 0, f.errorAt(i, "it is nested deeper than %d levels", maxDepth)
			}
			here := level{c, values, -1}
			if first && len(open) < extentDepth && len(f.extents) < maxExtents {
				here.extent = len(f.extents)
				f.extents = append(f.extents, extent{start: i})
			}
			open = append(open, here)
			values++
			i++
		case '}', ']':
			if len(open) == 0 {
				return i, 0, f.errorAt(i, "a value is expected here, not '%c'", c)
			}
			last := open[len(open)-1]
			if last.opening+2 != c { // in ASCII a closing bracket is its opening one + 2
				return i, 0, f.errorAt(i, "'%c' closes a '%c'", c, last.opening)
			}
			open = open[:len(open)-1]
			i++
			if last.extent >= 0 {
				e := &f.extents[last.extent]
				e.end, e.values, e.next = i, values-last.values+1, len(f.extents)
			}
		case '/':
			if i, err = f.comment(i); err != nil {
				return i, 0, err
			}
			continue // a comment does not end a value
		case ' ', '\t', '\r', '\n', ':', ',':
			if len(open) == 0 {
				return i, 0, f.errorAt(i, "a value is expected here, not %q", c)
			}
			if c == ',' {
				values++
			}
			i++
			continue
		default:
			word := i
			for (i < f.there || f.more()) && isWordByte(f.data[i]) {
				i++
			}
			if i == word {
				for !utf8.FullRune(f.data[i:f.there]) && f.more() {
					continue
				}
				r, _ := utf8.DecodeRune(f.data[i:f.there])
				return i, 0, f.errorAt(i, "%q is not expected here", r)
			}
		}
		if len(open) == 0 {
			return i, values + 1, nil
		}
	}
	if start == len(f.data) || len(open) == 0 {
		return i, 0, f.errorAt(i, "the file ends where a value is expected, as if it were cut off")
	}
	return i, 0, f.errorAt(i, "the file ends inside a value, as if it were cut off")
}

func isWordByte(c byte) bool {
	return c == '-' || c == '+' || c == '.' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (f *jsonFile) skipString(i int) (int, error) {
	for n := i + 1; ; n++ {
		next := bytes.IndexByte(f.data[n:f.there], '"')
		if next < 0 {
			if n = f.index(f.there, `"`); n < 0 {
				break
			}
			next = 0
		}
		n += next
		escapes := n
		for f.data[escapes-1] == '\\' {
			escapes--
		}
		if (n-escapes)%2 == 0 {
			return n + 1, nil
		}
	}
	return i, f.errorAt(i, "this string has no end")
}

// text decodes a string.
func (f *jsonFile) text(start, end int) (string, error) {
	written := f.data[start:end]
	if !slices.ContainsFunc(written, func(c byte) bool { return c == '\\' || c < ' ' }) {
		return string(written[1 : len(written)-1]), nil
	}
	lit := hujson.Literal(written)
	if !lit.IsValid() {
		return "", f.errorAt(start, "this string is not valid JSON: a line break or a wrong escape is in it")
	}
	return lit.String(), nil
}

func (f *jsonFile) node(s span, dropped func(name string, at Pos)) (*Node, error) {
	_, values, err := f.skip(s.start)
	if err != nil {
		return nil, err
	}
	if f.values -= values; f.values < 0 {
		return nil, errTooLarge
	}
	text := f.data[s.start:s.end]
	v, err := hujson.Parse(text)
	if err != nil {
		return nil, f.parseError(s.start, text, err)
	}
	return f.convert(s.start, v, dropped), nil
}

// parseError gives hujson's error a place in the file and leaves out the text
// that it quotes, which may be a secret.
func (f *jsonFile) parseError(base int, text []byte, err error) error {
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr != nil {
		return f.errorAt(base, "it is not valid JSON")
	}
	offset := 0
	for ; line > 1; line-- {
		offset += bytes.IndexByte(text[offset:], '\n') + 1
	}
	offset += column - 1
	msg := "this is not valid JSON"
	inner := errors.Unwrap(err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		msg = "a value is missing before this"
	case base+offset < len(f.data) && f.data[base+offset] == '"' && inner != nil && strings.HasPrefix(inner.Error(), "invalid literal"):
		msg = "a line break or a wrong escape is in this string; a \\ is written as \\\\, in Windows paths too"
	case inner != nil && strings.HasPrefix(inner.Error(), "invalid character"):
		msg = inner.Error()
	}
	return f.errorAt(base+offset, "%s", msg)
}

func (f *jsonFile) convert(base int, v hujson.Value, dropped func(string, Pos)) *Node {
	n := &Node{Pos: f.pos(base + v.StartOffset)}
	switch value := v.Value.(type) {
	case hujson.Literal:
		n.Kind, n.Text = Kind(value.Kind()), value.String()
		if n.Kind == 't' || n.Kind == 'f' {
			n.Kind = KindBool
		}
	case *hujson.Array:
		n.Kind = KindArray
		for _, e := range value.Elements {
			n.Items = append(n.Items, f.convert(base, e, dropped))
		}
	case *hujson.Object:
		n.Kind = KindObject
		for _, m := range value.Members {
			name := m.Name.Value.(hujson.Literal).String()
			n.Members = append(n.Members, Member{name, f.pos(base + m.Name.StartOffset), f.convert(base, m.Value, dropped)})
		}
		n.Members = lastWins(n.Members, func(m Member) string { return m.Name }, func(m Member) {
			if dropped != nil {
				dropped(m.Name, m.Pos)
			}
		})
	}
	return n
}
