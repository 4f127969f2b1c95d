package core

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/config"
	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
	"github.com/mcprt/mcprt/core/store"
)

// drift is how a live list of tools differs from what was approved. It never changes.
type drift struct {
	entry          *config.Entry
	changed, added []string
	key            string // equal for equal drifts
}

// maxDriftNames bounds the names in one diagnostic.
const maxDriftNames = 100

// pinnedMembers are what a model or a host acts on: the text, the schemas, and the hints.
var pinnedMembers = []string{"title", "description", "inputSchema", "outputSchema", "annotations"}

// digestTool is equal for definitions that differ in white space and the order of
// members only. A member that stands there twice counts twice: who reads the
// definition may take either.
func digestTool(raw []byte) string {
	var parts []string
	_ = rawjson.Members(raw, func(name string, value []byte) bool {
		if slices.Contains(pinnedMembers, name) {
			parts = append(parts, name+" "+string(canonicalJSON(value)))
		}
		return true
	})
	slices.SortStableFunc(parts, func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, ' ')], b[:strings.IndexByte(b, ' ')])
	})
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonicalJSON sorts the members of objects; what cannot be read stays as it is.
func canonicalJSON(raw []byte) []byte {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return raw
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return sorted
}

func pinOf(server string, tools *toolSet) store.Pin {
	pin := store.Pin{Server: server, ApprovedAt: time.Now().UTC(), Tools: make(map[string]string, len(tools.defs))}
	for _, d := range tools.defs {
		pin.Tools[d.name] = digestTool(d.raw)
	}
	return pin
}

func (m *Manager) pins() (*store.Pins, error) {
	base, err := m.env.UserConfigDir()
	if err != nil {
		return nil, err
	}
	return store.OpenPins(filepath.Join(base, "mcprt", "pins"))
}

// compare looks whether a live list is what was approved; the first list of an
// entry is. It reads a file: never under the lock.
func (m *Manager) compare(e *config.Entry, tools *toolSet) *drift {
	if m.opts.Pinning != "report" {
		return nil
	}
	now := pinOf(e.Name, tools)
	pins, err := m.pins()
	var approved store.Pin
	if err == nil {
		approved, err = pins.First(e.Hash, now)
	}
	if err != nil {
		m.pinsFailed(e.Name, err)
		return nil
	}
	d := &drift{entry: e}
	var key strings.Builder
	for _, def := range tools.defs {
		digest, known := approved.Tools[def.name]
		switch {
		case !known:
			d.added = append(d.added, def.name)
		case digest != now.Tools[def.name]:
			d.changed = append(d.changed, def.name)
		default:
			continue
		}
		fmt.Fprintf(&key, "%s %q\n", now.Tools[def.name], def.name)
	}
	if key.Len() == 0 {
		return nil
	}
	d.key = key.String()
	slices.Sort(d.added)
	slices.Sort(d.changed)
	return d
}

func (m *Manager) pinsFailed(server string, err error) {
	m.store.report(diagnostic{Severity: "warning", Code: "pins_unavailable", Server: server,
		Message: fmt.Sprintf("the tools of server %q cannot be compared with what was approved: %v", server, err)})
}

// diagnostics says what differs; nil says nothing.
func (d *drift) diagnostics() (list []diagnostic) {
	if d == nil {
		return nil
	}
	say := func(code, what string, names []string) {
		if len(names) == 0 {
			return
		}
		list = append(list, diagnostic{Severity: "warning", Code: code, Server: d.entry.Name, Path: d.entry.Origin.Path, Tools: names[:min(len(names), maxDriftNames)],
			Message: fmt.Sprintf(`server %q %s (%d): %s; look at them, then approve them with mcprt/trust.add {"server":%q,"hash":%q}`,
				d.entry.Name, what, len(names), some(names), d.entry.Name, d.entry.Hash)})
	}
	say("tool_changed", "changed the text or schema of tools since they were approved", d.changed)
	say("tool_added", "offers tools that were not there when it was approved", d.added)
	return list
}

// notice tells, under the lock, of a drift that is new.
func (m *Manager) noticeDrift(s *server, now *drift) {
	if now != nil && (s.drift == nil || s.drift.key != now.key) {
		for _, d := range now.diagnostics() {
			m.outbox = append(m.outbox, diagnosticNotice{d})
		}
	}
	s.drift = now
}

// approve takes the live tools of the servers with this hash as approved; where
// there are none, the next list is.
func (m *Manager) approve(hash string) error {
	if m.opts.Pinning != "report" {
		return nil
	}
	pins, err := m.pins()
	if err != nil {
		return fault.New(fault.Config, fault.StageConfig, "the approved tools cannot be recorded: %w", err)
	}
	var name string
	var live *toolSet
	m.change(func(fx *effects) {
		for _, s := range m.servers {
			if s.entry.Hash != hash {
				continue
			}
			if s.state == stateReady {
				name, live = s.name, s.known
			}
			s.drift = nil
			fx.changed[s] = true
		}
	})
	if live != nil {
		err = pins.Set(hash, pinOf(name, live))
	} else {
		err = pins.Forget(hash)
	}
	if err != nil {
		return fault.New(fault.Config, fault.StageConfig, "the approved tools cannot be recorded: %w", err)
	}
	return nil
}
