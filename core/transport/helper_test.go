//go:build unix

package transport

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func runHelper(t *testing.T, ctx context.Context, command string, timeout time.Duration) (string, error) {
	t.Helper()
	out, err := Helper{Command: command, Env: []string{"PATH=/usr/bin:/bin", "WHO=me"}, Dir: t.TempDir(), Limit: 1000, Timeout: timeout}.Output(ctx)
	return string(out), err
}

func TestHelper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, out, err string }{
		{`echo "$WHO $HOME"`, "me \n", ""},
		{`cat; echo closed`, "closed\n", ""},
		{`echo wrong >&2; echo secret; exit 3`, "", "exited with code 3; run it in a terminal to see why"},
		{`kill -9 $$`, "", "was ended by SIGKILL"},
		{`head -c 1000 /dev/zero | tr '\0' x`, strings.Repeat("x", 1000), ""},
		{`yes`, "", "printed more than 1000 bytes and was stopped"},
		{`no-such-program-at-all`, "", "exited with code 127; run it in a terminal to see why"},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			out, err := runHelper(t, context.Background(), c.command, 10*time.Second)
			if out != c.out {
				t.Errorf("printed %q", out)
			}
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Its time, or the caller, ends all of its group; what it left behind is ended too.
func TestHelperLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		cancel  bool
		err     string
	}{
		"time":       {`sleep 60 & echo $! >%s; trap '' TERM; wait`, false, "ran longer than 300ms and was stopped"},
		"caller":     {`sleep 60 & echo $! >%s; wait`, true, "context canceled"},
		"background": {`sleep 60 & echo $! >%s; echo done`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.cancel {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			began := time.Now()
			_, err := runHelper(t, ctx, strings.Replace(c.command, "%s", file, 1), 300*time.Millisecond)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error %v", err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			gone(t, pid, 5*time.Second)
		})
	}
}

func TestHelperThatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := Helper{Command: "true", Dir: "/nonexistent", Limit: 10, Timeout: time.Second}.Output(context.Background())
	if err == nil || !strings.HasPrefix(err.Error(), "cannot be started: its working directory /nonexistent") {
		t.Errorf("error %v", err)
	}
}
