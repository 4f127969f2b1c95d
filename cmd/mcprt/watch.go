package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
)

// maxWaitingEvents bounds the events that wait to be shown; more are counted and lost.
const maxWaitingEvents = 1024

func watchCommand() *cobra.Command {
	var o clientOptions
	var apply bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Start the servers and show how they fare, live",
		Long: `Start the configured servers and keep them running. On a terminal a table of the
servers and their latest events is kept up to date; r reloads the config files, c
connects the marked server anew, q or an interrupt ends everything in order. Elsewhere,
and with --json, each event is a line on stdout.`,
		Example: `  mcprt watch --trust-project
  mcprt watch --apply --json | jq .type`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.watch = "notify"
			if apply {
				o.watch = "apply"
			}
			feed := &eventFeed{events: make(chan []byte, maxWaitingEvents)}
			o.events = feed.put
			return withSession(cmd, &o, "connecting", func(s *session) error { return watch(s, feed) })
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "apply changes of the config files as they are saved")
	return cmd
}

// eventFeed holds the library's events until they are shown. The library must not
// wait for a slow terminal, so what does not fit is counted.
type eventFeed struct {
	events chan []byte
	lost   atomic.Int64
}

func (f *eventFeed) put(event []byte) {
	select {
	case f.events <- event:
	default:
		f.lost.Add(1)
	}
}

func watch(s *session, feed *eventFeed) error {
	if s.stdout.width > 0 && !s.wantJSON {
		s.spin.end()
		return watchTerminal(s, feed)
	}
	return watchLines(s, feed)
}

// watchLines writes an event a line until an interrupt, which is its ordinary end.
func watchLines(s *session, feed *eventFeed) error {
	failed := make(chan error, 1)
	go func() {
		report, err := s.connect(s.ctx, "", false)
		if err == nil && !s.wantJSON {
			s.report(report)
		}
		s.spin.end()
		failed <- err
	}()
	for s.stdout.lost == nil { // else nobody reads any more
		select {
		case <-s.ctx.Done():
			return nil
		case err := <-failed:
			if err != nil && s.ctx.Err() == nil {
				return err
			}
		case event := <-feed.events:
			if lost := feed.lost.Swap(0); lost > 0 {
				fmt.Fprintf(s.stderr, "%d events came too fast and are not shown\n", lost)
			}
			if s.wantJSON {
				fmt.Fprintf(s.stdout, "%s\n", event)
			} else if line := readEvent(event, time.Now()); line.text != "" {
				fmt.Fprintf(s.stdout, "%s  %s  %s\n", line.at.Format(time.TimeOnly), line.server, s.stdout.paint(line.style, line.text))
			}
		}
	}
	return nil
}

// eventLine is one event for people.
type eventLine struct {
	at     time.Time
	server string
	text   string
	style  style
}

// readEvent words an event in one harmless line; an event that says nothing to a
// person has no text.
func readEvent(event []byte, at time.Time) eventLine {
	var e struct {
		Type     string          `json:"type"`
		Name     string          `json:"name"`
		State    string          `json:"state"`
		Error    *fault.Error    `json:"error"`
		Server   string          `json:"server"`
		Message  string          `json:"message"`
		Added    []string        `json:"added"`
		Removed  []string        `json:"removed"`
		Changed  []string        `json:"changed"`
		Live     []string        `json:"live"`
		Paths    []string        `json:"paths"`
		Applied  bool            `json:"applied"`
		Level    string          `json:"level"`
		Logger   string          `json:"logger"`
		Data     json.RawMessage `json:"data"`
		URI      string          `json:"uri"`
		Method   string          `json:"method"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total"`
	}
	if json.Unmarshal(event, &e) != nil {
		return eventLine{}
	}
	line := eventLine{at: at, server: e.Server, style: faint}
	counts := func() string {
		var parts []string
		for _, c := range []struct {
			n    int
			what string
		}{{len(e.Added), "new"}, {len(e.Removed), "gone"}, {len(e.Changed), "changed"}, {len(e.Live), "live"}} {
			if c.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
			}
		}
		return strings.Join(parts, ", ")
	}
	switch e.Type {
	case "server_state":
		line.server, line.style, line.text = e.Name, stateStyle(e.State), e.State
		switch {
		case e.Error == nil:
		case e.State == "connecting": // why is on the line before
			line.text = "connecting again"
		default:
			line.text += ": " + e.Error.Message
		}
	case "tools_changed":
		line.text = "tools: " + counts()
		if line.text == "tools: " {
			line.text = ""
		}
	case "progress":
		line.text = progress{Progress: e.Progress, Total: e.Total, Message: e.Message}.String()
	case "log":
		if e.Logger == "mcprt" { // the library's own log says what server_state does
			return eventLine{}
		}
		text := string(e.Data)
		_ = json.Unmarshal(e.Data, &text) // most are strings; others are shown as JSON
		line.text = e.Level + ": " + text
	case "diagnostic":
		line.style, line.text = yellow, e.Message
	case "config_changed":
		line.style, line.text = "", strings.Join(e.Paths, ", ")+": "+counts()
		if !e.Applied {
			line.text += "; not applied until a reload"
		}
	case "resource_updated":
		line.text = "updated " + e.URI
	case "resources_changed", "prompts_changed":
		line.text = strings.ReplaceAll(e.Type, "_", " ")
	case "notification":
		line.text = e.Method
	default:
		line.text = e.Type
	}
	line.server, line.text = oneLine(line.server), oneLine(line.text)
	return line
}

// stateStyle colours a server's state, wherever it is shown.
func stateStyle(state string) style {
	switch state {
	case "ready":
		return green
	case "failed", "needs_auth", "needs_input", "needs_trust":
		return red
	}
	return yellow
}

// serversNow asks how the servers are and how many calls run.
func (s *session) serversNow(ctx context.Context) ([]serverView, error) {
	reply, err := s.do(ctx, core.VerbList, map[string]any{"kind": "servers"})
	if err != nil {
		return nil, err
	}
	var all listed
	if err := json.Unmarshal(reply, &all); err != nil {
		return nil, err
	}
	return all.Servers, nil
}
