package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// resolveIn discovers a project's one file and resolves its server a.
func resolveIn(t *testing.T, place, text string, env map[string]string) (*Resolved, error) {
	t.Helper()
	d := newDirs(t)
	d.write(t, place, d.real(text))
	for name, value := range env {
		env[name] = d.real(value)
	}
	r, err := Discover(t.Context(), Options{Cwd: d.project, Env: d.env(env), Project: true, User: User{All: true}, ProjectTrust: TrustAlways})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Entries {
		if e.Name == "a" || e.Name == "p:a" {
			out, _, err := Resolve(e, d.env(env), ResolveOptions{Cwd: d.project})
			return out, err
		}
	}
	t.Fatalf("no server a: %+v", r.Diagnostics)
	return nil, nil
}

func TestPassedOnVariables(t *testing.T) {
	const text = "[mcp_servers.a]\nurl = \"https://a.example.com\"\nbearer_token_env_var = \"TOK\"\nenv_http_headers = { X-A = \"AV\", X-B = \"UNSET\" }\n"
	r, err := resolveIn(t, "$PROJECT/.codex/config.toml", text, map[string]string{"TOK": "tok-secret", "AV": "a-secret"})
	if err != nil || r.Headers["Authorization"] != "Bearer tok-secret" || r.Headers["X-A"] != "a-secret" || len(r.Headers) != 2 {
		t.Errorf("%+v %v", r, err)
	}
	for _, secret := range []string{"tok-secret", "a-secret"} {
		if !slices.Contains(r.Secrets, secret) {
			t.Errorf("%s is not kept secret: %q", secret, r.Secrets)
		}
	}
	_, err = resolveIn(t, "$PROJECT/.codex/config.toml", text, map[string]string{"TOK": ""})
	var re *ResolveError
	if !errors.As(err, &re) || re.Code != "unresolved_variable" || re.Field != "bearerTokenEnvVar" || re.Line != 3 || re.Column != 24 {
		t.Errorf("%+v", err)
	}
	r, err = resolveIn(t, "$PROJECT/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"A\", \"B\", \"UNSET\"]\nenv = { B = \"own\" }\n", map[string]string{"A": "1", "B": "outer"})
	if err != nil || len(r.Env) != 2 || r.Env["A"] != "1" || r.Env["B"] != "own" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestGooseTakesItsOwnEnvInHeaders(t *testing.T) {
	r, err := resolveIn(t, "$CONFIG/goose/config.yaml", "extensions:\n  a:\n    uri: https://a.example.com/$x\n    envs: {TOK: inner$y}\n    headers: {Authorization: 'Bearer $TOK', B: '${OUT}', C: 'pa$$x'}\n",
		map[string]string{"TOK": "outer", "OUT": "o"})
	if err != nil || r.URL != "https://a.example.com/$x" || r.Env["TOK"] != "inner$y" || r.Headers["Authorization"] != "Bearer inner$y" || r.Headers["B"] != "o" || r.Headers["C"] != "pa$$x" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestPluginFindsItsDirectory(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$HOME/.claude/plugins/installed_plugins.json", d.real(`{"plugins": {"p@m.x": [{"installPath": "$HOME/p"}]}}`))
	d.write(t, "$HOME/p/.mcp.json", `{"mcpServers": {"a": {"command": "${CLAUDE_PLUGIN_ROOT}/a", "args": ["${CLAUDE_PROJECT_DIR}"], "cwd": "."}}}`)
	env := d.env(map[string]string{"CLAUDE_PLUGIN_ROOT": "/wrong"})
	r, err := Discover(t.Context(), Options{Cwd: d.project, Env: env, User: User{IDs: []string{"claude-plugins"}}})
	if err != nil || len(r.Entries) != 1 || len(r.Diagnostics) != 0 || !r.Entries[0].Trusted {
		t.Fatalf("%+v %v", r, err)
	}
	out, _, err := Resolve(r.Entries[0], env, ResolveOptions{Cwd: d.project, Vars: map[string]string{"CLAUDE_PLUGIN_ROOT": "/host"}})
	if err != nil || out.Command != d.home+"/p/a" || out.Args[0] != d.project || out.Cwd != d.home+"/p" || out.Env["CLAUDE_PLUGIN_DATA"] != d.home+"/.claude/plugins/data/p-m-x" {
		t.Errorf("%+v %v", out, err)
	}
}

// TestUnwantedPluginsAreCountedOnly: what the user set up for another program is
// counted and not read further, and what is wrong with it is not the host's matter.
func TestUnwantedPluginsAreCountedOnly(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$HOME/.claude/plugins/installed_plugins.json", d.real(`{"plugins": {"p@m": [{"installPath": "$HOME/p"}], "q@m": [{"installPath": "$HOME/q"}]}}`))
	d.write(t, "$HOME/p/.mcp.json", `{"mcpServers": {"a": {"command": "x"}}}`)
	d.write(t, "$HOME/q/.claude-plugin/plugin.json", `{"mcpServers": "../x"}`)
	r, got := d.find(t, Options{})
	expect(t, got)
	expect(t, codes(r.Diagnostics), "not_imported ")
	r, got = d.find(t, Options{User: User{None: true}})
	expect(t, got)
	expect(t, codes(r.Diagnostics))
}

// TestLayersNeedTrust: a project's entry that builds on a user's is the
// project's, as a whole; the user's own stays what it is.
func TestLayersNeedTrust(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$HOME/.config/opencode/opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://good.example.com", "headers": {"K": "{file:k}"}}}}`)
	d.write(t, "$PROJECT/opencode.json", `{"mcp": {"a": {"url": "https://evil.example.com"}}}`)
	o := Options{Cwd: d.project, Env: d.env(nil), Project: true, User: User{All: true}}
	r, err := Discover(t.Context(), o)
	if err != nil || len(r.Entries) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	evil, good := r.Entries[0], r.Entries[1]
	if evil.Trusted || evil.Server.URL != "https://evil.example.com" || !strings.Contains(evil.Server.Headers["K"], d.config) {
		t.Errorf("%+v", evil)
	}
	if owners := r.Owners(); len(owners) != 1 || owners[0] != good || !good.Trusted || good.Server.URL != "https://good.example.com" {
		t.Errorf("%+v", owners)
	}
	before := evil.Hash
	d.write(t, "$HOME/.config/opencode/opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://good.example.com", "headers": {"K": "other"}}}}`)
	if r, err = Discover(t.Context(), o); err != nil || r.Entries[0].Hash == before {
		t.Errorf("the hash does not cover what is inherited: %v", err)
	}
	// Without the user's file nothing is inherited.
	r, got := d.find(t, Options{Project: true})
	expect(t, got, "?a opencode project")
	if u := r.Entries[0].Server; u.URL != "https://evil.example.com" || len(u.Headers) != 0 {
		t.Errorf("%+v", u)
	}
	// A file that the host names is trusted, and must not inherit from the project.
	named := d.write(t, "$HOME/x/opencode.json", `{"mcp": {"a": {"enabled": true, "type": "local", "command": ["mine"]}}}`)
	r, err = Discover(t.Context(), Options{Cwd: d.project, Env: d.env(nil), Project: true, Files: []string{named}})
	if err != nil || r.Entries[0].Server.Command != "mine" || r.Entries[0].Server.URL != "" || !r.Entries[0].Trusted {
		t.Errorf("%+v %v", r.Entries[0], err)
	}
}

func TestHostNamedFilesKeepTheirDialect(t *testing.T) {
	d := newDirs(t)
	var files []string
	for place, text := range map[string]string{
		"$PROJECT/x/cline_mcp_settings.json":           `{"mcpServers": {"cline": {"command": "1", "timeout": 60}}}`,
		"$PROJECT/x/.codex/config.toml":                "[mcp_servers.codex]\ncommand = \"2\"\n",
		"$PROJECT/x/servers.toml":                      "[mcp_servers.plain]\ncommand = \"3\"\n",
		"$PROJECT/x/servers.yml":                       "mcpServers:\n  yml:\n    command: four\n",
		"$PROJECT/x/goose/config.yaml":                 "extensions:\n  goose:\n    cmd: five\n    timeout: 2\n",
		"$PROJECT/x/Claude/claude_desktop_config.json": `{"mcpServers": {"desktop": {"command": "6", "timeout": 5000}}}`,
	} {
		files = append(files, d.write(t, place, text))
	}
	slices.Sort(files)
	r, err := Discover(t.Context(), Options{Cwd: d.project, Env: d.env(nil), Files: files})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, e := range r.Entries {
		got[e.Name] = 0
		if e.Server.TimeoutMs != nil {
			got[e.Name] = *e.Server.TimeoutMs
		}
	}
	for name, want := range map[string]int64{"cline": 60000, "codex": 0, "plain": 0, "yml": 0, "goose": 2000, "desktop": 5000} {
		if ms, ok := got[name]; !ok || ms != want {
			t.Errorf("%s: %d %v, want %d", name, ms, ok, want)
		}
	}
	if len(r.Diagnostics) != 0 {
		t.Errorf("%+v", r.Diagnostics)
	}
}
