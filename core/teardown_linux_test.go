package core

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/mcptest"
)

// marked gives the config of a process that can be found again, with its descendants.
func marked(s mcptest.Script, mark string) map[string]any {
	command, args, env := s.Command()
	env["MCPRT_TEST_MARK"] = mark
	return map[string]any{"command": command, "args": args, "env": env}
}

var marks struct {
	sync.Mutex
	last int
}

func newMark() string {
	marks.Lock()
	defer marks.Unlock()
	marks.last++
	return fmt.Sprintf("core-%d-%d", os.Getpid(), marks.last)
}

// processes finds the live processes that carry a mark.
func processes(t *testing.T, mark string) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, dir := range all {
		env, err := os.ReadFile(dir + "/environ") // empty for one that only waits to be reaped
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == "MCPRT_TEST_MARK="+mark }) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}

// eventually waits for what another process or goroutine has to do first.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within %v: %s", limit, what)
			return
		}
	}
}

func TestDisconnectDuringGateOfProcesses(t *testing.T) {
	t.Parallel()
	mark := newMark()
	r := newProcessRig(t, nil, map[string]any{
		"server slow": marked(mcptest.Script{StartDelay: time.Hour, IgnoreTerm: true}, mark), "server good": marked(mcptest.Script{}, mark+"-good")})
	connect, _ := r.begin(VerbConnect, `{}`)
	eventually(t, 10*time.Second, "the slow server starts", func() bool { return len(processes(t, mark)) == 1 })
	start := time.Now()
	r.must(VerbDisconnect, `{"server":"slow"}`)
	if n := len(processes(t, mark)); n != 0 || time.Since(start) > time.Second {
		t.Errorf("%d processes after %v", n, time.Since(start))
	}
	if a := <-connect; !slices.Equal(a.names("connected"), []string{"good"}) {
		t.Errorf("connect: %s", a.raw)
	}
	time.Sleep(700 * time.Millisecond) // a first back-off would be over
	if n := len(processes(t, mark)); n != 0 {
		t.Error("it came back")
	}
}

// TestFiftyReloadsOfProcesses: whatever is replaced while it connects, one process
// per server is left, and none after close.
func TestFiftyReloadsOfProcesses(t *testing.T) {
	t.Parallel()
	mark, dir := newMark(), t.TempDir()
	put := func(version int) {
		all := map[string]any{}
		for _, name := range []string{"a", "b"} {
			cfg := marked(mcptest.Script{StartDelay: 20 * time.Millisecond}, mark)
			if name == "a" {
				cfg["args"] = []string{strconv.Itoa(version)} // b stays as it is
			}
			all[name] = cfg
		}
		text, err := json.Marshal(map[string]any{"mcpServers": all})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, ".mcp.json"), string(text))
	}
	put(0)
	r := newProcessRig(t, nil, map[string]any{"cwd": dir, "projectTrust": "always"})
	first, _ := r.begin(VerbConnect, `{}`)
	var all []<-chan answerOf
	for i := range 50 {
		put(i + 1)
		mode := "diff"
		if i%5 == 4 {
			mode = "full"
		}
		ch, _ := r.begin(VerbReload, `{"mode":"`+mode+`"}`)
		all = append(all, ch)
		time.Sleep(time.Duration(i%4) * 10 * time.Millisecond)
	}
	for _, ch := range append(all, first) {
		if a := <-ch; a.st != OK {
			t.Fatalf("status %d %s", a.st, a.raw)
		}
	}
	if a := r.must(VerbConnect, `{"startupTimeoutMs":0}`); len(a.names("connected")) != 2 {
		t.Fatal(a.raw)
	}
	eventually(t, 5*time.Second, "two processes", func() bool { return len(processes(t, mark)) == 2 })
	for _, name := range []string{"a", "b"} {
		if pid := int(r.server(name)["pid"].(float64)); !slices.Contains(processes(t, mark), pid) {
			t.Errorf("the process of %s is not %d", name, pid)
		}
	}
	before := r.server("b")["pid"]
	put(1000)
	r.must(VerbReload, `{"startupTimeoutMs":0}`)
	if now := r.server("b")["pid"]; now != before {
		t.Error("the unchanged server has another process")
	}
	r.m.Close(2000)
	if n := processes(t, mark); len(n) != 0 {
		t.Errorf("processes after close: %v", n)
	}
}

