//go:build unix

package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Signals that end a process group.
const (
	politely = syscall.SIGTERM
	forcibly = syscall.SIGKILL
)

// batch is for Windows, whose batch files are no programs.
func batch(*exec.Cmd, []string) error { return nil }

// sessionAttr is childAttr with a session of its own; its leader's group has the same number.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalGroup may be called only while pgid is known to be ours: its leader is not
// reaped, or groupAlive has just said so.
func signalGroup(pgid int, sig syscall.Signal) { syscall.Kill(-pgid, sig) }

// groupAlive tells whether a group whose leader was reaped still has members. While
// it has, the kernel gives its number to nobody; once it has none, the number may
// come back as the id of a new process and its group. But then a process with that
// very id exists, which for our own reaped leader is impossible.
func groupAlive(pgid int) bool {
	// Orphans are given to the host if it is a container's first process or a
	// subreaper; then nobody else would reap them.
	for {
		if pid, err := syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			break
		}
	}
	return syscall.Kill(-pgid, 0) == nil && syscall.Kill(pgid, 0) == syscall.ESRCH
}

// ending is how a process ended.
type ending struct {
	known  bool // false: somebody else in this process took the status
	code   int
	signal string // "" when it exited by itself
}

// endingOf reads what Wait returned. A host that ignores SIGCHLD, or reaps all
// children itself, takes the status away; that the process ended is all we need.
func endingOf(state *os.ProcessState) ending {
	if state == nil {
		return ending{}
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return ending{known: true, code: -1, signal: signalName(status.Signal())}
	default:
		return ending{known: true, code: state.ExitCode()}
	}
}

func signalName(s syscall.Signal) string {
	for name, number := range map[string]syscall.Signal{
		"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGILL": syscall.SIGILL,
		"SIGTRAP": syscall.SIGTRAP, "SIGABRT": syscall.SIGABRT, "SIGBUS": syscall.SIGBUS, "SIGFPE": syscall.SIGFPE,
		"SIGKILL": syscall.SIGKILL, "SIGSEGV": syscall.SIGSEGV, "SIGPIPE": syscall.SIGPIPE, "SIGALRM": syscall.SIGALRM,
		"SIGTERM": syscall.SIGTERM, "SIGXCPU": syscall.SIGXCPU, "SIGXFSZ": syscall.SIGXFSZ, "SIGSYS": syscall.SIGSYS,
		"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2,
	} {
		if number == s {
			return name
		}
	}
	return fmt.Sprintf("signal %d", int(s))
}

// spawnReason says in words why a program could not be started, and whether that can pass.
func spawnReason(err error, path, dir string) (reason string, passes bool) {
	_, statErr := os.Stat(path)
	switch {
	case dir != "" && !isDir(dir):
		return fmt.Sprintf("its working directory %s does not exist or cannot be entered; correct cwd", dir), false
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		return "the file exists but its interpreter (its first line, or its dynamic loader) does not; install that", false
	case errors.Is(err, syscall.ENOENT):
		return "there is no such program; install it, or correct the command", false
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "it may not be executed; check its permissions (chmod +x)", false
	case errors.Is(err, syscall.ENOEXEC):
		return "it is no program for this machine, or a script without #! line", false
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and environment are too large", false
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ETXTBSY):
		return fmt.Sprintf("the system has no room for it now (%v); try again later", err), true
	}
	return err.Error(), false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
