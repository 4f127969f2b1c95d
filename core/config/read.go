package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// errNotRegular is for what must not be read as a file: a pipe or a device can
// hang or never end, a directory has no content.
var errNotRegular = errors.New("it is not a regular file")

// errFileTooLarge is for files over the limit.
var errFileTooLarge = errors.New("it is larger than the limit")

// readFile reads a regular file of at most limit bytes. Symbolic links are
// followed (people keep dotfiles elsewhere). It cannot hang on a pipe: the type
// is looked at before opening, because opening a device may act on it, and again
// on what was opened, which happens without waiting for a peer.
func readFile(path string, limit int64) ([]byte, error) {
	file, size, err := openFile(path, limit)
	if err != nil {
		return nil, err
	}
	return readAll(file, size, limit)
}

// readAll reads a file of about size bytes, and closes it.
func readAll(file *os.File, size, limit int64) ([]byte, error) {
	defer file.Close()
	// One byte more than there should be, to notice a file that grows meanwhile.
	var data bytes.Buffer
	data.Grow(int(min(size, limit)) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > limit {
		return nil, tooManyBytes(limit)
	}
	return data.Bytes(), nil
}

// startFile is readFile, which goes on with a large file when it has returned.
func startFile(path string, limit int64) ([]byte, *arrival, error) {
	file, size, err := openFile(path, limit)
	if err != nil {
		return nil, nil, err
	}
	if size > partSize {
		return start(file, int(size))
	}
	data, err := readAll(file, size, limit)
	return data, nil, err
}

func openFile(path string, limit int64) (file *os.File, size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errNotRegular
	}
	if file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	if info, err = file.Stat(); err == nil {
		switch {
		case !info.Mode().IsRegular():
			err = errNotRegular
		case info.Size() > limit:
			err = tooManyBytes(limit)
		default:
			return file, info.Size(), nil
		}
	}
	file.Close()
	return nil, 0, err
}

// absent reports an error that means "there is no such file".
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// reason says why a file was not read, without its path.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err.Error()
}

// unreadable is the diagnostic for a file that is there but was not read.
func unreadable(path string, err error) Diagnostic {
	code := "unreadable_file"
	if errors.Is(err, errFileTooLarge) {
		code = "too_large"
	}
	return Diagnostic{Severity: SeverityError, Code: code, Path: path,
		Message: fmt.Sprintf("this file was not read: %s; the other files were", reason(err))}
}
