//go:build unix

package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
