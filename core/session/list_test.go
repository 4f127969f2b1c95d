package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

func TestPaging(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  mcptest.Script
		tools   int
		lists   int
		code    fault.Code
		message string
	}{
		{"101 tools, 50 a page", mcptest.Script{Tools: mcptest.NumberedTools(101), PageSize: 50}, 101, 3, "", ""},
		{"one page", mcptest.Script{Tools: mcptest.NumberedTools(101)}, 101, 1, "", ""},
		{"no tools", mcptest.Script{Tools: []string{}}, 0, 1, "", ""},
		{"null ends", mcptest.Script{Tools: mcptest.NumberedTools(4), PageSize: 2, Cursors: mcptest.CursorsNull}, 4, 2, "", ""},
		{"empty cursor", mcptest.Script{Tools: mcptest.NumberedTools(5), PageSize: 2, Cursors: mcptest.CursorsEmpty}, 5, 3, "", ""},
		{"same cursor", mcptest.Script{Tools: mcptest.NumberedTools(4), PageSize: 2, Cursors: mcptest.CursorsSame}, 0, 2, fault.Protocol, "twice"},
		{"A B A", mcptest.Script{Tools: mcptest.NumberedTools(4), PageSize: 2, Cursors: mcptest.CursorsABA}, 0, 3, fault.Protocol, "twice"},
		{"new cursors for ever", mcptest.Script{Tools: mcptest.NumberedTools(1), Cursors: mcptest.CursorsNew}, 0, 50, fault.TooLarge, "limits.pages"},
		{"number as cursor", mcptest.Script{Cursors: mcptest.CursorsNumber}, 0, 1, fault.Protocol, "no string"},
		{"too many tools", mcptest.Script{Tools: mcptest.NumberedTools(2001), PageSize: 500}, 0, 5, fault.TooLarge, "limits.tools"},
		{"as many tools as allowed", mcptest.Script{Tools: mcptest.NumberedTools(2000), PageSize: 500}, 2000, 4, "", ""},
		{"capability not declared", mcptest.Script{NoTools: true}, 0, 0, "", ""},
		{"capability declared, -32601", mcptest.Script{NoTools: true, Capabilities: `{"tools":{}}`}, 0, 1, "", ""},
		{"capabilities unreadable", mcptest.Script{Tools: mcptest.NumberedTools(1), Capabilities: `7`}, 1, 1, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.script, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
				list, err := s.ListTools(t.Context())
				if c.code != "" {
					wantFault(t, err, c.code, "demo", c.message)
				} else if err != nil || len(list.Tools) != c.tools || list.Dropped+list.Duplicates != 0 {
					t.Errorf("%+v, %v", list, err)
				} else if c.tools > 100 && list.Tools[100].Name != "tool_0100" {
					t.Errorf("tool 100 is %s", list.Tools[100].Name)
				}
				if n := memory.Counts().Lists; n != c.lists {
					t.Errorf("%d requests, want %d", n, c.lists)
				}
			})
		})
	}
}

func TestToolsStayRaw(t *testing.T) {
	raw := []string{
		`{"name":"a",  "inputSchema":{"type":["object"],"$defs":{"n":9007199254740993}}, "x":null}`,
		`{"inputSchema":true,"name":"bé","annotations":{"readOnlyHint":"yes"}}`,
		`7`, `null`, `{"name":7}`, `{}`, `[]`,
		`{"name":"a","description":"another"}`,
		`{"name":"c"}`,
	}
	bubble(t, mcptest.Script{Tools: raw}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		list, err := s.ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names, kept []string
		for _, tool := range list.Tools {
			names, kept = append(names, tool.Name), append(kept, string(tool.Raw))
		}
		if !slices.Equal(names, []string{"a", "bé", "c"}) || !slices.Equal(kept, []string{raw[0], raw[1], raw[8]}) {
			t.Errorf("kept %v", kept)
		}
		if list.Dropped != 5 || list.Duplicates != 1 {
			t.Errorf("dropped %d, duplicates %d", list.Dropped, list.Duplicates)
		}
	})
}

