package core

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"github.com/gofrs/flock"

	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
)

const (
	spillPrefix  = "mcprt-spill-"
	spillLock    = "lock"
	spillPreview = 2 << 10 // bytes of a text that stay in the result
	defaultQuota = 1 << 30
)

// spill puts long texts of results into files, so that neither the host nor its model
// has to take them in. The files are the manager's own: in a directory that nobody else
// may enter, under a quota, and gone when the manager closes. Its zero value, and nil,
// spill nothing.
type spill struct {
	over, quota int64
	parent      string

	mu     sync.Mutex
	dir    string // "" before the first file
	lock   *flock.Flock
	files  []spilled // the oldest first
	used   int64
	serial int
}

type spilled struct {
	path  string
	bytes int64
}

func newSpill(o *SpillOptions) *spill {
	if o == nil {
		return nil
	}
	s := &spill{over: o.OverBytes, quota: o.QuotaBytes, parent: o.Dir}
	if s.quota == 0 {
		s.quota = defaultQuota
	}
	return s
}

// wants tells whether a result can hold a text that is too long.
func (s *spill) wants(result []byte) bool { return s != nil && int64(len(result)) > s.over }

// shorten gives the result with each long text, and structured content that is too
// long, in a file: the text's beginning stays, and says where the rest is. On an error
// the result is as it was.
func (s *spill) shorten(result []byte) ([]byte, error) {
	var members struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		Meta       json.RawMessage   `json:"_meta"`
	}
	if err := json.Unmarshal(result, &members); err != nil {
		return result, nil // the host sees what it is
	}
	var long []spilling
	for i, block := range members.Content {
		kind, _ := rawjson.String(rawjson.Get(block, "type"))
		text, ok := rawjson.String(rawjson.Get(block, "text"))
		if kind == "text" && ok && int64(len(text)) > s.over {
			long = append(long, spilling{&i, text, ".txt"})
		}
	}
	structured := int64(len(members.Structured)) > s.over
	if structured {
		long = append(long, spilling{nil, string(members.Structured), ".json"})
	}
	if long == nil {
		return result, nil
	}
	notes, err := s.write(long)
	if err != nil {
		return result, err
	}
	for i, note := range notes {
		if at := note.Content; at != nil {
			text := long[i].text
			members.Content[*at] = replaceMember(members.Content[*at], "text", encode(fmt.Sprintf("%s…\n\n[The whole text has %d bytes and is in the file %s]", preview(text), len(text), note.Path)))
		}
	}
	out := replaceMember(result, "content", encode(members.Content))
	if structured {
		out = replaceMember(out, "structuredContent", nil)
	}
	meta := []byte(`{}`)
	if rawjson.IsObject(members.Meta) {
		meta = members.Meta
	}
	return replaceMember(out, "_meta", replaceMember(meta, "mcprt/spilled", encode(notes))), nil
}

// spilling is one text of a result that is to go into a file.
type spilling struct {
	content *int // as in spillNote
	text    string
	ending  string
}

// spillNote is what a result says of a file, in _meta under "mcprt/spilled".
type spillNote struct {
	Content *int   `json:"content,omitempty"` // index of the block; absent: structuredContent
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

func preview(text string) string {
	n := min(len(text), spillPreview)
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// replaceMember sets a member of a raw object, or takes it out where value is nil. The
// other members stay as they are, byte for byte.
func replaceMember(object []byte, name string, value []byte) []byte {
	b, found := []byte{'{'}, false
	add := func(key string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(rawjson.AppendString(b, key), ':'), value...)
	}
	_ = rawjson.Members(object, func(key string, old []byte) bool {
		if key == name {
			if old = value; found || value == nil {
				return true
			}
			found = true
		}
		add(key, old)
		return true
	})
	if !found && value != nil {
		add(name, value)
	}
	return append(b, '}')
}

// write makes a file of each text of one result. Where the quota is full the oldest files
// go, but never one of the same result: its host has not even seen it. All are written, or
// none.
func (s *spill) write(texts []spilling) ([]spillNote, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(0)
	for _, t := range texts {
		total += int64(len(t.text))
	}
	if total > s.quota {
		return nil, fmt.Errorf("%d bytes are more than spill.quotaBytes allows", total)
	}
	if _, err := os.Lstat(s.dir); s.dir != "" && errors.Is(err, fs.ErrNotExist) { // somebody swept the temporary files
		s.leave()
	}
	if s.dir == "" {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	for s.used+total > s.quota {
		_ = os.Remove(s.files[0].path) // it may be gone
		s.used -= s.files[0].bytes
		s.files = s.files[1:]
	}
	notes := make([]spillNote, 0, len(texts))
	for _, t := range texts {
		s.serial++
		path := filepath.Join(s.dir, fmt.Sprintf("%06d%s", s.serial, t.ending))
		if err := os.WriteFile(path, []byte(t.text), 0o600); err != nil {
			_ = os.Remove(path)
			for _, n := range notes {
				_ = os.Remove(n.Path)
			}
			return nil, err
		}
		sum := sha256.Sum256([]byte(t.text))
		notes = append(notes, spillNote{Content: t.content, Path: path, Bytes: int64(len(t.text)), SHA256: hex.EncodeToString(sum[:])})
	}
	for _, n := range notes {
		s.files = append(s.files, spilled{n.Path, n.Bytes})
	}
	s.used += total
	return notes, nil
}

// leave gives up the directory.
func (s *spill) leave() {
	_ = s.lock.Unlock()
	s.dir, s.files, s.used = "", nil, 0
}

// open makes the directory, and removes those of managers that were killed: their lock
// is free.
func (s *spill) open() error {
	if err := os.MkdirAll(s.parent, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), spillPrefix) {
			continue
		}
		old := filepath.Join(s.parent, e.Name())
		lock := flock.New(filepath.Join(old, spillLock), flock.SetFlag(os.O_RDWR)) // not one that is just being made
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.RemoveAll(old) // best effort
			_ = lock.Unlock()
		}
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	dir := filepath.Join(s.parent, spillPrefix+hex.EncodeToString(id[:]))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(dir, spillLock), flock.SetPermissions(0o600))
	if _, err := lock.TryLock(); err != nil {
		_ = os.RemoveAll(dir)
		return err
	}
	s.dir, s.lock = dir, lock
	return nil
}

// close removes all files.
func (s *spill) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return
	}
	dir := s.dir
	s.leave() // first: an open file cannot be removed everywhere
	_ = os.RemoveAll(dir)
	s.quota = 0 // nothing is written any more
}

// succeed gives the host the result, or what is left of it when its texts are in files.
func (op *callOp) succeed(result []byte) {
	s := op.m.spill
	if op.req.Method != "" || !s.wants(result) {
		op.out.succeed(op.out.result(result))
		return
	}
	result = append([]byte(nil), result...)
	if !op.m.goSafe(func() { // a file may take long, and this is the reader's goroutine
		defer func() {
			if r := recover(); r != nil {
				op.fail(op.about(caught(r)))
			}
		}()
		safe.Point("core.spill")
		short, err := s.shorten(result)
		if err != nil {
			op.m.tell(diagnosticNotice{diagnostic{Severity: "warning", Code: "not_spilled", Server: op.req.Server,
				Message: "a long result was handed out whole, since it could not be put into a file: " + err.Error()}})
		}
		op.out.succeed(op.out.result(short))
	}) {
		op.out.succeed(op.out.result(result))
	}
}
