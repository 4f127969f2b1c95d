package config

func init() {
	register(Source{
		ID: "goose", Name: "goose", Priority: 45,
		Dialect: Dialect{
			Wrappers: [][]string{{"extensions"}}, Time: TimeSeconds, URLKeys: []string{"uri", "url", "serverUrl", "httpUrl", "baseUrl", "baseURL"},
			BuiltIn: []string{"builtin", "platform", "frontend"},
			Vars:    VarSyntax{Dollar: true, Bare: true, HeadersOnly: true},
		},
		Paths: func(l Locations) []File {
			if l.windows() {
				return []File{l.config("Block", "goose", "config", "config.yaml")}
			}
			return []File{l.xdg("goose", "config.yaml")}
		},
	})
}
