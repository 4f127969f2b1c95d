package serve

import (
	"math"

	"github.com/mcprt/mcprt/core"
)

// item is one frame that waits in a manager's queue.
type item struct {
	kind   uint16
	bytes  []byte
	missed int32 // of an evDropped: how many notices
}

// queue holds what a manager has to say in the order in which it happened, with the
// limits of the C API's queue. The lock is the server's.
type queue struct {
	limits  core.QueueLimits
	items   []*item
	gap     *item // the evDropped since which no notice was taken
	credit  int64 // bytes that the host has room for
	bytes   int64 // of all but notices
	notices int64
	noticed int64 // bytes of notices
}

// hostLimits hold until a manager's options have been read.
var hostLimits = core.QueueLimits{MaxInFlight: 4096, QueueBytes: 1 << 28, MaxNotices: 4096, NoticeBytes: 1 << 24}

func (q *queue) add(it *item) {
	q.items = append(q.items, it)
	q.count(it, 1)
}

func (q *queue) count(it *item, sign int64) {
	n := sign * int64(len(it.bytes)-8)
	if it.kind != evNotice {
		q.bytes += n
		return
	}
	q.noticed += n
	q.notices += sign
}

// notice adds a notice, or counts it where there is no room: one frame counts all
// that are missing at its place, so that a flood costs no memory.
func (q *queue) notice(manager uint64, data []byte) {
	if len(data) < frameMax-64 && q.notices < q.limits.MaxNotices && q.noticed+int64(size(len(data))) <= q.limits.NoticeBytes {
		q.gap = nil
		q.add(&item{kind: evNotice, bytes: encode(frame{manager: manager, kind: evNotice}, data)})
		return
	}
	if q.gap == nil {
		q.gap = &item{kind: evDropped, bytes: encode(frame{manager: manager, kind: evDropped})}
		q.add(q.gap)
	}
	if q.gap.missed < math.MaxInt32 {
		q.gap.missed++
	}
}

// next takes out the first frame if the host has room for it.
func (q *queue) next(manager uint64) []byte {
	if len(q.items) == 0 || q.credit <= 0 {
		return nil
	}
	it := q.items[0]
	q.items[0] = nil
	q.items = q.items[1:]
	q.count(it, -1)
	if it == q.gap {
		q.gap = nil
	}
	if it.kind == evDropped {
		it.bytes = encode(frame{manager: manager, kind: evDropped, status: it.missed})
	}
	q.credit -= int64(len(it.bytes) - 8)
	return it.bytes
}

func (q *queue) clear() { *q = queue{limits: q.limits} }
