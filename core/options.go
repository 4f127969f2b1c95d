package core

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/auth"
	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/lazy"
	"github.com/mcprt/mcprt/core/session"
	"github.com/mcprt/mcprt/core/trace"
)

// Options are what a host gave to open, checked, with the defaults filled in. The
// contract's table of options is their manual. They are never changed after open.
type Options struct {
	Cwd     string          // absolute
	Env     config.Env      // the host's, or the process's own
	Servers []config.Inline // in the host's order

	StartupTimeout time.Duration  // 0: until every server has settled
	Uncached       string         // "wait", "background"
	Gate           string         // "timer", "eager"
	Timeout        time.Duration  // 0: none
	EnvTimeout     *time.Duration // from the environment: wins over a server's own and over Timeout
	MaxTimeout     time.Duration  // 0: no ceiling
	RequestTimeout time.Duration  // 0: none
	Grace          time.Duration

	Discovery    DiscoveryOptions
	ProjectTrust string // "recorded", "always", "never"
	Cache        CacheOptions

	Reconnect           string // "auto", "onCall", "manual"
	Lazy                bool
	IdleTimeout         time.Duration // 0: never
	MaxConcurrentStarts int64
	QueueLimits
	ToolNames  ToolNameOptions
	Limits     LimitOptions
	Answers    []string // EV_REQUEST kinds
	ClientInfo session.ClientInfo
	Auth       AuthOptions
	EnvPolicy  config.EnvPolicy
	Share      bool
	Watch      string // "off", "notify", "apply"
	Pinning    string // "off", "report"
	LoginPath  bool
	Spill      *SpillOptions
	Trace      *TraceOptions
	Log        LogOptions
	Runtime    RuntimeOptions
}

// DiscoveryOptions say which config files are read.
type DiscoveryOptions struct {
	Project       bool
	User          config.User
	Exclude       []string // ids of sources
	Files         []string
	Variables     map[string]string // win over the environment's in configs
	FilterExa     bool
	FilterBrowser bool
}

// CacheOptions are those of the tool cache. An empty Dir is the default one.
type CacheOptions struct {
	Dir     string
	TTL     time.Duration
	Enabled bool
}

// ToolNameOptions shape the names that tools get.
type ToolNameOptions struct {
	Prefix    string
	MaxLength int
}

// LimitOptions bound what servers and files can make us hold.
type LimitOptions struct {
	MessageBytes int64
	Pages, Tools int
	ConfigBytes  int64
	// CallsPerServer is how many calls run at one server at once; the others wait in a
	// queue, first come first served. 0: no limit.
	CallsPerServer int
}

// AuthOptions are those of signing in.
type AuthOptions struct {
	Store             string // "auto", "keyring", "file", "memory"
	Dir               string
	ClientMetadataURL string
	RedirectURI       string
	RedirectPort      int    // 0: any
	OpenBrowser       string // "host", "system", "never"
}

// SpillOptions send large text results to files.
type SpillOptions struct {
	OverBytes  int64
	Dir        string
	QuotaBytes int64 // 0: none
}

// TraceOptions are those of the flight recorder.
type TraceOptions struct {
	File         string
	MaxBytes     int64 // of one file
	PayloadBytes int64 // of one message that are kept; 0: none
}

// LogOptions choose what is logged as events.
type LogOptions struct{ Level string }

// RuntimeOptions are for the Go runtime of the process. Zero and nil: as it is.
type RuntimeOptions struct {
	MaxProcs    int
	MemoryLimit int64
	GCPercent   *int
}

const (
	maxDuration   = 10 * 365 * 24 * time.Hour
	maxGrace      = 10 * time.Minute
	maxNameLength = 128
	maxOptions    = 64 << 20 // bytes
	envStartup    = "MCPRT_STARTUP_TIMEOUT_MS"
	envTimeout    = "MCPRT_TIMEOUT_MS"
)

var (
	prefixForm  = lazy.Regexp(`^[A-Za-z0-9_-]{0,16}$`)
	answerKinds = []string{"elicitation", "sampling", "roots", "authorization", "input"}
)

func defaultOptions() *Options {
	return &Options{
		StartupTimeout: 250 * time.Millisecond,
		Uncached:       "wait",
		Gate:           "timer",
		Timeout:        30 * time.Second,
		MaxTimeout:     time.Hour,
		RequestTimeout: 5 * time.Minute,
		Grace:          2 * time.Second,
		Discovery:      DiscoveryOptions{Project: true},
		ProjectTrust:   "recorded",
		Cache:          CacheOptions{TTL: 30 * 24 * time.Hour, Enabled: true},
		Reconnect:      "auto",

		MaxConcurrentStarts: 16,
		QueueLimits:         QueueLimits{MaxInFlight: 4096, QueueBytes: 256 << 20, MaxNotices: 4096, NoticeBytes: 16 << 20},
		ToolNames:           ToolNameOptions{Prefix: "mcp_", MaxLength: 64},
		Limits:              LimitOptions{MessageBytes: 64 << 20, Pages: 1000, Tools: 50000, ConfigBytes: 64 << 20},
		Answers:             []string{},
		ClientInfo:          session.ClientInfo{Name: "mcprt", Version: Version},
		Auth:                AuthOptions{Store: "auto", OpenBrowser: "host"},
		Watch:               "off",
		Pinning:             "off",
		Log:                 LogOptions{Level: "warn"},
	}
}

