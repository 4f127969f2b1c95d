package core

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// watching is a project whose files are watched; the servers live in memory.
type watching struct {
	*rig
	dir  string
	seen int // config_changed events so far
}

func newWatching(t *testing.T, mode string, options map[string]any) *watching {
	t.Helper()
	have := servers{}
	for _, name := range []string{"a", "b", "c"} {
		have[name] = echo()
	}
	all := map[string]any{"watch": mode}
	for name, value := range options {
		all[name] = value
	}
	r, dir := newProject(t, have, all)
	return &watching{rig: r, dir: dir}
}

func (w *watching) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// next waits for one more config_changed.
func (w *watching) next() map[string]any {
	w.t.Helper()
	var all []map[string]any
	eventually(w.t, 10*time.Second, "config_changed", func() bool { all = w.host.of("config_changed"); return len(all) > w.seen })
	if len(all) <= w.seen {
		w.t.FailNow()
	}
	w.seen++
	return all[w.seen-1]
}

func (w *watching) expect(what string) {
	w.t.Helper()
	c := w.next()
	if got := fmt.Sprintf("added %v removed %v changed %v applied %v", c["added"], c["removed"], c["changed"], c["applied"]); got != what {
		w.t.Errorf("%s, want %s; paths %v", got, what, c["paths"])
	}
}

func (w *watching) servers() []string {
	var names []string
	for _, v := range w.must(VerbList, `{"kind":"servers"}`).obj["servers"].([]any) {
		names = append(names, v.(map[string]any)["name"].(string))
	}
	return names
}

