package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// Env is the environment that the library looks at: open's env. The process
// environment is no substitute: a library sees it as it was when the process
// started, and a host may hold several runtimes with different ones. This file
// is the only one that may ask the process for it; a test forbids it elsewhere.
//
// Env is immutable. Names ignore case on Windows.
type Env struct {
	vars map[string]variable // by folded name
	goos string
}

type variable struct{ name, value string }

// ProcessEnv is the environment of the process at its start.
func ProcessEnv() Env {
	vars := map[string]string{}
	for _, kv := range os.Environ() {
		// On Windows names such as "=C:" exist; the = that counts is not the first byte.
		if i := strings.IndexByte(kv[min(1, len(kv)):], '='); i >= 0 {
			vars[kv[:i+1]] = kv[i+2:]
		}
	}
	return ParseEnv(vars)
}

// ParseEnv makes an Env from a host's map. Names that no environment can hold
// are left out.
func ParseEnv(vars map[string]string) Env { return newEnv(runtime.GOOS, vars) }

func newEnv(goos string, vars map[string]string) Env {
	e := Env{vars: make(map[string]variable, len(vars)), goos: goos}
	for _, name := range sortedKeys(vars) { // sorted: of names that differ in case only, always the same wins
		if validVariable(name, vars[name]) {
			e.vars[e.fold(name)] = variable{name, vars[name]}
		}
	}
	return e
}

func validVariable(name, value string) bool {
	return name != "" && !strings.Contains(name[1:], "=") && !strings.ContainsRune(name, 0) && !strings.ContainsRune(value, 0)
}

func (e Env) fold(name string) string {
	if e.goos == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// Get returns a variable; ok tells an empty one from an unset one.
func (e Env) Get(name string) (value string, ok bool) {
	v, ok := e.vars[e.fold(name)]
	return v.value, ok
}

// Value returns a variable, or "" when it is unset.
func (e Env) Value(name string) string {
	v, _ := e.Get(name)
	return v
}

// With is e with one variable changed.
func (e Env) With(name, value string) Env {
	changed := Env{vars: maps.Clone(e.vars), goos: e.goos}
	if validVariable(name, value) {
		changed.vars[e.fold(name)] = variable{name, value}
	}
	return changed
}

// IsPath tells a command that LookPath takes as a path from one that it looks up.
func (e Env) IsPath(command string) bool { return e.hasSlash(command) }

// errNoHome is returned where a directory cannot be known.
var errNoHome = errors.New("the environment names no home directory")

// Home is the user's home directory.
func (e Env) Home() (string, error) {
	name := "HOME"
	if e.goos == "windows" {
		name = "USERPROFILE"
	}
	return e.directory(e.Value(name))
}

// UserConfigDir is where programs keep a user's settings: XDG_CONFIG_HOME or
// ~/.config, ~/Library/Application Support on macOS, APPDATA on Windows.
func (e Env) UserConfigDir() (string, error) {
	return e.userDir("XDG_CONFIG_HOME", ".config", "Library/Application Support", "APPDATA")
}

// XDGConfigDir is where many tools keep a user's settings on every system:
// XDG_CONFIG_HOME or ~/.config.
func (e Env) XDGConfigDir() (string, error) {
	if dir := e.Value("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	home, err := e.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".config"), nil
}

// UserCacheDir is where programs keep what they can make again: XDG_CACHE_HOME
// or ~/.cache, ~/Library/Caches on macOS, LOCALAPPDATA on Windows.
func (e Env) UserCacheDir() (string, error) {
	return e.userDir("XDG_CACHE_HOME", ".cache", "Library/Caches", "LOCALAPPDATA")
}

func (e Env) userDir(xdg, plain, mac, windows string) (string, error) {
	if e.goos == "windows" {
		return e.directory(e.Value(windows))
	}
	if e.goos == "darwin" {
		plain = mac
	} else if dir := e.Value(xdg); filepath.IsAbs(dir) { // the XDG rules say to ignore a relative one
		return filepath.Clean(dir), nil
	}
	home, err := e.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, plain), nil
}

// directory accepts an absolute path only: what it is relative to would differ
// from call to call.
func (e Env) directory(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errNoHome
	}
	return filepath.Clean(dir), nil
}

