package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// What a server names (metadata, token endpoint …) is fetched on its word alone.
// fetcher keeps such requests away from where the server itself could not be: the
// specification's security best practices, section SSRF.

// fetchTimeout bounds one request; tests change it.
var fetchTimeout = 20 * time.Second

const (
	maxBody = 1 << 20
	maxHops = 3
)

// reach is how near an address is.
type reach uint8

const (
	public   reach = iota
	private        // of a local network
	loopback       // this machine
	special        // link-local (cloud metadata services), multicast, reserved: never
)

var (
	privateNets = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
	specialNets = prefixes("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10", "fec0::/10", "ff00::/8", "100::/64", "2001:db8::/32")
	// An IPv4 address may hide in these.
	nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	switch b := ip.As16(); {
	case nat64.Contains(ip):
		return reachOf(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(ip):
		return reachOf(netip.AddrFrom4([4]byte(b[2:6])))
	case ip.IsLoopback():
		return loopback
	}
	for _, p := range specialNets {
		if p.Contains(ip) {
			return special
		}
	}
	for _, p := range privateNets {
		if p.Contains(ip) {
			return private
		}
	}
	return public
}

// reachOfHost judges a host by its name alone.
func reachOfHost(host string) reach {
	if IsLoopbackHost(host) {
		return loopback
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return reachOf(ip)
	}
	return public
}

// IsLoopbackHost tells names and addresses of this machine.
func IsLoopbackHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowed: from a server on this machine one may go anywhere that a person could,
// from one in the local network to that network, from a public one to the public.
func (from reach) allows(to reach) bool {
	switch to {
	case public:
		return true
	case private:
		return from == private || from == loopback
	case loopback:
		return from == loopback
	}
	return false
}

var errBlocked = errors.New("it leads to an address inside this machine or network, where the server itself is not")

// fetcher makes the requests of one server's sign-in. from tells where the server is.
type fetcher struct {
	server string
	from   func() reach
	proxy  func(*url.URL) (*url.URL, error)
	pool   *http.Transport // guarded at dial
	own    *http.Transport // for what the config itself names
	via    *http.Transport // through the proxy
	dialer *net.Dialer     // of pool
}

func newFetcher(server string, from func() reach, secure *tls.Config, proxy func(*url.URL) (*url.URL, error)) *fetcher {
	f := &fetcher{server: server, from: from, proxy: proxy}
	secure = secure.Clone()
	if secure != nil {
		secure.Certificates = nil // the client certificate is for the server alone
	}
	plain := net.Dialer{Timeout: 10 * time.Second}
	guarded := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !f.from().allows(reachOf(to.Addr())) {
			return errBlocked
		}
		return nil
	}}
	pool := func(d *net.Dialer) *http.Transport {
		return &http.Transport{DialContext: d.DialContext, TLSClientConfig: secure.Clone(), ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConns: 4, IdleConnTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10}
	}
	f.pool, f.own, f.via = pool(guarded), pool(&plain), pool(&plain)
	f.dialer = guarded
	f.via.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return f
}

func (f *fetcher) close() {
	for _, t := range []*http.Transport{f.pool, f.own, f.via} {
		t.CloseIdleConnections()
	}
}

// check refuses URLs that no sign-in may use. own: the config names it.
func (f *fetcher) check(u *url.URL, own bool) error {
	switch {
	case u.Host == "" || u.Opaque != "":
		return errors.New("it is no complete url")
	case u.User != nil:
		return errors.New("it holds a user name or a password")
	case u.Scheme == "https":
	case u.Scheme == "http" && IsLoopbackHost(u.Hostname()):
	case u.Scheme == "http":
		return errors.New("it is http://, which everybody on the way can read; only https:// is used")
	default:
		return fmt.Errorf("its scheme is %q; only https:// is used", fault.Foreign(u.Scheme, 20))
	}
	if !own && !f.from().allows(reachOfHost(u.Hostname())) {
		return errBlocked
	}
	return nil
}

// transportFor chooses by whose word an address is.
func (f *fetcher) transportFor(u *url.URL, own bool) *http.Transport {
	if f.proxy != nil {
		if p, err := f.proxy(u); err != nil || p != nil {
			return f.via // which address is reached is the proxy's affair
		}
	}
	if own {
		return f.own
	}
	return f.pool
}

// answer is a whole response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do makes one request and reads the answer. Redirects are not followed.
func (f *fetcher) do(ctx context.Context, method string, u *url.URL, own bool, header http.Header, body []byte) (*reply, error) {
	if err := f.check(u, own); err != nil {
		return nil, f.errorf(fault.NeedsAuth, "%s is not used for the sign-in: %w", shownURL(u), err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, f.errorf(fault.NeedsAuth, "%s is not used for the sign-in: it is no valid url", shownURL(u))
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", "mcprt")
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := f.transportFor(u, own).RoundTrip(req)
	if err != nil {
		return nil, f.unreachable(ctx, u, time.Since(began), err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, f.unreachable(ctx, u, time.Since(began), err)
	case len(data) > maxBody:
		return nil, f.errorf(fault.NeedsAuth, "the answer of %s is larger than %d KiB", shownURL(u), maxBody>>10)
	}
	return &reply{resp.StatusCode, resp.Header, data}, nil
}

// get follows a few redirects, each hop checked as if the server had named it.
func (f *fetcher) get(ctx context.Context, target string, own bool) (*reply, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, f.errorf(fault.NeedsAuth, "an address of the sign-in is no valid url")
	}
	for hop := 0; ; hop++ {
		r, err := f.do(ctx, http.MethodGet, u, own, nil, nil)
		if err != nil || r.status/100 != 3 || r.header.Get("Location") == "" {
			return r, err
		}
		next, err := u.Parse(r.header.Get("Location"))
		if err != nil || hop >= maxHops {
			return r, nil
		}
		u, own = next, false
	}
}

func (f *fetcher) unreachable(ctx context.Context, u *url.URL, took time.Duration, err error) error {
	if errors.Is(err, errBlocked) {
		return f.errorf(fault.NeedsAuth, "%s is not used for the sign-in: %w", shownURL(u), errBlocked)
	}
	reason := err.Error()
	var wrapped *url.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		reason = "there is no such host, or its name cannot be resolved"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = fmt.Sprintf("it did not answer within %s", took.Round(10*time.Millisecond)) // fetchTimeout, or what the caller had left
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &wrapped):
		reason = wrapped.Err.Error()
	}
	return f.errorf(fault.ConnectFailed, "%s, which signs in to the server, cannot be reached: %s", shownURL(u), fault.Foreign(reason, 300)).Retry()
}

// errorf makes an error of a sign-in.
func (f *fetcher) errorf(code fault.Code, format string, args ...any) *fault.Error {
	e := fault.New(code, fault.StageAuth, "server %q: "+format, append([]any{f.server}, args...)...)
	e.Server = f.server
	return e
}

// shownURL is a URL without what may be secret in it.
func shownURL(u *url.URL) string {
	return fault.Foreign(u.Scheme+"://"+u.Host+u.Path, 200)
}
