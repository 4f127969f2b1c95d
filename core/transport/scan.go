package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/goccy/go-json"
)

// maxDepth bounds nesting: a host must be able to decode what we hand it, and
// Python's decoder gives up a little below its recursion limit of 1000.
const maxDepth = 512

var (
	errSyntax   = errors.New("not valid JSON")
	errDepth    = errors.New("JSON nested too deeply")
	errEnvelope = errors.New("valid JSON, but no JSON-RPC 2.0 message")
)

// Scan splits one JSON-RPC message into m without decoding it. It reads the line
// once and checks all of it: whatever it accepts is valid JSON, nested values
// included. Members may come in any order, unknown ones are skipped, of
// duplicates the last wins; an `"error":null` beside a result counts as absent.
// Invalid UTF-8 inside strings is the caller's affair. m aliases line, and is
// meaningless when an error is returned.
func Scan(line []byte, m *Message) error {
	var e envelope
	end := e.scan(line, space(line, 0))
	if end >= 0 && space(line, end) != len(line) {
		return errSyntax
	}
	err := e.finish(end, m)
	m.Bytes = int64(len(line))
	return err
}

// scanAt is Scan for an object inside a line; it returns the index after it.
func scanAt(line []byte, i int, m *Message) (int, error) {
	var e envelope
	end := e.scan(line, i)
	err := e.finish(end, m)
	m.Bytes = int64(end - i)
	return end, err
}

// member numbers the top-level members of an envelope.
type member int

const (
	unknown member = iota
	jsonrpc
	id
	method
	params
	result
	failure
	members
)

func memberOf(key []byte) member {
	switch string(key) { // no allocation: the compiler compares in place
	case "jsonrpc":
		return jsonrpc
	case "id":
		return id
	case "method":
		return method
	case "params":
		return params
	case "result":
		return result
	case "error":
		return failure
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		return memberOf([]byte(unquote(key)))
	}
	return unknown
}

// envelope is what was seen so far; after a failed scan it still holds the
// members before the fault, which is how the id of a damaged answer is found.
type envelope struct {
	raw  [members][]byte
	open member // the member whose value was read last or is being read
}

// scan reads the object at b[i] and returns the index after it, or a negative fault.
func (e *envelope) scan(b []byte, i int) int {
	if i >= len(b) || b[i] != '{' {
		return bad
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return bad
		}
		end := text(b, i)
		if end < 0 {
			return end
		}
		e.open = memberOf(b[i+1 : end-1])
		i = space(b, end)
		if i >= len(b) || b[i] != ':' {
			return bad
		}
		i = space(b, i+1)
		if end = value(b, i, maxDepth-1); end < 0 {
			return end
		}
		e.raw[e.open] = b[i:end:end]
		i = space(b, end)
		if i >= len(b) {
			return bad
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case '}':
			return i + 1
		default:
			return bad
		}
	}
}

// finish checks that the object is a JSON-RPC message and gives it out. An answer
// with neither a result nor an error is one: its call must fail, not wait.
func (e *envelope) finish(end int, m *Message) error {
	switch {
	case end == deep:
		return errDepth
	case end < 0:
		return errSyntax
	case !e.version():
		return errEnvelope
	}
	if id := e.raw[id]; id != nil && id[0] != '"' && id[0] != 'n' && (id[0] > '9' || id[0] < '-') {
		return errEnvelope
	}
	*m = Message{ID: e.raw[id], Params: e.raw[params], Result: e.raw[result], Error: e.raw[failure]}
	if raw := e.raw[method]; raw != nil {
		if raw[0] != '"' || len(raw) == 2 {
			return errEnvelope
		}
		m.Method = methodName(raw[1 : len(raw)-1])
		return nil
	}
	if m.ID == nil || string(m.ID) == "null" && m.Result == nil && m.Error == nil {
		return errEnvelope
	}
	if m.Result != nil && string(m.Error) == "null" {
		m.Error = nil
	}
	return nil
}

// version demands the member "jsonrpc":"2.0": servers print JSON log lines to
// their standard output, and one with an id and a result must not end a call.
func (e *envelope) version() bool {
	raw := e.raw[jsonrpc]
	return string(raw) == `"2.0"` ||
		len(raw) > 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 && unquote(raw[1:len(raw)-1]) == "2.0"
}

