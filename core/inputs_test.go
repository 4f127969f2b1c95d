package core

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/mcptest"
)

// wantsToken is a server that needs an input, and the values that it was started with.
func wantsToken(t *testing.T, options map[string]any) (r *rig, got *[]string) {
	t.Helper()
	got = &[]string{}
	s := echo()
	have := servers{"a": func(r *config.Resolved) *mcptest.Memory {
		*got = append(*got, r.Env["TOKEN"])
		return s
	}}
	all := map[string]any{"config": map[string]map[string]any{"a": {"env": map[string]any{"TOKEN": "${input:tok}"}}}, "answers": []string{"input"}, "requestTimeoutMs": 60000}
	for name, value := range options {
		all[name] = value
	}
	return newRig(t, have, all), got
}

// asked gives the questions to the host so far.
func (h *testHost) asked() []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []map[string]any
	for _, r := range h.requests {
		list = append(list, r)
	}
	return list
}

// TestInputOfACall: a start does not ask; a call does, once for all that wait, and
// the answer holds for later starts.
func TestInputOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, got := wantsToken(t, nil)
		a := r.must(VerbConnect, `{}`)
		if want := `"needsInput":[{"server":"a","inputs":[{"id":"tok","description":"","password":true}]}]`; !strings.Contains(a.raw, want) {
			t.Errorf("connect: %s", a.raw)
		}
		if len(r.host.asked()) != 0 || r.server("a")["state"] != "needs_input" {
			t.Fatalf("asked %v, %v", r.host.asked(), r.server("a"))
		}
		first, _ := r.begin(VerbCall, `{"server":"a","tool":"echo"}`)
		second, _ := r.begin(VerbCall, `{"server":"a","tool":"echo","timeoutMs":1000}`)
		time.Sleep(30 * time.Second) // a person thinks: that is not the calls' time
		asked := r.host.asked()
		if len(asked) != 1 || asked[0]["type"] != "input" || asked[0]["server"] != "a" || fmt.Sprint(asked[0]["params"]) != "map[description: id:tok password:true]" {
			t.Fatalf("asked %v", asked)
		}
		r.must(VerbConnect, `{}`) // another connect does not disturb the question
		if st := r.m.Answer(r.host.open(t), []byte(`{"result":{"value":"secret-token"}}`)); st != OK {
			t.Fatalf("answer: %d", st)
		}
		for _, ch := range []<-chan answerOf{first, second} {
			if a := <-ch; a.st != OK {
				t.Errorf("call: %s", a.raw)
			}
		}
		r.must(VerbConnect, `{"restart":true}`)
		if !slices.Equal(*got, []string{"secret-token", "secret-token"}) || len(r.host.asked()) != 1 {
			t.Errorf("started with %v, asked %v", *got, r.host.asked())
		}
		if list := r.must(VerbList, `{"kind":"servers"}`); strings.Contains(list.raw, "secret-token") {
			t.Errorf("shown: %s", list.raw)
		}
		r.m.Close(0)
	})
}

