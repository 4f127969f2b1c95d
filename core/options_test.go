package core

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/session"
)

const noEnv = `"env":{}`

func mustParse(t *testing.T, raw string) (*Options, []config.Diagnostic) {
	t.Helper()
	o, found, err := parseOptions([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return o, found
}

// mustRefuse returns the message of an invalid_request error.
func mustRefuse(t *testing.T, raw string) string {
	t.Helper()
	o, found, err := parseOptions([]byte(raw))
	if o != nil || found != nil || !fault.Is(err, fault.InvalidRequest) {
		t.Fatalf("%s: %v, %v, %v", raw, o, found, err)
	}
	return err.Error()
}

// The contract's table of defaults, written out in milliseconds and bytes.
func TestDefaultsAreTheContracts(t *testing.T) {
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	want := &Options{
		Cwd: cwd, Env: config.ParseEnv(nil), Servers: nil,
		StartupTimeout: ms(250), Uncached: "wait", Gate: "timer",
		Timeout: ms(30000), MaxTimeout: ms(3600000), RequestTimeout: ms(300000), Grace: ms(2000),
		Discovery:    DiscoveryOptions{Project: true, User: config.User{}},
		ProjectTrust: "recorded",
		Cache:        CacheOptions{TTL: ms(2592000000), Enabled: true},
		Reconnect:    "auto", Lazy: false, IdleTimeout: 0, MaxConcurrentStarts: 16,
		QueueLimits: QueueLimits{MaxInFlight: 4096, QueueBytes: 268435456, MaxNotices: 4096, NoticeBytes: 16777216},
		ToolNames:   ToolNameOptions{"mcp_", 64},
		Limits:      LimitOptions{MessageBytes: 67108864, Pages: 1000, Tools: 50000, ConfigBytes: 67108864},
		Answers:     []string{}, ClientInfo: session.ClientInfo{Name: "mcprt", Version: Version},
		Auth:      AuthOptions{Store: "auto", OpenBrowser: "host"},
		EnvPolicy: config.EnvPolicy{}, Share: false, Watch: "off", Pinning: "off", LoginPath: false,
		Log: LogOptions{"warn"},
	}
	got, found := mustParse(t, `{`+noEnv+`}`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(found) != 0 {
		t.Errorf("%v", found)
	}
	// Saying the defaults, or null, is saying nothing.
	for _, raw := range []string{
		`{"cwd":null,"servers":null,"timeoutMs":null,"discovery":null,"cache":{"dir":null,"ttlMs":null},"answers":null,"envPolicy":null,"spill":null,"trace":null,"runtime":{"gcPercent":null},` + noEnv + `}`,
		`{"startupTimeoutMs":250,"uncached":"wait","gate":"timer","timeoutMs":30000,"discovery":{"project":true,"user":"own","filterExa":false},"auth":{"store":"auto","redirectPort":0,"openBrowser":"host"},"share":false,
		  "watch":"off","pinning":"off","loginPath":false,"envPolicy":"inherit","log":{"level":"warn"},"runtime":{},` + noEnv + `}`,
		" \n\t{" + noEnv + "} ",
	} {
		if got, found := mustParse(t, raw); !reflect.DeepEqual(got, want) || len(found) != 0 {
			t.Errorf("%s:\ngot  %+v\nwant %+v\n%v", raw, got, want, found)
		}
	}
}

func TestNoOptionsAtAll(t *testing.T) {
	// Without "env" the library looks at what the process had.
	for _, raw := range [][]byte{nil, {}, []byte("{}"), []byte(`{"env":null}`)} {
		o, _, err := parseOptions(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := o.Env.Get("PATH"); !ok {
			t.Errorf("%q: no PATH", raw)
		}
	}
}

func TestEveryOption(t *testing.T) {
	cwd := t.TempDir()
	o, _ := mustParse(t, `{
		"cwd": "`+filepath.ToSlash(cwd)+`", "env": {"A": "b", "EMPTY": "", "GONE": null},
		"servers": {"z": {"command": "x", "n": 9007199254740993}, "a": {}, "m": { "url" : "u" }},
		"startupTimeoutMs": 0, "uncached": "background", "gate": "eager", "timeoutMs": 1.5e3, "maxTimeoutMs": 0, "requestTimeoutMs": 7.0, "graceMs": 600000,
		"discovery": {"project": false, "user": ["cursor", "claude"], "exclude": ["codex"], "files": ["/f.json", "g.json"], "variables": {"CLAUDE_PLUGIN_ROOT": "/p"}, "filterExa": true, "filterBrowser": true},
		"projectTrust": "never", "cache": {"dir": "/c", "ttlMs": 5, "enabled": false},
		"reconnect": "onCall", "lazy": true, "idleTimeoutMs": 9, "maxConcurrentStarts": 1,
		"maxInFlight": 1, "queueBytes": 65536, "maxNotices": 2, "noticeBytes": 4096,
		"toolNames": {"prefix": "", "maxLength": 128}, "limits": {"messageBytes": 1024, "pages": 3, "tools": 4, "configBytes": 2048, "callsPerServer": 5},
		"answers": ["roots", "input"], "clientInfo": {"name": "n", "version": "v"},
		"auth": {"store": "memory", "dir": "/d", "clientMetadataUrl": "https://c/d", "redirectUri": "http://localhost:1/r", "redirectPort": 65535, "openBrowser": "never"},
		"envPolicy": {"allow": ["LC_*"]}, "share": true, "watch": "apply", "pinning": "report", "loginPath": true,
		"spill": {"overBytes": 1024, "dir": "/s", "quotaBytes": 1}, "trace": {"file": "/t", "maxBytes": 65536, "payloadBytes": 0}, "log": {"level": "debug"},
		"runtime": {"maxProcs": 2, "memoryLimit": 1073741824, "gcPercent": -1}}`)
	off := -1
	want := &Options{
		Cwd: cwd, Env: config.ParseEnv(map[string]string{"A": "b", "EMPTY": ""}),
		Servers:        []config.Inline{{Name: "z", Raw: []byte(`{"command": "x", "n": 9007199254740993}`)}, {Name: "a", Raw: []byte(`{}`)}, {Name: "m", Raw: []byte(`{ "url" : "u" }`)}},
		StartupTimeout: 0, Uncached: "background", Gate: "eager", Timeout: 1500 * time.Millisecond, MaxTimeout: 0, RequestTimeout: 7 * time.Millisecond, Grace: 10 * time.Minute,
		Discovery:    DiscoveryOptions{false, config.User{IDs: []string{"cursor", "claude"}}, []string{"codex"}, []string{"/f.json", "g.json"}, map[string]string{"CLAUDE_PLUGIN_ROOT": "/p"}, true, true},
		ProjectTrust: "never", Cache: CacheOptions{"/c", 5 * time.Millisecond, false},
		Reconnect: "onCall", Lazy: true, IdleTimeout: 9 * time.Millisecond, MaxConcurrentStarts: 1,
		QueueLimits: QueueLimits{1, 65536, 2, 4096},
		ToolNames:   ToolNameOptions{"", 128}, Limits: LimitOptions{1024, 3, 4, 2048, 5},
		Answers: []string{"roots", "input"}, ClientInfo: session.ClientInfo{Name: "n", Version: "v"},
		Auth:      AuthOptions{"memory", "/d", "https://c/d", "http://localhost:1/r", 65535, "never"},
		EnvPolicy: config.EnvPolicy{Allow: []string{"LC_*"}}, Share: true, Watch: "apply", Pinning: "report", LoginPath: true,
		Spill: &SpillOptions{1024, "/s", 1}, Trace: &TraceOptions{"/t", 65536, 0}, Log: LogOptions{"debug"},
		Runtime: RuntimeOptions{2, 1 << 30, &off},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
}

// The servers' JSON must not alias the host's buffer, which dies when open returns.
func TestServersAreCopied(t *testing.T) {
	raw := []byte(`{"servers":{"a":{"command":"x"}},` + noEnv + `}`)
	o, _, err := parseOptions(raw)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, bytes.Repeat([]byte("#"), len(raw)))
	if got := string(o.Servers[0].Raw); got != `{"command":"x"}` {
		t.Fatal(got)
	}
}

func TestOfEqualNamesTheLastWins(t *testing.T) {
	o, _ := mustParse(t, `{"lazy":true,"servers":{"a":{"v":1},"b":{},"a":{"v":2}},"lazy":false,`+noEnv+`}`)
	if o.Lazy || len(o.Servers) != 2 || o.Servers[0].Name != "a" || string(o.Servers[0].Raw) != `{"v":2}` {
		t.Fatalf("%+v", o)
	}
}

func TestNotAnObject(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`: "an array", `"x"`: "a string", ` null`: "null", `7`: "a number", `true`: "a boolean",
		`{`: "not valid JSON", `{}{}`: "not valid JSON", `{"a":}`: "not valid JSON", " ": "not valid JSON", "\xff": "not valid JSON", `{"lazy":true,}`: "not valid JSON", "\x00": "not valid JSON",
	} {
		if got := mustRefuse(t, raw); !strings.Contains(got, want) {
			t.Errorf("%q: %s", raw, got)
		}
	}
}

func TestUnknownOptions(t *testing.T) {
	long := strings.Repeat("é", 500)
	for raw, want := range map[string]string{
		`{"startupTimeout":1}`:               `there is no option "startupTimeout"; did you mean "startupTimeoutMs"?`,
		`{"startup_timeout_ms":1}`:           `did you mean "startupTimeoutMs"?`,
		`{"STARTUP-TIMEOUT-MS":1}`:           `did you mean "startupTimeoutMs"?`,
		`{"timeout":1}`:                      `did you mean "timeoutMs"?`,
		`{"mcpServers":{}}`:                  `did you mean "servers"?`,
		`{"cache":{"ttl":1}}`:                `there is no option "cache.ttl"; did you mean "cache.ttlMs"?`,
		`{"discovery":{"User":"all"}}`:       `there is no option "discovery.User"; did you mean "discovery.user"?`,
		`{"runtime":{"GOMAXPROCS":1}}`:       `did you mean "runtime.maxProcs"?`,
		`{"limits":{"bananas":1}}`:           `there is no option "limits.bananas"; remove it. Known are messageBytes, pages, tools, configBytes, callsPerServer`,
		`{"completely different":1}`:         `there is no option "completely different"; remove it. Known are cwd, env, servers, `,
		`{"spill":{"overBytes":2000,"x":1}}`: `"spill.dir" is missing`,
		`{"":1}`:                             `there is no option ""`,
		`{"` + long + `":1}`:                 `there is no option "éééé`,
	} {
		got := mustRefuse(t, raw)
		if !strings.Contains(got, want) {
			t.Errorf("%s\n got  %s\n want %s", raw, got, want)
		}
		if len(got) > 800 {
			t.Errorf("%d bytes of message", len(got))
		}
	}
}

// kinds are values of every JSON type that hold something secret.
var kinds = map[string]string{
	"a number": "31415926", "string": `"s3cret"`, "a boolean": "true", "an array": `["s3cret",31415926]`, "an object": `{"s3cret":"s3cret"}`,
}

// Each option refuses every type but its own, names itself and the type, and repeats no value.
func TestWrongTypes(t *testing.T) {
	for path, takes := range map[string]string{
		"cwd": "string", "env": "an object", "servers": "an object", "startupTimeoutMs": "a number", "uncached": "", "gate": "", "timeoutMs": "a number",
		"maxTimeoutMs": "a number", "requestTimeoutMs": "a number", "graceMs": "", "discovery": "", "discovery.project": "a boolean", "discovery.user": "an array", "discovery.exclude": "an array",
		"discovery.files": "an array", "discovery.variables": "an object", "discovery.filterExa": "a boolean", "discovery.filterBrowser": "a boolean", "projectTrust": "", "cache": "", "cache.dir": "string", "cache.ttlMs": "a number",
		"cache.enabled": "a boolean", "reconnect": "", "lazy": "a boolean", "idleTimeoutMs": "a number", "maxConcurrentStarts": "", "maxInFlight": "", "queueBytes": "a number", "maxNotices": "",
		"noticeBytes": "a number", "toolNames": "", "toolNames.prefix": "string", "toolNames.maxLength": "", "limits": "", "limits.messageBytes": "a number", "limits.pages": "", "limits.tools": "", "limits.callsPerServer": "",
		"limits.configBytes": "a number", "answers": "an array", "clientInfo": "", "clientInfo.name": "string", "clientInfo.version": "string", "auth": "", "auth.store": "", "auth.dir": "string",
		"auth.clientMetadataUrl": "string", "auth.redirectUri": "string", "auth.redirectPort": "", "auth.openBrowser": "", "envPolicy": "", "share": "a boolean", "watch": "", "pinning": "", "loginPath": "a boolean", "spill": "",
		"trace": "", "trace.file": "string", "log": "", "log.level": "", "runtime": "", "runtime.maxProcs": "", "runtime.memoryLimit": "a number", "runtime.gcPercent": "",
	} {
		for kind, value := range kinds {
			if kind == takes || kind == "an object" && (strings.Contains(" discovery cache toolNames limits clientInfo auth spill trace log runtime ", " "+path+" ")) {
				continue // right, or an object with an unknown member
			}
			raw := `{"` + path + `":` + value + `}`
			if outer, inner, nested := strings.Cut(path, "."); nested {
				raw = `{"` + outer + `":{"` + inner + `":` + value + `}}`
			}
			got := mustRefuse(t, raw)
			kind = strings.TrimPrefix(strings.TrimPrefix(kind, "an "), "a ")
			if !strings.Contains(got, `"`+path+`"`) || !regexp.MustCompile(`but is (an?|another) `+kind+`$`).MatchString(got) {
				t.Errorf("%s: %s", raw, got)
			}
			if strings.Contains(got, "s3cret") || strings.Contains(got, "31415926") {
				t.Errorf("%s: a value is shown: %s", raw, got)
			}
		}
	}
}

func TestValuesOutOfBounds(t *testing.T) {
	for raw, want := range map[string]string{
		`{"graceMs":-1}`:                                `the option "graceMs" must be a whole number from 0 to 600000, but is another number`,
		`{"graceMs":600001}`:                            `"graceMs" must be a whole number from 0 to 600000`,
		`{"graceMs":0.5}`:                               `"graceMs" must be a whole number`,
		`{"timeoutMs":1e400}`:                           `"timeoutMs" must be a whole number from 0 to 315360000000`,
		`{"timeoutMs":9223372036854775808}`:             `"timeoutMs"`,
		`{"timeoutMs":-9223372036854775809}`:            `"timeoutMs"`,
		`{"maxConcurrentStarts":0}`:                     `"maxConcurrentStarts" must be a whole number from 1 to 1024`,
		`{"maxInFlight":0}`:                             `from 1 to 1048576`,
		`{"toolNames":{"maxLength":31}}`:                `"toolNames.maxLength" must be a whole number from 32 to 128`,
		`{"toolNames":{"prefix":"mcp."}}`:               `"toolNames.prefix" must be a string of at most 16 of the characters`,
		`{"toolNames":{"prefix":"12345678901234567"}}`:  `"toolNames.prefix"`,
		`{"runtime":{"gcPercent":-2}}`:                  `"runtime.gcPercent" must be a whole number from -1 to 100000`,
		`{"auth":{"redirectUri":"http://r.example/x"}}`: `"auth.redirectUri" must be an http url of this machine`,
		`{"auth":{"redirectUri":"file:///x"}}`:          `"auth.redirectUri" must be an http url of this machine`,
		`{"auth":{"clientMetadataUrl":"https://c"}}`:    `"auth.clientMetadataUrl" must be an https url with a path`,
		`{"auth":{"clientMetadataUrl":"http://c/d"}}`:   `"auth.clientMetadataUrl" must be an https url with a path`,
		`{"auth":{"redirectPort":65536}}`:               `"auth.redirectPort" must be a whole number from 0 to 65535`,
		`{"gate":"Eager"}`:                              `the option "gate" must be "timer" or "eager", but is another string`,
		`{"reconnect":"oncall"}`:                        `must be "auto", "onCall" or "manual"`,
		`{"answers":["roots","tools"]}`:                 `"answers" must list only "elicitation", "sampling", "roots", "authorization" or "input"`,
		`{"answers":["roots",null]}`:                    `"answers" must be an array of strings`,
		`{"cwd":""}`:                                    `"cwd" must be a string that is not empty`,
		`{"cwd":"a\u0000b"}`:                            `"cwd"`,
		`{"discovery":{"files":["a\u0000b"]}}`:          `"discovery.files"`,
		`{"discovery":{"user":"everything"}}`:           `"discovery.user" must be "own", "all", "none" or a list of source ids, but is another string`,
		`{"envPolicy":"drop"}`:                          `"envPolicy" must be "inherit", "clear" or {"allow":[globs]}`,
		`{"env":{"A":1}}`:                               `the option "env.A" must be a string, and neither it nor its name may hold a NUL byte, nor its name a =, but is a number`,
		`{"env":{"A=s3cret":"c"}}`:                      `"env.A=…"`,
		`{"env":{"":"c"}}`:                              `"env."`,
		`{"env":{"A":"\u0000"}}`:                        `"env.A"`,
		`{"servers":{"a":{},"b":[]}}`:                   `the option "servers.b" must be an object, but is an array`,
		`{"servers":{"b":"x"}}`:                         `but is a string`,
		`{"trace":{}}`:                                  `the option "trace.file" is missing`,
		`{"spill":{"dir":"/x"}}`:                        `the option "spill.overBytes" is missing`,
	} {
		if got := mustRefuse(t, raw); !strings.Contains(got, want) {
			t.Errorf("%s\n got  %s\n want %s", raw, got, want)
		}
	}
}

// Many wrong members cost no more than one.
func TestManyMembersAreLinear(t *testing.T) {
	var env, unknown strings.Builder
	for i := range 50000 {
		fmt.Fprintf(&env, `"V%d":"x",`, i)
		fmt.Fprintf(&unknown, `"startupTimeout%d":1,`, i)
	}
	start := time.Now()
	o, _ := mustParse(t, `{"env":{`+env.String()+`"LAST":"y"}}`)
	if v, ok := o.Env.Get("LAST"); v != "y" || !ok {
		t.Error("LAST is lost")
	}
	mustRefuse(t, `{`+unknown.String()+`"lazy":true}`)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestTimesFromTheEnvironment(t *testing.T) {
	o, found := mustParse(t, `{"startupTimeoutMs":1,"timeoutMs":2,"env":{"MCPRT_STARTUP_TIMEOUT_MS":"0","MCPRT_TIMEOUT_MS":" 5000 "}}`)
	if o.StartupTimeout != 0 || o.Timeout != 2*time.Millisecond || o.EnvTimeout == nil || *o.EnvTimeout != 5*time.Second || len(found) != 0 {
		t.Errorf("%+v, %v", o, found)
	}
	o, found = mustParse(t, `{"startupTimeoutMs":1,"timeoutMs":2,"env":{"MCPRT_STARTUP_TIMEOUT_MS":"","MCPRT_TIMEOUT_MS":" "}}`)
	if o.StartupTimeout != time.Millisecond || o.Timeout != 2*time.Millisecond || o.EnvTimeout != nil || len(found) != 0 {
		t.Errorf("%+v, %v", o, found)
	}
	for _, bad := range []string{"s3cret", "-1", "1.5", "1s", "0x10", "99999999999999999999", "315360000001"} {
		o, found = mustParse(t, fmt.Sprintf(`{"timeoutMs":2,"env":{"MCPRT_STARTUP_TIMEOUT_MS":%q,"MCPRT_TIMEOUT_MS":%q}}`, bad, bad))
		if o.StartupTimeout != 250*time.Millisecond || o.Timeout != 2*time.Millisecond || o.EnvTimeout != nil {
			t.Errorf("%s: %+v", bad, o)
		}
		if len(found) != 2 || found[0].Field != "env.MCPRT_STARTUP_TIMEOUT_MS" || found[1].Field != "env.MCPRT_TIMEOUT_MS" {
			t.Fatalf("%s: %v", bad, found)
		}
		for _, d := range found {
			if d.Severity != "warning" || d.Code != "invalid_env" || !strings.Contains(d.Message, "from 0 to 315360000000") || strings.Contains(d.Message, "s3cret") {
				t.Errorf("%+v", d)
			}
		}
	}
}

func TestCwdIsAbsolute(t *testing.T) {
	o, _ := mustParse(t, `{"cwd":"testdata/../x",`+noEnv+`}`)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if o.Cwd != filepath.Join(wd, "x") {
		t.Error(o.Cwd)
	}
}

func TestVersionIsTheHeaders(t *testing.T) {
	header, err := os.ReadFile("../include/mcprt.h")
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, part := range []string{"MAJOR", "MINOR", "PATCH"} {
		m := regexp.MustCompile(`#define MCPRT_VERSION_` + part + ` (\d+)`).FindSubmatch(header)
		if m == nil {
			t.Fatal("no", part)
		}
		parts = append(parts, string(m[1]))
	}
	if got := strings.Join(parts, "."); got != Version {
		t.Errorf("the header says %s", got)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add([]byte(`{"cwd":"/p","env":{"A":"b"},"servers":{"a":{"command":"x"}},"timeoutMs":1e3,"answers":["roots"]}`))
	f.Add([]byte(`{"cache":{"ttlMs":-1},"discovery":{"user":["a"]},"runtime":{"gcPercent":50}}`))
	f.Add([]byte(`{"startupTimeout":1,"toolNames":{"prefix":"x","maxLength":40},"spill":{"overBytes":5000,"dir":"d"}}`))
	f.Add([]byte("{\"\xff\":\"\\ud800\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, _, err := parseOptions(raw)
		if err != nil {
			if o != nil || !fault.Is(err, fault.InvalidRequest) || len(err.Error()) > 1000 {
				t.Fatalf("%v, %v", o, err)
			}
			return
		}
		for _, d := range []time.Duration{o.StartupTimeout, o.Timeout, o.MaxTimeout, o.RequestTimeout, o.IdleTimeout, o.Cache.TTL, o.Grace} {
			if d < 0 || d > maxDuration {
				t.Fatalf("a time of %s", d)
			}
		}
		if !filepath.IsAbs(o.Cwd) || o.MaxInFlight < 1 || o.MaxConcurrentStarts < 1 || o.ToolNames.MaxLength < minNameLength || o.Limits.Pages < 1 || o.Limits.Tools < 1 {
			t.Fatalf("%+v", o)
		}
		for _, s := range o.Servers {
			if jsonKind(s.Raw) != "an object" {
				t.Fatalf("server %q is %s", s.Name, s.Raw)
			}
		}
	})
}

// TestWrongRequestMembers: an error names the member and what it has to be, in JSON's words.
func TestWrongRequestMembers(t *testing.T) {
	r := newRig(t, servers{}, nil)
	for _, c := range []struct {
		verb          Verb
		req, contains string
	}{
		{VerbConnect, `{"only":5}`, `\"only\" must be an array of strings`},
		{VerbConnect, `{"only":[5]}`, `\"only.0\" must be a string`},
		{VerbConnect, `{"trust":[]}`, `\"trust\" must be an object`},
		{VerbConnect, `{"restart":"yes"}`, `\"restart\" must be true or false`},
		{VerbList, `{"server":5}`, `\"server\" must be a string`},
		{VerbDisconnect, `{"server":{}}`, `\"server\" must be a string`},
		{VerbCall, `{"tool":"x","timeoutMs":"a"}`, `\"timeoutMs\" must be a whole number`},
		{VerbCall, `{"tool":"x","timeoutMs":1e99}`, `\"timeoutMs\" must be a whole number`},
	} {
		if a := r.do(c.verb, c.req); a.code() != "invalid_request" || !strings.Contains(a.raw, c.contains) {
			t.Errorf("verb %d %s: %s", c.verb, c.req, a.raw)
		}
	}
	r.m.Close(0)
}
