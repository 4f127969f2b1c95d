package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// heard is a Receiver that keeps what it gets.
type heard struct {
	mu     sync.Mutex
	lines  []string
	failed map[string]*fault.Error
	unsent map[string]bool
	big    map[string]int64
	closed []*fault.Error
	some   chan struct{}
}

func newHeard() *heard {
	return &heard{failed: map[string]*fault.Error{}, unsent: map[string]bool{}, big: map[string]int64{}, some: make(chan struct{}, 1000)}
}

func (h *heard) Receive(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := string(m.ID)
	switch {
	case m.Failed != nil:
		h.failed[id], h.unsent[id] = m.Failed, m.Unsent
	case m.TooLarge > 0:
		h.big[id] = m.TooLarge
	default:
		h.lines = append(h.lines, fmt.Sprintf("%s%s %s%s%s", id, m.Method, m.Params, m.Result, m.Error))
	}
	h.some <- struct{}{}
}

func (h *heard) Closed(err *fault.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = append(h.closed, err)
}

func (h *heard) wait(t *testing.T) {
	t.Helper()
	select {
	case <-h.some:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
	}
}

// dialHTTP connects to a handler. At the end nothing of the connection may be left.
func dialHTTP(t *testing.T, set func(*HTTP), handler http.HandlerFunc) (*httpConn, *heard) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a context ends with its client only after that
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	cfg := HTTP{Server: "srv", URL: server.URL + "/mcp"}
	if set != nil {
		set(&cfg)
	}
	h := newHeard()
	conn, err := cfg.Dial(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close(time.Second, false)
		select {
		case <-conn.Done():
		case <-time.After(5 * time.Second):
			t.Error("the connection does not end")
		}
		server.CloseClientConnections()
		server.Close()
		if len(h.closed) != 1 {
			t.Errorf("Closed was called %d times", len(h.closed))
		}
	})
	return conn.(*httpConn), h
}

func call(id int64) ([]byte, Meta) {
	return []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call"}`, id)), Meta{ID: id, Method: "tools/call", Version: "2025-11-25"}
}

func send(t *testing.T, c *httpConn, id int64) uint64 {
	t.Helper()
	msg, meta := call(id)
	seq, err := c.SendMeta(t.Context(), msg, meta)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func respond(w io.Writer, id int64) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func asStream(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

func asJSON(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }

// What a server may do to one request fails that request, and no more.
func TestHTTPFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		do   http.HandlerFunc
		code fault.Code
		want string
	}{
		{"reset before the headers", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, fault.Disconnected, "closed the connection"},
		{"reset in a document", func(w http.ResponseWriter, r *http.Request) {
			asJSON(w)
			fmt.Fprint(w, `{"jsonrpc":"2.0",`)
			flush(w)
			panic(http.ErrAbortHandler)
		}, fault.Disconnected, "before tools/call was answered"},
		{"reset in a stream", func(w http.ResponseWriter, r *http.Request) {
			asStream(w)
			fmt.Fprint(w, "data: {\"jsonrpc\"")
			flush(w)
			panic(http.ErrAbortHandler)
		}, fault.Disconnected, "before tools/call was answered"},
		{"stream without an answer", func(w http.ResponseWriter, r *http.Request) { asStream(w); fmt.Fprint(w, ": nothing\n\n") }, fault.Disconnected, "ended the stream"},
		{"wrong content type", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>Sign in</html>")
		}, fault.Protocol, `content of type "text/html"`},
		{"accepted", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(202) }, fault.Protocol, "HTTP 202 and no content"},
		{"no JSON", func(w http.ResponseWriter, r *http.Request) { asJSON(w); fmt.Fprint(w, "oops") }, fault.Protocol, "in place of a JSON-RPC answer"},
		{"wrong id in a document", func(w http.ResponseWriter, r *http.Request) { asJSON(w); respond(w, 999999) }, fault.Protocol, "another request, 999999"},
		{"wrong id in a stream", func(w http.ResponseWriter, r *http.Request) {
			asStream(w)
			fmt.Fprint(w, "data: ")
			respond(w, 2)
			fmt.Fprint(w, "\n\n")
		}, fault.Protocol, "another request, 2"},
		{"too many requests", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "3"); w.WriteHeader(429) }, fault.HTTPStatus, "HTTP 429 Too Many Requests"},
		{"too few rights", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			w.WriteHeader(403)
		}, fault.NeedsAuth, "for want of rights (HTTP 403 Forbidden)"},
		{"no HTTP", func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			fmt.Fprint(conn, "SSH-2.0-x\r\n")
			conn.Close()
		}, fault.Disconnected, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			first := atomic.Bool{}
			conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if !first.Swap(true) {
					c.do(w, r)
					return
				}
				asJSON(w)
				respond(w, 8)
			})
			seq := send(t, conn, 7)
			h.wait(t)
			f := h.failed["7"]
			if f == nil || f.Code != c.code || !strings.Contains(f.Message, c.want) || !strings.Contains(f.Message, `"srv"`) {
				t.Fatalf("%v, lines %q", f, h.lines)
			}
			if refused := c.code == fault.NeedsAuth; h.unsent["7"] != refused || !conn.Begun(seq) && !refused {
				t.Error("a request that the server got counts as unsent")
			}
			if c.code == fault.HTTPStatus && (f.Data.RetryAfterMs != 3000 || !f.Retryable) {
				t.Errorf("%+v", f.Data)
			}
			send(t, conn, 8)
			h.wait(t)
			if !slices.Equal(h.lines, []string{"8 {}"}) {
				t.Errorf("%q", h.lines)
			}
		})
	}
}

