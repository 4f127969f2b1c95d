package core

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
)

// sharing opens managers with equal configs of one server.
func sharing(t *testing.T, s *mcptest.Memory, n int, more map[string]any) []*rig {
	t.Helper()
	dir := t.TempDir()
	rigs := make([]*rig, n)
	for i := range rigs {
		options := map[string]any{"share": true, "cwd": dir}
		for k, v := range more {
			options[k] = v
		}
		rigs[i] = newRig(t, servers{"a": s}, options)
	}
	return rigs
}

// TestShare: managers with equal configs have one session, until the last one leaves.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{InitializeDelay: time.Second})
		all := sharing(t, s, 5, nil)
		var starts []<-chan answerOf
		for _, r := range all {
			ch, _ := r.begin(VerbConnect, `{}`)
			starts = append(starts, ch)
		}
		for _, ch := range starts {
			if a := <-ch; a.st != OK || len(a.names("connected")) != 1 {
				t.Fatal(a.raw)
			}
		}
		if c := s.Counts(); c.Dials != 1 {
			t.Fatalf("%d starts", c.Dials)
		}
		for i, r := range all {
			if a := r.must(VerbCall, fmt.Sprintf(`{"server":"a","tool":"echo","arguments":{"n":%d}}`, i)); !strings.Contains(a.raw, fmt.Sprint(i)) {
				t.Error(a.raw)
			}
		}
		// All hear of a change, and each lists anew.
		s.SetTools([]string{mcptest.Tool("slow"), mcptest.Tool("hang")})
		time.Sleep(time.Second)
		for _, r := range all {
			if got := r.must(VerbList, `{}`).names("tools"); len(got) != 2 {
				t.Errorf("tools %v", got)
			}
		}
		// One leaves, by close or disconnect: its call ends, the others' go on.
		mine, _ := all[0].begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":60000},"timeoutMs":0}`)
		other, _ := all[1].begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":60000},"timeoutMs":0}`)
		synctest.Wait()
		all[0].m.Close(1000)
		if a := <-mine; a.st != EClosed {
			t.Errorf("status %d: %s", a.st, a.raw)
		}
		all[2].must(VerbDisconnect, `{"server":"a"}`)
		if a := <-other; a.st != OK {
			t.Errorf("the other's call: %s", a.raw)
		}
		all[2].must(VerbConnect, `{}`)
		if c := s.Counts(); c.Dials != 1 || c.Live != 1 {
			t.Errorf("%d starts, %d live", c.Dials, c.Live)
		}
		// A cancelled call of one is cancelled at the server, and nothing else.
		mine, cancel := all[1].begin(VerbCall, `{"server":"a","tool":"hang"}`)
		other, _ = all[3].begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":1000}}`)
		synctest.Wait()
		cancel()
		if a := <-mine; a.st != ECanceled {
			t.Error(a.raw)
		}
		if a := <-other; a.st != OK {
			t.Error(a.raw)
		}
		for _, r := range all[1:] {
			if s.Counts().Live != 1 {
				t.Error("it ended before the last one left")
			}
			r.m.Close(0)
		}
		time.Sleep(time.Second)
		if c := s.Counts(); c.Live != 0 || len(shares.hubs) != 0 {
			t.Errorf("%d live, %d shared", c.Live, len(shares.hubs))
		}
	})
}

