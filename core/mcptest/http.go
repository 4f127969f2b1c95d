package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/safe"
)

// HTTP runs a Script as a server on a socket of this machine: streamable HTTP at
// URL, and the HTTP+SSE of 2024-11-05 at URL+"/sse" when SSE is set. Set its fields
// before the first request.
type HTTP struct {
	JSON  bool // answer with one JSON document; notifications then need the GET stream
	NoGet int  // the status that GET is refused with; 0: GET opens the server's stream
	SSE   bool // speak HTTP+SSE alone

	Newline     string // ends a line of an event stream; "": CRLF
	ByteByByte  bool   // event streams are written one byte at a time
	ExpireAfter int    // a session is forgotten after that many tools/call; 0: never
	OneSession  bool   // initialize is refused as "already initialized" until the last session was deleted or forgotten
	Cut         bool   // a tools/call is carried out, and its connection then closed without an answer
	Status      int    // every POST is refused with this status
	// Unauthorized refuses every request with 401 and names metadata that never comes:
	// the request for it is accepted and not answered.
	Unauthorized bool
	// Intercept may answer a request itself, and then returns true; body is the POST's.
	Intercept func(w http.ResponseWriter, r *http.Request, body []byte) bool

	URL      string
	Server   *http.Server
	Listener net.Listener

	script Script
	log    Log
	busy   sync.WaitGroup // requests
	gone   chan struct{}  // closed by Close

	mu       sync.Mutex
	sessions map[string]*httpServer // by Mcp-Session-Id; "": the modern era's
	made     int
	gets     []http.Header
	posts    []http.Header
	deletes  []http.Header
}

// NewHTTP starts a server that runs s on a free port of the loopback interface.
// Close it.
func NewHTTP(s Script) *HTTP {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // of a test: as httptest does
	}
	h := NewHTTPOn(l, s)
	h.Serve()
	return h
}

// NewHTTPOn is NewHTTP on a listener of the caller, which Close closes. It serves
// from Serve on.
func NewHTTPOn(l net.Listener, s Script) *HTTP {
	h := &HTTP{script: s, sessions: map[string]*httpServer{}, Listener: l, gone: make(chan struct{})}
	if s.LogFile != "" {
		file, err := os.OpenFile(s.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		h.log.file = file
	}
	h.Server = &http.Server{Handler: http.HandlerFunc(h.serve), ErrorLog: log.New(io.Discard, "", 0)}
	h.URL = "http://" + l.Addr().String() + "/mcp"
	return h
}

// Serve begins to accept connections, on a goroutine.
func (h *HTTP) Serve() {
	safe.Go(nil, func() { h.Server.Serve(h.Listener) })
}

// Close ends the server at once, with what is open, and waits for its requests.
func (h *HTTP) Close() {
	h.mu.Lock()
	select {
	case <-h.gone:
	default:
		close(h.gone)
	}
	h.mu.Unlock()
	h.Forget()
	h.Listener.Close()
	h.Server.Close()
	h.busy.Wait()
	if h.log.file != nil {
		h.log.file.Close()
	}
}

// Counts gives what was counted so far.
func (h *HTTP) Counts() Counts { return h.log.Counts() }

// Requests gives the headers of all requests so far, by method; not of a server with a LogFile.
func (h *HTTP) Requests() (posts, gets, deletes []http.Header) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.posts), slices.Clone(h.gets), slices.Clone(h.deletes)
}

// Forget makes the server know no session any more, as after a restart.
func (h *HTTP) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.sessions {
		delete(h.sessions, id)
		s.end()
	}
}

// Notify sends a notification in every live session.
func (h *HTTP) Notify(method, params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if method == "notifications/tools/list_changed" {
			s.server.listChanged()
		} else {
			s.server.notify(method, params)
		}
	}
}

// httpServer is one session.
type httpServer struct {
	server *server
	log    *Log
	ctx    context.Context
	cancel context.CancelFunc
	handle sync.Mutex

	mu      sync.Mutex
	waiting map[string]chan []byte // by raw id: the stream of an open POST
	stream  chan []byte            // of GET, or of HTTP+SSE
	all     bool                   // HTTP+SSE: everything goes to stream
	calls   int                    // tools/call so far
}

func (h *HTTP) open(id string) *httpServer {
	s := &httpServer{log: &h.log, waiting: map[string]chan []byte{}, stream: make(chan []byte, 10_000), all: h.SSE}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.server = newServer(s.ctx, &h.script, h.script.tools, s, &h.log)
	h.log.opened()
	h.mu.Lock()
	h.sessions[id] = s
	h.mu.Unlock()
	return s
}

