package config

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenCase puts fixtures where a tool would have them, discovers, resolves
// every server, and compares all of it with testdata/golden/<name>.json.
type goldenCase struct {
	name  string
	files map[string]string // path under $PROJECT, $HOME or $CONFIG → fixture
	host  []string          // host-named files
	env   map[string]string
	user  User
	trust string
	vars  map[string]string
	goos  string            // "": linux
	more  map[string]string // files with their text: path → text
}

var fooEnv = map[string]string{"FOO": "$1 and ${TOK}", "FOOBAR": "no", "TOK": "tok-value-1", "B": "b"}

var goldenCases = []goldenCase{
	{name: "01_unset", files: map[string]string{"$PROJECT/.mcp.json": "01_claude_basic.mcp.json"}, trust: TrustAlways},
	{name: "01_set", files: map[string]string{"$PROJECT/.mcp.json": "01_claude_basic.mcp.json"}, trust: TrustAlways, env: map[string]string{"TRACKER_TOKEN": "tracker-secret"}},
	{name: "02_defaults", files: map[string]string{"$PROJECT/.mcp.json": "02_claude_defaults.mcp.json"}, trust: TrustAlways},
	{name: "03_claude_home", files: map[string]string{"$HOME/.claude.json": "03_claude_home.json"}, user: User{IDs: []string{"claude"}}},
	{name: "03_not_imported", files: map[string]string{"$HOME/.claude.json": "03_claude_home.json"}},
	{name: "04_cursor_url_only", files: map[string]string{"$PROJECT/.cursor/mcp.json": "04_cursor_url_only.json"}, trust: TrustAlways},
	{name: "05_http_sse", files: map[string]string{"$PROJECT/.vscode/mcp.json": "05_type_http_url_sse.jsonc"}, trust: TrustAlways},
	{name: "06_vscode", files: map[string]string{"$PROJECT/.vscode/mcp.json": "06_vscode_comments.jsonc"}, trust: TrustAlways, more: map[string]string{"$PROJECT/../tests/mcp/x": ""}},
	{name: "08_vscode_full", files: map[string]string{"$PROJECT/.vscode/mcp.json": "08_vscode_full.jsonc"}, trust: TrustAlways, env: map[string]string{"DB_MODE": "rw-mode"},
		more: map[string]string{"$PROJECT/.env": "MODE=file\nEXTRA=from-file\n"}},
	{name: "08_vscode_no_envfile", files: map[string]string{"$PROJECT/.vscode/mcp.json": "08_vscode_full.jsonc"}, trust: TrustAlways, env: map[string]string{"DB_MODE": "rw-mode"}},
	{name: "09_bare_root", files: map[string]string{"$PROJECT/.mcp.json": "09_bare_root.json"}, trust: TrustAlways},
	{name: "11_cline", files: map[string]string{"$CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json": "11_cline.json"}, user: User{All: true}},
	{name: "12_roo", files: map[string]string{"$PROJECT/.roo/mcp.json": "12_roo.json"}, trust: TrustAlways, env: map[string]string{"R_KEY": "r-secret"}},
	{name: "14_gemini", files: map[string]string{"$PROJECT/.gemini/settings.json": "14_gemini_settings.json"}, trust: TrustAlways, env: map[string]string{"X_TOKEN": "x-secret"}},
	{name: "14_gemini_windows", files: map[string]string{"$HOME/.gemini/settings.json": "14_gemini_settings.json"}, user: User{All: true}, goos: "windows"},
	{name: "15_amazonq", files: map[string]string{"$PROJECT/.amazonq/mcp.json": "15_amazonq.json"}, trust: TrustAlways},
	{name: "16_copilot", files: map[string]string{"$HOME/.copilot/mcp-config.json": "16_copilot_cli.json"}, user: User{IDs: []string{"copilot"}}, env: map[string]string{"CASES_URL": "https://cases.example.com"}},
	{name: "17_opencode", files: map[string]string{"$PROJECT/opencode.jsonc": "17_opencode.jsonc"}, trust: TrustAlways, env: map[string]string{"ONE_TOKEN": "one-secret"},
		more: map[string]string{"$PROJECT/secret.txt": "file-secret\n"}},
	{name: "18_codex", files: map[string]string{"$HOME/.codex/config.toml": "18_codex.toml"}, user: User{All: true}, env: map[string]string{"DOCS_TOKEN": "docs-secret", "REMOTE_TOKEN": "remote-secret", "TEAM_ID": "team-1"}},
	{name: "20_codex_none", files: map[string]string{"$PROJECT/.codex/config.toml": "20_codex_none.toml"}},
	{name: "21_zed", files: map[string]string{"$PROJECT/.zed/settings.json": "21_zed.jsonc"}, trust: TrustAlways, env: map[string]string{"WEB_TOKEN": "web-secret"}},
	{name: "22_goose", files: map[string]string{"$CONFIG/goose/config.yaml": "22_goose.yaml"}, user: User{All: true}, env: map[string]string{"TRACKER_TOKEN": "tracker-secret", "R_TOKEN": "r-secret"}},
	{name: "25_comments", files: map[string]string{"$PROJECT/.mcp.json": "25_comments_in_json.json"}, trust: TrustAlways},
	{name: "27_unknown_url_key", files: map[string]string{"$PROJECT/.mcp.json": "27_unknown_url_key.json"}, trust: TrustAlways},
	{name: "28_command_line", files: map[string]string{"$PROJECT/.mcp.json": "28_command_line_in_command.json"}, trust: TrustAlways},
	{name: "31_dollar_values", files: map[string]string{"$PROJECT/.mcp.json": "31_dollar_values.json"}, trust: TrustAlways, env: fooEnv},
	{name: "32_names", files: map[string]string{"$PROJECT/.mcp.json": "32_names.json"}, trust: TrustAlways},
	{name: "34_windows", files: map[string]string{"$PROJECT/.mcp.json": "34_windows.json"}, trust: TrustAlways},
	{name: "36_oauth", files: map[string]string{"$PROJECT/.mcp.json": "36_oauth_blocks.json"}, trust: TrustAlways},
	{name: "38_single_server", files: map[string]string{"$PROJECT/one-tool.json": "38_single_server.json"}, host: []string{"one-tool.json"}},
	{name: "39_empty", files: map[string]string{"$PROJECT/.mcp.json": "39_empty.json"}},
	{name: "40_null", files: map[string]string{"$PROJECT/.mcp.json": "40_null.json"}},
	{name: "41_truncated", files: map[string]string{"$PROJECT/.mcp.json": "41_truncated.json", "$PROJECT/.cursor/mcp.json": "04_cursor_url_only.json"}, trust: TrustAlways},
	{name: "42_docker_env", files: map[string]string{"$PROJECT/.mcp.json": "42_docker_env.json"}, trust: TrustAlways, env: map[string]string{"GH_TOKEN": "gh-secret"}},
	{name: "44_filters", files: map[string]string{"$PROJECT/.mcp.json": "44_filters.json"}, trust: TrustAlways},
	{name: "45_timeouts_claude", files: map[string]string{"$PROJECT/.mcp.json": "45_timeouts.json"}, trust: TrustAlways},
	{name: "45_timeouts_unknown", files: map[string]string{"$PROJECT/some.json": "45_timeouts.json"}, host: []string{"some.json"}},
	{name: "47_placeholders", files: map[string]string{"$PROJECT/.mcp.json": "47_placeholders.json"}, trust: TrustAlways},
	{name: "48_untrusted", files: map[string]string{"$PROJECT/.mcp.json": "48_untrusted_project.mcp.json"}},
	{name: "50_secrets", files: map[string]string{"$PROJECT/.mcp.json": "50_secrets_inline.json"}, trust: TrustAlways},
	{name: "51_plugin_vars_missing", files: map[string]string{"$PROJECT/.mcp.json": "51_plugin_vars.json"}, trust: TrustAlways},
	{name: "51_plugin_vars_given", files: map[string]string{"$PROJECT/.mcp.json": "51_plugin_vars.json"}, trust: TrustAlways,
		vars: map[string]string{"CLAUDE_PLUGIN_ROOT": "/plugins/db", "CLAUDE_PLUGIN_DATA": "/data"}, env: map[string]string{"CLAUDE_PLUGIN_ROOT": "/wrong"}},
	{name: "layering", user: User{IDs: []string{"claude"}}, trust: TrustAlways, files: map[string]string{
		"$HOME/.claude/mcp.json": "layering/user.json", "$PROJECT/.mcp.json": "layering/project.mcp.json", "$PROJECT/local.json": "layering/local.json"}, host: []string{"local.json"}},
	{name: "layering_untrusted", user: User{IDs: []string{"claude"}}, files: map[string]string{
		"$HOME/.claude/mcp.json": "layering/user.json", "$PROJECT/.mcp.json": "layering/project.mcp.json", "$PROJECT/local.json": "layering/local.json"}, host: []string{"local.json"}},
}

