package config

func init() {
	register(Source{
		ID: "opencode", Name: "opencode", Priority: 55, FileNames: []string{"opencode.json", "opencode.jsonc"},
		Dialect: Dialect{
			Wrappers: [][]string{{"mcp"}, {"mcpServers"}}, Time: TimeMillis, URLKeys: commonURLKeys, Command: KindArray, Layered: true,
			Vars: VarSyntax{Braces: true, FileBeside: true},
		},
		Paths: func(l Locations) []File {
			dir := l.xdgDir()
			files := []File{
				l.project(".opencode", "opencode.jsonc"), l.project(".opencode", "opencode.json"),
				l.project("opencode.jsonc"), l.project("opencode.json"),
			}
			if path := l.moved("OPENCODE_CONFIG"); path != "" {
				files = append(files, userFile(path))
			}
			if dir == "" {
				return files
			}
			for _, name := range []string{"opencode.jsonc", "opencode.json", "config.json"} {
				files = append(files, userFile(dir, "opencode", name))
			}
			return files
		},
	})
}
