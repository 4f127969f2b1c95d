package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/lazy"
)

const (
	trustVersion = 1
	// maxRecords keeps the file far below maxFile, so that it can always be read again.
	maxRecords = 4000
	maxRecord  = 12 << 10 // bytes of one record's JSON
)

// Trust is the file of the project entries that the user allowed to run. It is
// read anew each time, so that what another process records or takes back holds
// at once. It fails closed: on any doubt nothing is trusted and nothing is written.
// Its methods are safe from any goroutine and process.
type Trust struct{ dir, name string }

// Record is one decision. Hash is the identity; the rest is for people.
type Record struct {
	Hash     string    `json:"hash"` // "sha256:" + 64 hex digits
	Path     string    `json:"path,omitempty"`
	Project  string    `json:"project,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Name     string    `json:"name,omitempty"`
	AddedAt  time.Time `json:"addedAt"`
}

type trustFile struct {
	Version int      `json:"version"`
	Records []Record `json:"records"`
}

var hashForm = lazy.Regexp(`^sha256:[0-9a-f]{64}$`)

// OpenTrust names the file, by an absolute path. Nothing is read or made yet; a
// missing file has no records.
func OpenTrust(path string) (*Trust, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the trust file %q must be an absolute path", path)
	}
	return &Trust{filepath.Dir(path), filepath.Base(path)}, nil
}

// Has tells whether a hash was recorded. It is false on every error.
func (t *Trust) Has(hash string) (bool, error) {
	records, err := t.List()
	return slices.ContainsFunc(records, func(r Record) bool { return r.Hash == hash }), err
}

// List returns all records, oldest first.
func (t *Trust) List() ([]Record, error) {
	d, err := openDir(t.dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, t.wrap(err)
	}
	defer d.close()
	return t.load(d)
}

// Add stores a record, on disk when it returns. One that is there already stays as it is.
func (t *Trust) Add(r Record) error {
	if !hashForm().MatchString(r.Hash) {
		return errors.New(`a trust record needs a hash of the form "sha256:" and 64 hex digits, as discover shows it`)
	}
	if raw, err := json.Marshal(r); err != nil {
		return err
	} else if len(raw) > maxRecord {
		return fmt.Errorf("a trust record with more than %d bytes of names and paths is not stored", maxRecord)
	}
	return t.change(func(records []Record) ([]Record, error) {
		if slices.ContainsFunc(records, func(old Record) bool { return old.Hash == r.Hash }) {
			return records, nil
		}
		if len(records) >= maxRecords {
			return nil, fmt.Errorf("there are %d trust records; remove some first", len(records))
		}
		return append(records, r), nil
	})
}

// Remove takes a record back and tells whether there was one.
func (t *Trust) Remove(hash string) (removed bool, err error) {
	err = t.change(func(records []Record) ([]Record, error) {
		left := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Hash == hash })
		removed = len(left) < len(records)
		return left, nil
	})
	return removed && err == nil, err
}

// change is the one read-modify-write. The file is written only when the number of
// records changed.
func (t *Trust) change(f func([]Record) ([]Record, error)) error {
	d, err := openDir(t.dir, true)
	if err != nil {
		return t.wrap(err)
	}
	defer d.close()
	unlock, err := d.lock(t.name + ".lock")
	if err != nil {
		return t.wrap(err)
	}
	defer unlock()
	old, err := t.load(d)
	if err != nil {
		return err
	}
	records, err := f(old)
	if err != nil || len(records) == len(old) {
		return err
	}
	data, err := json.MarshalIndent(trustFile{trustVersion, records}, "", "  ")
	if err != nil {
		return err
	}
	err = d.write(t.name, append(data, '\n'))
	if err == nil {
		// A record that was taken back must not return after a power failure.
		err = d.sync()
	}
	if err != nil {
		return t.wrap(err)
	}
	d.sweep(nil) // best effort: the record is safe
	return nil
}

func (t *Trust) load(d *dir) ([]Record, error) {
	data, err := d.read(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, t.wrap(err)
	}
	var file trustFile
	if err := json.Unmarshal(bytes.TrimSpace(data), &file); err != nil {
		return nil, t.wrap(errors.New("it is damaged; mend or remove it"))
	}
	if file.Version != trustVersion {
		return nil, t.wrap(fmt.Errorf("it has format %d, but this version of mcprt knows only %d", file.Version, trustVersion))
	}
	return file.Records, nil
}

func (t *Trust) wrap(err error) error {
	return fmt.Errorf("the trust records in %s cannot be used, so nothing in them counts: %w", filepath.Join(t.dir, t.name), err)
}
