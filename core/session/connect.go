package session

import (
	"context"

	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/transport"
)

const modernVersion = mcp.ProtocolVersion20260728

// begin is how a connection's conversation opens. Each is tried once at most.
type begin int

const (
	beginProbe  begin = iota // server/discover, then initialize if the server does not know it
	beginLegacy              // initialize at once
	beginModern              // nothing: the era and the discover result are known
)

// defaultLimits hold where a limit is 0.
var defaultLimits = Limits{Pages: 1000, Tools: 50_000}

// legacyFor is how long a server is taken to speak what has initialize alone. One that
// was upgraded since answers initialize for ever, so it has to be asked again some day;
// a modern verdict that is out of date shows at once.
const legacyFor = 7 * 24 * time.Hour

// recent tells whether a verdict of then still holds; one from the future, by a clock
// that was set back, does not.
func recent(then time.Time) bool {
	age := time.Since(then)
	return age >= 0 && age < legacyFor
}

// abortGrace is for a server that is still in its handshake.
const abortGrace = 500 * time.Millisecond

// Connect opens a connection and settles the protocol version. It dials again when
// a server dies of the probe, or when cfg.Known turns out wrong, once each. On
// failure, and when ctx ends, everything that it opened has ended when it returns,
// so that a successor never overlaps.
//
// A Known verdict that fails by a timeout is not tried otherwise: drop it for the next attempt.
func Connect(ctx context.Context, cfg Config) (s *Session, err error) {
	defer func() {
		if v := recover(); v != nil {
			f := fault.Caught(v, debug.Stack())
			f.Server = cfg.Server
			s, err = nil, f
		}
	}()
	safe.Point("session.connect")
	cfg, how, known, err := plan(cfg)
	if err != nil {
		return nil, err
	}
	tried := map[begin]bool{}
	started := time.Now()
	for {
		tried[how] = true
		s, end := attempt(ctx, cfg, how)
		if s != nil {
			asked := time.Now()
			if known && len(tried) == 1 { // an answer that is as old as it was
				asked = cfg.Known.Asked
			}
			s.mu.Lock()
			s.info.Asked = asked
			s.mu.Unlock()
			return s, nil
		}
		next := how
		switch {
		case ctx.Err() != nil || end.final():
		case how == beginProbe && end.diedOfProbe:
			next = beginLegacy
		case known && how != beginProbe:
			next = beginProbe
		}
		if tried[next] {
			return nil, explain(cfg.Server, end.err, end.at.Sub(started))
		}
		how = next
	}
}

// plan checks cfg and decides how to begin; known tells that this relies on an earlier verdict.
func plan(cfg Config) (_ Config, how begin, known bool, err error) {
	if cfg.Limits.Pages <= 0 {
		cfg.Limits.Pages = defaultLimits.Pages
	}
	if cfg.Limits.Tools <= 0 {
		cfg.Limits.Tools = defaultLimits.Tools
	}
	if len(cfg.Capabilities) == 0 {
		cfg.Capabilities = []byte(`{}`)
	}
	if cfg.Pin != "" && !slices.Contains(mcp.ValidProtocolVersions, cfg.Pin) {
		f := fault.New(fault.UnsupportedVersion, fault.StageConfig, "the config of server %q demands protocol version %q; mcprt speaks %s",
			cfg.Server, clip(cfg.Pin, 40), ours())
		f.Server = cfg.Server
		return cfg, 0, false, f
	}
	k := cfg.Known
	switch {
	case cfg.Legacy, cfg.Pin != "" && !mcp.IsModernProtocol(cfg.Pin):
		return cfg, beginLegacy, false, nil
	case k != nil && k.Modern && k.ProtocolVersion == modernVersion && slices.Contains(supported(k.Discover), modernVersion):
		return cfg, beginModern, true, nil
	case k != nil && !k.Modern && cfg.Pin == "" && recent(k.Asked) && slices.Contains(mcp.ValidProtocolVersions, k.ProtocolVersion):
		return cfg, beginLegacy, true, nil
	}
	return cfg, beginProbe, false, nil
}

// ending is how an attempt failed.
type ending struct {
	err         *fault.Error
	at          time.Time
	diedOfProbe bool // the connection ended by itself after the probe had reached it
}

// final tells that another way to begin would fail alike.
func (e *ending) final() bool {
	switch e.err.Code {
	case fault.Timeout, fault.Canceled, fault.SpawnFailed, fault.ConnectFailed, fault.NeedsAuth, fault.Internal, fault.Config:
		return true
	case fault.HTTPStatus:
		return !tellsEra(e.err)
	}
	return false
}

// tellsEra tells the refusals over HTTP that may mean "I do not know this method"
// from those that are about the server or about us.
func tellsEra(err *fault.Error) bool {
	return err.Data != nil && err.Data.HTTPStatus/100 == 4 && err.Data.HTTPStatus != 403 && !err.Retryable
}

