package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

func openTestCache(t *testing.T) (*Cache, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a", "cache")
	c, err := OpenCache(path, 30*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

func put(t *testing.T, c *Cache, key string, l *ToolList) {
	t.Helper()
	if err := c.Put(key, l); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *Cache, key string) (*ToolList, *Note) {
	t.Helper()
	l, note, err := c.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	return l, note
}

func mustMiss(t *testing.T, c *Cache, key, code string) {
	t.Helper()
	l, note := get(t, c, key)
	if l != nil {
		t.Fatal("a list was found")
	}
	if code == "" {
		if note != nil {
			t.Fatalf("a plain miss has the note %v", note)
		}
		return
	}
	if note == nil || note.Code != code {
		t.Fatalf("note %v, want %s", note, code)
	}
}

func TestListComesBackByteForByte(t *testing.T) {
	c, _ := openTestCache(t)
	ttl := int64(9007199254740993)
	list := &ToolList{
		Tools: []json.RawMessage{
			json.RawMessage(`{"name":"big","x":9007199254740993,"y":1.0,"z":1e2}`),
			json.RawMessage("\n {\t\"name\" :\r\n \"spaces\" , \"a\":[ 1 ,2 ] }  \n"),
			json.RawMessage(`{"name":"\u0065scapes","e":"\u00e9\/\ud83d\ude00","h":"<&>","u":"é😀` + "\u2028" + `"}`),
			json.RawMessage(`{"name":"twice","name":"twice","unknown":{"":null}}`),
			json.RawMessage(`{}`),
		},
		ServerInfo:   json.RawMessage(` {"name" : "s<>", "n": 9007199254740993}`),
		Instructions: "say <hello> & \u2028 \x00 good bye",
		Verdict:      Verdict{ProtocolVersion: "2026-07-28", Modern: true, Discover: json.RawMessage(`{ "supportedVersions" : [] }`), Asked: time.Unix(1700000000, 5).UTC()},
		FetchedAt:    time.Now().Add(-time.Hour).UTC().Truncate(0),
		TTLMs:        &ttl,
		CacheScope:   "public",
	}
	put(t, c, testKey, list)
	got, note := get(t, c, testKey)
	if note != nil {
		t.Fatal(note)
	}
	if !reflect.DeepEqual(got, list) {
		t.Fatalf("got  %#v\nwant %#v", got, list)
	}
	// An append to one raw part must not reach into the next.
	_ = append(got.Tools[0], "XXXX"...)
	if string(got.Tools[1]) != string(list.Tools[1]) {
		t.Fatal("the tools share capacity")
	}
}

func TestAbsentPartsStayAbsent(t *testing.T) {
	c, _ := openTestCache(t)
	list := &ToolList{Tools: []json.RawMessage{json.RawMessage(`{"name":"a"}`)}, FetchedAt: time.Now().UTC().Truncate(0)}
	put(t, c, testKey, list)
	got, _ := get(t, c, testKey)
	list.CacheScope = "private" // no cacheScope means private
	if !reflect.DeepEqual(got, list) {
		t.Fatalf("got %#v\nwant %#v", got, list)
	}
}

func TestEmptyListRemovesTheEntry(t *testing.T) {
	c, path := openTestCache(t)
	put(t, c, testKey, letterList("a", 2))
	put(t, c, testKey, &ToolList{FetchedAt: time.Now()})
	mustMiss(t, c, testKey, "")
	if _, err := os.Lstat(filepath.Join(path, testKey+listSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the file is still there: %v", err)
	}
	if err := c.Remove(testKey); err != nil {
		t.Fatalf("removing what is gone: %v", err)
	}
}

func TestPutRefusesWhatIsNotJSON(t *testing.T) {
	c, _ := openTestCache(t)
	good := []json.RawMessage{json.RawMessage(`{}`)}
	for name, l := range map[string]*ToolList{
		"tool":       {Tools: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"a":`)}},
		"empty tool": {Tools: []json.RawMessage{nil}},
		"info":       {Tools: good, ServerInfo: json.RawMessage(`}`)},
		"discover":   {Tools: good, Verdict: Verdict{Discover: json.RawMessage(`x`)}},
	} {
		if err := c.Put(testKey, l); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := c.Put(testKey, &ToolList{Tools: []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", maxFile) + `"`)}}); err == nil {
		t.Error("a list that could never be read again was stored")
	}
	mustMiss(t, c, testKey, "")
}

// Whatever happened to a file, it is a miss with a reason, and the next Put mends it.
func TestUnfitFilesAreMisses(t *testing.T) {
	c, path := openTestCache(t)
	file := filepath.Join(path, testKey+listSuffix)
	put(t, c, testKey, letterList("a", 3))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	otherKey := Key(nil, "other", nil, "")
	put(t, c, otherKey, letterList("b", 3))
	other, err := os.ReadFile(filepath.Join(path, otherKey+listSuffix))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1

	write := func(data []byte) func() error {
		return func() error { return os.WriteFile(file, data, 0o600) }
	}
	for _, tc := range []struct {
		name, code string
		make       func() error
	}{
		{"empty", NoteForeign, write(nil)},
		{"text", NoteForeign, write([]byte("hello\n"))},
		{"json", NoteForeign, write([]byte(`{"version":1,"tools":[]}`))},
		{"another format", NoteFormat, write([]byte("mcprt-tools 2\nwhatever"))},
		{"only the format line", NoteDamaged, write([]byte(formatLine))},
		{"cut off", NoteDamaged, write(good[:len(good)-1])},
		{"longer", NoteDamaged, write(append(bytes.Clone(good), 0))},
		{"one bit", NoteDamaged, write(flipped)},
		{"another server's", NoteForeign, write(other)},
		{"sparse and huge", NoteForeign, func() error { return os.Truncate(file, maxFile+1) }},
		{"directory", NoteForeign, func() error { return os.Mkdir(file, 0o700) }},
		{"link", NoteForeign, func() error { return os.Symlink(otherKey+listSuffix, file) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name == "directory" || tc.name == "link" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if err := tc.make(); err != nil {
				t.Fatal(err)
			}
			mustMiss(t, c, testKey, tc.code)
			if tc.name == "directory" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			put(t, c, testKey, letterList("a", 3))
			if err := checkLetters(c); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDates(t *testing.T) {
	c, _ := openTestCache(t)
	for _, tc := range []struct {
		age  time.Duration
		code string
	}{
		{0, ""}, {30*24*time.Hour - time.Minute, ""}, {30*24*time.Hour + time.Minute, NoteExpired},
		{-time.Minute, ""}, {-2 * time.Hour, NoteDamaged},
	} {
		l := letterList("a", 1)
		l.FetchedAt = time.Now().Add(-tc.age)
		put(t, c, testKey, l)
		if tc.code != "" {
			mustMiss(t, c, testKey, tc.code)
		} else if l, note := get(t, c, testKey); l == nil || note != nil {
			t.Errorf("age %s: a miss with note %v", tc.age, note)
		}
	}
}

func TestStale(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	ms := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		ttl  *int64
		age  time.Duration
		want bool
	}{
		{nil, 1000 * time.Hour, false}, {ms(0), 0, true}, {ms(-5), 0, true}, {ms(0), -time.Second, true},
		{ms(1000), 999 * time.Millisecond, false}, {ms(1000), time.Second, true}, {ms(1 << 62), 1000 * time.Hour, false},
	} {
		l := &ToolList{FetchedAt: now.Add(-tc.age), TTLMs: tc.ttl}
		if got := l.Stale(now); got != tc.want {
			t.Errorf("ttl %v, age %s: %v", tc.ttl, tc.age, got)
		}
	}
}

func TestKeyPartsAreApart(t *testing.T) {
	seen := map[string]bool{}
	parts := []string{"", "a", "b", "ab", "\x00"}
	for _, config := range parts {
		for _, server := range parts {
			for _, caps := range parts {
				for _, principal := range parts {
					seen[Key([]byte(config), server, []byte(caps), principal)] = true
				}
			}
		}
	}
	if len(seen) != 5*5*5*5 {
		t.Fatalf("%d keys of %d", len(seen), 5*5*5*5)
	}
	// The keys on people's disks: a change here throws every cache away.
	if got := Key([]byte(`{"command":"x"}`), "x", []byte(`{}`), "p"); got != "565762b041ddaba5906b71a825f3c3cebc14acf19679eb0949ef3902688b49b6" {
		t.Fatal(got)
	}
}

func TestKeysThatAreNoKeys(t *testing.T) {
	c, _ := openTestCache(t)
	for _, key := range []string{"", "x", "../" + testKey, testKey[2:], strings.ToUpper(testKey), strings.Repeat("zz", 32)} {
		if _, _, err := c.Get(key); err == nil {
			t.Errorf("Get took %q", key)
		}
		if err := c.Put(key, letterList("a", 1)); err == nil {
			t.Errorf("Put took %q", key)
		}
		if err := c.Remove(key); err == nil {
			t.Errorf("Remove took %q", key)
		}
	}
}

func TestInfoAndClear(t *testing.T) {
	c, path := openTestCache(t)
	if info, err := c.Info(); err != nil || info != (Info{Dir: path}) {
		t.Fatalf("%+v, %v", info, err)
	}
	before, err := c.Principal(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		put(t, c, Key(nil, fmt.Sprint(i), nil, ""), letterList("a", 1))
	}
	info, err := c.Info()
	if err != nil || info.Entries != 3 || info.Bytes < 1500 || info.Oldest.IsZero() || info.Newest.Before(info.Oldest) {
		t.Fatalf("%+v, %v", info, err)
	}
	if n, err := c.Clear(); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	mustMiss(t, c, Key(nil, "0", nil, ""), "")
	c, err = OpenCache(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := c.Principal(nil); after != before || err != nil {
		t.Fatal("Clear changed the principals", err)
	}
}

func TestFirstPutSweeps(t *testing.T) {
	c, path := openTestCache(t)
	now := time.Now()
	file := func(name string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(path, name), now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	file(tempPrefix+"OLD", 2*time.Hour)
	file(tempPrefix+"NEW", time.Minute)
	file("old"+listSuffix, 31*24*time.Hour)
	file("new"+listSuffix, 29*24*time.Hour)
	file("theirs", 1000*24*time.Hour)
	put(t, c, testKey, letterList("a", 1))
	if got, want := names(t, path), []string{tempPrefix + "NEW", testKey + listSuffix, "new" + listSuffix, "theirs"}; !slices.Equal(got, want) {
		t.Fatalf("left %q, want %q", got, want)
	}
}

func TestSweepBoundsTheNumberOfEntries(t *testing.T) {
	c, path := openTestCache(t)
	old := time.Now().Add(-time.Hour)
	for i := range maxEntries + 10 {
		name := filepath.Join(path, fmt.Sprint(i, listSuffix))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old.Add(-time.Duration(i)*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, c, testKey, letterList("a", 1))
	left := names(t, path)
	if len(left) != maxEntries || !slices.Contains(left, testKey+listSuffix) || !slices.Contains(left, "0"+listSuffix) {
		t.Fatalf("%d files are left", len(left))
	}
}

func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCacheDirectoryThatVanishesComesBack(t *testing.T) {
	c, path := openTestCache(t)
	put(t, c, testKey, letterList("a", 1))
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	mustMiss(t, c, testKey, "")
	if err := c.Remove(testKey); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Clear(); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	put(t, c, testKey, letterList("a", 1))
	if err := checkLetters(c); err != nil {
		t.Fatal(err)
	}
}

// Six processes rewrite and read one entry at once, one of them is killed in the
// midst: no reader ever sees a torn, damaged or missing list.
func TestProcessesShareAnEntry(t *testing.T) {
	c, path := openTestCache(t)
	put(t, c, testKey, letterList("z", 1))
	victim := spawn(t, "rewrite", path, "v", "0")
	var writers []*process
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		writers = append(writers, spawn(t, "rewrite", path, letter, "15"))
	}
	victim.release(t)
	for _, w := range writers {
		w.release(t)
	}
	waitFor(t, func() bool {
		l, _ := get(t, c, testKey)
		return strings.HasPrefix(l.Instructions, "v")
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, w := range writers {
		if err := checkLetters(c); err != nil {
			t.Error(err)
		}
		w.finish(t)
	}
	if err := checkLetters(c); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 20 s")
		}
	}
}

// A writer that was killed before its rename leaves the old list and a temp file
// that nobody reads.
func TestWriterKilledBeforeItsRename(t *testing.T) {
	c, path := openTestCache(t)
	put(t, c, testKey, letterList("a", 2))
	if err := os.WriteFile(filepath.Join(path, tempPrefix+"KILLED"), []byte(formatLine+"half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkLetters(c); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Info(); err != nil || info.Entries != 1 {
		t.Fatal(info, err)
	}
}

func TestFilesAreForUsOnly(t *testing.T) {
	c, path := openTestCache(t)
	put(t, c, testKey, letterList("a", 1))
	if _, err := c.Principal(nil); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("%s has mode %v", name, fi.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What is behind a right checksum may still be anything.
func FuzzDecode(f *testing.F) {
	good, err := encode(testKey, letterList("a", 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[len(formatLine)+crc32.Size:])
	f.Add([]byte{})
	f.Add([]byte("\x02{}\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		file := binary.BigEndian.AppendUint32([]byte(formatLine), crc32.Checksum(body, castagnoli))
		list, note := decode(testKey, append(file, body...))
		if (list == nil) == (note == nil) {
			t.Fatalf("list %v, note %v", list, note)
		}
		if list == nil {
			return
		}
		size := len(list.ServerInfo) + len(list.Discover)
		for _, tool := range list.Tools {
			size += len(tool)
		}
		if size > len(body) {
			t.Fatal("more came out than went in")
		}
		if _, note = decode(testKey, body); note == nil {
			t.Fatal("a body without its front was taken")
		}
	})
}
