package core

import (
	"bytes"
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
	note, err := alive.write([]byte("x"), ".txt")
	if err != nil {
		t.Fatal(err)
	}
	other := newSpill(&SpillOptions{OverBytes: 1, Dir: dir})
	if _, err := other.write([]byte("y"), ".txt"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(note.Path); err != nil {
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
