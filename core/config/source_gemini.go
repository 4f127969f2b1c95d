package config

import "slices"

func init() {
	register(Source{
		ID: "gemini", Name: "Gemini CLI", Priority: 60,
		Dialect: Dialect{
			Wrappers: [][]string{{"mcpServers"}}, Time: TimeMillis,
			URLKeys: []string{"httpUrl", "url", "serverUrl", "baseUrl", "baseURL", "uri"}, URLTypes: map[string]string{"url": "sse"}, URLWins: true,
			Vars: VarSyntax{Dollar: true, Bare: true, Percent: true},
		},
		Paths: func(l Locations) []File {
			return []File{l.project(".gemini", "settings.json"), l.home(".gemini", "settings.json")}
		},
		Parse: func(in Input) Parsed { return parseFile(in, readGeminiLists) },
	})
}

// readGeminiLists applies mcp.allowed and mcp.excluded, which name the servers
// that Gemini starts. excluded wins.
func readGeminiLists(f document, root []span, in Input, rep *report, out *Parsed) {
	s, ok := find(root, "mcp")
	if !ok || f.kind(s) != KindObject {
		return
	}
	n, err := f.node(s, nil)
	if err != nil {
		rep.syntax("", "mcp", err)
		return
	}
	list := func(name string) ([]string, bool) {
		v := n.Get(name)
		if v == nil {
			return nil, false
		}
		return newMapper("", v.Pos, in.Dialect, rep).strings(v, "mcp."+name)
	}
	allowed, limited := list("allowed")
	excluded, _ := list("excluded")
	for _, e := range out.Entries {
		switch {
		case slices.Contains(excluded, e.Name):
			e.switchOff(rep, "mcp.excluded in this file names this server, so it is off")
		case limited && !slices.Contains(allowed, e.Name):
			e.switchOff(rep, "mcp.allowed in this file does not name this server, so it is off")
		}
	}
}

// switchOff disables an entry by what stands elsewhere in its source's files.
func (e *Entry) switchOff(rep *report, why string) {
	off := false
	e.Enabled, e.Server.Enabled = false, &off
	rep.add(SeverityNote, "disabled_by_source", e.Name, "", e.at[""], "%s", why)
}
