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

// optionReader reads a JSON object of the host member by member, checks each, and knows
// in the end which ones nobody asked for. Its errors name a member, the type that it
// has and what it must be; they never show a value, since any may be a secret.
//
// The first error is kept and ends all reading, so that callers read straight on.
// A member that is null counts as absent: it is how Python and JavaScript say so.
type optionReader struct {
	path   string // of the object, "cache." for instance
	values map[string][]byte
	order  []string
	known  []string
	fail   *error
}

// maxShown bounds how much of an unknown name an error repeats.
const maxShown = 64

func newOptionReader(path string, raw []byte, fail *error) *optionReader {
	r := &optionReader{path: path, values: map[string][]byte{}, fail: fail}
	err := rawjson.Members(raw, func(key string, value []byte) bool {
		if _, again := r.values[key]; !again {
			r.order = append(r.order, key)
		}
		r.values[key] = value // of equal keys the last wins
		return true
	})
	if err != nil {
		r.refuse("the options cannot be read: %w", err)
	}
	return r
}

func (r *optionReader) refuse(format string, args ...any) {
	if *r.fail == nil {
		*r.fail = fault.New(fault.InvalidRequest, "", format, args...)
	}
}

// wrong refuses a member whose value is not what it must be: of another type than kind,
// or of that one but not as it should be.
func (r *optionReader) wrong(name, kind, must string, raw []byte) {
	is := jsonKind(raw)
	if is == kind {
		is = "another" + strings.TrimPrefix(strings.TrimPrefix(kind, "an"), "a")
	}
	r.refuse("the option %q must be %s, but is %s", r.path+clip(name), must, is)
}

// get returns nil for what is absent, and after an error.
func (r *optionReader) get(name string) []byte {
	if !slices.Contains(r.known, name) {
		r.known = append(r.known, name)
	}
	raw := r.values[name]
	if *r.fail != nil || jsonKind(raw) == "null" {
		return nil
	}
	return raw
}

// end refuses the members that nobody asked for.
func (r *optionReader) end() {
	for _, name := range r.order {
		if *r.fail != nil {
			return
		}
		if slices.Contains(r.known, name) {
			continue
		}
		if near := nearest(name, r.known); near != "" {
			r.refuse("there is no option %q; did you mean %q?", r.path+clip(name), r.path+near)
		} else {
			r.refuse("there is no option %q; remove it. Known are %s", r.path+clip(name), strings.Join(r.known, ", "))
		}
	}
}

// object reads a nested object with read, which sees nothing when it is absent.
func (r *optionReader) object(name string, read func(*optionReader)) {
	raw := r.get(name)
	if raw == nil {
		return
	}
	if jsonKind(raw) != "an object" {
		r.wrong(name, "", "an object", raw)
		return
	}
	inner := newOptionReader(r.path+name+".", raw, r.fail)
	read(inner)
	inner.end()
}

func (r *optionReader) bool(name string, into *bool) {
	switch raw := r.get(name); {
	case raw == nil:
	case jsonKind(raw) == "a boolean":
		*into = raw[0] == 't'
	default:
		r.wrong(name, "", "true or false", raw)
	}
}

// string reads a text that is to be a path, a name or an address: not empty, no NUL.
func (r *optionReader) string(name string, into *string) {
	if raw := r.get(name); raw != nil {
		if s, ok := text(raw); ok && s != "" {
			*into = s
		} else {
			r.wrong(name, "a string", "a string that is not empty and has no NUL byte", raw)
		}
	}
}

// word reads one of a closed set of words.
func (r *optionReader) word(name string, into *string, words ...string) {
	if raw := r.get(name); raw != nil {
		if s, ok := rawjson.String(raw); ok && slices.Contains(words, s) {
			*into = s
		} else {
			r.wrong(name, "a string", oneOf(words), raw)
		}
	}
}

func (r *optionReader) strings(name string, into *[]string) {
	if raw := r.get(name); raw != nil {
		list, ok := texts(raw)
		if !ok {
			r.wrong(name, "an array", "an array of strings without NUL bytes", raw)
			return
		}
		*into = list
	}
}

// int reads a whole number within bounds.
func (r *optionReader) int(name string, into *int64, least, most int64) {
	raw := r.get(name)
	if raw == nil {
		return
	}
	if n, ok := whole(raw); ok && least <= n && n <= most {
		*into = n
		return
	}
	r.wrong(name, "a number", fmt.Sprintf("a whole number from %d to %d", least, most), raw)
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
func (r *optionReader) small(name string, into *int, least, most int32) {
	n := int64(*into)
	r.int(name, &n, int64(least), int64(most))
	*into = int(n)
}

// ms reads milliseconds.
func (r *optionReader) ms(name string, into *time.Duration, least, most time.Duration) {
	n := int64(-1)
	r.int(name, &n, least.Milliseconds(), most.Milliseconds())
	if n >= 0 && *r.fail == nil {
		*into = time.Duration(n) * time.Millisecond
	}
}

// own reads a value of several forms by its type's own decoder.
func (r *optionReader) own(name string, into json.Unmarshaler, must string) {
	if raw := r.get(name); raw != nil && into.UnmarshalJSON(raw) != nil {
		r.wrong(name, jsonKind(raw), must, raw)
	}
}

// need refuses an object without a member that it makes no sense without.
func (r *optionReader) need(name string) {
	if r.get(name) == nil {
		r.refuse("the option %q is missing", r.path+name)
	}
}

// each calls f with the members of a nested object of free names, in order, nulls left out.
func (r *optionReader) each(name, kind, must string, f func(key string, raw []byte) bool) {
	raw := r.get(name)
	if raw == nil {
		return
	}
	if jsonKind(raw) != "an object" {
		r.wrong(name, "", "an object", raw)
		return
	}
	inner := newOptionReader(r.path+name+".", raw, r.fail)
	for _, key := range inner.order {
		if value := inner.values[key]; jsonKind(value) != "null" && !f(key, value) {
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

// jsonKind names the type of a raw JSON value as errors say it.
func jsonKind(raw []byte) string {
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