// A request that is given up ends at once, whatever state the server keeps it in.
func TestHTTPGivenUp(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, do := range map[string]http.HandlerFunc{
		"black hole": hang,
		"slow headers": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Ty")
			_, _ = io.Copy(io.Discard, conn)
		},
		"stalled document": func(w http.ResponseWriter, r *http.Request) {
			asJSON(w)
			fmt.Fprint(w, `{"jsonrpc":`)
			flush(w)
			hang(w, r)
		},
		"stalled stream": func(w http.ResponseWriter, r *http.Request) { asStream(w); flush(w); hang(w, r) },
		"endless comments": func(w http.ResponseWriter, r *http.Request) {
			asStream(w)
			for r.Context().Err() == nil {
				fmt.Fprint(w, ": "+strings.Repeat("x", 1000))
				flush(w)
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, over := make(chan struct{}), make(chan struct{})
			conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) { close(began); defer close(over); do(w, r) })
			send(t, conn, 1)
			<-began
			time.Sleep(20 * time.Millisecond)
			conn.Cancel(1)
			select {
			case <-over:
			case <-time.After(5 * time.Second):
				t.Fatal("the server still answers")
			}
			conn.Close(0, false)
			<-conn.Done()
			if len(h.failed) != 0 || len(h.lines) != 0 {
				t.Errorf("%v, %q", h.failed, h.lines)
			}
		})
	}
}

// Answers over the limit are skipped, endless ones too, and cost no more than the limit.
func TestHTTPTooLarge(t *testing.T) {
	for name, head := range map[string]string{"document": "", "stream": "data: "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, h := dialHTTP(t, func(c *HTTP) { c.MaxMessage = 1 << 10 }, func(w http.ResponseWriter, r *http.Request) {
				asJSON(w)
				if head != "" {
					asStream(w)
				}
				fmt.Fprint(w, head+`{"jsonrpc":"2.0","id":1,"result":{"x":"`)
				for r.Context().Err() == nil { // without an end
					if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<10)); err != nil {
						return
					}
				}
			})
			send(t, conn, 1)
			h.wait(t)
			if h.big["1"] < 1<<10 || len(h.lines) != 0 {
				t.Errorf("%v %q", h.big, h.lines)
			}
		})
	}
}

