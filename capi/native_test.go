package main

import (
	"bytes"
	"encoding/binary"
	stdjson "encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcprt/mcprt/core/mcptest"
)

// strict is what our own C must compile under; cgo's generated C could not.
var strict = []string{"-std=gnu11", "-g", "-pthread", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Werror"}

// tool runs a program of the tool chain and gives its output.
func tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func gcc() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	return "gcc"
}

// cSources are the C files of the library but the one that needs what cgo generates.
func cSources(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("*.c")
	if err != nil || len(all) < 8 {
		t.Fatalf("C sources: %v, %v", all, err)
	}
	var own []string
	for _, f := range all {
		if f != "agree.c" {
			own = append(own, f)
		}
	}
	return own
}

// run runs a compiled test program and fails with what it printed.
func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out.String())
	}
}

// TestC runs the C side over the stub of the Go side, as a program sees it.
func TestC(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		scale string
	}{
		{"plain", []string{"-O2"}, "1"},
		{"address,undefined", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}, "1"},
		{"thread", []string{"-O1", "-fsanitize=thread"}, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			program := compile(t, c.flags, "ctest.c", "stub.c")
			run(t, []string{"CTEST_SCALE=" + c.scale, "TSAN_OPTIONS=halt_on_error=1"}, program)
		})
	}
	t.Run("valgrind", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("valgrind"); err != nil {
			if os.Getenv("MCPRT_NO_VALGRIND") == "1" {
				t.Log("valgrind was left out: MCPRT_NO_VALGRIND=1")
				return
			}
			t.Fatal("valgrind is not installed: install it, or set MCPRT_NO_VALGRIND=1 to leave this check out")
		}
		program := compile(t, []string{"-O1"}, "ctest.c", "stub.c")
		run(t, []string{"CTEST_SCALE=20"}, "valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
			"--show-leak-kinds=all", "--errors-for-leak-kinds=all", "--fair-sched=yes", program)
	})
}

// compile builds a program from the C side and files of testdata.
func compile(t *testing.T, flags []string, files ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	args := append(append([]string{}, strict...), flags...)
	args = append(args, "-I../include")
	args = append(args, cSources(t)...)
	for _, f := range files {
		args = append(args, filepath.Join("testdata", f))
	}
	tool(t, gcc(), append(args, "-o", program)...)
	return program
}

func TestMap(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "maptest")
	tool(t, gcc(), append(append([]string{}, strict...), "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "map.c", "testdata/maptest.c", "-o", program)...)
	run(t, nil, program)
}

// TestText compares our check of JSON with Go's, on texts one byte away from right.
func TestText(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "textcheck")
	tool(t, gcc(), append(append([]string{}, strict...), "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "text.c", "testdata/textcheck.c", "-o", program)...)

	seeds := []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":[]}`, `{"a":{}}`, `{"a":[1,-2.5e+10,0.0,1E9,"x",true,false,null,{"b":[[],{}]}]}`,
		`{"text":"plain ASCII that is longer than eight bytes","é":"ü€😀\u00e9\ud83d\ude00\n\"\\\/"}`,
		"{\"deep\":" + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}", `{"":""}`, "{\n\t\"a\" :\r 1 , \"b\":2\n}",
		`[1]`, `"x"`, `1`, `null`, ``, ` `, "{\"a\":\"\ufffd\u0000\"}", `{"a":"` + "\x7f" + `"}`,
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []byte("{}[]:,\"\\ \n\t\r0123456789.-+eEtrufalsn\x00\x1f\x20\x7f\x80\xbf\xc0\xc2\xc3\xa9\xe0\xa0\xed\x9f\xef\xf0\x90\xf4\x8f\xff")
	var texts [][]byte
	for _, s := range seeds {
		texts = append(texts, []byte(s))
		for range 3000 {
			b := []byte(s)
			for range 1 + rnd.IntN(2) {
				at := rnd.IntN(len(b) + 1)
				switch piece := pieces[rnd.IntN(len(pieces))]; {
				case rnd.IntN(3) == 0 && at < len(b):
					b = append(b[:at:at], b[at+1:]...)
				case rnd.IntN(2) == 0 && at < len(b):
					b[at] = piece
				default:
					b = append(b[:at:at], append([]byte{piece}, b[at:]...)...)
				}
			}
			texts = append(texts, b)
		}
	}
	var in bytes.Buffer
	var want []byte
	accepted := 0
	for _, b := range texts {
		_ = binary.Write(&in, binary.NativeEndian, uint32(len(b)))
		in.Write(b)
		verdict := byte('n')
		if stdjson.Valid(b) && utf8.Valid(b) && bytes.TrimLeft(b, " \n\r\t")[0] == '{' {
			verdict = 'y'
			accepted++
		}
		want = append(want, verdict)
	}
	if accepted < 1000 || accepted > len(texts)-1000 {
		t.Fatalf("%d of %d texts are right: that compares too little", accepted, len(texts))
	}
	cmd := exec.Command(program)
	cmd.Stdin = &in
	var errs bytes.Buffer
	cmd.Stderr = &errs
	got, err := cmd.Output()
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %d answers for %d texts\n%s", err, len(got), len(want), errs.String())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q: the C check says %c, Go says %c", texts[i], got[i], want[i])
		}
	}
}

