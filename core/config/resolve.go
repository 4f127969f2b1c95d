package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// ResolveOptions says what a start knows beside the environment.
type ResolveOptions struct {
	Cwd    string            // the project directory: a child's default cwd
	Vars   map[string]string // variables from the host; they win over the environment
	Inputs map[string]string // answers to ${input:id}
	// Helper gives what the helper command of a !command value prints, without the
	// white space around it. Its error says why there is nothing, and holds neither
	// command nor output. nil: no helper may run.
	Helper func(command string) (string, error)
}

// ResolveError says why an entry cannot be started as configured. Its message
// holds no value, only names.
type ResolveError struct {
	Code    string // a diagnostic's code; "needs_input" when the host can help
	Server  string
	Field   string
	Path    string
	Line    int
	Column  int
	Message string
	Inputs  []string // with needs_input: the ids that are missing
}

func (e *ResolveError) Error() string { return e.Message }

// Resolve makes an entry ready to start: variables expanded, paths absolute,
// envFile merged under env. It is called at every start, so that a changed
// environment counts. The diagnostics are warnings; a failure is a
// *ResolveError, the first of those that were found.
//
// It looks at files (envFile, cwd, PATH) but runs nothing: that is Helper's part.
// It does not ask for trust: that is TrustedBy, before.
func Resolve(e *Entry, env Env, o ResolveOptions) (*Resolved, []Diagnostic, error) {
	home, _ := env.Home()
	if e.BaseDir == "" { // of no discovery
		copied := *e
		copied.BaseDir, copied.project = o.Cwd, o.Cwd
		e = &copied
	}
	r := &resolver{e: e, env: env, o: o, home: home, rep: &report{path: e.Origin.Path}, out: &Resolved{Server: e.Server.clone()}}
	r.expand()
	r.envFile()
	r.passedOn()
	r.paths()
	r.url()
	r.secrets()
	if r.err != nil {
		if r.err.Code == "needs_input" {
			r.err.Inputs = r.inputs
		}
		return nil, r.rep.list, r.err
	}
	return r.out, r.rep.list, nil
}

// Equal says whether two resolved configs start the same server.
func (r *Resolved) Equal(other *Resolved) bool {
	a, b := r.Server, other.Server
	a.Host, b.Host = nil, nil
	return reflect.DeepEqual(a, b)
}

type resolver struct {
	e    *Entry
	env  Env
	o    ResolveOptions
	home string
	rep  *report
	out  *Resolved
	used []usedVariable
	err  *ResolveError

	inputs []string // that are missing
}

func (r *resolver) fail(code, field, format string, args ...any) {
	if r.err != nil {
		return
	}
	at := r.place(field)
	r.err = &ResolveError{Code: code, Server: r.e.Name, Field: field, Path: r.e.Origin.Path, Line: at.Line, Column: at.Column,
		Message: fmt.Sprintf("server %q: %s: ", r.e.Name, field) + fmt.Sprintf(format, args...)}
}

func (r *resolver) warn(code, field, format string, args ...any) {
	r.rep.add(SeverityWarning, code, r.e.Name, field, r.place(field), format, args...)
}

func (r *resolver) place(field string) Pos {
	if at, ok := r.e.at[field]; ok {
		return at
	}
	return r.e.at[""]
}

func (r *resolver) expand() {
	x := r.e.expander(r.env, r.home, r.o)
	r.e.expandInto(&r.out.Server, x, r.meet, func(used []usedVariable) { r.used = append(r.used, used...) })
}

// meet takes what expansion found in a field.
func (r *resolver) meet(field string, p problem) {
	if p.input != "" && !slices.Contains(r.inputs, p.input) {
		r.inputs = append(r.inputs, p.input)
	}
	if p.fatal {
		r.fail(p.code, field, "%s", p.text)
	} else {
		r.warn(p.code, field, "%s", p.text)
	}
}

// expander expands this entry's values in its dialect.
func (e *Entry) expander(env Env, home string, o ResolveOptions) *expander {
	folders := e.folders(home)
	return &expander{
		syntax:  e.Dialect.Vars,
		windows: env.goos == "windows",
		lookup: func(name string) (string, bool) {
			if v, ok := e.vars[name]; ok {
				return v, true
			}
			if v, ok := e.Server.Env[name]; ok && e.Dialect.Vars.HeadersOnly {
				return v, true
			}
			if v, ok := o.Vars[name]; ok {
				return v, true
			}
			if v, ok := env.Get(name); ok {
				return v, true
			}
			return folders(name)
		},
		input: func(id string) (string, bool) { v, ok := o.Inputs[id]; return v, ok },
		helper: func(command string) (string, error) {
			switch {
			case command == "":
				return "", errors.New("is missing; write it behind the exclamation mark")
			case o.Helper == nil:
				return "", errors.New("has not run")
			}
			return o.Helper(command)
		},
		file: func(path string) (string, error) {
			data, err := e.readAux(absolute(path, e.fileBase(), home))
			return string(data), err
		},
	}
}