// methodName saves an allocation for the methods that servers use all the time.
func methodName(b []byte) string {
	switch string(b) {
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	case "notifications/resources/updated":
		return "notifications/resources/updated"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "ping":
		return "ping"
	case "elicitation/create":
		return "elicitation/create"
	case "sampling/createMessage":
		return "sampling/createMessage"
	case "roots/list":
		return "roots/list"
	}
	if bytes.IndexByte(b, '\\') >= 0 {
		return unquote(b)
	}
	return string(b)
}

// unquote decodes the inside of a string that text has accepted.
func unquote(inside []byte) string {
	quoted := make([]byte, 0, len(inside)+2)
	quoted = append(append(append(quoted, '"'), inside...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}

// Faults that the functions below return in place of an index.
const (
	bad  = -1
	deep = -2
)

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns the index after the JSON value at b[i]; depth is how many more
// levels it may open.
func value(b []byte, i, depth int) int {
	if i >= len(b) {
		return bad
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
		if depth <= 0 {
			return deep
		}
		return container(b, i, depth-1)
	case 't':
		return literal(b, i, "true")
	case 'f':
		return literal(b, i, "false")
	case 'n':
		return literal(b, i, "null")
	}
	return number(b, i)
}

func container(b []byte, i, depth int) int {
	object := b[i] == '{'
	closer := b[i] + 2 // in ASCII '{' + 2 is '}', and '[' + 2 is ']'
	i = space(b, i+1)
	if i < len(b) && b[i] == closer {
		return i + 1
	}
	for {
		if object {
			if i >= len(b) || b[i] != '"' {
				return bad
			}
			if i = text(b, i); i < 0 {
				return i
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return bad
			}
			i = space(b, i+1)
		}
		if i = value(b, i, depth); i < 0 {
			return i
		}
		if i = space(b, i); i >= len(b) {
			return bad
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case closer:
			return i + 1
		default:
			return bad
		}
	}
}

func literal(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return bad
	}
	return i + len(word)
}

func number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return bad
	case b[i] == '0':
		i++
	default:
		if i = digits(b, i); i < 0 {
			return bad
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return bad
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits wants at least one digit.
func digits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return bad
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text returns the index after the string whose opening quote is b[i]. Eight bytes are looked
// at in one step, and where those are plain the next 24 with one branch: most strings are
// short, and most of a large result is text with an escape in each of its lines.
func text(b []byte, i int) int {
	i++
	for {
		for i+8 <= len(b) {
			if m := marks(b[i:]); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
			} else if i+32 > len(b) {
				i += 8
				continue
			} else {
				words := (*[32]byte)(b[i:])
				m1, m2, m3 := marks(words[8:16]), marks(words[16:24]), marks(words[24:])
				switch {
				case m1|m2|m3 == 0:
					i += 32
					continue
				case m1 != 0:
					i += 8 + bits.TrailingZeros64(m1)>>3
				case m2 != 0:
					i += 16 + bits.TrailingZeros64(m2)>>3
				default:
					i += 24 + bits.TrailingZeros64(m3)>>3
				}
			}
			if b[i] == '\\' && i+1 < len(b) && escapes[b[i+1]] {
				i += 2
				continue
			}
			break
		}
		for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' { // the last bytes
			i++
		}
		if i >= len(b) || b[i] < 0x20 {
			return bad
		}
		if b[i] == '"' {
			return i + 1
		}
		if i = escape(b, i+1); i < 0 {
			return bad
		}
	}
}

// marks sets the high bit of each of eight bytes that ends a run of plain text: a quote, a
// backslash, a control character. The lowest marked byte is exact; borrows mark wrong bytes
// only above it.
func marks(b []byte) uint64 {
	w := binary.LittleEndian.Uint64(b)
	low := w ^ ones*2 // of a quote this is 0x20: it falls below 0x21 with the control characters, and a space does not
	slash := w ^ ones*'\\'
	return ((low-ones*0x21)&^low | (slash-ones)&^slash) & highs
}

// escapes are the characters that make an escape with the backslash before them.
var escapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape returns the index after the escape whose character after the backslash is b[i].
func escape(b []byte, i int) int {
	if i >= len(b) {
		return bad
	}
	if escapes[b[i]] {
		return i + 1
	}
	if b[i] == 'u' {
		if len(b)-i < 5 {
			return bad
		}
		for _, c := range b[i+1 : i+5] {
			if c-'0' > 9 && c|0x20-'a' > 5 {
				return bad
			}
		}
		return i + 5
	}
	return bad
}
