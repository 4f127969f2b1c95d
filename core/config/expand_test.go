package config

import (
	"errors"
	"strings"
	"testing"
)

var allSyntax = VarSyntax{Dollar: true, Braces: true, Command: true}

var bare = VarSyntax{Dollar: true, Bare: true, Percent: true}

func testExpander(syntax VarSyntax, vars map[string]string) *expander {
	return &expander{
		syntax: syntax,
		lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		input:  func(id string) (string, bool) { return "typed", id == "known" },
		file: func(path string) (string, error) {
			if path == "gone" {
				return "", errors.New("gone")
			}
			return "content of " + path + "\n", nil
		},
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "LOOP": "${A} $1 {env:A}", "FOO": "foo"}
	dollar := VarSyntax{Dollar: true}
	for _, c := range []struct {
		in, want string
		codes    string
		syntax   VarSyntax
	}{
		{"plain", "plain", "", dollar},
		{"${A}", "1", "", dollar},
		{"x${A}y${FOO}z", "x1yfooz", "", dollar},
		{"${env:A}", "1", "", dollar},
		{"${A:-d}", "1", "", dollar},
		{"${EMPTY:-d}", "d", "", dollar},
		{"${EMPTY}", "", "", dollar},
		{"${NO:-}", "", "", dollar},
		{"${NO:-a:b-c}", "a:b-c", "", dollar},
		{"${env:NO:-d}", "d", "", dollar},
		{"${NO}", "", "unresolved_variable", dollar},
		{"Bearer ${NO}", "Bearer ", "unresolved_variable", dollar},
		{"US$5 pa$$word ^foo$ $FOO", "US$5 pa$$word ^foo$ $FOO", "", dollar},
		{"$${A}", "${A}", "", dollar},
		{"$$${A}", "$${A}", "", dollar},
		{"${A_${B}}", "${A_${B}}", "literal_variable", dollar},
		{"${A:-${B}}${A}", "${A:-${B}}1", "literal_variable", dollar},
		{"${UNCLOSED", "${UNCLOSED", "literal_variable", dollar},
		{"${1x}", "${1x}", "literal_variable", dollar},
		{"${}", "${}", "literal_variable", dollar},
		{"${LOOP}", "${A} $1 {env:A}", "", dollar},
		{"${input:known}", "typed", "", dollar},
		{"${input:other}", "", "needs_input", dollar},
		{"${command:x.y}", "", "unsupported_variable", dollar},
		{"{env:A}", "{env:A}", "literal_variable", dollar},
		{"{env:A}/{file:p}", "1/content of p", "", allSyntax},
		{"{env:NO}", "", "unresolved_variable", allSyntax},
		{"{file:gone}", "", "unreadable_file", allSyntax},
		{"{file:open", "{file:open", "literal_variable", allSyntax},
		{"{\"a\": \"${A}\"}", "{\"a\": \"1\"}", "", allSyntax},
		{"${A}", "${A}", "literal_variable", VarSyntax{}},
		{"$A and $AB", "1 and ", "unresolved_variable", bare},
		{"pa$$A ^foo$ US$5 $", "pa$$A ^foo$ US$5 $", "", bare},
		{"${A}$A$${A}", "11${A}", "", bare},
		{"%A%", "%A%", "", bare}, // not on Windows
		{"${file:f}", "content of f", "", VarSyntax{Dollar: true, DollarFile: true}},
	} {
		out := testExpander(c.syntax, vars).expand(c.in)
		var codes []string
		for _, p := range out.problems {
			codes = append(codes, p.code)
		}
		if out.text != c.want || strings.Join(codes, ",") != c.codes {
			t.Errorf("%q: got %q %v, want %q %q", c.in, out.text, codes, c.want, c.codes)
		}
	}
}

