package config

func init() {
	register(Source{
		ID: "roo", Name: "Roo Code", Priority: 45, Dialect: secondsDialect, FileNames: []string{"mcp_settings.json"},
		Paths: func(l Locations) []File {
			return append([]File{l.project(".roo", "mcp.json")},
				l.extensionFiles("rooveterinaryinc.roo-cline", "mcp_settings.json", "cline_mcp_settings.json")...)
		},
	})
}
