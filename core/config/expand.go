package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

// expander expands the variables in one string, in a single pass: what a
// variable holds is never looked at again, so a value cannot smuggle in another
// variable.
type expander struct {
	syntax  VarSyntax
	windows bool // %VAR% is a form
	// lookup finds a variable; ok tells an empty one from an unset one.
	lookup func(name string) (value string, ok bool)
	// input finds the answer to ${input:id}.
	input func(id string) (value string, ok bool)
	// helper gives what a helper command prints.
	helper func(command string) (string, error)
	// file reads the target of {file:path}.
	file func(path string) (value string, err error)
}

// problem is one thing that expansion found. A fatal one means that the server
// must not be started with the result.
type problem struct {
	code  string
	fatal bool
	input string // id of the input that is missing
	text  string
}

// expansion is an expanded string and the values that went into it.
type expansion struct {
	text     string
	problems []problem
	used     []usedVariable
}

type usedVariable struct{ name, value string }

var (
	variableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// hostForms are prefixes that only the tool they were written for can answer.
	dollarForm = lazy.Regexp(`\$\{[A-Za-z_]`)
	// foreignBrace is a {env:…} or {file:…} that no $ stands before.
	foreignBrace = lazy.Regexp(`(^|[^$])\{(env|file):`)
	bareForm     = lazy.Regexp(`^\$[A-Za-z_][A-Za-z0-9_]*`)
	bareAfter    = lazy.Regexp(`^\$\$[A-Za-z0-9_]*`)
	anyBare      = lazy.Regexp(`\$[A-Za-z_]`)
	anyPercent   = lazy.Regexp(`%[A-Za-z_][A-Za-z0-9_()]*%`)
	percentForm  = lazy.Regexp(`^%[A-Za-z_][A-Za-z0-9_()]*%`)
	// foreignWhole is a value that is nothing but a variable in another dialect, or a path
	// that begins with one: of a shell, of PowerShell, of Windows. Other parts of values may
	// mean what they say.
	foreignWhole = lazy.Regexp(`^(?:(?i:bearer|basic|token) )?(?:\$env:[A-Za-z_]\w*|\$[A-Z][A-Z0-9_]+|%[A-Z][A-Z0-9_]+%)(?:[/\\].*)?$`)
	hostForms    = lazy.Regexp(`^(command|config|promptString):`)
)

// in says whether s holds a variable, as far as its form tells.
func (v VarSyntax) in(s string) bool {
	return v.Dollar && strings.Contains(s, "${") || v.Braces && (strings.Contains(s, "{env:") || strings.Contains(s, "{file:")) ||
		v.Bare && anyBare().MatchString(s) || v.Percent && anyPercent().MatchString(s)
}

func (x *expander) expand(s string) expansion {
	var out expansion
	var b strings.Builder
	if !x.syntax.Braces && foreignBrace().MatchString(s) {
		out.warn("literal_variable", "{env:…} and {file:…} are not expanded in this file's dialect; write ${NAME}")
	}
	if !x.syntax.Dollar && dollarForm().MatchString(s) {
		out.warn("literal_variable", "${…} is not expanded here in this file's dialect; it was kept as it is")
	}
	if !x.syntax.Bare && foreignWhole().MatchString(s) {
		advice := "it was kept as it is"
		if x.syntax.Dollar {
			advice = "write ${NAME} if a variable is meant"
		} else if x.syntax.Braces {
			advice = "write {env:NAME} if a variable is meant"
		}
		out.warn("literal_variable", "%s are not expanded here in this file's dialect; %s", "$NAME and %NAME%", advice)
	}
	for i := 0; i < len(s); {
		rest := s[i:]
		switch {
		case x.syntax.Bare && strings.HasPrefix(rest, "$$") && !strings.HasPrefix(rest, "$${"):
			b.WriteString("$$") // "pa$$word" is no variable
			i += len(bareAfter().FindString(rest))
			b.WriteString(bareAfter().FindString(rest)[len("$$"):])
		case x.syntax.Bare && bareForm().MatchString(rest):
			form := bareForm().FindString(rest)
			b.WriteString(x.value(form[1:], &out))
			i += len(form)
		case x.syntax.Percent && x.windows && percentForm().MatchString(rest):
			form := percentForm().FindString(rest)
			b.WriteString(x.value(form[1:len(form)-1], &out))
			i += len(form)
		case x.syntax.Dollar && strings.HasPrefix(rest, "$${"):
			b.WriteString("${")
			i += len("$${")
		case x.syntax.Dollar && strings.HasPrefix(rest, "${"):
			n := closing(rest)
			if n < 0 {
				out.warn("literal_variable", "a \"${\" without a closing \"}\" was kept as it is")
				b.WriteString(rest)
				i = len(s)
				continue
			}
			b.WriteString(x.dollar(rest[:n], &out))
			i += n
		case x.syntax.Braces && (strings.HasPrefix(rest, "{env:") || strings.HasPrefix(rest, "{file:")):
			n := strings.IndexByte(rest, '}') + 1
			if n == 0 {
				out.warn("literal_variable", "a \"{env:\" or \"{file:\" without a closing \"}\" was kept as it is")
				b.WriteString(rest)
				i = len(s)
				continue
			}
			b.WriteString(x.brace(rest[1:n-1], &out))
			i += n
		default:
			b.WriteByte(s[i])
			i++
		}
		if b.Len() > maxValueBytes { // a few characters can name a large variable often
			out.fail("too_large", "after expansion it is longer than %s bytes", strconv.Itoa(maxValueBytes))
			out.used = nil
			return out
		}
	}
	out.text = b.String()
	return out
}