func (h *HTTP) find(id string) *httpServer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

func (s *httpServer) end() {
	s.cancel()
	s.log.closed()
}

// line sends a message where it belongs: to the POST that it is about, else to the stream.
func (s *httpServer) line(b []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Token json.RawMessage `json:"progressToken"`
			Meta  struct {
				Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
			} `json:"_meta"`
		} `json:"params"`
	}
	to := s.stream
	if json.Unmarshal(b, &m) == nil && !s.all {
		about := m.Params.Token
		if m.Method == "" {
			about = bytes.Trim(m.ID, `"`)
		} else if m.Params.Meta.Subscription != nil {
			about = m.Params.Meta.Subscription
		}
		s.mu.Lock()
		if post := s.waiting[string(about)]; post != nil {
			to = post
		}
		s.mu.Unlock()
	}
	select {
	case to <- bytes.Clone(b):
	case <-s.ctx.Done():
	}
}

func (s *httpServer) stderr(string)    {}
func (s *httpServer) exit(int)         { s.cancel() }
func (s *httpServer) kill()            { s.cancel() }
func (s *httpServer) crashing() bool   { return false }
func (s *httpServer) stopReading()     {}
func (s *httpServer) describe() string { return "{}" }

func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) {
	h.busy.Add(1)
	defer h.busy.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	list := map[string]*[]http.Header{"GET": &h.gets, "POST": &h.posts, "DELETE": &h.deletes}[r.Method]
	if list != nil {
		if h.log.file == nil { // else it may run for long, and nobody asks
			*list = append(*list, r.Header.Clone())
		}
	}
	h.mu.Unlock()
	if h.Intercept != nil && h.Intercept(w, r, body) {
		return
	}
	if h.Unauthorized {
		h.unauthorized(w, r)
		return
	}
	if r.Method == "POST" && h.Status != 0 {
		w.WriteHeader(h.Status)
		return
	}
	switch {
	case h.SSE:
		h.serveSSE(w, r, body)
	case r.Method == "POST":
		h.post(w, r, body)
	case r.Method == "GET" && h.NoGet != 0:
		w.WriteHeader(h.NoGet)
	case r.Method == "GET":
		if s := h.session(w, r); s != nil {
			h.stream(w, r, s, s.stream, "")
		}
	case r.Method == "DELETE":
		if s := h.session(w, r); s != nil {
			h.mu.Lock()
			delete(h.sessions, r.Header.Get("Mcp-Session-Id"))
			h.mu.Unlock()
			s.end()
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// session finds the session of a legacy request, or refuses it.
func (h *HTTP) session(w http.ResponseWriter, r *http.Request) *httpServer {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		refuse(w, http.StatusBadRequest, `{"code":-32000,"message":"Bad Request: Mcp-Session-Id header is required"}`)
		return nil
	}
	s := h.find(id)
	if s == nil {
		refuse(w, http.StatusNotFound, `{"code":-32001,"message":"Session not found"}`)
	}
	return s
}

func refuse(w http.ResponseWriter, status int, rpc string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":%s}`, rpc)
}

func (h *HTTP) post(w http.ResponseWriter, r *http.Request, body []byte) {
	var m envelope
	if json.Unmarshal(body, &m) != nil {
		refuse(w, http.StatusBadRequest, `{"code":-32700,"message":"parse error"}`)
		return
	}
	modern := h.modernRequest(r)
	var s *httpServer
	switch {
	case modern:
		if why := checkHeaders(r.Header, &m); why != "" {
			refuse(w, http.StatusBadRequest, `{"code":-32020,"message":`+quote(why)+`}`)
			return
		}
		if s = h.find(""); s == nil {
			s = h.open("")
		}
	case m.Method == "initialize":
		h.mu.Lock()
		if h.OneSession && len(h.sessions) > 0 {
			h.mu.Unlock()
			refuse(w, http.StatusBadRequest, `{"code":-32600,"message":"Invalid Request: Server already initialized"}`)
			return
		}
		h.made++
		id := fmt.Sprintf("session-%d-%d", h.made, time.Now().UnixNano())
		h.mu.Unlock()
		s = h.open(id)
		w.Header().Set("Mcp-Session-Id", id)
	default:
		if s = h.session(w, r); s == nil {
			return
		}
	}
	if len(m.ID) == 0 || m.Method == "" {
		s.take(body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := make(chan []byte, 10_000)
	s.mu.Lock()
	s.waiting[string(m.ID)] = answer
	s.mu.Unlock()
	cut := h.Cut && m.Method == "tools/call"
	defer func() {
		s.mu.Lock()
		if !cut { // else the answer would take the GET stream
			delete(s.waiting, string(m.ID))
		}
		s.mu.Unlock()
		if modern && r.Context().Err() != nil { // the end of the stream is the cancellation
			s.server.notification(&envelope{Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":` + string(m.ID) + `}`)})
		}
	}()
	if m.Method == "tools/call" {
		defer h.expire(s, r)
	}
	s.take(body)
	if cut {
		panic(http.ErrAbortHandler)
	}
	if h.JSON || modern && m.Method != "subscriptions/listen" && m.Method != "tools/call" {
		whole(w, r, s, answer)
		return
	}
	h.stream(w, r, s, answer, string(m.ID))
}

// expire forgets a session that has answered its number of calls.
func (h *HTTP) expire(s *httpServer, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.calls++; h.ExpireAfter > 0 && s.calls >= h.ExpireAfter {
		delete(h.sessions, r.Header.Get("Mcp-Session-Id"))
		s.end()
	}
}

// unauthorized names metadata and never gives it.
func (h *HTTP) unauthorized(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		select {
		case <-r.Context().Done():
		case <-h.gone:
		}
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="`+strings.TrimSuffix(h.URL, "/mcp")+`/.well-known/oauth-protected-resource/mcp"`)
	w.WriteHeader(http.StatusUnauthorized)
}

func (h *HTTP) modernRequest(r *http.Request) bool {
	return r.Header.Get("Mcp-Protocol-Version") == Modern && slices.Contains(h.script.versions(), Modern)
}

// take hands one message to the script, one at a time.
func (s *httpServer) take(body []byte) {
	s.handle.Lock()
	defer s.handle.Unlock()
	s.server.handle(body)
}

// checkHeaders compares what the modern era wants in the headers with the body.
func checkHeaders(h http.Header, m *envelope) string {
	var p struct {
		Name, URI string
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Meta.Version != h.Get("Mcp-Protocol-Version") {
		return "Mcp-Protocol-Version is not that of _meta"
	}
	if h.Get("Mcp-Method") != m.Method {
		return "Mcp-Method is not the method"
	}
	if m.Method == "tools/call" && !strings.HasPrefix(h.Get("Mcp-Name"), "=?base64?") && h.Get("Mcp-Name") != p.Name {
		return "Mcp-Name is not the name"
	}
	return ""
}

// whole answers by one document: the response, whatever came before it.
func whole(w http.ResponseWriter, r *http.Request, s *httpServer, answer chan []byte) {
	for {
		select {
		case b := <-answer:
			var m envelope
			if json.Unmarshal(b, &m) != nil || m.Method != "" {
				continue
			}
			w.Header().Set("Content-Type", "application/json")
			switch {
			case bytes.Contains(m.Error, []byte("-32022")):
				w.WriteHeader(http.StatusBadRequest)
			case bytes.Contains(m.Error, []byte("-32601")):
				w.WriteHeader(http.StatusNotFound)
			}
			w.Write(b)
			return
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// stream sends events until the response to id, or for ever.
func (h *HTTP) stream(w http.ResponseWriter, r *http.Request, s *httpServer, from chan []byte, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	for {
		select {
		case b := <-from:
			h.event(w, "message", b)
			var m envelope
			if id != "" && json.Unmarshal(b, &m) == nil && m.Method == "" {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// event writes one event of a stream.
func (h *HTTP) event(w http.ResponseWriter, name string, data []byte) {
	newline := h.Newline
	if newline == "" {
		newline = "\r\n"
	}
	flush := http.NewResponseController(w)
	text := fmt.Appendf(nil, "event: %s%sdata: %s%s%s", name, newline, data, newline, newline)
	if !h.ByteByByte {
		w.Write(text)
		flush.Flush()
		return
	}
	for i := range text {
		w.Write(text[i : i+1])
		flush.Flush()
	}
}

// serveSSE is the transport of 2024-11-05.
func (h *HTTP) serveSSE(w http.ResponseWriter, r *http.Request, body []byte) {
	id := r.URL.Query().Get("session")
	switch {
	case r.Method == "GET" && r.URL.Path == "/mcp":
		h.mu.Lock()
		h.made++
		id = fmt.Sprint(h.made)
		h.mu.Unlock()
		s := h.open(id)
		defer s.end()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": welcome\n\n")
		h.event(w, "endpoint", []byte("/messages?session="+id))
		h.stream(w, r, s, s.stream, "")
	case r.Method == "POST" && r.URL.Path == "/messages":
		s := h.find(id)
		if s == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		s.take(body)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
