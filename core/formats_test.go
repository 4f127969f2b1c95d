package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/format"
	"github.com/mcprt/mcprt/core/mcptest"
)

// TestFormats: what a provider's model is given and calls comes from and goes to the
// server as it is there, whatever the provider needs it to be called.
func TestFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := "9" + strings.Repeat("x", 90)
		odd := mcptest.NewMemory(mcptest.Script{Tools: []string{
			`{"name":"echo","description":"says","inputSchema":{"oneOf":[{"type":"object","properties":{"$top":{"type":"integer"}}},{}]}}`}})
		r := newRig(t, servers{long: odd, "b": echo()}, map[string]any{"toolNames": map[string]any{"prefix": "", "maxLength": 128}})
		r.must(VerbConnect, `{}`)
		own := long + "_echo"
		for _, c := range []struct{ format, written, name, id string }{
			{"openai", `"{\"input\":{\"$top\":9007199254740993}}"`, "", "tool_call_id"},
			{"openai-responses", `"{\"input\":{\"$top\":9007199254740993}}"`, "", "call_id"},
			{"anthropic", `{"input":{"_top_81bf98e4":9007199254740993}}`, own, "tool_use_id"},
			{"gemini", `{"input":{"_top_81bf98e4":9007199254740993}}`, "", "id"},
		} {
			req := fmt.Sprintf(`{"format":%q}`, c.format)
			got := r.must(VerbList, req)
			if again := r.must(VerbList, req); again.raw != got.raw {
				t.Errorf("%s is not the same twice", c.format)
			}
			if len(got.obj["tools"].([]any)) != 2 {
				t.Fatalf("%s: %s", c.format, got.raw)
			}
			name, names := c.name, got.obj["names"].(map[string]any)
			if name == "" {
				if len(names) != 1 {
					t.Fatalf("%s: names %v", c.format, names)
				}
				for given, is := range names {
					if name = given; is != own || len(given) > 64 {
						t.Errorf("%s: %q is %v", c.format, given, is)
					}
				}
			} else if len(names) != 0 {
				t.Errorf("%s: names %v", c.format, names)
			}
			if !strings.Contains(got.raw, `"name":"`+name+`","description":"says"`) {
				t.Errorf("%s: %s", c.format, got.raw)
			}
			if one := r.must(VerbList, fmt.Sprintf(`{"format":%q,"server":"b"}`, c.format)); len(one.obj["tools"].([]any)) != 1 || len(one.obj["names"].(map[string]any)) != 0 {
				t.Errorf("%s of one server: %s", c.format, one.raw)
			}
			if same := r.must(VerbList, fmt.Sprintf(`{"format":%q,"ifRevision":%v}`, c.format, got.obj["revision"])); same.obj["unchanged"] != true {
				t.Errorf("%s: %s", c.format, same.raw)
			}
			if anew := r.must(VerbList, fmt.Sprintf(`{"format":%q,"refresh":true}`, c.format)); anew.obj["errors"] == nil || len(anew.obj["tools"].([]any)) != 2 {
				t.Errorf("%s: %s", c.format, anew.raw)
			}
			called := r.must(VerbCall, fmt.Sprintf(`{"format":%q,"tool":%q,"arguments":%s,"callId":"c1"}`, c.format, name, c.written))
			if !strings.Contains(called.raw, `"structuredContent":{"$top":9007199254740993}`) || !strings.Contains(fmt.Sprint(called.obj["message"]), c.id+":c1") {
				t.Errorf("%s: %s", c.format, called.raw)
			}
			// A failure can be shown, too.
			for _, wrong := range []string{
				fmt.Sprintf(`{"format":%q,"tool":"gone","callId":"c2"}`, c.format),
				fmt.Sprintf(`{"format":%q,"tool":%q,"arguments":"{","callId":"c2"}`, c.format, name),
			} {
				if bad := r.do(VerbCall, wrong); bad.code() == "" || !strings.Contains(fmt.Sprint(bad.obj["message"]), c.id+":c2") || !strings.Contains(fmt.Sprint(bad.obj["message"]), "MCP error: ") {
					t.Errorf("%s: %s", wrong, bad.raw)
				}
			}
		}
		if got := r.must(VerbList, `{"format":"mcp"}`); got.raw != r.must(VerbList, `{}`).raw || got.obj["names"] != nil {
			t.Errorf("mcp: %s", got.raw)
		}
		if got := r.must(VerbCall, `{"tool":"b_echo","arguments":{"a":1}}`); got.obj["message"] != nil {
			t.Errorf("nobody asked for a message: %s", got.raw)
		}
		f := r.m.snap.Load().formatted(format.Anthropic)
		if b, err := f.appendTools(nil, r.m.snap.Load().sorted(), 10); b != nil || fault.From(err).Code != fault.TooLarge {
			t.Errorf("a list over its limit: %s, %v", b, err)
		}
		for _, c := range []struct {
			verb      Verb
			req, says string
		}{
			{VerbList, `{"format":"cohere"}`, `"openai", "openai-responses", "anthropic", "gemini"`},
			{VerbList, `{"format":"openai","kind":"servers"}`, "for tools"},
			{VerbCall, `{"format":"cohere","tool":"b_echo"}`, `not "cohere"`},
			{VerbCall, `{"format":"openai","server":"b","tool":"echo"}`, `no "server"`},
			{VerbCall, `{"callId":"c","tool":"b_echo"}`, `"callId"`},
			{VerbCall, `{"tool":"b_echo","arguments":"{}"}`, "JSON object"},
		} {
			if got := r.do(c.verb, c.req); got.code() != "invalid_request" || !strings.Contains(got.raw, strings.ReplaceAll(c.says, `"`, `\"`)) {
				t.Errorf("%s: %s", c.req, got.raw)
			}
		}
		r.m.Close(0)
	})
}
