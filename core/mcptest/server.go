package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"
)

// wire is how a running server reaches the world: memory.go and child.go have one each.
type wire interface {
	line(b []byte)      // one line of stdout
	stderr(text string) // as it is
	exit(code int)      // the process ends; code that runs on afterwards has no effect
	kill()              // as exit, by SIGKILL
	crashing() bool     // this process is one that Script.Crashes means
	stopReading()       // stdin is read no more
	describe() string   // for the env tool
}

// server is the protocol logic of one running script. handle is called by one
// goroutine in the order of arrival.
type server struct {
	script *Script
	tools  func() []string
	wire   wire
	log    *Log

	initialized atomic.Bool
	noisy       atomic.Bool     // Noise has begun
	discovered  bool            // handle's own
	done        context.Context // ends with the process

	mu       sync.Mutex
	listener string // the raw id of the open subscriptions/listen, or ""
	lists    int
	asked    int                             // ids of our own requests
	waits    map[string]chan json.RawMessage // by our id: the client's raw result or error
	calls    map[string]context.CancelFunc   // by the client's raw id
	tasks    map[string]*task
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func newServer(done context.Context, script *Script, tools func() []string, w wire, log *Log) *server {
	return &server{script: script, tools: tools, wire: w, log: log, done: done,
		waits: map[string]chan json.RawMessage{}, calls: map[string]context.CancelFunc{}}
}

// start does what comes before the first message; false means that the server has exited.
func (s *server) start() bool {
	if s.script.Stderr != "" {
		s.wire.stderr(s.script.Stderr)
	}
	if n := s.script.StderrBytes; n > 0 {
		s.wire.stderr(strings.Repeat("x", n))
	}
	for _, line := range s.script.Banner {
		s.wire.line([]byte(line))
	}
	if s.script.ExitAtStart != nil {
		s.wire.exit(*s.script.ExitAtStart)
		return false
	}
	return s.sleep(s.done, s.script.StartDelay)
}

// sleep waits, and reports whether ctx still lives.
func (s *server) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *server) handle(line []byte) {
	s.log.received(line)
	var m envelope
	if err := json.Unmarshal(line, &m); err != nil {
		s.send(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
		return
	}
	if m.Method == "" {
		s.mu.Lock()
		wait := s.waits[string(m.ID)]
		delete(s.waits, string(m.ID))
		s.mu.Unlock()
		if wait != nil {
			if m.Error != nil {
				wait <- m.Error
			} else {
				wait <- m.Result
			}
		}
		return
	}
	if len(m.ID) == 0 {
		s.notification(&m)
		return
	}
	if s.script.RequireInitialize && !s.initialized.Load() && m.Method != "initialize" {
		s.fail(m.ID, `{"code":-32600,"message":"initialize first"}`)
		return
	}
	if fault := s.checkModern(&m); fault != "" {
		s.fail(m.ID, fault)
		return
	}
	switch m.Method {
	case "server/discover":
		s.discover(&m)
	case "initialize":
		s.initialize(&m)
	case "ping":
		s.reply(m.ID, `{}`)
	case "tools/list":
		s.list(&m)
	case "subscriptions/listen":
		s.listen(&m)
	case "tools/call":
		ctx, cancel := context.WithCancel(s.done)
		s.mu.Lock()
		s.calls[string(m.ID)] = cancel
		s.mu.Unlock()
		go s.call(ctx, &m)
	case "tasks/get", "tasks/update", "tasks/cancel", "tasks/result":
		s.taskRequest(&m)
	default:
		if result, ok := s.script.Replies[m.Method]; ok {
			s.reply(m.ID, result)
			return
		}
		s.fail(m.ID, `{"code":-32601,"message":"Method not found"}`)
	}
}

func (s *server) notification(m *envelope) {
	switch m.Method {
	case "notifications/initialized":
		s.log.add(func(c *Counts) { c.Initialized++ })
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		s.log.cancelled(string(p.RequestID))
		s.mu.Lock()
		cancel := s.calls[string(p.RequestID)]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	}
}

func (s *server) modern() bool { return slices.Contains(s.script.versions(), Modern) }

// checkModern refuses what a server of the stateless era alone must refuse.
func (s *server) checkModern(m *envelope) string {
	if !s.modern() || len(s.script.versions()) > 1 || m.Method == "initialize" || s.script.Discover != DiscoverByVersions {
		return ""
	}
	var p struct {
		Meta struct {
			Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	if m.Params == nil || json.Unmarshal(m.Params, &p) != nil || len(p.Meta.Capabilities) == 0 || p.Meta.Capabilities[0] != '{' {
		return `{"code":-32602,"message":"_meta lacks the protocol's members"}`
	}
	if p.Meta.Version != Modern {
		return s.unsupported(p.Meta.Version)
	}
	return ""
}

func (s *server) unsupported(version string) string {
	return fmt.Sprintf(`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":%s,"requested":%s}}`,
		quoteAll(s.script.supported()), quote(version))
}

func (s *server) discover(m *envelope) {
	s.log.add(func(c *Counts) { c.Discovers++ })
	switch s.script.Discover {
	case DiscoverSilence:
		return
	case DiscoverExit:
		s.wire.exit(1)
		return
	case DiscoverInvalidParams:
		s.fail(m.ID, `{"code":-32602,"message":"Invalid params"}`)
		return
	case DiscoverMethodNotFound:
		s.fail(m.ID, `{"code":-32601,"message":"Method not found"}`)
		return
	case DiscoverUnsupported:
		s.fail(m.ID, s.unsupported(Modern))
		return
	case DiscoverOnSecond:
		if !s.discovered {
			s.discovered = true
			s.fail(m.ID, s.unsupported(Modern))
			return
		}
	}
	if !s.modern() && s.script.Discover == DiscoverByVersions {
		s.fail(m.ID, `{"code":-32601,"message":"Method not found"}`)
		return
	}
	s.sleep(s.done, s.script.InitializeDelay)
	s.reply(m.ID, s.discoverResult())
}

// discoverResult is the raw result of a modern script's server/discover.
func (s *server) discoverResult() string {
	return fmt.Sprintf(`{"resultType":"complete","supportedVersions":%s,"capabilities":%s,"instructions":%s,"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":%s,"version":"1.0.0","x":9007199254740993}}}`,
		quoteAll(s.script.supported()), s.script.capabilities(), quote(s.script.Instructions), quote(s.script.name()))
}

func (s *server) initialize(m *envelope) {
	s.log.add(func(c *Counts) { c.Initializes++ })
	s.initialized.Store(true)
	if s.script.SilentInitialize {
		return
	}
	if s.script.ExitAtInitialize != nil {
		s.wire.exit(*s.script.ExitAtInitialize)
		return
	}
	if !s.sleep(s.done, s.script.InitializeDelay) {
		return
	}
	var p struct {
		Version string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.fail(m.ID, `{"code":-32602,"message":"Invalid params"}`)
		return
	}
	version := s.script.AnswerVersion
	if version == "" {
		legacy := slices.DeleteFunc(slices.Clone(s.script.versions()), func(v string) bool { return v == Modern })
		if len(legacy) == 0 {
			s.fail(m.ID, s.unsupported(p.Version))
			return
		}
		version = legacy[0]
		if slices.Contains(legacy, p.Version) {
			version = p.Version
		}
	}
	s.reply(m.ID, fmt.Sprintf(`{"protocolVersion":%s,"capabilities":%s,"serverInfo":{"name":%s,"version":"1.0.0","x":9007199254740993},"instructions":%s}`,
		quote(version), s.script.capabilities(), quote(s.script.name()), quote(s.script.Instructions)))
}

func (s *server) list(m *envelope) {
	s.log.add(func(c *Counts) { c.Lists++ })
	if s.script.NoTools {
		s.fail(m.ID, `{"code":-32601,"message":"Method not found"}`)
		return
	}
	tools := s.tools() // those at the time of the request, not of the answer
	s.mu.Lock()
	s.lists++
	announce := s.lists <= s.script.ListChanged
	s.mu.Unlock()
	var p struct {
		Cursor *string `json:"cursor"`
	}
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &p) != nil {
		s.fail(m.ID, `{"code":-32602,"message":"Invalid params"}`)
		return
	}
	items, next, ok := s.script.page(tools, p.Cursor)
	if !ok {
		s.fail(m.ID, `{"code":-32602,"message":"Unknown cursor"}`)
		return
	}
	extra := next
	switch {
	case s.script.ListFields != "":
		extra += "," + s.script.ListFields
	case s.modern() && !s.initialized.Load(): // mandatory there
		extra += `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	if announce {
		s.listChanged()
	}
	result := `{"tools":[` + strings.Join(items, ",") + `]` + extra + `}`
	if s.script.ListDelay <= 0 {
		s.reply(m.ID, result)
		if s.wire.crashing() {
			s.wire.stderr("crashing as told\n")
			s.wire.exit(3)
		}
		return
	}
	id := slices.Clone(m.ID)
	go func() {
		if s.sleep(s.done, s.script.ListDelay) {
			s.reply(id, result)
		}
	}()
}

// listen answers by a notification; the request itself stays open.
func (s *server) listen(m *envelope) {
	if !s.modern() || s.script.NoListen {
		s.fail(m.ID, `{"code":-32601,"message":"Method not found"}`)
		return
	}
	s.mu.Lock()
	s.listener = string(m.ID)
	s.mu.Unlock()
	s.notify("notifications/subscriptions/acknowledged",
		`{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(m.ID)+`}}`)
}

// listChanged tells of changed tools: in the modern era only who listens.
func (s *server) listChanged() {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	switch {
	case listener != "":
		s.notify("notifications/tools/list_changed", `{"_meta":{"io.modelcontextprotocol/subscriptionId":`+listener+`}}`)
	case !s.modern() || s.initialized.Load():
		s.notify("notifications/tools/list_changed", "")
	}
}

// endListening ends the open subscriptions/listen request as a server may at any time.
func (s *server) endListening() {
	s.mu.Lock()
	listener := s.listener
	s.listener = ""
	s.mu.Unlock()
	if listener != "" {
		s.reply(json.RawMessage(listener), `{"resultType":"complete"}`)
	}
}

func (s *server) call(ctx context.Context, m *envelope) {
	defer func() {
		s.mu.Lock()
		cancel := s.calls[string(m.ID)]
		delete(s.calls, string(m.ID))
		s.mu.Unlock()
		cancel()
	}()
	c := &call{server: s, ctx: ctx, id: m.ID}
	if err := json.Unmarshal(m.Params, &c.params); err != nil {
		s.fail(m.ID, `{"code":-32602,"message":"Invalid params"}`)
		return
	}
	s.log.called(c.params.Name)
	if !s.sleep(ctx, s.script.CallDelay) {
		return
	}
	if result, ok := s.script.Results[c.params.Name]; ok {
		s.reply(m.ID, result)
		return
	}
	name := c.params.Name
	if do, ok := s.script.Do[name]; ok {
		name = do
	}
	do := behaviours[name]
	if do == nil {
		do = echo
	}
	do(c)
}

// ask sends a request to the client and waits for its raw result or error.
func (s *server) ask(ctx context.Context, method, params string) (json.RawMessage, bool) {
	s.mu.Lock()
	s.asked++
	// A string id that looks like a client's number: ids of the two directions are apart.
	id := fmt.Sprintf(`"%d"`, s.asked)
	wait := make(chan json.RawMessage, 1)
	s.waits[id] = wait
	s.mu.Unlock()
	if params != "" {
		params = `,"params":` + params
	}
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s%s}`, id, quote(method), params))
	select {
	case result := <-wait:
		return result, true
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.waits, id)
		s.mu.Unlock()
		if s.done.Err() == nil {
			s.notify("notifications/cancelled", `{"requestId":`+id+`,"reason":"the call was cancelled"}`)
		}
		return nil, false
	}
}

func (s *server) notify(method, params string) {
	if params != "" {
		params = `,"params":` + params
	}
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%s%s}`, quote(method), params))
}

func (s *server) reply(id json.RawMessage, result string) {
	if !s.script.NoiseLate || s.noisy.Swap(true) { // the first answer is to server/discover or initialize
		for _, line := range s.script.Noise {
			s.wire.line([]byte(line))
		}
	}
	s.send(`{"jsonrpc":"2.0","id":` + s.id(id) + `,"result":` + result + `}`)
}

func (s *server) fail(id json.RawMessage, rpc string) {
	s.send(`{"jsonrpc":"2.0","id":` + s.id(id) + `,"error":` + rpc + `}`)
}

func (s *server) id(id json.RawMessage) string {
	if s.script.StringIDs && !bytes.HasPrefix(id, []byte{'"'}) {
		return `"` + string(id) + `"`
	}
	return string(id)
}

func (s *server) send(message string) { s.wire.line([]byte(message)) }

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
