package transport

import (
	"errors"
	"strings"
)

// A .cmd or .bat file is run by cmd.exe, which reads its command line by rules of its
// own: an argument that is quoted as programs expect it could end there and begin
// another command (CVE-2024-24576). On Windows npx is such a file.

// isBatch tells a file that cmd.exe runs.
func isBatch(path string) bool {
	lower := strings.ToLower(strings.TrimRight(path, " .")) // which Windows ignores
	return strings.HasSuffix(lower, ".cmd") || strings.HasSuffix(lower, ".bat")
}

var errBatchArgument = errors.New("a line end or a NUL in an argument of a batch file cannot be passed on; name the program behind the file as command, or pass the text another way")

// batchLine is the whole command line with which shell, a cmd.exe, runs a batch file.
func batchLine(shell, path string, args []string) (string, error) {
	var b strings.Builder
	// No AutoRun commands, extensions for the trick with %, no delayed expansion.
	b.WriteString(`"` + shell + `" /d /e:ON /v:OFF /c "`)
	for i, arg := range append([]string{path}, args...) {
		if strings.ContainsAny(arg, "\x00\r\n") {
			return "", errBatchArgument
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		batchArgument(&b, arg, i == 0)
	}
	b.WriteByte('"')
	return b.String(), nil
}

// batchPlain are the characters beside letters and digits that mean nothing to cmd.exe
// nor to what reads the arguments of a batch file.
const batchPlain = `#$*+-./:?@\_`

func batchArgument(b *strings.Builder, arg string, quote bool) {
	quote = quote || arg == "" || strings.HasSuffix(arg, `\`) || strings.ContainsFunc(arg, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(batchPlain, c))
	})
	if !quote {
		b.WriteString(arg)
		return
	}
	b.WriteByte('"')
	slashes := 0 // in a row: before a quote they would escape it for the program behind
	for _, c := range arg {
		switch c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes) + `"`)
			slashes = 0
		case '%':
			b.WriteString(`%%cd:~,`) // the variable %cd:~,% is empty, so that a % stays a %
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteRune(c)
	}
	b.WriteString(strings.Repeat(`\`, slashes) + `"`)
}
