package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const oneServer = `{"mcpServers": {"%s": {"command": "%s"}}}`

func server(name, command string) string { return fmt.Sprintf(oneServer, name, command) }

// find runs Discover and gives "name provider level" per entry, with the marks
// - for disabled and ? for untrusted.
func (d dirs) find(t *testing.T, o Options) (*Result, []string) {
	t.Helper()
	o.Cwd = d.project
	o.Env = d.env(nil)
	r, err := Discover(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range r.Entries {
		mark := ""
		if !e.Enabled {
			mark += "-"
		}
		if !e.Trusted {
			mark += "?"
		}
		list = append(list, fmt.Sprintf("%s%s %s %s", mark, e.Name, e.Origin.Provider, e.Origin.Level))
	}
	return r, list
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func codes(list []Diagnostic) (out []string) {
	for _, d := range list {
		out = append(out, d.Code+" "+d.Server)
	}
	slices.Sort(out)
	return out
}

func TestOrderOfOwnership(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcp.json", server("x", "mcp-json"))
	d.write(t, "$PROJECT/mcp.json", server("x", "mcp-json-2"))
	d.write(t, "$PROJECT/.cursor/mcp.json", server("x", "cursor"))
	d.write(t, "$PROJECT/.claude/mcp.json", server("x", "claude"))
	d.write(t, "$PROJECT/.claude/.mcp.json", server("x", "claude-2"))
	d.write(t, "$PROJECT/.mcprt/mcp.json", server("x", "own"))
	d.write(t, "$CONFIG/mcprt/mcp.json", server("x", "own-user"))
	d.write(t, "$HOME/.cursor/mcp.json", server("x", "cursor-user"))
	d.write(t, "$HOME/.claude/mcp.json", server("x", "claude-user"))
	d.write(t, "$HOME/.claude.json", `{"mcpServers": {"x": {"command": "claude-home"}}, "projects": {"`+d.project+`/": {"mcpServers": {"x": {"command": "claude-local"}}}}}`)
	b := d.write(t, "$PROJECT/b.json", server("x", "host-b"))
	a := d.write(t, "$PROJECT/a.json", server("x", "host-a"))
	r, got := d.find(t, Options{Project: true, User: User{All: true}, ProjectTrust: TrustAlways, Files: []string{b, a},
		Inline: []Inline{{"x", []byte(`{"command": "inline"}`)}}})
	expect(t, got, "x inline host")
	var order []string
	for _, s := range r.Shadowed {
		if s.By.Provider != "inline" {
			t.Errorf("%v is shadowed by %v", s.Source, s.By)
		}
		order = append(order, d.neutral(s.Source.Path)+" "+string(s.Source.Level))
	}
	expect(t, order, "$PROJECT/b.json host", "$PROJECT/a.json host", "$HOME/.claude.json local",
		"$PROJECT/.mcprt/mcp.json project", "$PROJECT/.claude/mcp.json project", "$PROJECT/.claude/.mcp.json project",
		"$PROJECT/.cursor/mcp.json project", "$PROJECT/.mcp.json project", "$PROJECT/mcp.json project",
		"$CONFIG/mcprt/mcp.json user", "$HOME/.claude.json user", "$HOME/.claude/mcp.json user", "$HOME/.cursor/mcp.json user")
}

func TestUserLevelChoices(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$CONFIG/mcprt/mcp.json", server("own", "a"))
	d.write(t, "$HOME/.cursor/mcp.json", `{"mcpServers": {"c1": {"command": "b"}, "c2": {"command": "c"}}}`)
	d.write(t, "$HOME/.claude.json", server("cl", "d"))
	d.write(t, "$HOME/.claude/mcp.json", server("cl2", "e"))
	r, got := d.find(t, Options{})
	expect(t, got, "own mcprt user")
	expect(t, codes(r.Diagnostics), "not_imported ", "not_imported ")
	if !strings.HasPrefix(r.Diagnostics[0].Message, "2 servers that Claude Code") || !strings.HasPrefix(r.Diagnostics[1].Message, "2 servers that Cursor") {
		t.Errorf("%+v", r.Diagnostics)
	}
	r, got = d.find(t, Options{User: User{IDs: []string{"cursor"}}})
	expect(t, got, "own mcprt user", "c1 cursor user", "c2 cursor user")
	expect(t, codes(r.Diagnostics), "not_imported ")
	d.write(t, "$HOME/.cursor/mcp.json", server("c", "b"))
	r, _ = d.find(t, Options{User: User{IDs: []string{"claude"}}})
	if len(r.Diagnostics) != 1 || !strings.HasPrefix(r.Diagnostics[0].Message, "1 server that Cursor has set up for the user was left out") {
		t.Errorf("%+v", r.Diagnostics)
	}
	d.write(t, "$HOME/.cursor/mcp.json", `{"mcpServers": {"c1": {"command": "b"}, "c2": {"command": "c"}}}`)
	r, got = d.find(t, Options{User: User{None: true}})
	expect(t, got)
	expect(t, codes(r.Diagnostics))
	_, got = d.find(t, Options{User: User{All: true}, Exclude: []string{"claude", "mcprt"}})
	expect(t, got, "c1 cursor user", "c2 cursor user")
}

func TestClaudeConfigDir(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$HOME/.claude.json", server("at-home", "a"))
	d.write(t, "$HOME/moved/.claude.json", server("moved", "b"))
	d.write(t, "$HOME/moved/mcp.json", server("moved2", "c"))
	r, err := Discover(context.Background(), Options{Cwd: d.project, User: User{All: true},
		Env: d.env(map[string]string{"CLAUDE_CONFIG_DIR": d.real("$HOME/moved")})})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Entries) != 2 || r.Entries[0].Name != "moved" || r.Entries[1].Name != "moved2" {
		t.Errorf("%+v", r.Entries)
	}
}

func TestProjectFilesOff(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcp.json", server("p", "a"))
	_, got := d.find(t, Options{Project: false})
	expect(t, got)
}

func TestUserSwitches(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$CONFIG/mcprt/mcp.json", `{"enabledServers": ["off", "both"], "disabledServers": ["on", "both"], "mcpServers": {}}`)
	d.write(t, "$PROJECT/.mcprt/mcp.json", `{"disabledServers": ["kept"]}`)
	d.write(t, "$PROJECT/.mcp.json", `{"mcpServers": {"on": {"command": "a"}, "off": {"command": "b", "disabled": true}, "both": {"command": "c"}, "kept": {"command": "d"}}}`)
	r, got := d.find(t, Options{Project: true, ProjectTrust: TrustAlways})
	expect(t, got, "-on mcp-json project", "off mcp-json project", "-both mcp-json project", "kept mcp-json project")
	expect(t, codes(r.Diagnostics), "unsupported_field ")
}

func TestDisabledKeepsItsName(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcp.json", `{"mcpServers": {"x": {"command": "a", "disabled": true}}}`)
	d.write(t, "$CONFIG/mcprt/mcp.json", server("x", "b"))
	r, got := d.find(t, Options{Project: true, ProjectTrust: TrustAlways})
	expect(t, got, "-x mcp-json project")
	if len(r.Shadowed) != 1 || r.Shadowed[0].Source.Level != LevelUser {
		t.Errorf("shadowed %+v", r.Shadowed)
	}
}

func TestOverlays(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcp.json", `{"mcpServers": {"x": {"command": "a"}, "y": {"enabled": true}, "z": {"disabled": true}}}`)
	d.write(t, "$CONFIG/mcprt/mcp.json", `{"mcpServers": {"y": {"command": "b", "enabled": false}, "z": {"command": "c"}}}`)
	inline := []Inline{{"x", []byte(`{"enabled": false}`)}, {"nobody", []byte(`{"enabled": false}`)}}
	r, got := d.find(t, Options{Project: true, ProjectTrust: TrustAlways, Inline: inline})
	expect(t, got, "-x mcp-json project", "y mcprt user", "-z mcprt user")
	expect(t, codes(r.Diagnostics), "overlay_without_server nobody")
	// A stranger's project file switches nothing, but is itself switched off.
	r, got = d.find(t, Options{Project: true, Inline: inline})
	expect(t, got, "-?x mcp-json project", "-y mcprt user", "z mcprt user")
	expect(t, codes(r.Diagnostics), "overlay_without_server nobody", "untrusted_overlay y", "untrusted_overlay z")
}

func TestUntrustedOwnsNoName(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcp.json", `{"mcpServers": {"x": {"command": "evil"}, "new": {"command": "${NO_SUCH}"}, "taken": {"command": "a"}}}`)
	d.write(t, "$CONFIG/mcprt/mcp.json", server("x", "good"))
	o := Options{Project: true, Inline: []Inline{{"taken", []byte(`{"command": "b"}`)}}}
	r, got := d.find(t, o)
	expect(t, got, "taken inline host", "?x mcp-json project", "?new mcp-json project", "x mcprt user")
	expect(t, codes(r.Diagnostics)) // nothing of an untrusted entry is expanded
	if len(r.Shadowed) != 1 || r.Shadowed[0].Name != "taken" {
		t.Errorf("shadowed %+v", r.Shadowed)
	}
	var owners []string
	for _, e := range r.Owners() {
		owners = append(owners, e.Name+" "+e.Server.Command)
	}
	expect(t, owners, "taken b", "new ${NO_SUCH}", "x good")
	hash := r.Entries[1].Hash
	o.Trusted = func(h string) bool { return h == hash }
	r, got = d.find(t, o)
	expect(t, got, "taken inline host", "x mcp-json project", "?new mcp-json project")
	if len(r.Shadowed) != 2 {
		t.Errorf("shadowed %+v", r.Shadowed)
	}
	o.ProjectTrust = TrustNever
	_, got = d.find(t, o)
	expect(t, got, "taken inline host", "?x mcp-json project", "?new mcp-json project", "x mcprt user")
}

// TestHashCovers changes one thing at a time.
func TestHashCovers(t *testing.T) {
	d := newDirs(t)
	hash := func(o Options) string {
		t.Helper()
		o.Project = true
		r, _ := d.find(t, o)
		return r.Entries[0].Hash
	}
	write := func(text string) { d.write(t, "$PROJECT/.mcprt/mcp.json", text) }
	const entry = `{"mcpServers": {"a": {"command": "c", "envFile": "e.env", "env": {"K": "{file:key}"}%s}}}`
	d.write(t, "$PROJECT/e.env", "A=1")
	d.write(t, "$PROJECT/key", "k1")
	write(fmt.Sprintf(entry, ""))
	before := hash(Options{})
	if again := hash(Options{}); again != before {
		t.Fatalf("the hash is not stable")
	}
	write("// a comment\n" + fmt.Sprintf(entry, "   "))
	if hash(Options{}) != before {
		t.Error("white space and comments changed the hash")
	}
	for what, change := range map[string]func(){
		"the entry":       func() { write(fmt.Sprintf(entry, `, "x": 1`)) },
		"the name":        func() { write(strings.Replace(fmt.Sprintf(entry, ""), `"a"`, `"b"`, 1)) },
		"envFile content": func() { d.write(t, "$PROJECT/e.env", "A=2") },
		"{file:} content": func() { d.write(t, "$PROJECT/key", "k2") },
		"envFile is gone": func() { os.Remove(d.real("$PROJECT/e.env")) },
		"the project": func() {
			if err := os.Rename(d.project, d.project+"2"); err != nil {
				t.Fatal(err)
			}
			d.project += "2"
		},
	} {
		saved := d
		change()
		if hash(Options{}) == before {
			t.Errorf("%s does not change the hash", what)
		}
		if d != saved {
			if err := os.Rename(d.project, saved.project); err != nil {
				t.Fatal(err)
			}
			d = saved
		}
		write(fmt.Sprintf(entry, ""))
		d.write(t, "$PROJECT/e.env", "A=1")
		d.write(t, "$PROJECT/key", "k1")
		if hash(Options{}) != before {
			t.Fatalf("%s: the hash did not come back", what)
		}
	}
}

// TestTrustedBytesRun: what was hashed is what runs, whatever happens to the
// files afterwards.
func TestTrustedBytesRun(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcprt/mcp.json", `{"mcpServers": {"a": {"command": "good", "envFile": "${workspaceFolder}/e.env", "env": {"K": "{file:key}"}},
		"late": {"command": "c", "envFile": "late.env"}, "dynamic": {"command": "c", "envFile": "${WHERE}"}}}`)
	d.write(t, "$PROJECT/e.env", "A=hashed")
	d.write(t, "$PROJECT/key", "hashed-key")
	r, _ := d.find(t, Options{Project: true, ProjectTrust: TrustAlways})
	for _, place := range []string{"$PROJECT/e.env", "$PROJECT/late.env"} {
		d.write(t, place, "A=swapped\nLD_PRELOAD=evil.so")
	}
	d.write(t, "$PROJECT/key", "swapped")
	d.write(t, "$PROJECT/.mcprt/mcp.json", server("a", "evil"))
	env := d.env(map[string]string{"WHERE": d.real("$PROJECT/late.env")})
	got, _, err := Resolve(r.Entries[0], env, ResolveOptions{Cwd: d.project})
	if err != nil {
		t.Fatal(err)
	}
	if got.Command != "good" || got.Env["A"] != "hashed" || got.Env["K"] != "hashed-key" || len(got.Env) != 2 {
		t.Errorf("resolved %+v", got.Server)
	}
	got, warnings, err := Resolve(r.Entries[1], env, ResolveOptions{Cwd: d.project})
	if err != nil || len(got.Env) != 0 || len(warnings) != 1 || warnings[0].Code != "missing_env_file" {
		t.Errorf("a file that came later was used: %+v %v %v", got, warnings, err)
	}
	if _, _, err = Resolve(r.Entries[2], env, ResolveOptions{Cwd: d.project}); err == nil || err.(*ResolveError).Field != "envFile" {
		t.Errorf("an unhashed project file was used: %v", err)
	}
}

func TestSeparatorsInHash(t *testing.T) {
	hash := func(provider, name string) string {
		e := &Entry{Name: name, Origin: Origin{Provider: provider}, raw: []byte("{}")}
		if err := e.seal("/f", "/p", "/h", nil); err != nil {
			t.Fatal(err)
		}
		return e.Hash
	}
	if hash("ab", "c") == hash("a", "bc") {
		t.Error("parts run into each other")
	}
}

func TestDuplicates(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.mcprt/mcp.json", `{"mcpServers": {
		"a": {"command": "c", "args": ["x"], "env": {"K": "${V}"}, "timeoutMs": 5},
		"same": {"command": "c", "args": ["x"], "env": {"K": "${V}"}, "denyTools": ["y"]},
		"other-env": {"command": "c", "args": ["x"], "env": {"K": "${W}"}},
		"other-args": {"command": "c", "args": ["x", ""]},
		"off": {"command": "c", "args": ["x"], "env": {"K": "${V}"}, "enabled": false},
		"u": {"url": "https://h/mcp"}, "u2": {"type": "sse", "url": "https://h/mcp"}, "u3": {"url": "HTTPS://H:443/mcp"},
		"u4": {"url": "https://h/mcp", "headers": {"A": "b"}}, "u5": {"url": "https://h/mcp", "oauth": true},
		"u6": {"url": "https://h/mcp", "oauth": {"clientId": "c"}}, "u7": {"url": "https://h/mcp", "oauth": false}}}`)
	r, _ := d.find(t, Options{Project: true, ProjectTrust: TrustAlways})
	var dup []string
	for _, e := range r.Entries {
		if e.DuplicateOf != "" {
			dup = append(dup, e.Name+"="+e.DuplicateOf)
		}
	}
	expect(t, dup, "same=a", "u3=u", "u5=u")
}

func TestHostFiles(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/sub/.cursor/mcp.json", `{"mcpServers": {"c": {"command": "./run", "timeout": 20}}}`)
	d.write(t, "$PROJECT/sub/.mcp.json", `{"mcpServers": {"m": {"command": "./run-m", "timeout": 2000}}}`)
	d.write(t, "$HOME/any.json", `{"mcpServers": {"a": {"command": "./run"}}}`)
	r, got := d.find(t, Options{Files: []string{"sub/.cursor/mcp.json", "sub/.mcp.json", "~/any.json", "gone.json"}})
	expect(t, got, "c file host", "m file host", "a file host")
	expect(t, codes(r.Diagnostics), "missing_file ", "timeout_unit c")
	var commands []string
	for _, e := range r.Entries {
		res, _, err := Resolve(e, d.env(nil), ResolveOptions{Cwd: d.project})
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, d.neutral(res.Command))
	}
	expect(t, commands, "$PROJECT/sub/run", "$PROJECT/sub/run-m", "$HOME/run")
	if ms := *r.Entries[0].Server.TimeoutMs; ms != 20_000 {
		t.Errorf("timeout in Cursor's dialect: %d", ms)
	}
}

func TestMissingDirectoryIsSilent(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.cursor", "a file where a directory is expected")
	r, got := d.find(t, Options{Project: true, User: User{All: true}})
	expect(t, got)
	expect(t, codes(r.Diagnostics))
}

func TestDiscoverFailsAsAWhole(t *testing.T) {
	for _, cwd := range []string{"/nonexistent/project", "/dev/null"} {
		if _, err := Discover(context.Background(), Options{Cwd: cwd}); err == nil || !strings.Contains(err.Error(), cwd) {
			t.Errorf("%s: %v", cwd, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Discover(ctx, Options{Cwd: t.TempDir(), Project: true}); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestParserBugLosesOneFile(t *testing.T) {
	d := newDirs(t)
	f := &planned{source: &Source{Parse: func(Input) Parsed { panic("bug") }}, wanted: true, file: File{Path: d.write(t, "$PROJECT/x", "{}")}}
	disc, err := newDiscovery(Options{Cwd: d.project})
	if err != nil {
		t.Fatal(err)
	}
	if err := disc.readAll(context.Background(), []*planned{f}); err != nil {
		t.Fatal(err)
	}
	expect(t, codes(f.parsed.Diagnostics), "internal ")
}

func TestParseServerIsStrict(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"command": "c", "args": ["x"]}`, ""},
		{`{"command": "c", "args": "x"}`, `server "s": args: args is not an array`},
		{`{"command": "c", "env": {"A": 1}}`, `server "s": env.A: `},
		{`{"url": "https://h", "command": "c"}`, `both a command and a url`},
		{`{"command": `, `cut off`},
		{`[]`, `must be an object`},
		{``, `must be an object`},
		{`null`, `must be an object`},
		{`{"enabled": false}`, `cannot be started`},
	} {
		e, diagnostics, err := ParseServer("s", []byte(c.raw))
		if c.want == "" {
			if err != nil || e == nil || e.Origin.Level != LevelHost || !e.Enabled {
				t.Errorf("%s: %+v %v", c.raw, e, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(diagnostics) == 0 && c.raw[1] != '"' || e != nil {
			t.Errorf("%s: %v %v", c.raw, err, diagnostics)
		}
	}
	e, _, err := ParseServer("s", []byte(`{"command": "./c", "args": ["${workspaceFolder}"]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := Resolve(e, ParseEnv(nil), ResolveOptions{Cwd: "/the/project"})
	if err != nil || r.Command != "/the/project/c" || r.Args[0] != "/the/project" || r.Cwd != "/the/project" {
		t.Errorf("%+v %v", r, err)
	}
	_, diagnostics, err := ParseServer("s", []byte(`{"command": "c", "comand": "d"}`))
	if err != nil || len(diagnostics) != 1 || diagnostics[0].Code != "unknown_field" {
		t.Errorf("%v %v", diagnostics, err)
	}
}

// TestInlineTypes: a host's own objects must have the right types, but a null in one
// is no more than a member that is not there.
func TestInlineTypes(t *testing.T) {
	e, diagnostics, err := ParseServer("s", []byte(`{"command": "c", "url": null, "args": null, "env": null, "disabled": null, "timeoutMs": null}`))
	if err != nil || e == nil || len(diagnostics) != 0 {
		t.Errorf("nulls: %+v %v %v", e, diagnostics, err)
	}
	_, diagnostics, err = ParseServer("s", []byte(`{"command": "c", "args": "-x"}`))
	if err == nil || len(diagnostics) != 1 || diagnostics[0].Severity != SeverityError || !strings.Contains(diagnostics[0].Message, "this server is not used") {
		t.Errorf("args: %v %v", diagnostics, err)
	}
}

func TestInlineErrorLosesNoOther(t *testing.T) {
	d := newDirs(t)
	r, got := d.find(t, Options{Inline: []Inline{{"bad", []byte(`{"command": 7}`)}, {"", []byte(`{"command": "c"}`)}, {"good", []byte(`{"command": "c"}`)}}})
	expect(t, got, "good inline host")
	expect(t, codes(r.Diagnostics), "invalid_name ", "wrong_type bad")
}

// TestFindingsOfOneFileAreBounded: also those that only come up when all files are read.
func TestFindingsOfOneFileAreBounded(t *testing.T) {
	d := newDirs(t)
	args := strings.Repeat(`"${NO}", `, 100)
	text := `{"mcpServers": {"x": 1, `
	for i := range 20 {
		text += fmt.Sprintf(`"s%d": {"command": "c%d", "args": [%s]}, `, i, i, args)
	}
	d.write(t, "$PROJECT/.mcp.json", text+`}}`)
	d.write(t, "$PROJECT/.cursor/mcp.json", `{"mcpServers": {"other": {"command": "${NO}"}}}`)
	r, err := Discover(t.Context(), Options{Cwd: d.project, Env: d.env(nil), Project: true, ProjectTrust: TrustAlways})
	if err != nil {
		t.Fatal(err)
	}
	count, last := map[string]int{}, ""
	for _, found := range r.Diagnostics {
		count[filepath.Base(filepath.Dir(found.Path))]++
		if filepath.Base(found.Path) == ".mcp.json" {
			last = found.Code
		}
	}
	if n := count[filepath.Base(d.project)]; n != maxDiagnostics+1 || last != "too_many_diagnostics" {
		t.Errorf("%d findings, the last is %s", n, last)
	}
	if count[".cursor"] != 1 {
		t.Errorf("the findings of another file: %v", count)
	}
}
