package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// newProject is a rig whose servers come from files in a project directory, with
// a home of its own for trust records and the cache.
func newProject(t *testing.T, have servers, options map[string]any) (r *rig, dir string) {
	t.Helper()
	all := map[string]any{"cwd": t.TempDir(), "env": map[string]string{"HOME": t.TempDir()}, "servers": map[string]any{}, "projectTrust": "always"}
	for name, value := range options {
		all[name] = value
	}
	return newRig(t, have, all), all["cwd"].(string)
}

func mcpJSON(servers ...string) string {
	return `{"mcpServers":{` + strings.Join(servers, ",") + `}}`
}

func entry(name, more string) string {
	return fmt.Sprintf(`%q:{"command":"scripted"%s}`, name, more)
}

// changed reads the "changes" of a reload.
func changed(a answerOf) string {
	c, _ := a.obj["changes"].(map[string]any)
	return fmt.Sprintf("added %v removed %v changed %v kept %v", c["added"], c["removed"], c["changed"], c["kept"])
}

// TestReload: a diff does to each server what its file says, and no more.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		have := servers{}
		memory := func(name string) *mcptest.Memory { return have[name].(*mcptest.Memory) }
		for _, name := range []string{"kept", "changed", "gone", "added"} {
			have[name] = echo()
		}
		r, dir := newProject(t, have, nil)
		file := filepath.Join(dir, ".mcp.json")
		write(t, file, mcpJSON(entry("kept", `,"args":["k"]`), entry("changed", `,"args":["1"]`), entry("gone", `,"args":["g"]`)))
		r.must(VerbConnect, `{}`)
		pid := r.server("kept")["pid"]
		write(t, file, mcpJSON(entry("kept", `,"args":["k"]`), entry("changed", `,"args":["2"]`), entry("added", `,"args":["a"]`)))
		a := r.must(VerbReload, `{}`)
		if got := changed(a); got != "added [added] removed [gone] changed [changed] kept [kept]" {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := r.must(VerbList, `{}`).names("tools"); !slices.Equal(got, []string{"mcp_added_echo", "mcp_changed_echo", "mcp_kept_echo"}) {
			t.Errorf("tools %v", got)
		}
		if memory("kept").Counts().Dials != 1 || r.server("kept")["pid"] != pid {
			t.Error("the unchanged server was restarted")
		}
		if c := memory("changed").Counts(); c.Dials != 2 || c.MaxLive != 1 {
			t.Errorf("the changed server: %d dials, %d at once", c.Dials, c.MaxLive)
		}
		if memory("gone").Counts().Live != 0 {
			t.Error("the removed server lives")
		}

		// The same entries in another file, in another order and form, are the same servers.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "mcp.json"), "// moved\n"+mcpJSON(entry("added", `, "args" : ["a",]`), entry("changed", `,"args":["2"]`), entry("kept", `,"args":["k"]`)))
		if got := changed(r.must(VerbReload, `{}`)); got != "added [] removed [] changed [] kept [added changed kept]" {
			t.Errorf("moved: %s", got)
		}
		// The full way restarts all, one process at a time.
		r.must(VerbReload, `{"mode":"full","startupTimeoutMs":0}`)
		if c := memory("kept").Counts(); c.Dials != 2 || c.MaxLive != 1 || c.Live != 1 {
			t.Errorf("full: %d dials, %d live, %d at once", c.Dials, c.Live, c.MaxLive)
		}
		r.m.Close(0)
	})
}

