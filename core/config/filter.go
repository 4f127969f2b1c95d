package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

// A host that has a web search or a browser of its own does not want a server for
// the same: FilterExa and FilterBrowser leave such servers out.

const (
	exaHost       = "mcp.exa.ai"
	exaSearch     = "web_search_exa" // the tool that a host's own search replaces
	exaKeyEnv     = "EXA_API_KEY"
	exaKeyParam   = "exaApiKey="
	exaToolsParam = "tools="
)

var (
	exaKeyForm = lazy.Regexp(exaKeyParam + `([^&\s]+)`)

	browserNames    = []string{"puppeteer", "playwright", "browserbase", "browser-tools", "browser-use", "browser"}
	browserHosts    = []string{"browserbase.com", "browser-use.com"}
	browserPackages = []string{"@modelcontextprotocol/server-puppeteer", "@playwright/mcp", "@browserbasehq/mcp-server-browserbase",
		"@agentdeskai/browser-tools-mcp", "@agent-infra/mcp-server-browser", "puppeteer-mcp", "playwright-mcp", "pptr-mcp", "browser-use-mcp", "mcp-browser-use"}
)

// filter leaves out what the host does itself, and collects the keys of the Exa
// servers that it may use: those of trusted, enabled entries. A stranger's key must
// not become the user's, and of a stranger's entry nothing is expanded.
func (d *discovery) filter(r *Result) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e *Entry) bool {
		if d.o.FilterExa && isExa(e) {
			s := d.expanded(e)
			if key := exaKey(s); key != "" && e.Trusted && e.Enabled && !slices.Contains(r.ExaAPIKeys, key) {
				r.ExaAPIKeys = append(r.ExaAPIKeys, key)
			}
			if !slices.ContainsFunc(exaTools(s), func(tool string) bool { return tool != exaSearch }) {
				r.note("filtered_exa", e, "this server offers a web search, which the host has itself; it is left out by discovery.filterExa")
				return true
			}
		}
		if d.o.FilterBrowser && isBrowser(e) {
			r.note("filtered_browser", e, "this server offers a browser, which the host has itself; it is left out by discovery.filterBrowser")
			return true
		}
		return false
	})
}

func isExa(e *Entry) bool {
	holds := func(s string) bool { return strings.Contains(s, exaHost) }
	return strings.EqualFold(e.Name, "exa") || holds(e.Server.URL) || slices.ContainsFunc(e.Server.Args, holds)
}

func isBrowser(e *Entry) bool {
	s := &e.Server
	if slices.Contains(browserNames, strings.ToLower(e.Name)) || containsAny(s.URL, browserHosts) {
		return true
	}
	return containsAny(s.Command, browserPackages) || slices.ContainsFunc(s.Args, func(arg string) bool { return containsAny(arg, browserPackages) })
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// expanded gives a trusted entry's values as a start would have them, as far as
// that needs no file and no helper; what cannot be known is empty.
func (d *discovery) expanded(e *Entry) *Server {
	s := e.Server.clone()
	if !e.Trusted {
		return &s
	}
	x := e.expander(d.o.Env, d.home, ResolveOptions{Vars: d.o.Vars})
	x.file = func(string) (string, error) { return "", fmt.Errorf("it is not read before a start") }
	failed := map[string]bool{}
	e.expandInto(&s, x, func(field string, p problem) { failed[field] = failed[field] || p.fatal }, func([]usedVariable) {})
	s.each(func(field, value string) string {
		if failed[field] {
			return ""
		}
		return value
	})
	return &s
}

// exaKey finds the key in the URL, in the arguments, or in the environment.
func exaKey(s *Server) string {
	for _, text := range append([]string{s.URL}, s.Args...) {
		if m := exaKeyForm().FindStringSubmatch(text); m != nil {
			if key, err := url.QueryUnescape(m[1]); err == nil {
				return key
			}
			return m[1]
		}
	}
	return strings.TrimSpace(s.Env[exaKeyEnv])
}

// exaTools lists the tools that the entry asks the server for; none is its default.
func exaTools(s *Server) (tools []string) {
	add := func(list string) {
		if plain, err := url.QueryUnescape(list); err == nil {
			list = plain
		}
		for _, tool := range strings.Split(list, ",") {
			if tool = strings.TrimSpace(tool); tool != "" {
				tools = append(tools, tool)
			}
		}
	}
	inQuery := func(text string) bool {
		i := strings.Index(text, exaToolsParam)
		if i >= 0 {
			list, _, _ := strings.Cut(text[i+len(exaToolsParam):], "&")
			add(list)
		}
		return i >= 0
	}
	if _, query, ok := strings.Cut(s.URL, "?"); ok {
		inQuery(query)
	}
	for i, arg := range s.Args {
		if !inQuery(arg) && arg == "--tools" && i+1 < len(s.Args) { // --tools=… has the parameter's form
			add(s.Args[i+1])
		}
	}
	return tools
}
