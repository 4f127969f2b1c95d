package config

func init() {
	register(Source{
		ID: "mcp-json", Name: "MCP", Priority: 5, Dialect: claudeDialect,
		Paths: func(l Locations) []File {
			return []File{l.project(".mcp.json"), l.project("mcp.json")}
		},
	})
}
