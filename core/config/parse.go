package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxServers bounds the entries of one file.
const maxServers = 10_000

// section reads a further part of a file beside its map of servers.
type section func(f document, root []span, in Input, rep *report, out *Parsed)

// parseFile reads a file whose servers lie where the dialect says. Its name
// tells its format.
func parseFile(in Input, sections ...section) Parsed {
	rep := &report{path: in.Path}
	var out Parsed
	parseRoot(in, rep, &out, sections)
	out.Diagnostics = rep.list
	return out
}

func parseRoot(in Input, rep *report, out *Parsed, sections []section) {
	text, a, err := in.text()
	if err != nil {
		rep.add(SeverityError, "invalid_encoding", "", "", Pos{}, "this file cannot be read as text: %v", err)
		return
	}
	f, top, ok, err := openDocument(in.Path, text, a)
	if errors.Is(err, errNotUTF8) {
		rep.add(SeverityWarning, "invalid_encoding", "", "", Pos{},
			"this file holds bytes that are not UTF-8; they were replaced. Save it as UTF-8")
		f, top, ok, err = openDocument(in.Path, mend(text), nil)
	}
	if f != nil {
		for _, lost := range f.losses() {
			rep.add(SeverityError, "syntax", "", "", lost.pos, "%s. Mend the file; until then a part of it is ignored", lost.msg)
		}
	}
	if err != nil {
		rep.syntax("", "", err)
		return
	}
	defer func() { // when all that matters was skimmed
		for _, slip := range f.slips() {
			rep.add(SeverityWarning, "syntax", "", "", slip.pos, "%s. Mend the file: it was read here as if it were right, other programs refuse it", slip.msg)
		}
	}()
	switch {
	case !ok: // an empty file holds no servers, and nothing is wrong with it
		return
	case f.kind(top) == KindNull:
		rep.add(SeverityWarning, "null_root", "", "", top.pos(), "this file holds only null; write {\"mcpServers\": {}} or remove it")
		return
	case f.kind(top) != KindObject:
		rep.add(SeverityError, "wrong_type", "", "", top.pos(), "an object is expected at the top of this file, such as {\"mcpServers\": {…}}")
		return
	}
	root, err := f.skim(top, nil, rep.duplicateKey(""))
	if err != nil {
		rep.syntax("", "", err)
		return
	}
	p := &fileParser{document: f, in: in, rep: rep}
	s, beside, wrapped := p.wrapped(root)
	switch {
	case wrapped:
		out.Entries = p.servers(s, in.Level)
		p.prompts(beside, out.Entries)
	case in.Dialect.WholeFile:
		out.Entries = p.bare(top, root)
	}
	for _, read := range sections {
		read(f, root, in, rep, out)
	}
	if !wrapped && len(out.Entries) == 0 {
		p.misspelt(root)
	}
}

// misspelt tells of the member that was meant to hold the servers of a file which has
// none: it is called nearly as it must be, or holds objects in a file for servers alone.
func (f *fileParser) misspelt(root []span) {
	for _, s := range root {
		if f.kind(s) != KindObject {
			continue
		}
		for _, path := range f.in.Dialect.Wrappers {
			if s.name == path[0] || len(path[0]) < 6 || len(s.name) > len(path[0])+3 || levenshtein.ComputeDistance(fold(s.name), fold(path[0])) > 2 {
				continue
			}
			f.rep.add(SeverityWarning, "unknown_wrapper", "", s.name, s.pos(), "servers are read from %q; rename %q if it holds servers", path[0], clip(s.name))
			return
		}
		if slices.Contains(plainWrappers, s.name) && f.holdsServers(s) { // another tool's word
			f.rep.add(SeverityWarning, "unknown_wrapper", "", s.name, s.pos(), "servers are read from %q in this tool's file, not from %q; rename it",
				strings.Join(f.in.Dialect.Wrappers[0], "."), s.name)
			return
		}
		if !f.in.Dialect.WholeFile {
			continue
		}
		members, err := f.skim(s, nil, nil)
		if err != nil || len(members) == 0 || slices.ContainsFunc(members, func(m span) bool { return f.kind(m) != KindObject }) {
			continue
		}
		f.rep.add(SeverityWarning, "unknown_wrapper", "", s.name, s.pos(), "no servers are read from %q; rename it to %q if it holds servers", clip(s.name), f.in.Dialect.Wrappers[0][0])
		return
	}
}

// fileParser reads one file's entries.
type fileParser struct {
	document
	in  Input
	rep *report
}

// wrapped follows the dialect's member paths to the first map that holds anything, and
// gives the members beside it, too. A further map of servers is not read, as it is not in
// the tool whose file it is.
func (f *fileParser) wrapped(root []span) (s span, beside []span, ok bool) {
	chosen := ""
	for _, path := range f.in.Dialect.Wrappers {
		here, members, found := f.follow(root, path)
		switch {
		case !found:
		case !ok || chosen == "" && !f.void(here):
			s, beside, ok = here, members, true
			if !f.void(here) {
				chosen = strings.Join(path, ".")
			}
		case chosen != "" && here.start != s.start && f.holdsServers(here):
			f.rep.add(SeverityWarning, "unknown_wrapper", "", here.name, here.pos(),
				"the servers in %q are not read, since those in %q are; move them there", strings.Join(path, "."), chosen)
		}
	}
	return s, beside, ok
}

func (f *fileParser) follow(root []span, path []string) (s span, members []span, ok bool) {
	members = root
	for i, name := range path {
		if i > 0 {
			var err error
			if f.kind(s) != KindObject {
				return span{}, nil, false
			}
			if members, err = f.skim(s, nil, nil); err != nil {
				return span{}, nil, false
			}
		}
		if s, ok = find(members, name); !ok {
			return span{}, nil, false
		}
	}
	return s, members, true
}

