package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

func init() {
	register(Source{
		ID: "claude-plugins", Name: "Claude Code plugins", Priority: 75, Dialect: claudeDialect,
		Paths:  func(Locations) []File { return nil },
		Follow: followPlugins,
	})
}

// maxPlugins bounds the plugins whose files are looked at.
const maxPlugins = 500

// claudeDir is where Claude Code keeps the user's files.
func (l Locations) claudeDir() string {
	if dir := l.moved("CLAUDE_CONFIG_DIR"); dir != "" || l.Home == "" {
		return dir
	}
	return filepath.Join(l.Home, ".claude")
}

// pluginRegistry reads what Claude Code wrote of the plugins that the user
// installed.
type pluginRegistry struct {
	at    Locations
	dir   string // Claude Code's
	read  func(path string) ([]byte, error)
	files []File
	found []Diagnostic
}

// followPlugins finds the files of the installed plugins. They are the user's
// own: only the user's registry says what is installed, never a project's file.
func followPlugins(l Locations, read func(path string) ([]byte, error)) ([]File, []Diagnostic) {
	dir := l.claudeDir()
	if dir == "" {
		return nil, nil
	}
	r := &pluginRegistry{at: l, dir: dir, read: read}
	registry := r.load(filepath.Join(dir, "plugins", "installed_plugins.json"))
	plugins := registry.Get("plugins")
	if plugins == nil || plugins.Kind != KindObject {
		return nil, r.found
	}
	enabled := r.load(filepath.Join(dir, "settings.json")).Get("enabledPlugins")
	count := 0
	for _, plugin := range plugins.Members {
		installs := plugin.Value.Items // since version 2 a list
		if plugin.Value.Kind == KindObject {
			installs = []*Node{plugin.Value}
		}
		for _, install := range installs {
			if count++; count > maxPlugins {
				return r.files, r.found
			}
			r.plugin(plugin.Name, install, enabled.Get(plugin.Name))
		}
	}
	return r.files, r.found
}

// load reads a JSON file; nil is one that does not exist, or after a diagnostic.
func (r *pluginRegistry) load(path string) *Node {
	data, err := r.read(path)
	if err != nil {
		if !absent(err) {
			r.found = append(r.found, unreadable(path, err))
		}
		return nil
	}
	rep := &report{path: path}
	defer func() { r.found = append(r.found, rep.list...) }()
	text, _, err := decodeText(data)
	if err != nil {
		rep.add(SeverityError, "invalid_encoding", "", "", Pos{}, "this file cannot be read as text: %v", err)
		return nil
	}
	f := newJSONFile(text)
	top, ok, err := f.root()
	if err != nil || !ok {
		if err != nil {
			rep.syntax("", "", err)
		}
		return nil
	}
	n, err := f.node(top, nil)
	if err != nil {
		rep.syntax("", "", err)
	}
	return n
}

func (n *Node) string() string {
	if n == nil || n.Kind != KindString {
		return ""
	}
	return n.Text
}

// notPlain is what Claude Code replaces in a plugin's id to name its directory.
var notPlain = lazy.Regexp(`[^A-Za-z0-9_-]`)

func (r *pluginRegistry) plugin(id string, install, enabled *Node) {
	root := install.Get("installPath").string()
	if !filepath.IsAbs(root) {
		return
	}
	level := LevelUser
	if project := install.Get("projectPath").string(); project != "" {
		if realPath(project) != realPath(r.at.Project) {
			return // of another project
		}
		level = LevelLocal
	}
	name, _, _ := strings.Cut(id, "@")
	data := filepath.Join(r.dir, "plugins", "data", notPlain().ReplaceAllString(id, "-"))
	base := File{Level: level, Base: root, prefix: name + ":", vars: map[string]string{
		"CLAUDE_PLUGIN_ROOT": root, "CLAUDE_PLUGIN_DATA": data, "CLAUDE_PROJECT_DIR": r.at.Project}}
	if enabled != nil && enabled.Kind == KindBool && enabled.Text == "false" {
		base.disabled = fmt.Sprintf("the plugin %s is disabled in Claude Code, so its servers are off", clip(id))
	}
	manifest := filepath.Join(root, ".claude-plugin", "plugin.json")
	for _, path := range r.declared(root, manifest, r.load(manifest).Get("mcpServers")) {
		file := base
		file.Path = path
		r.files = append(r.files, file)
	}
}

// declared are the files with the plugin's servers: what the manifest names, or
// the manifest itself, or else .mcp.json. None may lie outside of the plugin.
func (r *pluginRegistry) declared(root, manifest string, servers *Node) (paths []string) {
	if servers == nil {
		return []string{filepath.Join(root, ".mcp.json")}
	}
	names := []*Node{servers}
	switch servers.Kind {
	case KindObject:
		return []string{manifest}
	case KindArray:
		names = servers.Items
	}
	rep := &report{path: manifest}
	for _, n := range names {
		name := strings.TrimPrefix(strings.ReplaceAll(n.string(), "${CLAUDE_PLUGIN_ROOT}", "."), "./")
		path := filepath.Join(root, filepath.FromSlash(name))
		switch {
		case name == "":
			rep.add(SeverityError, "wrong_type", "", "mcpServers", n.Pos, "mcpServers must be an object of servers, or the path of a file in the plugin")
		case !filepath.IsLocal(filepath.FromSlash(name)) || !inside(realPath(root), path):
			rep.add(SeverityError, "outside_plugin", "", "mcpServers", n.Pos, "mcpServers names a file outside of the plugin, which is not read")
		default:
			if _, err := r.read(path); absent(err) {
				rep.add(SeverityError, "missing_file", "", "mcpServers", n.Pos, "mcpServers names a file that does not exist; the plugin's servers are missing")
				continue
			}
			paths = append(paths, path)
		}
	}
	r.found = append(r.found, rep.list...)
	return paths
}