// folders finds the variables by which editors name directories.
func (e *Entry) folders(home string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		value := ""
		switch name {
		case "workspaceFolder":
			value = e.project
		case "workspaceFolderBasename":
			value = filepath.Base(e.project)
		case "userHome":
			value = home
		case "pathSeparator", "/":
			value = string(filepath.Separator)
		}
		return value, value != ""
	}
}

// expandInto expands every value of s in place.
func (e *Entry) expandInto(s *Server, x *expander, found func(field string, p problem), used func([]usedVariable)) {
	s.each(func(field, value string) string {
		perhapsHelper := strings.HasPrefix(field, "env.") || strings.HasPrefix(field, "headers.")
		if perhapsHelper && x.syntax.Command && strings.HasPrefix(value, "!") {
			printed, err := x.helper(strings.TrimSpace(value[1:]))
			if err != nil {
				found(field, problem{code: "helper_command", fatal: true, text: "its helper command " + err.Error()})
			}
			used([]usedVariable{{"!", printed}})
			return printed
		}
		x := x
		if x.syntax.HeadersOnly && !strings.HasPrefix(field, "headers.") {
			plain := *x
			plain.syntax = VarSyntax{}
			x = &plain
		}
		out := x.expand(value)
		fatal := false
		for _, p := range out.problems {
			found(field, p)
			fatal = fatal || p.fatal
		}
		used(out.used)
		if strings.ContainsRune(out.text, 0) { // from a {file:…}
			found(field, problem{code: "wrong_type", fatal: true, text: "after expansion it holds a NUL character, which no argument, variable or header can"})
		}
		if perhapsHelper && !fatal && value != out.text && emptyCredential(out.text) {
			found(field, problem{code: "empty_credential", text: "after expansion no value is left here; the server may refuse it"})
		}
		return out.text
	})
}

func emptyCredential(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "bearer", "basic", "token":
		return true
	}
	return false
}

// envFile puts the variables of the envFile under the entry's own env.
func (r *resolver) envFile() {
	if r.e.EnvFile == "" {
		return
	}
	out := r.e.expander(r.env, r.home, r.o).expand(r.e.EnvFile)
	for _, p := range out.problems {
		r.meet("envFile", p)
		if p.fatal {
			return
		}
	}
	data, err := r.e.readAux(absolute(out.text, r.e.BaseDir, r.home))
	switch {
	case absent(err):
		r.warn("missing_env_file", "envFile", "there is no such envFile; the server is started without it")
		return
	case err != nil:
		r.fail("unreadable_file", "envFile", "it was not read: %s", reason(err))
		return
	}
	vars, bad := parseEnvFile(data)
	if len(bad) > 0 {
		r.warn("invalid_env_file", "envFile", "what is not NAME=value was skipped: %d of the lines, the first is line %d", len(bad), bad[0])
	}
	maps.Copy(vars, r.out.Env)
	r.out.Env = vars
}

// passedOn gives the server the variables that its config names: to its process,
// or as headers. One that is not set is left out, as in the tools that have such
// lists; but a server is not asked without the token that it should be asked with.
func (r *resolver) passedOn() {
	x := r.e.expander(r.env, r.home, r.o)
	put := func(into *map[string]string, name, value, variable string) {
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[name] = value
		r.used = append(r.used, usedVariable{variable, value})
	}
	for _, name := range r.out.EnvVars {
		if _, own := r.out.Env[name]; own {
			continue
		}
		if value, ok := x.lookup(name); ok {
			put(&r.out.Env, name, value, name)
		}
	}
	if r.out.Type == "stdio" {
		for _, name := range sortedKeys(r.e.vars) { // a plugin finds its directory
			if _, own := r.out.Env[name]; !own {
				put(&r.out.Env, name, r.e.vars[name], name)
			}
		}
	}
	for _, header := range sortedKeys(r.out.HeaderEnvVars) {
		name := r.out.HeaderEnvVars[header]
		if value, ok := x.lookup(name); ok && value != "" {
			put(&r.out.Headers, header, value, name)
		} else {
			r.warn("unresolved_variable", "headerEnvVars."+header, "the environment variable %s is not set, so this header is left out", clip(name))
		}
	}
	if name := r.out.BearerTokenEnvVar; name != "" {
		value, ok := x.lookup(name)
		if !ok || value == "" {
			r.fail("unresolved_variable", "bearerTokenEnvVar", "the environment variable %s is not set; it must hold the token for this server", clip(name))
			return
		}
		put(&r.out.Headers, "Authorization", "Bearer "+value, name)
	}
}

