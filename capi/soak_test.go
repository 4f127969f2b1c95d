package main

import (
	"bytes"
	"flag"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/goccy/go-json"
)

// How much TestSoak does; `make soak` gives it a million calls and ten thousand reconnects.
var (
	soakCalls      = flag.Int("soak-calls", 20_000, "calls of TestSoak")
	soakReconnects = flag.Int("soak-reconnects", 60, "reconnects of TestSoak")
)

// TestSoak: a host in C that calls and reconnects for long grows neither in memory
// nor in descriptors nor in children, and each of its operations ends once.
func TestSoak(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	demo, program := filepath.Join(dir, "mcprt"), filepath.Join(dir, "soak")
	tool(t, "go", "build", "-o", demo, "../cmd/mcprt")
	lib := library(t, "real")
	args := append(append([]string{}, strict...), "-O2", "-I../include", "testdata/soak.c", lib, "-Wl,-rpath,"+filepath.Dir(lib), "-o", program)
	tool(t, gcc(), args...)
	file := options(t, map[string]any{"demo": map[string]any{"command": demo, "args": []string{"demo-server"}}})
	cmd := exec.Command(program, file, strconv.Itoa(*soakCalls), strconv.Itoa(*soakReconnects))
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, errOut.String())
	}
	t.Logf("%s", out)
	var got struct {
		Lost, Failed                                      int
		RSSKiBGrown                                       int `json:"rssKiBGrown"`
		MallocBytesGrown, DescriptorsGrown, ChildrenGrown int
		ChildrenAtEnd                                     int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0 || got.Failed != 0 {
		t.Errorf("%d operations did not end, %d failed", got.Lost, got.Failed)
	}
	if got.RSSKiBGrown > 5<<10 {
		t.Errorf("resident memory grew by %d KiB", got.RSSKiBGrown)
	}
	if got.MallocBytesGrown > 256<<10 || got.DescriptorsGrown > 0 || got.ChildrenGrown > 0 || got.ChildrenAtEnd > 0 {
		t.Errorf("something is left behind: %s", out)
	}
}
