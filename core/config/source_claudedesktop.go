package config

func init() {
	dialect := claudeDialect
	dialect.WholeFile = false // it holds the app's settings too
	register(Source{
		ID: "claude-desktop", Name: "Claude Desktop", Priority: 78, Dialect: dialect, FileNames: []string{"claude_desktop_config.json"},
		Paths: func(l Locations) []File {
			return []File{l.config("Claude", "claude_desktop_config.json")}
		},
	})
}
