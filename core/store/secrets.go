package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"os"

	"github.com/mcprt/mcprt/core/lazy"
)

// Secrets keeps small secret values, one 0600 file each, in a directory of its own.
// It fails closed. Its methods are safe from any goroutine and process; between them
// only Lock keeps others away.
type Secrets struct{ path string }

const (
	secretSuffix = ".json"
	maxSecret    = 1 << 20
)

var secretKey = lazy.Regexp(`^[0-9a-f]{64}$`)

// OpenSecrets names the directory, by an absolute path. Nothing is read or made yet.
func OpenSecrets(path string) (*Secrets, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the directory of credentials %q must be an absolute path", path)
	}
	return &Secrets{filepath.Clean(path)}, nil
}

// Load returns nil where there is nothing.
func (s *Secrets) Load(key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	d, err := openDir(s.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	value, err := d.read(key + secretSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return value, err
}

// Save replaces a value; after a crash the old one or the new one is there.
func (s *Secrets) Save(key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > maxSecret {
		return fmt.Errorf("a credential is larger than %d KiB", maxSecret>>10)
	}
	d, err := openDir(s.path, true)
	if err != nil {
		return err
	}
	defer d.close()
	_ = d.sweep(nil)
	return d.write(key+secretSuffix, value)
}

// Delete of what is not there is no error.
func (s *Secrets) Delete(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	d, err := openDir(s.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	return d.remove(key + secretSuffix)
}

// Lock keeps every other process and manager from a key, for as long as ctx lasts in
// waiting. A process that dies lets go of it.
func (s *Secrets) Lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	d, err := openDir(s.path, true)
	if err != nil {
		return nil, err
	}
	defer d.close()
	path := filepath.Join(d.path, key+".lock")
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|openNoFollow), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = l.Unlock() }, nil
}

func checkKey(key string) error {
	if !secretKey().MatchString(key) {
		return errors.New("the key of a credential must be 64 hex digits")
	}
	return nil
}
