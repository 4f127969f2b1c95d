package core

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcprt/mcprt/core/config"
)

const (
	watchQuiet = 100 * time.Millisecond // after the last event, for a writer to end
	watchLate  = time.Second            // after the first event, however many follow; also for a file that was just emptied
	watchPoll  = 2 * time.Second        // where a directory cannot be watched
	maxLooks   = 5                      // in a row, while files change
)

// watcher looks after the config files that the last discovery looked at. An event
// only says that it is time to look; what counts is whether a file is not as it
// was when it was read.
type watcher struct {
	m     *Manager
	begin sync.Once
	poke  chan struct{} // the set of files is another one

	mu     sync.Mutex
	base   *config.Result // what the servers are as, or what the host was told last
	latest *config.Result // of the last discovery, which may have changed no server

	good config.LastGood

	// Of the goroutine:
	notify  *fsnotify.Watcher
	blind   bool // some directory is not watched
	emptied map[string]time.Time
}

func newWatcher(m *Manager) *watcher {
	return &watcher{m: m, poke: make(chan struct{}, 1), emptied: map[string]time.Time{}}
}

// lastGood is what discovery falls back on, watched or not: a reload in the moment
// in which an editor saves must not stop the file's servers.
func (w *watcher) lastGood() *config.LastGood { return &w.good }

// follow takes over what a discovery looked at, and begins to watch with the first.
func (w *watcher) follow(found *config.Result) {
	if w.m.opts.Watch == "off" {
		return
	}
	w.mu.Lock()
	if w.latest = found; w.base == nil {
		w.base = found
	}
	w.mu.Unlock()
	w.begin.Do(func() { w.m.goSafe(w.run) })
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// settle says that what was found is applied, or told.
func (w *watcher) settle(found *config.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base = found
}

func (w *watcher) settled() *config.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

// files are all that matter now.
func (w *watcher) files() map[string]fs.FileInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.base.Files)
	maps.Copy(all, w.latest.Files)
	return all
}

func (w *watcher) run() {
	var events chan fsnotify.Event
	var failures chan error
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.blinded(err)
	} else {
		defer notify.Close()
		w.notify, events, failures = notify, notify.Events, notify.Errors
	}
	timer := time.NewTimer(0) // what changed before we watched
	defer timer.Stop()
	var first time.Time // of the events that wait; zero: none does
	for {
		var poll <-chan time.Time
		if w.blind {
			poll = time.After(watchPoll)
		}
		select {
		case <-w.m.ctx.Done():
			return
		case <-events:
		case <-failures: // an overflow: events were lost
		case <-w.poke:
		case <-poll:
		case <-timer.C:
			first = time.Time{}
			if w.look() {
				timer.Reset(watchQuiet)
			}
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(max(0, min(watchQuiet, watchLate-time.Since(first))))
	}
}

// look reads the files again if one of them changed. true: look again soon.
func (w *watcher) look() (again bool) {
	for range maxLooks {
		w.aim()
		changed := config.Changed(w.settled().Files)
		if len(changed) == 0 {
			return false
		}
		if w.halfWritten(changed) {
			return true
		}
		if !w.m.refresh(w.m.ctx, changed) {
			return false // until something happens again
		}
	}
	return true
}

// aim watches the directories in which the files are, or may appear.
func (w *watcher) aim() {
	if w.notify == nil {
		return
	}
	dirs := config.Dirs(w.files())
	have := w.notify.WatchList()
	for _, dir := range have {
		if !slices.Contains(dirs, dir) {
			_ = w.notify.Remove(dir) // it is gone already, or soon is of no interest
		}
	}
	for _, dir := range dirs {
		if slices.Contains(have, dir) {
			continue
		}
		if err := w.notify.Add(dir); err != nil {
			w.blinded(fmt.Errorf("%s: %w", dir, err))
		}
	}
}

// blinded falls back on looking from time to time.
func (w *watcher) blinded(err error) {
	if !w.blind {
		w.blind = true
		w.m.tell(diagnosticNotice{diagnostic{Severity: "warning", Code: "watch_failed",
			Message: fmt.Sprintf("a config directory cannot be watched (%v); its files are looked at every %s instead", err, watchPoll)}})
	}
}

// halfWritten says that a file was emptied a moment ago: most likely somebody is
// about to fill it.
func (w *watcher) halfWritten(changed []string) bool {
	half := false
	files := w.settled().Files
	for path := range w.emptied {
		if !slices.Contains(changed, path) {
			delete(w.emptied, path)
		}
	}
	for _, path := range changed {
		was := files[path]
		if was == nil || was.Size() == 0 || !config.Empty(path) {
			delete(w.emptied, path)
			continue
		}
		since, noted := w.emptied[path]
		if !noted {
			since = time.Now()
			w.emptied[path] = since
		}
		half = half || time.Since(since) < watchLate
	}
	return half
}

// configChanged tells what a change of config files meant.
type configChanged struct {
	Type    string   `json:"type"`
	Applied bool     `json:"applied"`
	Paths   []string `json:"paths"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}

func (c configChanged) encode() []byte { return encode(c) }

// refresh reads all sources after files changed, applies the difference if that is
// wanted, and tells the host. false: nothing could be read.
func (m *Manager) refresh(ctx context.Context, paths []string) bool {
	found, c := m.rediscoverFor(ctx, paths)
	if found == nil {
		return false
	}
	said := 0
	for _, d := range found.Diagnostics {
		if said < maxWatchNotices && d.Severity != config.SeverityNote && slices.Contains(paths, d.Path) {
			said++
			m.tell(diagnosticNotice{d})
		}
	}
	c.fill()
	if !c.none() {
		m.tell(configChanged{"config_changed", m.opts.Watch == "apply", paths, c.Added, c.Removed, c.Changed})
	}
	return true
}

// rediscoverFor gives nil, and has told the host, where nothing could be read.
func (m *Manager) rediscoverFor(ctx context.Context, paths []string) (*config.Result, *changes) {
	m.discovering.Lock()
	defer m.discovering.Unlock()
	found, err := m.discover(ctx)
	if err != nil {
		if ctx.Err() == nil {
			m.tell(diagnosticNotice{diagnostic{Severity: "error", Code: "discovery_failed", Path: ".mcp.json", Message: err.Error()}})
		}
		return nil, nil
	}
	c := differences(m.watcher.settled(), found, paths)
	m.watcher.settle(found)
	switch {
	case m.opts.Watch != "apply":
	case c.none(): // such as a tool's own notes in its config file: no reason to start what has failed
		m.adopt(found)
	default:
		rep := newReport(time.Now())
		m.applyReload(found, false, rep)
		c = rep.changes
	}
	return found, c
}

// maxWatchNotices bounds the diagnostics that one change brings as events.
const maxWatchNotices = 20

// differences compares what two discoveries would start.
func differences(before, now *config.Result, paths []string) *changes {
	c := &changes{}
	was, is := startable(before), startable(now)
	for name, e := range is {
		old := was[name]
		switch {
		case old == nil:
			c.Added = append(c.Added, name)
		case !sameEntry(old, e), slices.ContainsFunc(e.Pulls, func(path string) bool { return slices.Contains(paths, path) }):
			c.Changed = append(c.Changed, name)
		}
	}
	for name := range was {
		if is[name] == nil {
			c.Removed = append(c.Removed, name)
		}
	}
	for _, list := range [][]string{c.Added, c.Removed, c.Changed} {
		slices.Sort(list)
	}
	return c
}
