package core

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/mcptest"
)

// TestSpill: long texts go to private files, the rest of a result stays byte for byte.
func TestSpill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	long := strings.Repeat("é0123456789", 300)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	s := mcptest.NewMemory(mcptest.Script{Results: map[string]string{
		"mixed": `{"content":[{"type":"text","text":"short"},{"type":"text","text":` + string(quoted) + `,"annotations":{"priority":0.10}},{"type":"hologram","big":9007199254740993}],` +
			`"structuredContent":{"text":` + string(quoted) + `},"future":[1.0]}`,
		"short": `{"content":[{"type":"text","text":"short"}]}`,
		"odd":   `{"content":` + string(quoted) + `}`,
	}, Tools: []string{mcptest.Tool("mixed"), mcptest.Tool("short"), mcptest.Tool("odd"), mcptest.Tool("big")}})
	r := newRig(t, servers{"a": s}, map[string]any{"spill": map[string]any{"overBytes": 1024, "dir": dir, "quotaBytes": 10_000}})
	r.must(VerbConnect, `{}`)
	a := r.must(VerbCall, `{"server":"a","tool":"mixed"}`)
	var got struct {
		Result struct {
			Content    []struct{ Text string }
			Structured json.RawMessage `json:"structuredContent"`
			Meta       struct {
				Spilled []spillNote `json:"mcprt/spilled"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(a.raw), &got); err != nil {
		t.Fatal(err)
	}
	notes := got.Result.Meta.Spilled
	if len(notes) != 2 || got.Result.Structured != nil || *notes[0].Content != 1 || notes[1].Content != nil {
		t.Fatalf("%s", a.raw)
	}
	for _, part := range []string{`{"type":"text","text":"short"}`, `"annotations":{"priority":0.10}`, `{"type":"hologram","big":9007199254740993}`, `"future":[1.0]`} {
		if !strings.Contains(a.raw, part) {
			t.Errorf("no %s in %s", part, a.raw)
		}
	}
	if text := got.Result.Content[1].Text; !strings.HasPrefix(long, strings.SplitN(text, "…", 2)[0]) || !strings.Contains(text, notes[0].Path) || strings.Contains(text, "\uFFFD") {
		t.Errorf("the preview: %s", text)
	}
	for i, want := range []string{long, `{"text":` + string(quoted) + `}`} {
		data, err := os.ReadFile(notes[i].Path)
		if err != nil || string(data) != want || notes[i].Bytes != int64(len(want)) {
			t.Errorf("file %d: %d bytes, %v", i, len(data), err)
		}
		if info, err := os.Stat(notes[i].Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		if info, err := os.Stat(filepath.Dir(notes[i].Path)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
	if a := r.must(VerbCall, `{"server":"a","tool":"short"}`); a.raw != `{"result":{"content":[{"type":"text","text":"short"}]}}` {
		t.Error(a.raw)
	}
	if a := r.must(VerbCall, `{"server":"a","tool":"odd"}`); strings.Contains(a.raw, "spilled") {
		t.Error(a.raw)
	}

	// The quota holds: the oldest files go, and what is larger than it stays in the result.
	for range 3 {
		r.must(VerbCall, `{"server":"a","tool":"big","arguments":{"bytes":4000}}`)
	}
	if _, err := os.Stat(notes[0].Path); !os.IsNotExist(err) {
		t.Errorf("the oldest file is still there: %v", err)
	}
	if used := bytesIn(t, dir); used > 10_000 {
		t.Errorf("%d bytes, over the quota", used)
	}
	if a := r.must(VerbCall, `{"server":"a","tool":"big","arguments":{"bytes":20000}}`); len(a.raw) < 20_000 {
		t.Errorf("a result that fits no quota: %.100s", a.raw)
	}
	if found := r.host.of("diagnostic"); len(found) != 1 || found[0]["code"] != "not_spilled" {
		t.Errorf("%v", found)
	}
	r.m.Close(0)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func bytesIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestSpillSweeps: what a killed host left goes, what a living one has stays.
func TestSpillSweeps(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, spillPrefix+"dead")
	for _, path := range []string{dead, filepath.Join(dir, "something-else")} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{spillLock, "000001.txt"} {
			if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	alive := newSpill(&SpillOptions{OverBytes: 1, Dir: dir})
	notes, err := alive.write([]spilling{{text: "x", ending: ".txt"}})
	if err != nil {
		t.Fatal(err)
	}
	other := newSpill(&SpillOptions{OverBytes: 1, Dir: dir})
	if _, err := other.write([]spilling{{text: "y", ending: ".txt"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(notes[0].Path); err != nil {
		t.Errorf("a living one's file: %v", err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("a dead one's directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "something-else", "000001.txt")); err != nil {
		t.Errorf("what is not ours: %v", err)
	}
	alive.close()
	other.close()
}

// TestSpillOfOneResult: no text of a result pushes another one of it out, all are put into
// files or none, and a directory that a sweeper took is made anew.
func TestSpillOfOneResult(t *testing.T) {
	dir := t.TempDir()
	s := newSpill(&SpillOptions{OverBytes: 1024, QuotaBytes: 5000, Dir: dir})
	defer s.close()
	text := func(n int) string { return `{"type":"text","text":"` + strings.Repeat("x", n) + `"}` }
	result := func(texts ...string) []byte { return []byte(`{"content":[` + strings.Join(texts, ",") + `]}`) }
	files := func(result []byte) (paths []string) {
		var got struct {
			Meta struct {
				Spilled []spillNote `json:"mcprt/spilled"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(result, &got); err != nil {
			t.Fatal(err)
		}
		for _, n := range got.Meta.Spilled {
			paths = append(paths, n.Path)
		}
		return paths
	}
	check := func(name string, out []byte, err error, want int) {
		t.Helper()
		paths := files(out)
		if err != nil || len(paths) != want {
			t.Fatalf("%s: %d files, %v", name, len(paths), err)
		}
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the result names a file that is not there: %v", name, err)
			}
		}
	}
	first := result(text(2000), text(2000))
	out, err := s.shorten(first)
	check("two texts", out, err, 2)
	if out, err = s.shorten(first); err != nil {
		t.Fatal(err)
	}
	check("two more, for which the first two go", out, err, 2)
	if used := bytesIn(t, dir); used != 4000 {
		t.Errorf("%d bytes", used)
	}
	over := result(text(2000), text(2000), text(2000))
	if out, err := s.shorten(over); err == nil || !bytes.Equal(out, over) {
		t.Errorf("three texts, together over the quota: %.200s, %v", out, err)
	}
	check("those of the result before", out, nil, 2)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	out, err = s.shorten(first)
	check("after the directory was swept", out, err, 2)
	// One that cannot be written leaves none of its own.
	if err := os.Mkdir(filepath.Join(s.dir, fmt.Sprintf("%06d.txt", s.serial+2)), 0o700); err != nil {
		t.Fatal(err)
	}
	small := result(text(1100), text(1100))
	before := s.used
	if out, err := s.shorten(small); err == nil || !bytes.Equal(out, small) {
		t.Errorf("one that cannot be written: %.200s, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, fmt.Sprintf("%06d.txt", s.serial-1))); !os.IsNotExist(err) {
		t.Errorf("a file of no result: %v", err)
	}
	if s.used > before {
		t.Errorf("%d bytes are counted, %d before", s.used, before)
	}
}

func TestReplaceMember(t *testing.T) {
	for _, c := range []struct{ object, name, value, want string }{
		{`{"a": 1,"b":[1.0],"a":2}`, "a", `3`, `{"a":3,"b":[1.0]}`},
		{`{"a":1}`, "a", "", `{}`},
		{`{"a":1}`, "b", `2`, `{"a":1,"b":2}`},
		{`{}`, "b", `2`, `{"b":2}`},
	} {
		var value []byte
		if c.value != "" {
			value = []byte(c.value)
		}
		if got := replaceMember([]byte(c.object), c.name, value); !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s: %s", c.object, got)
		}
	}
}
