package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"unicode/utf8"
)

// A file that is longer than one part is read in parts, and gone through as they come.
// Only other programs' state, such as a ~/.claude.json of many megabytes, is so long, and
// to go through it takes as long as to read it.
const partSize = 1 << 20

var (
	errArrival = errors.New("a bug in mcprt was caught while it read this file; please report it")
	errNotUTF8 = errors.New("this is not UTF-8")
	errChanged = errors.New("the file changed its size while it was read")
)

// arrival is a large file's text while it is read. A nil one is there already.
type arrival struct {
	there int      // how much of the text is there for sure
	parts chan int // how much it is meanwhile; closed at its end

	// What was found meanwhile, to be read after the end.
	err   error // errChanged: there were more or fewer bytes
	valid bool  // it is UTF-8
	lines []int // how many line breaks stand before each part
}

// read fills data from file, and closes it.
func (a *arrival) read(file *os.File, data []byte) {
	defer close(a.parts)
	defer file.Close()
	defer func() {
		if recover() != nil {
			a.err = errArrival
		}
	}()
	a.valid = true
	lines, checked := 0, 0
	for from := 0; from < len(data); from += partSize {
		part := data[from:min(from+partSize, len(data))]
		if n, err := file.ReadAt(part, int64(from)); n < len(part) {
			if a.err = err; err == io.EOF {
				a.err = errChanged
			}
			return
		}
		a.parts <- from + len(part)
		a.lines = append(a.lines, lines)
		lines += bytes.Count(part, []byte{'\n'})
		end := from + len(part)
		if end < len(data) {
			end = wholeRunes(data[:end])
		}
		a.valid = a.valid && utf8.Valid(data[checked:end])
		checked = end
	}
	if _, err := file.ReadAt(make([]byte, 1), int64(len(data))); err == nil {
		a.err = errChanged
	} else if err != io.EOF {
		a.err = err
	}
}

// wholeRunes is the length of text without the beginning of a character at its end.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// start begins to read a text of n bytes, and returns when its first part is there.
func start(file *os.File, n int) ([]byte, *arrival, error) {
	data := make([]byte, n)
	a := &arrival{parts: make(chan int, n/partSize+1)}
	go a.read(file, data)
	if !a.next() {
		return nil, nil, a.err
	}
	return data, a, nil
}

// next waits until more is there; false at the end, be it an error.
func (a *arrival) next() bool {
	there, ok := <-a.parts
	if ok {
		a.there = there
	}
	return ok
}

// wait returns when all has been read.
func (a *arrival) wait() error {
	if a == nil {
		return nil
	}
	for a.next() {
		continue
	}
	return a.err
}
