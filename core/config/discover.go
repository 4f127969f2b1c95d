package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/goccy/go-json"
	"golang.org/x/sync/errgroup"
)

// Options says where to look for servers.
type Options struct {
	Cwd                      string            // the project directory; "" is the process's current one
	Env                      Env               // home and config directories, PATH, variables
	Inline                   []Inline          // the host's own servers, in its order
	Files                    []string          // files that the host names; relative ones against Cwd
	Project                  bool              // read project-level files
	User                     User              // which user-level files are read
	Exclude                  []string          // ids of sources that are not read at all
	MaxBytes                 int64             // of one file; 0: 64 MiB
	FilterExa, FilterBrowser bool              // leave out servers for what the host does itself
	ProjectTrust             string            // TrustRecorded (also ""), TrustAlways or TrustNever
	Vars                     map[string]string // variables from the host, as for ResolveOptions
	LastGood                 *LastGood         // what counts where a file is broken now; nil: nothing does
	// Trusted says whether a record of this hash exists. It is asked from one
	// goroutine. nil: none exists.
	Trusted func(hash string) bool
}

// Inline is one server that the host gave as JSON.
type Inline struct {
	Name string
	Raw  []byte
}

// User says which user-level files are read. mcprt's own is read unless None is
// set; those of other tools only where asked for.
type User struct {
	None, All bool
	IDs       []string // of sources, besides mcprt's own
}

// UnmarshalJSON reads discovery.user: "own", "all", "none", or a list of ids.
func (u *User) UnmarshalJSON(b []byte) error {
	*u = User{}
	var word string
	if err := json.Unmarshal(b, &word); err == nil {
		switch word {
		case "own":
			return nil
		case "all":
			u.All = true
			return nil
		case "none":
			u.None = true
			return nil
		}
	} else if err := json.Unmarshal(b, &u.IDs); err == nil && u.IDs != nil {
		return nil
	}
	return fmt.Errorf(`discovery.user must be "own", "all", "none", or a list of source ids`)
}

const (
	ownID           = "mcprt"
	inlineID        = "inline"
	fileID          = "file"
	defaultMaxBytes = 64 << 20
	maxReaders      = 8 // files read at one moment
)

func (u User) wants(id string) bool {
	return !u.None && (u.All || id == ownID || slices.Contains(u.IDs, id))
}

// Discover reads every source and merges what it finds. One bad file or entry
// never loses another: it becomes a diagnostic. An error means that nothing
// could be done at all.
//
// Nothing is started, no helper is run and no network is used.
func Discover(ctx context.Context, o Options) (*Result, error) {
	d, err := newDiscovery(o)
	if err != nil {
		return nil, err
	}
	files := d.plan()
	if err := d.readAll(ctx, files); err != nil {
		return nil, err
	}
	d.layer(files)
	result := &Result{Diagnostics: d.found, Files: d.files}
	entries := d.inline(result)
	// Ownership: the host's files in its order, then by level, then by source.
	var enabled, disabled []string
	for _, level := range []Level{LevelHost, LevelLocal, LevelProject, LevelUser} {
		for _, f := range files {
			if !f.wanted {
				continue
			}
			for _, e := range f.parsed.Entries {
				if e.Origin.Level == level {
					entries = append(entries, e)
				}
			}
		}
	}
	for _, f := range files {
		if f.wanted {
			result.Diagnostics = append(result.Diagnostics, f.parsed.Diagnostics...)
			if f.source == nil || f.file.Level != LevelUser {
				continue
			}
			if f.source.ID == ownID {
				enabled, disabled = f.parsed.EnabledServers, f.parsed.DisabledServers
			} else if len(f.parsed.EnabledServers)+len(f.parsed.DisabledServers) > 0 { // another tool's user switches that tool's servers
				applySwitches(slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Origin.Provider != f.source.ID }),
					f.parsed.EnabledServers, f.parsed.DisabledServers)
			}
		}
	}
	for _, e := range entries {
		e.Trusted = e.TrustedBy(o.ProjectTrust, o.Trusted)
	}
	result.merge(entries)
	applySwitches(result.Entries, enabled, disabled)
	d.filter(result)
	d.pulled(result.Entries)
	result.markDuplicates()
	d.checkVariables(result)
	result.Diagnostics = append(result.Diagnostics, notImported(files)...)
	return result, nil
}

type discovery struct {
	o        Options
	cwd      string
	real     string // cwd, links resolved
	home     string
	maxBytes int64
	found    []Diagnostic // while the files were looked for

	mu    sync.Mutex
	files map[string]fs.FileInfo // see Result.Files
}

// planned is one file to read. Files that are not wanted are read only to say
// how many servers are in them.
type planned struct {
	source   *Source // nil for a host-named file of unknown kind
	provider Origin
	dialect  Dialect
	file     File
	wanted   bool
	parsed   Parsed
}

