package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcprt/mcprt/internal/manual"
)

var updateManual = flag.Bool("update-manual", false, "write docs/man again")

// The pages are kept in the tree, so that an install needs no tool for them; this is
// how they stay what the help and the header say.
func TestManualPages(t *testing.T) {
	pages, err := manual.Commands(rootCommand(), version)
	if err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile("../../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	var library strings.Builder
	manual.Header(&library, string(header), version)
	pages["libmcprt.3"] = library.String()

	dir := "../../docs/man"
	if *updateManual {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, page := range pages {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, entry := range entries {
		kept = append(kept, entry.Name())
	}
	if made := slices.Sorted(maps.Keys(pages)); !slices.Equal(kept, made) {
		t.Errorf("docs/man has %v, the command line tool needs %v; run `make man`", kept, made)
	}
	for name, page := range pages {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != page {
			t.Errorf("docs/man/%s is not what the help or the header says; run `make man`", name)
		}
	}

	// Of the header nothing is lost on the way.
	for _, m := range regexp.MustCompile(`(?m)^MCPRT_API .*?\b(mcprt_\w+) *\(`).FindAllStringSubmatch(string(header), -1) {
		if !strings.Contains(pages["libmcprt.3"], m[1]) {
			t.Errorf("libmcprt(3) has no %s", m[1])
		}
	}
	for _, rule := range []string{"Text", "Input", "Output", "Threads", "Errors", "Handles", "Signals", "fork()", "Unload", "Later"} {
		if !strings.Contains(pages["libmcprt.3"], ".TP\n.B "+rule+"\n") {
			t.Errorf("libmcprt(3) has no rule %q", rule)
		}
	}
	if !strings.Contains(pages["mcprt.1"], "\n3    the called tool reported a failure of its own; it is on stdout\n") {
		t.Error("mcprt(1) does not show the exit statuses as a table")
	}
}
