package rules

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A lock file pins what is installed by its hash and leaves open where it comes
// from: a URL in it would tie every clone to one registry.

// ours finds the files of this repository by name, apart from what was installed
// or built.
func ours(t *testing.T, pattern string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "build" || d.Name() == ".git" || d.Name() == ".venv") {
			return fs.SkipDir
		}
		if match, _ := filepath.Match(pattern, d.Name()); match && !d.IsDir() {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return found
}

func TestNodeLockFilesPinByHashAlone(t *testing.T) {
	for _, file := range ours(t, "package-lock.json") {
		var lock struct {
			Packages map[string]struct {
				Version, Resolved, Integrity string
				Link, InBundle               bool
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &lock); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, p := range lock.Packages {
			if !strings.Contains(name, "node_modules/") || p.Link || p.InBundle {
				continue
			}
			if p.Resolved != "" || !strings.HasPrefix(p.Integrity, "sha512-") {
				t.Errorf("%s: %s has resolved %q and integrity %q", file, name, p.Resolved, p.Integrity)
			}
		}
	}
}

func TestPythonLockFilesPinByHashAlone(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^[a-z0-9][a-z0-9._-]*==`)
	for _, file := range ours(t, "requirements*.txt") {
		text := read(t, file)
		if strings.Contains(text, "://") || strings.Contains(text, "--index") || strings.Contains(text, "--find-links") {
			t.Errorf("%s names a registry", file)
		}
		starts := entry.FindAllStringIndex(text, -1)
		for i, start := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			if !strings.Contains(text[start[0]:end], "--hash=sha256:") {
				t.Errorf("%s: %s has no hash", file, strings.SplitN(text[start[0]:end], " ", 2)[0])
			}
		}
	}
}
