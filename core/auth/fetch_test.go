package auth

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestReach(t *testing.T) {
	for ip, want := range map[string]reach{
		"8.8.8.8": public, "2606:4700::1": public,
		"10.1.2.3": private, "172.16.0.1": private, "172.32.0.1": public, "192.168.1.1": private, "100.64.0.1": private, "fd00::1": private,
		"127.0.0.1": loopback, "127.9.9.9": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback, "::ffff:10.0.0.1": private,
		"169.254.169.254": special, "::ffff:169.254.169.254": special, "fe80::1": special, "0.0.0.0": special, "::": special, "224.0.0.1": special, "255.255.255.255": special,
		"64:ff9b::7f00:1": loopback, "64:ff9b::a00:1": private, "64:ff9b::a9fe:a9fe": special, "2002:7f00:1::": loopback, "2002:c0a8:101::1": private,
	} {
		if got := reachOf(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s is %d, want %d", ip, got, want)
		}
	}
	for _, c := range []struct {
		from, to reach
		want     bool
	}{
		{public, public, true}, {public, private, false}, {public, loopback, false}, {public, special, false},
		{private, private, true}, {private, loopback, false}, {private, special, false},
		{loopback, loopback, true}, {loopback, private, true}, {loopback, special, false}, {loopback, public, true},
	} {
		if c.from.allows(c.to) != c.want {
			t.Errorf("%d to %d", c.from, c.to)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.": true, "a.localhost": true, "127.0.0.1": true, "::1": true, "localhost.example": false, "10.0.0.1": false, "": false} {
		if IsLoopbackHost(host) != want {
			t.Errorf("%q", host)
		}
	}
}

// A public server cannot make mcprt ask this machine or its network, neither by an
// address nor by a name that leads there.
func TestPrivateAddresses(t *testing.T) {
	asked := 0
	inside := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ })}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go inside.Serve(l)
	t.Cleanup(func() { inside.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	u, _ := url.Parse("https://mcp.example/mcp")
	c := New(Config{Server: "s", URL: u, Store: NewMemory(), Warn: func(string, string) {}})
	c.fetch.dialer.Resolver = nameServer(t, "127.0.0.1")
	for _, target := range []string{"https://127.0.0.1:" + port, "https://localhost:" + port, "https://[::1]:" + port, "https://10.0.0.1", "https://169.254.169.254",
		"https://[::ffff:127.0.0.1]:" + port, "https://rebound.example:" + port} {
		for _, header := range []string{`Bearer resource_metadata="` + target + `/x"`} {
			if _, err := c.discover(t.Context(), ParseChallenges([]string{header})[0], false); err == nil || !strings.Contains(err.Error(), "inside this machine") {
				t.Errorf("%s: %v", target, err)
			}
		}
		if _, err := c.metadata(t.Context(), target); err == nil || !strings.Contains(err.Error(), "inside this machine") {
			t.Errorf("issuer %s: %v", target, err)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests came in", asked)
	}
}

// Through a proxy, whose dials are its own affair, the name in the address is judged.
func TestPrivateAddressesThroughAProxy(t *testing.T) {
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.NotFound(w, r)
	}))
	t.Cleanup(proxy.Close)
	at, _ := url.Parse(proxy.URL)
	u, _ := url.Parse("https://mcp.example/mcp")
	c := New(Config{Server: "s", URL: u, Store: NewMemory(), Warn: func(string, string) {}, Proxy: func(*url.URL) (*url.URL, error) { return at, nil }})
	for _, target := range []string{"https://127.0.0.1", "https://localhost", "https://10.0.0.1", "https://169.254.169.254", "https://[::1]"} {
		if _, err := c.metadata(t.Context(), target); err == nil || !strings.Contains(err.Error(), "inside this machine") || asked != 0 {
			t.Errorf("%s: %v, the proxy was asked %d times", target, err, asked)
		}
	}
	if _, err := c.metadata(t.Context(), "https://as.example"); err == nil || asked == 0 {
		t.Errorf("a public name did not go through the proxy: %v", err)
	}
}

// Once a server's connection was a public one, a later one inside changes nothing.
func TestReachNeverGrows(t *testing.T) {
	u, _ := url.Parse("https://mcp.example/mcp")
	c := New(Config{Server: "s", URL: u, Store: NewMemory(), Warn: func(string, string) {}})
	for _, step := range []struct {
		address string
		want    reach
	}{{"10.0.0.1:443", private}, {"8.8.8.8:443", public}, {"10.0.0.1:443", public}, {"127.0.0.1:1", public}, {"junk", public}} {
		c.seen(step.address)
		if got := reach(c.near.Load()); got != step.want {
			t.Errorf("after %s it is %d", step.address, got)
		}
	}
}

// nameServer answers every name with one address.
func nameServer(t *testing.T, ip string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: netip.MustParseAddr(ip).As4()}}}
			}
			out, err := m.Pack()
			if err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}
