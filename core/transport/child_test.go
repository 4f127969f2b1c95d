//go:build unix

package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is every server that the tests need: asked by an environment
// variable, it behaves badly in the named way instead of testing.
const behaviour = "MCPRT_TEST_CHILD"

func TestMain(m *testing.M) {
	name := os.Getenv(behaviour)
	if name == "" {
		os.Exit(m.Run())
	}
	// Whatever a test gets wrong, no child stays.
	time.AfterFunc(30*time.Second, func() { os.Exit(99) })
	act, known := behaviours[name]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown behaviour", name)
		os.Exit(98)
	}
	act()
	os.Exit(0)
}

func say(line string)                { fmt.Println(line) }
func tell(method string, params any) { say(notification(method, params)) }
func stay()                          { time.Sleep(time.Minute) }

func notification(method string, params any) string {
	raw, _ := json.Marshal(params)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, raw)
}

// serve answers each request with its own params and tells its pid first.
func serve() {
	tell("pid", os.Getpid())
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var m Message
		if Scan(bytes.TrimSpace(line), &m) == nil && m.ID != nil {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, m.Params))
		}
		if err != nil {
			return
		}
	}
}

var behaviours = map[string]func(){
	"echo":       serve,
	"ignore-eof": func() { serve(); stay() },
	"ignore-all": func() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP); serve(); stay() },
	"say-term": func() {
		got := make(chan os.Signal, 1)
		signal.Notify(got, syscall.SIGTERM)
		go serve()
		<-got
		tell("terminated", nil)
		os.Exit(5)
	},
	"exit-3": func() {
		fmt.Fprintf(os.Stderr, "starting\r\n\x1b[31mno \xfftoken\x1b[0m given: s3cret\n")
		os.Exit(3)
	},
	"exit-silent": func() { os.Exit(7) },
	"killed":      func() { syscall.Kill(os.Getpid(), syscall.SIGKILL); stay() },
	"noise": func() {
		fmt.Print("\uFEFFServer v1 running\n\n\x1b[32mready\x1b[0m\r\n{\"level\":\"info\"}\nprompt> ")
		serve()
	},
	"large": func() {
		say(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("é€😀x", 512<<10) + `"}`)
		serve()
	},
	"over-first": func() {
		say(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 3<<20) + `"}`)
		serve()
	},
	"over-last": func() {
		say(`{"jsonrpc":"2.0","result":"` + strings.Repeat("x", 3<<20) + `","id":"one"}`)
		serve()
	},
	"deaf": func() { tell("pid", os.Getpid()); stay() },
	"close-stdin": func() {
		os.Stdin.Close()
		tell("pid", os.Getpid())
		stay()
	},
	"close-stdout": func() {
		tell("pid", os.Getpid())
		fmt.Fprintln(os.Stderr, "giving up on stdout")
		os.Stdout.Close()
		stay()
	},
	"stderr-flood": func() {
		os.Stderr.Write(bytes.Repeat([]byte("€"), 1<<20/3))
		serve()
	},
	"half-line": func() {
		tell("pid", os.Getpid())
		fmt.Print(`{"jsonrpc":"2.0","id":1,"result":{"a`)
		os.Exit(1)
	},
	"last-words": func() { // an answer that is still in the pipe when the process is gone
		say(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 60<<10) + `"}`)
		os.Exit(0)
	},
	"leave-child": func() { // a leader that dies and leaves a server with its pipes
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), behaviour+"=ignore-all")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		child.Start()
		time.Sleep(100 * time.Millisecond)
		os.Exit(4)
	},
	"report": func() {
		wd, _ := os.Getwd()
		var open []string
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
				open = append(open, e.Name()+" "+to)
			}
		}
		group, _, _ := syscall.Syscall(syscall.SYS_GETPGID, 0, 0, 0)
		if runtime.GOOS == "linux" { // a session too, without the host's terminal
			if session, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0); session != group {
				group = 0
			}
		}
		tell("report", map[string]any{"args": os.Args[1:], "env": os.Environ(), "dir": wd, "fds": open, "leads": int(group) == os.Getpid()})
		serve()
	},
	"host":          func() { host(false) },
	"host-forking":  func() { host(true) },
	"host-no-child": func() { signal.Ignore(syscall.SIGCHLD); oneServer() },
	"host-reaper": func() { // takes the status of all children, as process managers do
		for range 4 {
			go func() {
				for {
					if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil {
						time.Sleep(50 * time.Microsecond)
					}
				}
			}()
		}
		oneServer()
	},
	"host-closed-stdio": func() {
		syscall.Close(0)
		syscall.Close(1)
		syscall.Close(2)
		brokenPipe()
	},
}