// TestWatchApply: whatever way a file changes by, the difference is applied, and
// what did not change is left alone.
func TestWatchApply(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", nil)
	file := w.path(".mcp.json")
	write(t, file, mcpJSON(entry("a", `,"args":["a"]`)))
	w.must(VerbConnect, `{}`)
	pid := w.server("a")["pid"]

	write(t, file, mcpJSON(entry("a", `,"args":["a"]`), entry("b", `,"args":["b"]`))) // in place
	w.expect("added [b] removed [] changed [] applied true")

	temp := w.path("x.tmp") // an editor's atomic save
	write(t, temp, mcpJSON(entry("a", `,"args":["a"]`), entry("b", `,"args":["b2"]`)))
	must(t, os.Rename(temp, file))
	w.expect("added [] removed [] changed [b] applied true")

	must(t, os.Rename(file, file+"~")) // an editor that moves the old one away first
	write(t, file, mcpJSON(entry("a", `,"args":["a"]`)))
	w.expect("added [] removed [b] changed [] applied true")

	write(t, w.path(".cursor", "mcp.json"), mcpJSON(entry("c", `,"args":["c"]`))) // its directory is new
	w.expect("added [c] removed [] changed [] applied true")
	write(t, w.path(".cursor", "mcp.json"), mcpJSON(entry("c", `,"args":["c2"]`)))
	w.expect("added [] removed [] changed [c] applied true")
	must(t, os.RemoveAll(w.path(".cursor")))
	w.expect("added [] removed [c] changed [] applied true")

	// What means the same is no change, and neither is another file's.
	write(t, file, "// new comment\n"+mcpJSON(entry("a", `, "args" : ["a"]`)))
	write(t, w.path("unrelated.json"), "{}")
	time.Sleep(300 * time.Millisecond)
	if n := len(w.host.of("config_changed")); n != w.seen {
		t.Errorf("%d events more", n-w.seen)
	}
	if w.server("a")["state"] != "ready" || w.server("a")["pid"] != pid {
		t.Errorf("the unchanged server was restarted: %v", w.server("a"))
	}
	if got := w.must(VerbCall, `{"server":"a","tool":"echo"}`); got.st != OK {
		t.Error(got.raw)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchLinks: a link that is swapped, in the file's place or in its directory's,
// changes the file.
func TestWatchLinks(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", nil)
	stock := t.TempDir()
	for version, name := range map[string]string{"v1": "a", "v2": "b", "v3": "c"} {
		write(t, filepath.Join(stock, version, "mcp.json"), mcpJSON(entry(name, `,"args":["`+name+`"]`)))
	}
	swap := func(target, link string) {
		t.Helper()
		must(t, os.Symlink(target, link+".new"))
		must(t, os.Rename(link+".new", link))
	}
	swap(filepath.Join(stock, "v1"), filepath.Join(stock, "current"))
	swap(filepath.Join(stock, "current", "mcp.json"), w.path("mcp.json"))
	w.must(VerbConnect, `{}`)
	swap(filepath.Join(stock, "v2"), filepath.Join(stock, "current")) // far from the project
	w.expect("added [b] removed [a] changed [] applied true")
	swap(filepath.Join(stock, "v3", "mcp.json"), w.path("mcp.json"))
	w.expect("added [c] removed [b] changed [] applied true")
	write(t, filepath.Join(stock, "v3", "mcp.json"), mcpJSON(entry("a", `,"args":["a"]`)))
	w.expect("added [a] removed [c] changed [] applied true")
}

// TestWatchHalfWritten: a broken or emptied file does not take its servers away;
// what is wrong is told, and a mended file counts again.
func TestWatchHalfWritten(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", nil)
	file := w.path(".mcp.json")
	good := mcpJSON(entry("a", `,"args":["a"]`))
	write(t, file, good)
	w.must(VerbConnect, `{}`)
	write(t, file, good[:len(good)-4])
	var told []map[string]any
	eventually(t, 10*time.Second, "the diagnostics", func() bool { told = w.host.of("diagnostic"); return len(told) >= 2 })
	if len(told) != 2 || told[0]["code"] != "syntax" || told[0]["line"] != 1.0 || told[1]["code"] != "last_good" || told[1]["path"] != file {
		t.Errorf("told %v", told)
	}
	if got := w.must(VerbReload, `{}`); changed(got) != "added [] removed [] changed [] kept [a]" || len(got.diagnosed("last_good")) != 1 {
		t.Errorf("reload: %s", got.raw)
	}
	write(t, file, "") // truncated, and written some time later
	time.Sleep(400 * time.Millisecond)
	if got := w.servers(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("servers %v", got)
	}
	write(t, file, mcpJSON(entry("a", `,"args":["a"]`), entry("b", `,"args":["b"]`)))
	w.expect("added [b] removed [] changed [] applied true")
	write(t, file, "") // and this one is meant
	w.expect("added [] removed [a b] changed [] applied true")
	write(t, file, `{"mcpServers":`) // was never good since
	time.Sleep(300 * time.Millisecond)
	if got := w.servers(); len(got) != 0 {
		t.Errorf("servers %v", got)
	}
}

// TestWatchNotify: the host is told, and decides itself.
func TestWatchNotify(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "notify", nil)
	file := w.path(".cursor", "mcp.json")
	w.must(VerbConnect, `{}`)
	write(t, file, mcpJSON(entry("a", `,"args":["a"],"envFile":"vars"`)))
	w.expect("added [a] removed [] changed [] applied false")
	if got := w.servers(); len(got) != 0 {
		t.Errorf("applied: %v", got)
	}
	w.must(VerbReload, `{}`)
	write(t, w.path("vars"), "K=1\n") // what an entry pulls in counts too
	w.expect("added [] removed [] changed [a] applied false")
	must(t, os.Remove(file))
	w.expect("added [] removed [a] changed [] applied false")
	if got := w.servers(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("applied: %v", got)
	}
}

// TestWatchAfterDiscover: a discover between a change and the look at it changes no
// running server, and must not hide the change.
func TestWatchAfterDiscover(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", nil)
	file := w.path(".mcp.json")
	write(t, file, mcpJSON(entry("a", `,"args":["a"]`)))
	w.must(VerbConnect, `{}`)
	write(t, file, mcpJSON(entry("a", `,"args":["a2"]`), entry("b", `,"args":["b"]`)))
	w.must(VerbDiscover, `{}`)
	w.next()
	if a := w.must(VerbConnect, `{"startupTimeoutMs":0}`); len(a.names("connected")) != 2 {
		t.Errorf("connected: %v", a.names("connected"))
	}
	w.m.mu.Lock()
	args := w.m.servers["a"].entry.Server.Args
	w.m.mu.Unlock()
	if !slices.Equal(args, []string{"a2"}) {
		t.Errorf("a still is %v", args)
	}
}

// TestWatchOfAVanishedProject: where nothing can be discovered nothing is touched,
// and it goes on when the project is back.
func TestWatchOfAVanishedProject(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", map[string]any{"cwd": filepath.Join(t.TempDir(), "project")})
	must(t, os.Mkdir(w.dir, 0o700))
	write(t, w.path(".mcp.json"), mcpJSON(entry("a", `,"args":["a"]`)))
	w.must(VerbConnect, `{}`)
	must(t, os.Rename(w.dir, w.dir+".away"))
	eventually(t, 10*time.Second, "it is told", func() bool { return len(w.host.of("diagnostic")) > 0 })
	time.Sleep(300 * time.Millisecond)
	if n := len(w.host.of("diagnostic")); n > 3 {
		t.Errorf("told %d times", n)
	}
	if v := w.server("a"); v["state"] != "ready" {
		t.Errorf("a is %v", v["state"])
	}
	write(t, filepath.Join(w.dir+".away", ".mcp.json"), mcpJSON(entry("a", `,"args":["a"]`), entry("b", `,"args":["b"]`)))
	must(t, os.Rename(w.dir+".away", w.dir))
	w.expect("added [b] removed [] changed [] applied true")
}

// TestWatchTrust: a trusted server whose entry changes loses its trust at once.
func TestWatchTrust(t *testing.T) {
	t.Parallel()
	w := newWatching(t, "apply", map[string]any{"projectTrust": "recorded"})
	file := w.path(".mcp.json")
	write(t, file, mcpJSON(entry("a", `,"args":["a"]`)))
	hash := w.must(VerbConnect, `{}`).needs(t, "a")
	w.must(VerbConnect, `{"trust":{"a":"`+hash+`"}}`)
	write(t, file, mcpJSON(entry("a", `,"args":["evil"]`)))
	w.expect("added [] removed [] changed [a] applied true")
	if v := w.server("a"); v["state"] != "needs_trust" {
		t.Errorf("a is %v", v["state"])
	}
}

// TestWatchEnds: close ends it, and leaves neither goroutine nor descriptor.
func TestWatchEnds(t *testing.T) {
	inotify := func() (n int) {
		files, err := filepath.Glob("/proc/self/fd/*")
		must(t, err)
		for _, f := range files {
			if target, err := os.Readlink(f); err == nil && strings.Contains(target, "inotify") {
				n++
			}
		}
		return n
	}
	before := inotify()
	var all []*watching
	for range 3 {
		w := newWatching(t, "apply", nil)
		w.must(VerbConnect, `{}`)
		all = append(all, w)
	}
	eventually(t, 10*time.Second, "three watches", func() bool { return inotify() >= before+3 })
	for _, w := range all {
		w.m.Close(0)
	}
	eventually(t, 10*time.Second, "no watch is left", func() bool { return inotify() <= before })
	eventually(t, 10*time.Second, "no goroutine is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "fsnotify") && !strings.Contains(string(stacks), "(*watcher).run")
	})
	off := newWatching(t, "off", nil)
	off.must(VerbConnect, `{}`)
	write(t, off.path(".mcp.json"), mcpJSON(entry("a", "")))
	time.Sleep(300 * time.Millisecond)
	if n := inotify(); n > before || len(off.host.of("config_changed")) > 0 {
		t.Errorf("it watches without being asked: %d", n)
	}
}
