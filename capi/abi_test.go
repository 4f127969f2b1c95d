package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHeaderCompiles: the header is all that a program needs, in C99 and in C++17.
func TestHeaderCompiles(t *testing.T) {
	t.Parallel()
	const use = `#include "mcprt.h"
int main(void) {
  mcprt_mgr m = 0;
  mcprt_buf out;
  mcprt_frame frame;
  uint64_t largest = MCPRT_TAG_MAX;
  frame.tag = largest;
  return MCPRT_CHECK() == MCPRT_OK && mcprt_open("{}", 2, &m, &out) == MCPRT_OK && frame.tag == 0;
}
`
	for _, c := range []struct{ name, file, compiler, std string }{
		{"C99", "use.c", "gcc", "-std=c99"},
		{"C11", "use.c", "gcc", "-std=c11"},
		{"C++17", "use.cc", "g++", "-std=c++17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, c.file)
			if err := os.WriteFile(source, []byte(use), 0o600); err != nil {
				t.Fatal(err)
			}
			tool(t, c.compiler, c.std, "-pedantic", "-Wall", "-Wextra", "-Werror", "-I../include", "-c", source, "-o", filepath.Join(dir, "use.o"))
		})
	}
}

// declared reads the functions of the header.
func declared(t *testing.T) []string {
	t.Helper()
	header, err := os.ReadFile("../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(header), "")
	var names []string
	for _, m := range regexp.MustCompile(`MCPRT_API[^;#(]*?\b(mcprt_\w+)\s*\(`).FindAllStringSubmatch(code, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	if len(names) < 19 {
		t.Fatalf("only %d functions found in the header: %v", len(names), names)
	}
	return names
}

// TestExports: a library exports what the header declares, versioned, and nothing
// else; a second Go library in the process would meet its own runtime otherwise.
func TestExports(t *testing.T) {
	t.Parallel()
	want := declared(t)
	for _, c := range []struct{ path, soname string }{
		{library(t, "real"), "libmcprt.so.0"},
		{library(t, "scripted"), "libmcprt.so.0"},
		{stubLibrary(t), "libmcprt-stub.so"},
	} {
		f, err := elf.Open(c.path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range symbols {
			if s.Section == elf.SHN_UNDEF || s.Name == "MCPRT_0" {
				continue
			}
			got = append(got, s.Name)
			if s.Version != "MCPRT_0" {
				t.Errorf("%s: %s has the version %q", c.path, s.Name, s.Version)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s exports\n%s\nthe header declares\n%s", c.path, strings.Join(got, " "), strings.Join(want, " "))
		}
		soname, err := f.DynString(elf.DT_SONAME)
		if err != nil || !slices.Equal(soname, []string{c.soname}) {
			t.Errorf("%s: soname %v, %v", c.path, soname, err)
		}
		// The runtime asks our own pthread_getattr_np, which asks libc by dlsym.
		for _, s := range symbols {
			if s.Name == "pthread_getattr_np" {
				t.Errorf("%s takes pthread_getattr_np from libc: each call from koffi costs 170 µs again", c.path)
			}
		}
	}
}

// TestStatusCodes: mcprt_status_name knows every code of the header.
func TestStatusCodes(t *testing.T) {
	t.Parallel()
	header, err := os.ReadFile("../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("status.c")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^#define (MCPRT_(?:OK|E[A-Z]+)) +-?\d+`).FindAllStringSubmatch(string(header), -1)
	if len(codes) < 15 {
		t.Fatalf("only %d codes found in the header", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(string(source), "NAME("+c[1]+")") {
			t.Errorf("status.c does not name %s", c[1])
		}
	}
}
