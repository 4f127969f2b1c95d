package serve

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
)

// scripted is a runtime whose operations end when the test says so.
type scripted struct {
	host   core.Host
	limits core.QueueLimits

	mu       sync.Mutex
	done     map[uint64]core.Done // by tag
	started  []string
	canceled []string
	answers  []string
	grace    int32
}

func (s *scripted) QueueLimits() core.QueueLimits { return s.limits }

func (s *scripted) Start(v core.Verb, tag uint64, req []byte, done core.Done) func() {
	if bytes.Contains(req, []byte("panic")) {
		panic("told to")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, fmt.Sprintf("%d %d %s", v, tag, req))
	s.done[tag] = done
	return func() {
		s.mu.Lock()
		s.canceled = append(s.canceled, fmt.Sprint(tag))
		s.mu.Unlock()
		s.end(tag, core.ECanceled, `{"error":{}}`)
	}
}

func (s *scripted) end(tag uint64, st core.Status, text string) {
	s.mu.Lock()
	done := s.done[tag]
	delete(s.done, tag)
	s.mu.Unlock()
	if done != nil {
		done(st, core.Reply{Head: []byte(text[:1]), Body: []byte(text[1:])})
	}
}

func (s *scripted) Answer(tag uint64, reply []byte) core.Status {
	s.mu.Lock()
	s.answers = append(s.answers, fmt.Sprintf("%d %s", tag-core.TagMax, reply))
	s.mu.Unlock()
	s.host.RequestDone(tag, core.OK)
	return core.OK
}

func (s *scripted) Decline(tag uint64) {
	s.mu.Lock()
	s.answers = append(s.answers, fmt.Sprintf("%d declined", tag-core.TagMax))
	s.mu.Unlock()
	s.host.RequestDone(tag, core.ECanceled)
}

func (s *scripted) Close(grace int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = grace
}

// peer is a host of the test: it sends frames, and reads what comes.
type peer struct {
	t    *testing.T
	to   *io.PipeWriter
	from *io.PipeReader
	core *scripted
	ran  chan error
	stop chan struct{}
}

// open runs a server with one manager, whose number is 1.
func open(t *testing.T, limits core.QueueLimits) *peer {
	t.Helper()
	p := start(t, limits)
	p.send(frame{manager: 1, kind: kindOpen, data: []byte(`{"a":1}`)})
	p.want(`1 opened 0 0 {"maxInFlight":` + fmt.Sprint(limits.MaxInFlight) + `,"queueBytes":` + fmt.Sprint(limits.QueueBytes) + `}`)
	return p
}

func start(t *testing.T, limits core.QueueLimits) *peer {
	t.Helper()
	p := &peer{t: t, core: &scripted{limits: limits, done: map[uint64]core.Done{}}, ran: make(chan error, 1), stop: make(chan struct{})}
	in, to := io.Pipe()
	from, out := io.Pipe()
	p.to, p.from = to, from
	s := newServer(func(options []byte, h core.Host) (runtime, error) {
		if bytes.Contains(options, []byte("refuse")) {
			return nil, fault.New(fault.InvalidRequest, "", "told to refuse")
		}
		p.core.host = h
		return p.core, nil
	})
	go func() {
		p.ran <- s.Run("9.8.7", in, out, p.stop)
		out.Close()
	}()
	p.want(`0 hello 0 0 {"version":"9.8.7","abi":0,"minor":1,"window":262144}`)
	t.Cleanup(func() {
		to.Close()
		_, _ = io.Copy(io.Discard, from)
	})
	return p
}

var wide = core.QueueLimits{MaxInFlight: 100, QueueBytes: 1 << 20, MaxNotices: 100, NoticeBytes: 1 << 20}

func (p *peer) send(f frame) {
	p.t.Helper()
	if _, err := p.to.Write(encode(f, f.data)); err != nil {
		p.t.Fatal(err)
	}
}

var kinds = map[uint16]string{evDone: "done", evNotice: "notice", evRequest: "request", evDropped: "dropped", evClosed: "closed", kindHello: "hello", kindOpened: "opened", kindEnded: "ended"}