func TestListCaching(t *testing.T) {
	for _, c := range []struct {
		fields string
		ttl    int64 // -1: none
		scope  string
	}{
		{``, -1, "private"},
		{`"ttlMs":5000,"cacheScope":"public"`, 5000, "public"},
		{`"ttlMs":-3,"cacheScope":"private"`, 0, "private"},
		{`"ttlMs":1.5e3,"cacheScope":7`, 1500, "private"},
		{`"ttlMs":"soon"`, -1, "private"},
		{`"ttlMs":null`, -1, "private"},
		{`"ttlMs":1e300`, 2147483647000, "private"},
	} {
		t.Run(c.fields, func(t *testing.T) {
			bubble(t, mcptest.Script{Tools: mcptest.NumberedTools(3), PageSize: 1, ListFields: c.fields}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
				list, err := s.ListTools(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ttl := int64(-1)
				if list.TTLMs != nil {
					ttl = *list.TTLMs
				}
				if ttl != c.ttl || list.CacheScope != c.scope {
					t.Errorf("ttl %d, scope %s", ttl, list.CacheScope)
				}
			})
		})
	}
}

func TestBadLists(t *testing.T) {
	for _, c := range []struct{ result, key string }{
		{`{}`, "resources"}, {`{"resources":7}`, "resources"}, {`{"resources":{}}`, "resources"},
	} {
		bubble(t, mcptest.Script{Replies: map[string]string{"resources/list": c.result}}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
			_, err := s.List(t.Context(), "resources/list", c.key)
			wantFault(t, err, fault.Protocol, "resources/list")
		})
	}
}

func TestOtherLists(t *testing.T) {
	script := mcptest.Script{Replies: map[string]string{"prompts/list": `{"prompts":[{"name":"p"}, {"name":"q"}]}`, "resources/list": `{"resources":null}`}}
	bubble(t, script, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		list, err := s.List(t.Context(), "prompts/list", "prompts")
		if err != nil || len(list.Items) != 2 || string(list.Items[1]) != `{"name":"q"}` {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err = s.List(t.Context(), "resources/list", "resources"); err != nil || len(list.Items) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err = s.List(t.Context(), "no/list", "x"); err != nil || len(list.Items) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// A server that means "no more" by an empty cursor starts again when asked for it.
func TestEmptyCursorAsEnd(t *testing.T) {
	script := mcptest.Script{Replies: map[string]string{"prompts/list": `{"prompts":[{"name":"p"}],"nextCursor":""}`}}
	bubble(t, script, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		list, err := s.List(t.Context(), "prompts/list", "prompts")
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestListTimesOut(t *testing.T) {
	bubble(t, mcptest.Script{ListDelay: time.Hour}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		_, err := s.ListTools(t.Context())
		wantFault(t, err, fault.Timeout, "tools/list", "30000 ms")
	})
}

func TestListChangedWhileListing(t *testing.T) {
	bubble(t, mcptest.Script{Tools: mcptest.NumberedTools(2), ListChanged: 1, ListDelay: time.Second}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		if _, err := s.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if notices, _, _ := h.seen(); !slices.Equal(notices, []string{"notifications/tools/list_changed"}) {
			t.Errorf("notices %v", notices)
		}
		memory.SetTools(mcptest.NumberedTools(3))
		synctest.Wait()
		if notices, _, _ := h.seen(); len(notices) != 2 {
			t.Errorf("notices %v", notices)
		}
		if list, err := s.ListTools(t.Context()); err != nil || len(list.Tools) != 3 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// The list that the handshake fetched is used once.
func TestFirstPageIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := mcptest.NewMemory(mcptest.Script{Versions: []string{mcptest.Modern}, Tools: mcptest.NumberedTools(5), PageSize: 2})
		probed := connect(t, memory, &host{})
		cfg := configFor(memory, &host{})
		known := probed.Info().Verdict
		cfg.Known = &known
		s, err := Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close(0); <-s.Done() }()
		if !strings.Contains(string(s.Info().ServerInfo), "scripted") {
			t.Errorf("serverInfo %s", s.Info().ServerInfo)
		}
		for i, want := range []int{3, 6} {
			list, err := s.ListTools(t.Context())
			if err != nil || len(list.Tools) != 5 {
				t.Fatalf("list %d: %+v, %v", i, list, err)
			}
			if n := memory.Counts().Lists; n != want {
				t.Errorf("%d requests after list %d, want %d", n, i, want)
			}
		}
		for _, line := range memory.Counts().Received[1:] {
			if want := fmt.Sprintf(`"io.modelcontextprotocol/clientCapabilities":%s`, withTasks([]byte(allCapabilities))); !strings.Contains(line, want) {
				t.Errorf("sent %s without %s", line, want)
			}
		}
	})
}
