package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

func TestListTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := mcptest.NewMemory(mcptest.Script{Tools: []string{
			`{"name":"read_file","title":"Reader","description":"Opens a document","inputSchema":{}}`,
			`{"name":"write_file","description":"Stores a document","inputSchema":{}}`}})
		r := newRig(t, servers{"files": a, "other": echo()}, nil)
		r.must(VerbConnect, `{}`)
		for _, c := range []struct {
			req  string
			want []string
		}{
			{`{}`, []string{"mcp_files_read_file", "mcp_files_write_file", "mcp_other_echo"}},
			{`{"server":"other"}`, []string{"mcp_other_echo"}},
			{`{"names":["mcp_other_echo","mcp_files_read_file","gone"]}`, []string{"mcp_files_read_file", "mcp_other_echo"}},
			{`{"names":[]}`, nil},
			{`{"search":"DOCUMENT"}`, []string{"mcp_files_read_file", "mcp_files_write_file"}},
			{`{"search":"document reader"}`, []string{"mcp_files_read_file"}},
			{`{"search":"document","server":"other"}`, nil},
		} {
			got := r.must(VerbList, c.req)
			if !slices.Equal(got.names("tools"), c.want) || got.obj["tools"] == nil {
				t.Errorf("%s: %s", c.req, got.raw)
			}
		}
		first := r.must(VerbList, `{}`)
		rev := first.obj["revision"]
		again := r.must(VerbList, fmt.Sprintf(`{"ifRevision":%v}`, rev))
		if again.obj["unchanged"] != true || again.obj["tools"] != nil || again.obj["revision"] != rev {
			t.Errorf("unchanged: %s", again.raw)
		}
		a.SetTools([]string{mcptest.Tool("one")})
		time.Sleep(time.Second)
		next := r.must(VerbList, fmt.Sprintf(`{"ifRevision":%v}`, rev))
		if next.obj["unchanged"] != nil || next.obj["revision"].(float64) <= rev.(float64) {
			t.Errorf("changed: %s", next.raw)
		}
		last := r.host.of("tools_changed")
		if c := last[len(last)-1]; c["revision"] != next.obj["revision"] || fmt.Sprint(c["removed"]) != "[mcp_files_read_file mcp_files_write_file]" || fmt.Sprint(c["added"]) != "[mcp_files_one]" {
			t.Errorf("announced as %v", c)
		}
		r.m.Close(0)
	})
}

// TestRefresh: tools are asked for anew where the host says so; a server that fails keeps
// what it had, and is named.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("old")}, ListDelay: time.Second}), mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("old")}})
		r := newRig(t, servers{"a": a, "b": b, "off": mcptest.NewMemory(mcptest.Script{ExitAtStart: new(int)})}, map[string]any{"limits": map[string]any{"tools": 2}})
		rev := r.must(VerbConnect, `{"startupTimeoutMs":0}`).obj["revision"]
		r.must(VerbDisconnect, `{"server":"off"}`)
		a.ReplaceTools([]string{mcptest.Tool("new")})
		b.ReplaceTools([]string{mcptest.Tool("1"), mcptest.Tool("2"), mcptest.Tool("3")}) // too many
		if got := r.must(VerbList, `{}`).names("tools"); !slices.Equal(got, []string{"mcp_a_old", "mcp_b_old"}) {
			t.Errorf("without: %v", got)
		}
		began := time.Now()
		got := r.must(VerbList, fmt.Sprintf(`{"refresh":true,"ifRevision":%v}`, rev))
		if !slices.Equal(got.names("tools"), []string{"mcp_a_new", "mcp_b_old"}) || time.Since(began) != time.Second {
			t.Errorf("after %v: %s", time.Since(began), got.raw)
		}
		if e := got.obj["errors"].(map[string]any); len(e) != 1 || e["b"] == nil {
			t.Errorf("errors: %v", e)
		}
		synctest.Wait()
		if n := r.host.of("tools_changed"); n[len(n)-1]["revision"] != got.obj["revision"] {
			t.Errorf("announced %v", n[len(n)-1])
		}
		if got := r.must(VerbList, `{"refresh":true,"server":"a"}`); !slices.Equal(got.names("tools"), []string{"mcp_a_new"}) || len(got.obj["errors"].(map[string]any)) != 0 {
			t.Errorf("one server: %s", got.raw)
		}
		if got := r.do(VerbList, `{"refresh":true,"server":"b"}`); !strings.Contains(got.raw, "limits.tools") {
			t.Errorf("one that fails: %s", got.raw)
		}
		if got := r.do(VerbList, `{"refresh":true,"server":"a","timeoutMs":300}`); got.st != ETimeout {
			t.Errorf("in its own time: %s", got.raw)
		}
		if got := r.do(VerbList, `{"refresh":true,"kind":"servers"}`); got.code() != "invalid_request" {
			t.Errorf("servers: %s", got.raw)
		}
		// Two at once: the second begins when the first is over, and its answer stays.
		first, _ := r.begin(VerbList, `{"refresh":true,"server":"a"}`)
		synctest.Wait()
		a.ReplaceTools([]string{mcptest.Tool("newest")})
		second, _ := r.begin(VerbList, `{"refresh":true,"server":"a"}`)
		if a, b := <-first, <-second; !slices.Equal(b.names("tools"), []string{"mcp_a_newest"}) {
			t.Errorf("%s, then %s", a.raw, b.raw)
		}
		r.m.Close(0)
	})
}

