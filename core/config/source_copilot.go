package config

func init() {
	register(Source{
		ID: "copilot", Name: "GitHub Copilot CLI", Priority: 45, Dialect: claudeDialect, FileNames: []string{"mcp-config.json"},
		Paths: func(l Locations) []File {
			user := l.home(".copilot", "mcp-config.json")
			if dir := l.moved("COPILOT_HOME"); dir != "" {
				user = userFile(dir, "mcp-config.json")
			}
			return []File{l.project(".github", "mcp.json"), l.project(".copilot", "mcp-config.json"), user}
		},
	})
}
