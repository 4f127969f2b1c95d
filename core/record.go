package core

import (
	"path/filepath"
	"strings"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/trace"
)

// record begins the trace that the option asks for. A trace that cannot be written
// is a diagnostic: it is no reason to have no tools.
func (m *Manager) record() {
	o := m.opts.Trace
	if o == nil {
		return
	}
	file := o.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(m.opts.Cwd, file)
	}
	payload := o.PayloadBytes
	if payload == 0 {
		payload = -1
	}
	r, err := trace.Open(trace.Options{
		File: file, MaxBytes: o.MaxBytes, PayloadBytes: payload, Version: Version,
		Redactor: func(secrets []string) func(string) string {
			known := config.NewRedactor(secrets)
			return func(text string) string { return config.RedactText(known.Redact(text)) }
		},
		Secrets: m.credentials.secrets,
		Failed:  func(err error) { m.tell(diagnosticNotice{traceLost(err)}) },
	})
	if err != nil {
		m.warned = append(m.warned, config.Diagnostic(traceLost(err)))
		return
	}
	m.trace = r
}

func traceLost(err error) diagnostic {
	return diagnostic{Severity: "warning", Code: "trace_unavailable", Field: "trace.file", Message: "nothing is recorded from now on: " + err.Error()}
}

// traceStart records that an attempt begins, and what it starts.
func (m *Manager) traceStart(e *config.Entry, gen uint64) *trace.Attempt {
	if m.trace == nil {
		return nil
	}
	shown := config.Redact(e.Server)
	target := shown.URL
	if target == "" {
		target = strings.Join(append([]string{shown.Command}, shown.Args...), " ")
	}
	return m.trace.Start(e.Name, gen, shown.Type, target)
}
