package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Windows knows no signals: both mean TerminateProcess.
const (
	politely = syscall.SIGTERM
	forcibly = syscall.SIGKILL
)

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func sessionAttr() *syscall.SysProcAttr { return childAttr() }

// signalGroup reaches the leader alone. The polite signal is left out: a closed
// stdin is what Windows servers can act on.
func signalGroup(pid int, sig syscall.Signal) {
	if sig != forcibly {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func groupAlive(int) bool { return false }

func awaitEnd(int) bool { return false }

func strangers() []*os.File { return nil }

// ending is how a process ended.
type ending struct {
	known  bool
	code   int
	signal string
}

func endingOf(state *os.ProcessState) ending {
	if state == nil {
		return ending{}
	}
	return ending{known: true, code: state.ExitCode()}
}

func spawnReason(err error, path, dir string) (reason string, passes bool) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such program or working directory; install it, or correct the command or cwd", false
	case errors.Is(err, fs.ErrPermission):
		return "it may not be executed; check its permissions", false
	}
	return fmt.Sprint(err), false
}
