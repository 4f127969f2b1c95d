package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

func trustCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Approve the servers of a project's files, or take that back",
		Long: `Servers that a file of the project names run only when somebody approved them. What
is approved is an entry as it is written now: when the file changes it, it must be
approved again.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(trustListCommand(), trustAddCommand(), trustRemoveCommand())
	return cmd
}

// oneName is the argument of a command that takes one.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError("%s takes %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

func trustListCommand() *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show what was approved, on this machine and in every project",
		Example: `  mcprt trust list --json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSession(cmd, &o, "reading trust records", trustList)
		},
	}
	o.register(cmd)
	return cmd
}

func trustAddCommand() *cobra.Command {
	var o clientOptions
	var hash string
	cmd := &cobra.Command{
		Use:   "add SERVER",
		Short: "Approve a server of this project as it is written now",
		Long: `Approve a server of this project as it is written now, and show what that is. With
--hash it is approved only if it still is what "mcprt discover --json" showed.`,
		Example: `  mcprt trust add files
  mcprt trust add files --hash sha256:…`,
		Args: oneName("the name of one server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSession(cmd, &o, "reading config files", func(s *session) error { return trustAdd(s, args[0], hash) })
		},
	}
	cmd.ValidArgsFunction = completeServers(&o)
	o.register(cmd)
	cmd.Flags().StringVar(&hash, "hash", "", "approve only what has this `hash`")
	return cmd
}

func trustRemoveCommand() *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:   "remove SERVER|HASH",
		Short: "Take back what was approved",
		Long: `Take back every approval of a server in this project, whatever its entry was, or the
one with a hash, in whichever project.`,
		Example: `  mcprt trust remove files
  mcprt trust remove sha256:…`,
		Args: oneName("the name of a server, or a hash"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSession(cmd, &o, "reading trust records", func(s *session) error { return trustRemove(s, &o, args[0]) })
		},
	}
	o.register(cmd)
	return cmd
}

// trustRecord is what the commands use of a record.
type trustRecord struct {
	Hash    string    `json:"hash"`
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Project string    `json:"project"`
	AddedAt time.Time `json:"addedAt"`
}

// records reads the records, also as they came.
func (s *session) records() (list []trustRecord, reply []byte, err error) {
	reply, err = s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/trust.list"})
	if err != nil {
		return nil, reply, err
	}
	var r struct {
		Result struct {
			Records []trustRecord `json:"records"`
		} `json:"result"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return nil, reply, err
	}
	return r.Result.Records, reply, nil
}

func trustList(s *session) error {
	list, reply, err := s.records()
	if s.raw(reply) || err != nil {
		return err
	}
	s.spin.end()
	if len(list) == 0 {
		fmt.Fprintln(s.stderr, "nothing was approved; `mcprt discover` shows what could be")
		return nil
	}
	rows := make([][]cell, 0, len(list))
	for _, r := range list {
		rows = append(rows, []cell{{r.Name, ""}, {r.AddedAt.Local().Format(time.DateOnly), faint}, {r.Hash, faint}, {r.Path, ""}})
	}
	s.stdout.table([]string{"NAME", "APPROVED", "HASH", "FILE"}, rows)
	return nil
}

func trustAdd(s *session, name, hash string) error {
	found, _, err := s.discover()
	if err != nil {
		return err
	}
	var fit []int
	known := false
	for i, server := range found.Servers {
		known = known || server.Name == name
		if server.Name == name && (hash == "" || server.Hash == hash) && server.Source.Level == "project" {
			fit = append(fit, i)
		}
	}
	switch {
	case len(fit) > 1:
		return fmt.Errorf("%d files of this project name %q; choose one with --hash, from `mcprt discover --json`", len(fit), name)
	case len(fit) == 0 && hash != "" && known:
		return fmt.Errorf("server %q no longer has this hash: its file has changed since; look at it again with `mcprt discover --json`", name)
	case len(fit) == 0 && known:
		return fmt.Errorf("server %q does not come from a file of this project, so it needs no approval", name)
	case len(fit) == 0:
		return fmt.Errorf("no file of this project names a server %q; `mcprt discover` shows those that there are", name)
	}
	server := found.Servers[fit[0]]
	reply, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/trust.add", "params": map[string]any{"server": name, "hash": server.Hash}})
	if s.raw(reply) || err != nil {
		return err
	}
	s.spin.end()
	target := server.Config.URL
	if target == "" {
		target = commandLine(server.Config.Command, server.Config.Args)
	}
	fmt.Fprintf(s.stdout, "approved %s of %s: %s\n", oneLine(name), oneLine(server.Source.String()), oneLine(target))
	return nil
}

func trustRemove(s *session, o *clientOptions, which string) error {
	list, _, err := s.records()
	if err != nil {
		return err
	}
	project, err := filepath.Abs(o.cwd)
	if err != nil {
		return err
	}
	removed := []string{}
	for _, r := range list {
		if r.Hash != which && (strings.HasPrefix(which, "sha256:") || r.Name != which || r.Project != project) {
			continue
		}
		if _, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/trust.remove", "params": map[string]any{"hash": r.Hash}}); err != nil {
			return err
		}
		removed = append(removed, r.Hash)
	}
	encoded, err := json.Marshal(map[string]any{"removed": removed})
	if err != nil || s.raw(encoded) {
		return err
	}
	s.spin.end()
	if len(removed) == 0 {
		return fmt.Errorf("nothing was approved under %q in this project; `mcprt trust list` shows all", which)
	}
	fmt.Fprintf(s.stdout, "took back %d approvals of %s\n", len(removed), oneLine(which))
	return nil
}
