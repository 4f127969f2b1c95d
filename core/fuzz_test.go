package core

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/mcptest"
)

// FuzzRequests submits requests of every verb, one a line behind the verb's digit, to a
// manager with a live server: whatever a host sends, each gets exactly one answer,
// which is JSON of the documented form, and never one that tells of a bug.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"1{}", "2{\"only\":[\"a\"],\"gate\":\"eager\"}\n4{\"tool\":\"mcp_a_echo\",\"arguments\":{\"x\":1}}",
		"2{\"servers\":{\"b\":{\"command\":\"x\",\"env\":{\"A\":\"${B:-c}\"}}},\"startupTimeoutMs\":0,\"trust\":{\"a\":\"sha256:0\"},\"restart\":true}",
		"3{\"kind\":\"tools\",\"server\":\"a\",\"names\":[\"x\"],\"ifRevision\":3,\"search\":\"e\"}\n3{\"kind\":\"prompts\"}\n3{\"format\":\"openai\"}",
		"4{\"server\":\"a\",\"tool\":\"echo\",\"_meta\":{\"progressToken\":1},\"timeoutMs\":5,\"progress\":true,\"retry\":\"always\"}",
		"4{\"server\":\"a\",\"method\":\"resources/read\",\"params\":{\"uri\":\"x\",\"_meta\":{\"a\":1}}}\n4{\"method\":\"mcprt/stats\"}",
		"4{\"method\":\"mcprt/trust.add\",\"params\":{\"hash\":\"sha256:00\"}}\n4{\"method\":\"mcprt/cache.clear\"}\n4{\"method\":\"mcprt/nothing\",\"params\":[]}",
		"5{\"mode\":\"full\",\"tools\":false}\n7{\"server\":\"a\"}\n4{\"server\":\"a\",\"tool\":\"echo\"}", "7{}\n5{\"mode\":\"diff\",\"uncached\":\"background\"}",
		"4{\"tool\":\"\\ud800\",\"arguments\":{\"a\":1e999}}", "0{}", "9[]", "4", "4{\"tool\":\"a\"", "2{\"only\":null,\"authorize\":[\"a\",\"a\"]}",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	options, err := json.Marshal(map[string]any{"cwd": dir, "env": map[string]string{"HOME": dir}, "cache": map[string]any{"enabled": false}, "discovery": map[string]any{"user": "none"},
		"servers": map[string]any{"a": map[string]any{"command": "scripted"}}, "maxTimeoutMs": 100, "timeoutMs": 200, "startupTimeoutMs": 50})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		// No helper command of a fuzzed config runs, and no sign-in asks the network.
		if bytes.ContainsAny(script, "!\\") && bytes.Contains(script, []byte("servers")) || bytes.Contains(script, []byte("auth.")) {
			t.Skip("it might run a helper command or ask the network")
		}
		have := servers{"a": mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("fail")}})}
		m, err := open(options, &testHost{}, deps{dial: have.dial})
		if err != nil {
			t.Fatal(err)
		}
		var wanted, answered atomic.Int64
		for i, line := range bytes.Split(script, []byte("\n")) {
			if len(line) == 0 || i >= 20 {
				continue
			}
			var over atomic.Bool
			wanted.Add(1)
			request := bytes.Clone(line[1:])
			done := make(chan struct{})
			cancel := m.Start(Verb(line[0]-'0'), uint64(i), request, func(st Status, r Reply) {
				reply := string(r.Head) + string(r.Body) + string(r.Tail)
				switch {
				case over.Swap(true):
					t.Errorf("two answers to %q", line)
					return
				case st == EInternal || !json.Valid([]byte(reply)) && reply != "" || (st < 0) != strings.HasPrefix(reply, `{"error":{`):
					t.Errorf("status %d, %s to %q", st, reply, line)
				}
				answered.Add(1)
				close(done)
			})
			copy(request, bytes.Repeat([]byte{'#'}, len(request))) // it was only lent
			if len(line)%3 == 0 {
				cancel()
			}
			if len(line)%2 == 0 {
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatalf("no answer to %q", line)
				}
			}
		}
		m.Close(0)
		for end := time.Now().Add(5 * time.Second); answered.Load() < wanted.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d answers to %d requests", answered.Load(), wanted.Load())
			}
		}
	})
}

