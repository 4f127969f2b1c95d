package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// plain masks the secrets that it knows as they are.
func plain(secrets []string) func(string) string {
	return func(text string) string {
		for _, s := range secrets {
			text = strings.ReplaceAll(text, s, "***")
		}
		return text
	}
}

func open(t *testing.T, o Options) *Recorder {
	t.Helper()
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "t.jsonl")
	}
	o.Redactor = plain
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestFileIsPrivateWholeAndEnds(t *testing.T) {
	r := open(t, Options{Version: "9"})
	began := time.Now()
	r.Add(Record{Type: TypeState, Server: "a", Generation: 3, State: "ready", Time: began})
	r.Phase(PhaseGate, began, "x", errors.New("no"))
	r.Close()
	r.Close()
	r.Add(Record{Type: TypeState}) // too late, and harmless
	if info, err := os.Stat(r.opts.File); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got := lines(t, r.opts.File)
	if len(got) != 4 {
		t.Fatalf("%q", got)
	}
	for _, line := range got {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if !strings.Contains(got[0], `"type":"trace"`) || !strings.Contains(got[0], `"mcprt":"9"`) || !strings.Contains(got[3], `"type":"end","count":3`) {
		t.Errorf("%q", got)
	}
	trace, err := ReadFile(r.opts.File, 0)
	if err != nil || trace.Missing || trace.Damaged != 0 || len(trace.Records) != 3 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if first := trace.Records[0]; first.Time.Sub(began.Round(0)).Abs() > time.Second || first.Generation != 3 || first.State != "ready" {
		t.Errorf("%+v", first)
	}
}

func TestRotationKeepsTheLatest(t *testing.T) {
	r := open(t, Options{MaxBytes: 4 << 10})
	for i := range 100 {
		r.Add(Record{Type: TypeState, Server: fmt.Sprint(i), Detail: strings.Repeat("x", 100)})
	}
	r.Close()
	for _, name := range []string{r.opts.File, r.opts.File + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() > 4<<10 || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	trace, err := ReadFile(r.opts.File, 0)
	if err != nil || !trace.Missing || trace.Header.Part < 2 {
		t.Fatalf("%+v, %v", trace.Header, err)
	}
	n := len(trace.Records)
	if last := trace.Records[n-2].Server; trace.Records[n-1].Type != TypeEnd || last != "99" {
		t.Errorf("the last of %d records is of %s", n, last)
	}
	for i := 1; i < n-1; i++ { // both files, nothing between them lost
		if a, b := trace.Records[i-1].Server, trace.Records[i].Server; fmt.Sprint(must(a)+1) != b {
			t.Errorf("%s is followed by %s", a, b)
		}
	}
}

func must(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// An earlier trace is kept once; nothing else is ever overwritten.
func TestWhatIsThereAlready(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.jsonl")
	for run := range 3 {
		r := open(t, Options{File: file})
		r.Add(Record{Type: TypeState, Server: fmt.Sprint("run", run)})
		r.Close()
	}
	if now, before := strings.Join(lines(t, file), ""), strings.Join(lines(t, file+".1"), ""); !strings.Contains(now, "run2") || !strings.Contains(before, "run1") {
		t.Errorf("%s\n%s", now, before)
	}
	if trace, err := ReadFile(file, 0); err != nil || len(trace.Records) != 2 || trace.Missing {
		t.Errorf("another run's file belongs to this one: %+v, %v", trace, err)
	}
	for name, prepare := range map[string]func(path string) error{
		"notes":     func(p string) error { return os.WriteFile(p, []byte("my notes"), 0o644) },
		"directory": func(p string) error { return os.Mkdir(p, 0o755) },
		"link":      func(p string) error { return os.Symlink(file, p) },
		"rotated":   func(p string) error { return os.WriteFile(p+".1", []byte(`{"my":"data"}`), 0o644) },
		"nowhere":   func(p string) error { return os.WriteFile(filepath.Dir(p)+"x", nil, 0o600) },
	} {
		path := filepath.Join(dir, name)
		if name == "nowhere" {
			path = filepath.Join(dir, "none", "t.jsonl")
			_ = prepare
		} else if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(Options{File: path, Redactor: plain}); err == nil {
			r.Close()
			t.Errorf("%s: opened", name)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "notes")); err != nil || string(got) != "my notes" {
		t.Errorf("%s, %v", got, err)
	}
}

// Who is displaced by another recorder stops when its file is full, and never touches the other's.
func TestTakenOver(t *testing.T) {
	failed := make(chan error, 1)
	r := open(t, Options{MaxBytes: 4 << 10, Failed: func(err error) { failed <- err }})
	other := open(t, Options{File: r.opts.File})
	other.Add(Record{Type: TypeState, Server: "other"})
	for range 100 {
		r.Add(Record{Type: TypeState, Detail: strings.Repeat("x", 100)})
	}
	if err := <-failed; !errors.Is(err, errTaken) {
		t.Error(err)
	}
	r.Close()
	other.Close()
	trace, err := ReadFile(r.opts.File, 0)
	if err != nil || len(trace.Records) != 2 || trace.Records[0].Server != "other" {
		t.Errorf("%+v, %v", trace, err)
	}
	if _, dropped := r.Stats(); dropped == 0 {
		t.Error("what came after was not counted")
	}
}

// TestNobodyWaits: with a disk that takes nothing, records are dropped and counted,
// and the gap is told of when the disk is back.
func TestNobodyWaits(t *testing.T) {
	r := open(t, Options{})
	stuck := &Recorder{opts: r.opts, began: r.began, queue: make(chan entry, 4), stop: make(chan struct{}), done: make(chan struct{}), secrets: map[string]bool{}}
	stuck.clean.Store(r.clean.Load())
	for range 10 {
		stuck.add(Record{Type: TypeMessage}, []byte(`{"a":1}`))
	}
	if _, dropped := stuck.Stats(); dropped != 6 || stuck.waiting.Load() != 4*7 {
		t.Errorf("%d dropped, %d bytes wait", dropped, stuck.waiting.Load())
	}
	large := []byte(strings.Repeat("x", 1<<20))
	stuck.opts.PayloadBytes = 1 << 20
	for range 4 {
		stuck.queue = make(chan entry, 4096)
	}
	for range 100 {
		stuck.add(Record{Type: TypeMessage}, large)
	}
	if waiting := stuck.waiting.Load(); waiting > queueBytes {
		t.Errorf("%d bytes wait", waiting)
	}
	// The writer comes back.
	stuck.file, stuck.out, stuck.size = r.file, r.out, 1
	queue := stuck.queue
	if err := stuck.put(<-queue); err != nil {
		t.Fatal(err)
	}
	if err := r.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines(t, r.opts.File), "\n"); !strings.Contains(got, `"type":"dropped","count":`) {
		t.Error("the gap is not told of")
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var r *Recorder
	r.Know([]string{"x"})
	r.Add(Record{})
	r.Phase("x", time.Now(), "", nil)
	r.State("a", 1, "x", "y", nil)
	a := r.Start("a", 1, "stdio", "x")
	a.Phase("x", time.Now(), nil)
	a.End(nil)
	if a.Dial(nil) != nil {
		t.Error("a connection was wrapped")
	}
	r.Close()
	if n := testing.AllocsPerRun(100, func() { r.State("a", 1, "x", "y", nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNoPartOfASecret: wherever a payload is cut, no part of a secret is left.
func TestNoPartOfASecret(t *testing.T) {
	const secret = "S3CRET-VALUE-OF-SOME-LENGTH"
	r := open(t, Options{PayloadBytes: 64})
	r.Know([]string{secret, "8080"})
	for pad := range 300 {
		text := `{"a":"` + strings.Repeat("x", pad) + secret + strings.Repeat("y", 500) + `"}`
		r.add(Record{Type: TypeMessage, Method: "m" + secret, Tool: secret, ID: json.RawMessage(`"` + secret + `"`), Error: &Failure{"x", secret}}, []byte(text))
	}
	r.add(Record{Type: TypeMessage}, []byte(`{"port":8080}`))
	r.add(Record{Type: TypeMessage, ID: json.RawMessage(`8080`)}, nil)
	r.Close()
	all := lines(t, r.opts.File)
	if len(all) != 304 {
		t.Fatalf("%d lines", len(all))
	}
	for _, line := range all {
		var rec Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.Contains(line, "S3C") || strings.Contains(rec.PayloadText, "8080") {
			t.Fatalf("a part of a secret: %s", line)
		}
		if len(rec.PayloadText) > 64 {
			t.Errorf("%d bytes are kept", len(rec.PayloadText))
		}
	}
	if got := all[301]; !strings.Contains(got, `"payloadText":"{\"port\":***}"`) {
		t.Error(got)
	}
}

func TestPayloadsCanBeLeftOut(t *testing.T) {
	r := open(t, Options{PayloadBytes: -1})
	r.add(Record{Type: TypeMessage, Bytes: 7}, []byte(`{"a":1}`))
	r.Close()
	if got := lines(t, r.opts.File)[1]; strings.Contains(got, "payload") || !strings.Contains(got, `"bytes":7`) {
		t.Error(got)
	}
}

// Tokens come and go while a trace is written: the one of a moment ago is masked too.
func TestSecretsThatChange(t *testing.T) {
	token := make(chan string, 1)
	last := "token-one"
	r := open(t, Options{Secrets: func() []string {
		select {
		case last = <-token:
		default:
		}
		return []string{last, ""}
	}})
	r.add(Record{Type: TypeMessage}, []byte(`{"a":"token-one"}`))
	for written, _ := r.Stats(); written < 2; written, _ = r.Stats() {
		time.Sleep(time.Millisecond)
	}
	token <- "token-two"
	r.add(Record{Type: TypeMessage}, []byte(`{"a":"token-one and token-two"}`))
	r.Close()
	if got := strings.Join(lines(t, r.opts.File), "\n"); strings.Contains(got, "token-") || strings.Count(got, "***") != 3 {
		t.Error(got)
	}
}
