package core

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/transport"
)

// dialHTTP prepares the conversation with a remote server.
func dialHTTP(m *Manager, e *config.Entry, r *config.Resolved) (transport.Dial, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "server %q: its url is not valid", e.Name)
	}
	if u.Scheme == "http" && !auth.IsLoopbackHost(u.Hostname()) {
		m.store.report(diagnostic{Severity: "warning", Code: "insecure_url", Server: e.Name, Field: "url", Path: e.Origin.Path, Line: e.Origin.Line, Column: e.Origin.Column,
			Message: "this url is http:// and not on this machine: everybody on the way can read and change what is sent, credentials included; write https://"})
	}
	secure, proxy, err := m.route(e, r)
	if err != nil {
		return nil, err
	}
	h := transport.HTTP{
		Server: e.Name, URL: r.URL, Headers: r.Headers, SSE: r.Type == "sse",
		TLS: secure, Proxy: proxy, MaxMessage: m.opts.Limits.MessageBytes,
	}
	a, err := m.credentials.of(e, r)
	if err != nil {
		return nil, err
	}
	if a != nil {
		h.Auth = a.Wrap
	}
	return h.Dial, nil
}

// tlsConfig reads the files of a server's own authorities and client certificate.
func tlsConfig(files *config.TLS) (*tls.Config, error) {
	if files == nil || *files == (config.TLS{}) {
		return nil, nil
	}
	c := &tls.Config{}
	if files.CAFile != "" {
		pem, err := os.ReadFile(files.CAFile)
		if err != nil {
			return nil, err
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Config, fault.StageConfig, "%s holds no certificate in PEM form", files.CAFile)
		}
	}
	if files.CertFile != "" || files.KeyFile != "" {
		key := files.KeyFile
		if key == "" { // one file may hold both
			key = files.CertFile
		}
		pair, err := tls.LoadX509KeyPair(files.CertFile, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// proxyFor gives the server's own proxy, else what open's env says.
func proxyFor(env config.Env, own string) (func(*url.URL) (*url.URL, error), error) {
	if own != "" {
		u, err := url.Parse(own)
		if err != nil || u.Host == "" {
			return nil, fault.New(fault.Config, fault.StageConfig, "it is no url such as http://host:port")
		}
		switch u.Scheme {
		case "http", "https", "socks5", "socks5h":
			return func(*url.URL) (*url.URL, error) { return u, nil }, nil
		}
		return nil, fault.New(fault.Config, fault.StageConfig, "its scheme must be http, https, socks5 or socks5h")
	}
	first := func(names ...string) string {
		for _, name := range names {
			if value := env.Value(name); value != "" {
				return value
			}
		}
		return ""
	}
	c := httpproxy.Config{
		HTTPProxy: first("HTTP_PROXY", "http_proxy"), HTTPSProxy: first("HTTPS_PROXY", "https_proxy"),
		NoProxy: first("NO_PROXY", "no_proxy"), CGI: env.Value("REQUEST_METHOD") != "",
	}
	if all := first("ALL_PROXY", "all_proxy"); all != "" {
		if c.HTTPProxy == "" {
			c.HTTPProxy = all
		}
		if c.HTTPSProxy == "" {
			c.HTTPSProxy = all
		}
	}
	return c.ProxyFunc(), nil
}
