package config

func init() {
	register(Source{
		ID: "amazonq", Name: "Amazon Q", Priority: 45, Dialect: claudeDialect,
		Paths: func(l Locations) []File {
			return []File{
				l.project(".amazonq", "mcp.json"), l.project(".amazonq", "default.json"), l.project(".amazonq", "agents", "default.json"),
				l.home(".aws", "amazonq", "mcp.json"), l.home(".aws", "amazonq", "default.json"), l.home(".aws", "amazonq", "agents", "default.json"),
			}
		},
		Parse: func(in Input) Parsed {
			// The others describe agents, whose servers are one member of many.
			in.Dialect.WholeFile = isNamed(in.Path, "mcp.json")
			return parseFile(in)
		},
	})
}
