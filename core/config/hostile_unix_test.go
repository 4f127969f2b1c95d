//go:build unix

package config

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
)

// TestHostileFiles: whatever lies where a config is looked for, nothing hangs,
// each gives one diagnostic, and the others load.
func TestHostileFiles(t *testing.T) {
	d := newDirs(t)
	good := d.write(t, "$PROJECT/good.json", server("good", "g"))
	at := func(name string) string { return filepath.Join(d.project, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(at("fifo.json"), 0o600))
	must(os.Symlink("/dev/zero", at("zero.json")))
	must(os.Mkdir(at("dir.json"), 0o700))
	must(os.Symlink(at("loop2.json"), at("loop.json")))
	must(os.Symlink(at("loop.json"), at("loop2.json")))
	must(os.WriteFile(at("big.json"), []byte(server("big", strings.Repeat("x", 5000))), 0o600))
	must(os.Symlink(at("nowhere.json"), at("dangling.json")))
	names := []string{"fifo.json", "zero.json", "dir.json", "loop.json", "big.json", "dangling.json"}
	files := []string{}
	for _, name := range names {
		files = append(files, at(name))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, got := d.find(t, Options{Files: append(files, good), MaxBytes: 4096})
		expect(t, got, "good file host")
		expect(t, codes(r.Diagnostics), "missing_file ", "too_large ", "unreadable_file ", "unreadable_file ", "unreadable_file ", "unreadable_file ")
		for _, diagnostic := range r.Diagnostics {
			if !slices.Contains(files, diagnostic.Path) {
				t.Errorf("no path: %+v", diagnostic)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("discovery hangs")
	}
}

// TestHostileFilesOfEveryFormat: whatever lies in a tool's place, the other
// files load and one finding says what it is; only nothing is silent.
func TestHostileFilesOfEveryFormat(t *testing.T) {
	formats := []struct{ place, good string }{
		{"$HOME/.cursor/mcp.json", `{"mcpServers": {"é": {"command": "x"}}}`},
		{"$HOME/.codex/config.toml", "[mcp_servers.\"é\"]\ncommand = \"x\"\n"},
		{"$CONFIG/goose/config.yaml", "extensions:\n  é:\n    cmd: x\n"},
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range formats {
		text := func(s string) func(*testing.T, string) {
			return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(s), 0o600)) }
		}
		utf16le := func(s string) string {
			b := []byte{0xff, 0xfe}
			for _, u := range utf16.Encode([]rune(s)) {
				b = append(b, byte(u), byte(u>>8))
			}
			return string(b)
		}
		for _, c := range []struct {
			name, code string
			servers    int
			make       func(t *testing.T, path string)
		}{
			{"empty", "", 0, text("")},
			{"white space", "", 0, text(" \n\n")},
			{"only a byte order mark", "", 0, text("\ufeff")},
			{"truncated", "syntax", 0, text(f.good[:strings.LastIndex(f.good, "x")-1] + ` "`)},
			{"binary", "any", 0, text("\x00\x01\x02\x7fELF\xff\xfe")},
			{"100 MB", "too_large", 0, func(t *testing.T, path string) {
				text("")(t, path)
				must(t, os.Truncate(path, 100_000_000))
			}},
			{"pipe", "unreadable_file", 0, func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }},
			{"device", "unreadable_file", 0, func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) }},
			{"directory", "unreadable_file", 0, func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }},
			{"link loop", "unreadable_file", 0, func(t *testing.T, path string) { must(t, os.Symlink(path, path)) }},
			{"link to nowhere", "", 0, func(t *testing.T, path string) { must(t, os.Symlink(path+".gone", path)) }},
			{"UTF-16", "", 1, text(utf16le(f.good))},
			{"half of a UTF-16 character", "invalid_encoding", 0, text(utf16le(f.good) + "x")},
			{"Latin-1", "invalid_encoding", 1, text(strings.ReplaceAll(f.good, "é", "\xe9"))},
		} {
			t.Run(filepath.Base(f.place)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				d := newDirs(t)
				d.write(t, "$HOME/.gemini/settings.json", `{"mcpServers": {"good": {"command": "g"}}}`)
				path := d.real(f.place)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				c.make(t, path)
				before := time.Now()
				r, _ := d.find(t, Options{User: User{All: true}})
				if took := time.Since(before); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				var found []string
				for _, diagnostic := range r.Diagnostics {
					found = append(found, diagnostic.Code)
				}
				ok := c.code == "" && len(found) == 0 || len(found) == 1 && found[0] == c.code || c.code == "any" && len(found) > 0
				if !ok || len(r.Entries) != 1+c.servers || !slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.Name == "good" }) {
					t.Errorf("%d entries, findings %q", len(r.Entries), found)
				}
			})
		}
	}
}

// TestUnreadableFile: without permission a file is named and the others load. For root
// nothing is unreadable, so then a copy of the test runs as nobody.
func TestUnreadableFile(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	d := newDirs(t)
	path := d.write(t, "$HOME/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n")
	d.write(t, "$HOME/.cursor/mcp.json", server("good", "g"))
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	r, got := d.find(t, Options{User: User{All: true}})
	expect(t, got, "good cursor user")
	expect(t, codes(r.Diagnostics), "unreadable_file ")
}

// asNobody runs the test that calls it again, as a user without privileges.
func asNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nobody") // one that others may enter, unlike t.TempDir's parent
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	copied := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(copied, binary, 0o700), os.Chown(copied, nobody, nobody), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