// paths makes cwd, the files of tls and oauth, and a command with a slash absolute.
func (r *resolver) paths() {
	if tls := r.out.TLS; tls != nil {
		for _, file := range []*string{&tls.CAFile, &tls.CertFile, &tls.KeyFile} {
			if *file != "" {
				*file = absolute(*file, r.e.BaseDir, r.home)
			}
		}
	}
	for _, name := range []string{"assertionFile", "idTokenFile"} {
		if file, _ := r.out.OAuth[name].(string); file != "" {
			r.out.OAuth[name] = absolute(file, r.e.BaseDir, r.home)
		}
	}
	if r.out.Type != "stdio" {
		return
	}
	if r.out.Cwd == "" {
		r.out.Cwd = r.o.Cwd
	} else {
		r.out.Cwd = absolute(r.out.Cwd, r.e.BaseDir, r.home)
		if info, err := os.Stat(r.out.Cwd); err != nil || !info.IsDir() {
			r.fail("missing_cwd", "cwd", "the directory %s does not exist on this machine", r.e.Server.Cwd)
		}
	}
	if r.err != nil {
		return
	}
	if strings.TrimSpace(r.out.Command) == "" {
		r.fail("missing_command", "command", "it is empty after its variables were expanded")
		return
	}
	r.splitCommand()
	if r.env.hasSlash(r.out.Command) || strings.HasPrefix(r.out.Command, "~") {
		r.out.Command = absolute(r.out.Command, r.e.BaseDir, r.home)
	}
}

// splitCommand mends a whole command line that stands in command. A program
// whose path has a space in it must not be split, so this is done only when no
// such program exists, the first word alone is one, and there are no args.
func (r *resolver) splitCommand() {
	if len(r.out.Args) > 0 || !strings.ContainsAny(r.out.Command, " \t") {
		return
	}
	if _, err := r.env.LookPath(absoluteIfPath(r.env, r.out.Command, r.e.BaseDir, r.home), r.e.BaseDir); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	words, ok := splitWords(r.out.Command)
	if !ok || len(words) < 2 {
		return
	}
	if _, err := r.env.LookPath(absoluteIfPath(r.env, words[0], r.e.BaseDir, r.home), r.e.BaseDir); err != nil && r.env.hasSlash(words[0]) {
		return
	}
	r.warn("command_line", "command", "there is no program of this whole name; it was split into a command and its arguments. Write them in args")
	r.out.Command, r.out.Args = words[0], words[1:]
}

func absoluteIfPath(env Env, command, base, home string) string {
	if env.hasSlash(command) {
		return absolute(command, base, home)
	}
	return command
}

// splitWords splits a command line at white space, with the quotes of a POSIX
// shell and none of its other powers.
func splitWords(s string) (words []string, ok bool) {
	var b strings.Builder
	var quote byte
	inWord := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
			inWord = true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				words = append(words, b.String())
				b.Reset()
			}
			inWord = false
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, quote == 0
}

// url checks a URL that had variables in it when the file was read.
func (r *resolver) url() {
	if r.err != nil || r.out.Type == "stdio" || !r.e.Dialect.Vars.in(r.e.Server.URL) {
		return
	}
	fixed, code, why := checkURL(strings.TrimSpace(r.out.URL))
	if fixed == "" {
		r.fail(code, "url", "after expansion: %s", why)
		return
	}
	if code != "" {
		r.warn(code, "url", "after expansion: %s", why)
	}
	r.out.URL = fixed
}

// secrets collects what must not appear in a message: every value of env and
// headers, credentials in the URL and arguments, and what variables held.
func (r *resolver) secrets() {
	var list []string
	for _, name := range sortedKeys(r.out.Env) {
		list = append(list, r.out.Env[name])
	}
	for _, name := range sortedKeys(r.out.Headers) {
		value := r.out.Headers[name]
		list = append(list, value)
		if _, credential, ok := strings.Cut(value, " "); ok { // "Bearer xyz" may be echoed as xyz
			list = append(list, credential)
		}
	}
	list = append(list, urlSecrets(r.out.URL)...)
	list = append(list, urlSecrets(r.out.Proxy)...)
	list = append(list, argSecrets(r.out.Args)...)
	for _, name := range sortedKeys(r.out.OAuth) {
		if text, ok := r.out.OAuth[name].(string); ok && secretName().MatchString(name) {
			list = append(list, text)
		}
	}
	for _, u := range r.used {
		if !publicVariables[u.name] {
			list = append(list, u.value)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	list = slices.Compact(list)
	r.out.Secrets = slices.DeleteFunc(list, notSecret)
}

// notSecret drops values whose masking would only garble messages: words that
// everybody uses, and files and directories that exist.
func notSecret(s string) bool {
	if len(s) < minSecret || emptyCredential(s) || bland[strings.ToLower(s)] {
		return true
	}
	if !filepath.IsAbs(s) {
		return false
	}
	_, err := os.Stat(s)
	return err == nil
}

// publicVariables hold places and names, which messages need.
var publicVariables = map[string]bool{"HOME": true, "PWD": true, "USER": true, "USERPROFILE": true, "TMPDIR": true, "PATH": true,
	"CLAUDE_PLUGIN_ROOT": true, "CLAUDE_PLUGIN_DATA": true, "CLAUDE_PROJECT_DIR": true, "workspaceFolder": true, "workspaceFolderBasename": true, "userHome": true, "pathSeparator": true, "/": true}

// bland are values that are no secret whoever uses them.
var bland = map[string]bool{"true": true, "false": true, "none": true, "null": true, "info": true, "debug": true, "warn": true,
	"warning": true, "error": true, "test": true, "development": true, "production": true, "stdio": true, "http": true}