func TestExpandMessagesHoldNoDefault(t *testing.T) {
	out := testExpander(allSyntax, nil).expand("${A:-${B}s3cret} ${1:-s3cret}")
	if len(out.problems) != 2 {
		t.Fatalf("problems: %+v", out.problems)
	}
	for _, p := range out.problems {
		if strings.Contains(p.text, "s3cret") {
			t.Errorf("a default is shown: %s", p.text)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "${A}", "$${A}", "${A:-${B}}", "{env:A}{file:x}", "${input:known}", "${", "a${A}b$$${B}", "{env:", "${A:-}", "$A%A%$$A", "${file:x}"} {
		f.Add(s, "value ${A}")
	}
	f.Fuzz(func(t *testing.T, s, value string) {
		x := testExpander(allSyntax, map[string]string{"A": value})
		out := x.expand(s)
		// In every syntax, and on Windows: no panic, no endless loop.
		for _, syntax := range []VarSyntax{bare, {Dollar: true, DollarFile: true}, {Braces: true}, {}} {
			other := testExpander(syntax, map[string]string{"A": value})
			other.windows = true
			if got := other.expand(s); !syntax.in(s) && !strings.Contains(s, "$$") && got.text != s {
				t.Fatalf("%q has no variable in %+v but became %q", s, syntax, got.text)
			}
		}
		if !strings.Contains(s, "${") && !strings.Contains(s, "{env:") && !strings.Contains(s, "{file:") && out.text != s {
			t.Fatalf("%q has no variable but became %q", s, out.text)
		}
		// Single pass: what a variable holds is never expanded again.
		if got := x.expand("[${A}]"); got.text != "["+value+"]" {
			t.Fatalf("the value %q became %q", value, got.text)
		}
		// An escape hides exactly one form.
		if clean := strings.NewReplacer("$", "", "{", "", "}", "").Replace(s); clean != "" {
			if got := x.expand("$${" + clean + "}"); got.text != "${"+clean+"}" {
				t.Fatalf("escaped %q became %q", clean, got.text)
			}
		}
		for _, p := range out.problems {
			if p.code == "" || p.text == "" {
				t.Fatalf("empty problem: %+v", p)
			}
		}
	})
}

// A few characters that name a large variable again and again must not fill memory.
func TestExpansionIsBounded(t *testing.T) {
	x := testExpander(allSyntax, map[string]string{"BIG": strings.Repeat("x", 1<<16)})
	for _, in := range []string{strings.Repeat("${BIG}", 1<<17), strings.Repeat("{env:BIG}", 1<<16)} {
		out := x.expand(in)
		if len(out.problems) != 1 || out.problems[0].code != "too_large" || !out.problems[0].fatal {
			t.Errorf("%d bytes, problems %+v", len(out.text), out.problems)
		}
		if out.text != "" || len(out.used) > 20 {
			t.Errorf("%d bytes of %d values are kept", len(out.text), len(out.used))
		}
	}
}

func TestParseEnvFile(t *testing.T) {
	vars, bad := parseEnvFile([]byte("\ufeff# c\r\nA=1\r\nexport B = two words # note\nC='$A # \"x\"'\nD=\"line\\nnext \\\"q\\\"\"\nE=\"first\nsecond\"\nF=\nG=a#b\nno line\n1=ok\nH=\"open\n"))
	want := map[string]string{"A": "1", "B": "two words", "C": `$A # "x"`, "D": "line\nnext \"q\"", "E": "first\nsecond", "F": "", "G": "a#b", "1": "ok"}
	for name, value := range want {
		if vars[name] != value {
			t.Errorf("%s = %q, want %q", name, vars[name], value)
		}
	}
	if len(vars) != len(want) {
		t.Errorf("vars %v", vars)
	}
	if len(bad) != 2 || bad[0] != 10 || bad[1] != 12 {
		t.Errorf("bad lines %v, want 10 and 12", bad)
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add([]byte("A=1\nexport B='x\ny'\nC=\"\\n\" # c"))
	f.Add([]byte("A=\"\n\x00\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, _ := parseEnvFile(data)
		for name, value := range vars {
			if !validVariable(name, value) {
				t.Fatalf("%q=%q cannot stand in an environment", name, value)
			}
		}
	})
}
