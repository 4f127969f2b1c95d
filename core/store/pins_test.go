package store

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func pinOf(digest string) Pin {
	return Pin{Server: "s", ApprovedAt: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Tools: map[string]string{"tool": digest}}
}

func TestPins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mcprt", "pins")
	p, err := OpenPins(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	if err := p.Forget(a); err != nil {
		t.Errorf("forgetting what never was: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("forgetting made the directory")
	}
	first := func(hash, digest, want string) {
		t.Helper()
		if got, err := p.First(hash, pinOf(digest)); err != nil || !reflect.DeepEqual(got, pinOf(want)) {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	first(a, "one", "one")
	first(a, "two", "one")
	first(b, "other", "other")
	if err := p.Set(a, pinOf("two")); err != nil {
		t.Fatal(err)
	}
	first(a, "three", "two")
	if err := p.Forget(a); err != nil {
		t.Fatal(err)
	}
	first(a, "four", "four")
	first(b, "x", "other")
	for _, wrong := range []string{"", "sha256:../../x", "sha256:" + strings.Repeat("A", 64)} {
		if _, err := p.First(wrong, pinOf("x")); err == nil {
			t.Errorf("the hash %q was taken", wrong)
		}
	}
	if _, err := OpenPins("relative"); err == nil {
		t.Error("a relative directory was taken")
	}
}

// What is damaged approves nothing and is not written over, until it is approved again.
func TestDamagedPin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pins")
	p, err := OpenPins(dir)
	if err != nil {
		t.Fatal(err)
	}
	hash := "sha256:" + strings.Repeat("c", 64)
	file := filepath.Join(dir, strings.Repeat("c", 64)+".json")
	for _, text := range []string{"", "{", `{"version":1}`, `{"version":2,"tools":{}}`, "[]"} {
		if err := p.Set(hash, pinOf("good")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.First(hash, pinOf("new")); err == nil {
			t.Errorf("%q was taken", text)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%q was written over: %q, %v", text, got, err)
		}
	}
}

// Of many that record at once exactly one counts for all.
func TestFirstPinWins(t *testing.T) {
	p, err := OpenPins(filepath.Join(t.TempDir(), "pins"))
	if err != nil {
		t.Fatal(err)
	}
	hash := "sha256:" + strings.Repeat("d", 64)
	got := make([]string, 8)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			pin, err := p.First(hash, pinOf(string(rune('a'+i))))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = pin.Tools["tool"]
		})
	}
	all.Wait()
	for _, g := range got {
		if g == "" || g != got[0] {
			t.Fatalf("the records differ: %q", got)
		}
	}
}
