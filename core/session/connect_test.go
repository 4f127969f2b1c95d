package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// What a server does with the probe, and how the session comes about all the same.
func TestNegotiation(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  mcptest.Script
		version string
		modern  bool
		dials   int
		took    time.Duration
	}{
		{"exits on the probe", mcptest.Script{Discover: mcptest.DiscoverExit}, mcptest.Latest, false, 2, 0},
		{"silent on the probe", mcptest.Script{Discover: mcptest.DiscoverSilence}, mcptest.Latest, false, 1, 2 * time.Second},
		{"-32601", mcptest.Script{Discover: mcptest.DiscoverMethodNotFound}, mcptest.Latest, false, 1, 0},
		{"-32602", mcptest.Script{Discover: mcptest.DiscoverInvalidParams}, mcptest.Latest, false, 1, 0},
		{"oldest", mcptest.Script{Versions: []string{"2024-11-05"}}, "2024-11-05", false, 1, 0},
		{"2025-03-26", mcptest.Script{Versions: []string{"2025-03-26"}}, "2025-03-26", false, 1, 0},
		{"2025-06-18", mcptest.Script{Versions: []string{"2025-06-18"}}, "2025-06-18", false, 1, 0},
		{"modern", mcptest.Script{Versions: []string{mcptest.Modern}}, mcptest.Modern, true, 1, 0},
		{"both eras", mcptest.Script{Versions: []string{mcptest.Modern, mcptest.Latest}}, mcptest.Modern, true, 1, 0},
		{"modern, slower than the probe", mcptest.Script{Versions: []string{mcptest.Modern}, StartDelay: 3 * time.Second}, mcptest.Modern, true, 1, 3 * time.Second},
		{"noise and string ids", mcptest.Script{Noise: []string{"Server v1", "\x1b[1m", ""}, StringIDs: true}, mcptest.Latest, false, 1, 0},
		{"discovers only legacy versions", mcptest.Script{Discover: mcptest.DiscoverResult, Supported: []string{"2024-11-05"}}, mcptest.Latest, false, 1, 0},
		{"-32022 with legacy versions", mcptest.Script{Discover: mcptest.DiscoverUnsupported}, mcptest.Latest, false, 1, 0},
		{"-32022 without versions", mcptest.Script{Discover: mcptest.DiscoverUnsupported, Supported: []string{}}, mcptest.Latest, false, 1, 0},
		{"wants to be asked twice", mcptest.Script{Versions: []string{mcptest.Modern}, Discover: mcptest.DiscoverOnSecond}, mcptest.Modern, true, 1, 0},
		{"refuses all but initialize", mcptest.Script{RequireInitialize: true}, mcptest.Latest, false, 1, 0},
		{"says so for ever", mcptest.Script{Discover: mcptest.DiscoverUnsupported, Supported: []string{mcptest.Modern}}, mcptest.Latest, false, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.script.Instructions = "be \"kind\""
				memory, h := mcptest.NewMemory(c.script), &host{}
				started := time.Now()
				s := connect(t, memory, h)
				if took := time.Since(started); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				i := s.Info()
				if i.ProtocolVersion != c.version || i.Modern != c.modern || i.Instructions != `be "kind"` || i.PID == 0 {
					t.Errorf("info %+v", i)
				}
				if want := `{"name":"scripted","version":"1.0.0","x":9007199254740993}`; string(i.ServerInfo) != want {
					t.Errorf("serverInfo %s, want %s", i.ServerInfo, want)
				}
				if want := `{"tools":{"listChanged":true},"logging":{}}`; string(i.Capabilities) != want {
					t.Errorf("capabilities %s, want %s", i.Capabilities, want)
				}
				list, err := s.ListTools(t.Context())
				if err != nil || len(list.Tools) != len(mcptest.DefaultTools()) {
					t.Fatalf("list %+v, %v", list, err)
				}
				if r := run(s, tool("add", `{"a":1,"b":2}`)); r.err != nil || r.text != `{"content":[{"type":"text","text":"3"}]}` {
					t.Errorf("add: %s, %v", r.text, r.err)
				}
				counts := memory.Counts()
				if counts.Dials != c.dials || counts.MaxLive != 1 {
					t.Errorf("%d dials, %d at once", counts.Dials, counts.MaxLive)
				}
				if want := 1; !c.modern && counts.Initialized != want {
					t.Errorf("%d initialized notifications, want %d", counts.Initialized, want)
				}
				if len(counts.Cancelled) != 0 {
					t.Errorf("cancelled %v: a handshake must not be", counts.Cancelled)
				}
			})
		})
	}
}

