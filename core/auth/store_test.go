package auth

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
)

func TestStores(t *testing.T) {
	keyring.MockInit()
	files := func() Store {
		s, err := NewFiles(filepath.Join(t.TempDir(), "new", "auth"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key, other := storeKey("a"), storeKey("b")
	for name, s := range map[string]Store{"memory": NewMemory(), "file": files(), "keyring": NewKeyring(files()), "auto": NewAuto(files())} {
		if got, err := s.Load(key); got != nil || err != nil {
			t.Errorf("%s: an empty one has %q %v", name, got, err)
		}
		if err := s.Delete(key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, value := range []string{"one", "two\x00\xff"} {
			if err := s.Save(key, []byte(value)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := s.Load(key); string(got) != value || err != nil {
				t.Errorf("%s: %q %v", name, got, err)
			}
		}
		unlock, err := s.Lock(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		free, err := s.Lock(t.Context(), other)
		if err != nil {
			t.Fatalf("%s: another key is locked, too: %v", name, err)
		}
		free()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if _, err := s.Lock(ctx, key); err == nil {
			t.Errorf("%s: two hold one lock", name)
		}
		cancel()
		unlock()
		unlock, err = s.Lock(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		unlock()
		if err := s.Delete(key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := s.Load(key); got != nil {
			t.Errorf("%s: %q after the end", name, got)
		}
	}
}

// What no keyring takes goes into a file; the two never disagree.
func TestAutoStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	files, err := NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, key := NewAuto(files), storeKey("a")
	file := filepath.Join(dir, key+".json")
	keyring.MockInitWithError(errors.New("no keyring"))
	if err := s.Save(key, []byte("in the file")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if got, err := s.Load(key); string(got) != "in the file" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	keyring.MockInit()
	if got, err := s.Load(key); string(got) != "in the file" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if err := s.Save(key, []byte("in the keyring")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != string(inRing) {
		t.Errorf("the file has %q %v", text, err)
	}
	if got, err := s.Load(key); string(got) != "in the keyring" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// A keyring is asked only for what was put there; what somebody without one signed out
// of is void.
func TestKeyringIsNotAskedInVain(t *testing.T) {
	keyring.MockInitWithError(errors.New("a window opens"))
	dir := filepath.Join(t.TempDir(), "auth")
	files, err := NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, key := NewKeyring(files), storeKey("a")
	if got, err := s.Load(key); got != nil || err != nil {
		t.Errorf("%q %v", got, err)
	}
	keyring.MockInit()
	if err := s.Save(key, []byte("t0psecret")); err != nil {
		t.Fatal(err)
	}
	if err := files.Delete(key); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(key); got != nil || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// A keyring that fails is an error where it alone was asked for: no secret goes elsewhere.
func TestKeyringFails(t *testing.T) {
	keyring.MockInitWithError(errors.New("locked"))
	dir := filepath.Join(t.TempDir(), "auth")
	files, err := NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, key := NewKeyring(files), storeKey("a")
	if err := s.Save(key, []byte("t0psecret")); err == nil || strings.Contains(err.Error(), "t0psecret") {
		t.Error(err)
	}
	if err := files.Save(key, inRing); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(key); err == nil {
		t.Error("a locked keyring had no error")
	}
	if err := files.Delete(key); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(found) > 0 {
		t.Error(found)
	}
}

// A sign-in that cannot be stored is good for the process, and is told.
func TestUnstorableSignIn(t *testing.T) {
	keyring.MockInitWithError(errors.New("locked"))
	files, err := NewFiles(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	warned := ""
	c := w.credentials(NewKeyring(files), func(c *Config) { c.Warn = func(code, _ string) { warned += code + " " } })
	w.mustSignIn(c)
	if !strings.Contains(warned, "credentials_not_stored") {
		t.Error(warned)
	}
	w.mustCall(c)
	w.expire() // it is renewed all the same
	w.mustCall(c)
	w.mu.Lock()
	w.refresh, w.tokens = map[string]bool{}, map[string]bool{}
	w.mu.Unlock()
	if status, _, _ := c.get(t, w.rs.URL+"/mcp"); status != 401 {
		t.Errorf("after its end: %d", status)
	}
	if err := w.signIn(c, person); err != nil {
		t.Error(err)
	}
}

// A token that the store did not take is not mixed up with what another process put
// there, and does not delete that.
func TestUnstoredTokenBesideAStoredOne(t *testing.T) {
	w := newWorld(t)
	memory := NewMemory()
	full := &fullStore{Store: memory}
	c := w.credentials(full)
	full.full = true
	w.mustSignIn(c)
	full.full = false
	other := w.credentials(memory)
	w.mustSignIn(other)
	w.expire()
	w.mu.Lock()
	delete(w.refresh, c.held().Refresh) // revoked at the server, unlike the other one's
	w.mu.Unlock()
	if status, _, _ := c.get(t, w.rs.URL+"/mcp"); status != 401 {
		t.Errorf("%d", status)
	}
	w.mustCall(c) // by the other one's
	if got := other.held(); got == nil || got.Refresh == "" {
		t.Error("the other sign-in is gone")
	}
	w.mustCall(other)
}

type fullStore struct {
	Store
	full bool
}

func (s *fullStore) Save(key string, value []byte) error {
	if s.full {
		return errors.New("no space left")
	}
	return s.Store.Save(key, value)
}

// A stored sign-in of another url, another version or none at all is none.
func TestForeignRecords(t *testing.T) {
	w := newWorld(t)
	store := NewMemory()
	c := w.credentials(store)
	w.mustSignIn(c)
	raw, _ := store.Load(c.key)
	for name, bad := range map[string]string{
		"junk": "junk", "empty": "{}", "null": "null",
		"another url":     strings.Replace(string(raw), w.rs.URL, "https://evil.example", 1),
		"another version": strings.Replace(string(raw), `"version":1`, `"version":2`, 1),
		"no issuer":       strings.Replace(string(raw), `"issuer":"`+w.as.URL, `"issuer":"`, 1),
	} {
		if bad == string(raw) {
			t.Fatalf("%s changed nothing of %s", name, raw)
		}
		_ = store.Save(c.key, []byte(bad))
		if status, _, _ := w.credentials(store).get(t, w.rs.URL+"/mcp"); status != 401 {
			t.Errorf("%s: %d", name, status)
		}
	}
}
