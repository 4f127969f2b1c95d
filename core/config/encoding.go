package config

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText gives a text as UTF-8 without a byte order mark. mended says
// that bytes which were not UTF-8 were replaced.
func decodeText(data []byte) (text []byte, mended bool, err error) {
	if text, err = unmarked(data); err != nil {
		return nil, false, err
	}
	if !utf8.Valid(text) {
		return mend(text), true, nil
	}
	return text, false, nil
}

// unmarked gives what should be UTF-8, without a byte order mark.
func unmarked(data []byte) ([]byte, error) {
	text, err := decodeUTF16(data)
	return bytes.TrimPrefix(text, []byte(byteOrderMark)), err
}

const byteOrderMark = "\xef\xbb\xbf"

// mend replaces what is not UTF-8.
func mend(text []byte) []byte { return bytes.ToValidUTF8(text, []byte("\uFFFD")) }

// decodeUTF16 gives UTF-16 text (as some Windows editors write it) as UTF-8, and
// any other text as it is. Without a byte order mark a zero byte beside an ASCII
// one gives it away: configs of all formats begin with an ASCII character.
func decodeUTF16(b []byte) ([]byte, error) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		order, b = binary.LittleEndian, b[2:]
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		order, b = binary.BigEndian, b[2:]
	case len(b) >= 2 && b[0] != 0 && b[1] == 0:
		order = binary.LittleEndian
	case len(b) >= 2 && b[0] == 0 && b[1] != 0:
		order = binary.BigEndian
	default:
		return b, nil
	}
	if len(b)%2 != 0 {
		return nil, errors.New("it looks like UTF-16 but ends inside a character; save it as UTF-8")
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// places turns offsets in a text into positions. It remembers the last one, so
// that neighbours are cheap.
type places struct {
	data                 []byte
	lines                []int // how many line breaks stand before each part of partSize, of a large text
	offset, line, column int
}

func newPlaces(data []byte) places { return places{data: data, line: 1, column: 1} }

func (p *places) pos(offset int) Pos {
	onLine := true // where the column is known
	switch part := offset / partSize; {
	case part < len(p.lines) && max(offset-p.offset, p.offset-offset) > partSize:
		p.offset, p.line, onLine = part*partSize, 1+p.lines[part], false
	case offset < p.offset-offset: // nearer to the beginning
		p.offset, p.line, p.column = 0, 1, 1
	}
	from, to, step := p.offset, offset, 1
	if to < from {
		from, to, step = to, from, -1
	}
	part := p.data[from:to]
	if n := bytes.Count(part, []byte{'\n'}); n == 0 && onLine {
		p.column += step * utf8.RuneCount(part)
	} else {
		p.line += step * n
		lineStart := bytes.LastIndexByte(p.data[:offset], '\n') + 1
		p.column = utf8.RuneCount(p.data[lineStart:offset]) + 1
	}
	p.offset = offset
	return Pos{p.line, p.column}
}
