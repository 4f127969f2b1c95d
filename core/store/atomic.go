package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	tempPrefix = ".mcprt-tmp-"
	// tempLife is far longer than any write takes: an older temp file's writer was killed.
	tempLife = time.Hour
	// lockWait bounds the wait for another process, whose locked work takes milliseconds.
	lockWait = 10 * time.Second
)

// write replaces a file so that a reader, and a crash at any moment, sees the old
// content or the new one. Known libraries for this work on paths; this works
// inside the directory that was checked.
func (d *dir) write(name string, data []byte) (err error) {
	if len(data) > maxFile {
		return fmt.Errorf("%s would be larger than %d MiB", filepath.Join(d.path, name), maxFile>>20)
	}
	temp := tempPrefix + rand.Text()
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			d.root.Remove(temp)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return d.root.Rename(temp, name)
}

// sweep removes the temp files of killed writers, and, going from the newest file to the
// oldest, those for which spent (which may be nil) is true.
func (d *dir) sweep(spent func(fi fs.FileInfo, age time.Duration) bool) error {
	files, err := d.list()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, fi := range files {
		age := now.Sub(fi.ModTime())
		if strings.HasPrefix(fi.Name(), tempPrefix) && age > tempLife || spent != nil && spent(fi, age) {
			if err := d.remove(fi.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// lock takes the exclusive lock `name` across processes. The lock file stays: removing
// it would let two processes hold locks on two files of one name.
func (d *dir) lock(name string) (unlock func(), err error) {
	path := filepath.Join(d.path, name)
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|openNoFollow), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("another process held the lock %s for %s; end it and try again", path, lockWait)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { l.Unlock() }, nil
}
