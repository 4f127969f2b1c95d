package core

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// members reads a JSON object of the host member by member, checks each, and knows
// in the end which ones nobody asked for. Its errors name a member, the type that it
// has and what it must be; they never show a value, since any may be a secret.
//
// The first error is kept and ends all reading, so that callers read straight on.
// A member that is null counts as absent: it is how Python and JavaScript say so.
type members struct {
	path   string // of the object, "cache." for instance
	values map[string][]byte
	order  []string
	known  []string
	fail   *error
}

// maxShown bounds how much of an unknown name an error repeats.
const maxShown = 64

func readMembers(path string, raw []byte, fail *error) *members {
	m := &members{path: path, values: map[string][]byte{}, fail: fail}
	// raw was checked to be an object of valid JSON: there is no error to meet.
	_ = rawjson.Members(raw, func(key string, value []byte) bool {
		if _, again := m.values[key]; !again {
			m.order = append(m.order, key)
		}
		m.values[key] = value // of equal keys the last wins
		return true
	})
	return m
}

func (m *members) refuse(format string, args ...any) {
	if *m.fail == nil {
		*m.fail = fault.New(fault.InvalidRequest, "", format, args...)
	}
}

// wrong refuses a member whose value is not what it must be: of another type than kind,
// or of that one but not as it should be.
func (m *members) wrong(name, kind, must string, raw []byte) {
	is := kindOf(raw)
	if is == kind {
		is = "another" + strings.TrimPrefix(strings.TrimPrefix(kind, "an"), "a")
	}
	m.refuse("the option %q must be %s, but is %s", m.path+clip(name), must, is)
}

// get returns nil for what is absent, and after an error.
func (m *members) get(name string) []byte {
	if !slices.Contains(m.known, name) {
		m.known = append(m.known, name)
	}
	raw := m.values[name]
	if *m.fail != nil || kindOf(raw) == "null" {
		return nil
	}
	return raw
}

// end refuses the members that nobody asked for.
func (m *members) end() {
	for _, name := range m.order {
		if *m.fail != nil {
			return
		}
		if slices.Contains(m.known, name) {
			continue
		}
		if near := nearest(name, m.known); near != "" {
			m.refuse("there is no option %q; did you mean %q?", m.path+clip(name), m.path+near)
		} else {
			m.refuse("there is no option %q; remove it. Known are %s", m.path+clip(name), strings.Join(m.known, ", "))
		}
	}
}

// object reads a nested object with read, which sees nothing when it is absent.
func (m *members) object(name string, read func(*members)) {
	raw := m.get(name)
	if raw == nil {
		return
	}
	if kindOf(raw) != "an object" {
		m.wrong(name, "", "an object", raw)
		return
	}
	inner := readMembers(m.path+name+".", raw, m.fail)
	read(inner)
	inner.end()
}

func (m *members) bool(name string, into *bool) {
	switch raw := m.get(name); {
	case raw == nil:
	case kindOf(raw) == "a boolean":
		*into = raw[0] == 't'
	default:
		m.wrong(name, "", "true or false", raw)
	}
}

// string reads a text that is to be a path, a name or an address: not empty, no NUL.
func (m *members) string(name string, into *string) {
	if raw := m.get(name); raw != nil {
		if s, ok := text(raw); ok && s != "" {
			*into = s
		} else {
			m.wrong(name, "a string", "a string that is not empty and has no NUL byte", raw)
		}
	}
}

// word reads one of a closed set of words.
func (m *members) word(name string, into *string, words ...string) {
	if raw := m.get(name); raw != nil {
		if s, ok := rawjson.String(raw); ok && slices.Contains(words, s) {
			*into = s
		} else {
			m.wrong(name, "a string", oneOf(words), raw)
		}
	}
}

func (m *members) strings(name string, into *[]string) {
	if raw := m.get(name); raw != nil {
		list, ok := texts(raw)
		if !ok {
			m.wrong(name, "an array", "an array of strings without NUL bytes", raw)
			return
		}
		*into = list
	}
}

// int reads a whole number within bounds.
func (m *members) int(name string, into *int64, least, most int64) {
	raw := m.get(name)
	if raw == nil {
		return
	}
	if n, ok := whole(raw); ok && least <= n && n <= most {
		*into = n
		return
	}
	m.wrong(name, "a number", fmt.Sprintf("a whole number from %d to %d", least, most), raw)
}

// whole takes 250, and 250.0 and 2.5e2 as some hosts write it.
func whole(raw []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

// small is int for what fits an int on every machine.
func (m *members) small(name string, into *int, least, most int32) {
	n := int64(*into)
	m.int(name, &n, int64(least), int64(most))
	*into = int(n)
}

// ms reads milliseconds.
func (m *members) ms(name string, into *time.Duration, least, most time.Duration) {
	n := int64(-1)
	m.int(name, &n, least.Milliseconds(), most.Milliseconds())
	if n >= 0 && *m.fail == nil {
		*into = time.Duration(n) * time.Millisecond
	}
}

// own reads a value of several forms by its type's own decoder.
func (m *members) own(name string, into json.Unmarshaler, must string) {
	if raw := m.get(name); raw != nil && into.UnmarshalJSON(raw) != nil {
		m.wrong(name, kindOf(raw), must, raw)
	}
}

// need refuses an object without a member that it makes no sense without.
func (m *members) need(name string) {
	if m.get(name) == nil {
		m.refuse("the option %q is missing", m.path+name)
	}
}

// each calls f with the members of a nested object of free names, in order, nulls left out.
func (m *members) each(name, kind, must string, f func(key string, raw []byte) bool) {
	raw := m.get(name)
	if raw == nil {
		return
	}
	if kindOf(raw) != "an object" {
		m.wrong(name, "", "an object", raw)
		return
	}
	inner := readMembers(m.path+name+".", raw, m.fail)
	for _, key := range inner.order {
		if value := inner.values[key]; kindOf(value) != "null" && !f(key, value) {
			inner.wrong(key, kind, must, value)
			return
		}
	}
}

// text is a string without NUL bytes: those would cut it short in the system's hands.
func text(raw []byte) (string, bool) {
	s, ok := rawjson.String(raw)
	return s, ok && !strings.Contains(s, "\x00")
}

func texts(raw []byte) ([]string, bool) {
	list, ok := []string{}, true
	err := rawjson.Elements(raw, func(value []byte) bool {
		var s string
		if s, ok = text(value); ok {
			list = append(list, s)
		}
		return ok
	})
	return list, ok && err == nil
}

// kindOf names the type of a raw JSON value as errors say it.
func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return "absent"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// clip shortens a name that a host made up. What follows a = may be a value:
// {"env":{"TOKEN=secret":""}}.
func clip(name string) string {
	if i := strings.IndexByte(name, '='); i > 0 {
		name = name[:i] + "=…"
	}
	if len(name) > maxShown {
		return strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	return name
}

// nearest finds what a misspelt or snake_case name was meant to be, or "".
func nearest(name string, known []string) string {
	fold := strings.NewReplacer("_", "", "-", "")
	plain := func(s string) string { return strings.ToLower(fold.Replace(s)) }
	name = plain(clip(name))
	best, found := max(2, len(name)/3)+1, ""
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, plain(k)); d < best && d < len(name) {
			best, found = d, k
		}
	}
	return found
}
