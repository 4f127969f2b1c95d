package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
)

// session is one run of discover, list or call: the open library, and where to
// write. A spinner on stderr shows what is waited for.
type session struct {
	*client
	ctx      context.Context
	stdout   *painter
	stderr   *painter
	spin     *spinner
	wantJSON bool
	cwd      string // as it was given; "" is the current folder

	noTrace   bool                       // it was said that nothing is recorded
	traceLost atomic.Pointer[diagnostic] // what ended the recording of this run
}

// withSession runs body between open and close. An interrupt cancels the running
// operation, and the servers are still ended in order.
func withSession(cmd *cobra.Command, o *clientOptions, doing string, body func(*session) error) error {
	stdout, err := newPainter(cmd.OutOrStdout(), o.color)
	if err != nil {
		return err
	}
	stderr, err := newPainter(cmd.ErrOrStderr(), o.color)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &session{ctx: ctx, stdout: stdout, stderr: stderr, wantJSON: o.json, cwd: o.cwd}
	s.spin = newSpinner(stderr, doing)
	defer s.spin.end()
	events := o.events
	if events == nil {
		events = s.progress
	}
	s.client, err = openClient(o, events)
	if err != nil {
		return err
	}
	defer s.close()
	if o.trace != "" {
		s.checkTrace()
	}
	err = body(s)
	if lost := s.traceLost.Load(); lost != nil {
		s.spin.end()
		s.diagnostics([]diagnostic{*lost})
	}
	if err != nil {
		return err
	}
	if stdout.lost != nil { // a script must not take half an answer for all of it
		return fmt.Errorf("the output could not be written: %w", stdout.lost)
	}
	return nil
}

// raw prints a reply as it came; it says whether that is what was asked for.
func (s *session) raw(reply []byte) bool {
	if !s.wantJSON || len(reply) == 0 {
		return false
	}
	s.spin.end()
	fmt.Fprintf(s.stdout, "%s\n", reply)
	return true
}

// report says on stderr what is wrong with servers that the command goes on without.
func (s *session) report(r *connectReport) {
	s.spin.end()
	names := make([]string, 0, len(r.Errors))
	for name := range r.Errors {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(s.stderr, "%s %s: %s\n", s.stderr.paint(red, "error"), oneLine(name), oneLine(r.Errors[name].Message))
	}
	s.diagnostics(r.Diagnostics)
	for _, name := range r.NeedsAuth {
		fmt.Fprintf(s.stderr, "%s %s: it wants a sign-in; `mcprt login %s` does that\n", s.stderr.paint(yellow, "login"), oneLine(name), oneLine(name))
	}
	if len(r.NeedsTrust) > 0 {
		untrusted := make([]string, len(r.NeedsTrust))
		for i, server := range r.NeedsTrust {
			untrusted[i] = server.Name
		}
		s.needTrust("not started, since nobody has approved it; look at it with `mcprt discover`", untrusted)
	}
}

// trustAdvice says what a person can do about servers that need trust.
func trustAdvice(servers ...string) string {
	name := "NAME"
	if len(servers) == 1 {
		name = commandLine(servers[0], nil)
	}
	return fmt.Sprintf("--trust-project runs it, and `mcprt trust add %s` approves it for good, as it is written now", oneLine(name))
}

func (s *session) needTrust(what string, servers []string) {
	fmt.Fprintf(s.stderr, "%s %s: %s; %s\n", s.stderr.paint(yellow, "trust"), oneLine(strings.Join(servers, ", ")), what, trustAdvice(servers...))
}

func (s *session) diagnostics(found []diagnostic) {
	for _, d := range found {
		if s.noTrace && d.Code == traceUnavailable {
			continue
		}
		severity := s.stderr.paint(map[string]style{"error": red, "warning": yellow}[d.Severity], d.Severity)
		where := ""
		if d.Path != "" {
			where = oneLine(d.Path) + ":"
			if d.Line > 0 {
				where += fmt.Sprintf("%d:", d.Line)
				if d.Column > 0 {
					where += fmt.Sprintf("%d:", d.Column)
				}
			}
			where += " "
		}
		fmt.Fprintf(s.stderr, "%s %s%s\n", severity, where, oneLine(d.about()+d.Message))
	}
}

// traceUnavailable is the code of the diagnostic that nothing is recorded.
const traceUnavailable = "trace_unavailable"

// checkTrace says before anything is done that nothing will be recorded. Not every
// command shows the diagnostics of what it does, and whoever records a run wants to know
// before it is over.
func (s *session) checkTrace() {
	if all, _, err := s.stats(); err != nil || all.Result.Trace != nil {
		return
	}
	found, _, err := s.discover()
	if err != nil {
		return
	}
	s.spin.end()
	s.diagnostics(slices.DeleteFunc(found.Diagnostics, func(d diagnostic) bool { return d.Code != traceUnavailable }))
	s.noTrace = true
}

// progress is one report of a running call.
type progress struct {
	Type     string  `json:"type"`
	Code     string  `json:"code"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// progress shows what a running call reports.
func (s *session) progress(event []byte) {
	var p progress
	if err := json.Unmarshal(event, &p); err != nil {
		return
	}
	switch {
	case p.Type == "progress":
		s.spin.say(p.String())
	case p.Code == traceUnavailable:
		var d diagnostic
		if err := json.Unmarshal(event, &d); err == nil {
			s.traceLost.Store(&d)
		}
	}
}

func (p progress) String() string {
	text := p.Message
	if text == "" {
		text = "working"
	}
	if p.Total > 0 {
		text = fmt.Sprintf("%s  %.0f%%", text, min(100, max(0, 100*p.Progress/p.Total)))
	}
	return text
}
