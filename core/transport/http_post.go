package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

// flight is one message on its way: its POST, and the answer to that.
type flight struct {
	c      *httpConn
	seq    uint64
	meta   Meta
	body   []byte
	gate   <-chan struct{} // to wait for before it goes out
	opens  chan struct{}   // what waits for it
	heard  chan struct{}   // to wait for as well; that of initialized closes it, or has listen do so
	ctx    context.Context
	cancel context.CancelFunc

	wrote    atomic.Bool // bytes may have reached the server
	answered bool
	stray    string // the id of an answer to something else
}

func (f *flight) run() {
	c := f.c
	defer c.wg.Done()
	defer c.land(f)
	defer c.guard()
	defer f.cancel()
	if f.opens != nil {
		defer close(f.opens)
		defer func() {
			if f.heard != nil {
				close(f.heard)
			}
		}()
	}
	if f.meta.ID == 0 {
		timer := time.AfterFunc(noticePatience, f.cancel)
		defer timer.Stop()
	}
	safe.Point("http.post")
	select {
	case <-f.gate:
	case <-f.ctx.Done():
		return
	}
	if f.heard != nil && f.opens == nil {
		select {
		case <-f.heard:
		case <-f.ctx.Done():
			return
		}
	}
	if c.ended() { // while it waited
		return
	}
	f.post()
}

// asks tells the requests during which a server may ask something back, or report. Some
// send that only on the stream which the client opens after initialized, and lose it
// where there is none yet: the answer to such a question is then waited for in vain.
func asks(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// what names the message in an error.
func (f *flight) what() string {
	if f.meta.Method == "" {
		return "a reply"
	}
	return f.meta.Method
}

func (f *flight) post() {
	c := f.c
	c.mu.Lock()
	target, legacySSE, session := c.endpoint, c.sse, c.session
	c.mu.Unlock()
	resp, err := c.do(f.ctx, http.MethodPost, target, f.header(session), f.body, &f.wrote)
	if err != nil {
		if f.ctx.Err() == nil {
			f.broken(err)
		}
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		f.refused(resp, session)
		return
	}
	switch f.meta.Method {
	case "initialize":
		c.openSession(resp.Header.Get("Mcp-Session-Id"))
	case initialized:
		if !legacySSE {
			c.wg.Add(1)
			go c.listen(f.heard)
			f.heard = nil
		}
	}
	switch kind := mediaType(resp.Header); {
	case f.meta.ID == 0 || legacySSE:
		discard(resp.Body)
	case kind == "text/event-stream":
		f.follow(resp.Body)
	case isJSON(kind):
		f.whole(resp)
	default:
		head, _ := io.ReadAll(io.LimitReader(resp.Body, shownBody))
		f.noAnswer(fmt.Sprintf("HTTP %d and %s", resp.StatusCode, describe(kind, head)), head)
	}
}

func (f *flight) header(session string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	m := &f.meta
	if session != "" && !m.Modern {
		h.Set("Mcp-Session-Id", session)
	}
	if m.Version != "" {
		h.Set("Mcp-Protocol-Version", m.Version)
	}
	if m.Modern && m.Method != "" {
		h.Set("Mcp-Method", m.Method)
	}
	for name, value := range m.Headers {
		h.Set(name, value)
	}
	return h
}

// openSession takes the id of a new session; it must be visible ASCII.
func (c *httpConn) openSession(id string) {
	if len(id) > maxSessionIDLen || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7E }) {
		return
	}
	c.mu.Lock()
	c.session = id
	c.mu.Unlock()
}

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return strings.ToLower(strings.TrimSpace(h.Get("Content-Type")))
	}
	return kind
}

// isJSON also takes what careless servers call JSON.
func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "text/plain" || kind == ""
}

func describe(kind string, head []byte) string {
	switch {
	case len(head) == 0:
		return "no content"
	case kind == "":
		return "content of no stated type"
	}
	return fmt.Sprintf("content of type %q", shown([]byte(kind), 100))
}

// fail ends the request. Nobody is told of a message that wants no answer.
func (f *flight) fail(err *fault.Error, unsent bool) {
	if f.meta.ID == 0 || f.answered || f.ctx.Err() != nil {
		return
	}
	f.answered = true
	f.c.deliver(&Message{ID: strconv.AppendInt(nil, f.meta.ID, 10), Failed: err, Unsent: unsent})
}

// broken handles a request without a response. A server that cannot be reached at
// all has lost us: who dials again finds out when it is back.
func (f *flight) broken(err error) {
	wrote := f.wrote.Load()
	e := f.c.brokenFault(f.what(), err, wrote)
	if e.Code == fault.ConnectFailed {
		f.c.loseAfterFlights(e)
		return
	}
	f.fail(e, !wrote)
}

// refused handles a status that is no success.
// answeredBy tells that a refusal is the server's answer to this very request: it has
// the request's id, and complains of its params. That is no word about the session,
// whatever words are in the message.
func (f *flight) answeredBy(body []byte) bool {
	return f.meta.ID != 0 && string(rawjson.Get(body, "id")) == strconv.FormatInt(f.meta.ID, 10) &&
		string(rawjson.Get(rpcError(body), "code")) == invalidParams
}

