package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// Stdio starts a server as a child process and speaks to it over its standard
// input and output. The child inherits nothing but its three pipes. The zero value
// of every optional field is usable.
type Stdio struct {
	Server  string   // its name, for messages
	Path    string   // absolute path of the executable; "" when the look-up found none
	Command string   // what messages call it: as written in the config, without secrets
	Args    []string // without the command itself
	Env     []string // the whole environment, "K=V"; nil is an empty one
	Dir     string   // working directory; "" is the host's

	MaxMessage int64               // bytes of one message from the server; 0: 64 MiB
	MaxQueue   int64               // bytes that wait for a server that does not read; 0: 16 MiB
	Grace      time.Duration       // for a server that has to be stopped for its own fault; 0: 2 s
	Slots      *semaphore.Weighted // bounds starts; one is held from fork to exec. nil: no bound
	Redact     func(string) string // takes secrets out of what the server wrote to stderr; may be nil
	Warn       func(string)        // told when the server runs unguarded; may be nil
}

const (
	defaultMaxMessage = 64 << 20
	defaultMaxQueue   = 16 << 20
	defaultGrace      = 2 * time.Second
	abortGrace        = 500 * time.Millisecond // also for what a dead server left behind
	exitWait          = 200 * time.Millisecond // for the exit after stdout has ended
	drainWait         = 20 * time.Millisecond  // for one more byte after the exit
	drainMax          = 250 * time.Millisecond // for all such bytes
	groupPoll         = 10 * time.Millisecond
	killedWait        = 200 * time.Millisecond // for a killed group to be empty
)

// Dial starts the server. Its errors are spawn_failed, timeout and canceled; r
// hears nothing unless Dial succeeds. Method value and Dial type fit each other.
func (s Stdio) Dial(ctx context.Context, r Receiver) (Conn, error) {
	if s.MaxMessage <= 0 {
		s.MaxMessage = defaultMaxMessage
	}
	if s.MaxQueue <= 0 {
		s.MaxQueue = defaultMaxQueue
	}
	if s.Grace <= 0 {
		s.Grace = defaultGrace
	}
	if s.Path == "" {
		return nil, s.spawnFault("there is no such program on PATH; install it, or give its absolute path as command", nil)
	}
	if err := ctx.Err(); err != nil {
		return nil, s.ctxFault(err)
	}
	if s.Slots != nil {
		if err := s.Slots.Acquire(ctx, 1); err != nil {
			return nil, s.ctxFault(err)
		}
	}
	// exec may hang on a dead network drive, and cannot be interrupted there.
	type outcome struct {
		conn *stdioConn
		err  error
	}
	started := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fault.Caught(p, debug.Stack())}
			}
			if s.Slots != nil {
				s.Slots.Release(1)
			}
			started <- o
		}()
		o.conn, o.err = s.start(r)
	}()
	select {
	case o := <-started:
		if o.err != nil {
			return nil, o.err
		}
		o.conn.run()
		return o.conn, nil
	case <-ctx.Done():
		over := make(chan struct{})
		go func() {
			defer func() { recover() }()
			defer close(over)
			if o := <-started; o.conn != nil {
				o.conn.in.out = deaf{}
				o.conn.run()
				o.conn.Close(0, true)
				<-o.conn.done
			}
		}()
		select { // a successor must not overlap with it, but a hanging exec is not waited for
		case <-over:
		case <-time.After(abortGrace):
		}
		return nil, s.ctxFault(ctx.Err())
	}
}

// deaf is the receiver of a server that was given up before it ran.
type deaf struct{}

func (deaf) Receive(*Message)    {}
func (deaf) Closed(*fault.Error) {}

func (s Stdio) ctxFault(cause error) error {
	code := fault.From(cause).Code
	e := fault.New(code, fault.StageSpawn, "server %q was not started in time; others may be starting, or its program's drive does not answer", s.Server)
	if code == fault.Canceled {
		e = fault.New(code, fault.StageSpawn, "the start of server %q was cancelled", s.Server)
	}
	e.Server, e.Retryable = s.Server, code == fault.Timeout
	return e.With(fault.Data{Command: s.Command})
}

