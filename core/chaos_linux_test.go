package core

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/mcptest"
)

// How long TestChaos rages, and from which seed; `make soak` gives it ten minutes.
var (
	chaosTime = flag.Duration("chaos", 8*time.Second, "how long TestChaos goes on")
	chaosSeed = flag.Uint64("chaos-seed", 0, "its seed; 0: a new one, which a failure prints")
)

const (
	chaosServers = 30
	chaosWeb     = 6 // besides, behind sockets of this process
	chaosCallers = 64
)

// chaos is one run: a manager, its config file, and what is known of its servers.
type chaos struct {
	t    *testing.T
	r    *rig
	dir  string
	mark string
	log  string
	web  []*mcptest.HTTP
	end  time.Time

	files   sync.Mutex // the config file and versions
	version [chaosServers]int
	absent  [chaosServers]bool

	begun, ended, twice, good, failed, cancelled atomic.Int64
	odd                                          sync.Map // error codes by how often
	ids                                          atomic.Int64
}

// TestChaos lets servers be killed, stopped, changed, removed and flooded while 64
// callers call them. Each operation must end exactly once, no call may be seen twice
// by a server, and at the end no process, descriptor or goroutine is left.
func TestChaos(t *testing.T) {
	if raceEnabled && *chaosTime < time.Minute {
		*chaosTime = min(*chaosTime, 5*time.Second)
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	fds, goroutines := countFDs(t), runtime.NumGoroutine()
	c := &chaos{t: t, dir: t.TempDir(), mark: newMark(), end: time.Now().Add(*chaosTime)}
	c.log = filepath.Join(t.TempDir(), "log")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	for i := range chaosWeb {
		web := mcptest.NewHTTP(mcptest.Script{LogFile: fmt.Sprintf("%s-web%d", c.log, i)})
		web.JSON = i%2 == 0
		c.web = append(c.web, web)
	}
	c.write()
	c.r = newProcessRig(t, nil, map[string]any{"cwd": c.dir, "projectTrust": "always", "maxInFlight": 1000,
		"cache": map[string]any{"dir": filepath.Join(t.TempDir(), "cache")}})
	c.r.host.counting.Store(true) // for its memory would grow with each notice
	c.r.must(VerbConnect, `{"tools":false}`)
	var all sync.WaitGroup
	for i := range chaosCallers {
		all.Go(func() { c.call(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	all.Go(func() { c.harm(rand.New(rand.NewPCG(seed, 1000))) })
	all.Go(func() { c.reload(rand.New(rand.NewPCG(seed, 1001))) })
	half := c.halfway()
	all.Wait()
	c.settle(half)

	c.r.m.Close(500)
	for _, web := range c.web {
		web.Close()
	}
	if b, e := c.begun.Load(), c.ended.Load(); b != e || c.twice.Load() > 0 {
		t.Errorf("%d operations began and %d ended, %d of them more than once", b, e, c.twice.Load())
	}
	eventually(t, 5*time.Second, "no process is left", func() bool { return len(processes(t, c.mark)) == 0 })
	eventually(t, 10*time.Second, "no descriptor and no goroutine is left", func() bool {
		return countFDs(t) <= fds && runtime.NumGoroutine() <= goroutines
	})
	if t.Failed() {
		stacks := make([]byte, 1<<20)
		t.Logf("%d descriptors (%d at first), %d goroutines (%d at first)\n%s", countFDs(t), fds, runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	c.countCalls()
	var codes []string
	c.odd.Range(func(code, n any) bool {
		codes = append(codes, fmt.Sprintf("%v %d", code, n.(*atomic.Int64).Load()))
		return true
	})
	t.Logf("%d operations: %d good, %d cancelled, %d failed (%s)", c.begun.Load(), c.good.Load(), c.cancelled.Load(), c.failed.Load(), strings.Join(codes, ", "))
	if c.good.Load() < c.begun.Load()/10 {
		t.Errorf("only %d of %d operations were good: the healthy servers did not go on", c.good.Load(), c.begun.Load())
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// write makes the config file anew, as an editor does: beside it, then in its place.
func (c *chaos) write() {
	c.files.Lock()
	defer c.files.Unlock()
	all := map[string]any{}
	for i := range chaosServers {
		if c.absent[i] {
			continue
		}
		script := mcptest.Script{LogFile: fmt.Sprintf("%s-%d", c.log, i)}
		switch i % 10 {
		case 7:
			script.StartDelay = 300 * time.Millisecond
		case 8:
			script.IgnoreTerm, script.IgnoreEOF, script.Grandchild = true, true, true
		case 9:
			script.Noise = []string{"this is no message", "{", "\x00\xff"}
		}
		cfg := marked(script, c.mark)
		cfg["args"] = []string{strconv.Itoa(c.version[i])}
		all[fmt.Sprintf("s%d", i)] = cfg
	}
	for i, web := range c.web {
		all[fmt.Sprintf("web%d", i)] = map[string]any{"type": "http", "url": web.URL}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		panic(err)
	}
	path := filepath.Join(c.dir, ".mcp.json")
	write(c.t, path+".new", string(text))
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// start begins an operation whose end is counted, and gives a channel that closes at its end.
func (c *chaos) start(v Verb, request string) (<-chan struct{}, func()) {
	c.begun.Add(1)
	done := make(chan struct{})
	var ends atomic.Int32
	cancel := c.r.m.Start(v, 1, []byte(request), func(st Status, rep Reply) {
		if ends.Add(1) > 1 {
			c.twice.Add(1)
			return
		}
		c.ended.Add(1)
		if st == OK {
			c.good.Add(1)
		} else {
			c.count(append(bytes.Clone(rep.Head), rep.Body...))
		}
		close(done)
	})
	return done, cancel
}

func (c *chaos) count(reply []byte) {
	var failed struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(reply, &failed); err != nil || failed.Error.Code == "" {
		c.t.Errorf("a failure without a code: %s", reply)
		return
	}
	if failed.Error.Code == "canceled" {
		c.cancelled.Add(1)
		return
	}
	if failed.Error.Code == "internal" {
		c.t.Errorf("an internal error: %s", failed.Error.Message)
	}
	c.failed.Add(1)
	n, _ := c.odd.LoadOrStore(failed.Error.Code, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// call is one caller. Each call has an id of its own, so that a server's log shows
// whether it was sent twice.
func (c *chaos) call(r *rand.Rand) {
	for time.Now().Before(c.end) {
		server := fmt.Sprintf("s%d", r.IntN(chaosServers))
		args := func(format string, a ...any) string {
			return fmt.Sprintf(`{"id":%d`, c.ids.Add(1)) + fmt.Sprintf(format, a...) + "}"
		}
		tool, arguments, cancelAfter, timeout := "echo", args(""), time.Duration(0), 2000
		switch n := r.IntN(1000); {
		case n < 100:
			tool, arguments, cancelAfter = "slow", args(`,"ms":100`), time.Duration(r.IntN(30))*time.Millisecond
		case n < 150:
			tool, arguments = "big", args(`,"bytes":%d`, r.IntN(300_000))
		case n < 200:
			tool, timeout = "hang", 50+r.IntN(200)
		case n < 250:
			tool, arguments = "progress", args(`,"n":20`)
		case n < 300:
			tool, arguments = "log", args(`,"n":200`)
		case n < 320:
			tool = "changed"
		case n < 325:
			tool = "die"
		case n < 328:
			tool = "deaf"
		case n < 335:
			tool = "spam"
		case n < 345:
			tool = "neither"
		}
		if r.IntN(5) == 0 {
			server = fmt.Sprintf("web%d", r.IntN(chaosWeb))
			switch tool {
			case "die", "deaf", "spam", "neither": // what only a process can do
				tool = "echo"
			}
		}
		done, cancel := c.start(VerbCall, fmt.Sprintf(`{"server":%q,"tool":%q,"arguments":%s,"timeoutMs":%d,"progress":true}`, server, tool, arguments, timeout))
		if cancelAfter > 0 {
			time.Sleep(cancelAfter)
			cancel()
		}
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			c.t.Errorf("a call of %s at %s with a timeout of %d ms did not end within 30 s", tool, server, timeout)
			return
		}
	}
}

// harm kills and stops servers from outside, and lets those behind sockets forget their sessions.
func (c *chaos) harm(r *rand.Rand) {
	for ; time.Now().Before(c.end); time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond) {
		if r.IntN(3) == 0 {
			c.web[r.IntN(chaosWeb)].Forget()
		}
		pids := processes(c.t, c.mark)
		if len(pids) == 0 {
			continue
		}
		pid := pids[r.IntN(len(pids))]
		if r.IntN(2) == 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		time.AfterFunc(time.Duration(r.IntN(500))*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// reload changes the config file, reloads, disconnects and connects.
func (c *chaos) reload(r *rand.Rand) {
	for ; time.Now().Before(c.end); time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) {
		i := r.IntN(chaosServers)
		request, verb := `{"tools":false}`, VerbReload
		switch r.IntN(6) {
		case 0:
			c.files.Lock()
			c.version[i]++
			c.files.Unlock()
		case 1:
			c.files.Lock()
			c.absent[i] = !c.absent[i] && r.IntN(3) == 0 // most of them are there
			c.files.Unlock()
		case 2:
			request, verb = fmt.Sprintf(`{"server":"s%d"}`, i), VerbDisconnect
		case 3:
			request, verb = fmt.Sprintf(`{"only":["s%d"],"restart":true,"tools":false}`, i), VerbConnect
		case 4:
			request, verb = `{"kind":"tools"}`, VerbList
		case 5:
			request, verb = `{"tools":false}`, VerbConnect
		}
		if verb == VerbReload {
			c.write()
		}
		done, cancel := c.start(verb, request)
		if r.IntN(4) == 0 {
			cancel()
		}
		select {
		case <-done:
		case <-time.After(40 * time.Second):
			c.t.Errorf("verb %d %s did not end within 40 s", verb, request)
			return
		}
	}
}

// halfway gives, later, the live heap in the middle of the run.
func (c *chaos) halfway() <-chan uint64 {
	out := make(chan uint64, 1)
	go func() {
		time.Sleep(time.Until(c.end) / 2)
		out <- liveHeap()
	}()
	return out
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settle waits until no more servers are stopped, and compares the live heap with
// that of the middle, when as much was going on or more.
func (c *chaos) settle(half <-chan uint64) {
	time.Sleep(500 * time.Millisecond)
	middle, now := <-half, liveHeap()
	c.t.Logf("live heap: %d KiB in the middle, %d KiB at the end", middle>>10, now>>10)
	if now > middle+8<<20 {
		c.t.Errorf("the live heap grew from %d to %d KiB in the second half", middle>>10, now>>10)
	}
}

// countCalls reads what the servers saw.
func (c *chaos) countCalls() {
	seen, lines := map[int64]string{}, 0
	logs, err := filepath.Glob(c.log + "-*")
	if err != nil || len(logs) < chaosServers+chaosWeb {
		c.t.Fatalf("%d logs of %d servers (%v)", len(logs), chaosServers, err)
	}
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			c.t.Fatal(err)
		}
		defer f.Close()
		in := bufio.NewScanner(f)
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			lines++
			var e struct {
				Event string
				Data  json.RawMessage
			}
			if json.Unmarshal(in.Bytes(), &e) != nil || e.Event != "recv" {
				continue // a line of a killed server may be cut off
			}
			var msg struct {
				Method string
				Params struct{ Arguments struct{ ID int64 } }
			}
			if json.Unmarshal(e.Data, &msg) != nil || msg.Method != "tools/call" {
				continue
			}
			id := msg.Params.Arguments.ID
			if before, twice := seen[id]; twice {
				c.t.Errorf("call %d was sent twice: %s and %s", id, before, path)
			}
			seen[id] = path
		}
		if err := in.Err(); err != nil {
			c.t.Error(err)
		}
	}
	if len(seen) == 0 {
		c.t.Errorf("the servers saw no call in %d lines", lines)
	}
	c.t.Logf("the servers saw %d calls", len(seen))
}