// host starts servers of every stubborn kind, reports their pids and waits to be
// killed. Forking, it first leaves a child that never closes the guard's pipe.
func host(forking bool) {
	rec := newRecord()
	pids := make(chan string, 8)
	rec.each = func(m *Message) { pids <- string(m.Params) }
	for _, s := range []Stdio{child("echo"), child("ignore-all"), launcher("ignore-all")} {
		c, err := s.Dial(context.Background(), rec)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(c.Info().PID, <-pids)
	}
	if forking {
		keeper := exec.Command("/bin/sleep", "5")
		keeper.ExtraFiles = []*os.File{guard.pipe}
		if err := keeper.Start(); err != nil {
			fmt.Println("error:", err)
		}
		fmt.Println("keeper", keeper.Process.Pid)
	}
	fmt.Println("guard", guardPID())
	fmt.Println("ready")
	stay()
}

func oneServer() {
	rec := newRecord()
	_, err := child("exit-3").Dial(context.Background(), rec)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(<-rec.closed)
}

// brokenPipe runs a server from a host whose standard streams are closed, so that
// pipes would get their numbers.
func brokenPipe() {
	out, err := os.OpenFile(os.Getenv("OUT"), os.O_WRONLY, 0)
	if err != nil {
		os.Exit(2)
	}
	rec := newRecord()
	ready := make(chan bool, 1)
	rec.each = func(*Message) { ready <- true }
	c, err := child("close-stdin").Dial(context.Background(), rec)
	if err != nil {
		fmt.Fprintln(out, "error:", err)
		os.Exit(3)
	}
	<-ready
	_, err = c.Send(context.Background(), []byte(`{}`))
	fmt.Fprintln(out, err)
	<-c.Done()
	fmt.Fprintln(out, "alive")
}

func child(name string, args ...string) Stdio {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Stdio{Server: "srv", Path: path, Command: "server-" + name, Args: args,
		// The last one: a binary built with -race else takes a second to exit.
		Env: []string{behaviour + "=" + name, "PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}}
}

// launcher runs a behaviour as the grandchild of a shell, as npx does with node.
func launcher(name string) Stdio {
	s := child(name)
	s.Args = []string{"-c", `exec 3<&0; "$0" <&3 3<&- & wait`, s.Path}
	s.Path = "/bin/sh"
	return s
}

// live tells whether a process runs; a zombie does not.
func live(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !dirExists("/proc/self")
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func dirExists(path string) bool { _, err := os.Stat(path); return err == nil }

func gone(t *testing.T, pid int, within time.Duration) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("no pid: %d", pid)
	}
	for end := time.Now().Add(within); live(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			t.Fatalf("process %d still lives: %.80s", pid, stat)
		}
	}
}

func guardPID() int {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	if guard.pipe == nil {
		return 0
	}
	return guard.pid
}

// runHost starts the test binary as a host and gives its output line by line.
func runHost(t *testing.T, name string, extra ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(child(name).Path)
	cmd.Env = append([]string{behaviour + "=" + name}, extra...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); io.Copy(io.Discard, out); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

func numbers(line string) (all []int) {
	for _, word := range strings.Fields(line) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}