// LookPath finds the program that command names, as an absolute path. A command
// with a slash is taken as a path, relative to dir. Any other is looked up in
// this environment's PATH; relative parts of PATH are skipped, since a project
// directory must not decide which program a bare name means. The error wraps
// fs.ErrNotExist or fs.ErrPermission.
func (e Env) LookPath(command, dir string) (string, error) {
	if command == "" {
		return "", fmt.Errorf("no program is named: %w", fs.ErrNotExist)
	}
	if e.hasSlash(command) {
		file := command
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		found, err := e.executable(file)
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", clip(file), whyNot(err), err)
		}
		return found, nil
	}
	denied := ""
	for _, part := range e.pathList() {
		if !filepath.IsAbs(part) {
			continue
		}
		found, err := e.executable(filepath.Join(part, command))
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == "" {
			denied = filepath.Join(part, command)
		}
	}
	if denied != "" {
		return "", fmt.Errorf("%s is not executable: %w", denied, fs.ErrPermission)
	}
	return "", fmt.Errorf("%q is not in PATH: %w", clip(command), fs.ErrNotExist)
}

func whyNot(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "is not executable"
	}
	return "does not exist on this machine"
}

func (e Env) hasSlash(command string) bool {
	return strings.Contains(command, "/") || e.goos == "windows" && strings.ContainsAny(command, `\:`)
}

func (e Env) pathList() []string {
	sep := ":"
	if e.goos == "windows" {
		sep = ";"
	}
	return strings.Split(e.Value("PATH"), sep)
}

// executable checks one path, on Windows with each of the extensions in PATHEXT.
func (e Env) executable(file string) (string, error) {
	if e.goos != "windows" {
		return file, isExecutable(file, true)
	}
	exts := e.Value("PATHEXT")
	if exts == "" {
		exts = ".COM;.EXE;.BAT;.CMD"
	}
	list := strings.Split(exts, ";")
	if slices.ContainsFunc(list, func(ext string) bool { return ext != "" && strings.EqualFold(ext, filepath.Ext(file)) }) {
		list = append([]string{""}, list...)
	}
	for _, ext := range list {
		for _, spelled := range []string{ext, strings.ToLower(ext)} {
			if isExecutable(file+spelled, false) == nil {
				return file + spelled, nil
			}
		}
	}
	return "", fs.ErrNotExist
}

func isExecutable(file string, bits bool) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		if errors.Is(err, fs.ErrPermission) {
			return fs.ErrPermission
		}
		return fs.ErrNotExist
	case info.IsDir(), bits && info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}

// EnvPolicy says what children get besides their own env: "inherit" (the zero
// value), "clear", or {"allow":[globs]}.
type EnvPolicy struct {
	Clear bool
	Allow []string // non-nil: only names that match one of these globs
}

// UnmarshalJSON reads the three forms of the envPolicy option.
func (p *EnvPolicy) UnmarshalJSON(b []byte) error {
	*p = EnvPolicy{}
	var word string
	if err := json.Unmarshal(b, &word); err == nil {
		switch word {
		case "inherit":
			return nil
		case "clear":
			p.Clear = true
			return nil
		}
	}
	var form struct {
		Allow []string `json:"allow"`
	}
	if err := json.Unmarshal(b, &form); err != nil || form.Allow == nil {
		return errors.New(`envPolicy must be "inherit", "clear" or {"allow":["NAME","PREFIX_*"]}`)
	}
	for _, glob := range form.Allow {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("envPolicy: %q is no valid glob", clip(glob))
		}
	}
	p.Allow = form.Allow
	return nil
}

// windowsNeeds are variables without which hardly any Windows program starts.
var windowsNeeds = []string{"SYSTEMROOT", "COMSPEC", "PATHEXT", "WINDIR"}

func (p EnvPolicy) admits(e Env, name string) bool {
	if e.goos == "windows" && slices.Contains(windowsNeeds, strings.ToUpper(name)) {
		return true
	}
	if p.Clear {
		return false
	}
	if p.Allow == nil {
		return true
	}
	return slices.ContainsFunc(p.Allow, func(glob string) bool {
		ok, err := path.Match(e.fold(glob), e.fold(name))
		return err == nil && ok
	})
}

// ChildEnv is the environment of a child as NAME=value, sorted by name: what the
// policy admits, and own on top.
func (e Env) ChildEnv(policy EnvPolicy, own map[string]string) []string {
	merged := make(map[string]variable, len(e.vars)+len(own))
	for folded, v := range e.vars {
		if policy.admits(e, v.name) {
			merged[folded] = v
		}
	}
	for folded, v := range newEnv(e.goos, own).vars {
		merged[folded] = v
	}
	list := make([]string, 0, len(merged))
	for _, folded := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, merged[folded].name+"="+merged[folded].value)
	}
	return list
}

// workingDir is the process's current directory: open's default for cwd.
func workingDir() (string, error) { return os.Getwd() }
