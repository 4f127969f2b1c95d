package config

import (
	"fmt"
	"strings"
)

// Severities of a Diagnostic.
const (
	SeverityError   = "error"   // the file, entry or field is not used
	SeverityWarning = "warning" // used, after something was mended or may not work
	SeverityNote    = "note"    // nothing is wrong; worth knowing
)

// maxDiagnostics bounds what one file can say, so that a hostile file cannot
// drown the findings of the others.
const maxDiagnostics = 500

// maxMessageBytes bounds one message, which may quote a name from the file.
const maxMessageBytes = 1000

// clip shortens text from a file for a message.
func clip(s string) string { return clipTo(s, 60) }

func clipTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// report collects the diagnostics of one file.
type report struct {
	path string
	list []Diagnostic
	full bool
	said int // of the same file, in another report before
}

func (r *report) add(severity, code, server, field string, at Pos, format string, args ...any) {
	if r.full {
		return
	}
	d := Diagnostic{Severity: severity, Code: code, Server: clipTo(server, maxNameBytes), Field: clipTo(field, maxNameBytes), Path: r.path,
		Line: at.Line, Column: at.Column, Message: clipTo(fmt.Sprintf(format, args...), maxMessageBytes)}
	if r.said+len(r.list) == maxDiagnostics {
		r.full = true
		d = Diagnostic{Severity: SeverityNote, Code: "too_many_diagnostics", Path: r.path,
			Message: fmt.Sprintf("this file has more than %d findings; mend these first, the rest is not shown", maxDiagnostics)}
	}
	r.list = append(r.list, d)
}
