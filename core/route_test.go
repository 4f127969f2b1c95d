package core

import (
	"strings"
	"testing"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestRouteAllocatesNothing: finding where a call goes is on the path of every call.
func TestRouteAllocatesNothing(t *testing.T) {
	r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{Tools: append(mcptest.NumberedTools(500), mcptest.Tool(strings.Repeat("n", 50)))})}, nil)
	r.must(VerbConnect, `{}`)
	snap := r.m.snap.Load()
	for _, name := range []string{"mcp_a_tool_0123", "mcp_a_" + strings.Repeat("n", 50)} {
		if n := testing.AllocsPerRun(1000, func() {
			if id, ok := snap.route(name); !ok || id.Server != "a" {
				t.Errorf("%s: %v", name, id)
			}
		}); n != 0 {
			t.Errorf("%v allocations for %s", n, name)
		}
	}
	if _, ok := snap.route("mcp_a_tool_"); ok {
		t.Error("the beginning of names is no name")
	}
}

func BenchmarkRoute(b *testing.B) {
	r := newRig(b, servers{"a": mcptest.NewMemory(mcptest.Script{Tools: mcptest.NumberedTools(5000)})}, nil)
	r.must(VerbConnect, `{}`)
	snap := r.m.snap.Load()
	for b.Loop() {
		snap.route("mcp_a_tool_0123")
	}
}