func TestKnownVerdict(t *testing.T) {
	discover := []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"i"}`)
	legacy := &Verdict{ProtocolVersion: mcptest.Latest}
	modern := &Verdict{ProtocolVersion: mcptest.Modern, Modern: true, Discover: discover}
	modernFields := `"resultType":"complete","ttlMs":0,"cacheScope":"public"`
	for _, c := range []struct {
		name                    string
		script                  mcptest.Script
		known                   *Verdict
		pin                     string
		modern                  bool
		dials, discovers, inits int
	}{
		{"legacy", mcptest.Script{}, legacy, "", false, 1, 0, 1},
		{"modern", mcptest.Script{Versions: []string{mcptest.Modern}, ListFields: modernFields}, modern, "", true, 1, 0, 0},
		{"legacy, now modern", mcptest.Script{Versions: []string{mcptest.Modern}}, legacy, "", true, 2, 1, 1},
		{"legacy, long ago", mcptest.Script{Versions: []string{mcptest.Modern, mcptest.Latest}}, &Verdict{ProtocolVersion: legacy.ProtocolVersion, Asked: time.Unix(0, 0)}, "", true, 1, 1, 0},
		{"legacy, from the future", mcptest.Script{Versions: []string{mcptest.Modern, mcptest.Latest}}, &Verdict{ProtocolVersion: legacy.ProtocolVersion, Asked: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}, "", true, 1, 1, 0},
		{"modern, now legacy and lenient", mcptest.Script{}, modern, "", false, 2, 1, 1},
		{"modern, now legacy and strict", mcptest.Script{RequireInitialize: true}, modern, "", false, 2, 0, 1},
		{"modern, now legacy and mortal", mcptest.Script{Discover: mcptest.DiscoverExit}, modern, "", false, 3, 1, 1},
		{"pin beats the verdict", mcptest.Script{Versions: []string{mcptest.Modern, "2025-06-18"}}, modern, "2025-06-18", false, 1, 0, 1},
		{"damaged verdict", mcptest.Script{}, &Verdict{ProtocolVersion: mcptest.Modern, Modern: true, Discover: []byte(`{"x`)}, "", false, 1, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, h := mcptest.NewMemory(c.script), &host{}
				cfg := configFor(memory, h)
				known := *c.known
				if known.Asked.IsZero() {
					known.Asked = time.Now().Add(-time.Hour)
				}
				cfg.Known, cfg.Pin = &known, c.pin
				s, err := Connect(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Close(0); <-s.Done() }()
				if _, err := s.ListTools(t.Context()); err != nil {
					t.Fatal(err)
				}
				counts := memory.Counts()
				if asked := s.Info().Asked; asked.Equal(known.Asked) != (c.dials == 1 && c.discovers == 0 && c.pin == "") {
					t.Errorf("asked at %v, as the verdict says %v", asked, known.Asked)
				}
				if s.Info().Modern != c.modern || counts.Dials != c.dials || counts.Discovers != c.discovers || counts.Initializes != c.inits || counts.MaxLive != 1 {
					t.Errorf("modern %v, counts %+v", s.Info().Modern, counts)
				}
				if c.name == "modern" && (counts.Lists != 1 || count(counts.Received[:1], "tools/list") != 1) {
					t.Errorf("%d lists, received %v; want the list first", counts.Lists, counts.Received)
				}
			})
		})
	}
}

func TestKnownServerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := mcptest.NewMemoryFunc(func(dial int) mcptest.Script {
			if dial == 1 {
				return mcptest.Script{ExitAtInitialize: mcptest.Code(1)}
			}
			return mcptest.Script{Versions: []string{mcptest.Modern}}
		})
		cfg := configFor(memory, &host{})
		cfg.Known = &Verdict{ProtocolVersion: mcptest.Latest, Asked: time.Now()}
		s, err := Connect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close(0); <-s.Done() }()
		if c := memory.Counts(); !s.Info().Modern || c.Dials != 2 || c.MaxLive != 1 {
			t.Errorf("modern %v, %+v", s.Info().Modern, c)
		}
	})
}

func TestConnectFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		script mcptest.Script
		pin    string
		code   fault.Code
		parts  []string
		dials  int
		took   time.Duration
	}{
		{"exits at start", mcptest.Script{ExitAtStart: mcptest.Code(3), Stderr: "no token"}, "", fault.Exited, []string{"demo", "code 3", "ms"}, 1, 0},
		{"exits at initialize", mcptest.Script{ExitAtInitialize: mcptest.Code(4)}, "", fault.Exited, []string{"demo", "code 4"}, 2, 0},
		{"silent", mcptest.Script{SilentInitialize: true, Discover: mcptest.DiscoverSilence, IgnoreEOF: true}, "", fault.Timeout, []string{"demo", "initialize", "30000 ms"}, 1, 32 * time.Second},
		{"version of the future", mcptest.Script{AnswerVersion: "2030-01-01"}, "", fault.UnsupportedVersion, []string{"2030-01-01", "2024-11-05", "2026-07-28"}, 1, 0},
		{"result of the future", mcptest.Script{Discover: mcptest.DiscoverResult, Supported: []string{"2030-01-01"}}, "", fault.UnsupportedVersion, []string{"2030-01-01", "2026-07-28"}, 1, 0},
		{"error of the future", mcptest.Script{Discover: mcptest.DiscoverUnsupported, Supported: []string{"2030-01-01"}}, "", fault.UnsupportedVersion, []string{"2030-01-01", "2026-07-28"}, 1, 0},
		{"pin modern, server legacy", mcptest.Script{}, mcptest.Modern, fault.UnsupportedVersion, []string{"demands 2026-07-28"}, 1, 0},
		{"pin legacy, server other", mcptest.Script{Versions: []string{"2024-11-05"}}, "2025-06-18", fault.UnsupportedVersion, []string{"demands 2025-06-18", "speaks protocol version 2024-11-05"}, 1, 0},
		{"pin nonsense", mcptest.Script{}, "yesterday", fault.UnsupportedVersion, []string{"yesterday", "2025-11-25"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := mcptest.NewMemory(c.script)
				cfg := configFor(memory, &host{})
				cfg.Pin = c.pin
				started := time.Now()
				s, err := Connect(t.Context(), cfg)
				if s != nil {
					t.Fatal("a session")
				}
				f := wantFault(t, err, c.code, c.parts...)
				if took := time.Since(started); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				counts := memory.Counts()
				if counts.Dials != c.dials || counts.Live != 0 || counts.MaxLive > 1 {
					t.Errorf("counts %+v", counts)
				}
				if len(counts.Cancelled) != 0 {
					t.Errorf("cancelled %v", counts.Cancelled)
				}
				switch c.code {
				case fault.Exited:
					if f.Data == nil || f.Data.ExitCode == nil || f.Stage != fault.StageConnect {
						t.Errorf("stage %s, data %+v", f.Stage, f.Data)
					}
				case fault.Timeout:
					if f.Data.TimeoutMs != 30000 || f.Stage != fault.StageConnect {
						t.Errorf("stage %s, data %+v", f.Stage, f.Data)
					}
				}
			})
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := mcptest.NewMemory(mcptest.Script{SilentInitialize: true, IgnoreEOF: true, IgnoreTerm: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		started := time.Now()
		_, err := Connect(ctx, configFor(memory, &host{}))
		wantFault(t, err, fault.Canceled, "demo", "5000 ms")
		if took := time.Since(started); took != 5*time.Second+abortGrace {
			t.Errorf("took %v, want the kill's 500 ms after the cancellation", took)
		}
		if c := memory.Counts(); c.Live != 0 || len(c.Cancelled) != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestConnectDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := mcptest.NewMemory(mcptest.Script{SilentInitialize: true})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Connect(ctx, configFor(memory, &host{}))
		f := wantFault(t, err, fault.Timeout, "demo", "5000 ms")
		if f.Data.TimeoutMs != 5000 {
			t.Errorf("timeoutMs %d", f.Data.TimeoutMs)
		}
	})
}

func TestDialFails(t *testing.T) {
	cfg := configFor(mcptest.NewMemory(mcptest.Script{}), &host{})
	cfg.Dial = mcptest.FailDial(fault.New(fault.SpawnFailed, fault.StageSpawn, "no such program"))
	_, err := Connect(t.Context(), cfg)
	wantFault(t, err, fault.SpawnFailed, "demo", "no such program")
}
