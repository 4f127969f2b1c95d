//go:build unix

package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcprt/mcprt/core/fault"
)

// running is a started server and what it has said.
type running struct {
	t *testing.T
	Conn
	rec  *record
	next chan Message
}

func start(t *testing.T, s Stdio) *running {
	t.Helper()
	r := &running{t: t, rec: newRecord(), next: make(chan Message, 1<<14)}
	r.rec.each = func(m *Message) { r.next <- *m }
	c, err := s.Dial(t.Context(), r.rec)
	if err != nil {
		t.Fatal(err)
	}
	r.Conn = c
	t.Cleanup(func() { c.Close(0, true); r.over(5 * time.Second) })
	return r
}

func (r *running) receive() Message {
	r.t.Helper()
	select {
	case m := <-r.next:
		return m
	case <-time.After(10 * time.Second):
		r.t.Fatal("nothing came")
	}
	panic("unreachable")
}

// pid is told by the behaviours that serve.
func (r *running) pid() int {
	r.t.Helper()
	m := r.receive()
	if m.Method != "pid" {
		r.t.Fatalf("got %s %s, want its pid", m.Method, m.ID)
	}
	return numbers(string(m.Params))[0]
}

func (r *running) send(msg string) uint64 {
	r.t.Helper()
	seq, err := r.Send(r.t.Context(), []byte(msg))
	if err != nil {
		r.t.Fatal(err)
	}
	return seq
}

// over waits for the end and gives what Closed said, which must be said once.
func (r *running) over(within time.Duration) *fault.Error {
	r.t.Helper()
	select {
	case <-r.Done():
	case <-time.After(within):
		r.t.Fatalf("not over after %v", within)
	}
	select {
	case err := <-r.rec.closed:
		r.rec.closed <- err // for the next to ask
		if len(r.rec.closed) != 1 {
			r.t.Fatal("Closed was called twice")
		}
		return err
	default:
		r.t.Fatal("Closed was not called before Done")
	}
	panic("unreachable")
}

func request(id int, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x","params":%s}`, id, params)
}

func TestStdioSpeaks(t *testing.T) {
	t.Parallel()
	r := start(t, child("echo"))
	if pid := r.pid(); pid != r.Info().PID {
		t.Errorf("pid %d, Info says %d", pid, r.Info().PID)
	}
	first := r.send(request(1, `{"n":9007199254740993,"t":"é😀"}`))
	second := r.send("{\"jsonrpc\":\"2.0\",\"id\":2,\n\"method\":\"x\",\r\n\"params\":[\n1]}")
	if m := r.receive(); string(m.ID) != "1" || string(m.Result) != `{"n":9007199254740993,"t":"é😀"}` {
		t.Errorf("got %s %s", m.ID, m.Result)
	}
	if m := r.receive(); string(m.ID) != "2" || string(m.Result) != `[ 1]` {
		t.Errorf("a message with newlines: got %s %s", m.ID, m.Result)
	}
	if first != 1 || second != 2 || !r.Begun(2) || r.Begun(3) || r.Begun(0) {
		t.Errorf("seq %d, %d; begun %v %v %v", first, second, r.Begun(2), r.Begun(3), r.Begun(0))
	}
	if i := r.Info(); i.SentBytes == 0 || i.RecvBytes == 0 || i.Skipped+i.Repaired+i.TooLarge != 0 {
		t.Errorf("info %+v", i)
	}
	begin := time.Now()
	r.Close(5*time.Second, false)
	err := r.over(2 * time.Second)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("a server that obeys EOF took %v", took)
	}
	if err.Code != fault.Closed || err.Data == nil || err.Data.ExitCode == nil || *err.Data.ExitCode != 0 {
		t.Errorf("closed with %v %+v", err, err.Data)
	}
	if _, err := r.Send(t.Context(), []byte("{}")); !fault.Is(err, fault.Closed) {
		t.Errorf("send after the end: %v", err)
	}
}

