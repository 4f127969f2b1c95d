package session

import (
	"context"

	"slices"
	"strings"

	"github.com/goccy/go-json"
	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// handshake is the transport that mcp-go's client sees. It sends the client's
// requests under ids of the session and judges the answers: mcp-go takes any
// discover result for a modern server's, and any failure for a legacy one's.
type handshake struct {
	s   *Session
	how begin

	probe  *pending // the last server/discover
	probed chan outcome

	modern bool         // settled
	fault  *fault.Error // why it cannot succeed any more, better than what mcp-go makes of it
}

func (h *handshake) Start(context.Context) error                                       { return nil }
func (h *handshake) SetNotificationHandler(func(notification mcp.JSONRPCNotification)) {}
func (h *handshake) Close() error                                                      { return nil }
func (h *handshake) GetSessionId() string                                              { return "" }

func (h *handshake) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	return h.s.Notify(ctx, n.Method, nil)
}

func (h *handshake) SendRequest(ctx context.Context, request mcptransport.JSONRPCRequest) (*mcptransport.JSONRPCResponse, error) {
	switch request.Method {
	case string(mcp.MethodServerDiscover):
		return h.discover(ctx)
	case string(mcp.MethodInitialize):
		return h.initialize(ctx, request.Params)
	}
	return nil, h.s.errorf(fault.Internal, fault.StageProtocol, "the handshake sent %s", request.Method)
}

// fail remembers err for Connect, which gets it past mcp-go unchanged.
func (h *handshake) fail(err *fault.Error) error {
	h.fault = err
	return err
}

// era is what an answer to the probe says.
type era int

const (
	eraModern era = iota
	eraLegacy
	eraAgain // refused, but the server names our version: some servers need to be asked twice
	eraNone  // no version in common
	eraLost  // the connection is gone
)

func judge(result []byte, err error) era {
	if err == nil {
		return judgeVersions(supported(result))
	}
	f := fault.From(err)
	switch {
	case isRPC(f, mcp.UNSUPPORTED_PROTOCOL_VERSION):
		if data, ok := f.Data.RPCData.(json.RawMessage); ok {
			if e := judgeVersions(supported(data)); e != eraModern {
				return e
			}
			return eraAgain
		}
		return eraLegacy
	case f.Code == fault.RPCError, f.Code == fault.Protocol, f.Code == fault.TooLarge, f.Code == fault.HTTPStatus && tellsEra(f):
		return eraLegacy
	}
	return eraLost
}

func judgeVersions(theirs []string) era {
	isOurs := func(v string) bool { return slices.Contains(mcp.ValidProtocolVersions, v) }
	switch {
	case slices.Contains(theirs, modernVersion):
		return eraModern
	case len(theirs) == 0 || slices.ContainsFunc(theirs, isOurs):
		return eraLegacy
	}
	return eraNone
}

func (h *handshake) discover(ctx context.Context) (*mcptransport.JSONRPCResponse, error) {
	if h.how == beginModern {
		h.accept(h.s.cfg.Known.Discover)
		return discovered, nil
	}
	again := false
	for {
		got, err := h.ask(ctx)
		if err != nil { // silence: initialize goes out beside the probe, which may be answered yet
			return nil, err
		}
		switch judge(got.result, got.err) {
		case eraModern:
			h.accept(got.result)
			return discovered, nil
		case eraAgain:
			if !again {
				again = true
				continue
			}
		case eraNone:
			return nil, h.fail(h.unsupported(got.result, got.err))
		case eraLost:
			return nil, h.fail(fault.From(got.err))
		}
		if h.s.cfg.Pin != "" {
			return nil, h.fail(h.unsupported(got.result, got.err))
		}
		return refused, nil
	}
}

// What mcp-go is told of an answer to the probe.
var (
	discovered = &mcptransport.JSONRPCResponse{Result: json.RawMessage(`{"supportedVersions":["` + modernVersion + `"],"capabilities":{}}`)}
	refused    = &mcptransport.JSONRPCResponse{Error: &mcp.JSONRPCErrorDetails{Code: mcp.METHOD_NOT_FOUND, Message: "refused"}}
)

// ask sends the probe. It stays open when ctx ends: a server that starts slowly may
// answer it after initialize was sent.
func (h *handshake) ask(ctx context.Context) (outcome, error) {
	h.forgetProbe()
	h.probed = make(chan outcome, 1)
	probed := h.probed
	h.probe = &pending{s: h.s, silent: true, modern: true, call: Call{Method: string(mcp.MethodServerDiscover)}}
	h.probe.call.Done = func(result []byte, err error) { probed <- outcome{slices.Clone(result), err} }
	h.s.start(h.probe)
	select {
	case got := <-probed:
		return got, nil
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	}
}

