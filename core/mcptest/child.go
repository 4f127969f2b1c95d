package mcptest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goccy/go-json"
)

// variable holds the script of a child, as base64 of its JSON: a config file's
// expansion finds nothing in it to expand.
const (
	variable           = "MCPTEST_SCRIPT"
	grandchildVariable = "MCPTEST_GRANDCHILD"
	innerVariable      = "MCPTEST_INNER"
)

// Main turns the process into the scripted server, and does not return, if it was
// started by the command of Script.Command. Call it first in TestMain.
func Main() {
	if mode := os.Getenv(grandchildVariable); mode != "" {
		grandchild(mode)
	}
	if encoded := os.Getenv(variable); encoded != "" {
		os.Exit(runChild(encoded))
	}
}

// Command gives what a config needs to start s as a child: this test binary
// again, with the script in its environment. It panics on a script of more than
// 90 KB, which fits no environment.
func (s Script) Command() (command string, args []string, env map[string]string) {
	command, err := os.Executable()
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	if len(text) > 90<<10 {
		panic(fmt.Sprintf("mcptest: a script of %d bytes does not fit into an environment variable", len(text)))
	}
	return command, []string{}, map[string]string{variable: base64.StdEncoding.EncodeToString(text)}
}

type childWire struct {
	mu   sync.Mutex
	out  *bufio.Writer
	log  *Log
	deaf chan struct{}
	once sync.Once
	bad  bool // see crashing
}

func runChild(encoded string) int {
	var script Script
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(text, &script)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		return 97
	}
	return Serve(script)
}

// Serve runs s on the stdin and stdout of this process and gives the exit code for
// it. A program that calls it calls Main first: what s starts is this program
// again, with its own arguments.
func Serve(script Script) int {
	if script.Wrapped && os.Getenv(innerVariable) == "" {
		return wrap()
	}
	log, err := &Log{}, error(nil)
	if script.LogFile != "" {
		log.file, err = os.OpenFile(script.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mcptest:", err)
			return 97
		}
	}
	log.event("start", os.Args)
	if script.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	w := &childWire{out: bufio.NewWriter(os.Stdout), log: log, deaf: make(chan struct{})}
	if script.Grandchild {
		if err := startGrandchild(&script, log); err != nil {
			fmt.Fprintln(os.Stderr, "mcptest:", err)
			return 97
		}
	}
	s := newServer(context.Background(), &script, script.tools, w, log)
	w.countStart(script.Crashes, script.StateFile)
	s.start()
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	for {
		select {
		case <-w.deaf:
			time.Sleep(strayLife) // with a pipe that nobody reads
			return 0
		default:
		}
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			s.handle(line)
		}
		if err == nil {
			continue
		}
		if script.IgnoreEOF {
			time.Sleep(strayLife)
		}
		log.event("exit", 0)
		return 0
	}
}

func (w *childWire) line(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Write(b)
	w.out.WriteByte('\n')
	if err := w.out.Flush(); err != nil && !errors.Is(err, syscall.EPIPE) {
		os.Exit(98)
	}
}

func (w *childWire) stderr(text string) { os.Stderr.WriteString(text) }

func (w *childWire) exit(code int) {
	w.log.event("exit", code)
	os.Exit(code)
}

func (w *childWire) kill() {
	w.log.event("kill", nil)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		self.Kill()
	}
	select {} // until it arrives
}

func (w *childWire) crashing() bool { return w.bad }

// countStart decides, by the number of starts in file, whether this process crashes.
func (w *childWire) countStart(crashes int, file string) {
	if crashes == 0 || file == "" {
		w.bad = crashes < 0
		return
	}
	before := 0
	if text, err := os.ReadFile(file); err == nil {
		before, _ = strconv.Atoi(string(text))
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(before+1)), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
	}
	w.bad = crashes < 0 || before < crashes
}

func (w *childWire) stopReading() { w.once.Do(func() { close(w.deaf) }) }

func (w *childWire) describe() string {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = err.Error()
	}
	text, err := json.Marshal(map[string]any{"pid": os.Getpid(), "cwd": cwd, "args": os.Args[1:], "env": os.Environ()})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// wrap is a launcher: it starts the true server with its own stdin and stdout, waits
// for it, and does nothing else.
func wrap() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		return 97
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), innerVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return max(cmd.ProcessState.ExitCode(), 1)
	}
	return 0
}

// strayLife bounds the life of a process that a failed test left behind.
const strayLife = 60 * time.Second

// startGrandchild starts a process that keeps our stdin, stdout and stderr, and does not read.
func startGrandchild(script *Script, log *Log) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mode := "term"
	if script.IgnoreTerm {
		mode = "ignore"
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), grandchildVariable+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	log.event("grandchild", strconv.Itoa(cmd.Process.Pid))
	return nil
}

func grandchild(mode string) {
	if mode == "ignore" {
		signal.Ignore(syscall.SIGTERM)
	}
	time.Sleep(strayLife)
	os.Exit(0)
}
