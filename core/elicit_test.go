package core

import (
	"testing"

	"github.com/goccy/go-json"
)

func TestElicitationDefaults(t *testing.T) {
	const schema = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{` +
		`"name":{"type":"string","default":"Ada"},"age":{"type":"integer","default":9007199254740993},"ok":{"type":"boolean","default":true},"free":{"type":"string"}}}}`
	for _, c := range []struct{ params, answer, want string }{
		{schema, `{"action":"accept","content":{"name":"Bob"}}`, `{"action":"accept","content":{"name":"Bob","age":9007199254740993,"ok":true}}`},
		{schema, `{"action":"accept"}`, `{"action":"accept","content":{"name":"Ada","age":9007199254740993,"ok":true}}`},
		{schema, `{"action":"accept","content":{"name":null,"age":1,"ok":false}}`, `{"action":"accept","content":{"name":null,"age":1,"ok":false}}`},
		{schema, `{"action":"decline"}`, `{"action":"decline"}`},
		{schema, `{"action":"accept","content":[]}`, `{"action":"accept","content":[]}`},
		{`{"mode":"url","url":"https://x/"}`, `{"action":"accept"}`, `{"action":"accept"}`},
		{`{"requestedSchema":{"properties":7}}`, `{"action":"accept"}`, `{"action":"accept"}`},
		{`null`, `{"action":"accept"}`, `{"action":"accept"}`},
	} {
		got := withDefaults([]byte(c.params), []byte(c.answer))
		var a, b any
		if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(c.want), &b) != nil || string(encode(a)) != string(encode(b)) {
			t.Errorf("%s to %s\n got %s\nwant %s", c.answer, c.params, got, c.want)
		}
	}
}
