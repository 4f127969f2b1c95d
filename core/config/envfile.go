package config

import "strings"

// parseEnvFile reads the lines NAME=value of an envFile. It expands nothing, as
// the files' values are used as they are; that, and looking at no process
// environment, is why no dotenv library is used here.
//
// Comments (#), "export ", single quotes (verbatim), double quotes (with \n, \",
// \\ …) and values over several quoted lines are understood. A line that is none
// of these is skipped and named in bad.
func parseEnvFile(data []byte) (vars map[string]string, bad []int) {
	vars = map[string]string{}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	line := 0
	for text != "" {
		line++
		var current string
		current, text, _ = strings.Cut(text, "\n")
		current = strings.TrimSpace(current)
		if current == "" || current[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(current, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !validVariable(name, value) || strings.ContainsAny(name, " \t\"'") {
			bad = append(bad, line)
			continue
		}
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			body, rest, lines, ok := quoted(value, text)
			if !ok || !validVariable(name, body) {
				bad = append(bad, line)
				continue
			}
			text = rest
			if !validVariable(name, body) { // a NUL on a later line
				bad = append(bad, line)
				line += lines
				continue
			}
			value = body
			line += lines
		} else if i := strings.Index(" "+value, " #"); i >= 0 {
			value = strings.TrimSpace(value[:max(0, i-1)])
		}
		vars[name] = value
	}
	return vars, bad
}

// quoted reads a quoted value that begins in first and may go on in rest.
func quoted(first, rest string) (value, left string, lines int, ok bool) {
	quote, body := first[0], first[1:]+"\n"+rest
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == quote:
			_, left, _ = strings.Cut(body[i:], "\n")
			return b.String(), left, lines, true
		case c == '\\' && quote == '"' && i+1 < len(body):
			i++
			b.WriteString(unescape(body[i]))
			if body[i] == '\n' {
				lines++
			}
		default:
			if c == '\n' {
				lines++
			}
			b.WriteByte(c)
		}
	}
	return "", rest, 0, false
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$', '`', '\n':
		return string(c)
	}
	return `\` + string(c)
}
