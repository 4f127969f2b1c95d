package transport

import "os"

// pipeWriter has no way to ask a Windows pipe whether it has room, so that all
// messages go through the queue's goroutine.
type pipeWriter struct{ file *os.File }

func newPipeWriter(f *os.File) (*pipeWriter, error) { return &pipeWriter{f}, nil }

func (p *pipeWriter) write(data []byte, wait bool) (int, error) {
	if !wait {
		return 0, nil
	}
	return p.file.Write(data)
}

func (p *pipeWriter) close() { p.file.Close() }

func pipe(bool) (r, w *os.File, err error) { return os.Pipe() }
