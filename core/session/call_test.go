package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/transport"
)

func bubble(t *testing.T, script mcptest.Script, f func(t *testing.T, s *Session, memory *mcptest.Memory, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory, h := mcptest.NewMemory(script), &host{}
		f(t, connect(t, memory, h), memory, h)
	})
}

func TestArgumentsAndResultsStayRaw(t *testing.T) {
	raw := `{"content": [ {"type":"video","x":9007199254740993} ],  "unknown":1e400,"_meta":{"big":12345678901234567890}}`
	script := mcptest.Script{Results: map[string]string{"raw": raw}, Do: map[string]string{"päpä\n": "echo"}}
	bubble(t, script, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		if r := run(s, tool("raw", `{}`)); r.text != raw {
			t.Errorf("got %s\nwant %s", r.text, raw)
		}
		args := `{"n": 9007199254740993,  "s":"a\u00e9\n","o":{"z":1,"a":2}}`
		r := run(s, tool("päpä\n", args))
		if want := `"structuredContent":` + args + `}`; !strings.HasSuffix(r.text, want) {
			t.Errorf("got %s, want …%s", r.text, want)
		}
		broken := "{\r\n  \"a\": 1\n}"
		r = run(s, Call{Name: "echo", Arguments: []byte(broken)})
		if want := `"structuredContent":{    "a": 1 }}`; !strings.HasSuffix(r.text, want) {
			t.Errorf("got %s: a message must be one line", r.text)
		}
		r = run(s, Call{Name: "echo"})
		if !strings.HasSuffix(r.text, `"structuredContent":{}}`) {
			t.Errorf("no arguments became %s", r.text)
		}
		for _, line := range memory.Counts().Received {
			if strings.ContainsAny(line, "\n\r") || !json.Valid([]byte(line)) {
				t.Errorf("sent %q", line)
			}
		}
	})
}

