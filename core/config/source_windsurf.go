package config

func init() {
	dialect := claudeDialect
	dialect.Time = TimeGuess
	dialect.Vars.DollarFile = true
	register(Source{
		ID: "windsurf", Name: "Windsurf", Priority: 50, Dialect: dialect, FileNames: []string{"mcp_config.json"},
		Paths: func(l Locations) []File {
			return []File{l.project(".windsurf", "mcp_config.json"), l.home(".codeium", "windsurf", "mcp_config.json")}
		},
	})
}
