package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/lazy"
	"github.com/mcprt/mcprt/core/rawjson"
)

const (
	errorBody  = 64 << 10 // of a refusal, to find a JSON-RPC error in
	shownBody  = 4 << 10
	shownWords = 300
)

// brokenFault says why a request got no response. wrote tells whether it may have
// reached the server.
func (c *httpConn) brokenFault(what string, err error, wrote bool) *fault.Error {
	if own := (*fault.Error)(nil); errors.As(err, &own) {
		e := own.Clone()
		e.Server = c.cfg.Server
		return e
	}
	if !wrote {
		e := c.errorf(fault.ConnectFailed, fault.StageConnect, "server %q cannot be reached at %s: %s", c.cfg.Server, c.url.Host, netReason(err))
		e.Retryable = !badTLS(err)
		return e
	}
	return c.errorf(fault.Disconnected, fault.StageReceive, "the connection to server %q broke before %s was answered: %s", c.cfg.Server, what, netReason(err)).Retry()
}

func badTLS(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &verification) ||
		errors.As(err, &record) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

func netReason(err error) string {
	var dns *net.DNSError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such host; check the url"
	case errors.As(err, &authority):
		return fault.Foreign(err.Error(), shownWords) + `; if the server has an authority of its own, name its file in "tls":{"caFile"}`
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection"
	case strings.Contains(err.Error(), "malformed MIME header"): // the rest is that header, which may be a cookie or a session's id
		return "its answer has a malformed HTTP header"
	}
	return fault.Foreign(err.Error(), shownWords)
}

// statusFault says which status came in place of an answer.
func (c *httpConn) statusFault(what string, resp *http.Response, body []byte) *fault.Error {
	data := fault.Data{HTTPStatus: resp.StatusCode, Body: shown(body, shownBody), RetryAfterMs: retryAfter(resp.Header).Milliseconds(), TraceID: traceID(resp.Header)}
	status := fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	challenge := strings.Join(resp.Header.Values("Www-Authenticate"), ", ")
	if needsAuth(resp) {
		data.Challenge = shown([]byte(challenge), shownBody)
		if resp.StatusCode == http.StatusForbidden {
			return c.errorf(fault.NeedsAuth, fault.StageAuth, `server %q refused %s for want of rights (%s): its challenge says which; sign in with them, or give a token that has them in "headers"`,
				c.cfg.Server, what, strings.TrimSpace(status)).With(data)
		}
		return c.errorf(fault.NeedsAuth, fault.StageAuth, `server %q refused %s for want of valid credentials (%s); sign in, or give a token in "headers"`,
			c.cfg.Server, what, strings.TrimSpace(status)).With(data)
	}
	more := ""
	if to, err := url.Parse(resp.Header.Get("Location")); err == nil && to.String() != "" && resp.StatusCode/100 == 3 {
		to = resp.Request.URL.ResolveReference(to)
		more = fmt.Sprintf("; it points to %s, which is not followed: if that is right, put it into the config", fault.Foreign(to.Scheme+"://"+to.Host+to.EscapedPath(), shownWords))
	} else if words := strings.Join(strings.Fields(shown(body, shownWords)), " "); words != "" {
		more = ": " + words
	}
	e := c.errorf(fault.HTTPStatus, fault.StageReceive, "server %q answered %s with %s%s", c.cfg.Server, what, strings.TrimSpace(status), more).With(data)
	switch s := resp.StatusCode; s {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		e.Retryable = true
	default:
		e.Retryable = s >= 500 && s != http.StatusNotImplemented && s != http.StatusHTTPVersionNotSupported
	}
	return e
}

// needsAuth: a 403 without a challenge is a refusal that no sign-in cures.
func needsAuth(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden && resp.Header.Get("Www-Authenticate") != ""
}

const maxRetryAfter = 24 * time.Hour

func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

// traceHeaders name a request in the logs of servers and of what stands before them.
var traceHeaders = []string{"Traceparent", "X-Request-Id", "X-Trace-Id", "X-Correlation-Id", "Cf-Ray"}

var validTrace = lazy.Regexp(`^[A-Za-z0-9._:/-]{1,128}$`)

func traceID(h http.Header) string {
	for _, name := range traceHeaders {
		if id := h.Get(name); validTrace().MatchString(id) {
			return id
		}
	}
	return ""
}

// shown gives the first n bytes as text.
func shown(b []byte, n int) string {
	return strings.ToValidUTF8(string(b[:min(n, len(b))]), "")
}

// rpcError finds the error object of a refusal; some servers give it a foreign id,
// or none.
func rpcError(body []byte) []byte {
	if !rawjson.IsObject(body) || string(rawjson.Get(body, "jsonrpc")) != `"2.0"` {
		return nil
	}
	object := rawjson.Get(body, "error")
	if rawjson.Get(object, "code") == nil || value(object, 0, maxDepth) != len(object) {
		return nil
	}
	return object
}

const (
	methodNotFound = "-32601"
	invalidParams  = "-32602"
)

// lostSession matches how servers say that they do not know a session any more, where
// they do not say it by 404 as the protocol wants.
var lostSession = lazy.Regexp(`(?i)\bsession\b|not initialized`)

// endsSession tells whether a refusal means that the server has forgotten us.
func endsSession(status int, body []byte) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return string(rawjson.Get(rpcError(body), "code")) != methodNotFound
	case http.StatusBadRequest:
		return lostSession().Match(body)
	}
	return false
}
