package transport

import (
	"errors"
	"strings"
	"testing"
)

func TestBatchLine(t *testing.T) {
	const head = `"C:\Windows\System32\cmd.exe" /d /e:ON /v:OFF /c "`
	for _, c := range []struct {
		path string
		args []string
		want string
	}{
		{`C:\node\npx.cmd`, []string{"-y", "@scope/server"}, `"C:\node\npx.cmd" -y @scope/server`},
		{`C:\Program Files\n.cmd`, []string{""}, `"C:\Program Files\n.cmd" ""`},
		{`n.bat`, []string{`a"&calc&"`}, `"n.bat" "a""&calc&"""`},
		{`n.bat`, []string{`%PATH%`, "50%"}, `"n.bat" "%%cd:~,%PATH%%cd:~,%" "50%%cd:~,%"`},
		{`n.bat`, []string{`C:\dir\`, `C:\a b\`, `a\"b`}, `"n.bat" "C:\dir\\" "C:\a b\\" "a\\""b"`},
		{`n.bat`, []string{"a^b", "a|b", "a>b", "a,b;c=d", "!x!", "(x)", "é"}, `"n.bat" "a^b" "a|b" "a>b" "a,b;c=d" "!x!" "(x)" "é"`},
	} {
		got, err := batchLine(`C:\Windows\System32\cmd.exe`, c.path, c.args)
		if want := head + c.want + `"`; err != nil || got != want {
			t.Errorf("%q %q:\n%s, %v\n%s", c.path, c.args, got, err, want)
		}
	}
	for _, arg := range []string{"a\nb", "a\rb", "a\x00b"} {
		if line, err := batchLine("cmd", "n.cmd", []string{"x", arg}); !errors.Is(err, errBatchArgument) {
			t.Errorf("%q: %s", arg, line)
		}
	}
	for path, want := range map[string]bool{`npx.cmd`: true, `NPX.CMD`: true, `x.bat`: true, `x.bat. `: true, `x.exe`: false, `cmd`: false, `x.cmd.exe`: false} {
		if isBatch(path) != want {
			t.Errorf("isBatch(%q) is not %v", path, want)
		}
	}
}

// FuzzBatchLine: outside of quotes nothing stands that means anything to cmd.exe.
func FuzzBatchLine(f *testing.F) {
	for _, s := range []string{`a"b`, `\"`, `%x%`, `" & calc`, `\\\`, "a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		var b strings.Builder
		if strings.ContainsAny(arg, "\x00\r\n") {
			return
		}
		batchArgument(&b, arg, false)
		quoted := false
		for _, c := range b.String() {
			if c == '"' {
				quoted = !quoted
			} else if !quoted && strings.ContainsRune(" \t&|<>^()%!,;=", c) {
				t.Fatalf("%q becomes %q", arg, b.String())
			}
		}
		if quoted {
			t.Fatalf("%q becomes %q, whose quote stays open", arg, b.String())
		}
	})
}
