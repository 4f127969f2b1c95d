package trace

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// quick is a server whose answer comes before the write that asked for it returns.
type quick struct{ out transport.Receiver }

func (q quick) Send(_ context.Context, msg []byte) (uint64, error) {
	var m transport.Message
	if err := transport.Scan(bytes.ReplaceAll(msg, []byte(`"method":"tools/call","params":{}`), []byte(`"result":{}`)), &m); err != nil {
		return 0, err
	}
	q.out.Receive(&m)
	copy(msg, bytes.Repeat([]byte{'#'}, len(msg))) // the caller's, from now on
	return 1, nil
}
func (quick) Begun(uint64) bool         { return true }
func (quick) Close(time.Duration, bool) {}
func (quick) Done() <-chan struct{}     { return nil }
func (quick) Info() transport.Info      { return transport.Info{} }

type deaf struct{}

func (deaf) Receive(*transport.Message) {}
func (deaf) Closed(*fault.Error)        {}

// TestAnAnswerStandsBehindItsRequest: and each is written once, with its own payload.
func TestAnAnswerStandsBehindItsRequest(t *testing.T) {
	r := open(t, Options{PayloadBytes: 1000})
	dial := r.Start("a", 1, "stdio", "x").Dial(func(_ context.Context, out transport.Receiver) (transport.Conn, error) { return quick{out}, nil })
	conn, err := dial(t.Context(), deaf{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := conn.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	var got []string
	trace, err := ReadFile(r.opts.File, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range trace.Records {
		if rec.Type == TypeMessage {
			got = append(got, rec.Direction+" "+rec.Kind+" "+string(rec.Payload))
		}
	}
	if want := strings.Repeat("out request {}|in response {}|", 3); strings.Join(got, "|")+"|" != want {
		t.Errorf("%q", got)
	}
}