// parseOptions reads the JSON object of open; empty is {}. An option that is
// unknown or wrong is an invalid_request error that names it. What does not stop an
// open comes as diagnostics.
func parseOptions(raw []byte) (*Options, []config.Diagnostic, error) {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if len(raw) > maxOptions {
		return nil, nil, fault.New(fault.InvalidRequest, "", "the options are larger than %d MiB", maxOptions>>20)
	}
	if !json.Valid(raw) {
		return nil, nil, fault.New(fault.InvalidRequest, "", "the options are not valid JSON")
	}
	raw = bytes.TrimSpace(raw)
	if kind := jsonKind(raw); kind != "an object" {
		return nil, nil, fault.New(fault.InvalidRequest, "", "the options must be a JSON object, but are %s", kind)
	}
	o := defaultOptions()
	var err error
	r := newOptionReader("", raw, &err)
	o.readPlace(r)
	o.readTimes(r)
	o.readDiscovery(r)
	o.readServing(r)
	o.readLimits(r)
	o.readExtras(r)
	r.end()
	if err != nil {
		return nil, nil, err
	}
	if o.Cwd, err = filepath.Abs(o.Cwd); err != nil {
		return nil, nil, fault.New(fault.InvalidRequest, "", `the current directory is unknown (%w); give the option "cwd"`, err)
	}
	return o, o.readEnv(), nil
}

func (o *Options) readPlace(r *optionReader) {
	r.string("cwd", &o.Cwd)
	vars := map[string]string{}
	r.each("env", "a string", "a string, and neither it nor its name may hold a NUL byte, nor its name a =", func(name string, raw []byte) bool {
		value, ok := text(raw)
		vars[name] = value
		// On Windows names such as "=C:" exist.
		return ok && name != "" && !strings.ContainsAny(name[1:], "=") && !strings.Contains(name, "\x00")
	})
	if r.get("env") == nil {
		o.Env = config.ProcessEnv()
	} else {
		o.Env = config.ParseEnv(vars)
	}
	r.each("servers", "an object", "an object", func(name string, raw []byte) bool {
		o.Servers = append(o.Servers, config.Inline{Name: name, Raw: slices.Clone(raw)})
		return jsonKind(raw) == "an object"
	})
}

func (o *Options) readTimes(r *optionReader) {
	r.ms("startupTimeoutMs", &o.StartupTimeout, 0, maxDuration)
	r.word("uncached", &o.Uncached, "wait", "background")
	r.word("gate", &o.Gate, "timer", "eager")
	r.ms("timeoutMs", &o.Timeout, 0, maxDuration)
	r.ms("maxTimeoutMs", &o.MaxTimeout, 0, maxDuration)
	r.ms("requestTimeoutMs", &o.RequestTimeout, 0, maxDuration)
	r.ms("graceMs", &o.Grace, 0, maxGrace)
}

func (o *Options) readDiscovery(r *optionReader) {
	r.object("discovery", func(r *optionReader) {
		d := &o.Discovery
		r.bool("project", &d.Project)
		r.own("user", &d.User, `"own", "all", "none" or a list of source ids`)
		r.strings("exclude", &d.Exclude)
		r.strings("files", &d.Files)
		r.each("variables", "a string", "a string without a NUL byte", func(name string, raw []byte) bool {
			value, ok := text(raw)
			if d.Variables == nil {
				d.Variables = map[string]string{}
			}
			d.Variables[name] = value
			return ok
		})
		r.bool("filterExa", &d.FilterExa)
		r.bool("filterBrowser", &d.FilterBrowser)
	})
	r.word("projectTrust", &o.ProjectTrust, "recorded", "always", "never")
	r.object("cache", func(r *optionReader) {
		r.string("dir", &o.Cache.Dir)
		r.ms("ttlMs", &o.Cache.TTL, 0, maxDuration)
		r.bool("enabled", &o.Cache.Enabled)
	})
}

func (o *Options) readServing(r *optionReader) {
	r.word("reconnect", &o.Reconnect, "auto", "onCall", "manual")
	r.bool("lazy", &o.Lazy)
	r.ms("idleTimeoutMs", &o.IdleTimeout, 0, maxDuration)
	r.int("maxConcurrentStarts", &o.MaxConcurrentStarts, 1, 1024)
	r.own("envPolicy", &o.EnvPolicy, `"inherit", "clear" or {"allow":[globs]}`)
	r.bool("share", &o.Share)
	r.object("clientInfo", func(r *optionReader) {
		r.string("name", &o.ClientInfo.Name)
		r.string("version", &o.ClientInfo.Version)
	})
	r.strings("answers", &o.Answers)
	for _, kind := range o.Answers {
		if !slices.Contains(answerKinds, kind) {
			r.refuse(`the option "answers" must list only %s`, oneOf(answerKinds))
		}
	}
}

