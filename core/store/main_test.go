package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

const childEnv = "MCPRT_STORE_TEST_CHILD"

// TestMain makes this binary its own helper process: real processes are what the
// locks and renames are for.
func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := child(role, os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child waits for one line on stdin, so that all children start their work at once.
func child(role, path string, args []string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	switch role {
	case "principal":
		c, err := OpenCache(path, time.Hour)
		if err != nil {
			return err
		}
		name, err := c.Principal([]string{"secret"})
		fmt.Print(name)
		return err
	case "trust":
		t, err := OpenTrust(path)
		if err != nil {
			return err
		}
		from, _ := strconv.Atoi(args[0])
		count, _ := strconv.Atoi(args[1])
		for i := range count {
			if err := t.Add(Record{Hash: testHash(from + i), AddedAt: time.Now()}); err != nil {
				return err
			}
		}
		return nil
	case "rewrite": // lists of one letter, for ever or `count` times; a reader can tell a torn one
		c, err := OpenCache(path, time.Hour)
		if err != nil {
			return err
		}
		count, _ := strconv.Atoi(args[1])
		for i := 0; count == 0 || i < count; i++ {
			if err := c.Put(testKey, letterList(args[0], 1+i%40)); err != nil {
				return err
			}
			if err := checkLetters(c); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("no role %q", role)
}

var testKey = Key([]byte(`{"command":"x"}`), "x", nil, "")

func testHash(i int) string { return fmt.Sprintf("sha256:%064x", i) }

// letterList is a list whose every part holds one letter and the number of tools.
func letterList(letter string, tools int) *ToolList {
	l := &ToolList{Instructions: fmt.Sprint(letter, tools), FetchedAt: time.Now()}
	for range tools {
		l.Tools = append(l.Tools, json.RawMessage(`{"name":"`+strings.Repeat(letter, 500)+`"}`))
	}
	return l
}

// checkLetters fails when the stored list is missing, reported damaged, or a mix of two.
func checkLetters(c *Cache) error {
	l, note, err := c.Get(testKey)
	if err != nil || note != nil || l == nil {
		return fmt.Errorf("Get: list %v, note %v, error %v", l != nil, note, err)
	}
	want := letterList(l.Instructions[:1], len(l.Tools))
	if l.Instructions != want.Instructions {
		return fmt.Errorf("a list of %d tools is named %q", len(l.Tools), l.Instructions)
	}
	for _, tool := range l.Tools {
		if string(tool) != string(want.Tools[0]) {
			return fmt.Errorf("a list of %q holds %.20q", l.Instructions, tool)
		}
	}
	return nil
}

type process struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

// spawn starts a child and returns when it waits for its line.
func spawn(t *testing.T, role, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p := &process{cmd, stdin, bufio.NewReader(stdout)}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("child %s: %q, %v", role, line, err)
	}
	return p
}

func (p *process) release(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
}

// finish returns what the child printed after it was released.
func (p *process) finish(t *testing.T) string {
	t.Helper()
	out, err := io.ReadAll(p.out)
	if werr := p.Wait(); err != nil || werr != nil {
		t.Fatalf("child: %v, %v: %s", err, werr, p.Stderr)
	}
	return string(out)
}
