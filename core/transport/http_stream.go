package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

const (
	defaultPause = time.Second
	shortPause   = 100 * time.Millisecond // a server that wants none gets this
	longPause    = time.Minute
	hearPatience = 2 * time.Second // for which calls wait for the stream to be open
	maxUnheard   = 3               // failed attempts in a row to reach a server whose stream was open
)

// pauseBefore is the time before a stream is asked for again: the server's wish,
// doubled with each attempt that brought nothing.
func pauseBefore(wish time.Duration, fruitless int) time.Duration {
	if wish < 0 {
		wish = defaultPause
	}
	wish = max(wish, shortPause)
	return max(min(wish<<min(fruitless, 10), longPause), wish)
}

// getStream asks for an event stream, from behind the event last if that is not "".
func (c *httpConn) getStream(ctx context.Context, last string, wrote *atomic.Bool) (*http.Response, error) {
	header := c.sessionHeader()
	header.Set("Accept", "text/event-stream")
	if last != "" {
		header.Set("Last-Event-Id", last)
	}
	return c.do(ctx, http.MethodGet, c.url.String(), header, nil, wrote)
}

func isStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && mediaType(resp.Header) == "text/event-stream"
}

// passingStatus tells refusals that the next attempt may not meet.
func passingStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// resume asks for the rest of a stream. A nil body: not now.
func (c *httpConn) resume(ctx context.Context, last string) (io.ReadCloser, error) {
	resp, err := c.getStream(ctx, last, nil)
	switch {
	case err != nil:
		return nil, nil
	case isStream(resp):
		return resp.Body, nil
	}
	discard(resp.Body)
	if passingStatus(resp.StatusCode) {
		return nil, nil
	}
	return nil, fmt.Errorf("its rest was refused with HTTP %d", resp.StatusCode)
}

// listen holds the stream on which a legacy server sends what belongs to no request.
// It is an offer: a server that has none answers with any of a dozen statuses, and one
// that has may not say so before it has something to send. heard is closed when the
// server has answered, or has had its time.
func (c *httpConn) listen(heard chan struct{}) {
	defer c.wg.Done()
	defer c.guard()
	hear := sync.OnceFunc(func() { close(heard) })
	defer hear()
	defer time.AfterFunc(hearPatience, hear).Stop()
	safe.Point("http.listen")
	opened, last, retry := false, "", time.Duration(-1)
	unheard := 0 // attempts in a row that did not even reach the server
	for fruitless := 0; ; fruitless++ {
		var wrote atomic.Bool
		resp, err := c.getStream(c.ctx, last, &wrote)
		hear()
		var wish time.Duration
		switch {
		case c.ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return
		case err != nil:
			if unheard++; unheard >= maxUnheard {
				if opened && !wrote.Load() {
					c.lose(c.brokenFault("its event stream", err, false), false)
				}
				if !opened {
					return
				}
			}
		case isStream(resp):
			opened, unheard = true, 0
			e := newEvents(resp.Body, c.cfg.MaxMessage)
			e.lastID, e.retry = last, retry
			_ = c.pass(e) // however it ended, it is asked for again
			resp.Body.Close()
			last, retry = e.lastID, e.retry
			if e.count > 0 {
				fruitless = 0
			}
		default:
			unheard = 0
			wish = retryAfter(resp.Header)
			discard(resp.Body)
			if passingStatus(resp.StatusCode) {
				break
			}
			if opened && resp.StatusCode == http.StatusNotFound {
				c.loseAfterFlights(c.errorf(fault.Disconnected, fault.StageReceive, "server %q has ended the session (HTTP 404); it is connected anew", c.cfg.Server).Retry())
			}
			return
		}
		if !sleep(c.ctx, max(wish, pauseBefore(retry, fruitless))) {
			return
		}
	}
}