func newDiscovery(o Options) (*discovery, error) {
	d := &discovery{o: o, cwd: o.Cwd, maxBytes: o.MaxBytes, files: map[string]fs.FileInfo{}}
	if d.maxBytes <= 0 {
		d.maxBytes = defaultMaxBytes
	}
	if d.cwd == "" {
		dir, err := workingDir()
		if err != nil {
			return nil, fmt.Errorf("the current directory is not known: %w; pass cwd", err)
		}
		d.cwd = dir
	}
	abs, err := filepath.Abs(d.cwd)
	if err != nil {
		return nil, fmt.Errorf("the project directory cannot be made absolute: %w; pass an absolute cwd", err)
	}
	d.cwd = abs
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the project directory %s does not exist or is no directory; pass another cwd", abs)
	}
	d.real = realPath(abs)
	d.home, _ = o.Env.Home()
	return d, nil
}

// plan lists the files in the order of ownership within each level.
func (d *discovery) plan() []*planned {
	var files []*planned
	for _, name := range d.o.Files {
		path := absolute(name, d.cwd, d.home)
		p := &planned{wanted: true, dialect: unknownDialect, provider: Origin{Provider: fileID, ProviderName: "File"},
			file: File{Path: path, Level: LevelHost, Base: filepath.Dir(path)}}
		if p.source, p.file.Base = sourceFor(path, d.o.Env.goos); p.source != nil {
			p.dialect = p.source.Dialect
		}
		files = append(files, p)
	}
	config, _ := d.o.Env.UserConfigDir()
	xdg, _ := d.o.Env.XDGConfigDir()
	at := Locations{Project: d.cwd, Home: d.home, Config: config, XDG: xdg, Env: d.o.Env}
	for i := range sources {
		s := &sources[i]
		if slices.Contains(d.o.Exclude, s.ID) {
			continue
		}
		paths := s.Paths(at)
		if s.Follow != nil && !d.o.User.None {
			more, found := s.Follow(at, func(path string) ([]byte, error) {
				if d.o.User.wants(s.ID) {
					d.seen(path)
				}
				return readFile(path, d.maxBytes)
			})
			paths = append(paths, more...)
			if d.o.User.wants(s.ID) {
				d.found = append(d.found, found...)
			}
		}
		for _, f := range paths {
			if f.Path == "" || f.Level == LevelProject && !d.o.Project || f.Level != LevelProject && d.o.User.None {
				continue
			}
			files = append(files, &planned{source: s, file: f, dialect: s.Dialect, wanted: f.Level == LevelProject || d.o.User.wants(s.ID),
				provider: Origin{Provider: s.ID, ProviderName: s.Name}})
		}
	}
	return files
}

func (d *discovery) readAll(ctx context.Context, files []*planned) error {
	var group errgroup.Group
	group.SetLimit(maxReaders)
	for _, f := range files {
		group.Go(func() (err error) {
			defer func() {
				// A bug in one parser must not lose the other files, nor the host.
				if v := recover(); v != nil {
					f.parsed = Parsed{Diagnostics: []Diagnostic{{Severity: SeverityError, Code: "internal", Path: f.file.Path,
						Message: "a bug in mcprt was caught while it read this file; please report it"}}}
				}
			}()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d.read(f)
			return nil
		})
	}
	return group.Wait()
}

func (d *discovery) read(f *planned) {
	if f.wanted {
		d.seen(f.file.Path)
	}
	parse := func(data []byte, a *arrival) Parsed {
		return f.source.parse(Input{Data: data, arrival: a, Path: f.file.Path, Level: f.file.Level, Dialect: f.dialect, Project: []string{d.cwd, d.real}})
	}
	data, a, err := startFile(f.file.Path, d.maxBytes)
	if err == nil {
		f.parsed = parse(data, a)
		err = a.wait()
	}
	if errors.Is(err, errChanged) { // so it is read once more, whatever its size is by now
		if data, err = readFile(f.file.Path, d.maxBytes); err == nil {
			f.parsed = parse(data, nil)
		}
	}
	switch {
	case absent(err):
		d.o.LastGood.drop(f.file.Path)
		if f.file.Level == LevelHost {
			f.parsed.Diagnostics = []Diagnostic{{Severity: SeverityError, Code: "missing_file", Path: f.file.Path,
				Message: "this file was named by the host but does not exist; check its path"}}
		}
		return
	case err != nil:
		f.parsed = Parsed{Diagnostics: []Diagnostic{unreadable(f.file.Path, err)}}
	}
	if f.wanted && d.o.LastGood != nil {
		d.steady(f, data, func(old []byte) Parsed { return parse(old, nil) })
	}
	if f.wanted && !f.dialect.Layered {
		d.adopt(f)
	}
}

