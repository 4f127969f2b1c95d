// Package store keeps the files that outlive a process: cached tool lists, the
// key that keeps one user's lists from another's, and the records of trust.
//
// Every file lies in a directory that is checked before each use (real, ours,
// writable by nobody else), is replaced by rename only, and is read with a
// bound. Nothing here looks at the environment: callers name the directories.
// Errors are plain ones with a path and a reason; core decides what fails open
// (the cache) and what fails closed (trust).
package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxFile is the most that is read from, or written to, one file.
const maxFile = 64 << 20

// dir is a directory that passed the checks, held open so that whoever swaps a
// parent directory later changes nothing for us. It is opened anew for each
// operation: a directory that the user removed meanwhile comes back by itself,
// and no descriptor lingers in a process that forks.
type dir struct {
	root *os.Root
	path string
}

// unfitError tells of a file that exists but is not one of ours.
type unfitError struct{ path, reason string }

func (e *unfitError) Error() string { return e.path + " " + e.reason }

// openDir opens the directory at an absolute path; create makes it, and missing
// parents, with mode 0700. The error of a missing directory is fs.ErrNotExist.
func openDir(path string, create bool) (*dir, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the directory %q must be an absolute path", path)
	}
	path = filepath.Clean(path) // Lstat follows a link that has a slash behind it
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	seen, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, &unfitError{path, "is not a real directory (a link or a file stands there); remove it or name another one"}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &dir{root, path}
	// OpenRoot follows a link at the last component: what was opened must be what was seen.
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = &unfitError{path, "was replaced while it was opened"}
	}
	if err == nil {
		err = checkOurs(path, opened)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dir) close() { d.root.Close() }

// read returns the whole of a regular file of ours.
func (d *dir) read(name string) ([]byte, error) {
	path := filepath.Join(d.path, name)
	fi, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &unfitError{path, "is not a regular file; remove it"}
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Another process may have renamed a newer file over the one that was seen.
	if fi, err = f.Stat(); err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &unfitError{path, "is not a regular file; remove it"}
	}
	if err := checkOurs(path, fi); err != nil {
		return nil, err
	}
	if fi.Size() > maxFile {
		return nil, &unfitError{path, fmt.Sprintf("is larger than %d MiB; remove it", maxFile>>20)}
	}
	data := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// remove deletes a file; that it is gone already is no error.
func (d *dir) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list gives what lies in the directory, newest first. What vanishes meanwhile is left out.
func (d *dir) list() ([]fs.FileInfo, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := f.Readdir(-1)
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return files, err
}