// TestReloadOfBrokenFiles: a file that cannot be read, half written by an editor
// say, counts as it was; where nothing can be discovered nothing is touched.
func TestReloadOfBrokenFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a0, b0 := echo(), echo()
		r, dir := newProject(t, servers{"a": a0, "b": b0}, nil)
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("a", `,"args":["a"]`)))
		write(t, filepath.Join(dir, ".cursor", "mcp.json"), mcpJSON(entry("b", `,"args":["b"]`)))
		r.must(VerbConnect, `{}`)
		write(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers":{"a":{"command":"scripted",`)
		a := r.must(VerbReload, `{}`)
		if got := a.names("tools"); !slices.Equal(got, []string{"mcp_a_echo", "mcp_b_echo"}) || a0.Counts().Dials != 1 || b0.Counts().Dials != 1 {
			t.Errorf("tools %v, %d and %d dials", got, a0.Counts().Dials, b0.Counts().Dials)
		}
		if got := changed(a); got != "added [] removed [] changed [] kept [a b]" || len(a.diagnosed("last_good")) != 1 {
			t.Errorf("%s, diagnostics %v", got, a.obj["diagnostics"])
		}
		found := false
		for _, d := range a.obj["diagnostics"].([]any) {
			d := d.(map[string]any)
			found = found || d["severity"] == "error" && strings.HasSuffix(fmt.Sprint(d["path"]), ".mcp.json") && d["line"] == 1.0
		}
		if !found {
			t.Errorf("diagnostics %v", a.obj["diagnostics"])
		}
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		a = r.must(VerbReload, `{}`)
		if e := a.obj["errors"].(map[string]any); e[".mcp.json"] == nil || changed(a) != "added [] removed [] changed [] kept []" {
			t.Errorf("without a directory: %s", a.raw)
		}
		if b0.Counts().Dials != 1 || b0.Counts().Live != 1 || len(a.names("tools")) != 2 {
			t.Errorf("the running server was touched: %s", a.raw)
		}
		r.must(VerbCall, `{"tool":"mcp_b_echo"}`)
		r.m.Close(0)
	})
}

// TestReloadOfAnEnvFile: the content of a file that an entry names counts.
func TestReloadOfAnEnvFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r, dir := newProject(t, servers{"a": s}, nil)
		write(t, filepath.Join(dir, ".cursor", "mcp.json"), mcpJSON(entry("a", `,"envFile":"vars"`)))
		for _, at := range []string{"vars", ".cursor/vars"} {
			write(t, filepath.Join(dir, at), "KEY=1\n")
		}
		r.must(VerbConnect, `{}`)
		if got := changed(r.must(VerbReload, `{}`)); got != "added [] removed [] changed [] kept [a]" {
			t.Errorf("unchanged: %s", got)
		}
		for _, at := range []string{"vars", ".cursor/vars"} {
			write(t, filepath.Join(dir, at), "KEY=2\n")
		}
		if got := changed(r.must(VerbReload, `{"startupTimeoutMs":0}`)); got != "added [] removed [] changed [a] kept []" || s.Counts().Dials != 2 {
			t.Errorf("changed: %s, %d dials", got, s.Counts().Dials)
		}
		r.m.Close(0)
	})
}

// TestReloadLeavesTheHostsOwn: servers that connect brought stay, a stop is not undone.
func TestReloadLeavesTheHostsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given, stopped := echo(), echo()
		r, dir := newProject(t, servers{"given": given, "stopped": stopped}, nil)
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("stopped", "")))
		r.must(VerbConnect, `{}`)
		r.must(VerbConnect, `{"servers":{"given":{"command":"scripted","args":["g"]}}}`)
		r.must(VerbDisconnect, `{"server":"stopped"}`)
		a := r.must(VerbReload, `{}`)
		if got := a.names("tools"); !slices.Equal(got, []string{"mcp_given_echo"}) || stopped.Counts().Live != 0 || given.Counts().Dials != 1 {
			t.Errorf("tools %v", got)
		}
		if v := r.server("stopped"); v["state"] != "stopped" || v["status"] != "disconnected" {
			t.Errorf("stopped: %v", v)
		}
		r.m.Close(0)
	})
}

// TestDisabled: what a file disables is listed, not started, and a call says so.
func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		r, dir := newProject(t, servers{"a": s}, nil)
		file := filepath.Join(dir, ".mcp.json")
		write(t, file, mcpJSON(entry("a", `,"disabled":true`)))
		if a := r.must(VerbConnect, `{}`); len(a.names("tools")) != 0 || s.Counts().Dials != 0 {
			t.Errorf("connect: %s", a.raw)
		}
		if a := r.do(VerbCall, `{"server":"a","tool":"echo"}`); a.code() != "unavailable" || !strings.Contains(a.raw, file) {
			t.Errorf("call: %s", a.raw)
		}
		write(t, file, mcpJSON(entry("a", ``)))
		if a := r.must(VerbReload, `{}`); len(a.names("tools")) != 1 {
			t.Errorf("enabled: %s", a.raw)
		}
		write(t, file, mcpJSON(entry("a", `,"disabled":true`)))
		if a := r.must(VerbReload, `{}`); len(a.names("tools")) != 0 {
			t.Errorf("disabled again: %s", a.raw)
		}
		time.Sleep(time.Minute)
		if s.Counts().Live != 0 {
			t.Error("the disabled server lives")
		}
		r.m.Close(0)
	})
}