func TestRequestEnvelope(t *testing.T) {
	modern := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"}`
	meta := modernMeta(Config{Capabilities: []byte(`{}`), ClientInfo: ClientInfo{"n", "1"}})
	listen := func([]byte) {}
	for _, c := range []struct {
		name  string
		call  Call
		meta  []byte
		again *retry
		want  string
	}{
		{"tool", Call{Method: "tools/call", Name: "t"}, nil, nil, `"params":{"name":"t","arguments":{},"_meta":{"progressToken":5}}`},
		{"tool with meta", Call{Method: "tools/call", Name: "t", Meta: []byte(` {"a": 1,"progressToken":"mine"} `)}, nil, nil, `"params":{"name":"t","arguments":{},"_meta":{"a":1,"progressToken":5}}`},
		{"modern tool", Call{Method: "tools/call", Name: "t"}, meta, nil, `"params":{"name":"t","arguments":{},"_meta":{"progressToken":5,` + modern + `}}`},
		{"no params", Call{Method: "ping"}, nil, nil, ``},
		{"empty params", Call{Method: "m", Params: []byte(`{}`)}, nil, nil, `"params":{}`},
		{"params", Call{Method: "m", Params: []byte(`{"uri":"x", "n":9007199254740993}`)}, nil, nil, `"params":{"uri":"x","n":9007199254740993}`},
		{"modern, no params", Call{Method: "m"}, meta, nil, `"params":{"_meta":{` + modern + `}}`},
		{"modern, own meta", Call{Method: "m", Params: []byte(`{"_meta":{"a":1,"io.modelcontextprotocol/protocolVersion":"x"},"b":2}`)}, meta, nil, `"params":{"b":2,"_meta":{"a":1,` + modern + `}}`},
		{"progress", Call{Method: "m", Params: []byte(`{"b":2}`), Progress: listen}, nil, nil, `"params":{"b":2,"_meta":{"progressToken":5}}`},
		{"retry", Call{Method: "tools/call", Name: "t"}, nil, &retry{[]byte(`{"q":{}}`), []byte(`"\u00e9"`)}, `"params":{"name":"t","arguments":{},"_meta":{"progressToken":5},"inputResponses":{"q":{}},"requestState":"\u00e9"}`},
		{"retry without state", Call{Method: "prompts/get", Params: []byte(`{"name":"p"}`)}, nil, &retry{[]byte(`{}`), nil}, `"params":{"name":"p","inputResponses":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(appendRequest(nil, 5, &c.call, c.meta, c.again))
			want := `{"jsonrpc":"2.0","id":5,"method":"` + c.call.Method + `"`
			if c.want != "" {
				want += "," + c.want
			}
			if want += "}"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	bubble(t, mcptest.Script{Results: map[string]string{"null": `null`, "list": `[]`}}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		if r := run(s, tool("fail", `{}`)); r.err != nil || !strings.Contains(r.text, `"isError":true`) {
			t.Errorf("a tool's own failure: %s, %v; want a result", r.text, r.err)
		}
		r := run(s, tool("rpcerror", `{"code":-32077}`))
		f := wantFault(t, r.err, fault.RPCError, "demo", "rpcerror", "scripted error", "-32077")
		if *f.Data.RPCCode != -32077 || f.Data.RPCMessage != "scripted error" || string(f.Data.RPCData.(json.RawMessage)) != `{"detail":"scripted","big":9007199254740993}` {
			t.Errorf("data %+v", f.Data)
		}
		for _, name := range []string{"neither", "null", "list"} {
			wantFault(t, run(s, tool(name, `{}`)).err, fault.Protocol, name)
		}
		_, damaged := s.outcomeOf(&transport.Message{Damaged: "not valid JSON"}, &pending{s: s, call: Call{Method: "tools/call", Name: "echo"}})
		wantFault(t, damaged, fault.Protocol, "demo", "echo", "not valid JSON")
		if _, err := s.Request(t.Context(), "no/such", nil); !isRPC(err, -32601) {
			t.Errorf("no/such: %v", err)
		}
		if result, err := s.Request(t.Context(), "ping", nil); err != nil || string(result) != `{}` {
			t.Errorf("ping: %s, %v", result, err)
		}
	})
}

func TestErrorAsBareString(t *testing.T) {
	s := &Session{cfg: Config{Server: "demo"}}
	f := s.rpcError([]byte(`"cursor_invalid"`), &pending{call: Call{Method: "m"}})
	if *f.Data.RPCCode != -32603 || f.Data.RPCMessage != "cursor_invalid" {
		t.Errorf("%+v", f.Data)
	}
	f = s.rpcError([]byte(`{"code":"x","message":7}`), &pending{call: Call{Method: "m"}})
	if *f.Data.RPCCode != -32603 || f.Data.RPCMessage != "7" {
		t.Errorf("%+v", f.Data)
	}
}

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := mcptest.NewMemory(mcptest.Script{})
		memory.MessageBytes = 64 << 10
		s := connect(t, memory, &host{})
		wantFault(t, run(s, tool("big", `{"bytes":100000}`)).err, fault.TooLarge, "big", "limits.messageBytes")
		if r := run(s, tool("add", `{"a":2,"b":2}`)); r.err != nil {
			t.Errorf("the session did not live on: %v", r.err)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		r, wait, cancel := launch(s, tool("slow", `{"ms":60000}`))
		time.Sleep(time.Second)
		cancel()
		cancel()
		<-wait
		wantFault(t, r.err, fault.Canceled, "slow")
		synctest.Wait()
		if c := memory.Counts(); len(c.Cancelled) != 1 || c.Cancelled[0] != lastID(c.Received, "slow") {
			t.Errorf("cancelled %v of %v", c.Cancelled, c.Received)
		}
		if r.at != time.Second || r.done != 1 {
			t.Errorf("%d outcomes after %v", r.done, r.at)
		}
		if r := run(s, tool("add", `{"a":1,"b":1}`)); r.err != nil {
			t.Errorf("after a cancellation: %v", r.err)
		}
	})
}

// lastID finds the id of the newest request that contains part.
func lastID(received []string, part string) string {
	id := ""
	for _, line := range received {
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		if strings.Contains(line, part) && json.Unmarshal([]byte(line), &m) == nil {
			id = string(m.ID)
		}
	}
	return id
}

func TestTimeout(t *testing.T) {
	// The server has a cancellation to hear of and answers all the same.
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		c := tool("hang", `{}`)
		c.Timeout = 3 * time.Second
		r := run(s, c)
		f := wantFault(t, r.err, fault.Timeout, "demo", "hang", "3000 ms")
		if r.at != 3*time.Second || f.Data.TimeoutMs != 3000 || !f.Retryable {
			t.Errorf("after %v, %+v", r.at, f)
		}
		synctest.Wait()
		counts := memory.Counts()
		if len(counts.Cancelled) != 1 {
			t.Errorf("cancelled %v", counts.Cancelled)
		}
		memory.Say(`{"jsonrpc":"2.0","id":` + lastID(counts.Received, "hang") + `,"result":{"late":true}}`)
		memory.Say(`{"jsonrpc":"2.0","id":"nonsense","result":{}}`)
		memory.Say(`{"jsonrpc":"2.0","id":99999,"result":{}}`)
		synctest.Wait()
		if r.done != 1 || s.Stats().Unmatched != 3 {
			t.Errorf("%d outcomes, %d unmatched", r.done, s.Stats().Unmatched)
		}
	})
}

func TestNoTimeout(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		if r := run(s, tool("slow", `{"ms":36000000}`)); r.err != nil || r.at != 10*time.Hour {
			t.Errorf("%v after %v", r.err, r.at)
		}
	})
}

func TestProgressExtendsTheTimeout(t *testing.T) {
	for _, listens := range []bool{false, true} {
		t.Run(fmt.Sprint("listener ", listens), func(t *testing.T) {
			bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
				c := tool("progress", `{"n":10,"everyMs":300}`)
				c.Timeout = time.Second
				var steps []string
				if listens {
					c.Progress = func(params []byte) { steps = append(steps, string(params)) }
				}
				r := run(s, c)
				if r.err != nil || r.at != 3*time.Second {
					t.Fatalf("%v after %v", r.err, r.at)
				}
				if listens && (len(steps) != 10 || !strings.Contains(steps[0], `"message":"step 1"`) || !strings.Contains(steps[9], `"message":"step 10"`)) {
					t.Errorf("steps %v", steps)
				}
				c.Arguments, c.MaxTimeout = []byte(`{"n":100,"everyMs":300}`), 2*time.Second
				r = run(s, c)
				f := wantFault(t, r.err, fault.Timeout, "2000 ms")
				if r.at != 2*time.Second || f.Data.TimeoutMs != 2000 {
					t.Errorf("the ceiling held at %v, %+v", r.at, f.Data)
				}
				if notices, _, _ := h.seen(); len(notices) != 0 {
					t.Errorf("the handler got %v", notices)
				}
			})
		})
	}
}

// Progress of one burst comes before its result, never after.
func TestProgressBeforeDone(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		for range 20 {
			var done atomic.Bool
			steps, late := 0, 0
			c := Call{Method: "tools/call", Name: "progress", Arguments: []byte(`{"n":200}`)}
			c.Progress = func([]byte) {
				if steps++; done.Load() {
					late++
				}
			}
			wait := make(chan error, 2)
			c.Done = func(_ []byte, err error) { done.Store(true); wait <- err }
			s.Start(&c)
			if err := <-wait; err != nil || steps != 200 || late != 0 {
				t.Fatalf("%v, %d steps, %d of them late", err, steps, late)
			}
		}
	})
}

func TestCancelInsideProgress(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		steps, ended := 0, make(chan error, 2)
		var cancel func()
		started := make(chan struct{})
		cancel = s.Start(&Call{Method: "tools/call", Name: "progress", Arguments: []byte(`{"n":50,"everyMs":10}`),
			Progress: func([]byte) { <-started; steps++; cancel() },
			Done:     func(_ []byte, err error) { ended <- err }})
		close(started)
		wantFault(t, <-ended, fault.Canceled)
		time.Sleep(time.Second)
		if steps != 1 || len(ended) != 0 {
			t.Errorf("%d steps, %d more outcomes", steps, len(ended))
		}
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	bubble(t, mcptest.Script{StringIDs: true}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		const n = 200
		var wg sync.WaitGroup
		started := time.Now()
		for i := range n {
			wg.Go(func() {
				name, args := "echo", fmt.Sprintf(`{"i":%d}`, i)
				if i%2 == 0 {
					name, args = "slow", fmt.Sprintf(`{"i":%d,"ms":500}`, i)
				}
				r := run(s, tool(name, args))
				if r.err != nil || r.done != 1 || name == "echo" && !strings.HasSuffix(r.text, `"structuredContent":`+args+`}`) {
					t.Errorf("call %d: %+v", i, r)
				}
			})
		}
		wg.Wait()
		if took := time.Since(started); took != 500*time.Millisecond {
			t.Errorf("took %v: the calls waited for each other", took)
		}
		if c := memory.Counts(); c.Calls["echo"] != n/2 || c.Calls["slow"] != n/2 {
			t.Errorf("calls %v", c.Calls)
		}
	})
}

func TestDeathInACall(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		r1, wait1, _ := launch(s, tool("hang", `{}`))
		synctest.Wait()
		r2 := run(s, tool("die", `{"code":9}`))
		<-wait1
		for _, r := range []result{*r1, r2} {
			f := wantFault(t, r.err, fault.Exited, "code 9")
			if *f.Data.ExitCode != 9 || f.Data.Stderr != "dying as told\n" || NeverWritten(r.err) || r.done != 1 {
				t.Errorf("%+v, never written %v", f.Data, NeverWritten(r.err))
			}
		}
		<-s.Done()
		_, _, lost := h.seen()
		if len(lost) != 1 || lost[0].Code != fault.Exited {
			t.Errorf("lost %v", lost)
		}
		r := run(s, tool("add", `{}`))
		wantFault(t, r.err, fault.Exited)
		if !NeverWritten(r.err) {
			t.Error("a call on a dead session counts as written")
		}
	})
}

func TestNeverWritten(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		read, wait1, _ := launch(s, tool("hang", `{}`))
		synctest.Wait()
		if r := run(s, tool("deaf", `{}`)); r.err != nil {
			t.Fatal(r.err)
		}
		unread, wait2, _ := launch(s, tool("add", `{}`))
		synctest.Wait()
		memory.Kill(1)
		<-wait1
		<-wait2
		if NeverWritten(read.err) || !NeverWritten(unread.err) {
			t.Errorf("never written: %v and %v; want false and true", NeverWritten(read.err), NeverWritten(unread.err))
		}
		if f := wantFault(t, unread.err, fault.Exited); !NeverWritten(f.Clone()) || !f.Retryable {
			t.Error("a clone forgets the mark")
		}
	})
}

func TestClose(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		r, wait, _ := launch(s, tool("hang", `{}`))
		synctest.Wait()
		if !s.Acquire() {
			t.Fatal("Acquire refused on a live session")
		}
		s.Close(time.Second)
		s.Close(time.Second)
		<-wait
		wantFault(t, r.err, fault.Closed)
		<-s.Done()
		if s.Acquire() {
			t.Error("Acquire after Close")
		}
		if _, _, lost := h.seen(); len(lost) != 1 || lost[0].Code != fault.Closed {
			t.Errorf("lost %v", lost)
		}
		if r := run(s, tool("add", `{}`)); !fault.Is(r.err, fault.Closed) || !NeverWritten(r.err) {
			t.Errorf("call after Close: %v", r.err)
		}
		if err := s.Notify(t.Context(), "notifications/roots/list_changed", nil); err == nil {
			t.Error("Notify after Close succeeds")
		}
	})
}

func TestRequestEndsWithItsContext(t *testing.T) {
	bubble(t, mcptest.Script{Do: map[string]string{}}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := s.Request(ctx, "tools/call", []byte(`{"name":"hang"}`))
		if f := wantFault(t, err, fault.Timeout); f.Data.TimeoutMs != 3000 {
			t.Errorf("%+v", f.Data)
		}
		_, err = s.Request(ctx, "ping", nil)
		if wantFault(t, err, fault.Timeout); !NeverWritten(err) {
			t.Error("sent with a context that had ended")
		}
		_, err = s.Request(t.Context(), "tools/call", []byte(`{"name":"hang"}`))
		if f := wantFault(t, err, fault.Timeout); f.Data.TimeoutMs != 30000 {
			t.Errorf("%+v", f.Data)
		}
	})
}

func TestUsage(t *testing.T) {
	var s Session
	for range 2 {
		if !s.Acquire() {
			t.Fatal("refused")
		}
	}
	if s.InFlight() != 2 || s.TryRetire() {
		t.Fatal("two uses")
	}
	s.Release()
	s.Release()
	if s.InFlight() != 0 || !s.TryRetire() || s.Acquire() || s.TryRetire() {
		t.Fatal("retirement")
	}
}

// stuck is a connection whose queue has no room, and nothing is ever written.
type stuck struct {
	transport.Conn
}

func (stuck) Send(ctx context.Context, _ []byte) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestTimeoutOfAStuckSend(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		conn := s.conn
		s.conn = stuck{conn}
		c := tool("add", `{}`)
		c.Timeout = time.Second
		r := run(s, c)
		if wantFault(t, r.err, fault.Timeout); r.at != time.Second || r.done != 1 {
			t.Errorf("%d outcomes after %v", r.done, r.at)
		}
		s.conn = conn
		if n := len(memory.Counts().Cancelled); n != 0 {
			t.Errorf("%d cancellations of a request that was never sent", n)
		}
	})
}

func TestPanicOfAHandlerEndsTheSession(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		h.onNotice = func(string) { panic("boom") }
		r, wait, _ := launch(s, tool("hang", `{}`))
		synctest.Wait()
		memory.Notify("notifications/message", `{}`)
		<-wait
		wantFault(t, r.err, fault.Internal, "boom")
		<-s.Done()
		if _, _, lost := h.seen(); len(lost) != 1 || lost[0].Code != fault.Internal {
			t.Errorf("lost %v", lost)
		}
	})
}

func TestParseID(t *testing.T) {
	for raw, want := range map[string]int64{`7`: 7, `"7"`: 7, `7.0`: 7, `"7.0"`: 7, `0`: 0} {
		if id, ok := parseID([]byte(raw)); !ok || id != want {
			t.Errorf("%s: %d, %v", raw, id, ok)
		}
	}
	for _, raw := range []string{``, `""`, `.0`, `7.5`, `7.00`, `-7`, `7e0`, `null`, `true`, `1234567890123456789`} {
		if id, ok := parseID([]byte(raw)); ok {
			t.Errorf("%s was read as %d", raw, id)
		}
	}
}
