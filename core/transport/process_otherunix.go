//go:build unix && !linux

package transport

import (
	"os"
	"syscall"
)

// awaitEnd would wait for a child's end without reaping it. Here the caller's
// Wait does both, and groupAlive covers the moment between reaping and knowing.
func awaitEnd(int) bool { return false }

// childAttr puts a server into a process group of its own, so that what it starts
// can be ended with it, and a Ctrl-C meant for the host does not reach it. It stays in
// the host's session: on macOS the host's permissions, such as to automate other
// programs, hold for what is in it.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// pipeName is empty: the guard could not find out who holds a pipe.
func pipeName(*os.File) string { return "" }

// strangers is empty: macOS libraries set close-on-exec as a rule, and a list of
// open files is not to be had cheaply.
func strangers(*os.File) []*os.File { return nil }

// guardAttr takes the guard out of the host's session. Only the pipe tells it of
// the host's end here.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
