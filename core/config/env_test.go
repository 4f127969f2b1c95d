package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccy/go-json"
)

func TestUserDirectories(t *testing.T) {
	for _, c := range []struct {
		name, goos          string
		vars                map[string]string
		home, config, cache string // "" means an error
	}{
		{"linux", "linux", map[string]string{"HOME": "/h"}, "/h", "/h/.config", "/h/.cache"},
		{"xdg", "linux", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c/", "XDG_CACHE_HOME": "/k"}, "/h", "/c", "/k"},
		{"relative xdg is ignored", "linux", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "c"}, "/h", "/h/.config", "/h/.cache"},
		{"no home", "linux", nil, "", "", ""},
		{"relative home", "linux", map[string]string{"HOME": "h"}, "", "", ""},
		{"mac", "darwin", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "/h", "/h/Library/Application Support", "/h/Library/Caches"},
		{"windows ignores case", "windows", map[string]string{"UserProfile": "/u", "AppData": "/a", "LOCALAPPDATA": "/l"}, "/u", "/a", "/l"},
	} {
		e := newEnv(c.goos, c.vars)
		for what, f := range map[string]struct {
			get  func() (string, error)
			want string
		}{"home": {e.Home, c.home}, "config": {e.UserConfigDir, c.config}, "cache": {e.UserCacheDir, c.cache}} {
			got, err := f.get()
			if got != f.want || (err == nil) != (f.want != "") {
				t.Errorf("%s: %s is %q, %v; want %q", c.name, what, got, err, f.want)
			}
		}
	}
}

func TestProcessEnvHoldsTheProcessEnvironment(t *testing.T) {
	t.Setenv("MCPRT_TEST_ENV", "a=b")
	if got := ProcessEnv().Value("MCPRT_TEST_ENV"); got != "a=b" {
		t.Errorf("got %q", got)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool := write("bin/tool", 0o755)
	write("first/tool", 0o644)
	write("first/plain", 0o644)
	write("rel/only-relative", 0o755)
	local := write("project/run", 0o755)
	e := newEnv("linux", map[string]string{"PATH": "rel::" + filepath.Join(dir, "first") + ":" + filepath.Join(dir, "bin")})
	for _, c := range []struct {
		command, want string
		err           error
	}{
		{"tool", tool, nil},
		{"plain", "", fs.ErrPermission},
		{"absent", "", fs.ErrNotExist},
		{"only-relative", "", fs.ErrNotExist},
		{"run", "", fs.ErrNotExist}, // the project directory is not searched
		{"./run", local, nil},
		{"../bin/tool", tool, nil},
		{tool, tool, nil},
		{filepath.Join(dir, "bin"), "", fs.ErrPermission},
		{"./absent", "", fs.ErrNotExist},
		{"", "", fs.ErrNotExist},
	} {
		got, err := e.LookPath(c.command, filepath.Join(dir, "project"))
		if c.err != nil && !errors.Is(err, c.err) || c.err == nil && (err != nil || got != c.want) {
			t.Errorf("%q: %q, %v; want %q, %v", c.command, got, err, c.want, c.err)
		}
	}
}

func TestLookPathWindows(t *testing.T) {
	dir := t.TempDir()
	npx := filepath.Join(dir, "npx.cmd")
	if err := os.WriteFile(npx, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEnv("windows", map[string]string{"Path": "/nothing;" + dir, "PATHEXT": ".EXE;.CMD"})
	for _, command := range []string{"npx", "npx.cmd"} {
		if got, err := e.LookPath(command, dir); err != nil || got != npx {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
}

func TestChildEnv(t *testing.T) {
	base := newEnv("linux", map[string]string{"PATH": "/bin", "LC_ALL": "C", "LC_TIME": "x", "TOKEN": "t"})
	own := map[string]string{"TOKEN": "own", "bad=name": "x", "NUL": "a\x00b"}
	for _, c := range []struct {
		policy string
		want   []string
	}{
		{`"inherit"`, []string{"LC_ALL=C", "LC_TIME=x", "PATH=/bin", "TOKEN=own"}},
		{`"clear"`, []string{"TOKEN=own"}},
		{`{"allow":["LC_*"]}`, []string{"LC_ALL=C", "LC_TIME=x", "TOKEN=own"}},
		{`{"allow":[]}`, []string{"TOKEN=own"}},
	} {
		var p EnvPolicy
		if err := json.Unmarshal([]byte(c.policy), &p); err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		if got := base.ChildEnv(p, own); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.policy, got, c.want)
		}
	}
	for _, wrong := range []string{`"other"`, `{}`, `{"allow":["["]}`, `3`} {
		var p EnvPolicy
		if err := json.Unmarshal([]byte(wrong), &p); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
}

func TestChildEnvWindows(t *testing.T) {
	e := newEnv("windows", map[string]string{"Path": "p", "SystemRoot": "s"})
	if got := e.ChildEnv(EnvPolicy{Clear: true}, map[string]string{"PATH": "own"}); !slices.Equal(got, []string{"PATH=own", "SystemRoot=s"}) {
		t.Errorf("got %v", got)
	}
	if got := e.ChildEnv(EnvPolicy{}, map[string]string{"PATH": "own"}); !slices.Equal(got, []string{"PATH=own", "SystemRoot=s"}) {
		t.Errorf("names that differ in case stand twice: %v", got)
	}
}