// TestListThatIsTheSame: a list that is asked for again and is what it was keeps all that was
// made of it; only its time is new. One that differs tells of the tools that do.
func TestListThatIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		described := func(text string) string {
			return `{"name":"b","description":"` + text + `","inputSchema":{"type":"object"}}`
		}
		s := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("a"), described("old"), mcptest.Tool("c")}, PageSize: 2})
		r := newRig(t, servers{"s": s}, map[string]any{})
		r.must(VerbConnect, `{"startupTimeoutMs":0}`)
		first := r.must(VerbList, `{}`)
		snap := r.m.snap.Load()
		synctest.Wait()
		told := len(r.host.of("tools_changed"))
		r.must(VerbList, `{"refresh":true}`)
		if again := r.m.snap.Load(); again.list != snap.list || again.formats != snap.formats || again == snap {
			t.Error("in the same second the list was made again")
		}
		time.Sleep(2 * time.Second)
		later := r.must(VerbList, `{"refresh":true}`)
		again := r.m.snap.Load()
		if &again.index["s"].tools[0] != &snap.index["s"].tools[0] || again.formats != snap.formats || again.tools.Root() != snap.tools.Root() {
			t.Error("the tools were made again")
		}
		if want := strings.ReplaceAll(first.raw[strings.Index(first.raw, `"tools"`):], snap.index["s"].flags.fetchedAt.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339)); !strings.Contains(later.raw, strings.TrimSuffix(want, "}")) {
			t.Errorf("later:\n%s, want\n%s", later.raw, want)
		}
		synctest.Wait()
		if n := r.host.of("tools_changed"); len(n) != told {
			t.Errorf("told of %v", n[told:])
		}
		s.ReplaceTools([]string{mcptest.Tool("a"), described("new"), mcptest.Tool("c")})
		if got := r.must(VerbList, `{"refresh":true}`); !strings.Contains(got.raw, `"description":"new"`) {
			t.Errorf("changed: %s", got.raw)
		}
		synctest.Wait()
		if n := r.host.of("tools_changed"); len(n) != told+1 || fmt.Sprint(n[told]["changed"]) != "[mcp_s_b]" || n[told]["added"] != nil && len(n[told]["added"].([]any)) != 0 {
			t.Errorf("told of %v", n[told:])
		}
		r.m.Close(0)
	})
}

