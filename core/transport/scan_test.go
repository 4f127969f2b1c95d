package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	goccy "github.com/goccy/go-json"
)

func TestScan(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Message
	}{
		{"response", `{"jsonrpc":"2.0","id":7,"result":{"a":[1,2.5e-3,true,null,"x"]}}`,
			Message{ID: []byte("7"), Result: []byte(`{"a":[1,2.5e-3,true,null,"x"]}`)}},
		{"any order, spaces, string id", " { \"result\" : 9007199254740993 , \"id\" : \"7\" ,\t\"jsonrpc\" : \"2.0\" } \r",
			Message{ID: []byte(`"7"`), Result: []byte("9007199254740993")}},
		{"error", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
			Message{ID: []byte("null"), Error: []byte(`{"code":-32700,"message":"x"}`)}},
		{"null error beside a result", `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
			Message{ID: []byte("1"), Result: []byte("null")}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1}}`,
			Message{Method: "notifications/progress", Params: []byte(`{"x":1}`)}},
		{"request", `{"jsonrpc":"2.0","id":-1,"method":"my/own"}`, Message{ID: []byte("-1"), Method: "my/own"}},
		{"escapes in keys, method and version", `{"json\u0072pc":"2\u002e0","\u0069d":1,"me\u0074hod":"tools\/call \ud83d\ude00"}`,
			Message{ID: []byte("1"), Method: "tools/call 😀"}},
		{"duplicates, last wins", `{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"id":2,"result":1,"result":2}`,
			Message{ID: []byte("2"), Result: []byte("2")}},
		{"unknown members", `{"id":1,"ID":2,"extra":{"id":3,"result":[{}]},"jsonrpc":"2.0","result":"a\"b\\"}`,
			Message{ID: []byte("1"), Result: []byte(`"a\"b\\"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Message{TooLarge: 1, Params: []byte("stale")}
			if err := Scan([]byte(c.line), &m); err != nil {
				t.Fatal(err)
			}
			equal(t, m, c.want)
		})
	}
}

func equal(t *testing.T, got, want Message) {
	t.Helper()
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if !same(got.ID, want.ID) || got.Method != want.Method || !same(got.Params, want.Params) ||
		!same(got.Result, want.Result) || !same(got.Error, want.Error) || got.TooLarge != want.TooLarge {
		t.Fatalf("got  id %s method %q params %s result %s error %s too large %d\nwant id %s method %q params %s result %s error %s too large %d",
			got.ID, got.Method, got.Params, got.Result, got.Error, got.TooLarge,
			want.ID, want.Method, want.Params, want.Result, want.Error, want.TooLarge)
	}
}

func TestScanRefuses(t *testing.T) {
	ok := `{"jsonrpc":"2.0","id":1,"result":`
	for _, c := range []struct {
		line string
		want error
	}{
		{"", errSyntax}, {"null", errSyntax}, {"7", errSyntax}, {`"x"`, errSyntax}, {"[]", errSyntax}, {"{", errSyntax},
		{"Server v1 running", errSyntax},
		{ok + `{}}x`, errSyntax}, {ok + `{}`, errSyntax}, {ok + `}`, errSyntax}, {ok + `{},}`, errSyntax},
		{ok + `NaN}`, errSyntax}, {ok + `01}`, errSyntax}, {ok + `1.}`, errSyntax}, {ok + `-}`, errSyntax}, {ok + `1e}`, errSyntax}, {ok + `+1}`, errSyntax},
		{ok + `[1,]}`, errSyntax}, {ok + `[1 2]}`, errSyntax}, {ok + `{"a"}}`, errSyntax}, {ok + `{a:1}}`, errSyntax}, {ok + `[}}`, errSyntax},
		{ok + `"a` + "\t" + `"}`, errSyntax}, {ok + `"12345678` + "\x00" + `"}`, errSyntax}, {ok + `"\x"}`, errSyntax}, {ok + `"\u12g4"}`, errSyntax}, {ok + `"\u12`, errSyntax},
		{ok + `tru}`, errSyntax}, {ok + `nul`, errSyntax}, {ok + "'a'}", errSyntax},
		{ok + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}", errDepth},
		{ok + strings.Repeat("[", 1<<20), errDepth},
		{`{}`, errEnvelope},
		{`{"level":30,"id":1,"result":{},"method":"GET"}`, errEnvelope},
		{`{"jsonrpc":"1.0","id":1,"result":1}`, errEnvelope},
		{`{"jsonrpc":2.0,"id":1,"result":1}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":null}`, errEnvelope},
		{`{"jsonrpc":"2.0","result":1}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":{},"result":1}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":[1],"result":1}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":true,"result":1}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, errEnvelope},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, errEnvelope},
	} {
		if err := Scan([]byte(c.line), &Message{}); !errors.Is(err, c.want) {
			t.Errorf("%.80s: got %v, want %v", c.line, err, c.want)
		}
	}
	deepest := strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1)
	if err := Scan([]byte(ok+deepest+"}"), &Message{}); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`)
	var m Message
	if n := testing.AllocsPerRun(100, func() {
		if Scan(line, &m) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzScan compares with encoding/json and goccy/go-json: the same lines are
// refused, and the members are the same bytes.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":[1,2.5e-3,true,null,"x"]}}`,
		`{"jsonrpc":"2.0","id":"\u00e9\n","error":{"code":-1,"message":"é"}}`,
		`{"jsonrpc":"2.0","method":"a\/b","params":[]}`,
		` {"id":1, "result" : -0.0E+1 ,"jsonrpc":"2.0"} `,
		`{"jsonrpc":"2.0","id":1,"id":2,"result":"aaaaaaaaaaaaaaaaaa\\\"aaaaaaaaaa"}`,
		`{"jsonrpc":"2.0","id":1,"result":[[[[{}]]]],"error":null}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\x80aaaaaaa\x1f\"}", `{"jsonrpc":"2.0","id":""}`, `{"jsonrpc":"2.0","id":null}`, `[]`, `{"\ud800":1}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var m Message
		err := Scan(line, &m)
		if errors.Is(err, errDepth) {
			return // the oracles allow more
		}
		if !utf8.Valid(line) {
			return // the reader mends such lines before they are scanned
		}
		var std, other map[string]json.RawMessage
		stdErr := json.Unmarshal(line, &std)
		if goccyErr := goccy.Unmarshal(line, &other); (goccyErr == nil) != (stdErr == nil) {
			t.Skip("the oracles disagree")
		}
		if valid := stdErr == nil && std != nil; valid == errors.Is(err, errSyntax) {
			t.Fatalf("Scan: %v, encoding/json: %v", err, stdErr)
		} else if !valid {
			return
		}
		want, isMessage := expected(std)
		if isMessage != (err == nil) {
			t.Fatalf("Scan: %v, want a message: %v", err, isMessage)
		}
		if err == nil {
			equal(t, m, want)
		}
	})
}

// expected says by the plain rules what a decoded object is as a message.
func expected(o map[string]json.RawMessage) (Message, bool) {
	var version, method string
	if json.Unmarshal(o["jsonrpc"], &version) != nil || version != "2.0" {
		return Message{}, false
	}
	m := Message{ID: o["id"], Params: o["params"], Result: o["result"], Error: o["error"]}
	if m.ID != nil && strings.ContainsRune("{[tf", rune(m.ID[0])) {
		return m, false
	}
	if raw, ok := o["method"]; ok {
		if raw[0] != '"' || json.Unmarshal(raw, &method) != nil || method == "" {
			return m, false
		}
		m.Method = method
		return m, true
	}
	if m.Result != nil && string(m.Error) == "null" {
		m.Error = nil
	}
	// An answer that says nothing is one, too: its call must end.
	return m, m.ID != nil && (string(m.ID) != "null" || m.Result != nil || m.Error != nil)
}
