package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

func TestServerRequests(t *testing.T) {
	for _, c := range []struct{ tool, method string }{
		{"elicit", "elicitation/create"}, {"sample", "sampling/createMessage"}, {"roots", "roots/list"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
				r := run(s, tool(c.tool, `{}`))
				if want := fmt.Sprintf(`{\"answered\":\"%s\"}`, c.method); !strings.Contains(r.text, want) {
					t.Errorf("the server got %s, %v", r.text, r.err)
				}
				if _, asked, _ := h.seen(); !slices.Equal(asked, []string{c.method}) {
					t.Errorf("asked %v", asked)
				}
				rejected := int64(-1)
				h.answer = func(context.Context, string, []byte) ([]byte, error) {
					return nil, fault.New(fault.InvalidRequest, "", "no").With(fault.Data{RPCCode: &rejected, RPCMessage: "User rejected"})
				}
				if r := run(s, tool(c.tool, `{}`)); !strings.Contains(r.text, `{\"code\":-1,\"message\":\"User rejected\"}`) {
					t.Errorf("the server got %s", r.text)
				}
				h.answer = func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("broken") }
				if r := run(s, tool(c.tool, `{}`)); !strings.Contains(r.text, `{\"code\":-32603,\"message\":\"broken\"}`) {
					t.Errorf("the server got %s", r.text)
				}
				h.answer = func(context.Context, string, []byte) ([]byte, error) { return []byte(`7`), nil }
				if r := run(s, tool(c.tool, `{}`)); !strings.Contains(r.text, `\"code\":-32603`) {
					t.Errorf("the server got %s", r.text)
				}
			})
		})
	}
}

// The clock of every call of the session stands still while a person thinks.
func TestTimersStandStill(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		h.answer = func(context.Context, string, []byte) ([]byte, error) {
			time.Sleep(10 * time.Minute)
			return []byte(`{}`), nil
		}
		other := tool("hang", `{}`)
		other.Timeout = 2 * time.Second
		r, wait, _ := launch(s, other)
		time.Sleep(time.Second)
		asking := tool("elicit", `{}`)
		asking.Timeout, asking.MaxTimeout = time.Second, time.Second
		if r := run(s, asking); r.err != nil || r.at != 10*time.Minute {
			t.Errorf("the asking call: %v after %v", r.err, r.at)
		}
		<-wait
		if wantFault(t, r.err, fault.Timeout, "2000 ms"); r.at != 10*time.Minute+2*time.Second {
			t.Errorf("the other call timed out after %v", r.at)
		}
	})
}

func TestServerCancelsItsRequest(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		ended := make(chan error, 1)
		h.answer = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		_, wait, cancel := launch(s, tool("elicit", `{}`))
		synctest.Wait()
		cancel()
		<-wait
		<-ended // the server withdraws what the cancelled call had asked
		synctest.Wait()
		if n := count(memory.Counts().Received, `"error"`); n != 0 {
			t.Errorf("%d replies to a request that was withdrawn", n)
		}
	})
}

func TestPingAndStrangers(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		memory.Ask(`"p 1"`, "ping", `{}`)
		memory.Ask(`7`, "tasks/get", `{}`)
		memory.Ask(`"`+strings.Repeat("x", 1000)+`"`, "ping", `{}`)
		synctest.Wait()
		got := memory.Counts().Received
		if count(got, `{"jsonrpc":"2.0","id":"p 1","result":{}}`) != 1 {
			t.Errorf("no answer to ping in %v", got)
		}
		if count(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`) != 1 {
			t.Errorf("no refusal in %v", got)
		}
		if count(got, "xxxxx") != 0 || s.Stats().Refused != 1 {
			t.Errorf("an id of 1000 bytes was echoed")
		}
	})
}

func TestUndeclaredRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, h := mcptest.NewMemory(mcptest.Script{}), &host{}
		cfg := configFor(memory, h)
		cfg.Capabilities = []byte(`{"roots":{}}`)
		s, err := Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close(0); <-s.Done() }()
		if r := run(s, tool("sample", `{}`)); !strings.Contains(r.text, `-32601`) {
			t.Errorf("the server got %s", r.text)
		}
		if _, asked, _ := h.seen(); len(asked) != 0 {
			t.Errorf("asked %v", asked)
		}
	})
}

func TestTooManyRequests(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		h.answer = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			select {
			case <-time.After(time.Minute):
				return []byte(`{}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		for i := range 100 {
			memory.Ask(fmt.Sprint(i), "roots/list", `{}`)
		}
		memory.Ask("3", "roots/list", `{}`) // in use
		time.Sleep(2 * time.Minute)
		got := memory.Counts().Received
		if n := count(got, `"result":{}`); n != maxRequests {
			t.Errorf("%d answers, want %d", n, maxRequests)
		}
		if n := count(got, `"code":-32000`); n != 100-maxRequests {
			t.Errorf("%d refusals", n)
		}
		if n := count(got, `"code":-32600`); n != 1 {
			t.Errorf("%d refusals of an id in use", n)
		}
		if r := run(s, tool("roots", `{}`)); r.err != nil {
			t.Errorf("afterwards: %v", r.err)
		}
	})
}