// A stream that the server closes before the answer is taken up by GET, after the
// time that the server wishes.
func TestHTTPResumes(t *testing.T) {
	var gets []string
	var at []time.Time
	conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
		at = append(at, time.Now())
		if r.Method == "POST" {
			asStream(w)
			fmt.Fprint(w, "id: one\nretry: 150\ndata:\n\n")
			return
		}
		gets = append(gets, r.Header.Get("Last-Event-ID"))
		switch len(gets) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			asStream(w)
			fmt.Fprint(w, "id: two\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			flush(w)
			panic(http.ErrAbortHandler) // a broken one, too
		case 3:
			asStream(w)
			fmt.Fprint(w, "data: ")
			respond(w, 1)
			fmt.Fprint(w, "\n\n")
		}
	})
	send(t, conn, 1)
	h.wait(t)
	h.wait(t)
	if want := []string{"notifications/message {}", "1 {}"}; !slices.Equal(h.lines, want) {
		t.Errorf("%q", h.lines)
	}
	if !slices.Equal(gets, []string{"one", "one", "two"}) {
		t.Errorf("resumed from %q", gets)
	}
	if d := at[1].Sub(at[0]); d < 150*time.Millisecond || d > time.Second {
		t.Errorf("the first after %v", d)
	}
}

func TestHTTPResumeRefused(t *testing.T) {
	conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			asStream(w)
			fmt.Fprint(w, "id: one\nretry: 0\ndata:\n\n")
			return
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
	})
	send(t, conn, 1)
	h.wait(t)
	if f := h.failed["1"]; f == nil || f.Code != fault.Disconnected || !strings.Contains(f.Message, "HTTP 405") {
		t.Errorf("%v", f)
	}
}

// The stream of a legacy server is an offer: whatever a server that has none answers,
// requests go on.
func TestHTTPStreamIsOptional(t *testing.T) {
	for _, status := range []int{404, 405, 406, 400, 501, 403, 200} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			var gets atomic.Int64
			asked := make(chan struct{}, 10)
			conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "GET" {
					gets.Add(1)
					w.WriteHeader(status)
					fmt.Fprint(w, "hello")
					asked <- struct{}{}
					return
				}
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), initialized) {
					w.WriteHeader(202)
					return
				}
				asJSON(w)
				respond(w, 1)
			})
			greet(t, conn)
			<-asked
			time.Sleep(20 * time.Millisecond)
			send(t, conn, 1)
			h.wait(t)
			if gets.Load() != 1 || len(h.lines) != 1 || len(h.closed) != 0 {
				t.Errorf("%d GETs, %q, closed %v", gets.Load(), h.lines, h.closed)
			}
		})
	}
}

func greet(t *testing.T, conn *httpConn) {
	t.Helper()
	if _, err := conn.SendMeta(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), Meta{Method: initialized, Version: "2025-11-25"}); err != nil {
		t.Fatal(err)
	}
}

// No request overtakes the end of the handshake.
func TestHTTPWaitsForInitialized(t *testing.T) {
	var order []string
	var mu sync.Mutex
	conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		what := r.Method
		if strings.Contains(string(body), "tools/call") {
			what = "call"
			asJSON(w)
			defer respond(w, 1)
		} else if r.Method == "POST" {
			what = "initialized"
			time.Sleep(50 * time.Millisecond)
			w.WriteHeader(202)
		} else {
			w.WriteHeader(405)
		}
		mu.Lock()
		order = append(order, what)
		mu.Unlock()
	})
	greet(t, conn)
	send(t, conn, 1)
	h.wait(t)
	mu.Lock()
	defer mu.Unlock()
	if order[0] != "initialized" || !slices.Contains(order, "call") {
		t.Errorf("%q", order)
	}
}

// A stream that ended is asked for again, from where it ended.
func TestHTTPStreamReopens(t *testing.T) {
	var lasts []string
	var mu sync.Mutex
	_, h := func() (*httpConn, *heard) {
		conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				w.WriteHeader(202)
				return
			}
			mu.Lock()
			lasts = append(lasts, r.Header.Get("Last-Event-ID"))
			n := len(lasts)
			mu.Unlock()
			switch n {
			case 2:
				w.WriteHeader(502)
			default:
				asStream(w)
				fmt.Fprintf(w, "retry: 100\nid: e%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"m%d\"}\n\n", n, n)
				flush(w)
				if n > 3 {
					<-r.Context().Done()
				}
			}
		})
		greet(t, conn)
		return conn, h
	}()
	for range 3 {
		h.wait(t)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(h.lines, []string{"m1 ", "m3 ", "m4 "}) || !slices.Equal(lasts, []string{"", "e1", "e1", "e3"}) {
		t.Errorf("%q, from %q", h.lines, lasts)
	}
}

