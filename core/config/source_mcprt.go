package config

func init() {
	register(Source{
		ID: "mcprt", Name: "mcprt", Priority: 100, Dialect: ownDialect,
		Paths: func(l Locations) []File {
			return []File{l.project(".mcprt", "mcp.json"), l.config("mcprt", "mcp.json")}
		},
		Parse: func(in Input) Parsed { return parseFile(in, readSwitches) },
	})
}

// readSwitches reads the lists by which a user turns servers of any source on
// and off, in the user's own file only: a project must not turn servers on.
func readSwitches(f document, root []span, in Input, rep *report, out *Parsed) {
	for _, s := range root {
		var list *[]string
		switch s.name {
		case "enabledServers":
			list = &out.EnabledServers
		case "disabledServers":
			list = &out.DisabledServers
		default:
			continue
		}
		if in.Level != LevelUser {
			rep.add(SeverityWarning, "unsupported_field", "", s.name, s.pos,
				"%s is honoured only in mcprt's user file; it is ignored here", s.name)
			continue
		}
		n, err := f.node(s, nil)
		if err != nil {
			rep.syntax("", s.name, err)
			continue
		}
		*list, _ = newMapper("", s.pos, in.Dialect, rep).strings(n, s.name)
	}
}