func TestEveryFixtureIsCovered(t *testing.T) {
	covered := map[string]string{}
	for _, c := range goldenCases {
		for _, fixture := range c.files {
			covered[fixture] = c.name
		}
	}
	root := filepath.Join("testdata", "fixtures")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if covered[rel] == "" {
			t.Errorf("%s has no golden case", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type goldenServer struct {
	Name        string        `json:"name"`
	Enabled     bool          `json:"enabled"`
	Trusted     bool          `json:"trusted"`
	DuplicateOf string        `json:"duplicateOf,omitempty"`
	Source      Origin        `json:"source"`
	Shown       Server        `json:"shown"` // redacted
	Written     Server        `json:"written"`
	Resolved    *Resolved     `json:"resolved,omitempty"`
	Secrets     []string      `json:"secrets,omitempty"`
	Prompts     []Prompt      `json:"prompts,omitempty"`
	Error       *ResolveError `json:"error,omitempty"`
	Warnings    []Diagnostic  `json:"warnings,omitempty"`
}

type golden struct {
	Servers     []goldenServer `json:"servers"`
	Shadowed    []Shadowed     `json:"shadowed"`
	Diagnostics []Diagnostic   `json:"diagnostics"`
}

func TestGolden(t *testing.T) {
	for _, c := range goldenCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dirs := newDirs(t)
			for place, fixture := range c.files {
				data, err := os.ReadFile(filepath.Join("testdata", "fixtures", fixture))
				if err != nil {
					t.Fatal(err)
				}
				// On a line of its own, so that columns do not depend on the directory's length.
				text := strings.ReplaceAll(string(data), `"/home/dev/alpha": `, `"`+dirs.project+"\":\n    ")
				dirs.write(t, place, text)
			}
			for place, text := range c.more {
				dirs.write(t, place, text)
			}
			env := dirs.env(c.env)
			if c.goos != "" {
				env = newEnv(c.goos, map[string]string{"USERPROFILE": dirs.home, "HOME": dirs.home, "APPDATA": dirs.config, "Z_WIN": "from windows", "Z_KEY": "z", "X_TOKEN": "x"})
			}
			result, err := Discover(context.Background(), Options{Cwd: dirs.project, Env: env, Files: c.host, Project: true,
				User: c.user, ProjectTrust: c.trust, Vars: c.vars})
			if err != nil {
				t.Fatal(err)
			}
			got := golden{Servers: []goldenServer{}, Shadowed: result.Shadowed, Diagnostics: result.Diagnostics}
			for _, e := range result.Entries {
				g := goldenServer{Name: e.Name, Enabled: e.Enabled, Trusted: e.Trusted, DuplicateOf: e.DuplicateOf, Source: e.Origin,
					Shown: Redact(e.Server), Written: e.Server, Prompts: e.Prompts}
				if !strings.HasPrefix(e.Hash, "sha256:") || len(e.Hash) != len("sha256:")+64 {
					t.Errorf("%s: hash %q", e.Name, e.Hash)
				}
				if e.Trusted {
					r, warnings, err := Resolve(e, env, ResolveOptions{Cwd: dirs.project, Vars: c.vars})
					g.Warnings = warnings
					if err != nil {
						g.Error = err.(*ResolveError)
					} else {
						g.Resolved, g.Secrets = r, r.Secrets
					}
				}
				got.Servers = append(got.Servers, g)
			}
			text, err := json.MarshalIndentWithOption(got, "", "  ", json.DisableHTMLEscape())
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, c.name, dirs.neutral(string(text))+"\n")
		})
	}
}

