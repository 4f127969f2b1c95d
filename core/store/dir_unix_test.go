//go:build unix

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOpenDirRefuses(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("real"), 0o700))
	must(os.Symlink("real", at("link")))
	must(os.Symlink("nowhere", at("dangling")))
	must(os.WriteFile(at("file"), nil, 0o600))
	must(syscall.Mkfifo(at("fifo"), 0o600))
	for _, mode := range []os.FileMode{0o770, 0o707, 0o720, 0o702, 0o1777} {
		must(os.Mkdir(at(mode.String()), 0o700))
		must(os.Chmod(at(mode.String()), mode))
	}
	for _, tc := range []struct{ name, reason string }{
		{"link", "not a real directory"},
		{"link/", "not a real directory"},
		{"dangling", ""},
		{"file", ""},
		{"fifo", ""},
		{os.FileMode(0o770).String(), "chmod go-w"},
		{os.FileMode(0o707).String(), "chmod go-w"},
		{os.FileMode(0o720).String(), "chmod go-w"},
		{os.FileMode(0o702).String(), "chmod go-w"},
		{os.FileMode(0o1777).String(), "chmod go-w"},
	} {
		path := base + "/" + tc.name
		_, err := OpenCache(path, time.Hour)
		if err == nil || !strings.Contains(err.Error(), tc.reason) || !strings.Contains(err.Error(), filepath.Clean(path)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := OpenCache("relative", time.Hour); err == nil {
		t.Error("a relative path was taken")
	}
	if _, err := openDir(at("missing"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, mode := range []os.FileMode{0o700, 0o755, 0o500} {
		must(os.Chmod(at("real"), mode))
		if _, err := OpenCache(at("real"), time.Hour); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func TestOtherUsersFilesAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		// Only root can make another user's file; for all others the root directory is one.
		if _, err := openDir("/", false); err == nil || !strings.Contains(err.Error(), "belongs to user id 0") {
			t.Fatal(err)
		}
		return
	}
	tr, path := openTestTrust(t)
	if err := tr.Add(Record{Hash: testHash(1)}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{path, filepath.Dir(path)} {
		if err := os.Chown(target, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if ok, err := tr.Has(testHash(1)); ok || err == nil || !strings.Contains(err.Error(), "belongs to user id 12345") {
			t.Fatalf("%s: %v, %v", target, ok, err)
		}
		if err := os.Chown(target, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	if !has(t, tr, 1) {
		t.Fatal("our own file was refused")
	}
}

// A FIFO or a device in the place of a file cannot hang a start.
func TestSpecialFilesDoNotHang(t *testing.T) {
	c, path := openTestCache(t)
	if err := syscall.Mkfifo(filepath.Join(path, testKey+listSuffix), 0o600); err != nil {
		t.Fatal(err)
	}
	mustMiss(t, c, testKey, NoteForeign)
	put(t, c, testKey, letterList("a", 1))
	if err := checkLetters(c); err != nil {
		t.Fatal(err)
	}
}

// A lock file that is a link is not followed: it would make a file elsewhere.
func TestLockIsNoLink(t *testing.T) {
	tr, path := openTestTrust(t)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, path+".lock"); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(Record{Hash: testHash(1)}); err == nil {
		t.Error("a record was written without a lock")
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("a file was made behind the link")
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	c, path := openTestCache(t)
	// The rename fails on a directory that stands in the way.
	if err := os.Mkdir(filepath.Join(path, testKey+listSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(testKey, letterList("a", 1)); err == nil {
		t.Fatal("no error")
	}
	if left := names(t, path); len(left) != 1 {
		t.Fatalf("left: %q", left)
	}
}
