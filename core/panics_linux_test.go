//go:build mcprt_points

package core

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/safe"
)

// bugs are all places where a bug is injected, and who must learn of it: "operation"
// or "request", whose status is EInternal; "host", by a diagnostic or a server's error; "nobody",
// where what goes wrong is of no use any more.
var bugs = map[string]struct {
	scenario, seen string
}{
	"core.start":          {"call", "operation"},
	"core.verb":           {"list", "operation"},
	"core.discover":       {"reload", "operation"},
	"core.reload":         {"reload", "operation"},
	"core.disconnect":     {"disconnect", "operation"},
	"core.attempt":        {"restart", "host"},
	"core.list":           {"restart", "host"},
	"core.step":           {"restart", "operation"},
	"core.publish":        {"restart", "operation"},
	"core.event":          {"restart", "host"},
	"core.call":           {"call", "operation"},
	"core.send":           {"call", "operation"},
	"core.done":           {"call", "operation"},
	"core.demand":         {"first call", "operation"},
	"core.spill":          {"long call", "operation"},
	"core.ask":            {"ask", "nobody"}, // the server is told that its question failed
	"core.answer":         {"answer", "request"},
	"store.load":          {"first connect", "host"},
	"store.save":          {"restart", "host"},
	"session.connect":     {"restart", "host"},
	"session.start":       {"call", "operation"},
	"session.write":       {"call", "operation"},
	"session.receive":     {"call", "operation"},
	"session.notice":      {"progress", "host"},
	"transport.dial":      {"restart", "host"},
	"transport.started":   {"restart", "host"},
	"transport.read":      {"restart", "host"},
	"transport.lines":     {"call", "operation"},
	"transport.write":     {"large call", "operation"},
	"transport.stderr":    {"restart", "nobody"},
	"transport.wait":      {"restart", "nobody"},
	"transport.supervise": {"restart", "nobody"},
	"http.post":           {"call", "operation"},
	"http.receive":        {"call", "operation"},
	"http.listen":         {"restart", "host"},
}

