package core

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// diagnosed gives the diagnostics of a reply with this code.
func (a answerOf) diagnosed(code string) []map[string]any {
	var out []map[string]any
	list, _ := a.obj["diagnostics"].([]any)
	for _, d := range list {
		if d := d.(map[string]any); d["code"] == code {
			out = append(out, d)
		}
	}
	return out
}

// TestCacheOfAnotherPrincipal: one config text with another token, wherever it stands,
// sees nothing of the first one's tools.
func TestCacheOfAnotherPrincipal(t *testing.T) {
	for where, cfg := range map[string]map[string]any{
		"env":     {"env": map[string]string{"TOKEN": "${TOKEN}"}},
		"args":    {"args": []string{"--token=${TOKEN}"}},
		"url":     {"command": nil, "args": nil, "url": "https://example.com/mcp?token=${TOKEN}"},
		"headers": {"command": nil, "args": nil, "url": "https://example.com/mcp", "headers": map[string]string{"Authorization": "Bearer ${TOKEN}"}},
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cacheOfAnotherPrincipal(t, cfg) })
		})
	}
}

func cacheOfAnotherPrincipal(t *testing.T, cfg map[string]any) {
	dir := t.TempDir()
	as := func(token string, s *mcptest.Memory) *rig {
		return newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir), "uncached": "background",
			"env":    map[string]string{"HOME": "/nonexistent", "TOKEN": token},
			"config": map[string]map[string]any{"a": cfg}})
	}
	r := as("token-of-ada", echo())
	r.must(VerbConnect, `{}`)
	r.m.Close(0)
	for token, want := range map[string]int{"token-of-bob": 0, "token-of-ada": 1} {
		r := as(token, slow(time.Hour))
		if a := r.must(VerbConnect, `{}`); len(a.names("tools")) != want {
			t.Errorf("%s sees %v", token, a.names("tools"))
		}
		r.m.Close(0)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || strings.Contains(string(text), "token-of-ada") {
			t.Errorf("%s holds the token, or cannot be read: %v", f.Name(), err)
		}
	}
}

// TestCacheOfAnEmptyList: a server without tools loses its entry.
func TestCacheOfAnEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		for _, s := range []*mcptest.Memory{mcptest.NewMemory(mcptest.Script{Tools: []string{}}), slow(time.Hour)} {
			r := newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir), "uncached": "background"})
			r.must(VerbConnect, `{}`)
			synctest.Wait()
			if got := r.must(VerbList, `{}`).names("tools"); len(got) != 0 {
				t.Errorf("tools %v", got)
			}
			r.m.Close(0)
		}
	})
}

// TestDamagedCache: a miss with a diagnostic, mended by the next list.
func TestDamagedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		warm(t, dir, "a")
		entries, err := filepath.Glob(filepath.Join(dir, "*.tools"))
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		if err := os.Truncate(entries[0], 40); err != nil {
			t.Fatal(err)
		}
		for _, damaged := range []bool{true, false} {
			s := slow(time.Second)
			r := newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir)})
			start := time.Now()
			a := r.must(VerbConnect, `{}`)
			found := 0
			for _, code := range []string{"cache_damaged", "cache_foreign", "cache_format"} {
				found += len(a.diagnosed(code))
			}
			if waited := time.Since(start) >= time.Second; waited != damaged || (found == 1) != damaged || len(a.names("tools")) != 1 {
				t.Errorf("damaged %v: waited %v, %d diagnostics: %s", damaged, waited, found, a.raw)
			}
			r.do(VerbCall, `{"server":"a","tool":"echo"}`)
			synctest.Wait()
			r.m.Close(0)
		}
	})
}

// TestNoCache: without a directory everything works, and one diagnostic says why
// nothing is kept.
func TestNoCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(foreign, 0o777); err != nil { // not Mkdir's: the umask
		t.Fatal(err)
	}
	for name, options := range map[string]map[string]any{
		"below a file":  {"cache": cacheIn(filepath.Join(file, "cache"))},
		"not ours":      {"cache": cacheIn(foreign)},
		"no home":       {"cache": map[string]any{"enabled": true}, "env": map[string]string{}},
		"not permitted": {"cache": cacheIn("/proc/mcprt")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, servers{"a": echo(), "b": echo()}, options)
				a := r.must(VerbConnect, `{}`)
				if len(a.names("connected")) != 2 || len(a.diagnosed("cache_unavailable")) != 1 {
					t.Errorf("%v: %v", a.names("connected"), a.obj["diagnostics"])
				}
				r.must(VerbCall, `{"server":"a","tool":"echo"}`)
				if a := r.must(VerbReload, `{"mode":"full"}`); len(a.diagnosed("cache_unavailable")) != 0 {
					t.Errorf("said again: %v", a.obj["diagnostics"])
				}
				r.m.Close(0)
			})
		})
	}
}

// TestVerdictIsKept: what the first start found out, the second does not ask again.
func TestVerdictIsKept(t *testing.T) {
	for name, script := range map[string]mcptest.Script{
		"legacy":           {Tools: []string{mcptest.Tool("echo")}},
		"silent to probes": {Tools: []string{mcptest.Tool("echo")}, Discover: mcptest.DiscoverSilence},
		"dies of a probe":  {Tools: []string{mcptest.Tool("echo")}, Discover: mcptest.DiscoverExit},
		"modern":           {Tools: []string{mcptest.Tool("echo")}, Versions: []string{mcptest.Modern}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				for start := range 2 {
					s := mcptest.NewMemory(script)
					r := newRig(t, servers{"a": s}, map[string]any{"cache": cacheIn(dir)})
					r.must(VerbConnect, `{"startupTimeoutMs":0}`)
					r.must(VerbCall, `{"server":"a","tool":"echo"}`)
					r.m.Close(0)
					c := s.Counts()
					switch first := c.Received[0]; {
					case start == 0:
						if c.Discovers != 1 {
							t.Errorf("the first start probed %d times", c.Discovers)
						}
					case c.Discovers != 0 || c.Dials != 1:
						t.Errorf("the second start probed %d times and dialled %d times", c.Discovers, c.Dials)
					case name == "modern" && !slices.ContainsFunc(c.Received[:min(2, len(c.Received))], func(m string) bool { return strings.Contains(m, `"method":"tools/list"`) }):
						t.Errorf("the second start began with %s", first)
					case name != "modern" && !strings.Contains(first, `"method":"initialize"`):
						t.Errorf("the second start began with %s", first)
					}
				}
			})
		})
	}
}

// TestVerdictGoesStale: a server that was replaced by one of another era is still found.
func TestVerdictGoesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, versions := range [][]string{{mcptest.Modern}, {mcptest.Latest}, {mcptest.Modern}, {"2024-11-05"}} {
			r := newRig(t, servers{"a": mcptest.NewMemory(mcptest.Script{Versions: versions})}, map[string]any{"cache": cacheIn(dir)})
			r.must(VerbConnect, `{"startupTimeoutMs":0}`)
			r.must(VerbCall, `{"server":"a","tool":"echo"}`)
			if v := r.server("a"); v["protocolVersion"] != versions[0] {
				t.Errorf("%s instead of %s", v["protocolVersion"], versions[0])
			}
			r.m.Close(0)
		}
	})
}
