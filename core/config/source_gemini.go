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
// that Gemini starts. excluded wins. Older settings have them at the top.
func readGeminiLists(f document, root []span, in Input, rep *report, out *Parsed) {
	value := func(name string) *Node {
		s, ok := find(root, name)
		if !ok {
			return nil
		}
		n, err := f.node(s, nil)
		if err != nil {
			rep.syntax("", name, err)
		}
		return n
	}
	mcp := value("mcp")
	list := func(name, old string) (words []string, field string, ok bool) {
		v, field := mcp.Get(name), "mcp."+name
		if v == nil {
			v, field = value(old), old
		}
		if v == nil {
			return nil, field, false
		}
		words, ok = newMapper("", v.Pos, in.Dialect, rep).strings(v, field)
		return words, field, ok
	}
	allowed, allowedBy, limited := list("allowed", "allowMCPServers")
	excluded, excludedBy, _ := list("excluded", "excludeMCPServers")
	for _, e := range out.Entries {
		switch {
		case slices.Contains(excluded, e.Name):
			e.switchOff(rep, excludedBy+" in this file names this server, so it is off")
		case limited && !slices.Contains(allowed, e.Name):
			e.switchOff(rep, allowedBy+" in this file does not name this server, so it is off")
		}
	}
}

// switchOff disables an entry by what stands elsewhere in its source's files.
func (e *Entry) switchOff(rep *report, why string) {
	off := false
	e.Enabled, e.Server.Enabled = false, &off
	rep.add(SeverityNote, "disabled_by_source", e.Name, "", e.at[""], "%s", why)
}
