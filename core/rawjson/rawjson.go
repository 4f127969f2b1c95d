// Package rawjson reads and writes JSON without decoding it, so that what a
// server sent reaches the host byte for byte: unknown fields, large numbers and
// white space included.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/goccy/go-json"
)

// ErrNotObject is returned for anything that is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

// Members calls fn for each member of obj, in order, with the decoded key and
// the raw value; fn returns false to stop. obj must be valid JSON. Values alias obj.
func Members(obj []byte, fn func(key string, value []byte) bool) error {
	i := space(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return ErrNotObject
	}
	i = space(obj, i+1)
	for i < len(obj) && obj[i] == '"' {
		end := str(obj, i)
		key, err := text(obj[i:end])
		if err != nil {
			return err
		}
		i = space(obj, end)
		if i >= len(obj) || obj[i] != ':' {
			return ErrNotObject
		}
		i = space(obj, i+1)
		end = Value(obj, i)
		if !fn(key, obj[i:end]) {
			return nil
		}
		i = space(obj, end)
		if i < len(obj) && obj[i] == ',' {
			i = space(obj, i+1)
		}
	}
	return nil
}

// Elements calls fn for each element of the array arr; like Members.
func Elements(arr []byte, fn func(value []byte) bool) error {
	i := space(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return errors.New("not a JSON array")
	}
	i = space(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end := Value(arr, i)
		if end == i || !fn(arr[i:end]) {
			return nil
		}
		i = space(arr, end)
		if i < len(arr) && arr[i] == ',' {
			i = space(arr, i+1)
		}
	}
	return nil
}

// Get gives one member's raw value, or nil. The last of equal keys wins, as in
// every decoder that hosts use.
func Get(obj []byte, key string) []byte {
	var found []byte
	_ = Members(obj, func(k string, v []byte) bool {
		if k == key {
			found = v
		}
		return true
	})
	return found
}

// String decodes a raw JSON string; "" and false for anything else.
func String(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	s, err := text(raw)
	return s, err == nil
}

// IsObject tells whether raw begins as an object.
func IsObject(raw []byte) bool {
	i := space(raw, 0)
	return i < len(raw) && raw[i] == '{'
}

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte {
	plain := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	out, err := json.MarshalWithOption(s, json.DisableHTMLEscape())
	if err != nil { // cannot happen for a string
		return append(b, `""`...)
	}
	return append(b, out...)
}

func text(quoted []byte) (string, error) {
	if len(quoted) < 2 || quoted[len(quoted)-1] != '"' {
		return "", errors.New("not a JSON string")
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// str gives the index behind the string that begins at i. Eight bytes are looked at in one step.
func str(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i++; i+8 <= len(b); {
		quote, slash := binary.LittleEndian.Uint64(b[i:])^ones*'"', binary.LittleEndian.Uint64(b[i:])^ones*'\\'
		m := ((quote-ones)&^quote | (slash-ones)&^slash) & highs // the lowest marked byte is one of the two
		if m == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(m) >> 3; b[i] == '"' {
			return i + 1
		}
		i += 2
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b) // cut short: not valid JSON
}

// Value gives the index behind the value that begins at i.
func Value(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return str(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = str(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}
