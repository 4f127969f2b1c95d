package config

// secondsDialect is that of Cline and what was made of it.
var secondsDialect = Dialect{Wrappers: commonWrappers, WholeFile: true, Time: TimeSeconds, URLKeys: commonURLKeys, Vars: VarSyntax{Dollar: true}}

func init() {
	register(Source{
		ID: "cline", Name: "Cline", Priority: 45, Dialect: secondsDialect, FileNames: []string{"cline_mcp_settings.json"},
		Paths: func(l Locations) []File {
			return append([]File{l.home(".cline", "data", "settings", "cline_mcp_settings.json")},
				l.extensionFiles("saoudrizwan.claude-dev", "cline_mcp_settings.json")...)
		},
	})
}
