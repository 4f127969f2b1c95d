package config

import (
	"fmt"
	"slices"
)

// merge settles who owns each name. The entries come in the order of ownership.
func (r *Result) merge(entries []*Entry) {
	owners := map[string]*Entry{}
	switches := map[string]*Entry{} // overlays whose server has not come yet
	for _, e := range entries {
		owner, owned := owners[e.Name]
		overlay, switched := switches[e.Name]
		switch {
		case owned:
			r.shadow(e, owner)
		case e.overlay && !e.Trusted:
			r.note("untrusted_overlay", e, "this entry has no command or url and is not trusted, so it switches nothing")
		case e.overlay && switched:
			r.shadow(e, overlay)
		case e.overlay:
			switches[e.Name] = e
		default:
			if switched {
				e.Enabled = overlay.Enabled
			}
			// An untrusted entry owns no name: a stranger's file must not take the
			// place of a server that the user set up.
			if e.Trusted {
				owners[e.Name] = e
			}
			r.Entries = append(r.Entries, e)
		}
	}
	for _, name := range sortedKeys(switches) {
		if !slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.Name == name }) {
			r.note("overlay_without_server", switches[name], "this entry has no command or url, and no other file names this server; give it one or remove it")
		}
	}
}

func (r *Result) shadow(loser, winner *Entry) {
	r.Shadowed = append(r.Shadowed, Shadowed{Name: loser.Name, Source: loser.Origin, By: winner.Origin})
}

func (r *Result) note(code string, e *Entry, message string) {
	r.Diagnostics = append(r.Diagnostics, Diagnostic{Severity: SeverityNote, Code: code, Server: e.Name,
		Path: e.Origin.Path, Line: e.Origin.Line, Column: e.Origin.Column, Message: message})
}

// applySwitches applies the lists of a user file: deny wins, allow overrides what
// an entry says.
func applySwitches(entries []*Entry, enabled, disabled []string) {
	for _, e := range entries {
		switch {
		case slices.Contains(disabled, e.Name):
			e.Enabled = false
		case slices.Contains(enabled, e.Name):
			e.Enabled = true
		}
	}
}

// markDuplicates finds entries that would open the same connection under
// another name. The first one is started, the others stay listed.
func (r *Result) markDuplicates() {
	first := map[string]*Entry{}
	for _, e := range r.Entries {
		if !e.Trusted || !e.Enabled {
			continue
		}
		key := e.connection()
		if other, ok := first[key]; ok {
			e.DuplicateOf = other.Name
			r.note("duplicate_connection", e, fmt.Sprintf("this is the same connection as %q, which is used instead; remove one", other.Name))
			continue
		}
		first[key] = e
	}
}

// Owners gives one entry per name, in order: the owner where there is one, else
// the first untrusted entry. These are the servers to run or to ask trust for.
func (r *Result) Owners() []*Entry {
	chosen := map[string]*Entry{}
	for _, e := range r.Entries {
		if known, ok := chosen[e.Name]; !ok || !known.Trusted && e.Trusted {
			chosen[e.Name] = e
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Entries), func(e *Entry) bool { return chosen[e.Name] != e })
}