func TestGoldenRegisteredSources(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		text, err := json.MarshalIndent(registeredOn(goos), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, "registered_"+goos, string(text)+"\n")
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".json")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (run with -update and read the diff):\n%s", path, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			return strings.Join(g[max(0, i-3):min(len(g), i+4)], "\n")
		}
	}
	return "it ends early"
}

// dirs are a project and a user's directories for one test.
type dirs struct{ project, home, config string }

func newDirs(t *testing.T) dirs {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := dirs{filepath.Join(root, "project"), filepath.Join(root, "home"), filepath.Join(root, "home", ".config")}
	for _, dir := range []string{d.project, d.config} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d dirs) real(place string) string {
	return strings.NewReplacer("$PROJECT", d.project, "$HOME", d.home, "$CONFIG", d.config).Replace(place)
}

func (d dirs) neutral(text string) string {
	return strings.NewReplacer(d.project, "$PROJECT", d.config, "$CONFIG", d.home, "$HOME", filepath.Dir(d.project), "$ROOT").Replace(text)
}

func (d dirs) write(t *testing.T, place, text string) string {
	t.Helper()
	path := d.real(place)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d dirs) env(more map[string]string) Env {
	vars := map[string]string{"HOME": d.home, "XDG_CONFIG_HOME": d.config, "PATH": "/nonexistent"}
	for name, value := range more {
		vars[name] = value
	}
	return newEnv("linux", vars)
}
