package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/mcprt/mcprt/core/safe"
)

// HasShell tells whether this system has the shell that a Helper runs in.
const HasShell = runtime.GOOS != "windows"

// Helper is a command of a config that prints a secret. It runs in a shell, in a
// process group of its own that is gone when Output returns, with nothing on its
// standard input; what it writes to stderr is thrown away.
type Helper struct {
	Command string
	Env     []string // the whole environment, "K=V"
	Dir     string   // working directory
	Limit   int      // bytes that it may print
	Timeout time.Duration
	Session bool // a session of its own, without the host's terminal, which an interactive shell would wait for
}

// Output runs the helper and gives what it printed. The error says what happened
// to it ("exited with code 3"), and neither its command nor its output: both may
// hold secrets. ctx ends it.
func (h Helper) Output(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("ran longer than %s and was stopped", h.Timeout))
	defer cancel()
	r, w, err := pipe(false)
	if err != nil {
		return nil, fmt.Errorf("cannot be started: %w", err)
	}
	defer r.Close()
	attr := childAttr()
	if h.Session {
		attr = sessionAttr()
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"/bin/sh", "-c", h.Command}, Env: append([]string{}, h.Env...), Dir: h.Dir,
		Stdout: w, ExtraFiles: strangers(w), SysProcAttr: attr}
	_ = guard.enter() // without a guard it still ends with its time
	err = guard.launch(cmd, w)
	w.Close()
	if err != nil {
		guard.leave(0)
		reason, _ := spawnReason(err, cmd.Path, h.Dir)
		return nil, errors.New("cannot be started: " + reason)
	}
	c := &helperRun{cmd: cmd, exited: make(chan struct{})}
	defer guard.leave(cmd.Process.Pid)
	printed := make(chan []byte, 1)
	safe.Go(nil, func() {
		var data []byte
		defer func() { printed <- data }()
		data, _ = io.ReadAll(io.LimitReader(&draining{f: r}, int64(h.Limit)+1))
		if len(data) > h.Limit {
			cancel()
		}
	})
	safe.Go(nil, c.wait)
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.kill()
		<-c.exited
	}
	if errors.Is(r.SetReadDeadline(time.Unix(1, 0)), os.ErrNoDeadline) {
		r.Close()
	}
	data := <-printed
	switch end := endingOf(cmd.ProcessState); {
	case len(data) > h.Limit:
		return nil, fmt.Errorf("printed more than %d bytes and was stopped", h.Limit)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !end.known:
		return nil, errors.New("ended, but its exit code is unknown, since this program reaps all its children")
	case end.signal != "":
		return nil, fmt.Errorf("was ended by %s", end.signal)
	case end.code != 0:
		return nil, fmt.Errorf("exited with code %d; run it in a terminal to see why", end.code)
	}
	return data, nil
}

// helperRun is a helper on its way.
type helperRun struct {
	cmd    *exec.Cmd
	exited chan struct{} // its leader was reaped and its group killed
	mu     sync.Mutex
	reaped bool // the group's number is only ours while it has members
}

// wait ends what the shell left in its group, if it can while the shell, though
// ended, still keeps the group's number.
func (c *helperRun) wait() {
	defer close(c.exited)
	if awaitEnd(c.cmd.Process.Pid) {
		c.kill()
		c.mu.Lock()
		c.reaped = true
		c.mu.Unlock()
	}
	c.cmd.Wait() // its error says nothing that ProcessState does not
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	if groupAlive(c.cmd.Process.Pid) {
		signalGroup(c.cmd.Process.Pid, forcibly)
	}
}

func (c *helperRun) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		signalGroup(c.cmd.Process.Pid, forcibly)
	}
}