// TestHTTPBrokenHead: a header that cannot be read is in no message, since it may be a cookie or the
// id of a session; what else of a response's head is in one is cut.
func TestHTTPBrokenHead(t *testing.T) {
	for name, head := range map[string]string{
		"a control character": "HTTP/1.1 200 OK\r\nMcp-Session-Id: SECRET\x01\r\n\r\n",
		"a bare CR":           "HTTP/1.1 200 OK\r\nSet-Cookie: id=SECRET\rX: y\r\n\r\n",
		"no colon":            "HTTP/1.1 200 OK\r\n" + strings.Repeat("SECRET", 30_000) + "\r\n\r\n",
		"a first line":        strings.Repeat("junk\x1b[31m", 20_000) + "\r\n\r\n",
		"a status":            "HTTP/1.1 junk" + strings.Repeat("x", 100_000) + "\r\n\r\n",
		"a length":            "HTTP/1.1 200 OK\r\nContent-Length: junk\r\n\r\n",
		"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: junk" + strings.Repeat("x", 100_000) + "\r\n\r\n",
		"an encoding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: junk" + strings.Repeat("x", 100_000) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, _ *http.Request) {
				raw, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer raw.Close()
				_, _ = io.WriteString(raw, head)
			})
			send(t, conn, 1)
			h.wait(t)
			f := h.failed["1"]
			if f == nil || f.Code != fault.Disconnected || strings.Contains(f.Message, "SECRET") || len(f.Message) > 500 || strings.Contains(f.Message, "\x1b") {
				t.Errorf("%.400v", f)
			}
		})
	}
}

func TestHTTPUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	h := newHeard()
	conn, err := HTTP{Server: "srv", URL: "http://u:hidden@" + address + "/mcp?key=hidden"}.Dial(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	msg, meta := call(1)
	seq, err := conn.(Carrier).SendMeta(t.Context(), msg, meta)
	if err != nil {
		t.Fatal(err)
	}
	<-conn.Done()
	if len(h.closed) != 1 || h.closed[0].Code != fault.ConnectFailed || !h.closed[0].Retryable || conn.Begun(seq) || strings.Contains(h.closed[0].Message, "hidden") {
		t.Errorf("%v, begun %v", h.closed, conn.Begun(seq))
	}
	if _, err := conn.Send(t.Context(), msg); !fault.Is(err, fault.ConnectFailed) {
		t.Errorf("a send after the end: %v", err)
	}
}

// Nothing goes to another origin; within its own, a repeated request is fine.
func TestHTTPRedirects(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	var to atomic.Value
	to.Store("/mcp/")
	status := atomic.Int64{}
	status.Store(307)
	conn, h := dialHTTP(t, func(c *HTTP) { c.Headers = map[string]string{"Authorization": "Bearer x"} }, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" || r.URL.Path == "/loop" {
			w.Header().Set("Location", to.Load().(string))
			w.WriteHeader(int(status.Load()))
			return
		}
		if r.Method != "POST" || r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(400)
			return
		}
		asJSON(w)
		respond(w, 1)
	})
	send(t, conn, 1)
	h.wait(t)
	if !slices.Equal(h.lines, []string{"1 {}"}) {
		t.Fatalf("%q %v", h.lines, h.failed)
	}
	for i, c := range []struct {
		status int64
		to     string
	}{{307, other.URL + "/x?secret"}, {302, "/mcp/"}, {308, "/loop"}, {302, "/a%0Ab%1B%5B31m" + strings.Repeat("x", 100_000)}} {
		status.Store(c.status)
		to.Store(c.to)
		id := int64(i + 2)
		send(t, conn, id)
		h.wait(t)
		if f := h.failed[strconv.FormatInt(id, 10)]; f == nil || f.Code != fault.HTTPStatus || strings.Contains(f.Message, "secret") || len(f.Message) > 1000 || strings.ContainsAny(f.Message, "\n\x1b") {
			t.Errorf("%v: %v", c, f)
		}
	}
	if elsewhere.Load() != 0 {
		t.Error("another origin was asked")
	}
}

