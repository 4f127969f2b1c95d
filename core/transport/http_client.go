package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

const (
	idleConns    = 128 // per server: as many as calls that run at once, else each burst opens them anew
	maxRedirects = 5
)

// baseHeader checks the config's headers.
func baseHeader(h HTTP) (http.Header, error) {
	header := http.Header{"User-Agent": {"mcprt"}}
	for name, value := range h.Headers {
		value = strings.TrimSpace(value)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			e := fault.New(fault.Config, fault.StageConfig, "server %q: headers: %q is no valid header, or its value holds a line break or a control character", h.Server, name)
			e.Server = h.Server
			return nil, e
		}
		header.Set(name, value)
	}
	return header, nil
}

// newClient makes the pool of one connection. Nothing of it outlives c.net.
func newClient(c *httpConn) *http.Client {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}
	pool := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(c.net, cancel)()
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &boundConn{conn, context.AfterFunc(c.net, func() { conn.Close() })}, nil
		},
		TLSClientConfig:        c.cfg.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // a compressed event stream comes in lumps
	}
	if proxy := c.cfg.Proxy; proxy != nil {
		pool.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	}
	var base http.RoundTripper = pool
	if c.cfg.Auth != nil {
		base = c.cfg.Auth(pool)
	}
	return &http.Client{Transport: closeIdle{base, pool}, CheckRedirect: checkRedirect}
}

// boundConn is closed with the connection that it belongs to.
type boundConn struct {
	net.Conn
	stop func() bool
}

func (b *boundConn) Close() error {
	b.stop()
	return b.Conn.Close()
}

// closeIdle lets the client reach the pool whatever wraps it.
type closeIdle struct {
	http.RoundTripper
	pool *http.Transport
}

func (t closeIdle) CloseIdleConnections() { t.pool.CloseIdleConnections() }

// checkRedirect follows only what repeats the same request at the same origin: no
// header and no message ever goes to a place that the config does not name.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || req.Method != via[0].Method || !config.SameOrigin(req.URL, via[0].URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

// do makes one request. wrote, if it is given, becomes true when bytes of it may
// have reached the server.
func (c *httpConn) do(ctx context.Context, method, target string, header http.Header, body []byte, wrote *atomic.Bool) (*http.Response, error) {
	if wrote != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wrote.Store(true) }})
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, r)
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := c.client.Do(req)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // the wrapping repeats the URL, which may hold a secret
	}
	return resp, err
}

// discard lets a connection be used again.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}
