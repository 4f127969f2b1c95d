package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPrincipalTellsTenantsApart(t *testing.T) {
	c, path := openTestCache(t)
	seen := map[string][]string{}
	for _, values := range [][]string{nil, {""}, {"", ""}, {"token"}, {"toke", "n"}, {"token", ""}, {"", "token"}, {"TOKEN"}} {
		p, err := c.Principal(values)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[p]; ok {
			t.Errorf("%q and %q are one principal", values, other)
		}
		seen[p] = values
	}
	again, err := OpenCache(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := again.Principal([]string{"token"}); err != nil || seen[p] == nil {
		t.Fatal("another opening gives another principal", err)
	}
	other, _ := openTestCache(t)
	if p, err := other.Principal([]string{"token"}); err != nil || seen[p] != nil {
		t.Fatal("another cache gives the same principal: the key is not random", err)
	}
}

func TestProcessesAgreeOnOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var all []*process
	for range 6 {
		all = append(all, spawn(t, "principal", path))
	}
	for _, p := range all {
		p.release(t)
	}
	first := ""
	for _, p := range all {
		got := p.finish(t)
		if first == "" {
			first = got
		}
		if len(got) != 64 || got != first {
			t.Fatalf("%q and %q", got, first)
		}
	}
}

// A key file cut off by a full disk or a careless hand is made anew: the old
// lists are then misses, not everybody's.
func TestDamagedKeyIsReplaced(t *testing.T) {
	for _, damaged := range []string{"", "short", "much longer than a key of thirty-two bytes can be"} {
		c, path := openTestCache(t)
		if err := os.WriteFile(filepath.Join(path, keyFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Principal(nil); err != nil {
			t.Fatal(err)
		}
		if key, err := os.ReadFile(filepath.Join(path, keyFile)); err != nil || len(key) != keySize {
			t.Fatal(len(key), err)
		}
	}
}

func TestKeyBehindALinkIsRefused(t *testing.T) {
	c, path := openTestCache(t)
	if err := os.WriteFile(filepath.Join(path, "other"), make([]byte, keySize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(path, keyFile)); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Principal(nil); err == nil {
		t.Fatal("got", p)
	}
}
