package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"
)

const (
	listSuffix = ".tools"
	// futureSlack is how far a clock may have been set back before an entry from
	// the future counts as damaged: else it would outlive every limit.
	futureSlack = time.Hour
	// A host whose principal differs at each start (a fresh token, say) makes a new
	// entry each time; these bound what it leaves.
	maxEntries = 4096
	maxBytes   = 512 << 20
)

// Cache holds the tool lists of servers in one directory, one file per key. Its
// methods are safe from any goroutine, and any number of processes may share the directory.
type Cache struct {
	path  string
	ttl   time.Duration
	swept sync.Once

	mu  sync.Mutex
	key []byte // of Principal, once read
}

// ToolList is what a server offered when it was last connected. The raw parts are
// kept byte for byte.
type ToolList struct {
	Tools        []json.RawMessage // definitions, unfiltered, in the server's order
	ServerInfo   json.RawMessage   // nil: none
	Instructions string
	Verdict
	FetchedAt  time.Time
	TTLMs      *int64 // the server's own; nil: it gave none
	CacheScope string // "public" or "private"; anything else is stored as "private"
}

// Verdict is what a later session need not ask the server again; its fields are
// those of the session's own type.
type Verdict struct {
	ProtocolVersion string
	Modern          bool
	Discover        json.RawMessage // nil: none
	Asked           time.Time
}

// Stale tells whether the list is older than its server said it would hold. A
// server that said nothing is taken to hold: the list's end is the cache's ttl.
func (l *ToolList) Stale(now time.Time) bool {
	return l.TTLMs != nil && (*l.TTLMs <= 0 || now.Sub(l.FetchedAt).Milliseconds() >= *l.TTLMs)
}

// Note says why an entry that exists was of no use. It is a miss like any other;
// the next Put replaces the file.
type Note struct{ Code, Message string }

// The codes of notes.
const (
	NoteDamaged = "cache_damaged" // cut off, changed, or dated in the future
	NoteForeign = "cache_foreign" // not a file of ours, or of another key
	NoteFormat  = "cache_format"  // of another version
	NoteExpired = "cache_expired" // older than the cache's ttl
)

// OpenCache checks the directory (absolute path), which it makes when it is
// missing. Entries older than ttl are not used.
func OpenCache(path string, ttl time.Duration) (*Cache, error) {
	d, err := openDir(path, true)
	if err != nil {
		return nil, fmt.Errorf("no tool cache: %w", err)
	}
	d.close()
	return &Cache{path: path, ttl: ttl}, nil
}

// Key names an entry: the server's canonical config before any variable in it was
// expanded, its name, the client capabilities that were declared to it (lists
// depend on them), and whose list it is (Cache.Principal, or a grant).
func Key(config []byte, server string, capabilities []byte, principal string) string {
	h := sha256.New()
	for _, part := range []string{"mcprt tool cache key 1", string(config), server, string(capabilities), principal} {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writePart hashes a part behind its length, so that no two lists of parts give one input.
func writePart(h hash.Hash, part string) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
	io.WriteString(h, part)
}

// fileOf refuses what Key did not make: the key becomes a file name.
func fileOf(key string) (string, error) {
	if raw, err := hex.DecodeString(key); err != nil || len(raw) != sha256.Size || key != strings.ToLower(key) {
		return "", errors.New("not a key of the tool cache")
	}
	return key + listSuffix, nil
}

// Get returns the list of a key, or nil. A nil list with a note was there but of no
// use; an error means that the directory or the disk failed.
func (c *Cache) Get(key string) (*ToolList, *Note, error) {
	name, err := fileOf(key)
	if err != nil {
		return nil, nil, err
	}
	d, err := openDir(c.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer d.close()
	data, err := d.read(name)
	var unfit *unfitError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case errors.As(err, &unfit):
		return nil, &Note{NoteForeign, "the cached tool list " + unfit.Error() + "; it is not used"}, nil
	case err != nil:
		return nil, nil, err
	}
	list, note := decode(key, data)
	if note == nil {
		note = c.dated(list)
	}
	if note != nil {
		return nil, &Note{note.Code, fmt.Sprintf("the cached tool list %s %s; it is not used", filepath.Join(c.path, name), note.Message)}, nil
	}
	return list, nil, nil
}

// dated gives a note when the list's date is out of bounds.
func (c *Cache) dated(l *ToolList) *Note {
	switch age := time.Since(l.FetchedAt); {
	case age > c.ttl:
		return &Note{NoteExpired, fmt.Sprintf("is older than %s", c.ttl)}
	case age < -futureSlack:
		return &Note{NoteDamaged, "is dated in the future"}
	}
	return nil
}

// Put stores a list, and removes the entry when the list is empty: a server that
// lists nothing is more often in trouble than without tools.
func (c *Cache) Put(key string, list *ToolList) error {
	if len(list.Tools) == 0 {
		return c.Remove(key)
	}
	name, err := fileOf(key)
	if err != nil {
		return err
	}
	kept := *list
	if kept.CacheScope != "public" {
		kept.CacheScope = "private"
	}
	data, err := encode(key, &kept)
	if err != nil {
		return err
	}
	d, err := openDir(c.path, true)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.write(name, data); err != nil {
		return err
	}
	c.swept.Do(func() { c.sweep(d) }) // best effort: the list is safe, and the next process sweeps too
	return nil
}

// Remove drops the entry of a key, if there is one.
func (c *Cache) Remove(key string) error {
	name, err := fileOf(key)
	if err != nil {
		return err
	}
	d, err := openDir(c.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	return d.remove(name)
}

// sweep removes entries past their life and the oldest ones over the limits. Once per
// process is enough, after the first Put: a start that only reads pays nothing.
func (c *Cache) sweep(d *dir) error {
	entries, size := 0, int64(0)
	return d.sweep(func(fi fs.FileInfo, age time.Duration) bool {
		if !isList(fi) {
			return false
		}
		entries++
		size += fi.Size()
		return entries > maxEntries || size > maxBytes || age > c.ttl
	})
}

func isList(fi fs.FileInfo) bool {
	return fi.Mode().IsRegular() && strings.HasSuffix(fi.Name(), listSuffix)
}

// Info describes the cache for people.
type Info struct {
	Dir     string
	Entries int
	Bytes   int64
	Oldest  time.Time // zero when there are none
	Newest  time.Time
}

// Info counts what is stored.
func (c *Cache) Info() (Info, error) {
	info := Info{Dir: c.path}
	err := c.each(func(_ *dir, fi fs.FileInfo) error {
		if t := fi.ModTime(); isList(fi) {
			info.Entries++
			info.Bytes += fi.Size()
			if info.Oldest.IsZero() || t.Before(info.Oldest) {
				info.Oldest = t
			}
			if t.After(info.Newest) {
				info.Newest = t
			}
		}
		return nil
	})
	return info, err
}

// Clear removes all entries, and tells how many there were. The key of Principal
// stays: other processes hold it in memory.
func (c *Cache) Clear() (removed int, err error) {
	err = c.each(func(d *dir, fi fs.FileInfo) error {
		if !isList(fi) {
			return nil
		}
		removed++
		return d.remove(fi.Name())
	})
	return removed, err
}

// each calls f for every file of the directory, until it fails.
func (c *Cache) each(f func(*dir, fs.FileInfo) error) error {
	d, err := openDir(c.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	files, err := d.list()
	for _, fi := range files {
		if err == nil {
			err = f(d, fi)
		}
	}
	return err
}
