package config

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// claudeHome is Claude Code's own state file. Beside much else it holds servers
// for every project at its top level and servers per project directory.
const claudeHome = ".claude.json"

func init() {
	register(Source{
		ID: "claude", Name: "Claude Code", Priority: 80, Dialect: claudeDialect,
		Paths: func(l Locations) []File {
			files := []File{l.project(".claude", "mcp.json"), l.project(".claude", ".mcp.json")}
			if dir := l.moved("CLAUDE_CONFIG_DIR"); dir != "" {
				return append(files, userFile(dir, claudeHome), userFile(dir, "mcp.json"))
			}
			return append(files, l.home(claudeHome), l.home(".claude", "mcp.json"))
		},
		Parse: parseClaude,
	})
}

func parseClaude(in Input) Parsed {
	if filepath.Base(in.Path) != claudeHome || in.Level == LevelProject {
		return parseFile(in)
	}
	in.Dialect.WholeFile = false // full of other members
	return parseFile(in, readClaudeProject)
}

// readClaudeProject adds the servers of projects[<project directory>].
func readClaudeProject(f document, root []span, in Input, rep *report, out *Parsed) {
	i := slices.IndexFunc(root, func(s span) bool { return s.name == "projects" })
	if i < 0 || f.kind(root[i]) != KindObject {
		return
	}
	ours := func(path string) bool {
		return slices.ContainsFunc(in.Project, func(project string) bool { return samePath(project, path) })
	}
	projects, err := f.skim(root[i], ours, nil)
	if err != nil {
		rep.syntax("", "projects", err)
		return
	}
	level := in.Level
	if level == LevelUser {
		level = LevelLocal
	}
	for _, p := range projects {
		if f.kind(p) != KindObject {
			continue
		}
		members, err := f.skim(p, nil, rep.duplicateKey(""))
		if err != nil {
			rep.syntax("", "projects", err)
			return
		}
		if s, ok := find(members, "mcpServers"); ok {
			p := &fileParser{document: f, in: in, rep: rep}
			out.Entries = append(out.Entries, p.servers(s, level)...)
		}
	}
}

// samePath compares paths as the system does; a is clean.
func samePath(a, b string) bool {
	if a == b {
		return true
	}
	if len(b) < len(a) {
		return false // a clean path is no longer than what it was made of
	}
	if len(b) < len(a) {
		return false // a clean path is no longer than what it was made of
	}
	b = filepath.Clean(b)
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}
