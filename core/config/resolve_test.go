package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// resolveOne resolves one server of an own project file.
func resolveOne(t *testing.T, d dirs, entry string, vars map[string]string, o ResolveOptions) (*Resolved, []Diagnostic, *ResolveError) {
	t.Helper()
	d.write(t, "$PROJECT/.mcprt/mcp.json", `{"mcpServers": {"s": `+entry+`}}`)
	r, _ := d.find(t, Options{Project: true, ProjectTrust: TrustAlways})
	if len(r.Entries) != 1 {
		t.Fatalf("%s: %+v", entry, r.Diagnostics)
	}
	o.Cwd = d.project
	before := marshal(t, r.Entries[0].Server)
	res, warnings, err := Resolve(r.Entries[0], d.env(vars), o)
	if after := marshal(t, r.Entries[0].Server); after != before {
		t.Errorf("resolving changed the entry to %s", after)
	}
	var e *ResolveError
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%T is no ResolveError", err)
	}
	return res, warnings, e
}

func TestResolvePaths(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/sub/x", "")
	for _, c := range []struct{ entry, command, cwd string }{
		{`{"command": "npx"}`, "npx", "$PROJECT"},
		{`{"command": "./run", "cwd": "sub"}`, "$PROJECT/run", "$PROJECT/sub"},
		{`{"command": "~/bin/run", "cwd": "~"}`, "$HOME/bin/run", "$HOME"},
		{`{"command": "${DIR}/run"}`, "/opt/run", "$PROJECT"},
		{`{"command": "/a/../b/run"}`, "/b/run", "$PROJECT"},
	} {
		r, _, err := resolveOne(t, d, c.entry, map[string]string{"DIR": "/opt"}, ResolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.neutral(r.Command); got != c.command {
			t.Errorf("%s: command %s, want %s", c.entry, got, c.command)
		}
		if got := d.neutral(r.Cwd); got != c.cwd {
			t.Errorf("%s: cwd %s, want %s", c.entry, got, c.cwd)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/nul", "a\x00b")
	for _, c := range []struct{ entry, code, field string }{
		{`{"command": "c", "cwd": "gone"}`, "missing_cwd", "cwd"},
		{`{"command": "${EMPTY}"}`, "missing_command", "command"},
		{`{"command": "c", "env": {"A": "${NO}"}}`, "unresolved_variable", "env.A"},
		{`{"command": "c", "env": {"A": "!pass show x"}}`, "helper_command", "env.A"},
		{`{"command": "c", "env": {"A": "{file:gone}"}}`, "unreadable_file", "env.A"},
		{`{"url": "https://${EMPTY}/x"}`, "invalid_url", "url"},
		{`{"url": "${WS}"}`, "unsupported_transport", "url"},
		{`{"command": "c", "envFile": "/dev/zero"}`, "unreadable_file", "envFile"},
		{`{"command": "c", "args": ["{file:nul}"]}`, "wrong_type", "args.0"},
		{`{"command": "c", "args": ["${config:x}"]}`, "unsupported_variable", "args.0"},
		{`{"url": "https://${input:host}/${input:path}", "headers": {"A": "${input:host}"}}`, "needs_input", "url"},
	} {
		r, _, err := resolveOne(t, d, c.entry, map[string]string{"EMPTY": "", "WS": "ws://h/"}, ResolveOptions{})
		if err == nil || r != nil || err.Code != c.code || err.Field != c.field {
			t.Errorf("%s: %+v", c.entry, err)
			continue
		}
		if err.Server != "s" || err.Path != d.real("$PROJECT/.mcprt/mcp.json") || err.Line != 1 || err.Column == 0 {
			t.Errorf("%s: no place: %+v", c.entry, err)
		}
		if c.code == "needs_input" && !slices.Equal(err.Inputs, []string{"host", "path"}) {
			t.Errorf("inputs %v", err.Inputs)
		}
	}
}

func TestResolveInputsAndVars(t *testing.T) {
	r, _, err := resolveOne(t, newDirs(t), `{"url": "https://${input:host}/mcp", "headers": {"A": "${V}"}}`, map[string]string{"V": "env"},
		ResolveOptions{Inputs: map[string]string{"host": "h.example.com"}, Vars: map[string]string{"V": "host-var"}})
	if err != nil || r.URL != "https://h.example.com/mcp" || r.Headers["A"] != "host-var" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestEnvFileIsUnderEnv(t *testing.T) {
	d := newDirs(t)
	d.write(t, "$PROJECT/.env", "A=file\nB='${A}'\nnonsense\n")
	r, warnings, err := resolveOne(t, d, `{"command": "c", "envFile": ".env", "env": {"A": "own"}}`, nil, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Env["A"] != "own" || r.Env["B"] != "${A}" || len(r.Env) != 2 {
		t.Errorf("env %v", r.Env)
	}
	if len(warnings) != 1 || warnings[0].Code != "invalid_env_file" {
		t.Errorf("%+v", warnings)
	}
}

func TestCommandLineIsSplitOnlyWhenItMust(t *testing.T) {
	d := newDirs(t)
	program := d.write(t, "$HOME/bin/my tool", "")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	path := map[string]string{"PATH": d.real("$HOME/bin")}
	for _, c := range []struct {
		entry string
		want  []string
	}{
		{`{"command": "npx -y 'a b' c\\ d \"e\""}`, []string{"npx", "-y", "a b", "c d", "e"}},
		{`{"command": "my tool"}`, []string{"my tool"}},
		{`{"command": "~/bin/my tool"}`, []string{program}},
		{`{"command": "/gone/My App/x"}`, []string{"/gone/My App/x"}},
		{`{"command": "npx -y x", "args": ["y"]}`, []string{"npx -y x", "y"}},
		{`{"command": "npx 'open"}`, []string{"npx 'open"}},
	} {
		r, _, err := resolveOne(t, d, c.entry, path, ResolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := append([]string{r.Command}, r.Args...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.entry, got, c.want)
		}
	}
}

func TestSecretsAndEqual(t *testing.T) {
	d := newDirs(t)
	entry := `{"command": "c", "args": ["--api-key", "arg-key", "--token=arg-token", "-e", "MY_SECRET=arg-secret", "postgres://me:pg-pass@h/db?x=query-value", "${ARG}"],
		"env": {"K": "${KEY}", "DEBUG": "true", "DIR": "` + d.home + `", "S": "abc"}}`
	vars := map[string]string{"KEY": "env-key-long", "ARG": "from-variable"}
	r, _, err := resolveOne(t, d, entry, vars, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"from-variable", "env-key-long", "query-value", "arg-secret", "arg-token", "arg-key", "pg-pass"}
	if !slices.Equal(r.Secrets, want) {
		t.Errorf("secrets %q, want %q", r.Secrets, want)
	}
	if strings.Contains(marshal(t, r), `"Secrets":`) {
		t.Error("secrets are encoded")
	}
	same, _, _ := resolveOne(t, d, entry, vars, ResolveOptions{})
	vars["KEY"] = "another"
	other, _, _ := resolveOne(t, d, entry, vars, ResolveOptions{})
	if !r.Equal(same) || r.Equal(other) {
		t.Error("Equal is wrong")
	}
}

func TestCanonical(t *testing.T) {
	entry := func(raw string) *Entry {
		e, _, err := ParseServer("s", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a := entry(`{"command": "c", "env": {"B": "2", "A": "1"}, "enabled": false}`)
	b := entry(`{ "env": {"A": "1", "B": "2"}, /* x */ "command": "c" }`)
	if string(a.Canonical()) != string(b.Canonical()) {
		t.Errorf("order or switches count:\n%s\n%s", a.Canonical(), b.Canonical())
	}
	for _, other := range []string{`{"command": "c", "env": {"B": "2", "A": "x"}}`, `{"command": "c", "env": {"B": "2", "A": "1"}, "allowTools": []}`,
		`{"command": "c", "env": {"B": "2", "A": "1"}, "envFile": "e"}`} {
		if string(entry(other).Canonical()) == string(b.Canonical()) {
			t.Errorf("%s is no different", other)
		}
	}
	relative := entry(`{"command": "./c"}`)
	before := string(relative.Canonical())
	relative.BaseDir = "/elsewhere"
	if string(relative.Canonical()) == before {
		t.Error("a relative command means another program elsewhere")
	}
}

func TestRedact(t *testing.T) {
	e, _, err := ParseServer("s", []byte(`{"command": "run --token s3cret", "args": ["--token", "s3cret", "--password=s3cret", "-e", "API_KEY=s3cret",
		"--header", "Authorization: Bearer s3cret", "https://u:s3cret@h/p?k=s3cret&b=s3cret#t=s3cret", "--env", "--port", "80"],
		"env": {"A": "s3cret"}, "headers": {"H": "s3cret"}, "proxy": "http://u:s3cret@proxy:1", "timeoutMs": 5,
		"oauth": {"clientId": "id", "clientSecret": "s3cret", "privateKeyPem": "s3cret", "idToken": "s3cret", "assertion": "s3cret", "extra": {"refreshToken": ["s3cret"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	before := marshal(t, e.Server)
	shown := marshal(t, Redact(e.Server))
	if strings.Contains(shown, "s3cret") {
		t.Errorf("a secret is shown: %s", shown)
	}
	for _, kept := range []string{`"--token","***"`, `"--password=***"`, `"API_KEY=***"`, `"Authorization: ***"`, `"https://***@h/p?k=***`, `"--env","--port","80"`,
		`"clientId":"id"`, `"timeoutMs":5`, `"http://***@proxy:1"`, `run --token ***`} {
		if !strings.Contains(strings.ReplaceAll(shown, `\u0026`, "&"), kept) {
			t.Errorf("%s is missing in %s", kept, shown)
		}
	}
	if marshal(t, e.Server) != before {
		t.Error("Redact changed the config")
	}
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://h/p":                        "https://h/p",
		"https://h:80/p@v1":                  "https://h:80/p@v1",
		"https://u:p@h/p?a=b&c=d&e":          "https://***@h/p?a=***&c=***&e",
		"https://u:p/w?x@h/p":                "https://***@h/p",
		"${URL:-https://u:p@h}/mcp?k=${KEY}": "${URL:-https://***@h}/mcp?k=***",
		"https://h/#access_token=x":          "https://h/#access_token=***",
		"/plain?not=url":                     "/plain?not=***",
	} {
		if got := redactURL(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestRedactor(t *testing.T) {
	r := NewRedactor([]string{"tok", "token-long", "token", "p\"q/w"})
	for in, want := range map[string]string{
		"token-long token tok": "*** *** tok",
		`{"v":"p\"q/w"}`:       `{"v":"***"}`,
		"?v=p%22q%2Fw":         "?v=***",
		"nothing here":         "nothing here",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	var none *Redactor
	if none.Redact("x") != "x" {
		t.Error("a nil Redactor must do nothing")
	}
}
