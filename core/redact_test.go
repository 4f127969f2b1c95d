package core

import (
	"testing"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// TestRedactServerData: the data of a server's JSON-RPC error is cleaned as its
// message is, and stays JSON.
func TestRedactServerData(t *testing.T) {
	r := newRedactor(&config.Resolved{Secrets: []string{"sk-0123456789", `pass"word`, "123456"}}, nil)
	for given, want := range map[string]string{
		`{"big":9007199254740993}`:      `{"big":9007199254740993}`,
		`"sk-0123456789"`:               `"***"`,
		`{"a":["x sk-0123456789 y",1]}`: `{"a":["x *** y",1]}`,
		`{"p":"pass\"word"}`:            `{"p":"***"}`,
		`{"pin":123456}`:                `"***"`,
	} {
		e := fault.New(fault.RPCError, "", "m").With(fault.Data{RPCData: json.RawMessage(given)})
		if got := r.fault(e).Data.RPCData; string(got.(json.RawMessage)) != want {
			t.Errorf("%s became %s, want %s", given, got, want)
		}
		if string(e.Data.RPCData.(json.RawMessage)) != given {
			t.Errorf("the given error was changed to %s", e.Data.RPCData)
		}
	}
}