func (h *handshake) forgetProbe() {
	if h.probe != nil {
		h.probe.cancel()
	}
}

// accept settles on the modern era.
func (h *handshake) accept(result []byte) {
	h.modern = true
	h.s.modern.Store(true)
	h.settle(result)
}

// settle keeps what the answer tells, before "initialized" lets the server make requests.
func (h *handshake) settle(result []byte) {
	info := readInfo(result, h.modern)
	info.PID = h.s.conn.Info().PID
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.info = info
}

func (h *handshake) initialize(ctx context.Context, proposed any) (*mcptransport.JSONRPCResponse, error) {
	s := h.s
	if h.fault != nil {
		return nil, h.fault
	}
	if err := ctx.Err(); err != nil {
		return nil, h.fail(s.name(fault.From(err)))
	}
	if s.cfg.Pin == modernVersion { // the probe was not answered at all
		return nil, h.fail(h.unsupported(nil, nil))
	}
	encoded, err := json.Marshal(proposed)
	if err != nil {
		return nil, err
	}
	version := rawjson.Get(encoded, "protocolVersion")
	params := append(append([]byte(`{"protocolVersion":`), version...), `,"capabilities":`...)
	params = append(appendRaw(params, s.cfg.Capabilities), `,"clientInfo":`...)
	params = append(appendClientInfo(params, s.cfg.ClientInfo), '}')
	result, err := s.ask(ctx, &pending{s: s, silent: true, call: Call{Method: string(mcp.MethodInitialize), Params: params, Timeout: s.cfg.Timeout}})
	if err != nil {
		if h.answeredLate() {
			return nil, err // run sees that the era is settled
		}
		if isRPC(err, mcp.UNSUPPORTED_PROTOCOL_VERSION) {
			return nil, h.fail(h.unsupported(nil, err))
		}
		return nil, h.fail(fault.From(err))
	}
	if !json.Valid(result) {
		return nil, h.fail(s.errorf(fault.Protocol, fault.StageDecode, "server %q answered initialize with invalid JSON", s.cfg.Server))
	}
	answered, _ := rawjson.String(rawjson.Get(result, "protocolVersion"))
	if !slices.Contains(mcp.ValidProtocolVersions, answered) || s.cfg.Pin != "" && answered != s.cfg.Pin {
		return nil, h.fail(h.unsupported(result, nil))
	}
	h.settle(result)
	return &mcptransport.JSONRPCResponse{Result: json.RawMessage(`{"protocolVersion":"` + answered + `","capabilities":{},"serverInfo":{"name":"","version":""}}`)}, nil
}

// answeredLate takes an answer to the probe that came after its time.
func (h *handshake) answeredLate() bool {
	select {
	case got := <-h.probed: // nil, and never ready, without a probe
		if judge(got.result, got.err) == eraModern {
			h.accept(got.result)
		}
	default:
	}
	return h.modern
}

// unsupported names the versions of both sides.
func (h *handshake) unsupported(result []byte, err error) *fault.Error {
	theirs := supported(result)
	if v, ok := rawjson.String(rawjson.Get(result, "protocolVersion")); ok {
		theirs = append(theirs, v)
	}
	if f := fault.From(err); f != nil && f.Data != nil {
		if data, ok := f.Data.RPCData.(json.RawMessage); ok {
			theirs = append(theirs, supported(data)...)
		}
	}
	speaks := "does not say which protocol versions it speaks"
	if len(theirs) > 0 {
		speaks = "speaks protocol version " + clip(strings.Join(theirs, ", "), 200)
	}
	wanted := "mcprt speaks " + ours()
	if pin := h.s.cfg.Pin; pin != "" {
		wanted = "its config demands " + pin
	}
	return h.s.errorf(fault.UnsupportedVersion, fault.StageProtocol, "server %q %s; %s", h.s.cfg.Server, speaks, wanted)
}

// readInfo reads the raw result of server/discover (modern) or initialize.
func readInfo(result []byte, modern bool) Info {
	i := Info{Capabilities: rawjson.Get(result, "capabilities")}
	i.Instructions, _ = rawjson.String(rawjson.Get(result, "instructions"))
	if modern {
		i.Verdict = Verdict{ProtocolVersion: modernVersion, Modern: true, Discover: result}
		i.ServerInfo = rawjson.Get(rawjson.Get(result, "_meta"), mcp.MetaKeyServerInfo)
		return i
	}
	i.ProtocolVersion, _ = rawjson.String(rawjson.Get(result, "protocolVersion"))
	i.ServerInfo = rawjson.Get(result, "serverInfo")
	return i
}
