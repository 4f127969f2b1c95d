package auth

import (
	"context"
	"crypto/subtle"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
)

// callback is where the authorization server sends the person back to: a page on
// the loopback interface that lives for one sign-in (RFC 8252), or an address of
// the host's, which then gives the URL itself.
type callback struct {
	at        *url.URL
	fixed     bool // the config or the host chose it
	listeners []net.Listener
	busy      error // why nothing listens
	arrived   chan url.Values
}

// openCallback binds the port now: it must be known before the client registers.
func (c *Credentials) openCallback() (*callback, error) {
	cb := &callback{arrived: make(chan url.Values, 1)}
	if c.cfg.RedirectURI != "" {
		u, err := url.Parse(c.cfg.RedirectURI)
		if err != nil || u.Scheme == "" || u.Fragment != "" {
			return nil, c.errorf(fault.Config, "the redirectUri of its sign-in is no valid url")
		}
		cb.at, cb.fixed = u, u.Port() != "0"
		if c.cfg.Listen && u.Scheme == "http" && IsLoopbackHost(u.Hostname()) {
			cb.listen(u.Port())
		}
		if !cb.fixed && len(cb.listeners) > 0 { // "http://localhost:0/x": a free port
			_, port, _ := net.SplitHostPort(cb.listeners[0].Addr().String())
			cb.at.Host = net.JoinHostPort(u.Hostname(), port)
		}
		return cb, nil
	}
	port := strconv.Itoa(c.cfg.RedirectPort)
	cb.at = &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/callback"}
	cb.fixed = c.cfg.RedirectPort != 0
	if c.cfg.Listen {
		cb.listen(port)
	}
	if len(cb.listeners) > 0 {
		_, port, _ = net.SplitHostPort(cb.listeners[0].Addr().String())
	} else if port == "0" { // nobody listens, the host pastes what its browser shows
		port = "33418"
	}
	cb.at.Host = net.JoinHostPort("127.0.0.1", port)
	return cb, nil
}

func (cb *callback) uri() string {
	if cb == nil {
		return "http://127.0.0.1/callback"
	}
	return cb.at.String()
}

// listen binds the port on the loopback interface, where the name is "localhost" on
// both of its addresses.
func (cb *callback) listen(port string) {
	if port == "" {
		port = "80"
	}
	hosts := []string{"127.0.0.1"}
	switch host := cb.at.Hostname(); {
	case host == "::1":
		hosts = []string{"::1"}
	case net.ParseIP(host) == nil:
		hosts = append(hosts, "::1")
	}
	for i, host := range hosts {
		if i > 0 && port == "0" {
			_, port, _ = net.SplitHostPort(cb.listeners[0].Addr().String())
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			if i == 0 {
				cb.busy = err
				return
			}
			continue
		}
		cb.listeners = append(cb.listeners, l)
	}
}

// moveTo makes uri, of an earlier registration, the redirect URI, if that can be
// answered.
func (cb *callback) moveTo(uri string) bool {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return false
	case cb.at.String() == uri:
		return true
	case cb.fixed, u.Scheme != "http", !IsLoopbackHost(u.Hostname()):
		return false
	case len(cb.listeners) == 0: // nothing needs to listen
		cb.at = u
		return true
	}
	next := &callback{at: u}
	if next.listen(u.Port()); len(next.listeners) == 0 {
		return false
	}
	cb.close()
	cb.at, cb.listeners = u, next.listeners
	return true
}

func (cb *callback) close() {
	for _, l := range cb.listeners {
		l.Close()
	}
}

const callbackPage = `<!doctype html><meta charset="utf-8"><title>mcprt</title><p>You can close this page and go back to your program.`

// serve takes the one answer with the right state. Anything else is refused and
// ends nothing: a page elsewhere must not be able to spoil the sign-in.
func (cb *callback) serve(ctx context.Context, state string) {
	server := &http.Server{
		ErrorLog:          log.New(io.Discard, "", 0), // its default is the host's stderr
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 32 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Cache-Control", "no-store")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Content-Security-Policy", "default-src 'none'")
			query := r.URL.Query()
			if r.Method != http.MethodGet || r.Host != cb.at.Host || r.URL.Path != cb.at.Path || !sameText(query.Get("state"), state) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			h.Set("Connection", "close")
			h.Set("Content-Length", strconv.Itoa(len(callbackPage)))
			_, _ = w.Write([]byte(callbackPage)) // nothing of the request
			_ = http.NewResponseController(w).Flush()
			select {
			case cb.arrived <- query:
			default:
			}
		}),
	}
	for _, l := range cb.listeners {
		safe.Go(nil, func() { _ = server.Serve(l) })
	}
	context.AfterFunc(ctx, func() {
		safe.Do(nil, func() {
			patience, cancel := context.WithTimeout(context.Background(), time.Second) // for the page to arrive
			defer cancel()
			if server.Shutdown(patience) != nil {
				server.Close()
			}
		})
	})
}

func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// paste reads what the host gave: the whole address that the browser ended at, or
// what stands behind its "?".
func (cb *callback) paste(text string) (url.Values, bool) {
	text = strings.TrimSpace(text)
	if len(text) > 64<<10 {
		return nil, false
	}
	query := strings.TrimPrefix(text, "?")
	if strings.HasPrefix(text, cb.at.Scheme+":") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != cb.at.Scheme || u.Host != cb.at.Host || u.Path != cb.at.Path || u.Opaque != cb.at.Opaque {
			return nil, false
		}
		query = u.RawQuery
	}
	values, err := url.ParseQuery(query)
	return values, err == nil && (values.Has("code") || values.Has("error"))
}
