package session

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}

// host is a Handler that records.
type host struct {
	mu       sync.Mutex
	notices  []string
	asked    []string
	lost     []*fault.Error
	answer   func(ctx context.Context, method string, params []byte) ([]byte, error)
	onNotice func(method string)
}

func (h *host) Notification(_ *Session, method string, params []byte) {
	h.mu.Lock()
	h.notices = append(h.notices, strings.TrimSuffix(method+" "+string(params), " "))
	on := h.onNotice
	h.mu.Unlock()
	if on != nil {
		on(method)
	}
}

func (h *host) Request(ctx context.Context, _ *Session, method string, params []byte) ([]byte, error) {
	h.mu.Lock()
	h.asked = append(h.asked, method)
	h.mu.Unlock()
	if h.answer != nil {
		return h.answer(ctx, method, params)
	}
	return fmt.Appendf(nil, `{"answered":%q}`, method), nil
}

func (h *host) Lost(_ *Session, err *fault.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, err)
}

func (h *host) seen() (notices, asked []string, lost []*fault.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.notices...), append([]string(nil), h.asked...), append([]*fault.Error(nil), h.lost...)
}

const allCapabilities = `{"elicitation":{},"sampling":{},"roots":{}}`

func configFor(memory *mcptest.Memory, h *host) Config {
	return Config{Server: "demo", Dial: memory.Dial, ClientInfo: ClientInfo{"mcprt", "0"}, Capabilities: []byte(allCapabilities),
		ProbeTimeout: 2 * time.Second, Timeout: 30 * time.Second, Limits: Limits{Pages: 50, Tools: 2000}, Handler: h}
}

// connect makes a session and closes it at the end of the test.
func connect(t *testing.T, memory *mcptest.Memory, h *host) *Session {
	t.Helper()
	s, err := Connect(t.Context(), configFor(memory, h))
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		s.Close(time.Second)
		<-s.Done()
	})
	return s
}

// result is the outcome of one call; done counts how often Done was called.
type result struct {
	text string
	err  error
	done int
	at   time.Duration
}

// run starts a call and waits for its outcome.
func run(s *Session, c Call) result {
	r, wait, _ := launch(s, c)
	<-wait
	return *r
}

func launch(s *Session, c Call) (r *result, wait chan struct{}, cancel func()) {
	r, wait = &result{}, make(chan struct{}, 10)
	if c.Method == "" {
		c.Method = "tools/call"
	}
	started := time.Now()
	c.Done = func(b []byte, err error) {
		*r = result{string(b), err, r.done + 1, time.Since(started)}
		wait <- struct{}{}
	}
	return r, wait, s.Start(&c)
}

func tool(name, args string) Call { return Call{Name: name, Arguments: []byte(args)} }

func wantFault(t *testing.T, err error, code fault.Code, parts ...string) *fault.Error {
	t.Helper()
	f, ok := err.(*fault.Error)
	if !ok {
		t.Fatalf("got %v (%T), want a fault of code %s", err, err, code)
	}
	if f.Code != code {
		t.Fatalf("code %s (%s), want %s", f.Code, f.Message, code)
	}
	if f.Server != "demo" {
		t.Errorf("server %q in %q, want demo", f.Server, f.Message)
	}
	for _, part := range parts {
		if !strings.Contains(f.Message, part) {
			t.Errorf("message %q lacks %q", f.Message, part)
		}
	}
	return f
}

func count(list []string, part string) int {
	n := 0
	for _, s := range list {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}
