package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// hostEnds are the ways in which testdata/hosttest.c comes to its end.
var hostEnds = strings.Fields("return exit _exit abort segv term int kill hup thread exec free fork forkkill forkexec close ignore reap killed running")

// TestHosts: hosts that return, exit, fork, exec, raise, close and are killed at
// random moments leave no process. MCPRT_TEST_HOSTS says how many there are (20), and
// MCPRT_TEST_SEED gives the moments of an earlier run.
func TestHosts(t *testing.T) {
	n := len(hostEnds)
	if text := os.Getenv("MCPRT_TEST_HOSTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("MCPRT_TEST_HOSTS=%s", text)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MCPRT_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MCPRT_TEST_SEED=%d", seed)
	lib := library(t, "real")
	program := filepath.Join(t.TempDir(), "hosttest")
	tool(t, gcc(), append(append([]string{}, strict...), "-O1", "-I../include", "testdata/hosttest.c", lib, "-Wl,-rpath,"+filepath.Dir(lib), "-o", program)...)
	random := rand.New(rand.NewPCG(seed, 0))
	order := make(chan int, n)
	moments := make([][2]int, n)
	for i := range n {
		moments[i] = [2]int{random.IntN(1 << 30), random.IntN(150)}
		order <- i
	}
	close(order)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for i := range order {
				endOfHost(t, program, hostEnds[i%len(hostEnds)], moments[i][0], time.Duration(moments[i][1])*time.Millisecond, fmt.Sprintf("%d-%d", seed, i))
			}
		})
	}
	wait.Wait()
}

// endOfHost runs one host to its end and waits until nothing is left of it.
func endOfHost(t *testing.T, program, end string, seed int, killAfter time.Duration, id string) {
	mark := "host-" + id
	with := func(s mcptest.Script) map[string]any {
		cfg := server(s)
		cfg["env"].(map[string]string)["MCPRT_TEST_MARK"] = mark
		return cfg
	}
	behind := with(mcptest.Script{IgnoreEOF: true})
	launched := map[string]any{"command": "/bin/sh", "args": []string{"-c", `exec 3<&0; "$0" <&3 3<&- & wait`, behind["command"].(string)}, "env": behind["env"]}
	file := options(t, map[string]any{"plain": with(mcptest.Script{}), "launched": launched,
		"stubborn": with(mcptest.Script{IgnoreEOF: true, IgnoreTerm: true, Grandchild: true}), "slow": with(mcptest.Script{StartDelay: time.Hour, IgnoreTerm: true})})
	host := exec.Command(program, file, strconv.Itoa(seed), end)
	var out bytes.Buffer
	host.Stdout, host.Stderr = &out, &out
	host.WaitDelay = time.Second
	if err := host.Start(); err != nil {
		t.Error(err)
		return
	}
	over := make(chan struct{})
	go func() { host.Wait(); close(over) }()
	if end == "running" { // it has servers when it is killed
		for limit := time.Now().Add(20 * time.Second); len(remains(mark, host.Process.Pid)) < 2; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Errorf("%s: the host has no servers", id)
				break
			}
		}
	}
	if end == "running" || end == "killed" {
		time.Sleep(killAfter)
		host.Process.Kill()
	}
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		t.Errorf("%s (%s): the host does not end", end, id)
		host.Process.Kill()
		<-over
	}
	said := out.String()
	if code := host.ProcessState.ExitCode(); code >= 90 {
		t.Errorf("%s (%s): exit code %d, %s", end, id, code, said)
	}
	if slices.Contains([]string{"close", "ignore", "reap"}, end) && said != "closed\n" {
		t.Errorf("%s (%s) says %q", end, id, said)
	}
	var left []string
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if left = remains(mark, host.Process.Pid); len(left) == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("%s (%s): left behind: %s", end, id, strings.Join(left, "; "))
			break
		}
	}
	if _, pid, ok := strings.Cut(said, "child "); ok { // what it left on purpose
		if n, err := strconv.Atoi(strings.TrimSpace(pid)); err == nil && n > 1 {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// remains are the live processes that carry a mark, and the guard of a host.
func remains(mark string, host int) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		env, _ := os.ReadFile(dir + "/environ") // empty for one that only waits to be reaped
		line, _ := os.ReadFile(dir + "/cmdline")
		guard := bytes.Contains(line, []byte("\x00mcprt-guard\x00"+strconv.Itoa(host)+"\x00"))
		if guard || slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == "MCPRT_TEST_MARK="+mark }) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(line[:min(len(line), 200)]), "\x00", " "))
		}
	}
	return found
}