// attempt dials once. One of its results is nil.
func attempt(ctx context.Context, cfg Config, how begin) (*Session, *ending) {
	s := newSession(cfg)
	conn, err := cfg.Dial(ctx, s)
	s.conn = conn
	s.carrier, _ = conn.(transport.Carrier)
	close(s.dialled)
	if err != nil {
		s.conn = nil
		s.end(err)
		return nil, &ending{err: s.name(fault.From(err)), at: time.Now()}
	}
	h := &handshake{s: s, how: how}
	err = h.run(ctx)
	if err == nil {
		if err = s.goLive(); err == nil {
			return s, nil
		}
	}
	return nil, h.abort(ctx, fault.From(err))
}

// goLive starts the notifications of a session that Connect is about to return.
func (s *Session) goLive() error {
	s.mu.Lock()
	if lost := s.lost; lost != nil {
		s.mu.Unlock()
		return lost.Clone()
	}
	s.mu.Unlock()
	go s.dispatch()
	s.listen()
	return nil
}

// run performs the handshake with mcp-go's client. What the client is given are
// answers stripped to what it decides upon; the raw ones are kept for Info.
func (h *handshake) run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Caught(v, debug.Stack())
		}
	}()
	defer h.forgetProbe()
	cfg := &h.s.cfg
	probe := cfg.ProbeTimeout
	if probe <= 0 {
		probe = -1 // mcp-go's word for none
	}
	options := []client.ClientOption{client.WithDiscoverTimeout(probe)}
	switch {
	case cfg.Pin != "":
		options = append(options, client.WithProtocolVersion(cfg.Pin))
	case h.how == beginLegacy:
		options = append(options, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	c := client.NewClient(h, options...)
	if err := c.Start(ctx); err != nil {
		return err
	}
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil && !h.modern {
		if h.fault != nil {
			return h.fault
		}
		return err
	}
	if h.how == beginModern {
		return h.firstPage(ctx)
	}
	return nil
}

// firstPage is the first request of a connection whose era was known, and the test
// of that knowledge.
func (h *handshake) firstPage(ctx context.Context) error {
	s := h.s
	if !s.offers("tools") {
		return nil
	}
	page := s.open(ctx, &pending{s: s, call: Call{Method: "tools/list", Timeout: s.cfg.Timeout}})
	s.listen() // right behind it, so that no change falls between the two
	result, err := page()
	if err != nil {
		return err
	}
	// Both members are mandatory in the modern era: without either, this is a legacy
	// server that did not insist on initialize.
	if rawjson.Get(result, "resultType") == nil && rawjson.Get(result, "ttlMs") == nil {
		return s.errorf(fault.Protocol, fault.StageProtocol, "server %q does not speak protocol version %s any more", s.cfg.Server, modernVersion)
	}
	s.mu.Lock()
	s.first = result
	s.mu.Unlock()
	return nil
}

// lossPatience is how long the reason of a broken connection may follow the break.
const lossPatience = 500 * time.Millisecond

// abort ends the connection and finds the best reason why it was not to be.
func (h *handshake) abort(ctx context.Context, err *fault.Error) *ending {
	s, at := h.s, time.Now()                                                                 // the kill is not a part of how long it took
	broken := (err.Code == fault.Closed || NeverWritten(err)) && err.Code != fault.NeedsAuth // that is a whole answer
	if broken {
		wait := time.NewTimer(lossPatience)
		defer wait.Stop()
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
		case <-wait.C:
		}
	}
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	s.conn.Close(abortGrace, true)
	<-s.conn.Done()
	s.mu.Lock()
	lost := s.lost
	probed := h.probe != nil && h.probe.sent
	s.mu.Unlock()
	s.end(err)
	if lost != nil && over && broken {
		err = lost
	}
	return &ending{err: err, at: at, diedOfProbe: over && probed && s.conn.Begun(h.probe.seq)}
}

// explain makes a handshake's error say which server, when, and after how long.
func explain(server string, err *fault.Error, took time.Duration) *fault.Error {
	e := err.Clone()
	e.Server = server
	if e.Stage == fault.StageReceive || e.Stage == fault.StageSend || e.Stage == "" {
		e.Stage = fault.StageConnect
	}
	switch e.Code {
	case fault.Canceled:
		e.Message = fmt.Sprintf("connecting to server %q was cancelled after %d ms", server, took.Milliseconds())
	case fault.Exited, fault.Closed, fault.SpawnFailed, fault.ConnectFailed:
		name := fmt.Sprintf("server %q", server)
		who := " to " + name
		if strings.Contains(e.Message, name) { // one name a sentence
			who = ""
		}
		e.Message = fmt.Sprintf("connecting%s failed after %d ms: %s", who, took.Milliseconds(), e.Message)
	case fault.Timeout:
		if e.Data == nil {
			e.Data = &fault.Data{}
		}
		if e.Data.TimeoutMs == 0 {
			e.Data.TimeoutMs = took.Milliseconds()
		}
	}
	return e
}

// ours names the versions that we speak.
func ours() string { return strings.Join(mcp.ValidProtocolVersions, ", ") }

// supported reads supportedVersions of a discover result, or "supported" of an error's data.
func supported(raw []byte) []string {
	var v struct {
		Versions  []string `json:"supportedVersions"`
		Supported []string `json:"supported"`
	}
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return append(v.Versions, v.Supported...)
}
