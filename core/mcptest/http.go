package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"
)

// HTTP runs a Script as a server on a socket of this machine: streamable HTTP at
// URL, and the HTTP+SSE of 2024-11-05 at URL+"/sse" when SSE is set. Set its fields
// before the first request.
type HTTP struct {
	JSON  bool // answer with one JSON document; notifications then need the GET stream
	NoGet int  // the status that GET is refused with; 0: GET opens the server's stream
	SSE   bool // speak HTTP+SSE alone
	// Intercept may answer a request itself, and then returns true; body is the POST's.
	Intercept func(w http.ResponseWriter, r *http.Request, body []byte) bool

	URL    string
	Server *httptest.Server

	script Script
	log    Log

	mu       sync.Mutex
	sessions map[string]*httpServer // by Mcp-Session-Id; "": the modern era's
	made     int
	gets     []http.Header
	posts    []http.Header
	deletes  []http.Header
}

// NewHTTP starts a server that runs s. Close it.
func NewHTTP(s Script) *HTTP {
	h := &HTTP{script: s, sessions: map[string]*httpServer{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.Server.Start()
	h.URL = h.Server.URL + "/mcp"
	return h
}

// Close ends the server at once, with what is open.
func (h *HTTP) Close() {
	h.Forget()
	h.Server.CloseClientConnections()
	h.Server.Close()
}

// Counts gives what was counted so far.
func (h *HTTP) Counts() Counts { return h.log.Counts() }

// Requests gives the headers of all requests so far, by method.
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

// Each runs do with every live session's notify function.
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
func (s *httpServer) stopReading()     {}
func (s *httpServer) describe() string { return "{}" }

func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	list := map[string]*[]http.Header{"GET": &h.gets, "POST": &h.posts, "DELETE": &h.deletes}[r.Method]
	if list != nil {
		*list = append(*list, r.Header.Clone())
	}
	h.mu.Unlock()
	if h.Intercept != nil && h.Intercept(w, r, body) {
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
			stream(w, r, s, s.stream, "")
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
	defer func() {
		s.mu.Lock()
		delete(s.waiting, string(m.ID))
		s.mu.Unlock()
		if modern && r.Context().Err() != nil { // the end of the stream is the cancellation
			s.server.notification(&envelope{Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":` + string(m.ID) + `}`)})
		}
	}()
	s.take(body)
	if h.JSON || modern && m.Method != "subscriptions/listen" && m.Method != "tools/call" {
		whole(w, r, s, answer)
		return
	}
	stream(w, r, s, answer, string(m.ID))
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
func stream(w http.ResponseWriter, r *http.Request, s *httpServer, from chan []byte, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	flush.Flush()
	for {
		select {
		case b := <-from:
			fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", b)
			flush.Flush()
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
		fmt.Fprintf(w, ": welcome\n\nevent: endpoint\ndata: /messages?session=%s\n\n", id)
		stream(w, r, s, s.stream, "")
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
