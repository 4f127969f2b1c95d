package config

import "fmt"

// ParseServer reads one server that a host gave as JSON, in mcprt's own dialect.
// What would be mended in a file is an error here: the host's author is there to
// correct it. The error says the first thing that is wrong; the diagnostics say
// all.
//
// The entry belongs to no discovery: its relative paths are resolved against
// ResolveOptions.Cwd.
func ParseServer(name string, raw []byte) (*Entry, []Diagnostic, error) {
	e, diagnostics, err := parseInline(name, raw)
	if err == nil && e.overlay {
		return nil, diagnostics, fmt.Errorf("server %q: this server cannot be started: give it a command, or a url", name)
	}
	return e, diagnostics, err
}

// parseInline also accepts an entry that only switches a server of a file.
func parseInline(name string, raw []byte) (*Entry, []Diagnostic, error) {
	d := ownDialect
	d.Strict = true
	rep := &report{}
	e := readInline(name, raw, d, rep)
	for _, found := range rep.list {
		if found.Severity == SeverityError {
			return nil, rep.list, inlineError(name, found)
		}
	}
	e.Origin = Origin{Provider: inlineID, ProviderName: "Inline", Level: LevelHost}
	e.Trusted = true
	err := e.seal("", "", "", nil) // reads no file: the host's own entries need no record
	return e, rep.list, err
}

func inlineError(name string, d Diagnostic) error {
	where := ""
	if d.Field != "" {
		where = d.Field + ": "
	}
	return fmt.Errorf("server %q: %s%s", clip(name), where, d.Message)
}

// readInline returns nil only after it reported an error.
func readInline(name string, raw []byte, d Dialect, rep *report) *Entry {
	text, _, err := decodeText(raw)
	if err != nil {
		rep.add(SeverityError, "invalid_encoding", name, "", Pos{}, "%v", err)
		return nil
	}
	f := newJSONFile(text)
	top, ok, err := f.root()
	if err != nil {
		rep.syntax(name, "", err)
		return nil
	}
	if !ok {
		rep.add(SeverityError, "wrong_type", name, "", Pos{}, "a server must be an object with a command or a url, not an empty text")
		return nil
	}
	n, err := f.node(top, func(key string, at Pos) { rep.duplicateKey(name)(span{name: key, pos: at}) })
	if err != nil {
		rep.syntax(name, "", err)
		return nil
	}
	return mapEntry(name, Pos{}, n, d, rep)
}