// needs gives the hash that a reply shows for a server that nobody has approved.
func (a answerOf) needs(t *testing.T, name string) string {
	t.Helper()
	for _, v := range a.obj["needsTrust"].([]any) {
		if v := v.(map[string]any); v["name"] == name {
			return v["hash"].(string)
		}
	}
	t.Fatalf("%s needs no trust: %s", name, a.raw)
	return ""
}

// TestTrust: a project's server runs only while a record of exactly its entry
// exists, in whichever manager it was written or taken back.
func TestTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo()
		home := map[string]string{"HOME": t.TempDir()}
		options := map[string]any{"projectTrust": "recorded", "env": home}
		r, dir := newProject(t, servers{"a": s}, options)
		file := filepath.Join(dir, ".mcp.json")
		write(t, file, mcpJSON(entry("a", `,"env":{"K":"secret-value"}`)))
		a := r.must(VerbConnect, `{}`)
		hash := a.needs(t, "a")
		if s.Counts().Dials != 0 || strings.Contains(a.raw, "secret-value") || !strings.HasPrefix(hash, "sha256:") {
			t.Fatalf("untrusted: %d dials, %s", s.Counts().Dials, a.raw)
		}
		if a := r.do(VerbCall, `{"server":"a","tool":"echo"}`); a.code() != "needs_trust" || !strings.Contains(a.raw, hash) {
			t.Errorf("call: %s", a.raw)
		}
		if a := r.do(VerbCall, `{"tool":"mcp_a_echo"}`); a.code() != "unknown_tool" || !strings.Contains(a.raw, "nobody has approved them: a") {
			t.Errorf("a call by the tool's name does not say why it is unknown: %s", a.raw)
		}
		wrong := "sha256:" + strings.Repeat("0", 64)
		if a := r.must(VerbConnect, `{"trust":{"a":"`+wrong+`"}}`); a.obj["errors"].(map[string]any)["a"] == nil || s.Counts().Dials != 0 {
			t.Errorf("a wrong hash: %s", a.raw)
		}
		options["cwd"] = dir
		second, _ := newProject(t, servers{"a": s}, options)
		second.must(VerbConnect, `{}`).needs(t, "a")

		if a := r.must(VerbConnect, `{"trust":{"a":"`+hash+`"}}`); len(a.names("connected")) != 1 {
			t.Errorf("trusted: %s", a.raw)
		}
		if a := second.must(VerbConnect, `{}`); len(a.names("connected")) != 1 {
			t.Errorf("a second manager does not see the record: %s", a.raw)
		}

		// A changed entry is another one, and loses the running server its trust.
		write(t, file, mcpJSON(entry("a", `,"env":{"K":"other"}`)))
		a = r.must(VerbReload, `{}`)
		next := a.needs(t, "a")
		if next == hash || len(a.names("tools")) != 0 {
			t.Errorf("changed: %s", a.raw)
		}
		r.must(VerbCall, `{"method":"mcprt/trust.add","params":{"server":"a","hash":"`+next+`"}}`)
		synctest.Wait()
		r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		list := r.must(VerbCall, `{"method":"mcprt/trust.list"}`)
		if !strings.Contains(list.raw, hash) || !strings.Contains(list.raw, next) {
			t.Errorf("records: %s", list.raw)
		}

		// Taken back by one manager: the other one starts it no more, not even by itself.
		second.must(VerbReload, `{}`)
		r.must(VerbCall, `{"method":"mcprt/trust.remove","params":{"hash":"`+next+`"}}`)
		time.Sleep(time.Minute)
		dials := s.Counts().Dials
		s.Kill(1)
		time.Sleep(time.Minute)
		if s.Counts().Dials != dials {
			t.Error("a server without trust was started again")
		}
		if v := second.server("a"); v["state"] != "needs_trust" {
			t.Errorf("the second manager's server is %v", v["state"])
		}
		second.must(VerbConnect, `{"restart":true}`).needs(t, "a")
		r.must(VerbConnect, `{}`).needs(t, "a")
		if s.Counts().Dials != dials || s.Counts().Live != 0 {
			t.Errorf("%d dials more, %d live", s.Counts().Dials-dials, s.Counts().Live)
		}
		r.m.Close(0)
		second.m.Close(0)
	})
}

