package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// partSize is the least that is worth a goroutine of its own. Only other programs'
// state, such as a ~/.claude.json of many megabytes, is longer than one part.
const partSize = 2 << 20

const maxParts = 8

var (
	errPart    = errors.New("a bug in mcprt was caught while it read this file; please report it")
	errNotUTF8 = errors.New("this is not UTF-8")
	errChanged = errors.New("the file changed its size while it was read")
)

// inParts lets do work on [0,n) in parts, side by side when n is large, and gives the
// first error. A file of 30 MB costs mostly the memory that it passes through, so two
// processors take half the time.
func inParts(n int, do func(part, from, to int) error) error {
	parts := min(max(n/partSize, 1), runtime.GOMAXPROCS(0), maxParts)
	if parts == 1 {
		return do(0, 0, n)
	}
	var group errgroup.Group
	for i := range parts {
		group.Go(func() (err error) {
			defer func() {
				if recover() != nil {
					err = errPart
				}
			}()
			return do(i, i*n/parts, (i+1)*n/parts)
		})
	}
	return group.Wait()
}

// readParts reads a file of n bytes. errChanged says that there were more or fewer.
func readParts(file *os.File, n int) ([]byte, error) {
	data := make([]byte, n)
	err := inParts(n, func(_, from, to int) error {
		got, err := file.ReadAt(data[from:to], int64(from))
		if got == to-from { // io.EOF may come with the last byte
			return nil
		}
		return err
	})
	if err == nil {
		_, err = file.ReadAt(make([]byte, 1), int64(n))
		switch err {
		case io.EOF:
			return data, nil
		case nil:
			return nil, errChanged
		}
	}
	if err == io.EOF {
		err = errChanged
	}
	return nil, err
}

// validUTF8 is utf8.Valid.
func validUTF8(text []byte) bool {
	return inParts(len(text), func(_, from, to int) error {
		// A part begins with a character's first byte, and ends before one.
		if from, to = boundary(text, from), boundary(text, to); from < to && !utf8.Valid(text[from:to]) {
			return errNotUTF8
		}
		return nil
	}) == nil
}

// boundary moves i back to the first byte of a character, if one begins within the
// bytes that a character can have; else what is there is not UTF-8, in either part.
func boundary(text []byte, i int) int {
	for j := i; j > 0 && j < len(text) && j > i-utf8.UTFMax; j-- {
		if utf8.RuneStart(text[j]) {
			return j
		}
	}
	return i
}

// countLines is the number of line breaks in text.
func countLines(text []byte) int {
	var counts [maxParts]int
	_ = inParts(len(text), func(part, from, to int) error {
		counts[part] = bytes.Count(text[from:to], []byte{'\n'})
		return nil
	})
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
