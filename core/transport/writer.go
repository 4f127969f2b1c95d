package transport

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// keepScratch is the largest message buffer that is kept for the next message.
const keepScratch = 64 << 10

// writer puts messages into a server's pipe. A message is tried at once on the
// caller's own goroutine, since handing it to another one costs more than the
// write; only what the pipe does not take is queued, for a goroutine that exists
// while there is a queue.
type writer struct {
	server string
	pipe   *pipeWriter
	limit  int64               // bytes that may wait
	room   *semaphore.Weighted // of limit; first come, first served
	broken func()              // the peer stopped reading; called once, never under a lock

	begun, sent atomic.Uint64

	life context.Context // ends when nothing can be sent any more
	end  context.CancelFunc

	mu      sync.Mutex
	err     *fault.Error // why nothing can be sent any more
	seq     uint64
	queue   []queued
	busy    bool   // drain owns the pipe
	scratch []byte // the message of a direct attempt
	idle    sync.WaitGroup
}

type queued struct {
	data   []byte // what is left of the message
	seq    uint64
	charge int64 // to give back to room
}

func newWriter(server string, f *os.File, limit int64, broken func()) (*writer, error) {
	pipe, err := newPipeWriter(f)
	if err != nil {
		return nil, err
	}
	w := &writer{server: server, pipe: pipe, limit: limit, room: semaphore.NewWeighted(limit), broken: broken}
	w.life, w.end = context.WithCancel(context.Background())
	return w, nil
}

// send is Conn.Send.
func (w *writer) send(ctx context.Context, msg []byte) (uint64, error) {
	seq, ok, err := w.trySend(msg)
	if ok || err != nil {
		return seq, err
	}
	if err := w.reserve(ctx, w.charge(msg)); err != nil {
		return 0, err
	}
	return w.later(msg)
}

// trySend is send without the wait; ok is false when there is no room.
func (w *writer) trySend(msg []byte) (seq uint64, ok bool, err error) {
	seq, done, err := w.direct(msg)
	if done || err != nil {
		return seq, done, err
	}
	if !w.room.TryAcquire(w.charge(msg)) {
		return 0, false, nil
	}
	seq, err = w.later(msg)
	return seq, err == nil, err
}

// charge is the room that msg takes: one message of any size may wait.
func (w *writer) charge(msg []byte) int64 { return min(int64(len(msg))+1, w.limit) }

// later queues msg, for which there is room.
func (w *writer) later(msg []byte) (uint64, error) {
	data := frame(make([]byte, 0, len(msg)+1), msg)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.seq++
	w.enqueue(queued{data: data, seq: w.seq, charge: w.charge(msg)})
	return w.seq, nil
}

// direct tries to write msg without waiting; done is false when others wait already.
func (w *writer) direct(msg []byte) (seq uint64, done bool, err error) {
	w.mu.Lock()
	if w.err != nil || w.busy {
		defer w.mu.Unlock()
		if w.err != nil {
			return 0, false, w.err
		}
		return 0, false, nil
	}
	data := frame(w.scratch[:0], msg)
	n, werr := w.pipe.write(data, false)
	if werr != nil {
		w.mu.Unlock()
		return 0, false, w.fail(werr)
	}
	w.seq++
	seq = w.seq
	if n > 0 {
		w.begun.Store(seq)
		w.sent.Add(uint64(n))
	}
	if n < len(data) {
		w.scratch = nil // the queue holds it now
		w.enqueue(queued{data: data[n:], seq: seq})
	} else if cap(data) <= keepScratch {
		w.scratch = data
	}
	w.mu.Unlock()
	return seq, true, nil
}

// frame appends msg as one line. A host's raw arguments may hold newlines between
// tokens, the only place where JSON allows them.
func frame(dst, msg []byte) []byte {
	start := len(dst)
	dst = append(append(dst, msg...), '\n')
	line := dst[start : len(dst)-1]
	for _, end := range []byte{'\n', '\r'} {
		for rest := line; ; {
			i := bytes.IndexByte(rest, end)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return dst
}

// reserve waits for room in the queue.
func (w *writer) reserve(ctx context.Context, n int64) error {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
	if w.room.Acquire(both, n) == nil {
		return nil
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	}
	code := fault.From(ctx.Err()).Code
	e := fault.New(code, fault.StageSend, "server %q does not read its input: the message was not sent, %d bytes wait before it; if this lasts, restart the server", w.server, w.limit)
	e.Server, e.Retryable = w.server, code == fault.Timeout
	return e
}

// enqueue is called with mu held.
func (w *writer) enqueue(q queued) {
	w.queue = append(w.queue, q)
	if !w.busy {
		w.busy = true
		w.idle.Add(1)
		go w.drain()
	}
}

// drain writes until the queue is empty, then ends.
func (w *writer) drain() {
	defer w.idle.Done()
	defer func() {
		if p := recover(); p != nil { // a bug ends this connection, never the host
			bug := fault.Caught(p, debug.Stack())
			bug.Server = w.server
			if w.shut(bug) {
				w.broken()
			}
		}
	}()
	for {
		w.mu.Lock()
		if w.err != nil || len(w.queue) == 0 {
			w.busy = false
			w.queue = nil
			w.mu.Unlock()
			return
		}
		next := w.queue[0]
		w.queue[0] = queued{}
		w.queue = w.queue[1:]
		w.mu.Unlock()
		safe.Point("transport.write")
		for len(next.data) > 0 {
			n, err := w.pipe.write(next.data, true)
			if n > 0 {
				w.begun.Store(next.seq)
				w.sent.Add(uint64(n))
				next.data = next.data[n:]
			}
			if err != nil {
				w.fail(err)
				break
			}
		}
		if next.charge > 0 {
			w.room.Release(next.charge)
		}
	}
}

// bug is the reason if a bug ended sending.
func (w *writer) bug() *fault.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil && w.err.Code == fault.Internal {
		return w.err
	}
	return nil
}

// fail ends sending because the pipe broke.
func (w *writer) fail(cause error) *fault.Error {
	e := fault.New(fault.Exited, fault.StageSend, "server %q has closed its input or ended; the message was not sent: %w", w.server, cause).Retry()
	e.Server = w.server
	first := w.shut(e)
	if first {
		w.broken()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// shut makes all waiting and later sends fail with e and closes the pipe; what is
// queued is dropped. It reports whether it was the first to do so.
func (w *writer) shut(e *fault.Error) bool {
	w.mu.Lock()
	first := w.err == nil
	if first {
		w.err = e
	}
	w.mu.Unlock()
	if first {
		w.end()
		w.pipe.close() // wakes drain
	}
	return first
}
