package config

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// filtered discovers one project file and gives the names that are left, the keys,
// and the codes of the notes about what was left out.
func filtered(t *testing.T, o Options, file string, env map[string]string) (names, keys, notes []string) {
	t.Helper()
	dirs := newDirs(t)
	dirs.write(t, "$PROJECT/.mcprt/mcp.json", file)
	o.Cwd, o.Env, o.Project = dirs.project, dirs.env(env), true
	r, err := Discover(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Entries {
		names = append(names, e.Name)
	}
	for _, d := range r.Diagnostics {
		if strings.HasPrefix(d.Code, "filtered_") {
			notes = append(notes, d.Code+" "+d.Server)
		}
	}
	slices.Sort(names)
	return names, r.ExaAPIKeys, notes
}

func TestFilterExa(t *testing.T) {
	for _, c := range []struct {
		entry string
		kept  bool
		key   string
	}{
		{`"exa": {"command": "x"}`, false, ""},
		{`"EXA": {"command": "x", "env": {"EXA_API_KEY": " k1 "}}`, false, "k1"},
		{`"s": {"url": "https://mcp.exa.ai/mcp?exaApiKey=k2&x=1"}`, false, "k2"},
		{`"s": {"url": "https://mcp.exa.ai/mcp?exaApiKey=${KEY}"}`, false, "from-env"},
		{`"s": {"url": "https://mcp.exa.ai/mcp?exaApiKey=${UNSET}"}`, false, ""},
		{`"s": {"url": "https://mcp.exa.ai/mcp?tools=web_search_exa"}`, false, ""},
		{`"s": {"url": "https://mcp.exa.ai/mcp?exaApiKey=k3&tools=web_search_exa,crawling_exa"}`, true, "k3"},
		{`"s": {"url": "https://mcp.exa.ai/mcp?tools=web_search_exa%2Ccrawling_exa"}`, true, ""},
		{`"s": {"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.exa.ai/mcp?exaApiKey=k4"]}`, false, "k4"},
		{`"s": {"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.exa.ai/mcp?exaApiKey=k5&tools=crawling_exa&y"]}`, true, "k5"},
		{`"exa": {"command": "npx", "args": ["exa-mcp-server", "--tools", "company_research_exa"], "env": {"EXA_API_KEY": "k6"}}`, true, "k6"},
		{`"exa": {"command": "npx", "args": ["exa-mcp-server", "--tools=web_search_exa"], "env": {"EXA_API_KEY": "!echo no"}}`, false, ""},
		{`"exa": {"command": "npx", "args": ["exa-mcp-server", "--tools"], "env": {"EXA_API_KEY": "{file:/etc/hostname}"}}`, false, ""},
		{`"exa": {"command": "x", "disabled": true, "env": {"EXA_API_KEY": "k7"}}`, false, ""},
		{`"example": {"command": "x", "env": {"EXA_API_KEY": "k8"}}`, true, ""},
	} {
		file := `{"mcpServers": {"other": {"command": "y"}, ` + c.entry + `}}`
		names, keys, notes := filtered(t, Options{FilterExa: true, FilterBrowser: true, ProjectTrust: TrustAlways}, file, map[string]string{"KEY": "from-env"})
		if kept := len(names) == 2; kept != c.kept || (len(notes) == 0) != c.kept || strings.Join(keys, ",") != c.key {
			t.Errorf("%s: left %v, keys %q, notes %q", c.entry, names, keys, notes)
		}
		if names, keys, _ := filtered(t, Options{ProjectTrust: TrustAlways}, file, nil); len(names) != 2 || keys != nil {
			t.Errorf("%s: filtered by default: %v, %v", c.entry, names, keys)
		}
	}
	// A stranger's key is not the user's, and nothing of a stranger is expanded.
	for _, entry := range []string{`"exa": {"command": "x", "env": {"EXA_API_KEY": "theirs"}}`, `"s": {"url": "https://mcp.exa.ai/mcp?exaApiKey=${KEY}"}`} {
		names, keys, notes := filtered(t, Options{FilterExa: true}, `{"mcpServers": {`+entry+`}}`, map[string]string{"KEY": "mine"})
		if len(names) != 0 || keys != nil || len(notes) != 1 {
			t.Errorf("untrusted %s: %v, %v, %v", entry, names, keys, notes)
		}
	}
}

func TestFilterBrowser(t *testing.T) {
	for entry, kept := range map[string]bool{
		`"Playwright": {"command": "x"}`:                                      false,
		`"browser": {"command": "x"}`:                                         false,
		`"browsers": {"command": "x"}`:                                        true,
		`"s": {"command": "npx", "args": ["-y", "@playwright/mcp@latest"]}`:   false,
		`"s": {"command": "/opt/puppeteer-mcp/run"}`:                          false,
		`"s": {"url": "https://mcp.browserbase.com/mcp"}`:                     false,
		`"s": {"url": "https://api.browser-use.com/x"}`:                       false,
		`"s": {"command": "npx", "args": ["-y", "@playwright/test"]}`:         true,
		`"s": {"url": "https://example.com/mcp", "headers": {"A": "chrome"}}`: true,
	} {
		names, _, notes := filtered(t, Options{FilterBrowser: true, ProjectTrust: TrustAlways}, fmt.Sprintf(`{"mcpServers": {%s}}`, entry), nil)
		if (len(names) == 1) != kept || (len(notes) == 0) != kept {
			t.Errorf("%s: left %v, notes %v", entry, names, notes)
		}
	}
}