func TestStdioChildSees(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var leak [2]int // as a C library would open it: without close-on-exec
	if err := syscall.Pipe(leak[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak[0])
	defer syscall.Close(leak[1])
	s := child("report", "a b", "$HOME", "")
	s.Dir = dir
	s.Env = append(s.Env, "K=v=1")
	r := start(t, s)
	var got struct {
		Args, Env, FDs []string
		Dir            string
		Leads          bool
	}
	if err := json.Unmarshal(r.receive().Params, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Args, s.Args) || got.Dir != dir || !got.Leads {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(got.Env, s.Env) {
		t.Errorf("env %q, want %q", got.Env, s.Env)
	}
	if runtime.GOOS == "linux" {
		for _, fd := range got.FDs {
			if n := numbers(fd)[0]; n > 2 && strings.Contains(fd, "pipe:") {
				t.Errorf("the server inherited %s", fd)
			}
		}
	}
}

func TestStdioEnds(t *testing.T) {
	for _, c := range []struct {
		behaviour      string
		words          []string // in the message
		code           int      // -1: by a signal
		signal, stderr string
		received       int
		skipped        int64
	}{
		{behaviour: "exit-3", code: 3, words: []string{`server "srv" (server-exit-3) exited with code 3`, "its last words: starting no \uFFFDtoken given: ***"},
			stderr: "starting\nno \uFFFDtoken given: ***"},
		{behaviour: "exit-silent", code: 7, words: []string{"exited with code 7", "wrote nothing to stderr"}},
		{behaviour: "killed", code: -1, signal: "SIGKILL", words: []string{"was ended by SIGKILL"}},
		{behaviour: "half-line", code: 1, words: []string{"exited with code 1"}, received: 1, skipped: 1},
		{behaviour: "last-words", code: 0, words: []string{"exited with code 0"}, received: 1},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			t.Parallel()
			s := child(c.behaviour)
			s.Redact = func(text string) string { return strings.ReplaceAll(text, "s3cret", "***") }
			r := start(t, s)
			err := r.over(3 * time.Second)
			if err.Code != fault.Exited || !err.Retryable || err.Server != "srv" || err.Data.Command != s.Command {
				t.Errorf("got %+v", err)
			}
			for _, words := range c.words {
				if !strings.Contains(err.Message, words) {
					t.Errorf("message %q lacks %q", err.Message, words)
				}
			}
			if code := err.Data.ExitCode; (c.code >= 0) != (code != nil) || code != nil && *code != c.code {
				t.Errorf("exit code %v, want %d", code, c.code)
			}
			if !strings.Contains(err.Data.Stderr, c.stderr) || err.Data.Signal != c.signal {
				t.Errorf("stderr %q, signal %q", err.Data.Stderr, err.Data.Signal)
			}
			if n := len(r.rec.messages()); n != c.received || r.Info().Skipped != c.skipped {
				t.Errorf("received %d, skipped %d", n, r.Info().Skipped)
			}
			gone(t, r.Info().PID, 0)
			if _, again := r.Send(t.Context(), []byte("{}")); !fault.Is(again, fault.Exited) || again.Error() != err.Message {
				t.Errorf("send after the end: %v", again)
			}
		})
	}
}

func TestStdioNoise(t *testing.T) {
	t.Parallel()
	r := start(t, child("noise"))
	r.pid() // glued to a prompt
	r.send(request(1, "{}"))
	if m := r.receive(); string(m.ID) != "1" {
		t.Errorf("got %s", m.ID)
	}
	if n := r.Info().Skipped; n != 4 {
		t.Errorf("skipped %d lines, want 4", n)
	}
}