// TestShareOwnTime: who waits for a session that another manager makes, or for the list that
// it gives, waits no longer than its own timeoutMs; the other one goes on.
func TestShareOwnTime(t *testing.T) {
	for _, script := range []mcptest.Script{
		{InitializeDelay: time.Minute},
		{ListDelay: 4 * time.Second, PageSize: 1, Tools: []string{mcptest.Tool("a"), mcptest.Tool("b"), mcptest.Tool("c")}}, // each page in time
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.NewMemory(script)
			dir := t.TempDir()
			patient := newRig(t, servers{"a": s}, map[string]any{"share": true, "cwd": dir, "timeoutMs": 0})
			hasty := newRig(t, servers{"a": s}, map[string]any{"share": true, "cwd": dir, "timeoutMs": 5000, "reconnect": "manual"})
			first, _ := patient.begin(VerbConnect, `{}`)
			synctest.Wait()
			began := time.Now()
			a := hasty.must(VerbConnect, `{}`)
			if took := time.Since(began); took > 6*time.Second || !strings.Contains(a.raw, "timeout") {
				t.Errorf("after %s: %s", took, a.raw)
			}
			if a := <-first; a.st != OK || len(a.names("connected")) != 1 {
				t.Error(a.raw)
			}
			if c := s.Counts(); c.Dials != 1 {
				t.Errorf("%d starts", c.Dials)
			}
			patient.m.Close(0)
			hasty.m.Close(0)
		})
	}
}

// TestShareCrash: all see the end, and one new session serves all.
func TestShareCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 3, nil)
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		time.Sleep(time.Minute) // long enough to be started again at once
		var calls []<-chan answerOf
		for _, r := range all {
			ch, _ := r.begin(VerbCall, `{"server":"a","tool":"hang"}`)
			calls = append(calls, ch)
		}
		synctest.Wait()
		s.Kill(3)
		for _, ch := range calls {
			if a := <-ch; !strings.Contains(a.raw, "outcome_unknown") {
				t.Error(a.raw)
			}
		}
		for _, r := range all {
			r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		}
		if c := s.Counts(); c.Dials != 2 || c.Live != 1 {
			t.Errorf("%d starts, %d live", c.Dials, c.Live)
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}

// TestShareCallsPerServer: the limit is the server's, whoever calls; and a call that waits
// for its turn is not lost when the manager that has the turns leaves.
func TestShareCallsPerServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 2, map[string]any{"limits": map[string]any{"callsPerServer": 2}})
		var calls []<-chan answerOf
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		for range 3 {
			for _, r := range all {
				ch, _ := r.begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":1000},"timeoutMs":0}`)
				synctest.Wait()
				calls = append(calls, ch)
			}
		}
		if n := s.Counts().Calls["slow"]; n != 2 {
			t.Errorf("%d calls run at once", n)
		}
		all[0].m.Close(0)
		for i, ch := range calls {
			if a, want := <-ch, []Status{EClosed, OK}[i%2]; a.st != want {
				t.Errorf("call %d: %s", i, a.raw)
			}
		}
		all[1].m.Close(0)
	})
}

// TestShareBug: a bug that one manager meets is told to its host, and the others still
// hear of the end of the session.
func TestShareBug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 3, nil)
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		time.Sleep(time.Minute)
		for _, hub := range shares.hubs {
			h := hub.members[0].handler
			h.at = &attempt{m: h.at.m, entry: h.at.entry} // has no server: Lost panics
		}
		s.Kill(3)
		synctest.Wait()
		if got := all[0].host.of("diagnostic"); len(got) != 1 || got[0]["code"] != "internal" {
			t.Errorf("the host of the bug was told %v", got)
		}
		for _, r := range all[1:] {
			r.must(VerbCall, `{"server":"a","tool":"echo"}`)
		}
		if c := s.Counts(); c.Dials != 2 || c.Live != 1 {
			t.Errorf("%d starts, %d live", c.Dials, c.Live)
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}

// TestShareRestart: who restarts gets a new session, and takes nothing from the others.
func TestShareRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 2, nil)
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		call, _ := all[1].begin(VerbCall, `{"server":"a","tool":"slow","arguments":{"ms":10000}}`)
		all[0].must(VerbConnect, `{"only":["a"],"restart":true}`)
		if c := s.Counts(); c.Dials != 2 || c.Live != 2 {
			t.Errorf("%d starts, %d live", c.Dials, c.Live)
		}
		if a := <-call; a.st != OK {
			t.Error(a.raw)
		}
		for _, r := range all {
			r.m.Close(0)
		}
		time.Sleep(time.Second)
		if c := s.Counts(); c.Live != 0 {
			t.Errorf("%d live", c.Live)
		}
	})
}