// TestHTTPSessionOverInABurst: requests that are under way when one of them hears that the session
// is over have a moment to hear it, too, or to bring their answers; then the connection ends.
func TestHTTPSessionOverInABurst(t *testing.T) {
	const n = 12
	var over sync.WaitGroup // all are at the server
	over.Add(n)
	first := make(chan struct{})
	conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"initialize"`) {
			w.Header().Set("Mcp-Session-Id", "s")
			asJSON(w)
			respond(w, 100)
			return
		}
		over.Done()
		over.Wait()
		switch {
		case strings.Contains(string(body), `"id":1,`):
			close(first)
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(string(body), `"id":2,`): // it ran before
			<-first
			time.Sleep(50 * time.Millisecond)
			asJSON(w)
			respond(w, 2)
		case strings.Contains(string(body), `"id":3,`): // nobody knows
			<-r.Context().Done()
		default:
			<-first
			time.Sleep(50 * time.Millisecond)
			w.WriteHeader(http.StatusNotFound)
		}
	})
	if _, err := conn.SendMeta(t.Context(), []byte(`{"jsonrpc":"2.0","id":100,"method":"initialize"}`), Meta{ID: 100, Method: "initialize"}); err != nil {
		t.Fatal(err)
	}
	h.wait(t)
	var seqs [n + 1]uint64
	for id := int64(1); id <= n; id++ {
		seqs[id] = send(t, conn, id)
	}
	<-first
	for !conn.ended() {
		time.Sleep(time.Millisecond)
	}
	msg, meta := call(50)
	if _, err := conn.SendMeta(t.Context(), msg, meta); err == nil {
		t.Error("a request goes out on a session that is over")
	}
	select {
	case <-conn.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the connection does not end")
	}
	for id := 1; id <= n; id++ {
		if ran := id == 2 || id == 3; conn.Begun(seqs[id]) != ran {
			t.Errorf("request %d: may have run: %v", id, !ran)
		}
	}
	if !slices.Equal(h.lines, []string{"100 {}", "2 {}"}) || len(h.closed) != 1 {
		t.Errorf("%q, %v", h.lines, h.closed)
	}
}

// Auth's own failure reaches the caller as it is, and its header everything that is sent.
func TestHTTPAuth(t *testing.T) {
	var methods sync.Map
	refuse := atomic.Bool{}
	conn, h := dialHTTP(t, func(c *HTTP) {
		c.Auth = func(base http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if refuse.Load() {
					return nil, fault.New(fault.NeedsAuth, fault.StageAuth, "sign in")
				}
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", "Bearer t")
				return base.RoundTrip(r)
			})
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(401)
			return
		}
		body, _ := io.ReadAll(r.Body)
		methods.Store(r.Method, r.Header.Get("Mcp-Session-Id"))
		switch {
		case strings.Contains(string(body), "initialize\""):
			w.Header().Set("Mcp-Session-Id", "s1")
			asJSON(w)
			respond(w, 1)
		case r.Method == "GET":
			w.WriteHeader(405)
		default:
			w.WriteHeader(202)
		}
	})
	if _, err := conn.SendMeta(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`), Meta{ID: 1, Method: "initialize"}); err != nil {
		t.Fatal(err)
	}
	h.wait(t)
	greet(t, conn)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, ok := methods.Load("GET"); ok {
			break
		}
	}
	refuse.Store(true)
	send(t, conn, 2)
	h.wait(t)
	if f := h.failed["2"]; f == nil || f.Code != fault.NeedsAuth || f.Message != "sign in" || f.Server != "srv" || !h.unsent["2"] {
		t.Errorf("%v", f)
	}
	refuse.Store(false)
	conn.Close(time.Second, false)
	<-conn.Done()
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if id, ok := methods.Load(method); !ok || id != "s1" {
			t.Errorf("%s: %v, %v", method, id, ok)
		}
	}
}

