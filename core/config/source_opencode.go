package config

func init() {
	register(Source{
		ID: "opencode", Name: "opencode", Priority: 55, FileNames: []string{"opencode.json", "opencode.jsonc"},
		Dialect: Dialect{
			Wrappers: [][]string{{"mcp"}, {"mcpServers"}}, Time: TimeMillis, URLKeys: commonURLKeys, Command: KindArray, Layered: true,
			Vars: VarSyntax{Braces: true, FileBeside: true},
		},
		Paths: func(l Locations) []File {
			files := []File{
				l.project(".opencode", "opencode.jsonc"), l.project(".opencode", "opencode.json"),
				l.project("opencode.jsonc"), l.project("opencode.json"),
			}
			if path := l.moved("OPENCODE_CONFIG"); path != "" {
				files = append(files, userFile(path))
			}
			return append(files, l.xdg("opencode", "opencode.jsonc"), l.xdg("opencode", "opencode.json"), l.xdg("opencode", "config.json"))
		},
	})
}