func (f *flight) refused(resp *http.Response, session string) {
	c := f.c
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBody))
	status := resp.StatusCode
	c.mu.Lock()
	sse := c.sse
	c.mu.Unlock()
	e := c.statusFault(f.what(), resp, body)
	rpc := rpcError(body)
	switch {
	case needsAuth(resp):
		f.fail(e, true)
	case !f.meta.Modern && (session != "" || sse) && endsSession(status, body) && !f.answeredBy(body):
		f.wrote.Store(false) // it was not run
		lost := c.errorf(fault.Disconnected, fault.StageReceive, "server %q has ended the session (HTTP %d); it is connected anew", c.cfg.Server, status).Retry()
		c.loseAfterFlights(lost.With(*e.Data))
	case rpc != nil && status/100 == 4 && status != http.StatusForbidden && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		if f.meta.ID != 0 {
			f.answered = true
			c.deliver(&Message{ID: strconv.AppendInt(nil, f.meta.ID, 10), Error: rpc})
		}
	case f.meta.Method == "initialize" && !sse && olderServer(status):
		if c.openSSE(f.ctx) == nil {
			f.post()
			return
		}
		f.fail(e, false)
	default:
		f.fail(e, false)
	}
}

// olderServer tells the statuses by which a server of HTTP+SSE refuses a POST.
func olderServer(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return true
	}
	return false
}

// noAnswer ends a request that was answered by something else.
func (f *flight) noAnswer(instead string, body []byte) {
	e := f.c.errorf(fault.Protocol, fault.StageProtocol, "server %q answered %s with %s in place of a JSON-RPC answer; check its url", f.c.cfg.Server, f.what(), instead)
	f.fail(e.With(fault.Data{Body: shown(body, shownBody)}), false)
}

// Receive takes what comes in answer to this flight alone: makes it a Receiver.
func (f *flight) Receive(m *Message) {
	if m.Method == "" {
		own := strconv.FormatInt(f.meta.ID, 10)
		switch id := string(bytes.Trim(m.ID, `"`)); {
		case f.answered:
			return
		case id != own && !(id == "null" && m.Error != nil):
			f.stray = shown(m.ID, 40)
			return
		}
		f.answered = true
		m.ID = []byte(own)
	}
	f.c.deliver(m)
}

func (f *flight) Closed(*fault.Error) {}

// whole reads an answer that is one JSON document.
func (f *flight) whole(resp *http.Response) {
	c := f.c
	limit := c.cfg.MaxMessage
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	c.received.Add(int64(len(data)))
	switch {
	case int64(len(data)) > limit:
		f.skip(max(resp.ContentLength, int64(len(data))))
		return
	case err != nil:
		if f.ctx.Err() == nil {
			f.broken(err)
		}
		return
	}
	l, count := c.reading(f)
	defer count()
	l.line(data)
	if f.answered {
		return
	}
	if f.stray != "" {
		f.noAnswer("an answer to another request, "+f.stray+",", nil)
		return
	}
	f.noAnswer(fmt.Sprintf("HTTP %d and %s", resp.StatusCode, describe(mediaType(resp.Header), data)), data)
}

// skip ends the request whose answer is over the limit.
func (f *flight) skip(size int64) {
	f.c.tooLarge.Add(1)
	f.answered = true
	f.c.deliver(&Message{ID: strconv.AppendInt(nil, f.meta.ID, 10), TooLarge: size})
}

const (
	lingering  = 500 * time.Millisecond // for a stream to end after its answer
	maxResumes = 5                      // in a row, without an event
)

// follow reads an answer that comes as an event stream. A legacy server may end the
// stream early, to be asked for the rest by GET.
func (f *flight) follow(body io.ReadCloser) {
	c := f.c
	last, retry := "", time.Duration(-1)
	for fruitless := 0; ; fruitless++ {
		var err error
		if body != nil {
			e := newEvents(body, c.cfg.MaxMessage)
			e.lastID, e.retry, e.cut = last, retry, true
			err = f.read(e)
			body.Close()
			last, retry = e.lastID, e.retry
			if e.count > 0 {
				fruitless = 0
			}
		}
		if f.answered || f.ctx.Err() != nil {
			return
		}
		if last == "" || f.meta.Modern || fruitless >= maxResumes {
			f.unfinished(err)
			return
		}
		if !sleep(f.ctx, pauseBefore(retry, fruitless)) {
			return
		}
		if body, err = c.resume(f.ctx, last); err != nil {
			f.fail(c.brokenFault(f.what(), err, true), false)
			return
		}
	}
}

// unfinished ends a request whose stream ended before the answer.
func (f *flight) unfinished(err error) {
	switch {
	case f.stray != "":
		f.noAnswer("an answer to another request, "+f.stray+",", nil)
	case err == nil || errors.Is(err, io.EOF):
		f.fail(f.c.errorf(fault.Disconnected, fault.StageReceive, "server %q ended the stream before it answered %s", f.c.cfg.Server, f.what()).Retry(), false)
	default:
		f.broken(err)
	}
}

// read delivers a stream's messages. What follows the answer is heard for a moment:
// a stream that is read to its end leaves a connection to be used again.
func (f *flight) read(e *events) error {
	l, count := f.c.reading(f)
	defer count()
	for {
		var ev event
		if err := e.next(&ev); err != nil {
			return err
		}
		f.c.received.Add(int64(len(ev.data)))
		was := f.answered
		switch {
		case ev.tooLarge > 0 && !f.answered:
			f.skip(ev.tooLarge)
		case ev.name == "message":
			l.line(ev.data)
		}
		if f.answered && !was {
			timer := time.AfterFunc(lingering, f.cancel)
			defer timer.Stop()
		}
	}
}