func (s Stdio) spawnFault(reason string, cause error) *fault.Error {
	e := fault.New(fault.SpawnFailed, fault.StageSpawn, "server %q could not be started: %s: %s", s.Server, s.Command, reason)
	if cause != nil {
		_, e.Retryable = spawnReason(cause, s.Path, s.Dir)
	}
	e.Server = s.Server
	return e.With(fault.Data{Command: s.Command})
}

// start forks and executes; run must follow.
func (s Stdio) start(r Receiver) (_ *stdioConn, err error) {
	if err := guard.enter(); err != nil && s.Warn != nil {
		s.Warn(fmt.Sprintf("no guard process could be started (%v): if this program is killed, its MCP servers may stay behind", err))
	}
	var open []io.Closer
	var child *exec.Cmd
	began := false
	defer func() { // also after a bug
		if began {
			return
		}
		group := 0
		if child != nil && child.Process != nil {
			group = child.Process.Pid
			signalGroup(group, forcibly)
			child.Wait()
		}
		guard.leave(group)
		for _, f := range open {
			f.Close()
		}
	}()
	var ends [6]*os.File // stdin, stdout, stderr: reading end, writing end
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = pipe(i == 0); err != nil {
			return nil, s.spawnFault(err.Error(), err)
		}
		open = append(open, ends[i], ends[i+1])
	}
	c := &stdioConn{
		cfg: s, stdout: ends[2], stderr: ends[4],
		wake: make(chan struct{}, 1), exited: make(chan struct{}),
		readDone: make(chan struct{}), errDone: make(chan struct{}), done: make(chan struct{}),
	}
	c.in = &lines{src: &draining{f: ends[2]}, limit: int(min(s.MaxMessage, math.MaxInt-1)), out: r}
	if c.out, err = newWriter(s.Server, ends[1], s.MaxQueue, c.lose); err != nil {
		return nil, s.spawnFault(err.Error(), err)
	}
	c.cmd = &exec.Cmd{
		Path: s.Path, Args: append([]string{s.Path}, s.Args...),
		Env: append([]string{}, s.Env...), Dir: s.Dir, // a nil Env would mean ours
		Stdin: ends[0], Stdout: ends[3], Stderr: ends[5],
		ExtraFiles: strangers(ends[5]), SysProcAttr: childAttr(),
	}
	if err := batch(c.cmd, s.Env); err != nil {
		return nil, s.spawnFault(err.Error(), nil)
	}
	child = c.cmd
	safe.Point("transport.dial")
	if err := guard.launch(c.cmd, ends[0]); err != nil {
		reason, _ := spawnReason(err, s.Path, s.Dir)
		return nil, s.spawnFault(reason, err)
	}
	for _, f := range []*os.File{ends[0], ends[3], ends[5]} {
		f.Close()
	}
	c.pid = c.cmd.Process.Pid
	safe.Point("transport.started")
	began = true
	return c, nil
}

// stdioConn is a running server. Four goroutines belong to it: read and drainErr
// at its pipes, wait for its exit, supervise for its end.
type stdioConn struct {
	cfg            Stdio
	cmd            *exec.Cmd
	pid            int // also of its process group
	stdout, stderr *os.File
	in             *lines
	out            *writer
	words          tail

	wake     chan struct{} // the schedule below has changed
	exited   chan struct{} // the leader was reaped; end is set
	end      ending
	readDone chan struct{} // Closed was delivered
	errDone  chan struct{}
	done     chan struct{}

	lost      atomic.Bool // ended for its own fault, not by our wish
	signalled atomic.Bool // by us

	mu             sync.Mutex
	closing        bool
	termAt, killAt time.Time
	reaped         bool // the group's number is only ours while it has members
}

func (c *stdioConn) run() {
	go c.read()
	go c.drainErr()
	go c.wait()
	go c.supervise()
}

func (c *stdioConn) Send(ctx context.Context, msg []byte) (uint64, error) {
	return c.out.send(ctx, msg)
}

// TrySend makes a stdioConn a Prompt.
func (c *stdioConn) TrySend(msg []byte) (uint64, bool, error) { return c.out.trySend(msg) }

func (c *stdioConn) Begun(seq uint64) bool { return seq != 0 && seq <= c.out.begun.Load() }

func (c *stdioConn) Done() <-chan struct{} { return c.done }

