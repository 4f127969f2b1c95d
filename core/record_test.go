package core

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/mcptest"
	"github.com/mcprt/mcprt/core/trace"
)

// traced opens a rig that records, and gives the trace after its end.
func traced(t *testing.T, have servers, options map[string]any, run func(r *rig)) (*trace.Trace, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "t.jsonl")
	if options == nil {
		options = map[string]any{}
	}
	options["trace"] = map[string]any{"file": file}
	r := newRig(t, have, options)
	run(r)
	r.m.Close(0)
	got, err := trace.ReadFile(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return got, string(text)
}

// sequence lists what happened to one server, in short.
func sequence(tr *trace.Trace, server string) (out []string) {
	for _, rec := range tr.Records {
		if rec.Server != server {
			continue
		}
		switch rec.Type {
		case trace.TypePhase:
			out = append(out, rec.Phase)
		case trace.TypeState:
			out = append(out, "="+rec.State)
		case trace.TypeStart:
			out = append(out, "start")
		}
	}
	return out
}

func TestTraceOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			script mcptest.Script
			want   []string
		}{
			"legacy": {mcptest.Script{Tools: []string{mcptest.Tool("echo")}, ListDelay: 30 * time.Millisecond},
				[]string{"=connecting", "start", "resolve", "spawn", "probe", "handshake", "list", "=ready", "first_call", "=closed", "close"}},
			"modern": {mcptest.Script{Tools: []string{mcptest.Tool("echo")}, Versions: []string{mcptest.Modern}, ListDelay: 30 * time.Millisecond},
				[]string{"=connecting", "start", "resolve", "spawn", "probe", "list", "=ready", "first_call", "=closed", "close"}},
			"silent to probes": {mcptest.Script{Tools: []string{mcptest.Tool("echo")}, Discover: mcptest.DiscoverSilence},
				[]string{"=connecting", "start", "resolve", "spawn", "probe", "handshake", "list", "=ready", "first_call", "=closed", "close"}},
		} {
			got, text := traced(t, servers{"a": mcptest.NewMemory(c.script)}, map[string]any{"startupTimeoutMs": 0}, func(r *rig) {
				r.do(VerbConnect, `{}`)
				for range 2 {
					time.Sleep(time.Millisecond) // each step at a time of its own
					if a := r.do(VerbCall, `{"server":"a","tool":"echo","arguments":{"x":1}}`); a.st != OK {
						t.Fatal(a.raw)
					}
				}
				time.Sleep(time.Millisecond)
			})
			seq := sequence(got, "a")
			slices.Sort(seq) // in a bubble most of it happens at one time
			slices.Sort(c.want)
			if !slices.Equal(seq, c.want) {
				t.Errorf("%s: %v\nwant %v\n%s", name, seq, c.want, text)
			}
			calls := 0
			for _, rec := range got.Records {
				switch {
				case rec.Type == trace.TypePhase && rec.Phase == trace.PhaseList && c.script.ListDelay > 0 && rec.Duration() < c.script.ListDelay:
					t.Errorf("%s: the list took %v", name, rec.Duration())
				case rec.Type == trace.TypeMessage && rec.Method == "tools/call" && rec.Kind == "response":
					calls++
					if rec.Outcome != trace.OutcomeOK || rec.Tool != "echo" || rec.DurationMs == nil || rec.Generation != 1 || rec.Bytes == 0 || !strings.Contains(string(rec.Payload), `"x":1`) {
						t.Errorf("%s: %+v", name, rec)
					}
				}
			}
			if calls != 2 || got.Records[0].Phase != trace.PhaseDiscover || !slices.ContainsFunc(got.Records, func(r trace.Record) bool { return r.Phase == trace.PhaseGate }) {
				t.Errorf("%s: %d calls\n%s", name, calls, text)
			}
		}
	})
}

func TestTraceOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := mcptest.NewMemory(mcptest.Script{ExitAtStart: mcptest.Code(3)})
		refusing := mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("no")}, Results: map[string]string{"no": `{"content":[],"isError":true}`}})
		got, text := traced(t, servers{"bad": bad, "b": refusing}, map[string]any{"reconnect": "manual", "startupTimeoutMs": 0}, func(r *rig) {
			r.do(VerbConnect, `{}`)
			r.do(VerbCall, `{"server":"b","tool":"no"}`)
			r.do(VerbCall, `{"server":"b","method":"nothing/here"}`)
			refusing.Kill(7)
			synctest.Wait()
		})
		var outcomes []string
		lost, failed := false, false
		for _, rec := range got.Records {
			switch {
			case rec.Type == trace.TypeMessage && rec.Kind == "response" && rec.Outcome != trace.OutcomeOK && rec.Method != "server/discover":
				outcomes = append(outcomes, rec.Method+" "+rec.Outcome)
			case rec.Phase == trace.PhaseClose && rec.Server == "b":
				lost = rec.Error != nil && rec.Error.Code == "exited" && rec.Detail == "lost"
			case rec.Type == trace.TypeState && rec.Server == "bad" && rec.State == "failed":
				failed = rec.Error != nil && rec.Error.Code == "exited"
			}
		}
		if !slices.Equal(outcomes, []string{"tools/call tool_error", "nothing/here error"}) || !lost || !failed {
			t.Errorf("%v, lost %v, failed %v\n%s", outcomes, lost, failed, text)
		}
	})
}

