package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// maxServers bounds the entries of one file.
const maxServers = 10_000

// section reads a further part of a file beside its map of servers.
type section func(f *jsonFile, root []span, in Input, rep *report, out *Parsed)

// parseJSON reads a JSONC file whose servers lie where the dialect says.
func parseJSON(in Input, sections ...section) Parsed {
	rep := &report{path: in.Path}
	var out Parsed
	parseRoot(in, rep, &out, sections)
	out.Diagnostics = rep.list
	return out
}

func parseRoot(in Input, rep *report, out *Parsed, sections []section) {
	f, mended, err := newJSONFile(in.Data)
	if err != nil {
		rep.add(SeverityError, "invalid_encoding", "", "", Pos{}, "this file cannot be read as text: %v", err)
		return
	}
	if mended {
		rep.add(SeverityWarning, "invalid_encoding", "", "", Pos{},
			"this file holds bytes that are not UTF-8; they were replaced. Save it as UTF-8")
	}
	top, ok, err := f.root()
	switch {
	case err != nil:
		rep.syntax("", "", err)
		return
	case !ok: // an empty file holds no servers, and nothing is wrong with it
		return
	case f.kind(top) == KindNull:
		rep.add(SeverityWarning, "null_root", "", "", top.pos, "this file holds only null; write {\"mcpServers\": {}} or remove it")
		return
	case f.kind(top) != KindObject:
		rep.add(SeverityError, "wrong_type", "", "", top.pos, "an object is expected at the top of this file, such as {\"mcpServers\": {…}}")
		return
	}
	root, err := f.skim(top, rep.duplicateKey(""))
	if err != nil {
		rep.syntax("", "", err)
		return
	}
	switch s, ok := f.wrapped(root, in.Dialect.Wrappers); {
	case ok:
		out.Entries = f.servers(s, in.Level, in.Dialect, rep)
	case in.Dialect.WholeFile:
		out.Entries = f.bare(top, root, in, rep)
	}
	for _, read := range sections {
		read(f, root, in, rep, out)
	}
}

// wrapped follows the first of the member paths that exists.
func (f *jsonFile) wrapped(root []span, wrappers [][]string) (span, bool) {
next:
	for _, path := range wrappers {
		members, s := root, span{}
		for i, name := range path {
			if i > 0 {
				var err error
				if f.kind(s) != KindObject {
					continue next
				}
				if members, err = f.skim(s, nil); err != nil {
					continue next
				}
			}
			var ok bool
			if s, ok = find(members, name); !ok {
				continue next
			}
		}
		return s, true
	}
	return span{}, false
}

func find(members []span, name string) (span, bool) {
	i := slices.IndexFunc(members, func(s span) bool { return s.name == name })
	if i < 0 {
		return span{}, false
	}
	return members[i], true
}

// launchKeys are members by which an object can be told to be a server.
var launchKeys = append([]string{"command", "type", "transport", "transportType"}, commonURLKeys...)

// bare reads files without a wrapper: a map of servers, or one server, as people
// paste them from READMEs.
func (f *jsonFile) bare(top span, root []span, in Input, rep *report) []*Entry {
	if s, ok := find(root, "command"); !ok || f.kind(s) != KindString {
		s, ok = find(root, "url")
		if !ok || f.kind(s) != KindString {
			return f.bareMap(top, root, in, rep)
		}
	}
	base := filepath.Base(in.Path)
	top.name = strings.TrimPrefix(strings.TrimSuffix(base, filepath.Ext(base)), ".")
	if top.name == "" {
		top.name = strings.TrimPrefix(base, ".")
	}
	rep.add(SeverityNote, "bare_root", top.name, "", top.pos,
		"this file is one server without a name, so it is called %q; write {\"mcpServers\": {\"<name>\": {…}}}", top.name)
	return f.entries([]span{top}, in.Level, in.Dialect, rep)
}

func (f *jsonFile) bareMap(top span, root []span, in Input, rep *report) []*Entry {
	if len(root) == 0 {
		return nil
	}
	for _, s := range root {
		if f.kind(s) != KindObject {
			return nil
		}
		members, err := f.skim(s, nil)
		if err != nil || !slices.ContainsFunc(members, func(m span) bool { return slices.Contains(launchKeys, m.name) }) {
			return nil
		}
	}
	rep.add(SeverityNote, "bare_root", "", "", top.pos, "this file has no \"mcpServers\" around its servers; they were read all the same")
	return f.entries(root, in.Level, in.Dialect, rep)
}

// servers reads a map of servers.
func (f *jsonFile) servers(s span, level Level, d Dialect, rep *report) []*Entry {
	switch f.kind(s) {
	case KindObject:
	case KindNull:
		rep.add(SeverityWarning, "wrong_type", "", s.name, s.pos, "%s is null; it was read as {}", s.name)
		return nil
	default:
		rep.add(SeverityError, "wrong_type", "", s.name, s.pos, "%s must be an object of servers by name", s.name)
		return nil
	}
	members, err := f.skim(s, func(d span) {
		rep.add(SeverityWarning, "duplicate_server", d.name, "", d.pos,
			"this file names the server %q twice; the last one is used. Rename or remove one", d.name)
	})
	if err != nil {
		rep.syntax("", s.name, err)
		return nil
	}
	return f.entries(members, level, d, rep)
}

func (f *jsonFile) entries(members []span, level Level, d Dialect, rep *report) []*Entry {
	if len(members) > maxServers {
		rep.add(SeverityError, "too_large", "", "", members[maxServers].pos,
			"this file names more than %d servers; those from here on are ignored", maxServers)
		members = members[:maxServers]
	}
	var entries []*Entry
	for _, s := range members {
		n, err := f.node(s, func(name string, at Pos) { rep.duplicateKey(s.name)(span{name: name, pos: at}) })
		if err != nil {
			rep.syntax(s.name, "", err)
			continue
		}
		if e := mapEntry(s.name, s.pos, n, d, rep); e != nil {
			e.Origin.Level = level
			entries = append(entries, e)
		}
	}
	return entries
}

// syntax reports a text that could not be read.
func (r *report) syntax(server, field string, err error) {
	var s *syntaxError
	if errors.As(err, &s) {
		r.add(SeverityError, "syntax", server, field, s.pos, "%s. Mend the file; until then %s is ignored", s.msg, ignored(server, field))
		return
	}
	r.add(SeverityError, "too_large", server, field, Pos{}, "%v; %s is ignored", err, ignored(server, field))
}

func ignored(server, field string) string {
	switch {
	case server != "":
		return "this server"
	case field != "":
		return field
	}
	return "the whole file"
}

// duplicateKey reports a member that stands twice in one object.
func (r *report) duplicateKey(server string) func(span) {
	return func(s span) {
		r.add(SeverityWarning, "duplicate_key", server, s.name, s.pos, "%q stands here twice; the last one is used. Remove one", s.name)
	}
}
