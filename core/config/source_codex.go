package config

func init() {
	register(Source{
		ID: "codex", Name: "Codex", Priority: 70,
		Dialect: Dialect{Wrappers: [][]string{{"mcp_servers"}, {"mcpServers"}}, Time: TimeSeconds, URLKeys: commonURLKeys},
		Paths: func(l Locations) []File {
			user := l.home(".codex", "config.toml")
			if dir := l.moved("CODEX_HOME"); dir != "" {
				user = userFile(dir, "config.toml")
			}
			return []File{l.project(".codex", "config.toml"), user}
		},
	})
}