// adopt gives a file's entries what follows from where the file is, and seals them.
func (d *discovery) adopt(f *planned) {
	for i := range f.parsed.Diagnostics {
		if d := &f.parsed.Diagnostics[i]; d.Server != "" {
			d.Server = f.file.prefix + d.Server
		}
	}
	real, aux, rep := realPath(f.file.Path), snapshots{}, &report{path: f.file.Path}
	f.parsed.Entries = slices.DeleteFunc(f.parsed.Entries, func(e *Entry) bool {
		if f.file.prefix != "" {
			e.Name = f.file.prefix + e.Name
			if why := badName(e.Name); why != "" {
				rep.add(SeverityError, "invalid_name", "", "", e.at[""], "with its plugin's name before it, a server's name %s", why)
				return true
			}
		}
		e.Origin.Provider, e.Origin.ProviderName, e.Origin.Path = f.provider.Provider, f.provider.ProviderName, f.file.Path
		e.BaseDir, e.project, e.vars = f.file.Base, d.cwd, f.file.vars
		if e.Origin.Level == LevelLocal && f.file.vars == nil {
			e.BaseDir = d.cwd
		}
		if f.file.disabled != "" {
			e.switchOff(rep, f.file.disabled)
		}
		err := e.seal(real, d.real, d.home, aux)
		if err != nil {
			rep.add(SeverityError, "too_large", e.Name, "", e.at[""], "%v; this server is ignored", err)
		}
		return err != nil
	})
	f.parsed.Diagnostics = append(f.parsed.Diagnostics, rep.list...)
}

// inline parses the host's own servers.
func (d *discovery) inline(result *Result) []*Entry {
	var entries []*Entry
	for _, in := range d.o.Inline {
		e, diagnostics, err := parseInline(in.Name, in.Raw)
		result.Diagnostics = append(result.Diagnostics, diagnostics...)
		if err != nil {
			continue
		}
		e.BaseDir, e.project = d.cwd, d.cwd
		entries = append(entries, e)
	}
	return entries
}

// checkVariables expands the servers that would be started, to say before a
// start what is missing. Untrusted and disabled ones are left alone.
func (d *discovery) checkVariables(r *Result) {
	reports := map[string]*report{} // by file: the bound on what a file can say is one for all its servers
	for _, d := range r.Diagnostics {
		if reports[d.Path] == nil {
			reports[d.Path] = &report{path: d.Path}
		}
		said := reports[d.Path]
		said.said++
		said.full = said.said > maxDiagnostics
	}
	for _, e := range r.Entries {
		if !e.Trusted || !e.Enabled || e.DuplicateOf != "" {
			continue
		}
		x := e.expander(d.o.Env, d.home, ResolveOptions{Vars: d.o.Vars})
		x.file = func(string) (string, error) { return "content", nil }   // files are read at the start only
		x.helper = func(string) (string, error) { return "printed", nil } // and helpers run only then
		copied := e.Server.clone()
		rep := reports[e.Origin.Path]
		if rep == nil {
			rep = &report{path: e.Origin.Path}
			reports[e.Origin.Path] = rep
		}
		before := len(rep.list)
		e.expandInto(&copied, x, func(field string, p problem) {
			severity := SeverityWarning
			switch {
			case p.input != "": // the host can give it
				severity = SeverityNote
			case p.fatal: // a start fails with the same words
				severity = SeverityError
			}
			at, ok := e.at[field]
			if !ok {
				at = e.at[""]
			}
			rep.add(severity, p.code, e.Name, field, at, "%s", p.text)
		}, func([]usedVariable) {})
		if name := e.Server.BearerTokenEnvVar; name != "" {
			if value, _ := x.lookup(name); value == "" {
				rep.add(SeverityError, "unresolved_variable", e.Name, "bearerTokenEnvVar", e.at["bearerTokenEnvVar"], "the environment variable %s is not set; it must hold the token for this server", clip(name))
			}
		}
		r.Diagnostics = append(r.Diagnostics, rep.list[before:]...)
	}
}

// notImported says, once per source, what user-level files of other tools hold
// that was left out.
func notImported(files []*planned) []Diagnostic {
	var notes []Diagnostic
	for i, f := range files {
		if f.wanted || i > 0 && files[i-1].source == f.source && !files[i-1].wanted {
			continue // counted with its source's first file
		}
		count, path := 0, ""
		for _, other := range files[i:] {
			if other.source == f.source && !other.wanted && len(other.parsed.Entries) > 0 {
				count += len(other.parsed.Entries)
				path = other.file.Path
			}
		}
		if count > 0 {
			lost, them := fmt.Sprintf("%d servers that %s has set up for the user were", count, f.source.Name), "them"
			if count == 1 {
				lost, them = fmt.Sprintf("1 server that %s has set up for the user was", f.source.Name), "it"
			}
			notes = append(notes, Diagnostic{Severity: SeverityNote, Code: "not_imported", Path: path,
				Message: fmt.Sprintf("%s left out; name %q in discovery.user to use %s", lost, f.source.ID, them)})
		}
	}
	return notes
}
