package store

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func openTestTrust(t *testing.T) (*Trust, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config", "trust.json")
	tr, err := OpenTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr, path
}

func has(t *testing.T, tr *Trust, i int) bool {
	t.Helper()
	ok, err := tr.Has(testHash(i))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestTrust(t *testing.T) {
	tr, path := openTestTrust(t)
	if has(t, tr, 1) {
		t.Fatal("trusted before anything was recorded")
	}
	if _, err := os.Lstat(filepath.Dir(path)); err == nil {
		t.Fatal("a question made the directory")
	}
	added := time.Date(2026, 12, 1, 10, 0, 0, 5000, time.UTC)
	first := Record{testHash(1), "/p/.mcp.json", "/p", "mcp-json", "<files> \u2028", added}
	second := Record{Hash: testHash(2), AddedAt: added}
	for _, r := range []Record{first, second, {Hash: first.Hash, Name: "again"}} {
		if err := tr.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	another, err := OpenTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := another.List()
	if err != nil || !reflect.DeepEqual(records, []Record{first, second}) {
		t.Fatalf("%+v, %v", records, err)
	}
	if !has(t, another, 1) || !has(t, another, 2) || has(t, another, 3) {
		t.Fatal("Has is wrong")
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatal(fi.Mode(), err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := another.Remove(first.Hash); removed != want || err != nil {
			t.Fatal(removed, err)
		}
	}
	if has(t, tr, 1) || !has(t, tr, 2) {
		t.Fatal("Remove is wrong")
	}
}

func TestTrustRefusesRecords(t *testing.T) {
	tr, path := openTestTrust(t)
	for _, hash := range []string{"", "sha256:", "sha256:" + strings.Repeat("g", 64), strings.Repeat("0", 64), testHash(1) + "\n", strings.ToUpper(testHash(0xabc))} {
		if err := tr.Add(Record{Hash: hash}); err == nil {
			t.Errorf("%q was recorded", hash)
		}
	}
	if err := tr.Add(Record{Hash: testHash(1), Path: strings.Repeat("x", maxRecord)}); err == nil {
		t.Error("an endless record was recorded")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a refusal wrote the file")
	}
	if _, err := OpenTrust("trust.json"); err == nil {
		t.Error("a relative path was taken")
	}
}

// Whatever is wrong with the file: nothing is trusted, and nothing is overwritten.
func TestTrustFailsClosed(t *testing.T) {
	good := fmt.Sprintf(`{"version":1,"records":[{"hash":%q}]}`, testHash(1))
	file := func(data string, mode os.FileMode) func(string) error {
		return func(path string) error {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
	}
	for name, spoil := range map[string]func(path string) error{
		"cut off":             file(good[:len(good)-3], 0o600),
		"empty":               file("", 0o600),
		"two documents":       file(good+good, 0o600),
		"another version":     file(strings.Replace(good, `1`, `2`, 1), 0o600),
		"no version":          file(strings.Replace(good, `"version":1,`, ``, 1), 0o600),
		"writable by others":  file(good, 0o666),
		"writable by a group": file(good, 0o620),
		"huge":                func(path string) error { return os.Truncate(path, maxFile+1) },
		"directory":           func(path string) error { return os.Mkdir(path, 0o700) },
		"link": func(path string) error {
			if err := file(good, 0o600)(path + ".real"); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		},
		"directory writable by others": func(path string) error {
			if err := file(good, 0o600)(path); err != nil {
				return err
			}
			return os.Chmod(filepath.Dir(path), 0o777)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr, path := openTestTrust(t)
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "huge" {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			if ok, err := tr.Has(testHash(1)); ok || err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Has: %v, %v", ok, err)
			}
			if err := tr.Add(Record{Hash: testHash(2)}); err == nil {
				t.Error("Add wrote over it")
			}
			if removed, err := tr.Remove(testHash(1)); removed || err == nil {
				t.Errorf("Remove: %v, %v", removed, err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Error("the file was changed", err)
			}
		})
	}
}

func TestTrustIsBounded(t *testing.T) {
	tr, path := openTestTrust(t)
	var b strings.Builder
	b.WriteString(`{"version":1,"records":[`)
	for i := range maxRecords {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"hash":%q}`, testHash(i))
	}
	b.WriteString(`]}`)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(Record{Hash: testHash(maxRecords)}); err == nil {
		t.Fatal("one too many was recorded")
	}
	if err := tr.Add(Record{Hash: testHash(7)}); err != nil {
		t.Fatal("a known one was refused:", err)
	}
	if removed, err := tr.Remove(testHash(7)); !removed || err != nil {
		t.Fatal(removed, err)
	}
	if err := tr.Add(Record{Hash: testHash(maxRecords)}); err != nil {
		t.Fatal(err)
	}
}

func TestProcessesLoseNoTrustRecord(t *testing.T) {
	tr, path := openTestTrust(t)
	const processes, each = 4, 12
	var all []*process
	for i := range processes {
		all = append(all, spawn(t, "trust", path, fmt.Sprint(i*each), fmt.Sprint(each)))
	}
	for _, p := range all {
		p.release(t)
	}
	for _, p := range all {
		p.finish(t)
	}
	records, err := tr.List()
	if err != nil || len(records) != processes*each {
		t.Fatalf("%d records of %d, %v", len(records), processes*each, err)
	}
	for i := range processes * each {
		if !has(t, tr, i) {
			t.Errorf("record %d is lost", i)
		}
	}
}

func TestTrustSweepsTempFilesOfKilledWriters(t *testing.T) {
	tr, path := openTestTrust(t)
	if err := tr.Add(Record{Hash: testHash(1)}); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(filepath.Dir(path), tempPrefix+"KILLED")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * tempLife)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(Record{Hash: testHash(2)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Fatal("the temp file is still there")
	}
}
