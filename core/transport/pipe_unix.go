//go:build unix

package transport

import (
	"os"
	"syscall"
)

// pipeWriter writes to a non-blocking pipe, waiting on the netpoller or not at all.
// It has one user at a time.
type pipeWriter struct {
	file *os.File
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once: a closure per message would be an allocation per message

	data []byte
	wait bool
	n    int
	err  error
}

func newPipeWriter(f *os.File) (*pipeWriter, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &pipeWriter{file: f, raw: raw}
	p.step = func(fd uintptr) bool {
		for {
			p.n, p.err = syscall.Write(int(fd), p.data)
			switch p.err {
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				p.n, p.err = 0, nil
				return !p.wait
			}
			return true
		}
	}
	return p, nil
}

// write writes a part of data and says how much. Without wait it returns at once,
// with 0 when the pipe is full; with wait it returns when it wrote something.
func (p *pipeWriter) write(data []byte, wait bool) (int, error) {
	p.data, p.wait, p.n, p.err = data, wait, 0, nil
	err := p.raw.Write(p.step)
	p.data = nil
	if p.err != nil {
		return 0, p.err
	}
	return max(p.n, 0), err
}

func (p *pipeWriter) close() { p.file.Close() }

// pipe makes a pipe whose ends never are a host's standard streams: a daemon that
// closed those would else print into a server, and Go raises SIGPIPE for a broken
// pipe with the number 1 or 2. The end for the child blocks, as programs expect it;
// ours is on the netpoller.
func pipe(childReads bool) (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if r, err = lift(r, childReads); err != nil {
		w.Close()
		return nil, nil, err
	}
	if w, err = lift(w, !childReads); err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, w, nil
}

// lift returns f under a number above 2.
func lift(f *os.File, child bool) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	number := 0
	raw.Control(func(fd uintptr) { number = int(fd) })
	if number > 2 {
		return f, nil
	}
	defer f.Close()
	var low []int
	syscall.ForkLock.RLock()
	for number <= 2 && err == nil {
		if number, err = syscall.Dup(number); err == nil {
			syscall.CloseOnExec(number)
			low = append(low, number)
		}
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		low = low[:len(low)-1] // the last one is what was wanted
		err = syscall.SetNonblock(number, !child)
	}
	for _, fd := range low {
		syscall.Close(fd)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(number), "pipe"), nil
}
