//go:build unix

package store

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openNonblock keeps the opening of a FIFO from waiting for its other end.
const openNonblock = syscall.O_NONBLOCK

// openNoFollow refuses a link at the last component.
const openNoFollow = syscall.O_NOFOLLOW

// checkOurs refuses what another user owns or could have written.
func checkOurs(path string, fi fs.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return &unfitError{path, fmt.Sprintf("belongs to user id %d, but this process runs as %d", st.Uid, os.Geteuid())}
	}
	if mode := fi.Mode().Perm(); mode&0o022 != 0 {
		return &unfitError{path, fmt.Sprintf("can be changed by other users (mode %04o); run chmod go-w on it", mode)}
	}
	return nil
}

// sync makes the renames and removals in the directory last through a power failure.
func (d *dir) sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