func TestNotificationsInOrder(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		run(s, tool("log", `{"n":3}`))
		memory.Notify("notifications/resources/updated", `{"uri":"a","n":9007199254740993}`)
		memory.Notify("x/own", "")
		synctest.Wait()
		notices, _, _ := h.seen()
		want := []string{
			`notifications/message {"level":"info","logger":"scripted","data":0}`,
			`notifications/message {"level":"info","logger":"scripted","data":1}`,
			`notifications/message {"level":"info","logger":"scripted","data":2}`,
			`notifications/resources/updated {"uri":"a","n":9007199254740993}`,
			`x/own`,
		}
		if !slices.Equal(notices, want) {
			t.Errorf("got %q", notices)
		}
	})
}

// A flood finds the queue full; calls go on, and list_changed is not lost.
func TestFlood(t *testing.T) {
	bubble(t, mcptest.Script{}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		block := make(chan struct{})
		h.onNotice = func(string) { <-block }
		if r := run(s, tool("log", `{"n":30000}`)); r.err != nil {
			t.Fatal(r.err)
		}
		run(s, tool("changed", `{}`))
		run(s, tool("changed", `{}`))
		synctest.Wait()
		close(block)
		synctest.Wait()
		notices, _, _ := h.seen()
		if n := count(notices, "notifications/message"); n < maxNotices || n > maxNotices+1 {
			t.Errorf("%d messages", n)
		}
		if n := count(notices, "notifications/tools/list_changed"); n != 1 {
			t.Errorf("%d list_changed, want the one that stands for both", n)
		}
		if dropped := s.Stats().Dropped; dropped < 30000-maxNotices-1 {
			t.Errorf("%d dropped", dropped)
		}
	})
}

func TestFloodOfBytes(t *testing.T) {
	q := newQueue()
	for range 20 {
		q.add(notice{method: "m", params: make([]byte, 1<<20)})
	}
	if q.dropped() != 4 {
		t.Errorf("%d dropped of 20 MiB", q.dropped())
	}
	for range 16 {
		q.next()
	}
	if !q.add(notice{method: "m", params: make([]byte, 1<<20)}) {
		t.Error("no room after all was taken")
	}
}

func modern(t *testing.T, f func(t *testing.T, s *Session, memory *mcptest.Memory, h *host)) {
	t.Helper()
	bubble(t, mcptest.Script{Versions: []string{mcptest.Modern}, Results: map[string]string{
		"odd":      `{"resultType":"odd"}`,
		"quote":    `{"resultType":"complete","content":[{"text":"\"resultType\":\"task\""}]}`,
		"inside":   `{"content":[{"resultType":"task"}]}`,
		"forever":  `{"resultType":"input_required","requestState":"s"}`,
		"wrong":    `{"resultType":"input_required","inputRequests":7}`,
		"stranger": `{"resultType":"input_required","inputRequests":{"a":{"method":"tools/call"}}}`,
	}}, f)
}

func TestMultiRoundTrip(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		c := tool("input", `{"rounds":3,  "x":9007199254740993}`)
		c.Meta = []byte(`{"trace":"t"}`)
		r := run(s, c)
		if r.err != nil || !strings.Contains(r.text, `answered`) {
			t.Fatalf("%s, %v", r.text, r.err)
		}
		if _, asked, _ := h.seen(); count(asked, "elicitation/create") != 3 || count(asked, "roots/list") != 3 {
			t.Errorf("asked %v", asked)
		}
		ids := map[string]bool{}
		var calls []string
		for _, line := range memory.Counts().Received {
			if strings.Contains(line, "tools/call") {
				calls = append(calls, line)
				ids[lastID([]string{line}, "")] = true
				if !strings.Contains(line, `"arguments":{"rounds":3,  "x":9007199254740993}`) || !strings.Contains(line, `"trace":"t"`) {
					t.Errorf("the request changed: %s", line)
				}
			}
		}
		if len(calls) != 4 || len(ids) != 4 {
			t.Errorf("%d requests with %d ids", len(calls), len(ids))
		}
		if !strings.Contains(calls[3], `"requestState":"r\u00e9\/ 3"`) {
			t.Errorf("the state is not as it came: %s", calls[3])
		}
	})
}

