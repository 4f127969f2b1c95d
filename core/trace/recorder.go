package trace

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// Options of a Recorder. Zero fields have the defaults.
type Options struct {
	File         string // absolute; an earlier trace there becomes File.1
	MaxBytes     int64  // of one file; then it becomes File.1 and a new one begins. Default 64 MiB
	PayloadBytes int64  // of one message's payload that are kept; < 0: none. Default 4096
	Version      string // of the library
	// Redactor makes a function that masks secrets, besides what looks like one.
	Redactor func(secrets []string) func(string) string
	// Secrets gives values that come and go, such as tokens; asked before each line. May be nil.
	Secrets func() []string
	// Failed is told once, from a goroutine of the recorder, that it stopped.
	Failed func(error)
}

const (
	DefaultMaxBytes     = 64 << 20
	DefaultPayloadBytes = 4 << 10

	queueLength = 4096     // records that wait for the disk
	queueBytes  = 16 << 20 // payloads that wait for the disk
	closeWait   = 2 * time.Second
	maxSecret   = 64 << 10 // a longer value is masked where it begins: its first bytes are its mark
)

// Recorder writes one trace. A nil Recorder records nothing. Its methods are safe
// from any goroutine and never wait, except Close.
type Recorder struct {
	opts  Options
	began time.Time
	run   string

	queue   chan entry
	waiting atomic.Int64 // bytes of payloads in queue
	dropped atomic.Int64 // not yet told of in the file
	lost    atomic.Int64 // in all
	count   atomic.Int64 // written
	over    atomic.Bool
	stop    chan struct{}
	done    chan struct{}
	closing sync.Once

	mu      sync.Mutex
	secrets map[string]bool
	clean   atomic.Pointer[cleaner]

	// Of the writing goroutine.
	file *os.File
	out  *bufio.Writer
	size int64
	part int
}

// entry is a record on its way to the file.
type entry struct {
	Record
	payload []byte // not redacted
	cut     bool   // payload is only the beginning
}

// cleaner masks secrets; longest is how many bytes the longest form of one has.
type cleaner struct {
	mask    func(string) string
	longest int
}

// Open begins a trace. It fails where the file cannot be made, and where File or
// File.1 is something else than a trace: that is never overwritten.
func Open(o Options) (*Recorder, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.PayloadBytes == 0 {
		o.PayloadBytes = DefaultPayloadBytes
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	r := &Recorder{opts: o, began: time.Now(), run: hex.EncodeToString(id), queue: make(chan entry, queueLength),
		stop: make(chan struct{}), done: make(chan struct{}), secrets: map[string]bool{}}
	r.clean.Store(&cleaner{mask: o.Redactor(nil)})
	if err := r.next(); err != nil {
		return nil, err
	}
	safe.Go(func(bug *fault.Error) { r.failed(bug) }, r.write)
	return r, nil
}

// Know adds values that must not appear in the file from now on.
func (r *Recorder) Know(secrets []string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	for _, s := range secrets {
		if s != "" && !r.secrets[s] {
			r.secrets[s], fresh = true, true
		}
	}
	if !fresh {
		return
	}
	all := make([]string, 0, len(r.secrets))
	longest := 0
	for s := range r.secrets {
		all = append(all, s)
		longest = max(longest, 8*len(s)) // each byte may be written as \\u00XX
	}
	slices.Sort(all)
	r.clean.Store(&cleaner{mask: r.opts.Redactor(all), longest: longest})
}

// Stats tells how many records were written and how many were dropped.
func (r *Recorder) Stats() (written, dropped int64) {
	if r == nil {
		return 0, 0
	}
	return r.count.Load(), r.lost.Load()
}

// now is the time as records have it: the clock at Open plus what has passed, so
// that a clock that is set does not put steps out of order.
func (r *Recorder) at(t time.Time) time.Time { return r.began.Add(t.Sub(r.began)).UTC() }

// Add records rec; a zero Time is now.
func (r *Recorder) Add(rec Record) { r.add(rec, nil) }

// add records rec with a payload, of which it takes a copy.
func (r *Recorder) add(rec Record, payload []byte) {
	if r == nil {
		return
	}
	if r.over.Load() {
		r.lost.Add(1)
		return
	}
	if rec.Time.IsZero() {
		rec.Time = time.Now()
	}
	rec.Time = r.at(rec.Time)
	e := entry{Record: rec}
	if keep := r.opts.PayloadBytes; keep > 0 && len(payload) > 0 {
		keep += int64(min(r.clean.Load().longest, maxSecret)) // a secret over the edge must be whole to be found
		e.cut = int64(len(payload)) > keep
		size := min(int64(len(payload)), keep)
		if r.waiting.Add(size) > queueBytes {
			r.waiting.Add(-size)
			r.drop()
			return
		}
		e.payload = append(make([]byte, 0, size), payload[:size]...)
	}
	select {
	case r.queue <- e:
	default:
		r.waiting.Add(-int64(len(e.payload)))
		r.drop()
	}
}

func (r *Recorder) drop() {
	r.dropped.Add(1)
	r.lost.Add(1)
}

// Close writes what waits and ends the file; it waits for the disk, but not for
// ever. Records that come later are lost.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.closing.Do(func() { close(r.stop) })
	limit := time.NewTimer(closeWait)
	defer limit.Stop()
	select {
	case <-r.done:
	case <-limit.C:
	}
}

