package config

func init() {
	register(Source{
		ID: "cursor", Name: "Cursor", Priority: 50, Dialect: cursorDialect,
		Paths: func(l Locations) []File {
			return []File{l.project(".cursor", "mcp.json"), l.home(".cursor", "mcp.json")}
		},
	})
}
