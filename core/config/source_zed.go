package config

func init() {
	register(Source{
		ID: "zed", Name: "Zed", Priority: 45,
		Dialect: Dialect{Wrappers: [][]string{{"context_servers"}}, Time: TimeMillis, URLKeys: commonURLKeys, Command: KindObject, Extensions: true,
			Vars: VarSyntax{Dollar: true}},
		Paths: func(l Locations) []File {
			user := l.xdg("zed", "settings.json")
			if l.windows() {
				user = l.config("Zed", "settings.json")
			}
			return []File{l.project(".zed", "settings.json"), user}
		},
	})
}
