//go:build unix

package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var secretA = strings.Repeat("ab", 32)

func TestSecretsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	s, err := OpenSecrets(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("opening made the directory")
	}
	if err := s.Save(secretA, []byte("v")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(dir, secretA+".json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	unlock, err := s.Lock(context.Background(), secretA)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if got, err := s.Load(secretA); string(got) != "v" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	for _, key := range []string{"", "../" + secretA[3:], strings.ToUpper(secretA), secretA + "a", strings.Repeat("/", 64)} {
		_, lockErr := s.Lock(context.Background(), key)
		_, loadErr := s.Load(key)
		for _, err := range []error{lockErr, loadErr, s.Save(key, nil), s.Delete(key)} {
			if err == nil {
				t.Errorf("the key %q was taken", key)
			}
		}
	}
	if err := s.Save(secretA, make([]byte, maxSecret+1)); err == nil {
		t.Error("a huge value was taken")
	}
	if _, err := OpenSecrets("auth"); err == nil {
		t.Error("a relative path was taken")
	}
}

// What others could have put there is not used: it fails closed.
func TestSecretsForeign(t *testing.T) {
	base := t.TempDir()
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link} {
		s, err := OpenSecrets(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Save(secretA, []byte("v")); err == nil {
			t.Errorf("%s was written to", dir)
		}
		if _, err := s.Load(secretA); err == nil {
			t.Errorf("%s was read", dir)
		}
		if _, err := s.Lock(context.Background(), secretA); err == nil {
			t.Errorf("%s was locked in", dir)
		}
	}
}