func (c *stdioConn) Info() Info {
	return Info{
		PID: c.pid, Skipped: c.in.skipped.Load(), Repaired: c.in.repaired.Load(), TooLarge: c.in.tooLarge.Load(),
		SentBytes: int64(c.out.sent.Load()), RecvBytes: c.in.received.Load(),
	}
}

func (c *stdioConn) Close(grace time.Duration, abort bool) { c.finish(grace, abort, false) }

// lose ends a server that has broken the connection but still runs.
func (c *stdioConn) lose() { c.finish(c.cfg.Grace, false, true) }

func (c *stdioConn) finish(grace time.Duration, abort, lost bool) {
	now := time.Now()
	grace = max(grace, 0)
	term, kill := now.Add(grace/2), now.Add(grace)
	if abort {
		term, kill = now, now.Add(min(grace, abortGrace))
	}
	c.mu.Lock()
	if !c.closing {
		c.closing = true
		c.termAt, c.killAt = term, kill
		c.lost.Store(lost)
	}
	if term.Before(c.termAt) {
		c.termAt = term
	}
	if kill.Before(c.killAt) {
		c.killAt = kill
	}
	c.mu.Unlock()
	c.out.shut(c.closedFault())
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *stdioConn) closedFault() *fault.Error {
	e := fault.New(fault.Closed, fault.StageSend, "the connection to server %q was closed", c.cfg.Server)
	e.Server = c.cfg.Server
	return e
}

// read is the one goroutine that calls the Receiver.
func (c *stdioConn) read() {
	defer close(c.readDone)
	var broken *fault.Error
	func() {
		defer func() {
			if p := recover(); p != nil {
				broken = fault.Caught(p, debug.Stack())
			}
		}()
		safe.Point("transport.read")
		c.in.run()
	}()
	err := c.verdict()
	if broken != nil {
		err = broken
		err.Server = c.cfg.Server
	}
	c.stdout.Close()
	c.out.shut(err)
	defer func() { recover() }()
	c.in.out.Closed(err)
}

// verdict says how the connection ended, once nothing more will be read. A process
// that closed its stdout is given a moment to exit, for its exit status tells more.
func (c *stdioConn) verdict() *fault.Error {
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-c.exited:
		<-c.errDone // follows at once: see supervise
	case <-timer.C:
	}
	c.mu.Lock()
	ours := c.closing && !c.lost.Load()
	c.mu.Unlock()
	if bug := c.out.bug(); bug != nil {
		return bug
	}
	data := fault.Data{Command: c.cfg.Command}
	how := "closed its output while it was still running, and is being stopped"
	select {
	case <-c.exited:
		how = c.describeEnd(&data)
	default:
		if !ours {
			c.lose()
		}
	}
	words := c.words.text(c.cfg.Redact)
	data.Stderr = lastLines(words, tailGiven)
	if ours {
		return c.closedFault().With(data)
	}
	advice := "it wrote nothing to stderr; run its command in a terminal to see why"
	if words != "" {
		advice = "its last words: " + strings.Join(strings.Fields(lastLines(words, tailWords)), " ")
	}
	e := fault.New(fault.Exited, fault.StageReceive, "server %q (%s) %s; %s", c.cfg.Server, c.cfg.Command, how, advice).Retry()
	e.Server = c.cfg.Server
	return e.With(data)
}

// describeEnd words the exit status and fills it into data.
func (c *stdioConn) describeEnd(data *fault.Data) string {
	switch {
	case !c.end.known:
		return "ended; its exit status is unknown, since this program reaps all its children"
	case c.end.signal != "":
		data.Signal = c.end.signal
		if c.signalled.Load() {
			return "broke the connection and was stopped with " + c.end.signal
		}
		return "was ended by " + c.end.signal
	default:
		data.ExitCode = &c.end.code
		return fmt.Sprintf("exited with code %d", c.end.code)
	}
}

// drainErr reads stderr always: a server whose log nobody reads stops when the pipe is full.
func (c *stdioConn) drainErr() {
	defer close(c.errDone)
	defer func() { recover() }()
	defer c.stderr.Close()
	safe.Point("transport.stderr")
	io.CopyBuffer(&c.words, &draining{f: c.stderr}, make([]byte, 4<<10))
}