func TestStdioLarge(t *testing.T) {
	t.Parallel()
	r := start(t, child("large"))
	want := strings.Repeat("é€😀x", 512<<10)
	var got string
	if err := json.Unmarshal(r.receive().Result, &got); err != nil || got != want {
		t.Fatalf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	r.pid()
	// The same way back: far more than a pipe holds, while the answer comes.
	r.send(request(2, `"`+want+`"`))
	if m := r.receive(); string(m.ID) != "2" || string(m.Result) != `"`+want+`"` {
		t.Errorf("got %s with %d bytes", m.ID, len(m.Result))
	}
}

func TestStdioOverTheLimit(t *testing.T) {
	for behaviour, id := range map[string]string{"over-first": "1", "over-last": `"one"`} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			s := child(behaviour)
			s.MaxMessage = 1 << 20
			r := start(t, s)
			if m := r.receive(); string(m.ID) != id || m.TooLarge < 3<<20 || m.Result != nil {
				t.Fatalf("got %s, too large %d", m.ID, m.TooLarge)
			}
			r.pid()
			r.send(request(2, "{}"))
			if m := r.receive(); string(m.ID) != "2" || r.Info().TooLarge != 1 {
				t.Errorf("afterwards: %s, %+v", m.ID, r.Info())
			}
		})
	}
}

func TestStdioStderrIsDrained(t *testing.T) {
	t.Parallel()
	r := start(t, child("stderr-flood"))
	r.pid() // it could not come had the flood filled the pipe
	r.Close(time.Second, false)
	err := r.over(2 * time.Second)
	if n := len(err.Data.Stderr); n == 0 || n > tailGiven || strings.Trim(err.Data.Stderr, "€") != "" {
		t.Errorf("%d bytes of stderr: %.20q", n, err.Data.Stderr)
	}
}

