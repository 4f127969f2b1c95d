package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"unicode/utf8"
)

// Source is one tool whose config files are read. A new one is a new file in
// this package with a register call in its init.
type Source struct {
	ID       string // stable; hosts use it in discovery.exclude and discovery.user
	Name     string // for people
	Priority int    // within a level the higher one owns a name
	Dialect  Dialect
	// Paths lists the files that may exist, in the order of ownership.
	Paths func(l Locations) []File
	// FileNames are names by which a file is told to be this tool's wherever it
	// lies, when a host names it.
	FileNames []string
	// Follow lists further files, which other files name; it may be nil.
	Follow func(l Locations, read func(path string) ([]byte, error)) ([]File, []Diagnostic)
	// Parse is pure: bytes in, entries and diagnostics out. It reads no other
	// file and no environment. Of the Origin it sets level, line and column. nil
	// is parseFile.
	Parse func(in Input) Parsed
}

func (s *Source) parse(in Input) Parsed {
	if s == nil || s.Parse == nil {
		return parseFile(in)
	}
	return s.Parse(in)
}

// Locations are the directories that sources build their paths from.
type Locations struct {
	Project string // absolute
	Home    string // "" when unknown
	Config  string // the user's config directory; "" when unknown
	XDG     string // the one that many tools use on every system; "" when unknown
	Env     Env
}

// File is a place where a source may keep servers.
type File struct {
	Path  string
	Level Level
	Base  string // relative cwd, command and envFile of its entries are resolved against it

	prefix   string            // of its servers' names
	vars     map[string]string // variables that hold in this file
	disabled string            // why its servers are off, or ""
}

// Input is one file's content for Source.Parse.
type Input struct {
	Data    []byte
	Path    string
	Level   Level
	Dialect Dialect
	// Project holds the spellings of the project directory (as given, and with
	// symbolic links resolved) for files with one section per project.
	Project []string

	arrival *arrival // of Data; nil: it is there
}

// text is the file as UTF-8, of which the rest may be on its way.
func (in Input) text() ([]byte, *arrival, error) {
	if a := in.arrival; a != nil {
		if head := in.Data[:a.there]; len(head) > 4 && head[0] != 0 && head[1] != 0 && head[0] < utf8.RuneSelf {
			return in.Data, a, nil
		}
		if err := a.wait(); err != nil {
			return nil, nil, err
		}
	}
	text, err := unmarked(in.Data)
	return text, nil, err
}

// Parsed is what a file holds.
type Parsed struct {
	Entries     []*Entry
	Diagnostics []Diagnostic
	// EnabledServers and DisabledServers are honoured in mcprt's own user file only.
	EnabledServers, DisabledServers []string
}

// project is a file in the project directory.
func (l Locations) project(elem ...string) File {
	return File{Path: filepath.Join(append([]string{l.Project}, elem...)...), Level: LevelProject, Base: l.Project}
}

// home is a file in the user's home directory; config one in the user's config
// directory; xdg one in the directory that many tools use on every system.
// Without such a directory the file has no path and is left out.
func (l Locations) home(elem ...string) File   { return userFile(l.Home, elem...) }
func (l Locations) config(elem ...string) File { return userFile(l.Config, elem...) }
func (l Locations) xdg(elem ...string) File    { return userFile(l.XDG, elem...) }

// moved is the directory to which the variable moves a tool's files, or "".
func (l Locations) moved(variable string) string {
	if dir := l.Env.Value(variable); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return ""
}

func (l Locations) windows() bool { return l.Env.goos == "windows" }

func userFile(dir string, elem ...string) File {
	if dir == "" {
		return File{}
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	return File{Path: path, Level: LevelUser, Base: filepath.Dir(path)}
}

var sources []Source

// register adds a source; it is called from init only. The order of files in
// the package does not matter: sources are kept by priority and id.
func register(s Source) {
	for _, known := range sources {
		if known.ID == s.ID {
			panic(fmt.Sprintf("config: source %q is registered twice", s.ID))
		}
	}
	sources = append(sources, s)
	slices.SortFunc(sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
}

// SourceInfo describes a registered source.
type SourceInfo struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Priority int      `json:"priority"`
	Files    []string `json:"files"` // with $PROJECT, $HOME and $CONFIG for the directories
}

// Registered lists the sources in the order in which they own names, with their
// paths on this system.
func Registered() []SourceInfo { return registeredOn(runtime.GOOS) }

func registeredOn(goos string) []SourceInfo {
	infos := make([]SourceInfo, 0, len(sources))
	at := Locations{Project: "$PROJECT", Home: "$HOME", Config: "$CONFIG", XDG: "$HOME/.config", Env: newEnv(goos, nil)}
	for _, s := range sources {
		info := SourceInfo{ID: s.ID, Name: s.Name, Priority: s.Priority, Files: []string{}}
		for _, f := range s.Paths(at) {
			info.Files = append(info.Files, filepath.ToSlash(f.Path))
		}
		infos = append(infos, info)
	}
	return infos
}

// sourceFor finds the source that reads files of this name: a file that a host
// names is read in the dialect of the tool whose file it looks like. base is the
// directory that stands for the project in the path.
func sourceFor(path, goos string) (s *Source, base string) {
	const root = string(filepath.Separator) + "\x00"
	at := Locations{Project: root, Home: root, Config: root, XDG: root, Env: newEnv(goos, nil)}
	longest := 0
	for i := range sources {
		for _, f := range sources[i].Paths(at) {
			suffix, ok := cutPrefix(f.Path, root)
			if !ok || len(suffix) <= longest || len(path) < len(suffix) || path[len(path)-len(suffix):] != suffix {
				continue
			}
			longest, s = len(suffix), &sources[i]
			base = filepath.Dir(path)
			if f.Level == LevelProject {
				base = filepath.Clean(path[:len(path)-len(suffix)] + string(filepath.Separator))
			}
		}
	}
	if s != nil {
		return s, base
	}
	for i := range sources {
		if slices.Contains(sources[i].FileNames, filepath.Base(path)) {
			return &sources[i], filepath.Dir(path)
		}
	}
	return nil, filepath.Dir(path)
}

func cutPrefix(path, root string) (string, bool) {
	if len(path) <= len(root) || path[:len(root)] != root {
		return "", false
	}
	return path[len(root):], true // begins with a separator
}

// isNamed says whether a path's last element is name.
func isNamed(path, name string) bool { return filepath.Base(path) == name }