func TestResultTypes(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		wantFault(t, run(s, tool("odd", `{}`)).err, fault.Protocol, `"odd"`)
		for _, name := range []string{"quote", "inside"} {
			if r := run(s, tool(name, `{}`)); r.err != nil {
				t.Errorf("%s: %v", name, r.err)
			}
		}
		wantFault(t, run(s, tool("forever", `{}`)).err, fault.Protocol, "more than 10 times")
		if n := memory.Counts().Calls["forever"]; n != maxRounds+1 {
			t.Errorf("%d requests", n)
		}
		wantFault(t, run(s, tool("wrong", `{}`)).err, fault.Protocol, "cannot be read")
		wantFault(t, run(s, tool("stranger", `{}`)).err, fault.Protocol, "did not declare")
		rejected := int64(-1)
		h.answer = func(context.Context, string, []byte) ([]byte, error) {
			return nil, fault.New(fault.NeedsInput, "", "declined").With(fault.Data{RPCCode: &rejected})
		}
		wantFault(t, run(s, tool("input", `{}`)).err, fault.NeedsInput, "declined")
	})
}

func TestCancelWhileAsking(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		ended := make(chan struct{}, 2)
		h.answer = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}
		c := tool("input", `{}`)
		c.Timeout = time.Second
		r, wait, cancel := launch(s, c)
		time.Sleep(time.Minute) // the clock stands still
		cancel()
		<-wait
		<-ended
		<-ended
		synctest.Wait()
		if wantFault(t, r.err, fault.Canceled); r.done != 1 {
			t.Errorf("%d outcomes", r.done)
		}
		if counts := memory.Counts(); len(counts.Cancelled) != 0 || counts.Calls["input"] != 1 {
			t.Errorf("%+v", counts)
		}
	})
}

func TestDeathWhileAsking(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		h.answer = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		r, wait, _ := launch(s, tool("input", `{}`))
		synctest.Wait()
		memory.Kill(2)
		<-wait
		if wantFault(t, r.err, fault.Exited, "code 2"); NeverWritten(r.err) {
			t.Error("a request that was answered counts as never written")
		}
	})
}

// In the modern era a server has no requests, and a client sends no responses.
func TestModernServerRequestIsIgnored(t *testing.T) {
	modern(t, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		memory.Ask("1", "roots/list", `{}`)
		memory.Ask("2", "ping", `{}`)
		synctest.Wait()
		for _, line := range memory.Counts().Received {
			var m struct {
				Method string `json:"method"`
			}
			if json.Unmarshal([]byte(line), &m) != nil || m.Method == "" {
				t.Errorf("sent %s", line)
			}
		}
		if s.Stats().Refused != 2 {
			t.Errorf("stats %+v", s.Stats())
		}
	})
}

// A modern server tells of changes only on a listen request, which may end and is renewed.
func TestListening(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, h := mcptest.NewMemory(mcptest.Script{Versions: []string{mcptest.Modern}}), &host{}
				cfg := configFor(memory, h)
				if known {
					first, err := Connect(t.Context(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					verdict := first.Info().Verdict
					cfg.Known = &verdict
					first.Close(0)
					<-first.Done()
				}
				s, err := Connect(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Close(0); <-s.Done() }()
				synctest.Wait()
				for range 3 {
					memory.SetTools(mcptest.NumberedTools(1))
					memory.EndListening()
					time.Sleep(time.Minute)
				}
				notices, _, _ := h.seen()
				if len(notices) != 3 || count(notices, "notifications/tools/list_changed") != 3 {
					t.Errorf("notices %v", notices)
				}
				if n := s.Stats().Unmatched; n != 0 {
					t.Errorf("%d messages without a match", n)
				}
			})
		})
	}
}

func TestListeningRefused(t *testing.T) {
	bubble(t, mcptest.Script{Versions: []string{mcptest.Modern}, NoListen: true}, func(t *testing.T, s *Session, memory *mcptest.Memory, h *host) {
		time.Sleep(time.Hour)
		if n := count(memory.Counts().Received, "subscriptions/listen"); n != 1 {
			t.Errorf("%d requests to listen", n)
		}
	})
}
