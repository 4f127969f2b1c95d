package transport

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// pidfdOpen has one number on all of Linux's architectures; package syscall does not list it.
const pidfdOpen = 434

// awaitEnd returns when the child has ended but before it is reaped: so long its
// number, and its group's, belong to it, and may be signalled without a doubt. It
// waits on the netpoller; a blocking wait would take one thread for each server. On
// a kernel without pidfds it returns false at once.
func awaitEnd(pid int) bool {
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(pid), syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return false
	}
	f := os.NewFile(fd, "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	return err == nil && raw.Read(readable) == nil
}

// readable asks the kernel: an event of the netpoller alone may be spurious, or
// have come before anybody waited for it.
func readable(fd uintptr) bool {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: 1 /* POLLIN */}
	var now syscall.Timespec
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n == 1
}

// childAttr puts a server into a session, and so a process group, of its own: what
// it starts can be ended with it, a Ctrl-C meant for the host does not reach it, and a
// password prompt fails where it would stop for ever, since a group in the background
// may not read the terminal.
func childAttr() *syscall.SysProcAttr { return sessionAttr() }

// pipeName is how /proc/PID/fd shows a pipe.
func pipeName(f *os.File) string {
	raw, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	var stat syscall.Stat_t
	if raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &stat) }) != nil || err != nil {
		return ""
	}
	return "pipe:[" + strconv.FormatUint(stat.Ino, 10) + "]"
}

// strangers gives the ExtraFiles that make a child close what else it would
// inherit: files that the host, or a library in it, opened without close-on-exec.
// A server must not get a host's database socket, and nobody may keep a pipe open
// whose end somebody waits for. A nil entry means: closed in the child.
//
// fresh is the child's end of a pipe that was just made. A new descriptor is the lowest
// that is free, so that most others lie below it; the numbers above it, where a host may
// have put one on purpose, are looked up in /proc only every second.
func strangers(fresh *os.File) []*os.File {
	return make([]*os.File, inheritable.highest(int(fresh.Fd()))-2)
}

var inheritable descriptors

// descriptors finds those that a child would inherit.
type descriptors struct {
	mu     sync.Mutex
	looked time.Time
	open   int // the highest that was open then
}

// roomAbove the highest known descriptor is looked at too: other threads open files meanwhile.
const roomAbove = 64

// highest gives the highest descriptor without close-on-exec, at least 2.
func (d *descriptors) highest(fresh int) int {
	d.mu.Lock()
	if now := time.Now(); now.Sub(d.looked) > time.Second {
		d.looked, d.open = now, highestOpen()
	}
	last := max(d.open, fresh) + roomAbove
	d.mu.Unlock()
	for fd := last; fd > 2; fd-- {
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			return fd
		}
	}
	return 2
}

func highestOpen() (highest int) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd <= 1<<16 {
			highest = max(highest, fd)
		}
	}
	return highest
}

// guardAttr takes the guard out of the host's session, and has the kernel tell it
// when the host is gone: the pipe alone does not where the host forked a child
// that never execs and thus holds the pipe open. The signal comes when the
// spawning *thread* ends, so that the guard's goroutine keeps its thread. The signal
// is one that a shell survives when it comes before the trap for it is set; SIGWINCH
// would be another, but bash does not let it interrupt a read.
func guardAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGURG}
}