// A server that never reads: calls fail when their own time is over, messages
// neither mix nor half vanish, and closing does not wait for it.
func TestStdioFullPipe(t *testing.T) {
	t.Parallel()
	s := child("deaf")
	s.MaxQueue = 1 << 20
	r := start(t, s)
	r.pid()
	big := []byte(request(1, `"`+strings.Repeat("x", 900<<10)+`"`))
	begun, err := r.Send(t.Context(), big)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := r.Send(t.Context(), big)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = r.Send(ctx, big)
	if !fault.Is(err, fault.Timeout) || time.Since(begin) > 2*time.Second {
		t.Errorf("no room: %v after %v", err, time.Since(begin))
	}
	if _, ok, err := r.Conn.(Prompt).TrySend(big); ok || err != nil {
		t.Errorf("no room, not waited for: %v, %v", ok, err)
	}
	if !r.Begun(begun) || r.Begun(waiting) {
		t.Errorf("begun: %v, %v", r.Begun(begun), r.Begun(waiting))
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err = r.Send(ctx, big); !fault.Is(err, fault.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	failed := make(chan error, 1)
	go func() { _, err := r.Send(context.Background(), big); failed <- err }()
	time.Sleep(20 * time.Millisecond)
	r.Close(100*time.Millisecond, false)
	if err := <-failed; !fault.Is(err, fault.Closed) {
		t.Errorf("closed while waiting: %v", err)
	}
	r.over(2 * time.Second)
}

// Messages of many goroutines through a pipe that is full most of the time.
func TestStdioMessagesStayWhole(t *testing.T) {
	t.Parallel()
	s := child("echo")
	s.MaxQueue = 256 << 10
	r := start(t, s)
	r.pid()
	const senders, each = 8, 25
	var all sync.WaitGroup
	for g := range senders {
		all.Go(func() {
			for i := range each {
				r.send(request(g*each+i, fmt.Sprintf(`"%d-%d%s"`, g, i, strings.Repeat("y", (g*each+i)*113))))
			}
		})
	}
	last := map[int]int{}
	for range senders * each {
		m := r.receive()
		var g, i int
		if n, _ := fmt.Sscanf(string(m.Result), `"%d-%d`, &g, &i); n != 2 || string(m.ID) != fmt.Sprint(g*each+i) {
			t.Fatalf("id %s came with %.20s", m.ID, m.Result)
		}
		if i != last[g] {
			t.Errorf("sender %d: message %d came where %d was due", g, i, last[g])
		}
		last[g]++
		if want := len(fmt.Sprintf(`"%d-%d"`, g, i)) + (g*each+i)*113; len(m.Result) != want {
			t.Errorf("%d bytes, want %d", len(m.Result), want)
		}
	}
	all.Wait()
	if r.Info().Skipped != 0 {
		t.Errorf("the server sent junk: %+v", r.Info())
	}
}

func TestStdioClosedStdin(t *testing.T) {
	t.Parallel()
	s := child("close-stdin")
	s.Grace = 800 * time.Millisecond // the child needs a moment to die, also on a busy machine
	r := start(t, s)
	r.pid()
	if _, err := r.Send(t.Context(), []byte("{}")); !fault.Is(err, fault.Exited) || r.Begun(1) {
		t.Errorf("send: %v", err)
	}
	err := r.over(3 * time.Second) // it would stay for ever
	if err.Code != fault.Exited || !strings.Contains(err.Message, "was stopped with SIGTERM") {
		t.Errorf("got %v", err)
	}
}

func TestStdioClosedStdout(t *testing.T) {
	t.Parallel()
	s := child("close-stdout")
	s.Grace = 800 * time.Millisecond // the child needs a moment to die, also on a busy machine
	r := start(t, s)
	pid := r.pid()
	select {
	case err := <-r.rec.closed:
		r.rec.closed <- err
		if err.Code != fault.Exited || !strings.Contains(err.Message, "closed its output while it was still running") ||
			!strings.Contains(err.Message, "giving up on stdout") {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Second):
		t.Fatal("calls in flight would not have failed within a second")
	}
	r.over(2 * time.Second)
	gone(t, pid, 0)
}

func TestStdioCloseEscalates(t *testing.T) {
	for _, c := range []struct {
		name     string
		s        Stdio
		grace    time.Duration
		abort    bool
		min, max time.Duration
		signal   string
	}{
		{"obeys TERM", child("ignore-eof"), 400 * time.Millisecond, false, 200 * time.Millisecond, 390 * time.Millisecond, "SIGTERM"},
		{"ignores TERM", child("ignore-all"), 300 * time.Millisecond, false, 300 * time.Millisecond, time.Second, "SIGKILL"},
		{"abort", child("ignore-eof"), 10 * time.Second, true, 0, 400 * time.Millisecond, "SIGTERM"},
		{"abort, ignores TERM", child("ignore-all"), 10 * time.Second, true, 500 * time.Millisecond, time.Second, "SIGKILL"},
		{"at once", child("ignore-all"), 0, false, 0, 400 * time.Millisecond, "SIGKILL"},
		{"negative grace", child("ignore-all"), -time.Second, false, 0, 400 * time.Millisecond, "SIGKILL"},
		{"grandchild", launcher("ignore-all"), 400 * time.Millisecond, false, 400 * time.Millisecond, 1200 * time.Millisecond, "SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.s)
			pid := r.pid()
			begin := time.Now()
			r.Close(c.grace, c.abort)
			if took := time.Since(begin); took > 100*time.Millisecond {
				t.Errorf("Close took %v", took)
			}
			err := r.over(5 * time.Second)
			if took := time.Since(begin); took < c.min || took > c.max+slack {
				t.Errorf("took %v, want %v to %v", took, c.min, c.max)
			}
			if err.Code != fault.Closed || err.Data.Signal != c.signal {
				t.Errorf("got %v, signal %q", err, err.Data.Signal)
			}
			gone(t, pid, 0)
			gone(t, r.Info().PID, 0)
		})
	}
}

// slack is for a machine that is busy with other tests.
const slack = 300 * time.Millisecond

func TestStdioCloseMayOnlyBeShortened(t *testing.T) {
	t.Parallel()
	r := start(t, child("ignore-all"))
	r.pid()
	r.Close(time.Hour, false)
	r.Close(100*time.Millisecond, false)
	r.Close(2*time.Hour, false)
	r.over(2 * time.Second)
}

// A server that answers SIGTERM with a last message still gets it through.
func TestStdioReadsToTheEnd(t *testing.T) {
	t.Parallel()
	r := start(t, child("say-term"))
	r.pid()
	r.Close(2*time.Second, true)
	err := r.over(3 * time.Second)
	if m := r.receive(); m.Method != "terminated" || *err.Data.ExitCode != 5 {
		t.Errorf("got %q, %v", m.Method, err)
	}
}

// The leader dies and leaves a server that ignores everything and holds the pipes.
func TestStdioLeaderDies(t *testing.T) {
	t.Parallel()
	r := start(t, child("leave-child"))
	pid := r.pid()
	err := r.over(3 * time.Second)
	if err.Code != fault.Exited || *err.Data.ExitCode != 4 {
		t.Errorf("got %v", err)
	}
	gone(t, pid, 0)
}

func TestStdioSpawnFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, path, dir, want string
	}{
		{"not on PATH", "", "", "no such program on PATH"},
		{"missing", filepath.Join(dir, "missing"), "", "there is no such program"},
		{"not executable", file("plain", "x", 0o600), "", "chmod +x"},
		{"a directory", dir, "", "may not be executed"},
		{"no interpreter", file("script", "#!/no/such/interpreter\n", 0o700), "", "interpreter"},
		{"no program", file("junk", "\x00\x01junk", 0o700), "", "no program for this machine"},
		{"no directory", "/bin/sh", filepath.Join(dir, "missing"), "correct cwd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := Stdio{Server: "srv", Path: c.path, Command: "the-command", Dir: c.dir}.Dial(t.Context(), newRecord())
			e := fault.From(err)
			if conn != nil || e.Code != fault.SpawnFailed || e.Stage != fault.StageSpawn || e.Retryable || e.Server != "srv" || e.Data.Command != "the-command" {
				t.Fatalf("got %+v", e)
			}
			if !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, "the-command") {
				t.Errorf("message %q lacks %q", e.Message, c.want)
			}
		})
	}
}