// TestListOfServers: resources, templates and prompts come from the servers, as
// they sent them, page after page, and one that fails loses nobody else's.
func TestListOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		item := `{"uri":"x://1",  "name":"n","size":9007199254740993}`
		full := mcptest.NewMemory(mcptest.Script{Replies: map[string]string{
			"resources/list":           `{"resources":[` + item + `,7,{"uri":"x://2","server":"liar"}]}`,
			"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x://{id}"}]}`,
			"prompts/list":             `{"prompts":[{"name":"greet"}]}`,
		}})
		bad := mcptest.NewMemory(mcptest.Script{Replies: map[string]string{"resources/list": `{"resources":{}}`}})
		r := newRig(t, servers{"a": full, "bad": bad, "none": echo()}, nil)
		r.must(VerbConnect, `{}`)
		got := r.must(VerbList, `{"kind":"resources"}`)
		if !strings.Contains(got.raw, `{"server":"a","uri":"x://1","name":"n","size":9007199254740993}`) || strings.Contains(got.raw, "liar") || len(got.obj["resources"].([]any)) != 2 {
			t.Errorf("resources: %s", got.raw)
		}
		if e := got.obj["errors"].(map[string]any); len(e) != 1 || e["bad"] == nil {
			t.Errorf("errors: %v", e)
		}
		if got := r.do(VerbList, `{"kind":"resources","server":"bad"}`); got.code() != "protocol" {
			t.Errorf("one that fails: %s", got.raw)
		}
		if got := r.must(VerbList, `{"kind":"resourceTemplates","server":"a"}`); !strings.Contains(got.raw, `{"server":"a","uriTemplate":"x://{id}"}`) {
			t.Errorf("templates: %s", got.raw)
		}
		if got := r.must(VerbList, `{"kind":"prompts"}`); !strings.Contains(got.raw, `{"server":"a","name":"greet"}`) {
			t.Errorf("prompts: %s", got.raw)
		}
		r.m.Close(0)
	})
}

// TestNameClash: two tools that would have one name both get a suffix; the new names
// are told, and the old one still routes until the next reload.
func TestNameClash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("b_c")}})
		two := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("c")}})
		have := servers{"a": one}
		r := newRig(t, have, nil)
		have["a_b"] = two
		if got := r.must(VerbConnect, `{}`).names("tools"); !slices.Equal(got, []string{"mcp_a_b_c"}) {
			t.Fatalf("tools %v", got)
		}
		got := r.must(VerbConnect, `{"servers":{"a_b":{"command":"scripted"}}}`).names("tools")
		if len(got) != 2 || len(got[0]) != len("mcp_a_b_c_12345678") || len(got[1]) != len(got[0]) || got[0] == got[1] {
			t.Fatalf("tools %v", got)
		}
		synctest.Wait()
		var renamed string
		for _, n := range r.host.of("tools_changed") {
			if to, ok := n["renamed"].(map[string]any)["mcp_a_b_c"].(string); ok && n["server"] == "a" {
				renamed = to
			}
		}
		if !slices.Contains(got, renamed) {
			t.Errorf("renamed to %q, tools %v", renamed, got)
		}
		for _, name := range append(got, "mcp_a_b_c") {
			r.must(VerbCall, `{"tool":"`+name+`"}`)
		}
		if a, b := one.Counts().Calls["b_c"], two.Counts().Calls["c"]; a != 2 || b != 1 {
			t.Errorf("the old name went to the other server: %d and %d calls", a, b)
		}
		r.must(VerbReload, `{}`)
		if a := r.do(VerbCall, `{"tool":"mcp_a_b_c"}`); a.code() != "unknown_tool" {
			t.Errorf("after a reload: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestRelistFailure: a list that fails keeps the old tools and is asked for once more.
func TestRelistFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		r := newRig(t, servers{"a": s}, nil)
		r.must(VerbConnect, `{}`)
		tools := len(r.must(VerbList, `{}`).names("tools"))
		s.SetTools([]string{`{"name":"x"},`}) // no JSON: what the server sends then is skipped, so that the list times out
		time.Sleep(time.Minute + 10*time.Second)
		if n := len(r.must(VerbList, `{}`).names("tools")); n != tools || s.Counts().Lists != 3 {
			t.Errorf("%d tools, %d lists", n, s.Counts().Lists)
		}
		s.SetTools([]string{mcptest.Tool("x")})
		time.Sleep(time.Minute)
		if got := r.must(VerbList, `{}`).names("tools"); !slices.Equal(got, []string{"mcp_a_x"}) {
			t.Errorf("tools %v", got)
		}
		r.m.Close(0)
	})
}