// received reads how often each tool was called, from the log of a scripted child.
func received(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var e struct {
			Event string `json:"event"`
			Data  json.RawMessage
		}
		var m struct {
			Method string `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "recv" && json.Unmarshal(e.Data, &m) == nil && m.Method == "tools/call" {
			calls[m.Params.Name]++
		}
	}
	return calls
}

// TestKilledInACall: SIGKILL, the hardest death, with calls in flight.
func TestKilledInACall(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	r := newProcessRig(t, map[string]mcptest.Script{"a": {LogFile: log, Stderr: "up\n"}}, nil)
	r.must(VerbConnect, `{}`)
	pid := int(r.server("a")["pid"].(float64))
	var all []<-chan answerOf
	for range 5 {
		ch, _ := r.begin(VerbCall, `{"server":"a","tool":"hang"}`)
		all = append(all, ch)
	}
	eventually(t, 5*time.Second, "the calls arrive", func() bool { return received(t, log)["hang"] == 5 })
	start := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, ch := range all {
		a := <-ch
		data, _ := a.obj["error"].(map[string]any)["data"].(map[string]any)
		if a.code() != "outcome_unknown" || data["signal"] == nil || !strings.Contains(fmt.Sprint(data["stderr"]), "up") {
			t.Errorf("call: %s", a.raw)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the calls failed after %v", took)
	}
	r.must(VerbCall, `{"server":"a","tool":"echo"}`)
	if calls := received(t, log); calls["hang"] != 5 || calls["echo"] != 1 {
		t.Errorf("calls %v", calls)
	}
	if now := int(r.server("a")["pid"].(float64)); now == pid {
		t.Error("the same process?")
	}
}

func TestManyFirstCallsToProcesses(t *testing.T) {
	t.Parallel()
	cache, mark := cacheIn(filepath.Join(t.TempDir(), "cache")), newMark()
	cfg := marked(mcptest.Script{StartDelay: 100 * time.Millisecond}, mark)
	r := newProcessRig(t, nil, map[string]any{"cache": cache, "server a": cfg})
	r.must(VerbConnect, `{}`)
	r.m.Close(500)
	r = newProcessRig(t, nil, map[string]any{"cache": cache, "server a": cfg, "lazy": true})
	if a := r.must(VerbConnect, `{}`); !slices.Equal(a.names("deferred"), []string{"a"}) || len(processes(t, mark)) != 0 {
		t.Fatalf("a lazy server: %s", a.raw)
	}
	var all []<-chan answerOf
	for i := range 200 {
		ch, _ := r.begin(VerbCall, fmt.Sprintf(`{"tool":"mcp_a_echo","arguments":{"n":%d}}`, i))
		all = append(all, ch)
	}
	for i, ch := range all {
		if a := <-ch; a.st != OK || !strings.Contains(a.raw, fmt.Sprintf(`"structuredContent":{"n":%d}`, i)) {
			t.Fatalf("call %d: %s", i, a.raw)
		}
	}
	if n := len(processes(t, mark)); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestDeafServerHoldsNobodyUp: Start comes back at once even if a server does not
// read and no more may be queued for it; else one server would stop all.
func TestDeafServerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, map[string]mcptest.Script{"deaf": {Name: "deaf"}, "good": {Name: "good"}}, nil)
	r.must(VerbConnect, `{}`)
	r.must(VerbCall, `{"server":"deaf","tool":"deaf"}`)
	big := `{"server":"deaf","tool":"echo","timeoutMs":60000,"arguments":{"x":"` + strings.Repeat("x", 9<<20) + `"}}`
	start := time.Now()
	var all []<-chan answerOf
	var cancels []func()
	for range 4 { // together more than the 16 MiB that may wait
		ch, cancel := r.begin(VerbCall, big)
		all, cancels = append(all, ch), append(cancels, cancel)
	}
	r.must(VerbCall, `{"server":"good","tool":"echo"}`)
	for _, cancel := range cancels {
		cancel()
	}
	for _, ch := range all {
		if a := <-ch; a.st != ECanceled {
			t.Errorf("status %d", a.st)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("a server that does not read held others up for %v", took)
	}
}

// TestCloseLeavesNothing: no process, descriptor or goroutine, within the grace and
// a second, of servers that ignore every request to end, some still in their handshake.
// It is not parallel: it counts what the whole process has.
func TestCloseLeavesNothing(t *testing.T) {
	settle := func() (int, int) {
		runtime.GC()
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds), runtime.NumGoroutine()
	}
	once := func() {
		mark := newMark()
		stubborn := mcptest.Script{IgnoreEOF: true, IgnoreTerm: true, Grandchild: true}
		hanging := stubborn
		hanging.StartDelay = time.Hour
		options := map[string]any{"uncached": "background", "server hang": marked(hanging, mark), "server exits": marked(mcptest.Script{ExitAtStart: mcptest.Code(1)}, mark)}
		for i := range 4 {
			stubborn.Name = fmt.Sprintf("s%d", i) // else it would be a second name of the same server
			options["server "+stubborn.Name] = marked(stubborn, mark)
		}
		r := newProcessRig(t, nil, options)
		r.must(VerbConnect, `{"only":["s0","s1","s2","s3"],"uncached":"wait"}`)
		r.must(VerbConnect, `{"startupTimeoutMs":50}`)
		call, _ := r.begin(VerbCall, `{"server":"s0","tool":"hang"}`)
		eventually(t, 5*time.Second, "ten processes", func() bool { return len(processes(t, mark)) == 10 })
		start := time.Now()
		first := make(chan struct{})
		go func() {
			r.m.Close(400)
			close(first)
		}()
		<-r.m.ctx.Done() // it has begun
		r.m.Close(60_000)
		<-first
		if took := time.Since(start); took > 5*time.Second { // the second Close would give a minute
			t.Errorf("close took %v", took)
		}
		if left := processes(t, mark); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if a := <-call; a.st != EClosed {
			t.Errorf("the call: %s", a.raw)
		}
		for _, v := range []Verb{VerbDiscover, VerbConnect, VerbList, VerbReload, VerbDisconnect, VerbCall} {
			if a := r.do(v, `{"server":"s0","tool":"x"}`); a.st != EClosed || a.code() != "closed" {
				t.Errorf("verb %d after close: %s", v, a.raw)
			}
		}
		start = time.Now()
		r.m.Close(60_000)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("closing again took %v", took)
		}
	}
	once() // what stays for the life of the process is there then: the guard, the netpoller
	fds, goroutines := settle()
	once()
	eventually(t, 2*time.Second, "as few descriptors and goroutines as before", func() bool {
		f, g := settle()
		return f <= fds && g <= goroutines
	})
	if f, g := settle(); f > fds || g > goroutines {
		stacks := make([]byte, 1<<20)
		t.Errorf("descriptors %d then %d, goroutines %d then %d\n%s", fds, f, goroutines, g, stacks[:runtime.Stack(stacks, true)])
	}
}

// TestCloseHurriesADisconnect: a server that is being ended at leisure gets no more
// time than close gives.
func TestCloseHurriesADisconnect(t *testing.T) {
	t.Parallel()
	mark := newMark()
	r := newProcessRig(t, nil, map[string]any{"graceMs": 20_000, "server a": marked(mcptest.Script{IgnoreEOF: true, IgnoreTerm: true}, mark)})
	r.must(VerbConnect, `{}`)
	gone, _ := r.begin(VerbDisconnect, `{}`)
	eventually(t, 5*time.Second, "the server is stopped", func() bool { return r.server("a")["state"] == "stopped" })
	start := time.Now()
	r.m.Close(200)
	if took, left := time.Since(start), processes(t, mark); took > 1200*time.Millisecond || len(left) != 0 {
		t.Errorf("close took %v and left %v", took, left)
	}
	<-gone
}

// TestUntrustedIsNotRun: no process of a project's server exists before it is approved.
func TestUntrustedIsNotRun(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	proof := filepath.Join(dir, "proof")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"a": marked(mcptest.Script{LogFile: proof}, newMark())}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".mcp.json"), string(text))
	r := newProcessRig(t, nil, map[string]any{"cwd": dir, "env": map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}})
	r.must(VerbDiscover, `{}`)
	hash := r.must(VerbConnect, `{"startupTimeoutMs":0}`).needs(t, "a")
	r.do(VerbCall, `{"server":"a","tool":"echo"}`)
	r.must(VerbReload, `{"mode":"full"}`)
	if _, err := os.Stat(proof); err == nil {
		t.Fatal("the server was run")
	}
	if a := r.must(VerbConnect, `{"trust":{"a":"`+hash+`"}}`); len(a.names("connected")) != 1 {
		t.Errorf("approved: %s", a.raw)
	}
	if _, err := os.Stat(proof); err != nil {
		t.Error("the approved server was not run")
	}
}

// TestHundredAtOnce: a hundred servers start together and are closed together, in the
// time of one, though half of them ignore EOF and SIGTERM.
func TestHundredAtOnce(t *testing.T) {
	mark, options := newMark(), map[string]any{}
	for i := range 100 {
		s := mcptest.Script{Name: fmt.Sprintf("s%02d", i), Tools: []string{mcptest.Tool("echo")}, IgnoreEOF: i%2 == 0, IgnoreTerm: i%4 == 0}
		options["server "+s.Name] = marked(s, mark)
	}
	options["timeoutMs"] = 60_000
	r := newProcessRig(t, nil, options)
	if a := r.must(VerbConnect, `{"startupTimeoutMs":0}`); len(a.names("connected")) != 100 || len(processes(t, mark)) != 100 {
		t.Errorf("%d connected, %d processes", len(a.names("connected")), len(processes(t, mark)))
	}
	start := time.Now()
	r.m.Close(500)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("close took %v", took)
	}
	eventually(t, 2*time.Second, "no process is left", func() bool { return len(processes(t, mark)) == 0 })
	if z := zombies(t, os.Getpid()); len(z) > 0 {
		t.Errorf("not reaped: %q", z)
	}
}