// write is the one goroutine that touches the file.
func (r *Recorder) write() {
	defer close(r.done)
	defer r.over.Store(true)
	defer func() {
		if r.file != nil {
			r.file.Close()
		}
	}()
	for {
		select {
		case e := <-r.queue:
			if err := r.put(e); err != nil {
				r.failed(err)
				return
			}
		case <-r.stop:
			r.over.Store(true)
			if err := r.finish(); err != nil {
				r.failed(err)
			}
			return
		}
	}
}

func (r *Recorder) finish() error {
	for {
		select {
		case e := <-r.queue:
			if err := r.put(e); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	end := entry{Record: Record{Time: r.at(time.Now()), Type: TypeEnd, Count: r.count.Load(), Dropped: r.lost.Load()}}
	if err := r.line(end); err != nil {
		return err
	}
	return r.out.Flush()
}

// put writes one record, after what is to be said of dropped ones. With nothing more
// to write the file has all of it: a host that is killed leaves a whole trace.
func (r *Recorder) put(e entry) error {
	r.waiting.Add(-int64(len(e.payload)))
	if n := r.dropped.Swap(0); n > 0 {
		if err := r.line(entry{Record: Record{Time: e.Time, Type: TypeDropped, Count: n}}); err != nil {
			return err
		}
	}
	if err := r.line(e); err != nil {
		return err
	}
	if len(r.queue) == 0 {
		return r.out.Flush()
	}
	return nil
}

func (r *Recorder) line(e entry) error {
	if r.opts.Secrets != nil {
		r.Know(r.opts.Secrets())
	}
	encoded, err := json.MarshalWithOption(r.redact(&e), json.DisableHTMLEscape())
	if err != nil { // no record is worth the end of the trace
		r.lost.Add(1)
		return nil
	}
	if r.size > 0 && r.size+int64(len(encoded))+1 > r.opts.MaxBytes && e.Type != TypeTrace {
		if err := r.next(); err != nil {
			return err
		}
	}
	r.size += int64(len(encoded)) + 1
	r.count.Add(1)
	if _, err := r.out.Write(encoded); err != nil {
		return err
	}
	return r.out.WriteByte('\n')
}

var errTaken = errors.New("another program or manager has taken the trace file over; give each a file of its own")

// next begins the next file; the one before it becomes File.1.
func (r *Recorder) next() error {
	path, old := r.opts.File, r.opts.File+".1"
	if r.file != nil {
		if err := r.out.Flush(); err != nil {
			return err
		}
		here, err := os.Lstat(path)
		own, err2 := r.file.Stat()
		if err != nil || err2 != nil || !os.SameFile(here, own) {
			return errTaken
		}
		r.file.Close() // before the rename: Windows demands it
		r.file = nil
	}
	for _, name := range []string{path, old} {
		if err := replaceable(name); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(path); err == nil {
		if err := os.Rename(path, old); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	r.file, r.out, r.size = f, bufio.NewWriterSize(f, 64<<10), 0
	r.part++
	return r.line(entry{Record: Record{Time: r.at(time.Now()), Type: TypeTrace, Format: Format, Mcprt: r.opts.Version, Run: r.run, Part: r.part, PID: os.Getpid()}})
}

// replaceable refuses to take the place of anything but an earlier trace.
func replaceable(name string) error {
	info, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is no regular file; name another one", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if n == 0 || isHeader(head[:n]) {
		return nil
	}
	return fmt.Errorf("%s exists and is no trace of mcprt; name another file", name)
}

// failed ends the recording; what waits is lost.
func (r *Recorder) failed(err error) {
	r.over.Store(true)
	for waits := true; waits; {
		r.lost.Add(1) // first the record that failed
		select {
		case <-r.queue:
		default:
			waits = false
		}
	}
	if r.opts.Failed != nil {
		r.opts.Failed(err)
	}
}