// TestInputAuthorized: connect asks for the servers that it names, and does not
// wait for the answer.
func TestInputAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, got := wantsToken(t, nil)
		began := time.Now()
		a := r.must(VerbConnect, `{"authorize":["a"],"startupTimeoutMs":0}`)
		if time.Since(began) > time.Second || !strings.Contains(a.raw, `"needsInput":[{"server":"a"`) {
			t.Errorf("connect: %s", a.raw)
		}
		synctest.Wait()
		r.m.Answer(r.host.open(t), []byte(`{"result":{"value":"x1"}}`))
		time.Sleep(time.Second)
		if v := r.server("a"); v["state"] != "ready" || !slices.Equal(*got, []string{"x1"}) {
			t.Errorf("%v, started with %v", v["state"], *got)
		}
		if a := r.do(VerbConnect, `{"authorize":["nobody"],"only":["a"]}`); a.obj["errors"].(map[string]any)["nobody"] == nil {
			t.Errorf("an unknown name: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestInputEnds: however the question ends, the host hears of it once and the call
// says why; a later call asks again.
func TestInputEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig, tag uint64)
		want Status
		code string
	}{
		{"declined", func(r *rig, tag uint64) { r.m.Decline(tag) }, ECanceled, "needs_input"},
		{"an error", func(r *rig, tag uint64) { r.m.Answer(tag, []byte(`{"error":{"code":1,"message":"no"}}`)) }, OK, "needs_input"},
		{"no value", func(r *rig, tag uint64) { r.m.Answer(tag, []byte(`{"result":{"value":7}}`)) }, EInval, "needs_input"},
		{"timed out", func(*rig, uint64) { time.Sleep(61 * time.Second) }, ETimeout, "needs_input"},
		{"disconnected", func(r *rig, _ uint64) { r.do(VerbDisconnect, `{"server":"a"}`) }, ECanceled, "disconnected"},
		{"closed", func(r *rig, _ uint64) { r.m.Close(0) }, EClosed, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, got := wantsToken(t, nil)
				r.must(VerbConnect, `{}`)
				call, _ := r.begin(VerbCall, `{"server":"a","tool":"echo"}`)
				synctest.Wait()
				tag := r.host.open(t)
				c.end(r, tag)
				synctest.Wait()
				if st, over := r.host.endedWith(tag); !over || st != c.want {
					t.Errorf("ended %v with %d, want %d", over, st, c.want)
				}
				if a := <-call; a.code() != c.code {
					t.Errorf("call: %s", a.raw)
				}
				if len(*got) != 0 {
					t.Error("the server was started")
				}
				if c.code == "needs_input" {
					again, _ := r.begin(VerbCall, `{"server":"a","tool":"echo"}`)
					synctest.Wait()
					r.m.Answer(r.host.open(t), []byte(`{"result":{"value":"v"}}`))
					if a := <-again; a.st != OK {
						t.Errorf("again: %s", a.raw)
					}
				}
				r.m.Close(0)
			})
		})
	}
}

// TestInputUnanswered: a host that answers no inputs is not asked; the error says
// what is missing.
func TestInputUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := wantsToken(t, map[string]any{"answers": []string{"elicitation"}})
		r.must(VerbConnect, `{"authorize":["a"]}`)
		a := r.do(VerbCall, `{"server":"a","tool":"echo"}`)
		if a.code() != "needs_input" || !strings.Contains(a.raw, `"inputs":[{"id":"tok"`) || len(r.host.asked()) != 0 {
			t.Errorf("call: %s, asked %v", a.raw, r.host.asked())
		}
		r.m.Close(0)
	})
}

// TestInputIsNoMethodOfServers: a server cannot ask for a secret by a request of its own.
func TestInputIsNoMethodOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := wantsToken(t, nil)
		if _, err := r.m.ask(t.Context(), "a", "input", []byte(`{"id":"password"}`)); err == nil || len(r.host.asked()) != 0 {
			t.Errorf("asked %v", r.host.asked())
		}
	})
}

// TestInputOfAFile: what the file says of an input reaches the host, and the answer
// for one file's input is not given to another file's of the same name.
func TestInputOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]string{}
		server := func(name string) func(*config.Resolved) *mcptest.Memory {
			return func(r *config.Resolved) *mcptest.Memory {
				got[name] = r.Env["K"]
				return echo()
			}
		}
		r, dir := newProject(t, servers{"one": server("one"), "two": server("two")}, map[string]any{"answers": []string{"input"}})
		write(t, filepath.Join(dir, ".vscode", "mcp.json"),
			`{"inputs":[{"id":"k","type":"promptString","description":"The key of one"}],"servers":{"one":{"command":"scripted","args":["1"],"env":{"K":"${input:k}"}}}}`)
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("two", `,"args":["2"],"env":{"K":"${input:k}"}`)))
		r.must(VerbConnect, `{"authorize":["one"]}`)
		synctest.Wait()
		asked := r.host.asked()
		if len(asked) != 1 || fmt.Sprint(asked[0]["params"]) != "map[description:The key of one id:k password:false]" {
			t.Fatalf("asked %v", asked)
		}
		r.m.Answer(r.host.open(t), []byte(`{"result":{"value":"key-of-one"}}`))
		time.Sleep(time.Second)
		r.must(VerbConnect, `{"restart":true}`)
		if got["one"] != "key-of-one" || got["two"] != "" || r.server("two")["state"] != "needs_input" {
			t.Errorf("started with %v, two is %v", got, r.server("two")["state"])
		}
		r.m.Close(0)
	})
}