func (o *Options) readLimits(r *optionReader) {
	r.int("maxInFlight", &o.MaxInFlight, 1, 1<<20)
	r.int("queueBytes", &o.QueueBytes, 1<<16, 1<<40)
	r.int("maxNotices", &o.MaxNotices, 1, 1<<20)
	r.int("noticeBytes", &o.NoticeBytes, 1<<12, 1<<40)
	r.object("toolNames", func(r *optionReader) {
		n := &o.ToolNames
		if raw := r.get("prefix"); raw != nil {
			if s, ok := text(raw); ok && prefixForm().MatchString(s) {
				n.Prefix = s
			} else {
				r.wrong("prefix", "a string", "a string of at most 16 of the characters A-Z a-z 0-9 _ -", raw)
			}
		}
		r.small("maxLength", &n.MaxLength, minNameLength, maxNameLength)
	})
	r.object("limits", func(r *optionReader) {
		l := &o.Limits
		r.int("messageBytes", &l.MessageBytes, 1<<10, math.MaxInt32)
		r.small("pages", &l.Pages, 1, 1000000)
		r.small("tools", &l.Tools, 1, 1000000)
		r.int("configBytes", &l.ConfigBytes, 1<<10, math.MaxInt32)
		r.small("callsPerServer", &l.CallsPerServer, 0, 1<<20)
	})
}

func (o *Options) readExtras(r *optionReader) {
	r.object("auth", func(r *optionReader) {
		a := &o.Auth
		r.word("store", &a.Store, "auto", "keyring", "file", "memory")
		r.string("dir", &a.Dir)
		r.string("clientMetadataUrl", &a.ClientMetadataURL)
		r.string("redirectUri", &a.RedirectURI)
		r.small("redirectPort", &a.RedirectPort, 0, math.MaxUint16)
		r.word("openBrowser", &a.OpenBrowser, "host", "system", "never")
		if u := a.ClientMetadataURL; u != "" && auth.CheckMetadataURL(u) != nil {
			r.wrong("clientMetadataUrl", "a string", "an https url with a path, such as https://example.com/mcp.json", r.get("clientMetadataUrl"))
		}
		if u := a.RedirectURI; u != "" && auth.CheckRedirectURI(u) != nil {
			r.wrong("redirectUri", "a string", "an http url of this machine, an https url, or one of a scheme of the program's own", r.get("redirectUri"))
		}
	})
	r.word("watch", &o.Watch, "off", "notify", "apply")
	r.word("pinning", &o.Pinning, "off", "report")
	r.bool("loginPath", &o.LoginPath)
	r.object("spill", func(r *optionReader) {
		o.Spill = &SpillOptions{}
		r.need("overBytes")
		r.need("dir")
		r.int("overBytes", &o.Spill.OverBytes, 1<<10, 1<<40)
		r.string("dir", &o.Spill.Dir)
		r.int("quotaBytes", &o.Spill.QuotaBytes, 0, 1<<50)
	})
	r.object("trace", func(r *optionReader) {
		o.Trace = &TraceOptions{MaxBytes: trace.DefaultMaxBytes, PayloadBytes: trace.DefaultPayloadBytes}
		r.need("file")
		r.string("file", &o.Trace.File)
		r.int("maxBytes", &o.Trace.MaxBytes, 1<<16, 1<<40)
		r.int("payloadBytes", &o.Trace.PayloadBytes, 0, 1<<20)
	})
	r.object("log", func(r *optionReader) {
		r.word("level", &o.Log.Level, "off", "error", "warn", "info", "debug")
	})
	r.object("runtime", func(r *optionReader) {
		r.small("maxProcs", &o.Runtime.MaxProcs, 0, 4096)
		r.int("memoryLimit", &o.Runtime.MemoryLimit, 0, 1<<50)
		if r.get("gcPercent") != nil {
			percent := 0
			r.small("gcPercent", &percent, -1, 100000)
			o.Runtime.GCPercent = &percent
		}
	})
}

// readEnv takes the two times that a person may set from outside of the host.
func (o *Options) readEnv() []config.Diagnostic {
	var found []config.Diagnostic
	read := func(name string) *time.Duration {
		value, ok := o.Env.Get(name)
		value = strings.TrimSpace(value)
		if !ok || value == "" {
			return nil
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > maxDuration.Milliseconds() {
			found = append(found, config.Diagnostic{Severity: "warning", Code: "invalid_env", Field: "env." + name,
				Message: "the environment variable " + name + " must be a whole number of milliseconds from 0 to " +
					strconv.FormatInt(maxDuration.Milliseconds(), 10) + "; it is ignored"})
			return nil
		}
		d := time.Duration(n) * time.Millisecond
		return &d
	}
	if d := read(envStartup); d != nil {
		o.StartupTimeout = *d
	}
	o.EnvTimeout = read(envTimeout)
	return found
}
