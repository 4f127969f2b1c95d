//go:build unix

package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The host is killed with SIGKILL: no server and no grandchild is left two seconds
// later, though they ignore EOF and SIGTERM, nor is the guard.
func TestGuardOutlivesTheHost(t *testing.T) {
	for _, name := range []string{"host", "host-forking"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "host-forking" && runtime.GOOS != "linux" {
				t.Skip("only Linux tells a child of its parent's death")
			}
			host, out := runHost(t, name)
			var pids []int
			for out.Scan() && out.Text() != "ready" {
				if strings.HasPrefix(out.Text(), "error") {
					t.Fatal(out.Text())
				}
				if strings.HasPrefix(out.Text(), "keeper") {
					keeper := numbers(out.Text())[0]
					defer syscall.Kill(keeper, syscall.SIGKILL)
					continue
				}
				pids = append(pids, numbers(out.Text())...)
			}
			if len(pids) != 7 { // three leaders, each with what serves, and the guard
				t.Fatalf("got %v", pids)
			}
			for _, pid := range pids {
				if !live(pid) {
					t.Fatalf("%d of %v does not run", pid, pids)
				}
			}
			host.Process.Kill()
			killed := time.Now()
			for _, pid := range pids {
				gone(t, pid, 2*time.Second-time.Since(killed))
			}
		})
	}
}

func TestHostThatIgnoresItsChildren(t *testing.T) {
	t.Parallel()
	_, out := runHost(t, "host-no-child")
	if !out.Scan() || !strings.Contains(out.Text(), "exit status is unknown") || !strings.Contains(out.Text(), "its last words: starting") {
		t.Errorf("got %q", out.Text())
	}
}

// A host that reaps all children takes the status, or is too late; the end is known.
func TestHostWithItsOwnReaper(t *testing.T) {
	t.Parallel()
	for range 5 {
		_, out := runHost(t, "host-reaper")
		if !out.Scan() || !strings.Contains(out.Text(), "exit status is unknown") && !strings.Contains(out.Text(), "exited with code") || !strings.Contains(out.Text(), "its last words: starting") {
			t.Errorf("got %q", out.Text())
		}
	}
}

func TestHostWithoutStandardStreams(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host, _ := runHost(t, "host-closed-stdio", "OUT="+path)
	state, err := host.Process.Wait()
	text, _ := os.ReadFile(path)
	if err != nil || !state.Success() || !strings.Contains(string(text), "has closed its input") || !strings.HasSuffix(string(text), "alive\n") {
		t.Errorf("%v %v: %s", err, state, text)
	}
}

// groupOf gives a group that ignores EOF and SIGTERM.
func groupOf(t *testing.T) *running {
	t.Helper()
	r := start(t, child("ignore-all"))
	r.pid()
	return r
}

// eachShell runs the test with all shells of this machine that can be /bin/sh.
func eachShell(t *testing.T, test func(t *testing.T, g *guardian)) {
	t.Parallel()
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/bin/ash", "/bin/ksh", "/bin/zsh"} {
		if _, err := os.Stat(shell); err == nil {
			t.Run(filepath.Base(shell), func(t *testing.T) {
				t.Parallel()
				test(t, &guardian{shell: shell})
			})
		}
	}
}

func TestGuardForgetsWhatEnded(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guardian) {
		kept, forgotten := groupOf(t), groupOf(t)
		for _, r := range []*running{kept, forgotten} {
			if err := g.enter(); err != nil {
				t.Fatal(err)
			}
			g.add(r.Info().PID)
		}
		g.leave(forgotten.Info().PID)
		g.pipe.Close() // as the kernel does when the host dies
		select {
		case <-g.ended:
		case <-time.After(3 * time.Second):
			t.Fatal("the guard did not end")
		}
		gone(t, kept.Info().PID, time.Second)
		if !live(forgotten.Info().PID) {
			t.Error("the guard ended a group that it was told to forget")
		}
	})
}

// A child that the host forked and that never execs holds the pipe open: that must
// not keep the guard, nor whoever closes the last server.
func TestGuardEndsWhileOthersHoldItsPipe(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guardian) {
		r := groupOf(t)
		if err := g.enter(); err != nil {
			t.Fatal(err)
		}
		g.add(r.Info().PID)
		awaitTraps(t, g.pid)
		raw, err := g.pipe.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		held := -1
		raw.Control(func(fd uintptr) { held, err = syscall.Dup(int(fd)) })
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(held)
		begin := time.Now()
		g.leave(r.Info().PID)
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("the guard kept the last server's end for %v", took)
		}
		<-g.ended
		if !live(r.Info().PID) {
			t.Error("the guard ended a group that it was told to forget")
		}
	})
}