// What a server asks during a call may come on its own stream only: a call waits until
// that one is open, was refused, or has had its time. A list does not wait.
func TestHTTPCallsWaitForTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		stream func(w http.ResponseWriter, r *http.Request, release <-chan struct{})
		method string
		first  string // what the server answers first: the call, or the stream
	}{
		"open": {func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			<-release
			asStream(w)
			flush(w)
			<-r.Context().Done()
		}, "tools/call", "stream"},
		"refused": {func(w http.ResponseWriter, _ *http.Request, release <-chan struct{}) { <-release; w.WriteHeader(405) }, "tools/call", "stream"},
		"mute":    {func(_ http.ResponseWriter, r *http.Request, _ <-chan struct{}) { <-r.Context().Done() }, "tools/call", "call"},
		"list":    {func(_ http.ResponseWriter, r *http.Request, _ <-chan struct{}) { <-r.Context().Done() }, "tools/list", "call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, release, called := make(chan struct{}), make(chan struct{}), make(chan struct{})
			conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == "GET":
					close(asked)
					c.stream(w, r, release)
				case strings.Contains(string(body), "initialized"):
					w.WriteHeader(202)
				default:
					close(called)
					asJSON(w)
					respond(w, 1)
				}
			})
			greet(t, conn)
			<-asked
			if _, err := conn.SendMeta(t.Context(), []byte(`{"id":1}`), Meta{ID: 1, Method: c.method}); err != nil {
				t.Fatal(err)
			}
			if c.first == "stream" {
				select {
				case <-called:
					t.Error("the call did not wait")
				case <-time.After(50 * time.Millisecond):
				}
			}
			close(release)
			h.wait(t)
		})
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that hangs on DELETE keeps nobody waiting beyond the grace.
func TestHTTPCloseIsBounded(t *testing.T) {
	conn, h := dialHTTP(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "DELETE" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		asJSON(w)
		respond(w, 1)
	})
	if _, err := conn.SendMeta(t.Context(), []byte(`{}`), Meta{ID: 1, Method: "initialize"}); err != nil {
		t.Fatal(err)
	}
	h.wait(t)
	began := time.Now()
	conn.Close(time.Minute, false)
	conn.Close(50*time.Millisecond, false)
	<-conn.Done()
	if took := time.Since(began); took < 40*time.Millisecond || took > time.Second {
		t.Errorf("closing took %v", took)
	}
}