// library builds a shared library once for all tests: "scripted", with a scripted
// core behind the boundary, or "real".
func library(t *testing.T, kind string) string {
	t.Helper()
	l := libraries[kind]
	l.once.Do(func() {
		root, err := filepath.Abs("..")
		if err != nil {
			l.err = err
			return
		}
		dir, err := os.MkdirTemp("", "mcprt-capi-")
		if err != nil {
			l.err = err
			return
		}
		l.path = filepath.Join(dir, "libmcprt.so.0")
		args := []string{"build", "-buildmode=c-shared", "-trimpath"}
		args = append(args, l.flags...)
		ldflags := fmt.Sprintf(`%s-extldflags "-Wl,--version-script=%s -Wl,-soname,libmcprt.so.0"`, l.ldflags, filepath.Join(root, "capi", "mcprt.map"))
		args = append(args, "-ldflags", ldflags, "-o", l.path, "./capi")
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			l.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.path
}

type built struct {
	once    sync.Once
	flags   []string
	ldflags string
	path    string
	err     error
}

var libraries = map[string]*built{
	"real":     {ldflags: "-s -w "},
	"scripted": {flags: []string{"-tags", "mcprt_scripted"}},
}

func TestMain(m *testing.M) {
	mcptest.Main() // real_test.go's servers are this binary
	code := m.Run()
	for _, l := range libraries {
		if l.path != "" {
			_ = os.RemoveAll(filepath.Dir(l.path))
		}
	}
	os.Exit(code)
}

// stubLibrary builds what build-stub.sh gives to the bindings.
func stubLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tool(t, "sh", "build-stub.sh", dir)
	return filepath.Join(dir, "libmcprt-stub.so")
}

// linked builds a program of testdata against the library with a scripted core.
func linked(t *testing.T, file string) string {
	t.Helper()
	lib := library(t, "scripted")
	program := filepath.Join(t.TempDir(), "program")
	tool(t, gcc(), append(append([]string{}, strict...), "-O1", "-I../include", filepath.Join("testdata", file), lib, "-Wl,-rpath,"+filepath.Dir(lib), "-o", program)...)
	return program
}

// TestGo runs the same program over the library with its Go side.
func TestGo(t *testing.T) {
	t.Parallel()
	run(t, []string{"CTEST_GO=1"}, linked(t, "ctest.c"))
}

func TestForeignStack(t *testing.T) {
	t.Parallel()
	run(t, nil, linked(t, "stacktest.c"))
}

// TestGoRace is TestGo under the race detector, which sees only what Go does.
func TestGoRace(t *testing.T) {
	t.Parallel()
	run(t, nil, "sh", "testdata/sanitize.sh", "race")
}

func TestFork(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "forktest")
	tool(t, gcc(), append(append([]string{}, strict...), "-O1", "-I../include", "testdata/forktest.c", "-ldl", "-o", program)...)
	stub := stubLibrary(t)
	for _, lib := range []string{stub, library(t, "scripted")} {
		for _, moment := range []string{"fresh", "used"} {
			for range 5 {
				run(t, nil, program, lib, moment)
			}
		}
	}
}
