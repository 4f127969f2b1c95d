package config

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unicode/utf8"
)

// TestParts: work in parts gives what work in one piece gives, wherever the parts meet.
func TestParts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	rng := rand.New(rand.NewPCG(5, 6))
	unit := []byte("aé€\U0001F600\n")
	text := bytes.Repeat(unit, 4*partSize/len(unit)+1)
	for range 40 {
		n := len(text) - rng.IntN(len(unit)*3)
		part := bytes.Clone(text[:n])
		if rng.IntN(2) == 0 { // spoil it, most often near where two parts meet
			at := (1+rng.IntN(3))*n/4 - 6 + rng.IntN(12)
			part[at] = byte(0x80 + rng.IntN(0x80))
		}
		if got, want := validUTF8(part), utf8.Valid(part); got != want {
			t.Errorf("validUTF8 = %v, want %v", got, want)
		}
		if got, want := countLines(part), bytes.Count(part, []byte{'\n'}); got != want {
			t.Errorf("%d lines, want %d", got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readFile(path, 100<<20); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d: %v", len(got), len(text), err)
	}
	if _, err := readFile(path, int64(len(text)-1)); !errors.Is(err, errFileTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, n := range []int{len(text) - 1, len(text) + 1, 2 * len(text)} { // it grew, or shrank, since its size was seen
		if _, err := readParts(file, n); !errors.Is(err, errChanged) {
			t.Errorf("%d bytes of %d: %v", n, len(text), err)
		}
	}
	if err := inParts(4*partSize, func(int, int, int) error { panic("a bug") }); err == nil {
		t.Error("a panic in a part is no error")
	}
}
