package core

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/session"
	"github.com/mcprt/mcprt/core/store"
)

// files is the manager's door to what outlives the process. Nothing is opened
// before it is needed: open reads no file. The cache fails open (no cache, one
// diagnostic), trust fails closed.
type files struct {
	opts *Options
	env  config.Env
	caps []byte // declared client capabilities: lists depend on them

	openCache sync.Once
	cache     *store.Cache // nil: none
	noCache   string       // why

	mu    sync.Mutex
	found []diagnostic // not yet reported, one per code
	said  map[string]bool
}

func newFiles(opts *Options, env config.Env, capabilities []byte) *files {
	return &files{opts: opts, env: env, caps: capabilities, said: map[string]bool{}}
}

// note keeps a finding about our own files for the next report.
func (f *files) note(code, server, message string) {
	f.report(diagnostic{Severity: "note", Code: code, Server: server, Message: message})
}

// report keeps a finding for the next report, once for each code, server and field.
func (f *files) report(d diagnostic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := d.Code + "\x00" + d.Server + "\x00" + d.Field; !f.said[key] {
		f.said[key] = true
		f.found = append(f.found, d)
	}
}

// notes gives what was found since the last call.
func (f *files) notes() []diagnostic {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.found
	f.found = nil
	return found
}

func (f *files) tools() *store.Cache {
	f.openCache.Do(func() {
		if !f.opts.Cache.Enabled {
			f.noCache = "the host has switched it off"
			return
		}
		dir := f.opts.Cache.Dir
		if dir == "" {
			base, err := f.env.UserCacheDir()
			if err != nil {
				f.noCache = err.Error()
				f.note("cache_unavailable", "", "tools are not cached: "+f.noCache)
				return
			}
			dir = filepath.Join(base, "mcprt", "tools")
		}
		cache, err := store.OpenCache(dir, f.opts.Cache.TTL)
		if err != nil {
			f.noCache = err.Error()
			f.note("cache_unavailable", "", "tools are not cached: "+f.noCache)
			return
		}
		f.cache = cache
	})
	return f.cache
}

// cached is one server's place in the cache; its zero value caches nothing.
type cached struct {
	f      *files
	cache  *store.Cache
	key    string
	server string
}

// stored is what the cache knew of a server.
type stored struct {
	set     *toolSet
	verdict *session.Verdict
}

// place finds a server's entry. Whose list it is depends on the values that the
// config resolved to: two tenants with one config text and different tokens
// never see each other's tools.
//
// grant is the sign-in that it is used with, if any: one person's list is not another's.
func (f *files) place(e *config.Entry, r *config.Resolved, grant string) cached {
	cache := f.tools()
	if cache == nil {
		return cached{}
	}
	values := principalValues(r)
	if grant != "" {
		values = append(values, grant)
	}
	principal, err := cache.Principal(values)
	if err != nil {
		f.note("cache_unavailable", "", "tools are not cached: "+err.Error())
		return cached{}
	}
	return cached{f: f, cache: cache, key: store.Key(e.Canonical(), e.Name, f.caps, principal), server: e.Name}
}

// principalValues are what variables can bring into a config, in a stable order: a
// token may stand in an argument or a URL as well as in env or a header.
func principalValues(r *config.Resolved) []string {
	out := append(slices.Clone(r.Args), "", r.URL, "")
	for _, m := range []map[string]string{r.Env, r.Headers} {
		names := make([]string, 0, len(m))
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			out = append(out, name, m[name])
		}
		out = append(out, "")
	}
	return out
}

func (c cached) load() (found *stored) {
	if c.cache == nil {
		return nil
	}
	safe.Do(func(bug *fault.Error) {
		found = nil
		c.f.note("cache_unavailable", "", "the tool cache cannot be read: "+bug.Message)
	}, func() { found = c.read() })
	return found
}

func (c cached) read() *stored {
	safe.Point("store.load")
	list, note, err := c.cache.Get(c.key)
	switch {
	case err != nil:
		c.f.note("cache_unavailable", "", "the tool cache cannot be read: "+err.Error())
		return nil
	case note != nil:
		c.f.note(note.Code, c.server, note.Message)
		return nil
	case list == nil:
		return nil
	}
	tools := make([]session.RawTool, 0, len(list.Tools))
	for _, raw := range list.Tools {
		if name, ok := rawjson.String(rawjson.Get(raw, "name")); ok {
			tools = append(tools, session.RawTool{Name: name, Raw: raw})
		}
	}
	v := session.Verdict(list.Verdict)
	return &stored{set: newToolSet(tools, list.FetchedAt, list.TTLMs), verdict: &v}
}

// save stores a list, best effort.
func (c cached) save(info session.Info, list *session.ToolList) {
	if c.cache == nil {
		return
	}
	safe.Point("store.save")
	raw := make([]json.RawMessage, 0, len(list.Tools))
	for _, t := range list.Tools {
		raw = append(raw, t.Raw)
	}
	err := c.cache.Put(c.key, &store.ToolList{Tools: raw, ServerInfo: info.ServerInfo, Instructions: info.Instructions, Verdict: store.Verdict(info.Verdict),
		FetchedAt: time.Now(), TTLMs: list.TTLMs, CacheScope: list.CacheScope})
	if err != nil {
		c.f.note("cache_unavailable", "", "tools cannot be cached: "+err.Error())
	}
}

func (f *files) cacheInfo() (any, error) {
	cache := f.tools()
	if cache == nil {
		return map[string]any{"enabled": false, "reason": f.noCache}, nil
	}
	info, err := cache.Info()
	if err != nil {
		return nil, fault.New(fault.Internal, "", "the tool cache cannot be read: %w", err)
	}
	return map[string]any{"enabled": true, "dir": info.Dir, "entries": info.Entries, "bytes": info.Bytes}, nil
}

func (f *files) cacheClear() (any, error) {
	cache := f.tools()
	if cache == nil {
		return map[string]any{"removed": 0}, nil
	}
	n, err := cache.Clear()
	if err != nil {
		return nil, fault.New(fault.Internal, "", "the tool cache cannot be cleared: %w", err)
	}
	return map[string]any{"removed": n}, nil
}

// trust gives the records' file; its place is the user's own config directory.
func (f *files) trust() (*store.Trust, error) {
	base, err := f.env.UserConfigDir()
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "trust records have no place: %w", err)
	}
	t, err := store.OpenTrust(filepath.Join(base, "mcprt", "trust.json"))
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "%w", err)
	}
	return t, nil
}

// trusted gives the hashes that are recorded now; none when that is in doubt.
func (f *files) trusted() map[string]bool {
	t, err := f.trust()
	if err != nil {
		return nil
	}
	records, err := t.List()
	if err != nil {
		f.note("trust_unavailable", "", "trust records cannot be read, so project servers are not started: "+err.Error())
		return nil
	}
	set := make(map[string]bool, len(records))
	for _, r := range records {
		set[r.Hash] = true
	}
	return set
}

func (f *files) trustList() (any, error) {
	t, err := f.trust()
	if err != nil {
		return nil, err
	}
	records, err := t.List()
	if err != nil {
		return nil, fault.New(fault.Config, fault.StageConfig, "%w", err)
	}
	if records == nil {
		records = []store.Record{}
	}
	return map[string]any{"records": records}, nil
}
