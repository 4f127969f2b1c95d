package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"

	"github.com/mcprt/mcprt/core/lazy"
)

// Modes of the projectTrust option.
const (
	TrustRecorded = "recorded"
	TrustAlways   = "always"
	TrustNever    = "never"
)

// TrustedBy says whether the entry may run: entries of a project's files need a
// record of their hash, all others are the host's or the user's own word. Call
// it again at every start, since records come and go.
func (e *Entry) TrustedBy(mode string, recorded func(hash string) bool) bool {
	if e.Origin.Level != LevelProject {
		return true
	}
	switch mode {
	case TrustAlways:
		return true
	case TrustNever:
		return false
	}
	return recorded != nil && recorded(e.Hash)
}

// Bounds of the files that one config file may pull into its hashes.
const (
	maxAuxBytes = 1 << 20
	maxAuxFiles = 64
)

// snapshot is a project-local file as it was when the entry's hash was made. A
// start uses these bytes, so that what was trusted is what runs.
type snapshot struct {
	data []byte
	sum  [sha256.Size]byte
	err  error // the file was absent or unreadable, and stays so for this entry
}

// snapshots reads each file once per config file.
type snapshots map[string]snapshot

var errTooManyFiles = errors.New("the servers of this file use too many other files")

func (s snapshots) read(path string) (snapshot, error) {
	if known, ok := s[path]; ok {
		return known, nil
	}
	if len(s) >= maxAuxFiles {
		return snapshot{}, errTooManyFiles
	}
	var snap snapshot
	snap.data, snap.err = readFile(path, maxAuxBytes)
	snap.sum = sha256.Sum256(snap.data)
	s[path] = snap
	return snap, nil
}

var fileForm = lazy.Regexp(`\{file:([^}]*)\}`)

// auxFiles lists the files that the entry as written pulls in, as absolute
// paths: envFile and the targets of {file:…}. Paths that depend on the
// environment are left out, since nothing may be expanded before trust.
func (e *Entry) auxFiles(home string) []string {
	var paths []string
	base := e.BaseDir
	add := func(path string) {
		x := expander{syntax: VarSyntax{Dollar: true}, lookup: e.folders(home)}
		out := x.expand(path)
		if path != "" && len(out.problems) == 0 {
			paths = append(paths, absolute(out.text, base, home))
		}
	}
	add(e.EnvFile)
	base = e.fileBase()
	if e.Dialect.Vars.Braces || e.Dialect.Vars.DollarFile {
		e.Server.each(func(_, value string) string {
			for _, m := range fileForm().FindAllStringSubmatch(value, -1) {
				add(m[1])
			}
			return value
		})
	}
	return paths
}

// fileBase is the directory that relative paths of {file:…} start from.
func (e *Entry) fileBase() string {
	if e.Dialect.Vars.FileBeside && e.Origin.Path != "" {
		return filepath.Dir(e.Origin.Path)
	}
	return e.BaseDir
}

// seal computes the hash that a trust record names: over the real paths of file
// and project, provider, name, the entry as written, and the project-local files
// that it pulls in. Scripts that the command points to are not covered.
func (e *Entry) seal(realFile, realProject, home string, files snapshots) error {
	h := sha256.New()
	part := func(b []byte) {
		var size [8]byte // lengths keep parts from running into each other
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	for _, s := range []string{"mcprt trust 1", realFile, realProject, e.Origin.Provider, e.Name, string(e.raw)} {
		part([]byte(s))
	}
	if e.Origin.Level == LevelProject {
		for _, path := range e.auxFiles(home) {
			if !inside(realProject, path) {
				continue
			}
			snap, err := files.read(path)
			if err != nil {
				return err
			}
			if e.files == nil {
				e.files = map[string]snapshot{}
			}
			e.files[path] = snap
			part([]byte(path))
			if snap.err != nil {
				part([]byte("absent"))
			} else {
				part(snap.sum[:])
			}
		}
	}
	e.Hash = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return nil
}

// readAux reads a file that an entry pulls in when it is started. A project's
// entry gets a project-local file only as its hash covers it.
func (e *Entry) readAux(path string) ([]byte, error) {
	if snap, ok := e.files[path]; ok {
		return snap.data, snap.err
	}
	if e.Origin.Level == LevelProject && inside(realPath(e.project), path) {
		return nil, errors.New("its name depends on variables, so trust in this project file cannot cover it")
	}
	return readFile(path, maxAuxBytes)
}

// realPath resolves symbolic links as far as the path exists.
func realPath(path string) string {
	if path == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(realPath(dir), filepath.Base(path))
}

// inside says whether path lies in the directory, links resolved.
func inside(realDir, path string) bool {
	rel, err := filepath.Rel(realDir, realPath(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// absolute makes a path absolute: ~ is the home directory, all else is relative
// to base.
func absolute(path, base, home string) string {
	if home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		return filepath.Join(home, path[1:])
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}