// closing finds the end of the ${…} that s begins with, other ${…} in it
// included, or -1.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '{':
			depth++
			i++
		case s[i] == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// dollar expands one ${…}.
func (x *expander) dollar(form string, out *expansion) string {
	inner := form[2 : len(form)-1]
	if strings.Contains(inner, "${") {
		out.warn("literal_variable", "a variable inside a variable is not supported; %s was kept as it is", shown(form))
		return form
	}
	if id, ok := strings.CutPrefix(inner, "input:"); ok {
		if x.input != nil {
			if value, ok := x.input(id); ok {
				out.used = append(out.used, usedVariable{"input:" + id, value})
				return value
			}
		}
		out.problems = append(out.problems, problem{code: "needs_input", fatal: true, input: id,
			text: "the value of ${input:" + clip(id) + "} must be given by the host"})
		return ""
	}
	if path, ok := strings.CutPrefix(inner, "file:"); ok && x.syntax.DollarFile {
		return x.content(path, out)
	}
	if hostForms().MatchString(inner) {
		out.fail("unsupported_variable", "%s can be answered only by the editor it was written for; write the value, or an environment variable", shown(form))
		return ""
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(inner, "env:"), ":-")
	if name == "/" { // the path separator in editors' dialects
		if value, ok := x.lookup(name); ok {
			return value
		}
	}
	if !variableName().MatchString(name) {
		out.warn("literal_variable", "%s is no variable that mcprt knows; it was kept as it is", shown(form))
		return form
	}
	value, ok := x.lookup(name)
	switch {
	case ok && (value != "" || !hasFallback):
		out.used = append(out.used, usedVariable{name, value})
		return value
	case hasFallback:
		return fallback
	}
	x.unset(name, out)
	return ""
}

// brace expands the inside of {env:VAR} or {file:path}.
func (x *expander) brace(inner string, out *expansion) string {
	kind, arg, _ := strings.Cut(inner, ":")
	if kind == "env" {
		return x.value(arg, out)
	}
	return x.content(arg, out)
}

// value is a variable that must be set.
func (x *expander) value(name string, out *expansion) string {
	value, ok := x.lookup(name)
	if !ok {
		x.unset(name, out)
		return ""
	}
	out.used = append(out.used, usedVariable{name, value})
	return value
}

// content is what is in a file.
func (x *expander) content(path string, out *expansion) string {
	value, err := x.file(path)
	if err != nil {
		out.fail("unreadable_file", "the file of {file:%s} was not read: %s", path, reason(err))
		return ""
	}
	value = strings.TrimRight(value, "\r\n")
	out.used = append(out.used, usedVariable{"file:" + path, value})
	return value
}

// shown is a form for a message: without its default, which may be a secret.
func shown(form string) string {
	name, _, cut := strings.Cut(form, ":-")
	if cut {
		return name + ":-…}"
	}
	return form
}

func (x *expander) unset(name string, out *expansion) {
	if !x.syntax.Dollar {
		out.fail("unresolved_variable", "the environment variable %s is not set; set it", name)
		return
	}
	out.fail("unresolved_variable", "the environment variable %s is not set; set it, or write ${%s:-default}", name, name)
}

func (out *expansion) warn(code, format string, args ...any) {
	out.problems = append(out.problems, newProblem(code, false, format, args))
}

func (out *expansion) fail(code, format string, args ...any) {
	out.problems = append(out.problems, newProblem(code, true, format, args))
}

func newProblem(code string, fatal bool, format string, args []any) problem {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = clip(s)
		}
	}
	return problem{code: code, fatal: fatal, text: fmt.Sprintf(format, args...)}
}