// void says that no server can be in this value: null, or an object without members.
func (f *fileParser) void(s span) bool {
	if f.kind(s) != KindObject {
		return f.kind(s) == KindNull
	}
	members, err := f.skim(s, nil, nil)
	return err == nil && len(members) == 0
}

// holdsServers says that this is an object of objects that look like servers.
func (f *fileParser) holdsServers(s span) bool {
	if f.kind(s) != KindObject {
		return false
	}
	members, err := f.skim(s, nil, nil)
	return err == nil && len(members) > 0 && !slices.ContainsFunc(members, func(m span) bool { return !f.looksLikeServer(m) })
}

func (f *fileParser) looksLikeServer(s span) bool {
	if f.kind(s) != KindObject {
		return false
	}
	members, err := f.skim(s, nil, nil)
	return err == nil && slices.ContainsFunc(members, func(m span) bool { return f.in.Dialect.launches(m.name) })
}

func find(members []span, name string) (span, bool) {
	i := slices.IndexFunc(members, func(s span) bool { return s.name == name })
	if i < 0 {
		return span{}, false
	}
	return members[i], true
}

// launches says whether a member's name lets its object be told to be a server.
func (d *Dialect) launches(name string) bool {
	field := d.field(name)
	return field == "command" || field == "type" || d.urlRank(name) >= 0
}

// bare reads files without a wrapper: a map of servers, or one server, as people
// paste them from READMEs.
func (f *fileParser) bare(top span, root []span) []*Entry {
	if s, ok := find(root, "command"); !ok || f.kind(s) != KindString {
		s, ok = find(root, "url")
		if !ok || f.kind(s) != KindString {
			return f.bareMap(top, root)
		}
	}
	base := filepath.Base(f.in.Path)
	top.name = strings.TrimPrefix(strings.TrimSuffix(base, filepath.Ext(base)), ".")
	if top.name == "" {
		top.name = strings.TrimPrefix(base, ".")
	}
	f.rep.add(SeverityNote, "bare_root", top.name, "", top.pos(),
		"this file is one server without a name, so it is called %q; write {\"mcpServers\": {\"<name>\": {…}}}", top.name)
	return f.entries([]span{top}, f.in.Level)
}

func (f *fileParser) bareMap(top span, root []span) []*Entry {
	if !f.holdsServers(top) {
		return nil
	}
	f.rep.add(SeverityNote, "bare_root", "", "", top.pos(), "this file has no \"mcpServers\" around its servers; they were read all the same")
	return f.entries(root, f.in.Level)
}

// servers reads a map of servers, or a list of servers with names.
func (f *fileParser) servers(s span, level Level) []*Entry {
	var list *Node
	switch f.kind(s) {
	case KindNull:
		f.rep.add(SeverityWarning, "wrong_type", "", s.name, s.pos(), "%s is null; it was read as {}", s.name)
		return nil
	case KindArray:
		var err error
		if list, err = f.node(s, nil); err != nil {
			f.rep.syntax("", s.name, err)
			return nil
		}
	}
	switch {
	case f.kind(s) == KindObject:
	case list != nil && slices.ContainsFunc(list.Items, func(item *Node) bool { return item.Kind == KindObject }):
		return f.named(s, list, level)
	default:
		f.rep.add(SeverityError, "wrong_type", "", s.name, s.pos(), "%s must be an object of servers by name", s.name)
		return nil
	}
	members, err := f.skim(s, nil, f.rep.duplicateServer)
	if err != nil {
		f.rep.syntax("", s.name, err)
		return nil
	}
	return f.entries(members, level)
}

func (r *report) duplicateServer(s span) {
	r.add(SeverityWarning, "duplicate_server", s.name, "", s.pos(),
		"this file names the server %q twice; the last one is used. Rename or remove one", s.name)
}

// named reads a list of servers that each hold their name.
func (f *fileParser) named(s span, list *Node, level Level) []*Entry {
	var members []span
	for i, item := range list.Items {
		j := slices.IndexFunc(item.Members, func(m Member) bool { return fold(m.Name) == "name" && m.Value.Kind == KindString })
		if j < 0 {
			f.rep.add(SeverityError, "invalid_name", "", indexed(s.name, i), item.Pos, "this item of %s has no name; it is ignored", s.name)
			continue
		}
		members = append(members, span{name: item.Members[j].Value.Text, at: item.Pos, value: item})
	}
	members = lastWins(members, func(s span) string { return s.name }, f.rep.duplicateServer)
	decoded := &fileParser{document: &tree{}, in: f.in, rep: f.rep}
	return decoded.entries(members, level)
}

func (f *fileParser) entries(members []span, level Level) []*Entry {
	if len(members) > maxServers {
		f.rep.add(SeverityError, "too_large", "", "", members[maxServers].pos(),
			"this file names more than %d servers; those from here on are ignored", maxServers)
		members = members[:maxServers]
	}
	var entries []*Entry
	for _, s := range members {
		n, err := f.node(s, func(name string, at Pos) { f.rep.duplicateKey(s.name)(span{name: name, at: at}) })
		if err != nil {
			f.rep.syntax(s.name, "", err)
			continue
		}
		var e *Entry
		at := s.pos()
		if f.in.Dialect.Layered && n.Kind == KindObject && badName(s.name) == "" {
			e = &Entry{Name: s.name, node: n, Origin: Origin{Line: at.Line, Column: at.Column}}
		} else {
			e = mapEntry(s.name, at, n, f.in.Dialect, f.rep)
		}
		if e != nil {
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
		r.add(SeverityWarning, "duplicate_key", server, s.name, s.pos(), "%q stands here twice; the last one is used. Remove one", s.name)
	}
}