// want reads the next frames: "manager kind tag status data".
func (p *peer) want(frames ...string) {
	p.t.Helper()
	for _, want := range frames {
		f, err := readFrame(p.from)
		if err != nil {
			p.t.Fatalf("%v; want %s", err, want)
		}
		tag := f.tag
		if tag > core.TagMax {
			tag -= core.TagMax
		}
		if got := strings.TrimSpace(fmt.Sprintf("%d %s %d %d %s", f.manager, kinds[f.kind], tag, f.status, f.data)); got != want {
			p.t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAVerbAndItsReply(t *testing.T) {
	p := open(t, wide)
	p.send(frame{manager: 1, kind: 4, tag: 7, data: []byte(`{"tool":"x"}`)})
	p.send(frame{manager: 1, kind: 3, tag: 8, status: flagHold})
	p.send(frame{manager: 1, kind: 2, tag: 9, status: flagBlocking, data: []byte(`{ }`)})
	p.send(frame{manager: 1, kind: 4, tag: 7, data: []byte(`{}`)})
	p.want("1 done 7 -11") // in use
	if want := []string{`4 7 {"tool":"x"}`, `3 8 `, `2 0 { }`}; fmt.Sprint(p.core.started) != fmt.Sprint(want) {
		t.Errorf("started %q, want %q", p.core.started, want)
	}
	go p.core.end(7, core.OK, `{"result": 1.0 }`)
	p.want(`1 done 7 0 {"result": 1.0 }`)
	go p.core.end(0, core.EFailed, `{"error":{}}`)
	p.want(`1 done 9 -20 {"error":{}}`)
	p.send(frame{manager: 1, kind: kindCancel, tag: 8, status: flagForget})
	p.want("1 done 8 -8") // nobody wants what it gave
}

func TestWhatIsRefused(t *testing.T) {
	p := open(t, core.QueueLimits{MaxInFlight: 1, QueueBytes: 1 << 20})
	for _, f := range []frame{
		{kind: 4, tag: 0}, {kind: 4, tag: core.TagMax + 1}, {kind: 4, tag: 1, status: 64},
	} {
		f.manager = 1
		p.send(f)
		tag := f.tag
		if tag > core.TagMax {
			tag -= core.TagMax
		}
		p.want(fmt.Sprintf("1 done %d -1", tag))
	}
	for text, why := range map[string]string{"[]": "", "{": "", `{"a":01}`: "", "\"\xff\"": ": it is not UTF-8"} {
		p.send(frame{manager: 1, kind: 4, tag: 1, data: []byte(text)})
		p.want(`1 done 1 -1 {"error":{"code":"invalid_request","message":"the request is no JSON object` + why + `","retryable":false}}`)
	}
	p.send(frame{manager: 1, kind: 4, tag: 1})
	p.send(frame{manager: 1, kind: 4, tag: 2})
	p.want("1 done 2 -6")
	p.send(frame{manager: 1, kind: 4, tag: 3, status: flagBlocking}) // not counted
	p.send(frame{manager: 1, kind: 7, tag: 4})                       // never refused
	p.send(frame{manager: 1, kind: 4, tag: 5, status: flagBlocking, data: []byte(`{"panic":1}`)})
	f, err := readFrame(p.from)
	if err != nil || f.tag != 5 || f.status != int32(core.EInternal) || !bytes.Contains(f.data, []byte("told to")) {
		t.Errorf("a panic gave %+v %s, %v", f, f.data, err)
	}
	p.send(frame{manager: 2, kind: kindOpen, data: []byte(`{"refuse":1}`)})
	p.want(`2 opened 0 -1 {"error":{"code":"invalid_request","message":"told to refuse","retryable":false}}`)
	p.send(frame{manager: 2, kind: 4, tag: 5}) // sent before the host knew
	p.send(frame{manager: 1, kind: verbClose, tag: 6, data: []byte(`{"graceMs":12}`)})
	closed := `{"error":{"code":"closed","message":"the manager is closed; open a new one","retryable":false}}`
	ended, got := "", 0
	for kind := uint16(0); kind != evClosed; { // "ended" overtakes what waits in the queue
		f, err := readFrame(p.from)
		if err != nil {
			t.Fatal(err)
		}
		kind = f.kind
		switch {
		case kind == kindEnded:
			ended += "ended "
		case kind == evDone && f.tag == 6:
			ended += string(f.data)
		case kind == evDone && f.status == int32(core.EClosed) && string(f.data) == closed:
			got++
		}
	}
	if got != 3 || ended != "ended {}" {
		t.Errorf("%d operations ended, then %q", got, ended)
	}
	if p.core.grace != 12 {
		t.Errorf("the grace was %d", p.core.grace)
	}
	p.send(frame{manager: 1, kind: 4, tag: 9})
	p.send(frame{manager: 1, kind: verbClose, tag: 10})
	p.want("1 done 9 -9", "1 done 10 -9")
}

func TestQuestions(t *testing.T) {
	p := open(t, core.QueueLimits{MaxInFlight: 2, QueueBytes: 1 << 20})
	for tag := uint64(1); tag <= 3; tag++ {
		p.core.host.Request(core.TagMax+tag, []byte(`{"type":"roots/list"}`))
	}
	p.want(`1 request 1 0 {"type":"roots/list"}`, `1 request 2 0 {"type":"roots/list"}`) // the third has no room
	p.send(frame{manager: 1, kind: verbReply, tag: core.TagMax + 1, data: []byte(`{"result":{}}`)})
	p.want("1 done 1 0")
	p.send(frame{manager: 1, kind: verbReply, tag: core.TagMax + 1, data: []byte(`{"result":{}}`)}) // it is over
	p.send(frame{manager: 1, kind: kindCancel, tag: core.TagMax + 2})
	p.want("1 done 2 -8")
	if want := []string{"3 declined", `1 {"result":{}}`, "2 declined"}; fmt.Sprint(p.core.answers) != fmt.Sprint(want) {
		t.Errorf("answers %q, want %q", p.core.answers, want)
	}
}

func TestAQueueIsBounded(t *testing.T) {
	p := open(t, core.QueueLimits{MaxInFlight: 9, QueueBytes: 1 << 20, MaxNotices: 3, NoticeBytes: 1 << 20})
	big := `"` + strings.Repeat("x", 3*window) + `"`
	p.core.host.Notice([]byte(big)) // takes the whole window
	p.want("1 notice 0 0 " + big)
	for i := range 6 {
		p.core.host.Notice(fmt.Append(nil, i))
	}
	p.send(frame{manager: 1, kind: 4, tag: 1})
	p.send(frame{manager: 1, kind: 4, tag: 2, status: flagHold})
	p.send(frame{manager: 1, kind: 4, tag: 2}) // begun, now: tag 2 is in use
	p.send(frame{manager: 2, kind: kindOpen, data: []byte(`{"refuse":1}`)})
	_, _ = readFrame(p.from)
	p.core.end(1, core.OK, "{}")
	p.core.end(2, core.OK, "{}")
	p.want("1 done 2 0 {}") // held: nothing holds it up
	p.send(frame{manager: 1, kind: kindCredit, tag: uint64(size(len(big)))})
	p.want("1 notice 0 0 0", "1 notice 0 0 1", "1 notice 0 0 2", "1 dropped 0 3", "1 done 2 -11", "1 done 1 0 {}")
}

func TestTheEndOfInputEndsEverything(t *testing.T) {
	p := open(t, wide)
	p.send(frame{manager: 1, kind: 4, tag: 1, status: flagHold})
	p.to.Close()
	p.want(`1 done 1 -9 {"error":{"code":"closed","message":"the manager is closed; open a new one","retryable":false}}`, "1 ended 0 0", "1 closed 0 0")
	if err := <-p.ran; err != nil || p.core.grace != -1 {
		t.Errorf("ended with %v, grace %d", err, p.core.grace)
	}
}

func TestASignalEndsEverything(t *testing.T) {
	p := open(t, wide)
	close(p.stop)
	p.want("1 ended 0 0", "1 closed 0 0")
	if err := <-p.ran; err != nil {
		t.Error(err)
	}
}

func TestAHostThatDoesNotReadHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, wide)
		p.core.host.Notice([]byte("1"))
		p.to.Close()
		if err := <-p.ran; err != nil { // in the bubble's time, after lastWords
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, p.from)
	})
}

