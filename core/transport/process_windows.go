package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// signalGroup ends the server with all that it started. The polite signal is left
// out: a closed stdin is what Windows servers can act on.
func signalGroup(pid int, sig syscall.Signal) {
	if sig != forcibly || guard.end(pid) {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func groupAlive(pid int) bool { return guard.alive(pid) }

// batch has a .cmd or .bat file run by cmd.exe.
func batch(cmd *exec.Cmd, env []string) error {
	if !isBatch(cmd.Path) {
		return nil
	}
	shell := ""
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case strings.EqualFold(name, "COMSPEC") && filepath.IsAbs(value):
			shell = value
		case strings.EqualFold(name, "SYSTEMROOT") && filepath.IsAbs(value) && shell == "":
			shell = filepath.Join(value, "System32", "cmd.exe")
		}
	}
	if shell == "" {
		return errors.New("it is a batch file, and neither COMSPEC nor SystemRoot says where cmd.exe is")
	}
	line, err := batchLine(shell, cmd.Path, cmd.Args[1:])
	if err != nil {
		return err
	}
	cmd.Path, cmd.SysProcAttr.CmdLine = shell, line
	return nil
}

func awaitEnd(int) bool { return false }

func strangers(*os.File) []*os.File { return nil }

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
