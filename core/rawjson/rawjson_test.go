package rawjson

import (
	stdjson "encoding/json"
	"strings"
	"testing"
)

func TestMembersKeepBytes(t *testing.T) {
	obj := []byte(" { \"a\" : 9007199254740993 , \"b\\u0041\":[1, {\"x\":\"]}\"}], \"c\":\"q\\\"\" ,\"d\":null}")
	got := map[string]string{}
	if err := Members(obj, func(k string, v []byte) bool { got[k] = string(v); return true }); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "9007199254740993", "bA": `[1, {"x":"]}"}]`, "c": `"q\""`, "d": "null"}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("members %v", got)
	}
	if Members([]byte(`[1]`), nil) == nil {
		t.Error("an array passed as an object")
	}
}

func TestElements(t *testing.T) {
	var got []string
	if err := Elements([]byte(`[ 1 ,"a,b", {"c":[]} ]`), func(v []byte) bool { got = append(got, string(v)); return true }); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, "|") != `1|"a,b"|{"c":[]}` {
		t.Errorf("elements %q", got)
	}
}

// FuzzMembers takes encoding/json as the judge of what the members are.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{}],"c":"\u00e9"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want map[string]stdjson.RawMessage
		if stdjson.Unmarshal(b, &want) != nil || want == nil {
			_ = Members(b, func(string, []byte) bool { return true }) // must not panic
			return
		}
		got := map[string]string{}
		if err := Members(b, func(k string, v []byte) bool { got[k] = string(v); return true }); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if len(got) != len(want) && !strings.ContainsRune(string(b), '\uFFFD') {
			for k := range got {
				if _, ok := want[strings.ToValidUTF8(k, "\uFFFD")]; !ok {
					t.Fatalf("%q: extra member %q", b, k)
				}
			}
		}
		for k, v := range want {
			if g, ok := got[k]; ok && g != string(v) {
				t.Fatalf("%q: member %q is %q, want %q", b, k, g, v)
			}
		}
	})
}
