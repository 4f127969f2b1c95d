package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
)

// The HTTP+SSE transport of 2024-11-05: one stream brings all that the server says;
// its first event names the URL that messages are posted to.

const (
	endpointPatience = 5 * time.Second // for that first event, where the transport is a guess
	endpointEvents   = 16              // how many events may come before it
)

// errNoSSE: the server does not have this transport.
var errNoSSE = errors.New("no HTTP+SSE")

// beginSSE opens the stream of a server that the config calls "sse". One that turns
// out to have streamable HTTP is spoken to by that.
func (c *httpConn) beginSSE(ready chan struct{}) {
	defer c.wg.Done()
	defer c.guard()
	err := c.connectSSE(c.ctx, 0)
	switch {
	case c.ctx.Err() != nil:
	case err == nil || errors.Is(err, errNoSSE):
		close(ready)
	default:
		c.lose(fault.From(err).Clone(), false)
	}
}

// openSSE tries HTTP+SSE with a server that refused streamable HTTP.
func (c *httpConn) openSSE(ctx context.Context) error {
	return c.connectSSE(ctx, endpointPatience)
}

// connectSSE opens the stream and waits for the endpoint. ctx and patience bound
// that; the stream itself lives as long as the connection.
func (c *httpConn) connectSSE(ctx context.Context, patience time.Duration) error {
	streaming, cancel := context.WithCancel(c.ctx)
	stop := context.AfterFunc(ctx, cancel)
	inTime := func() bool { return true }
	if patience > 0 {
		inTime = time.AfterFunc(patience, cancel).Stop
	}
	resp, e, err := c.greetSSE(streaming)
	switch timely, wanted := inTime(), stop(); {
	case err != nil:
		cancel()
		return err
	case !timely || !wanted:
		cancel()
		resp.Body.Close()
		return context.Canceled
	}
	c.wg.Add(1)
	go c.readSSE(resp.Body, e, cancel)
	return nil
}

// greetSSE reads up to the endpoint event, and makes its URL the place for messages.
func (c *httpConn) greetSSE(ctx context.Context) (*http.Response, *events, error) {
	const what = "the request for its event stream"
	var wrote atomic.Bool
	resp, err := c.getStream(ctx, "", &wrote)
	if err != nil {
		return nil, nil, c.brokenFault(what, err, wrote.Load())
	}
	if !isStream(resp) {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, shownBody))
		resp.Body.Close()
		if resp.StatusCode/100 == 2 || olderServer(resp.StatusCode) {
			return nil, nil, errNoSSE
		}
		return nil, nil, c.statusFault(what, resp, body)
	}
	e := newEvents(resp.Body, c.cfg.MaxMessage)
	var ev event
	for n := 0; ev.name != "endpoint"; n++ {
		err := e.next(&ev)
		if err == nil && n >= endpointEvents {
			err = errors.New("its first events name no endpoint")
		}
		if err != nil {
			resp.Body.Close()
			return nil, nil, c.brokenFault(what, err, true)
		}
	}
	// What a server names is believed only within its own origin: else it could send
	// our headers, and our requests, anywhere.
	to, err := c.url.Parse(string(ev.data))
	if err != nil || !config.SameOrigin(to, c.url) || to.User != nil && to.User.String() != c.url.User.String() {
		resp.Body.Close()
		return nil, nil, c.errorf(fault.Protocol, fault.StageProtocol, "server %q wants its messages posted to another origin, which is refused", c.cfg.Server)
	}
	to.User = c.url.User
	c.mu.Lock()
	c.endpoint, c.sse = to.String(), true
	c.mu.Unlock()
	return resp, e, nil
}

// readSSE delivers what the stream brings. Its end is the connection's end: answers
// that are still due would come nowhere.
func (c *httpConn) readSSE(body io.ReadCloser, e *events, cancel context.CancelFunc) {
	defer c.wg.Done()
	defer c.guard()
	defer cancel()
	defer body.Close()
	err := c.pass(e)
	if c.ctx.Err() == nil {
		c.lose(c.errorf(fault.Disconnected, fault.StageReceive, "the event stream of server %q ended: %s", c.cfg.Server, netReason(err)).Retry(), false)
	}
}