// FuzzLifecycle lets a host, two servers and time do anything in any order: every
// operation ends once, a server never has two connections, each connect that succeeds
// has a generation of its own, these only rise, and closed is final.
func FuzzLifecycle(f *testing.F) {
	f.Add([]byte{0, 7, 1, 7, 2, 7, 3, 7, 4, 7, 5, 7, 6, 7})
	f.Add([]byte{0, 0x83, 4, 0x84, 0x80, 6, 7, 0x86, 1, 7, 8, 2})
	f.Add([]byte{8, 8, 0, 6, 6, 7, 7, 4, 0x84, 9, 0, 4})
	f.Add([]byte{0, 7, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 7, 7, 7, 10, 4, 9, 0, 1, 2, 4, 5})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 60 {
			script = script[:60]
		}
		synctest.Test(t, func(t *testing.T) {
			broken := len(script) > 0 && script[0]&0x40 != 0 // the second server's first two starts fail
			have := servers{
				"a": mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("slow")}, ListDelay: 70 * time.Millisecond, InitializeDelay: 30 * time.Millisecond}),
				"b": mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
					s := mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("slow")}, Versions: []string{mcptest.Modern}}
					if broken && dial <= 2 {
						s.ExitAtStart = mcptest.Code(1)
					}
					return s
				}),
			}
			policies := []string{"auto", "onCall", "manual"}
			r := newRig(t, have, map[string]any{"reconnect": policies[len(script)%3], "uncached": "background"})
			var wanted, answered atomic.Int64
			closed := false
			begin := func(v Verb, request string) func() {
				var over atomic.Bool
				wanted.Add(1)
				late := closed
				return r.m.Start(v, uint64(wanted.Load()), []byte(request), func(st Status, _ Reply) {
					if over.Swap(true) {
						t.Error("two answers")
						return
					}
					if late && st != EClosed || st == EInternal {
						t.Errorf("verb %d after close %v: status %d", v, late, st)
					}
					answered.Add(1)
				})
			}
			last := map[string]uint64{}
			look := func() {
				snap := r.m.snap.Load()
				seen := map[uint64]string{}
				for _, v := range snap.servers {
					if v.gen < last[v.name] {
						t.Errorf("the generation of %s fell from %d to %d", v.name, last[v.name], v.gen)
					}
					last[v.name] = v.gen
					if other := seen[v.gen]; v.gen != 0 && other != "" {
						t.Errorf("%s and %s share generation %d", v.name, other, v.gen)
					}
					seen[v.gen] = v.name
					if v.state == stateReady && v.session == nil || v.state != stateReady && v.session != nil {
						t.Errorf("%s is %v, session %v", v.name, v.state, v.session)
					}
				}
			}
			for _, b := range script {
				name := []string{"a", "b"}[b>>7]
				memory := have[name].(*mcptest.Memory)
				var cancel func()
				switch b % 11 {
				case 0:
					cancel = begin(VerbConnect, fmt.Sprintf(`{"only":[%q]}`, name))
				case 1:
					cancel = begin(VerbDisconnect, fmt.Sprintf(`{"server":%q}`, name))
				case 2:
					cancel = begin(VerbConnect, fmt.Sprintf(`{"only":[%q],"restart":true}`, name))
				case 3:
					memory.Kill(1)
				case 4:
					cancel = begin(VerbCall, fmt.Sprintf(`{"server":%q,"tool":"slow","arguments":{"ms":%d},"retry":"safe"}`, name, 10*int(b>>4)))
				case 5:
					cancel = begin(VerbReload, `{"mode":"full"}`)
				case 6:
					memory.SetTools([]string{mcptest.Tool("echo"), mcptest.Tool("slow"), mcptest.Tool(fmt.Sprint("t", b))})
				case 7:
					time.Sleep(time.Duration(1+b>>3) * 13 * time.Millisecond)
				case 8:
					cancel = begin(VerbConnect, `{}`)
				case 9:
					r.m.Close(int32(b >> 4))
					closed = true
				case 10:
					time.Sleep(time.Duration(b>>4) * time.Second)
				}
				if cancel != nil && b&0x20 != 0 {
					cancel()
				}
				if b&0x10 != 0 {
					synctest.Wait()
					look()
				}
			}
			r.m.Close(0)
			synctest.Wait()
			look()
			if answered.Load() != wanted.Load() {
				t.Errorf("%d answers to %d operations", answered.Load(), wanted.Load())
			}
			for name, s := range have {
				c := s.(*mcptest.Memory).Counts()
				if c.Live != 0 || c.MaxLive > 1 {
					t.Errorf("%s: %d connections are left, there were %d at once", name, c.Live, c.MaxLive)
				}
			}
			closed = true
			begin(VerbCall, `{"server":"a","tool":"echo"}`)
			begin(VerbConnect, `{}`)
			synctest.Wait()
			if answered.Load() != wanted.Load() || len(r.m.snap.Load().servers) != 0 {
				t.Error("closed is not final")
			}
			st := r.m.stats()
			if len(st.Servers) != 0 {
				t.Errorf("%+v", st)
			}
		})
	})
}
