package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/config"
)

func doctorCommand() *cobra.Command {
	var o clientOptions
	var noStart bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong and what to do",
		Long: `Read the config files, start the servers, and say for each where it comes from, how it
is, and what to do if that is not well. Also looks at the tool cache, the trust
records and the programs that the servers need. The status is 1 if something is wrong.`,
		Example: `  mcprt doctor
  mcprt doctor --no-start --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSession(cmd, &o, "looking at everything", func(s *session) error { return doctor(s, &o, noStart) })
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&noStart, "no-start", false, "start no server")
	return cmd
}

// checkup is the whole finding, as --json prints it.
type checkup struct {
	OK          bool         `json:"ok"`
	Servers     []examined   `json:"servers"`
	Checks      []check      `json:"checks"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

// examined is one server: what it is and what to do about it.
type examined struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Source string `json:"source"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// check is one thing that servers depend on.
type check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

func doctor(s *session, o *clientOptions, noStart bool) error {
	found, _, err := s.discover()
	if err != nil {
		return err
	}
	request := map[string]any{"tools": false, "startupTimeoutMs": 0}
	if noStart {
		request["only"] = []string{}
	}
	reply, err := s.do(s.ctx, core.VerbConnect, request)
	if err != nil {
		return err
	}
	var report connectReport
	if err := json.Unmarshal(reply, &report); err != nil {
		return err
	}
	c := &checkup{Servers: []examined{}, Diagnostics: slices.Concat(found.Diagnostics, report.Diagnostics)}
	if c.Diagnostics == nil {
		c.Diagnostics = []diagnostic{}
	}
	views := map[string]serverView{}
	for _, v := range report.Servers {
		views[v.Name] = v
	}
	for _, server := range found.Servers {
		c.Servers = append(c.Servers, examine(server, views[server.Name], noStart))
	}
	c.Checks = append(c.Checks, s.checkCache(), s.checkTrust())
	c.Checks = append(c.Checks, checkPrograms(o, found)...)
	if len(found.Servers) == 0 && !hasError(c.Diagnostics) {
		c.Checks = append(c.Checks, check{Name: "servers", Message: core.NoServers})
	}
	c.OK = !slices.ContainsFunc(c.Servers, func(e examined) bool { return !e.OK }) &&
		!slices.ContainsFunc(c.Checks, func(k check) bool { return !k.OK }) &&
		!hasError(c.Diagnostics)
	encoded, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if !s.raw(encoded) {
		s.spin.end()
		s.print(c)
	}
	if !c.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

func hasError(found []diagnostic) bool {
	return slices.ContainsFunc(found, func(d diagnostic) bool { return d.Severity == "error" })
}

// examine says of one entry how it is. Another entry of its name may be the one
// that runs.
func examine(server discoveredServer, v serverView, noStart bool) examined {
	e := examined{Name: server.Name, State: v.State, Source: server.Source.String(), OK: true}
	if v.Error != nil {
		e.Reason = v.Error.Message
	}
	switch {
	case !server.Enabled:
		e.State, e.Reason = "disabled", "its config, or mcprt's user file, switches it off"
	case server.DuplicateOf != "":
		e.State, e.Reason = "duplicate", fmt.Sprintf("it is the same connection as %q, which is used instead", server.DuplicateOf)
	case !server.Trusted:
		e.State, e.OK, e.Reason = "needs_trust", false, "it comes from a file of this project and nobody has approved it"
		e.Advice = fmt.Sprintf("look at its command with `mcprt discover`, then run `mcprt trust add %s`", commandLine(server.Name, nil))
	case v.State == "ready":
		e.Reason = fmt.Sprintf("%d tools, in %.0f ms", v.ToolCount, v.ConnectMs)
	case v.State == "needs_input":
		e.OK, e.Advice = false, "run it in a host that asks for inputs, or write ${VARIABLE} in place of ${input:…}"
	case v.State == "needs_auth":
		e.OK, e.Advice = false, fmt.Sprintf("run `mcprt login %s`", commandLine(v.Name, nil))
	case v.State == "idle" && noStart:
		e.Reason = "not started, as --no-start wants it"
	case v.State == "idle":
		e.Reason = "lazy: a call starts it"
	default:
		e.OK = false
	}
	return e
}

func (s *session) checkCache() check {
	c := check{Name: "cache"}
	reply, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/cache.info"})
	var r struct {
		Result cacheReply `json:"result"`
	}
	if err == nil {
		err = json.Unmarshal(reply, &r)
	}
	switch {
	case err != nil:
		c.Message = err.Error()
	case r.Result.Enabled:
		c.OK, c.Message = true, fmt.Sprintf("%s: tools of %d servers", r.Result.Dir, r.Result.Entries)
	default:
		c.Message = r.Result.none()
	}
	return c
}

func (s *session) checkTrust() check {
	list, _, err := s.records()
	if err != nil {
		return check{Name: "trust", Message: err.Error()}
	}
	return check{Name: "trust", OK: true, Message: "approved servers: " + strconv.Itoa(len(list))}
}

// checkPrograms looks the servers' programs up as a start would.
func checkPrograms(o *clientOptions, found discovered) (checks []check) {
	env := config.ProcessEnv()
	cwd, err := filepath.Abs(o.cwd)
	if err != nil {
		return []check{{Name: "cwd", Message: err.Error()}}
	}
	done := map[string]bool{}
	for _, server := range found.Servers {
		command := server.Config.Command
		// A path is relative to where its file says; the start itself tells of it.
		if command == "" || !server.Enabled || strings.ContainsAny(command, `/\$ ~%{`) || done[command] {
			continue
		}
		done[command] = true
		c := check{Name: command}
		path, err := env.LookPath(command, cwd)
		switch {
		case err == nil:
			c.OK, c.Message = true, path
		case errors.Is(err, fs.ErrNotExist):
			c.Message = fmt.Sprintf("there is no such program in PATH, which %q needs; install it", server.Name)
		default:
			c.Message = err.Error()
		}
		checks = append(checks, c)
	}
	return checks
}

func (s *session) print(c *checkup) {
	mark := func(ok bool) cell {
		if ok {
			return cell{"ok", green}
		}
		return cell{"PROBLEM", red}
	}
	rows := make([][]cell, 0, len(c.Servers))
	for _, e := range c.Servers {
		text := e.Reason
		if e.Advice != "" {
			text += "; " + e.Advice
		}
		rows = append(rows, []cell{{e.Name, ""}, mark(e.OK), {e.State, ""}, {e.Source, faint}, {text, ""}})
	}
	if len(rows) > 0 {
		s.stdout.table([]string{"SERVER", "", "STATE", "SOURCE", "WHAT IS AND WHAT TO DO"}, rows)
		fmt.Fprintln(s.stdout)
	}
	rows = rows[:0]
	for _, k := range c.Checks {
		rows = append(rows, []cell{{k.Name, ""}, mark(k.OK), {k.Message, ""}})
	}
	s.stdout.table([]string{"CHECK", "", "RESULT"}, rows)
	s.diagnostics(c.Diagnostics)
}
