// Package core is the policy of the runtime: which servers run, when their
// tools are offered, what a call waits for, what a reload changes. It owns the
// state machine; conversations belong to session, bytes to transport, files of
// the user to config, files of mcprt to store.
package core

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/trace"
	"github.com/mcprt/mcprt/core/transport"
)

// Manager holds the servers of one host. All methods may be called from any
// goroutine. Lock rule: mu is the only lock that guards state, it is never held
// during I/O, a host call or another lock.
type Manager struct {
	host        Host
	opts        *Options
	env         config.Env
	deps        deps
	policy      policy
	store       *files
	inputs      inputs
	spill       *spill
	helpers     *helpers
	credentials *credentials

	ctx  context.Context // ends with errClosed
	end  context.CancelCauseFunc
	work sync.WaitGroup // every goroutine of ours

	snap  atomic.Pointer[Snapshot]
	slots *semaphore.Weighted // processes between fork and exec

	capabilities       []byte // declared to servers that are processes here
	remoteCapabilities []byte // declared to the others

	mu          sync.Mutex
	servers     map[string]*server
	names       *namer
	gen         uint64
	outbox      []notice
	flushing    bool
	pulse       chan struct{} // closed and replaced with each snapshot
	dropAliases bool
	found       *config.Result // nil until discovered
	closing     chan struct{}  // nil until Close; closed when it is over
	warned      []config.Diagnostic
	asks        map[uint64]*ask
	lastAsk     uint64
	grace       time.Duration     // of sessions that are closed from now on
	leaving     []<-chan struct{} // processes of removed servers that may still live
	unpublished map[*server]bool  // changed, but a bug kept them out of the snapshot

	watcher *watcher
	opened  time.Time
	trace   *trace.Recorder // nil: nothing is recorded

	discovering sync.Mutex // one discovery or reload at a time; not a state lock: held across I/O
}

// deps are what tests replace.
type deps struct {
	dial func(m *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error)
}

var errClosed = fault.New(fault.Closed, "", "the manager is closed; open a new one")

// Open makes a manager. It reads no file and starts nothing. options is the JSON
// object of docs/abi.md, empty for the defaults; the error is a *fault.Error.
func Open(options []byte, host Host) (*Manager, error) {
	return open(options, host, deps{dial: dial})
}

func open(options []byte, host Host, d deps) (m *Manager, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, caught(r)
		}
	}()
	opts, warned, err := parseOptions(options)
	if err != nil {
		return nil, err
	}
	warned = append(warned, opts.Runtime.apply()...)
	m = &Manager{host: host, opts: opts, env: opts.Env, deps: d, servers: map[string]*server{}, asks: map[uint64]*ask{}, pulse: make(chan struct{}), warned: warned,
		grace: opts.Grace, opened: time.Now()}
	m.policy = map[string]policy{"auto": policyAuto, "onCall": policyOnCall, "manual": policyManual}[opts.Reconnect]
	m.spill = newSpill(opts.Spill)
	m.names = newNamer(opts.ToolNames.Prefix, opts.ToolNames.MaxLength)
	m.capabilities = declare(opts.Answers, true)
	m.remoteCapabilities = declare(opts.Answers, slices.Contains(opts.Answers, "roots"))
	m.helpers, m.watcher, m.credentials = newHelpers(m), newWatcher(m), newCredentials(m)
	m.store = newFiles(opts, m.env, m.capabilities)
	m.slots = semaphore.NewWeighted(opts.MaxConcurrentStarts)
	m.record()
	m.ctx, m.end = context.WithCancelCause(context.Background())
	m.snap.Store(emptySnapshot())
	return m, nil
}

// QueueLimits gives open's limits of the C queue.
func (m *Manager) QueueLimits() QueueLimits { return m.opts.QueueLimits }

// Start begins one operation. req is the verb's JSON object, read only until
// Start returns. tag names the operation in progress notices, 0 for none. cancel
// asks for its end; done still comes, exactly once.
func (m *Manager) Start(v Verb, tag uint64, req []byte, done Done) (cancel func()) {
	once := &outcome{done: done}
	defer func() {
		if r := recover(); r != nil {
			once.fail(caught(r), v == VerbCall)
			cancel = func() {}
		}
	}()
	safe.Point("core.start")
	if m.ctx.Err() != nil {
		once.fail(errClosed, v == VerbCall)
		return func() {}
	}
	if v == VerbCall {
		return m.startCall(tag, req, once)
	}
	run := map[Verb]func(context.Context, []byte) (Reply, error){
		VerbDiscover: m.discoverVerb, VerbConnect: m.connectVerb, VerbList: m.listVerb, VerbReload: m.reloadVerb, VerbDisconnect: m.disconnectVerb,
	}[v]
	if run == nil {
		once.fail(fault.New(fault.InvalidRequest, "", "there is no verb %d", v), false)
		return func() {}
	}
	timeout, err := verbTimeout(req)
	if err != nil {
		once.fail(err, false)
		return func() {}
	}
	ctx, stop := context.WithCancelCause(m.ctx)
	req = append([]byte(nil), req...)
	started := m.goSafe(func() {
		defer stop(nil)
		defer func() {
			if r := recover(); r != nil {
				once.fail(caught(r), false)
			}
		}()
		if timeout > 0 {
			var end context.CancelFunc
			ctx, end = context.WithTimeoutCause(ctx, timeout, fault.New(fault.Timeout, "", "the operation did not end within %d ms; what it began goes on", timeout.Milliseconds()).
				With(fault.Data{TimeoutMs: timeout.Milliseconds()}).Retry())
			defer end()
		}
		safe.Point("core.verb")
		reply, err := run(ctx, req)
		if err != nil {
			once.fail(ended(ctx, err), false)
			return
		}
		once.succeed(reply)
	})
	if !started {
		stop(nil)
		once.fail(errClosed, false)
	}
	return func() { stop(errCanceled) }
}

