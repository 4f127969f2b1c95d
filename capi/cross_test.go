package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// glibcFloor is the oldest glibc that the library can be loaded with. It comes from
// the glibc that it was built with: the documents say this one.
const glibcFloor = "2.34"

// checkFloor looks at what a library really asks for.
func checkFloor(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	imported, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, s := range imported {
		version, of := strings.CutPrefix(s.Version, "GLIBC_")
		if !of {
			continue
		}
		asked++
		if number(t, version) > number(t, glibcFloor) {
			t.Errorf("%s asks glibc %s for %s; the documents promise %s", path, version, s.Name, glibcFloor)
		}
	}
	if asked == 0 {
		t.Errorf("%s asks for nothing of glibc", path)
	}
}

// number makes versions of glibc comparable.
func number(t *testing.T, version string) int {
	t.Helper()
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
		t.Fatalf("%q is no version of glibc: %v", version, err)
	}
	return major*1000 + minor
}

// TestGlibcFloor: the library asks for no newer glibc than the documents say.
func TestGlibcFloor(t *testing.T) {
	t.Parallel()
	checkFloor(t, library(t, "real"))
	for _, document := range []string{"../README.md", "../docs/platforms.md", "../bindings/python/README.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "glibc "+glibcFloor+" or newer") {
			t.Errorf("%s does not say that glibc %s or newer is needed", document, glibcFloor)
		}
	}
}

// crossed gives the folder of a build for another system. `make cross` builds it and
// `make test-cross` says where it is.
func crossed(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MCPRT_CROSS")
	if dir == "" {
		t.Skip("it needs a cross build: make test-cross runs it")
	}
	dir, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestArm64 runs the library for linux/arm64 under qemu: the C side's own tests, and
// the whole library with real servers. The servers of the second are this machine's,
// those of the third arm64's.
func TestArm64(t *testing.T) {
	dir := crossed(t, "linux-arm64")
	const cc = "aarch64-linux-gnu-gcc"
	qemu := []string{"qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"}
	lib := filepath.Join(dir, "libmcprt.so.0")
	checkFloor(t, lib)

	t.Run("C", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "ctest")
		args := append(append([]string{}, strict...), "-O2", "-I../include")
		args = append(append(args, cSources(t)...), "testdata/ctest.c", "testdata/stub.c", "-o", program)
		tool(t, cc, args...)
		run(t, []string{"CTEST_SCALE=20"}, qemu[0], append(qemu[1:], program)...)
	})
	t.Run("real", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "realtest")
		args := append(append([]string{}, strict...), "-O1", "-I../include", "testdata/realtest.c", lib, "-Wl,-rpath,"+dir, "-o", program)
		tool(t, cc, args...)
		testMain(t, append(qemu, program)...)
	})
	t.Run("demo", func(t *testing.T) {
		work := t.TempDir()
		program := filepath.Join(work, "demo")
		tool(t, cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "../examples/c/demo.c", "-I../include", lib, "-Wl,-rpath,"+dir, "-o", program)
		path, err := exec.LookPath(qemu[0])
		if err != nil {
			t.Fatal(err)
		}
		served := func(flags ...string) map[string]any {
			return map[string]any{"command": path, "args": append([]string{filepath.Join(dir, "mcprt"), "demo-server"}, flags...)}
		}
		config := map[string]any{"mcpServers": map[string]any{
			"demo": served(), "slow": served("--start-delay", "2s"), "broken": served("--fail-start", "DEMO_TOKEN is not set"),
		}}
		write(t, filepath.Join(work, ".mcp.json"), config)
		write(t, filepath.Join(work, "next.mcp.json"), config)
		cmd := exec.Command(qemu[0], append(qemu[1:], program)...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "HOME="+work, "XDG_CONFIG_HOME="+work, "XDG_CACHE_HOME="+work)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"3 servers", "mcp_demo_add", "-> 42", "DEMO_TOKEN is not set"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("there is no %q in\n%s", want, out)
			}
		}
	})
}

// TestWindows runs the library for windows/amd64 under Wine: what it exports, and a C
// program with real servers.
func TestWindows(t *testing.T) {
	dir := crossed(t, "windows-amd64")
	dll := filepath.Join(dir, "mcprt.dll")

	_, table, found := strings.Cut(tool(t, "x86_64-w64-mingw32-objdump", "-p", dll), "[Ordinal/Name Pointer] Table\n")
	if !found {
		t.Fatal("objdump shows no table of exports")
	}
	var exports []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			break
		}
		// What C calls of Go is marked for export by cgo itself. Windows has no names that
		// are common to all libraries of a process, so they meet nobody's.
		if name := fields[len(fields)-1]; !strings.HasPrefix(name, "mcprtgo_") {
			exports = append(exports, name)
		}
	}
	slices.Sort(exports)
	if want := declared(t); !slices.Equal(exports, want) {
		t.Errorf("mcprt.dll exports\n%v\nthe header declares\n%v", exports, want)
	}

	work := t.TempDir() // Windows looks for libraries beside the program
	program := filepath.Join(work, "wintest.exe")
	tool(t, "x86_64-w64-mingw32-gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-I../include", "testdata/wintest.c", dll, "-o", program)
	for _, file := range []string{"mcprt.dll", "mcprt.exe"} {
		if err := os.Symlink(filepath.Join(dir, file), filepath.Join(work, file)); err != nil {
			t.Fatal(err)
		}
	}
	said, err := os.Create(filepath.Join(work, "said")) // a file: Wine's server outlives the program and would hold a pipe open
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wine", program, `Z:`+strings.ReplaceAll(filepath.Join(work, "mcprt.exe"), "/", `\`))
	cmd.Stdout, cmd.Stderr = said, said
	err = cmd.Run()
	if text, _ := os.ReadFile(said.Name()); err != nil || !strings.Contains(string(text), "all is well") {
		t.Errorf("%v\n%s", err, text)
	}
}