// TestPanics: a bug at any layer costs the operation that met it, and nothing else:
// each operation ends, the library works afterwards, and nothing is left in the end.
func TestPanics(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, point := range slices.Sorted(maps.Keys(bugs)) {
		for nth := range 3 { // a point that is passed often may meet any operation
			t.Run(fmt.Sprintf("%s %d", point, nth), func(t *testing.T) { bugAt(t, point, int64(nth)) })
		}
	}
	eventually(t, 10*time.Second, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func bugAt(t *testing.T, point string, nth int64) {
	bug := bugs[point]
	mark := newMark()
	servers := map[string]any{"a": marked(mcptest.Script{Stderr: "hello\n"}, mark), "b": marked(mcptest.Script{}, mark)}
	if strings.HasPrefix(point, "http.") {
		servers = map[string]any{"a": map[string]any{"url": serveScript(t, mcptest.Script{}, nil).URL}, "b": map[string]any{"url": serveScript(t, mcptest.Script{}, nil).URL}}
	}
	r := openHTTP(t, servers, map[string]any{"cache": map[string]any{"dir": t.TempDir(), "enabled": true}, "answers": []string{"elicitation"}, "graceMs": 300, "requestTimeoutMs": 300,
		"spill": map[string]any{"dir": t.TempDir(), "overBytes": 1 << 10}})
	if bug.scenario != "first connect" {
		connected(t, r, "a", "b")
	}
	var passed, hits atomic.Int64
	safe.SetPoint(func(name string) {
		if name == point && passed.Add(1) == nth+1 {
			hits.Add(1)
			panic("injected at " + name)
		}
	})
	defer safe.SetPoint(nil)
	var ops []answerOf
	do := func(v Verb, req string) {
		t.Helper()
		ch, cancel := r.begin(v, req)
		select {
		case a := <-ch:
			ops = append(ops, a)
		case <-time.After(15 * time.Second):
			cancel()
			t.Errorf("%s does not end", req)
		}
	}
	call := `{"server":"a","tool":"add","arguments":{"a":40,"b":2},"timeoutMs":8000,"retry":"never"}`
	for range nth + 1 {
		switch bug.scenario {
		case "call":
			do(VerbCall, call)
		case "large call":
			do(VerbCall, `{"server":"a","tool":"echo","timeoutMs":8000,"retry":"never","arguments":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`)
		case "long call":
			do(VerbCall, `{"server":"a","tool":"big","timeoutMs":8000,"retry":"never","arguments":{"bytes":100000}}`)
		case "first call":
			do(VerbDisconnect, `{"server":"a"}`)
			ch, _ := r.begin(VerbConnect, `{"only":["a"]}`)
			do(VerbCall, call)
			<-ch
		case "progress":
			do(VerbCall, `{"server":"a","tool":"progress","arguments":{"n":50},"timeoutMs":8000,"progress":true,"retry":"never"}`)
		case "ask":
			do(VerbCall, `{"server":"a","tool":"elicit","timeoutMs":8000,"retry":"never"}`)
		case "answer":
			call, _ := r.begin(VerbCall, `{"server":"a","tool":"elicit","timeoutMs":8000,"retry":"never"}`)
			var tag uint64
			eventually(t, 5*time.Second, "the host is asked", func() bool {
				r.host.mu.Lock()
				defer r.host.mu.Unlock()
				for one := range r.host.requests {
					if _, over := r.host.ended[one]; !over {
						tag = one
					}
				}
				return tag != 0
			})
			status := r.m.Answer(tag, []byte(`{"result":{"action":"accept","content":{}}}`))
			if want := map[bool]Status{true: EInternal, false: OK}[hits.Load() == 1 && passed.Load() == nth+1]; status != want {
				t.Errorf("the answer: %d, want %d", status, want)
			}
			ops = append(ops, <-call)
			r.host.mu.Lock()
			if r.host.ended[tag] != status {
				t.Errorf("the request ended with %d", r.host.ended[tag])
			}
			r.host.mu.Unlock()
		case "list":
			do(VerbList, `{"kind":"tools"}`)
		case "reload":
			do(VerbReload, `{}`)
		case "disconnect":
			do(VerbDisconnect, `{"server":"a"}`)
			do(VerbConnect, `{}`)
		case "first connect":
			do(VerbConnect, `{"startupTimeoutMs":0}`)
			do(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`)
		case "restart":
			do(VerbConnect, `{"restart":true,"startupTimeoutMs":5000}`)
			do(VerbCall, call)
		}
	}
	if hits.Load() == 0 {
		t.Fatalf("%s was not met: passed %d times", point, passed.Load())
	}
	internal := slices.ContainsFunc(ops, func(a answerOf) bool { return a.st == EInternal })
	told := func() bool {
		diagnostics := slices.ContainsFunc(append(r.host.of("diagnostic"), r.host.of("server_state")...), func(n map[string]any) bool { return strings.Contains(fmt.Sprint(n), "injected at "+point) })
		return diagnostics || slices.ContainsFunc(ops, func(a answerOf) bool { return strings.Contains(a.raw, "injected at "+point) })
	}
	switch {
	case bug.seen == "operation" && !internal && !told():
		t.Errorf("no operation has EINTERNAL: %.1000v", ops)
	case bug.seen == "operation" && nth == 0 && !internal:
		t.Errorf("the operation has not EINTERNAL: %.1000v", ops)
	case bug.seen == "host":
		eventually(t, 5*time.Second, "the host is told of the bug at "+point, told)
	}
	// All is well again.
	safe.SetPoint(nil)
	do(VerbConnect, `{"restart":true,"startupTimeoutMs":0}`)
	for _, name := range []string{"a", "b"} {
		sum(t, r, name)
	}
	r.must(VerbReload, `{}`)
	if got := r.must(VerbList, `{"kind":"tools"}`).names("tools"); len(got) != 2*len(mcptest.DefaultTools()) {
		t.Errorf("%d tools", len(got))
	}
	start := time.Now()
	if r.m.Close(300); time.Since(start) > 2500*time.Millisecond {
		t.Errorf("close took %v", time.Since(start))
	}
	eventually(t, 3*time.Second, "no process is left", func() bool { return len(processes(t, mark)) == 0 })
}

// TestPanicPoints: the table above has each point of the code, and no other.
func TestPanicPoints(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if fn, ok := call.Fun.(*ast.SelectorExpr); ok && fn.Sel.Name == "Point" && fmt.Sprint(fn.X) == "safe" {
				name, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				if err != nil || bugs[name].scenario == "" {
					t.Errorf("the table lacks %q", name)
				}
				found[name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range bugs {
		if !found[name] {
			t.Errorf("the code has no point %q", name)
		}
	}
}
