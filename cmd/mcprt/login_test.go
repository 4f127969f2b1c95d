package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcprt/mcprt/core/mcptest"
)

// atGuarded gives a project whose one server wants a sign-in.
func atGuarded(t *testing.T) []string {
	t.Helper()
	g := mcptest.NewGuarded(mcptest.Script{})
	t.Cleanup(g.Close)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(`{"mcpServers":{"shut":{"url":"`+g.URL+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-C", dir, "--user", "none", "--trust-project", "--cache-dir", filepath.Join(dir, "cache"), "--color", "never"}
}

func TestLogin(t *testing.T) {
	dir := home(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	flags := atGuarded(t)
	run := func(args ...string) output { return runTool(t, "", append(args, flags...)...) }
	if got := run("list"); !strings.Contains(got.stderr, "mcprt login shut") {
		t.Errorf("list: %+v", got)
	}
	if got := run("call", "--server", "shut", "echo"); got.code != exitFailed || !strings.Contains(got.stderr, "mcprt login shut") {
		t.Errorf("call: %+v", got)
	}
	// The page is printed; the browser ends at the listener.
	cmd := tool(t, append([]string{"login", "shut", "--no-browser"}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	page := ""
	for lines := bufio.NewScanner(stderr); page == "" && lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http") {
			page = text
		}
	}
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "signed in to shut at http://127.0.0.1") {
		t.Errorf("login: %v %s", err, out.String())
	}
	kept, _ := filepath.Glob(filepath.Join(dir, ".config", "mcprt", "auth", "*.json"))
	if len(kept) == 0 {
		t.Error("the sign-in is not kept")
	}
	if got := run("login", "shut", "--json"); got.code != exitOK || !strings.Contains(got.stdout, `"signedIn":true`) {
		t.Errorf("a second login: %+v", got)
	}
	if got := run("call", "--server", "shut", "echo"); got.code != exitOK {
		t.Errorf("call: %+v", got)
	}
	if got := run("logout", "shut"); got.code != exitOK || !strings.Contains(got.stdout, "taken back") {
		t.Errorf("logout: %+v", got)
	}
	if got := run("logout", "shut"); got.code != exitOK || !strings.Contains(got.stderr, "no sign-in") {
		t.Errorf("a second logout: %+v", got)
	}
}

// Where the browser is on another machine its address is pasted.
func TestLoginByPaste(t *testing.T) {
	home(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	cmd := tool(t, append([]string{"login", "shut", "--no-browser"}, atGuarded(t)...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), "paste the whole address, http://127.0.0.1:") {
			refused++
		}
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http") {
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp, err := client.Get(text)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			end := resp.Header.Get("Location") // first, what a hasty person pastes: nothing, the page itself, the end of another sign-in
			if _, err := fmt.Fprintf(stdin, "\nhello\n%s\n%s\n%s\n", text, strings.Replace(end, "state=", "state=0", 1), end); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || refused != 3 {
		t.Errorf("%v, and %d addresses were asked for again, want 3", err, refused)
	}
}

func TestLoginFails(t *testing.T) {
	home(t)
	flags := project(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"login"}, exitUsage, "name of one server"},
		{[]string{"login", "nobody"}, exitFailed, `no server "nobody"`},
		{[]string{"login", "demo", "--trust-project"}, exitFailed, "has no sign-in"},
		{[]string{"logout", "demo", "--trust-project"}, exitFailed, "has no sign-in"},
	} {
		if got := runTool(t, "", append(c.args, flags...)...); got.code != c.code || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}