// sseHandler serves HTTP+SSE by hand: push sends an event, posts come on a channel.
func sseHandler(endpoint string, push <-chan string, posts chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(202)
			posts <- r.URL.Path + " " + string(body)
			return
		}
		asStream(w)
		fmt.Fprintf(w, "event: endpoint\r\ndata: %s\r\n\r\n", endpoint)
		flush(w)
		for {
			select {
			case text, ok := <-push:
				if !ok {
					return
				}
				fmt.Fprint(w, text)
				flush(w)
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestSSE(t *testing.T) {
	push, posts := make(chan string, 10), make(chan string, 10)
	conn, h := dialHTTP(t, func(c *HTTP) { c.SSE = true }, sseHandler("messages?s=1", push, posts))
	seq := send(t, conn, 1)
	if got := <-posts; !strings.HasPrefix(got, "/messages ") {
		t.Errorf("posted to %s", got)
	}
	push <- "data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"roots/list\"}\n\n"
	push <- "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	h.wait(t)
	h.wait(t)
	if !slices.Equal(h.lines, []string{`"1"roots/list `, "1 {}"}) {
		t.Errorf("%q", h.lines)
	}
	close(push) // the loss of the stream is the loss of the connection
	<-conn.Done()
	if len(h.closed) != 1 || h.closed[0].Code != fault.Disconnected || !h.closed[0].Retryable || !conn.Begun(seq) {
		t.Errorf("%v", h.closed)
	}
}

func TestSSERefusesAnotherOrigin(t *testing.T) {
	for _, endpoint := range []string{"http://elsewhere.invalid/x", "//elsewhere.invalid/x", "https://127.0.0.1/x", "http://127.0.0.1:1/x", "file:///etc/passwd"} {
		conn, h := dialHTTP(t, func(c *HTTP) { c.SSE = true }, sseHandler(endpoint, nil, nil))
		msg, meta := call(1)
		seq, err := conn.SendMeta(t.Context(), msg, meta)
		if err != nil && !fault.Is(err, fault.Protocol) { // it may be refused before this goes out
			t.Error(err)
		}
		<-conn.Done()
		if len(h.closed) != 1 || h.closed[0].Code != fault.Protocol || conn.Begun(seq) {
			t.Errorf("%s: %v", endpoint, h.closed)
		}
	}
}

func TestSSERefused(t *testing.T) {
	for status, code := range map[int]fault.Code{401: fault.NeedsAuth, 500: fault.HTTPStatus} {
		conn, h := dialHTTP(t, func(c *HTTP) { c.SSE = true }, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		<-conn.Done()
		if len(h.closed) != 1 || h.closed[0].Code != code {
			t.Errorf("%d: %v", status, h.closed)
		}
	}
}

func TestHTTPBadHeaders(t *testing.T) {
	for name, value := range map[string]string{"X Y": "1", "X": "a\r\nB: c", "": "x", "Z": "a\x00"} {
		_, err := HTTP{Server: "srv", URL: "http://127.0.0.1/", Headers: map[string]string{name: value}}.Dial(t.Context(), newHeard())
		if !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (HTTP{URL: "http://127.0.0.1/"}).Dial(ctx, newHeard()); !fault.Is(err, fault.Canceled) {
		t.Errorf("%v", err)
	}
}

// Connections are pooled, and neither they nor goroutines outlive the conversation.
func TestHTTPLeavesNothing(t *testing.T) {
	var opened, closed atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			asStream(w)
			flush(w)
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(bufio.NewReader(r.Body))
		var id int64
		if _, err := fmt.Sscanf(string(body), `{"jsonrpc":"2.0","id":%d`, &id); err != nil {
			w.WriteHeader(202)
			return
		}
		if id%2 == 0 {
			asStream(w)
			fmt.Fprint(w, "data: ")
			respond(w, id)
			fmt.Fprint(w, "\n\n")
			return
		}
		if id == 99 {
			<-r.Context().Done()
			return
		}
		asJSON(w)
		respond(w, id)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	before := runtime.NumGoroutine()
	for range 5 {
		h := newHeard()
		conn, err := HTTP{Server: "srv", URL: server.URL}.Dial(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		greet(t, conn.(*httpConn))
		for id := range int64(40) {
			send(t, conn.(*httpConn), id+1)
			h.wait(t)
		}
		send(t, conn.(*httpConn), 99)
		time.Sleep(10 * time.Millisecond)
		conn.Close(time.Second, false)
		<-conn.Done()
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left, open := runtime.NumGoroutine()-before, opened.Load()-closed.Load()
		if left <= 0 && open == 0 {
			break
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines and %d connections are left:\n%s", left, open, buf[:runtime.Stack(buf, true)])
		}
	}
	if n := opened.Load(); n > 5*4 {
		t.Errorf("%d connections for 5 conversations of 40 requests in a row", n)
	}
}

func TestHTTPReceiverPanics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asJSON(w); respond(w, 1) }))
	defer server.Close()
	closed := make(chan *fault.Error, 1)
	conn, err := HTTP{Server: "srv", URL: server.URL}.Dial(t.Context(), panicking{closed})
	if err != nil {
		t.Fatal(err)
	}
	send(t, conn.(*httpConn), 1)
	if err := <-closed; err.Code != fault.Internal || !errors.Is(err, err) {
		t.Errorf("%v", err)
	}
	<-conn.Done()
}

type panicking struct{ closed chan *fault.Error }

func (panicking) Receive(*Message)          { panic("boom") }
func (p panicking) Closed(err *fault.Error) { p.closed <- err }
