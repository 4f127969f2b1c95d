package trace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = `{"time":"2026-12-01T00:00:00Z","type":"trace","format":1,"mcprt":"0.1.0","run":"ab","part":1}` + "\n"

func TestReadIsStrictAboutFilesAndLenientAboutLines(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "hello\n", "array": "[]\n", "other JSON": `{"time":"2026-12-01T00:00:00Z","type":"state"}` + "\n",
		"newer": strings.Replace(header, `"format":1`, `"format":2`, 1), "blank first": "\n" + header, "huge": strings.Repeat("x", maxLine+1),
	} {
		if trace, err := Read(strings.NewReader(text), 0); err == nil {
			t.Errorf("%s: %+v", name, trace)
		}
	}
	state := `{"time":"2026-12-01T00:00:01Z","type":"state","server":"a","state":"ready"}`
	for name, c := range map[string]struct {
		lines            string
		records, damaged int
	}{
		"none":          {"", 0, 0},
		"killed":        {state + "\n" + state[:40], 1, 1},
		"blank":         {"\n\n" + state + "\r\n\n", 1, 0},
		"no newline":    {state, 1, 0},
		"unknown type":  {`{"time":"2026-12-01T00:00:01Z","type":"tomorrow","x":[1]}`, 1, 0},
		"no time":       {`{"type":"state"}` + "\n" + state, 1, 1},
		"wrong type":    {`{"time":"2026-12-01T00:00:01Z","type":"state","server":7}` + "\n" + state, 1, 1},
		"too long":      {strings.Repeat("x", maxLine+1) + "\n" + state, 1, 1},
		"second header": {header + state, 2, 0},
	} {
		trace, err := Read(strings.NewReader(header+c.lines), 0)
		if err != nil || len(trace.Records) != c.records || trace.Damaged != c.damaged {
			t.Errorf("%s: %+v, %v", name, trace, err)
		}
	}
}

func TestTheLastMessagesAreKept(t *testing.T) {
	var text strings.Builder
	text.WriteString(header)
	for i := range 1000 {
		fmt.Fprintf(&text, `{"time":"2026-12-01T00:00:%02dZ","type":"message","bytes":%d}`+"\n"+`{"time":"2026-12-01T00:00:00Z","type":"state"}`+"\n", i%60, i)
	}
	trace, err := Read(strings.NewReader(text.String()), 7)
	if err != nil || len(trace.Records) != 1007 || trace.LeftOut != 993 || trace.Records[1006].Bytes != 999 {
		t.Errorf("%d records, %d left out, %v", len(trace.Records), trace.LeftOut, err)
	}
	if all, err := Read(strings.NewReader(text.String()), 0); err != nil || len(all.Records) != 2000 || all.LeftOut != 0 {
		t.Errorf("%d records, %v", len(all.Records), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(header + `{"time":"2026-12-01T00:00:01Z","type":"message","durationMs":1e300,"id":{},"payload":[1,{"a":null}],"payloadText":"\ud800"}` + "\n"))
	f.Add([]byte(header + "{\"time\":\"9999-99-99\",\"type\":1}\n\x00\xff\n" + header))
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := Read(bytes.NewReader(data), 50)
		if (err == nil) != (trace != nil) {
			t.Fatalf("%v, %v", trace, err)
		}
		if err != nil {
			return
		}
		messages := 0
		for i := range trace.Records {
			_ = trace.Records[i].Duration()
			if trace.Records[i].Type == TypeMessage {
				messages++
			}
		}
		if !isHeader(data) || messages > 50 {
			t.Fatalf("%d messages of %q", messages, data)
		}
	})
}

func TestDirectoryAndMissingFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := ReadFile(path, 0); err == nil || strings.Contains(err.Error(), "header") {
			t.Errorf("%v", err)
		}
	}
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, 0); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
