package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

func (r *rig) stats() (out stats) {
	r.t.Helper()
	a := r.do(VerbCall, `{"method":"mcprt/stats"}`)
	var reply struct {
		Result stats `json:"result"`
	}
	if err := json.Unmarshal([]byte(a.raw), &reply); err != nil || a.st != OK {
		r.t.Fatalf("%v: %s", err, a.raw)
	}
	return reply.Result
}

func TestStatsCountWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("slow")}}
		s := mcptest.NewMemory(script)
		r := newRig(t, servers{"a": s, "b": mcptest.NewMemory(mcptest.Script{ExitAtStart: mcptest.Code(1)})}, map[string]any{"reconnect": "onCall"})
		r.do(VerbConnect, `{"startupTimeoutMs":0}`)
		for range 20 {
			r.do(VerbCall, `{"server":"a","tool":"echo"}`)
		}
		for range 5 {
			r.do(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":50}}`)
		}
		r.do(VerbCall, `{"server":"a","method":"nothing/here"}`)
		r.do(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":50},"timeoutMs":10}`)
		r.do(VerbCall, `{"server":"a","tool":"gone"}`)
		r.do(VerbCall, `{"server":"nobody","tool":"x"}`) // no server's
		s.Say("some log line")
		s.Say(`{"jsonrpc":"2.0","id":99999,"result":{}}`)
		synctest.Wait()
		st := r.stats()
		if len(st.Servers) != 2 || st.Tools != 2 || st.Trace != nil || st.Revision == 0 || st.UptimeMs < 250 {
			t.Fatalf("%+v", st)
		}
		a, b := st.Servers[0], st.Servers[1]
		if a.Name != "a" || a.State != "ready" || a.Calls != 28 || a.Starts != 1 || a.Reconnects != 0 || a.InFlight != 0 || a.Queued != 0 || a.JunkLines != 1 {
			t.Errorf("%+v", a)
		}
		if want := (map[fault.Code]int64{fault.RPCError: 1, fault.Timeout: 1, fault.ToolGone: 1}); fmt.Sprint(a.Errors) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", a.Errors, want)
		}
		if a.Unmatched < 1 {
			t.Errorf("%d answers without a request", a.Unmatched)
		}
		l := a.Latency
		if l.Count != 26 || l.MaxMs != 50 || l.P50Ms > 0.001 || l.P99Ms < 44 || l.P99Ms > 50 || len(l.Buckets) != 2 || l.Buckets[0].Count != 21 || l.Buckets[1].Count != 5 || l.Buckets[1].BelowMs < 50 {
			t.Errorf("%+v", l)
		}
		if b.Name != "b" || b.Starts == 0 || b.Calls != 0 || b.Latency.Count != 0 {
			t.Errorf("%+v", b)
		}
		// Counts go on over a reconnect.
		s.Kill(1)
		synctest.Wait()
		r.do(VerbCall, `{"server":"a","tool":"echo"}`)
		a = r.stats().Servers[0]
		if a.Calls != 29 || a.Starts != 2 || a.Reconnects != 1 || a.JunkLines != 1 || a.Latency.Count != 27 {
			t.Errorf("%+v", a)
		}
	})
}

func TestStatsOfWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo"), mcptest.Tool("slow")}, ListDelay: time.Second})},
			map[string]any{"uncached": "background", "startupTimeoutMs": 1})
		r.do(VerbConnect, `{}`)
		var done []<-chan answerOf
		for range 3 {
			ch, _ := r.begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":1000}}`)
			done = append(done, ch)
		}
		synctest.Wait()
		if a := r.stats().Servers[0]; a.Queued != 3 || a.InFlight != 0 || a.Calls != 3 {
			t.Errorf("%+v", a)
		}
		time.Sleep(1500 * time.Millisecond)
		if a := r.stats().Servers[0]; a.Queued != 0 || a.InFlight != 3 || a.Calls != 3 {
			t.Errorf("%+v", a)
		}
		for _, ch := range done {
			<-ch
		}
		if a := r.stats().Servers[0]; a.InFlight != 0 || a.Latency.Count != 3 || a.Latency.MaxMs != 1000 {
			t.Errorf("%+v: the wait for the server is not the server's latency", a)
		}
	})
}

// TestCountersCostNoMemory: what is always on must not allocate.
func TestCountersCostNoMemory(t *testing.T) {
	c := &counters{}
	refused := fault.New(fault.RPCError, "", "no")
	began := time.Now()
	if n := testing.AllocsPerRun(1000, func() {
		c.calls.Add(1)
		c.ended(nil, began)
		c.ended(refused, began)
		c.ended(refused, time.Time{})
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestHistogramBuckets(t *testing.T) {
	end := 0.0
	for i := range len(histogram{}.buckets) {
		from, to := bucketFrom(i), bucketFrom(i+1)
		if from != end || to <= from || i >= 4 && (to-from)/from > 0.25 {
			t.Fatalf("bucket %d is from %v to %v", i, from, to)
		}
		end = to
		if i > 0 && bucketOf(uint64(from)-1) != i-1 || bucketOf(uint64(from)) != i || bucketOf(uint64(to)-1) != i {
			t.Fatalf("bucket %d does not hold its edges", i)
		}
	}
	if end < float64(time.Hour.Microseconds()) {
		t.Errorf("the last bucket ends at %v µs", end)
	}
	for _, d := range []time.Duration{-time.Hour, 0, 1, math.MaxInt64} {
		var h histogram
		h.add(d)
		if s := h.stats(); s.Count != 1 || s.P50Ms < 0 || s.P99Ms > s.MaxMs+0.001 {
			t.Errorf("%v: %+v", d, s)
		}
	}
}

// TestQuantiles: within a bucket's width of the truth, for any distribution and from many goroutines.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h histogram
		all := make([]float64, 2000)
		for i := range all {
			all[i] = math.Round(math.Exp(random.Float64()*float64(1+random.IntN(15))) * 10)
		}
		var wg sync.WaitGroup
		for part := range slices.Chunk(all, 250) {
			wg.Go(func() {
				for _, us := range part {
					h.add(time.Duration(us) * time.Microsecond)
				}
			})
		}
		wg.Wait()
		slices.Sort(all)
		s := h.stats()
		if s.Count != int64(len(all)) || s.MaxMs != all[len(all)-1]/1000 || !(s.P50Ms <= s.P90Ms && s.P90Ms <= s.P99Ms && s.P99Ms <= s.MaxMs) {
			t.Fatalf("%+v", s)
		}
		for q, got := range map[float64]float64{0.5: s.P50Ms, 0.9: s.P90Ms, 0.99: s.P99Ms} {
			want := all[int(q*float64(len(all)))-1] / 1000
			if math.Abs(got-want) > 0.26*want+0.002 {
				t.Errorf("%v: %v, want %v", q, got, want)
			}
		}
	}
}

func TestEveryErrorHasACounter(t *testing.T) {
	if len(fault.Codes) > maxCodes {
		t.Fatalf("%d codes, room for %d", len(fault.Codes), maxCodes)
	}
	c := &counters{}
	for _, code := range fault.Codes {
		c.ended(fault.New(code, "", "x"), time.Time{})
	}
	for _, code := range fault.Codes {
		if c.stats().Errors[code] != 1 {
			t.Errorf("%s is not counted", code)
		}
	}
}
