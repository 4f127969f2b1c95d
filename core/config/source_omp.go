package config

import (
	"path/filepath"
	"strings"
)

func init() {
	dialect := claudeDialect
	dialect.Vars.Command = true
	register(Source{
		ID: "omp", Name: "oh-my-pi", Priority: 95, Dialect: dialect,
		Paths: func(l Locations) []File {
			agent := l.ompAgent()
			return []File{l.project(".omp", "mcp.json"), l.project(".omp", ".mcp.json"), userFile(agent, "mcp.json"), userFile(agent, ".mcp.json")}
		},
		Parse: func(in Input) Parsed { return parseFile(in, readSwitches) },
	})
}

// ompAgent is the directory of the user's agent, or of the profile in use.
func (l Locations) ompAgent() string {
	if dir := l.moved("PI_CODING_AGENT_DIR"); dir != "" {
		return dir
	}
	if l.Home == "" {
		return ""
	}
	dir := filepath.Join(l.Home, ".omp")
	if name := l.Env.Value("PI_CONFIG_DIR"); plainName(name) {
		dir = filepath.Join(l.Home, name)
	}
	for _, variable := range []string{"OMP_PROFILE", "PI_PROFILE"} {
		if name := l.Env.Value(variable); plainName(name) {
			return filepath.Join(dir, "profiles", name, "agent")
		}
	}
	return filepath.Join(dir, "agent")
}

// plainName says whether name is one element of a path.
func plainName(name string) bool {
	return filepath.IsLocal(name) && name != "." && !strings.ContainsAny(name, `/\`)
}