// TestShareAsks: a question of the server goes to the host whose call runs.
func TestShareAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 3, map[string]any{"answers": []string{"elicitation"}})
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		for i, r := range all {
			call, _ := r.begin(VerbCall, `{"server":"a","tool":"elicit"}`)
			synctest.Wait()
			for j, other := range all {
				other.host.mu.Lock()
				n := len(other.host.requests)
				for tag := range other.host.requests {
					if other.host.ended[tag] == 0 && j == i {
						other.host.mu.Unlock()
						other.m.Answer(tag, []byte(fmt.Sprintf(`{"result":{"action":"accept","content":{"who":"%d"}}}`, j)))
						other.host.mu.Lock()
					}
				}
				other.host.mu.Unlock()
				if want := map[bool]int{true: 1, false: 0}[j <= i]; n != want {
					t.Errorf("host %d was asked %d times, want %d", j, n, want)
				}
			}
			if a := <-call; !strings.Contains(a.raw, fmt.Sprintf(`\"who\":\"%d\"`, i)) {
				t.Error(a.raw)
			}
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}

// TestShareOnlyEqual: another token, another directory or other answers share nothing;
// neither does who did not ask for it.
func TestShareOnlyEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		dir := t.TempDir()
		base := map[string]any{"share": true, "cwd": dir}
		with := func(name string, value any) map[string]any {
			o := map[string]any{}
			for k, v := range base {
				o[k] = v
			}
			o[name] = value
			return o
		}
		token := func(v string) map[string]any {
			o := with("env", map[string]string{"HOME": "/nonexistent", "TOKEN": v})
			o["config"] = map[string]map[string]any{"a": {"args": []string{"${TOKEN}"}}}
			return o
		}
		var all []*rig
		for i, options := range []map[string]any{base, with("share", false), with("cwd", t.TempDir()), with("answers", []string{"sampling"}), token("ada"), token("bob")} {
			r := newRig(t, servers{"a": s}, options)
			r.must(VerbConnect, `{}`)
			if n := s.Counts().Dials; n != i+1 {
				t.Errorf("variant %d: %d starts, want %d", i, n, i+1)
			}
			all = append(all, r)
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}

// TestShareIdle: a lazy server leaves those who do not use it, one by one.
func TestShareIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{})
		all := sharing(t, s, 2, map[string]any{"lazy": true, "idleTimeoutMs": 10_000})
		for _, r := range all {
			r.must(VerbConnect, `{}`)
		}
		for range 10 {
			all[0].must(VerbCall, `{"server":"a","tool":"echo"}`)
			time.Sleep(5 * time.Second)
		}
		if s.Counts().Live != 1 || all[1].m.snap.Load().index["a"].state != stateIdle {
			t.Errorf("%d live, the unused one is %v", s.Counts().Live, all[1].m.snap.Load().index["a"].state)
		}
		all[1].must(VerbCall, `{"server":"a","tool":"echo"}`)
		if n := s.Counts().Dials; n != 1 {
			t.Errorf("%d starts", n)
		}
		time.Sleep(time.Minute)
		if n := s.Counts().Live; n != 0 {
			t.Errorf("%d live", n)
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}

// TestShareFirstGivesUp: who makes the session may be cancelled meanwhile; who waits
// makes it then.
func TestShareFirstGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.NewMemory(mcptest.Script{InitializeDelay: 10 * time.Second})
		all := sharing(t, s, 2, nil)
		first, _ := all[0].begin(VerbConnect, `{}`)
		time.Sleep(time.Second)
		second, _ := all[1].begin(VerbConnect, `{}`)
		time.Sleep(time.Second)
		all[0].must(VerbDisconnect, `{}`)
		<-first
		if a := <-second; len(a.names("connected")) != 1 {
			t.Error(a.raw)
		}
		for _, r := range all {
			r.m.Close(0)
		}
	})
}
