package core

import (
	"context"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/session"
	"github.com/mcprt/mcprt/core/transport"
)

// counters are what one server has done over all of its sessions. They are always
// on: a call costs a few atomic additions and no allocation.
type counters struct {
	calls, resends   atomic.Int64
	starts, connects atomic.Int64
	errors           [maxCodes]atomic.Int64 // by codeIndex
	latency          histogram              // of answers, a JSON-RPC error included

	mu   sync.Mutex
	past traffic // of what is over
	live []source
}

const maxCodes = 40 // at least len(fault.Codes)

var codeIndex = func() map[fault.Code]int {
	index := make(map[fault.Code]int, len(fault.Codes))
	for i, code := range fault.Codes {
		index[code] = i
	}
	return index
}()

// ended counts the outcome of a call; err is nil where it succeeded. sent is when it
// was passed to its session, zero where it never was.
func (c *counters) ended(err *fault.Error, sent time.Time) {
	answered := err == nil
	if err != nil {
		i, ok := codeIndex[err.Code]
		if !ok {
			i = codeIndex[fault.Internal]
		}
		c.errors[i].Add(1)
		answered = err.Code == fault.RPCError
	}
	if answered && !sent.IsZero() {
		c.latency.add(time.Since(sent))
	}
}

// traffic is what connections and sessions count by themselves.
type traffic struct {
	in, out                     int64 // bytes
	junk, repaired, tooLarge    int64 // lines, messages, messages
	unmatched, dropped, refused int64 // responses, notifications, the server's requests
}

func (t *traffic) add(o traffic) {
	t.in, t.out = t.in+o.in, t.out+o.out
	t.junk, t.repaired, t.tooLarge = t.junk+o.junk, t.repaired+o.repaired, t.tooLarge+o.tooLarge
	t.unmatched, t.dropped, t.refused = t.unmatched+o.unmatched, t.dropped+o.dropped, t.refused+o.refused
}

// source is a connection or session that still counts.
type source struct {
	over func() bool
	read func() traffic
}

func (c *counters) watch(s source) {
	c.fold()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = append(c.live, s)
}

// fold takes over the counts of what has ended, so that nothing of it is kept.
func (c *counters) fold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.live[:0]
	for _, s := range c.live {
		if s.over() {
			c.past.add(s.read())
		} else {
			kept = append(kept, s)
		}
	}
	clear(c.live[len(kept):])
	c.live = kept
}

func (c *counters) traffic() traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.past
	for _, s := range c.live {
		sum.add(s.read())
	}
	return sum
}

// dial makes the connections of d count.
func (c *counters) dial(d transport.Dial) transport.Dial {
	return func(ctx context.Context, r transport.Receiver) (transport.Conn, error) {
		conn, err := d(ctx, r)
		if err == nil {
			c.watch(source{func() bool { return over(conn.Done()) }, func() traffic {
				i := conn.Info()
				return traffic{in: i.RecvBytes, out: i.SentBytes, junk: i.Skipped, repaired: i.Repaired, tooLarge: i.TooLarge}
			}})
		}
		return conn, err
	}
}

func (c *counters) connected(s *session.Session) {
	c.connects.Add(1)
	c.watch(source{s.Ended, func() traffic {
		n := s.Stats()
		return traffic{unmatched: n.Unmatched, dropped: n.Dropped, refused: n.Refused}
	}})
}

// histogram counts durations in buckets that grow by a quarter of a power of two, from
// a microsecond to more than an hour.
type histogram struct {
	buckets  [128]atomic.Int64
	sum, max atomic.Int64 // microseconds
}

func (h *histogram) add(d time.Duration) {
	us := max(d.Microseconds(), 0)
	h.buckets[bucketOf(uint64(us))].Add(1)
	h.sum.Add(us)
	for {
		most := h.max.Load()
		if us <= most || h.max.CompareAndSwap(most, us) {
			return
		}
	}
}

func bucketOf(us uint64) int {
	if us < 4 {
		return int(us)
	}
	exponent := bits.Len64(us) - 1
	return min(4*(exponent-1)+int(us>>(exponent-2)&3), len(histogram{}.buckets)-1)
}

// bucketFrom is the least number of microseconds in bucket i; the next bucket's is its end.
func bucketFrom(i int) float64 {
	if i < 4 {
		return float64(i)
	}
	return math.Ldexp(float64(4+i%4), i/4-1)
}

// latencyStats is a histogram as hosts see it.
type latencyStats struct {
	Count   int64    `json:"count"`
	MeanMs  float64  `json:"meanMs"`
	P50Ms   float64  `json:"p50Ms"`
	P90Ms   float64  `json:"p90Ms"`
	P99Ms   float64  `json:"p99Ms"`
	MaxMs   float64  `json:"maxMs"`
	Buckets []bucket `json:"buckets"` // those that are not empty
}

// bucket counts what took less than BelowMs, and is in no bucket before it.
type bucket struct {
	BelowMs float64 `json:"belowMs"`
	Count   int64   `json:"count"`
}

func (h *histogram) stats() latencyStats {
	var counts [len(histogram{}.buckets)]int64
	s := latencyStats{Buckets: []bucket{}}
	for i := range h.buckets {
		if counts[i] = h.buckets[i].Load(); counts[i] > 0 {
			s.Count += counts[i]
			s.Buckets = append(s.Buckets, bucket{bucketFrom(i+1) / 1000, counts[i]})
		}
	}
	if s.Count == 0 {
		return s
	}
	most := float64(h.max.Load())
	s.MeanMs, s.MaxMs = round3(float64(h.sum.Load())/float64(s.Count)/1000), most/1000
	quantile := func(q float64) float64 {
		rank := q * float64(s.Count)
		for i, n := range counts {
			if n > 0 && rank <= float64(n) {
				from, to := bucketFrom(i), bucketFrom(i+1)
				return round3(min(from+(to-from)*rank/float64(n), most) / 1000)
			}
			rank -= float64(n)
		}
		return s.MaxMs
	}
	s.P50Ms, s.P90Ms, s.P99Ms = quantile(0.5), quantile(0.9), quantile(0.99)
	return s
}

// round3 leaves three decimals: microseconds, of milliseconds.
func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
