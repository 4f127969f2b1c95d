package serve

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// ABI and Minor are MCPRT_ABI and MCPRT_VERSION_MINOR; a test compares them.
const (
	ABI   = 0
	Minor = 1
)

// maxManagers is how many managers may be open at once.
const maxManagers = 4096

// lastWords is how long the end waits for a host that does not read.
const lastWords = time.Second

// Server serves the managers of one host.
type Server struct {
	open func(options []byte, host core.Host) (runtime, error)

	mu       sync.Mutex
	wake     *sync.Cond // something to write, or the end
	managers map[uint64]*manager
	turn     []*manager      // whose queue has its turn first
	direct   [][]byte        // frames that no queue holds up
	stopping bool            // write what there is, then end
	broken   bool            // the host does not read any more
	leaving  []chan struct{} // ends of managers that were given back
}

// New makes a server whose managers are core's.
func New() *Server {
	return newServer(func(options []byte, host core.Host) (runtime, error) {
		m, err := core.Open(options, host)
		if err != nil {
			return nil, err
		}
		return m, nil
	})
}

func newServer(open func([]byte, core.Host) (runtime, error)) *Server {
	s := &Server{open: open, managers: map[uint64]*manager{}}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// Run reads frames from in and writes frames to out, until in ends, stop is closed or
// a frame makes no sense; the error says which, nil for the first two. Before it
// returns it has ended every server.
func (s *Server) Run(version string, in io.Reader, out io.Writer, stop <-chan struct{}) error {
	hello, err := json.Marshal(struct {
		Version string `json:"version"`
		ABI     int    `json:"abi"`
		Minor   int    `json:"minor"`
		Window  int    `json:"window"`
	}{version, ABI, Minor, window})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.sendLocked(encode(frame{kind: kindHello}, hello))
	s.mu.Unlock()

	written := make(chan struct{})
	safe.Go(nil, func() {
		defer close(written)
		s.write(out)
	})
	read := make(chan error, 1)
	safe.Go(func(e *fault.Error) { read <- e }, func() { read <- s.read(in) })
	select {
	case err = <-read:
	case <-stop:
	}
	s.closeAll()
	select {
	case <-written:
	case <-time.After(lastWords):
	}
	return err
}

func (s *Server) read(in io.Reader) error {
	for {
		f, err := readFrame(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.do(f)
		}
		if err != nil {
			return fmt.Errorf("serve cannot go on: %w", err)
		}
	}
}

// do begins what a frame asks for; nothing here blocks.
func (s *Server) do(f frame) error {
	if !known(f.kind) {
		// Asking a newer host for less is its business: it has our version.
		return fmt.Errorf("frames of kind %d are unknown", f.kind)
	}
	if f.kind == kindOpen {
		return s.openManager(f)
	}
	s.mu.Lock()
	m := s.managers[f.manager]
	s.mu.Unlock()
	if m == nil {
		return nil // it could not be opened, and the host does not know yet
	}
	switch {
	case f.kind == verbReply:
		m.reply(f.tag, f.data)
	case f.kind >= 1 && f.kind <= verbClose:
		m.submit(f.kind, f.status, f.tag, f.data)
	case f.kind == kindCancel:
		m.cancel(f.tag, f.status)
	case f.kind == kindCredit:
		s.mu.Lock()
		m.queue.credit = min(m.queue.credit+int64(min(f.tag, math.MaxInt64/2)), window) // a large frame took more than the window
		s.wakeLocked()
		s.mu.Unlock()
	case f.kind == kindFree:
		s.forget(m)
		m.free()
	}
	return nil
}

// known says whether a host of this version sends such frames. What is not known ends the
// process also where no manager has the number: a host must not wait for its answer.
func known(kind uint16) bool {
	return kind >= 1 && kind <= verbClose || kind >= kindOpen && kind <= kindCredit
}

// openManager opens the manager whose number the host has chosen.
func (s *Server) openManager(f frame) error {
	m := &manager{server: s, number: f.manager, running: map[uint64]*operation{}, requests: map[uint64]bool{}, ended: make(chan struct{})}
	m.queue = queue{limits: hostLimits, credit: window}
	s.mu.Lock()
	taken, count := s.managers[f.manager] != nil, len(s.managers)
	s.mu.Unlock()
	if taken || f.manager == 0 {
		return fmt.Errorf("the number %d cannot be that of a new manager", f.manager)
	}
	err := wrongText(f.data)
	if count >= maxManagers {
		err = fault.New(fault.InvalidRequest, "", "%d managers are open; close one first", count)
	}
	if err == nil {
		safe.Do(func(e *fault.Error) { err = e }, func() { m.core, err = s.open(f.data, m) })
	}
	if err != nil {
		st, r := core.ErrorReply(err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sendLocked(encode(frame{manager: f.manager, status: int32(st), kind: kindOpened}, r.Head, r.Body, r.Tail))
		return nil
	}
	l := m.core.QueueLimits()
	reply := fmt.Appendf(nil, `{"maxInFlight":%d,"queueBytes":%d}`, l.MaxInFlight, l.QueueBytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.queue.limits = l
	s.managers[m.number] = m
	s.turn = append(s.turn, m)
	s.sendLocked(encode(frame{manager: f.manager, kind: kindOpened}, reply))
	return nil
}

func (s *Server) forget(m *manager) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.managers, m.number)
	s.turn = slices.DeleteFunc(s.turn, func(other *manager) bool { return other == m })
	s.leaving = append(slices.DeleteFunc(s.leaving, isClosed), m.ended)
}

func isClosed(ended chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// closeAll ends every manager with its configured grace, and then the writer.
func (s *Server) closeAll() {
	s.mu.Lock()
	waits := slices.Clone(s.leaving)
	var open []*manager
	for _, m := range s.managers {
		open = append(open, m)
		waits = append(waits, m.ended)
	}
	s.mu.Unlock()
	for _, m := range open {
		if m.beginClose() {
			m.close(-1)
		}
	}
	for _, ended := range waits {
		<-ended
	}
	s.mu.Lock()
	s.stopping = true
	s.wakeLocked()
	s.mu.Unlock()
}

func (s *Server) sendLocked(bytes []byte) {
	s.direct = append(s.direct, bytes)
	s.wakeLocked()
}

func (s *Server) wakeLocked() { s.wake.Signal() }

// batch is how many bytes are written with one call, unless one frame has more.
const batch = 64 << 10

// write is the only one that writes to out.
func (s *Server) write(out io.Writer) {
	buffer := make([]byte, 0, batch)
	flush := func() {
		if len(buffer) > 0 {
			s.put(out, buffer)
			buffer = buffer[:0]
		}
	}
	for {
		bytes := s.take()
		if bytes == nil {
			flush()
			if bytes = s.await(); bytes == nil {
				return
			}
		}
		if len(buffer)+len(bytes) > batch {
			flush()
		}
		if len(bytes) > batch {
			s.put(out, bytes)
			continue
		}
		buffer = append(buffer, bytes...)
	}
}

func (s *Server) put(out io.Writer, bytes []byte) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken {
		return
	}
	if _, err := out.Write(bytes); err != nil {
		s.mu.Lock()
		s.broken = true // stdin ends as well when a host has gone; that ends us
		s.mu.Unlock()
	}
}

// take gives the next frame, or nil.
func (s *Server) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked()
}

// await waits for the next frame; nil: the end.
func (s *Server) await() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if bytes := s.takeLocked(); bytes != nil || s.stopping {
			return bytes
		}
		s.wake.Wait()
	}
}

func (s *Server) takeLocked() []byte {
	if len(s.direct) > 0 {
		bytes := s.direct[0]
		s.direct[0] = nil
		s.direct = s.direct[1:]
		return bytes
	}
	for i, m := range s.turn {
		if bytes := m.queue.next(m.number); bytes != nil {
			// The next one first: a manager that floods must not starve the others.
			copy(s.turn[i:], s.turn[i+1:])
			s.turn[len(s.turn)-1] = m
			return bytes
		}
	}
	return nil
}