// The host's death is reported, several times as the kernel does, while somebody
// else holds the pipe open; what was written just before still counts.
func TestGuardHearsOfTheDeath(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guardian) {
		early, late := groupOf(t), groupOf(t)
		if err := g.enter(); err != nil {
			t.Fatal(err)
		}
		g.add(early.Info().PID)
		defer g.pipe.Close()
		awaitTraps(t, g.pid)
		g.add(late.Info().PID)
		limit := time.After(3 * time.Second)
		for over := false; !over; {
			for range 3 {
				syscall.Kill(g.pid, syscall.SIGURG)
			}
			select {
			case <-g.ended:
				over = true
			case <-time.After(50 * time.Millisecond): // threads end one after another
			case <-limit:
				t.Fatal("the guard did not end")
			}
		}
		gone(t, early.Info().PID, time.Second)
		gone(t, late.Info().PID, time.Second)
	})
}

// awaitTraps returns when a guard has set its traps. Before that it learns of the
// host's death in another way.
func awaitTraps(t *testing.T, pid int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		time.Sleep(300 * time.Millisecond)
		return
	}
	const usr2 = 1 << (12 - 1) // the last that is set
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, caught, _ := strings.Cut(string(status), "SigCgt:\t")
		caught, _, _ = strings.Cut(caught, "\n")
		if mask, err := strconv.ParseUint(caught, 16, 64); err == nil && mask&usr2 != 0 {
			return
		}
	}
	t.Fatal("the guard set no traps")
}

func TestGuardIsReplaced(t *testing.T) {
	t.Parallel()
	r := groupOf(t)
	g := guardian{shell: "/bin/sh"}
	if err := g.enter(); err != nil {
		t.Fatal(err)
	}
	g.add(r.Info().PID)
	first := g.pid
	g.kill()
	<-g.ended
	if !live(r.Info().PID) {
		t.Fatal("the death of the guard ended a server")
	}
	if err := g.enter(); err != nil || g.pid == first {
		t.Fatalf("not replaced: %v, pid %d", err, g.pid)
	}
	g.pipe.Close()
	gone(t, r.Info().PID, 2*time.Second) // the second one was told of the first one's group
}

// A guard that stands still must neither block the host nor end, once continued,
// what it knew when it was given up.
func TestGuardThatHangs(t *testing.T) {
	t.Parallel()
	r := groupOf(t)
	g := guardian{shell: "/bin/sh"}
	if err := g.enter(); err != nil {
		t.Fatal(err)
	}
	g.add(r.Info().PID)
	syscall.Kill(g.pid, syscall.SIGSTOP)
	stopped, ended := g.pid, g.ended
	begin := time.Now()
	for i := 0; g.pipe != nil && i < 20000; i++ {
		g.add(1 << 29)
	}
	if took := time.Since(begin); g.pipe != nil || took > 2*time.Second {
		t.Fatalf("given up: %v, after %v", g.pipe == nil, took)
	}
	<-ended
	gone(t, stopped, time.Second)
	time.Sleep(50 * time.Millisecond)
	if !live(r.Info().PID) {
		t.Error("a server was ended")
	}
}

func TestGuardWithoutShell(t *testing.T) {
	t.Parallel()
	g := guardian{shell: "/no/such/shell"}
	if err := g.enter(); err == nil {
		t.Fatal("no error")
	}
	g.add(1 << 29)
	g.leave(1 << 29)
	if g.users != 0 || len(g.groups) != 0 {
		t.Errorf("left: %d users, groups %v", g.users, g.groups)
	}
}

// A host that dies between a fork and the word about the child's group: the child is
// found by its pipe, even when its program begins only later; others are left alone.
func TestGuardFindsTheUnborn(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no /proc
	}
	eachShell(t, func(t *testing.T, g *guardian) {
		begin := func(in *os.File) *exec.Cmd {
			cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP; sleep 60 & while :; do sleep 1; done")
			cmd.Stdin, cmd.SysProcAttr = in, childAttr()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			return cmd
		}
		var ends [3]*os.File
		for i := range ends {
			r, w, err := pipe(true)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			ends[i] = r
		}
		if err := g.enter(); err != nil {
			t.Fatal(err)
		}
		early, other := begin(ends[0]), begin(ends[1])
		g.birth(ends[0])
		g.born(g.birth(ends[1]))
		g.birth(ends[2])
		g.pipe.Close() // as the kernel does when the host dies
		time.Sleep(200 * time.Millisecond)
		late := begin(ends[2]) // its fork was under way
		for _, child := range []*exec.Cmd{early, late} {
			over := make(chan struct{})
			go func() { child.Wait(); close(over) }()
			select {
			case <-over:
			case <-time.After(4 * time.Second):
				t.Errorf("%v lives on", child.Process)
			}
		}
		<-g.ended
		if !live(other.Process.Pid) {
			t.Error("the guard ended a stranger")
		}
	})
}