// TestTraceHoldsNoSecret: what any server's config resolved to is masked in all records.
func TestTraceHoldsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "va/lüe-<of>\"a\"-s3cret"
		script := mcptest.Script{Tools: []string{mcptest.Tool("tell")}, Results: map[string]string{
			"tell": `{"content":[{"type":"text","text":"va\/l\u00fce-\u003cof\u003e\"a\"-s3cret and s3cret2-value"}],"structuredContent":{"apiKey":"never-seen-before","nested":"{\"password\":\"hunter-two\"}"}}`,
		}}
		have := servers{"a": mcptest.NewMemory(script), "b": mcptest.NewMemory(mcptest.Script{Tools: []string{mcptest.Tool("echo")}})}
		_, text := traced(t, have, map[string]any{"startupTimeoutMs": 0, "config": map[string]map[string]any{
			"a": {"env": map[string]string{"MY_TOKEN": secret}}, "b": {"env": map[string]string{"OTHER": "s3cret2-value"}, "args": []string{"--api-key", "on-the-line"}},
		}}, func(r *rig) {
			r.do(VerbConnect, `{}`)
			for _, call := range []string{`{"server":"a","tool":"tell","arguments":{"token":"as-argument","x":"s3cret2-value"}}`,
				`{"server":"b","tool":"echo","arguments":{"header":"Authorization: Bearer abcdef0123456789","plain":"va/l\u00fce-<of>\"a\"-s3cret","gh":"ghp_0123456789abcdefghijABCDEFGHIJ"}}`} {
				if a := r.do(VerbCall, call); a.st != OK {
					t.Fatal(a.raw)
				}
			}
		})
		for _, part := range []string{"s3cret", "never-seen", "hunter", "on-the-line", "as-argument", "abcdef0123456789", "ghp_"} {
			if strings.Contains(text, part) {
				i := strings.Index(text, part)
				t.Errorf("the trace holds %q: …%s…", part, text[max(0, i-100):min(len(text), i+100)])
			}
		}
		if !strings.Contains(text, `"progressToken":`) || !strings.Contains(text, `--api-key ***`) {
			t.Error("too much is gone:", text)
		}
	})
}

// A trace that cannot be written is a diagnostic, and never a failed open.
func TestTraceThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, servers{}, map[string]any{"trace": map[string]any{"file": file}})
	if a := r.do(VerbConnect, `{}`); a.st != OK || !strings.Contains(a.raw, "trace_unavailable") || !strings.Contains(a.raw, "no trace of mcprt") {
		t.Error(a.raw)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "mine" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestTraceOverEveryTransport: real processes and real sockets; a cancelled call and a
// refusal over HTTP are told, headers never.
func TestTraceOverEveryTransport(t *testing.T) {
	modern := serveScript(t, mcptest.Script{Versions: []string{mcptest.Modern}}, nil)
	legacy := serveScript(t, mcptest.Script{}, nil)
	command, args, env := mcptest.Script{Name: "p", Noise: []string{"not a message"}}.Command()
	file := filepath.Join(t.TempDir(), "t.jsonl")
	r := openHTTP(t, map[string]any{
		"modern":  map[string]any{"url": modern.URL, "headers": map[string]string{"X-Api-Key": "k3y-of-modern"}},
		"legacy":  map[string]any{"url": legacy.URL + "?token=t0ken-in-url", "headers": map[string]string{"Authorization": "Bearer t0psecret"}},
		"process": map[string]any{"command": command, "args": args, "env": env},
	}, map[string]any{"trace": map[string]any{"file": file}})
	r.must(VerbConnect, `{}`)
	for _, name := range []string{"modern", "legacy", "process"} {
		r.must(VerbCall, `{"server":"`+name+`","tool":"echo","arguments":{"said":"k3y-of-modern t0psecret t0ken-in-url"}}`)
		ch, cancel := r.begin(VerbCall, `{"server":"`+name+`","tool":"hang"}`)
		cancel()
		if a := <-ch; a.st != ECanceled {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	if st := r.stats(); st.Trace == nil || st.Trace.Dropped != 0 || st.Trace.Records < 20 {
		t.Errorf("%+v", st.Trace)
	}
	r.m.Close(2000)
	got, err := trace.ReadFile(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"k3y-of", "t0psecret", "t0ken-in"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the trace holds %s", secret)
		}
	}
	for server, want := range map[string][]string{
		"modern":  {"dial", "probe", "list", "first_call", "close"},
		"legacy":  {"dial", "probe", "handshake", "list", "first_call", "close"},
		"process": {"spawn", "probe", "handshake", "list", "first_call", "close"},
	} {
		seq := sequence(got, server)
		for _, phase := range want {
			if !slices.Contains(seq, phase) {
				t.Errorf("%s: no %s in %v", server, phase, seq)
			}
		}
		var calls, answers int
		for _, rec := range got.Records {
			if rec.Server != server || rec.Method != "tools/call" {
				continue
			}
			switch rec.Kind {
			case "request":
				calls++
			case "response":
				answers++
				if rec.DurationMs == nil || rec.Outcome != trace.OutcomeOK || rec.Bytes == 0 {
					t.Errorf("%s: %+v", server, rec)
				}
			}
		}
		if calls < 1 || calls > 2 || answers != 1 { // the cancelled one may not have left
			t.Errorf("%s: %d calls, %d answers", server, calls, answers)
		}
	}
	if i := slices.IndexFunc(got.Records, func(r trace.Record) bool { return r.Server == "process" && r.Phase == trace.PhaseClose }); i < 0 || !strings.Contains(got.Records[i].Detail, "lines were no messages") || got.Records[i].PID == 0 {
		t.Error("the junk lines of the process are not told of")
	}
}
