package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// LastGood keeps what files held when they could last be read, so that one that is
// being written, or was broken by hand, does not take its servers away. It is safe
// from any goroutine.
type LastGood struct {
	mu    sync.Mutex
	files map[string][]byte
}

// maxLastGood bounds what is kept of one file. Larger ones are other programs' state,
// which they replace as a whole.
const maxLastGood = 8 << 20

func (g *LastGood) get(path string) (data []byte, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	data, ok = g.files[path]
	return data, ok
}

func (g *LastGood) put(path string, data []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(data) > maxLastGood {
		delete(g.files, path)
		return
	}
	if g.files == nil {
		g.files = map[string][]byte{}
	}
	g.files[path] = data
}

// drop forgets a file that is gone.
func (g *LastGood) drop(path string) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.files, path)
	}
}

// broken says that a file, or an entry in it, could not be read as what it is.
func (p *Parsed) broken() bool {
	return slices.ContainsFunc(p.Diagnostics, func(d Diagnostic) bool {
		return d.Severity == SeverityError && slices.Contains([]string{"syntax", "invalid_encoding", "unreadable_file"}, d.Code)
	})
}

// steady replaces what a broken file holds by what it held before.
func (d *discovery) steady(f *planned, data []byte, parse func(data []byte) Parsed) {
	if !f.parsed.broken() {
		d.o.LastGood.put(f.file.Path, data)
		return
	}
	old, ok := d.o.LastGood.get(f.file.Path)
	if !ok {
		return
	}
	why := f.parsed.Diagnostics
	f.parsed = parse(old)
	f.parsed.Diagnostics = append(why, Diagnostic{Severity: SeverityWarning, Code: "last_good", Path: f.file.Path,
		Message: "this file cannot be read as it is now, so what it held before still counts; mend it"})
}

// seen notes a file as it is before it is read: a change meanwhile shows later.
func (d *discovery) seen(path string) {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, twice := d.files[path]; !twice {
		d.files[path] = info
	}
}

// pulled notes the files that entries pull in. Of an untrusted one they are those
// inside the project, which its hash covers.
func (d *discovery) pulled(entries []*Entry) {
	for _, e := range entries {
		for _, path := range e.auxFiles(d.home) {
			if e.Trusted || inside(d.real, path) {
				e.Pulls = append(e.Pulls, path)
				d.seen(path)
			}
		}
	}
}

// Changed lists the files that are not as they were when they were read.
func Changed(files map[string]fs.FileInfo) (paths []string) {
	for _, path := range sortedKeys(files) {
		was := files[path]
		is, err := os.Stat(path)
		if err != nil {
			is = nil
		}
		switch {
		case was == nil && is == nil:
		case was != nil && is != nil && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()) && was.Mode() == is.Mode() && os.SameFile(was, is):
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

const (
	maxLinks = 40
	maxDirs  = 1000
)

// Dirs lists the directories in which something happens when one of the files is
// written, replaced, made or removed: that of each file, or the nearest that exists,
// and those of every symbolic link on the way. Links in them are resolved.
func Dirs(files map[string]fs.FileInfo) []string {
	p := watchDirs{known: map[string]bool{}, dirs: map[string]bool{}}
	for _, path := range sortedKeys(files) {
		p.add(path, maxLinks)
	}
	dirs := sortedKeys(p.dirs)
	return dirs[:min(len(dirs), maxDirs)]
}

type watchDirs struct{ known, dirs map[string]bool }

func (p watchDirs) add(path string, links int) {
	if links == 0 || p.known[path] {
		return
	}
	p.known[path] = true
	p.dir(filepath.Dir(path))
	for at := path; ; {
		if target, err := os.Readlink(at); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			p.dir(filepath.Dir(at))
			p.add(filepath.Join(target, path[len(at):]), links-1)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return
		}
		at = parent
	}
}

// dir adds the directory, or the nearest above it that exists.
func (p watchDirs) dir(path string) {
	for {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if info, err := os.Stat(real); err == nil && info.IsDir() {
				p.dirs[real] = true
				return
			}
		}
		parent := filepath.Dir(path)
		if parent == path {
			return
		}
		path = parent
	}
}

// Empty says that there is a file of no bytes.
func Empty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}