func TestAFreedManagerIsSilent(t *testing.T) {
	p := open(t, wide)
	p.send(frame{manager: 1, kind: 4, tag: 1})
	p.send(frame{manager: 1, kind: kindFree})
	p.send(frame{manager: 1, kind: 4, tag: 2})
	p.send(frame{manager: 3, kind: kindOpen, data: []byte(`{"refuse":1}`)})
	p.want(`3 opened 0 -1 {"error":{"code":"invalid_request","message":"told to refuse","retryable":false}}`)
	p.core.host.Notice([]byte("1"))
	p.core.host.Request(core.TagMax+1, []byte("1"))
	p.to.Close()
	if err := <-p.ran; err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(p.from); err != nil || len(rest) > 0 {
		t.Errorf("%d bytes came, %v", len(rest), err)
	}
}

func TestNonsenseEndsTheServer(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"text":           []byte(strings.Repeat("GET / HTTP/1.1\r\n", 4)),
		"unknown kind":   encode(frame{manager: 1, kind: 99}),
		"opened already": encode(frame{manager: 1, kind: kindOpen}),
		"half a frame":   encode(frame{manager: 1, kind: 4, tag: 1})[:37],
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, wide)
			go func() {
				_, _ = p.to.Write(bytes)
				p.to.Close()
			}()
			p.want("1 ended 0 0", "1 closed 0 0")
			if err := <-p.ran; err == nil || !strings.Contains(err.Error(), "serve cannot go on: ") {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestAnUnknownKindEndsTheServerWithoutAManager(t *testing.T) {
	for _, kind := range []uint16{0, verbClose + 1, kindOpen - 1, kindCredit + 1, 1 << 15} {
		p := start(t, wide)
		p.send(frame{manager: 7, kind: kindFree}) // of a number that nobody has, which is no fault
		p.send(frame{manager: 7, kind: kind})
		if err := <-p.ran; err == nil || !strings.Contains(err.Error(), fmt.Sprintf("frames of kind %d are unknown", kind)) {
			t.Errorf("kind %d: ended with %v", kind, err)
		}
	}
}

func TestAWrongLengthCostsNoMemory(t *testing.T) {
	h := encode(frame{kind: 4, tag: 1})[:headerSize]
	binary.LittleEndian.PutUint32(h[24:], frameMax)
	binary.LittleEndian.PutUint32(h[28:], uint32(size(frameMax)))
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := readFrame(bytes.NewReader(h)); err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 4<<20 {
		t.Errorf("%d bytes for a frame that never came", allocated)
	}
}

// The numbers are written down twice; the header has the last word.
func TestNumbersAreThoseOfTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{
		"MCPRT_ABI": ABI, "MCPRT_VERSION_MINOR": Minor, "MCPRT_FRAME_MAX": frameMax, "MCPRT_REPLY": verbReply, "MCPRT_CLOSE": verbClose,
		"MCPRT_F_HOLD": flagHold, "MCPRT_F_FORGET": flagForget, "MCPRT_EV_DONE": evDone, "MCPRT_EV_NOTICE": evNotice,
		"MCPRT_EV_REQUEST": evRequest, "MCPRT_EV_DROPPED": evDropped, "MCPRT_EV_CLOSED": evClosed,
	} {
		m := regexp.MustCompile(`(?m)^#define ` + name + ` +(\w+?)u?(?: |$)`).FindSubmatch(header)
		if m == nil {
			t.Errorf("the header has no %s", name)
			continue
		}
		if got, err := strconv.ParseUint(string(m[1]), 0, 64); err != nil || got != want {
			t.Errorf("%s is %d here and %s in the header", name, want, m[1])
		}
	}
	if eBusy != -6 || !regexp.MustCompile(`(?m)^#define MCPRT_EBUSY +-6 `).Match(header) {
		t.Error("MCPRT_EBUSY differs")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(encode(frame{manager: 1, kind: kindOpen}, []byte("{}")))
	f.Add(append(encode(frame{manager: 1, kind: kindOpen}), encode(frame{manager: 1, kind: 4, tag: 3}, []byte(`{"tool":"x"}`))...))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := newServer(func(_ []byte, h core.Host) (runtime, error) {
			return &scripted{host: h, limits: wide, done: map[uint64]core.Done{}}, nil
		})
		var out bytes.Buffer
		_ = s.Run("0", bytes.NewReader(in), &out, nil)
		for r := bytes.NewReader(out.Bytes()); r.Len() > 0; {
			got, err := readFrame(r)
			if err != nil {
				t.Fatalf("we wrote a frame that cannot be read: %v", err)
			}
			if len(got.data) > 0 && !json.Valid(got.data) {
				t.Fatalf("kind %d has %q", got.kind, got.data)
			}
		}
	})
}