var errCanceled = fault.New(fault.Canceled, "", "the host cancelled the operation")

// ended replaces a bare context error by the reason why the context ended.
func ended(ctx context.Context, err error) error {
	if err == ctx.Err() || err == context.Canceled || err == context.DeadlineExceeded {
		if c := context.Cause(ctx); c != nil {
			return c
		}
	}
	return err
}

// Close ends every server and every operation, and returns when nothing is left
// or the grace and a second more are over. A second Close waits for the first.
func (m *Manager) Close(graceMs int32) {
	grace := m.opts.Grace
	if graceMs >= 0 {
		grace = time.Duration(graceMs) * time.Millisecond
	}
	m.mu.Lock()
	if m.closing != nil {
		over := m.closing
		m.mu.Unlock()
		<-over
		return
	}
	m.closing = make(chan struct{})
	m.grace = grace
	m.mu.Unlock()
	defer close(m.closing) // also after a bug: a second Close waits for it
	var ending []<-chan struct{}
	fx := m.newEffects()
	m.locked(fx, func(fx *effects) {
		for _, s := range m.servers {
			m.apply(s, event{kind: evRemove}, fx)
		}
		ending = slices.Clone(m.leaving) // removals that come too late still prune the list
	})
	m.end(errClosed)
	m.finish(fx)
	limit := time.NewTimer(grace + time.Second)
	defer limit.Stop()
	over := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), grace+time.Second)
	defer cancel()
	safe.Go(nil, func() {
		for _, ch := range ending {
			<-ch
		}
		m.work.Wait()
		m.credentials.close(ctx)
		m.spill.close()
		close(over)
	})
	select {
	case <-over:
	case <-limit.C:
	}
	m.flush()
	m.trace.Close()
}

// goSafe runs f on a goroutine that Close waits for and whose panic is caught.
// false: the manager is closed, and f does not run.
func (m *Manager) goSafe(f func()) bool {
	m.mu.Lock()
	closed := m.closing != nil
	if !closed {
		m.work.Add(1) // under the lock: Close must not have begun to wait
	}
	m.mu.Unlock()
	if !closed {
		m.working(f)
	}
	return !closed
}

// working is the goroutine of goSafe, for those who counted it under the lock.
func (m *Manager) working(f func()) {
	safe.Go(nil, func() {
		defer m.work.Done()
		m.guard(f)
	})
}

// outcome completes an operation exactly once.
type outcome struct {
	done Done
	over atomic.Bool

	counters *counters // of the server that a call went to; nil: none
	sent     time.Time // when it went there
	spoken   *spoken   // the result is wanted as a provider takes it, too; nil: it is not
}

func (o *outcome) succeed(r Reply) {
	if o.over.CompareAndSwap(false, true) {
		o.count(nil)
		o.done(OK, r)
	}
}

// result is the reply of a call that a server answered.
func (o *outcome) result(result []byte) Reply {
	tail := resultTail
	if o.spoken != nil {
		tail = append(o.spoken.appendMessage(nil, result), '}')
	}
	return Reply{Head: resultHead, Body: result, Tail: tail}
}

func (o *outcome) count(err *fault.Error) {
	if o.counters != nil {
		o.counters.ended(err, o.sent)
	}
}

// fail reports err; a failed call also gets a tool result that a model can be
// shown, except when the host cancelled it: an abort stays an abort.
func (o *outcome) fail(err error, call bool) {
	if !o.over.CompareAndSwap(false, true) {
		return
	}
	f := fault.From(err)
	o.count(f)
	st, r := ErrorReply(f)
	if call && st != ECanceled {
		result := append([]byte(`{"isError":true,"content":[{"type":"text","text":`), encode("MCP error: "+f.Message)...)
		result = append(result, `}]}`...)
		r.Body = append(append(r.Body[:len(r.Body)-1], `,"result":`...), result...)
		if o.spoken != nil {
			r.Body = o.spoken.appendMessage(r.Body, result)
		}
		r.Body = append(r.Body, '}')
	}
	o.done(st, r)
}

// ErrorReply gives an error as the host sees it: its status and its JSON.
func ErrorReply(err error) (Status, Reply) {
	f := fault.From(err)
	body := append([]byte(`{"error":`), encode(f)...)
	return statusOf(f.Code), Reply{Body: append(body, '}')}
}

func statusOf(c fault.Code) Status {
	switch c {
	case fault.InvalidRequest:
		return EInval
	case fault.Timeout:
		return ETimeout
	case fault.Canceled:
		return ECanceled
	case fault.Closed:
		return EClosed
	case fault.Internal:
		return EInternal
	}
	return EFailed
}