// TestTrustAddIsTheFirstVerb: a program whose only job is to trust need not discover.
func TestTrustAddIsTheFirstVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := map[string]any{"projectTrust": "recorded", "env": map[string]string{"HOME": t.TempDir()}}
		first, dir := newProject(t, servers{"a": echo()}, options)
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("a", "")))
		hash := first.must(VerbConnect, `{}`).needs(t, "a")
		first.m.Close(0)

		options["cwd"] = dir
		second, _ := newProject(t, servers{"a": echo()}, options)
		wrong := second.do(VerbCall, `{"method":"mcprt/trust.add","params":{"hash":"sha256:0"}}`)
		if wrong.code() != "needs_trust" || !strings.Contains(wrong.raw, "no server with this hash") {
			t.Errorf("a hash that is nobody's: %s", wrong.raw)
		}
		second.must(VerbCall, `{"method":"mcprt/trust.add","params":{"hash":"`+hash+`"}}`)
		second.m.Close(0)

		third, _ := newProject(t, servers{"a": echo()}, options)
		if a := third.must(VerbConnect, `{}`); len(a.names("connected")) != 1 {
			t.Errorf("the record is not there: %s", a.raw)
		}
		third.m.Close(0)
	})
}

// TestDamagedTrust: records that cannot be read count as none.
func TestDamagedTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, home := echo(), t.TempDir()
		r, dir := newProject(t, servers{"a": s}, map[string]any{"projectTrust": "recorded", "env": map[string]string{"HOME": home, "XDG_CONFIG_HOME": home}})
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("a", "")))
		write(t, filepath.Join(home, "mcprt", "trust.json"), `{"version":1,"records":[`)
		a := r.must(VerbConnect, `{}`)
		hash := a.needs(t, "a")
		if len(a.diagnosed("trust_unavailable")) != 1 {
			t.Errorf("diagnostics %v", a.obj["diagnostics"])
		}
		a = r.must(VerbConnect, `{"trust":{"a":"`+hash+`"}}`)
		if e, _ := a.obj["errors"].(map[string]any)["a"].(map[string]any); e == nil || s.Counts().Dials != 0 {
			t.Errorf("trust without a place for records: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestTrustedDuplicates: two entries for one connection start one server, also
// when they are approved only after they were discovered.
func TestTrustedDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := echo(), echo()
		r, dir := newProject(t, servers{"a": a, "b": b}, map[string]any{"projectTrust": "recorded"})
		write(t, filepath.Join(dir, ".mcp.json"), mcpJSON(entry("a", ""), entry("b", "")))
		first := r.must(VerbConnect, `{}`)
		both := fmt.Sprintf(`{"trust":{"a":%q,"b":%q}}`, first.needs(t, "a"), first.needs(t, "b"))
		got := r.must(VerbConnect, both)
		if dials := a.Counts().Dials + b.Counts().Dials; dials != 1 || len(got.names("tools")) != 1 {
			t.Errorf("%d dials, tools %v", dials, got.names("tools"))
		}
		if a := r.do(VerbCall, `{"server":"b","tool":"echo"}`); a.code() != "unknown_server" || !strings.Contains(a.raw, `same connection as \"a\"`) {
			t.Errorf("the second name: %s", a.raw)
		}
		r.m.Close(0)
	})
}

// TestDiscoveryThatIsEnded: what ends an operation while it reads the files is its
// outcome, and no finding about the files.
func TestDiscoveryThatIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newProject(t, nil, nil)
		for name, of := range map[string]func(context.Context) error{
			"discover": func(ctx context.Context) error { _, err := r.m.discoverVerb(ctx, nil); return err },
			"connect":  func(ctx context.Context) error { _, err := r.m.connectVerb(ctx, nil); return err },
			"reload":   func(ctx context.Context) error { _, err := r.m.reloadVerb(ctx, nil); return err },
		} {
			for _, cause := range []error{errCanceled, errClosed} {
				ctx, end := context.WithCancelCause(t.Context())
				end(cause)
				if err := of(ctx); !errors.Is(err, cause) {
					t.Errorf("%s that ended with %q: %v", name, cause, err)
				}
			}
		}
		r.m.Close(0)
		for name, of := range map[string]func() error{
			"trust.add": func() error { return r.m.trustOne("x", "sha256:0") },
			"login":     func() error { _, err := r.m.login(t.Context(), "x"); return err },
		} {
			if err := of(); !errors.Is(err, errClosed) {
				t.Errorf("%s after close: %v", name, err)
			}
		}
	})
}
