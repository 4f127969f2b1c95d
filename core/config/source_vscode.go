package config

// editors are VS Code and the editors that were made of it, as their directories
// in the user's config directory are called.
var editors = []string{"Code", "Code - Insiders", "VSCodium"}

func init() {
	own := append([][]string{{"servers"}}, commonWrappers...) // the editor reads these where others stand beside them
	dialect := Dialect{Wrappers: own, WholeFile: true, Time: TimeGuess, URLKeys: commonURLKeys, Vars: VarSyntax{Dollar: true}}
	register(Source{
		ID: "vscode", Name: "VS Code", Priority: 20, Dialect: dialect,
		Paths: func(l Locations) []File {
			files := []File{l.project(".vscode", "mcp.json"), l.project(".vscode", "settings.json")}
			for _, editor := range editors {
				files = append(files, l.config(editor, "User", "mcp.json"), l.config(editor, "User", "settings.json"))
			}
			return files
		},
		Parse: parseVSCode,
	})
}

// parseVSCode reads mcp.json, and settings.json, where the servers lie among
// much else.
func parseVSCode(in Input) Parsed {
	if isNamed(in.Path, "settings.json") {
		in.Dialect.WholeFile = false
		in.Dialect.Wrappers = [][]string{{"mcp", "servers"}, {"mcp.servers"}, {"mcpServers"}}
	}
	return parseFile(in)
}

// extensionFiles are the files of an extension in the storage that each editor
// keeps for it.
func (l Locations) extensionFiles(extension string, names ...string) []File {
	var files []File
	for _, name := range names {
		elem := []string{"User", "globalStorage", extension, "settings", name}
		for _, editor := range append(editors, "Cursor", "Windsurf") {
			files = append(files, l.config(append([]string{editor}, elem...)...))
		}
		files = append(files, l.home(append([]string{".vscode-server", "data"}, elem...)...))
	}
	return files
}