func TestStdioSlots(t *testing.T) {
	t.Parallel()
	s := child("deaf")
	s.Slots = semaphore.NewWeighted(1)
	a, b := start(t, s), start(t, s) // a slot is not held by a server that runs
	a.pid()
	b.pid()
	if !s.Slots.TryAcquire(1) {
		t.Fatal("the slot was not given back")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Dial(ctx, newRecord()); !fault.Is(err, fault.Timeout) {
		t.Errorf("no slot: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	s.Slots = nil
	if _, err := s.Dial(ctx, newRecord()); !fault.Is(err, fault.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStdioReceiverPanics(t *testing.T) {
	t.Parallel()
	rec := newRecord()
	rec.each = func(*Message) { panic("boom") }
	s := child("ignore-eof")
	s.Grace = 100 * time.Millisecond
	c, err := s.Dial(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-rec.closed:
		if err.Code != fault.Internal || err.Server != "srv" {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Closed was not called")
	}
	<-c.Done()
	gone(t, c.Info().PID, 0)
}

// Not parallel: it counts what the process holds.
func TestStdioLeavesNothing(t *testing.T) {
	once := func() {
		a, b, c := start(t, child("echo")), start(t, launcher("ignore-all")), start(t, child("exit-3"))
		a.pid()
		b.pid()
		a.Close(time.Second, false)
		b.Close(50*time.Millisecond, false)
		for _, r := range []*running{a, b, c} {
			r.over(5 * time.Second)
		}
		child("echo").Dial(canceled(), newRecord())
		Stdio{Path: "/no/such/program"}.Dial(context.Background(), newRecord())
	}
	once()
	goroutines, files := runtime.NumGoroutine(), countFiles(t)
	for range 3 {
		once()
	}
	for end := time.Now().Add(3 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
		}
	}
	if n := countFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
	if pid := guardPID(); pid != 0 {
		t.Errorf("guard %d outlives the last server", pid)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("children are left: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func countFiles(t *testing.T) int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("cannot count open files:", err)
	}
	return len(entries)
}
