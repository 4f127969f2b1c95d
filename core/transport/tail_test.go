package transport

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"plain é😀\ttext\n":                          "plain é😀\ttext",
		"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[1Aup":     "red up",
		"\u009b31mred\u009b0m":                      "red",
		"a\x1b]8;;http://x\x07link\x1b]8;;\x1b\\ b": "alink b",
		"a\x1b]unterminated\nb":                     "a\nb",
		"a\x1bPstring\x1b\\b\x1b(Bc\x1b7d":          "abcd",
		"a\x1b":                                     "a",
		"a\x1b[":                                    "a",
		"a\x1b[12":                                  "a",
		"10%\r20%\r\n30%":                           "10%\n20%\n30%",
		"a\x00b\x07c\x7fd\u0085e":                   "abcde",
		"user\u202egnp.exe\u2066x":                  "usergnp.exex",
		"bad \xff\xc3 bytes":                        "bad \uFFFD\uFFFD bytes",
		" \n\n ":                                    "",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"a\nb", 10, "a\nb"},
		{"first\nsecond\nthird", 14, "second\nthird"},
		{"first\nsecond\nthird", 12, "second\nthird"}, // the cut is a line's start already
		{"first\nsecond\nthird", 11, "third"},
		{"one long line", 4, "line"},
		{"ééééé", 5, "éé"},
		{"long\n", 3, "ng\n"},
		{"", 3, ""},
	} {
		if got := lastLines(c.in, c.limit); got != c.want {
			t.Errorf("lastLines(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	for _, size := range []int{1, 7, 4096, tailKept - 1, tailKept, tailKept + 1, 3 * tailKept} {
		var all strings.Builder
		var kept tail
		for i := 0; all.Len() < 5*tailKept; i++ {
			chunk := strings.Repeat(string(rune('a'+i%26)), size)
			all.WriteString(chunk)
			if n, err := kept.Write([]byte(chunk)); n != size || err != nil {
				t.Fatalf("wrote %d: %v", n, err)
			}
			if len(kept.buf) > 2*tailKept {
				t.Fatalf("holds %d bytes", len(kept.buf))
			}
		}
		if want := all.String()[all.Len()-tailKept:]; kept.text(nil) != want {
			t.Errorf("chunks of %d: got %d bytes, wrong end", size, len(kept.text(nil)))
		}
	}
}

// A secret that lies across the cut must be found all the same.
func TestTailIsRedactedBeforeItIsCut(t *testing.T) {
	var kept tail
	kept.Write([]byte(strings.Repeat("x", 100) + "s3cret" + strings.Repeat("y", tailGiven-3)))
	text := lastLines(kept.text(func(s string) string { return strings.ReplaceAll(s, "s3cret", "***") }), tailGiven)
	if strings.Contains(text, "ret") || !utf8.ValidString(text) || len(text) > tailGiven {
		t.Errorf("got %.20q", text)
	}
}
