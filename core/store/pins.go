package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// Pins keeps, for each server entry by its trust hash, what its tools were when
// they were approved: one file per entry, so that servers which start at once do
// not wait for each other. Its methods are safe from any goroutine and process.
type Pins struct{ dir string }

// Pin is what was approved of one entry.
type Pin struct {
	Server     string            `json:"server"` // for people
	ApprovedAt time.Time         `json:"approvedAt"`
	Tools      map[string]string `json:"tools"` // name → digest of the definition
}

type pinFile struct {
	Version int `json:"version"`
	Pin
}

const (
	pinVersion = 1
	pinSuffix  = ".json"
	pinLock    = "pins.lock"
)

// OpenPins names the directory, by an absolute path. Nothing is read or made yet.
func OpenPins(dir string) (*Pins, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of pins %q must be an absolute path", dir)
	}
	return &Pins{dir}, nil
}

func pinName(hash string) (string, error) {
	if !hashForm().MatchString(hash) {
		return "", errors.New(`a pin needs a hash of the form "sha256:" and 64 hex digits`)
	}
	return strings.TrimPrefix(hash, "sha256:") + pinSuffix, nil
}

// First gives what was approved of an entry. If nothing was, now is, on disk when
// it returns: of processes that come at once the first one counts.
func (p *Pins) First(hash string, now Pin) (Pin, error) {
	var approved Pin
	err := p.locked(hash, true, func(d *dir, name string) error {
		old, err := p.load(d, name)
		switch {
		case err != nil:
			return err
		case old != nil:
			approved = *old
			return nil
		}
		approved = now
		return p.save(d, name, now)
	})
	return approved, err
}

// Set records what is approved from now on.
func (p *Pins) Set(hash string, now Pin) error {
	return p.locked(hash, true, func(d *dir, name string) error { return p.save(d, name, now) })
}

// Forget takes the record of an entry back; the next First records anew.
func (p *Pins) Forget(hash string) error {
	err := p.locked(hash, false, func(d *dir, name string) error { return d.remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (p *Pins) locked(hash string, create bool, f func(d *dir, name string) error) error {
	name, err := pinName(hash)
	if err != nil {
		return err
	}
	d, err := openDir(p.dir, create)
	if err != nil {
		return err
	}
	defer d.close()
	unlock, err := d.lock(pinLock)
	if err != nil {
		return err
	}
	defer unlock()
	return f(d, name)
}

// load gives nil where nothing was recorded. A damaged record is an error: to
// write a new one over it would approve what nobody has seen.
func (p *Pins) load(d *dir, name string) (*Pin, error) {
	data, err := d.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file pinFile
	if err := json.Unmarshal(bytes.TrimSpace(data), &file); err != nil || file.Tools == nil {
		return nil, fmt.Errorf("%s is damaged; approve the server again", filepath.Join(p.dir, name))
	}
	if file.Version != pinVersion {
		return nil, fmt.Errorf("%s has format %d, but this version of mcprt knows only %d", filepath.Join(p.dir, name), file.Version, pinVersion)
	}
	return &file.Pin, nil
}

func (p *Pins) save(d *dir, name string, pin Pin) error {
	if pin.Tools == nil {
		pin.Tools = map[string]string{}
	}
	data, err := json.Marshal(pinFile{pinVersion, pin})
	if err != nil {
		return err
	}
	if err := d.write(name, append(data, '\n')); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	d.sweep(nil) // best effort: the record is safe
	return nil
}