// wait learns of the exit at once, whatever else goes on.
func (c *stdioConn) wait() {
	defer close(c.exited)
	safe.Do(nil, func() {
		safe.Point("transport.wait")
		if awaitEnd(c.pid) {
			c.mu.Lock()
			c.reaped = true // a moment early, so that no signal falls between reaping and knowing
			c.mu.Unlock()
		}
	})
	safe.Do(nil, func() { c.cmd.Wait() }) // its error says nothing that ProcessState does not
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.end = endingOf(c.cmd.ProcessState)
}

// supervise ends the process group by the schedule and then puts everything away.
func (c *stdioConn) supervise() {
	defer close(c.done)
	// Each step also after a bug in the one before: none may be left out.
	safe.Do(func(*fault.Error) { c.kill() }, c.stopLeader)
	safe.Do(nil, c.readLeftovers)
	safe.Do(func(*fault.Error) { c.kill() }, c.sweep)
	guard.leave(c.pid)
	safe.Do(nil, func() {
		c.out.shut(c.closedFault())
		c.out.idle.Wait()
	})
}

// kill ends the group without a schedule, and returns when the leader was reaped.
func (c *stdioConn) kill() {
	c.mu.Lock()
	if !c.reaped {
		c.signal(forcibly)
	}
	c.mu.Unlock()
	<-c.exited
}

// readLeftovers returns when the readers of both pipes have ended.
func (c *stdioConn) readLeftovers() {
	// Leftover output of the leader is in the pipes; whoever else holds them open is
	// not waited for.
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if errors.Is(f.SetReadDeadline(time.Unix(1, 0)), os.ErrNoDeadline) {
			time.AfterFunc(drainWait, func() { f.Close() })
		}
	}
	<-c.readDone
	<-c.errDone
}

// stopLeader returns when the leader was reaped.
func (c *stdioConn) stopLeader() {
	safe.Point("transport.supervise")
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	termed, killed := false, false
	for {
		c.mu.Lock()
		now := time.Now()
		next := time.Hour
		if c.closing && !c.reaped { // under the lock: see wait
			switch {
			case !now.Before(c.killAt):
				if !killed {
					c.signal(forcibly)
				}
				killed = true
			case !now.Before(c.termAt):
				if !termed {
					c.signal(politely)
				}
				termed = true
				next = c.killAt.Sub(now)
			default:
				next = c.termAt.Sub(now)
			}
		}
		c.mu.Unlock()
		timer.Reset(next)
		select {
		case <-c.exited:
			return
		case <-c.wake:
		case <-timer.C:
		}
	}
}

func (c *stdioConn) signal(sig syscall.Signal) {
	c.signalled.Store(true)
	signalGroup(c.pid, sig)
}

// sweep ends what the leader left in its group: launchers such as npx die before
// the server that they started.
func (c *stdioConn) sweep() {
	c.mu.Lock()
	if !c.closing {
		c.closing = true // by itself: nothing is left to be waited for
		c.termAt, c.killAt = time.Now(), time.Now().Add(abortGrace)
	}
	c.mu.Unlock()
	termed, killed := false, false
	for groupAlive(c.pid) {
		c.mu.Lock()
		now, termAt, killAt := time.Now(), c.termAt, c.killAt
		c.mu.Unlock()
		switch {
		case now.After(killAt.Add(killedWait)) && killed:
			return // zombies that nobody reaps, or beyond our permission
		case !now.Before(killAt) && !killed:
			c.signal(forcibly)
			killed = true
		case !now.Before(termAt) && !termed:
			c.signal(politely)
			termed = true
		}
		select {
		case <-c.wake:
		case <-time.After(groupPoll):
		}
	}
}

// draining reads a pipe until its end. Once its read deadline has passed, which
// says that the server is gone, it still takes what lies in the pipe, and ends when
// nothing comes for a moment, though others may hold the pipe open.
type draining struct {
	f     *os.File
	until time.Time
}

func (d *draining) Read(p []byte) (int, error) {
	if d.until.IsZero() {
		n, err := d.f.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		d.until = time.Now().Add(drainMax)
	}
	now := time.Now()
	if now.After(d.until) {
		return 0, io.EOF
	}
	d.f.SetReadDeadline(now.Add(drainWait))
	n, err := d.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}
