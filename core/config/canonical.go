package config

import (
	"maps"
	"net"
	"net/url"
	"strings"

	"github.com/goccy/go-json"
)

// Canonical is the entry's config before expansion as JSON with a fixed order of
// members: equal bytes mean that the same file content would start the same
// server in the same way. Switches (enabled) and the entry's name and place are
// left out, directories that relative paths depend on are put in.
func (e *Entry) Canonical() []byte {
	s := e.Server
	s.Enabled, s.Host = nil, nil
	text, err := json.Marshal(struct {
		Server  Server            `json:"server"`
		EnvFile string            `json:"envFile,omitempty"`
		Base    string            `json:"base,omitempty"`
		Vars    VarSyntax         `json:"vars"`
		Given   map[string]string `json:"given,omitempty"`
	}{s, e.EnvFile, e.relativeTo(), e.Dialect.Vars, e.vars})
	if err != nil { // only an oauth block could hold what JSON cannot, and it came from JSON
		return e.raw
	}
	return text
}

// connection identifies what the entry connects to: two entries with equal
// connections under different names are started once. Timeouts, filters and
// switches do not count.
func (e *Entry) connection() string {
	s := Server{Type: e.Server.Type, Command: e.Server.Command, Args: e.Server.Args, Env: e.Server.Env, Cwd: e.Server.Cwd,
		URL: normalURL(e.Server.URL, e.Dialect.Vars), Headers: e.Server.Headers,
		EnvVars: e.Server.EnvVars, HeaderEnvVars: e.Server.HeaderEnvVars, BearerTokenEnvVar: e.Server.BearerTokenEnvVar, OAuth: signIn(e.Server.OAuth)}
	other := Entry{Server: s, EnvFile: e.EnvFile, BaseDir: e.BaseDir, vars: e.vars}
	text := other.Canonical()
	if e.Dialect.Vars.in(string(text)) { // the same text means the same only in the same syntax
		other.Dialect.Vars = e.Dialect.Vars
		text = other.Canonical()
	}
	return string(text)
}

// signIn is what of an oauth block makes another connection. That there is one at all
// does not: a server is signed in to as it asks for that.
func signIn(block map[string]any) map[string]any {
	if on, _ := block["enabled"].(bool); !on {
		return block
	}
	block = maps.Clone(block)
	delete(block, "enabled")
	if len(block) == 0 {
		return nil
	}
	return block
}

// relativeTo is the base directory if anything in the entry depends on it.
func (e *Entry) relativeTo() string {
	for _, path := range []string{e.Server.Cwd, e.EnvFile} {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") {
			return e.BaseDir
		}
	}
	if c := e.Server.Command; strings.Contains(c, "/") && !strings.HasPrefix(c, "/") && !strings.HasPrefix(c, "~") {
		return e.BaseDir
	}
	if strings.Contains(string(e.raw), "{file:") {
		return e.fileBase()
	}
	return ""
}

// normalURL spells a URL's scheme, host and default port in one way.
func normalURL(raw string, vars VarSyntax) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || vars.in(raw) {
		return raw
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if host, port, err := net.SplitHostPort(u.Host); err == nil && (u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80") {
		if u.Host = host; strings.Contains(host, ":") {
			u.Host = "[" + host + "]"
		}
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
