package main

import (
	"fmt"
	"path/filepath"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

func discoverCommand() *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Show which servers the config files name",
		Long: `Read the project's and the user's config files and show which servers they name.
Nothing is started. What is wrong with a file or an entry is said on stderr.

A server that "needs trust" comes from a file of the project and may run any
program. Look at its command. Then run it with --trust-project, or approve it for
good, as it is written now, with mcprt trust add.`,
		Example: `  mcprt discover
  mcprt discover --user all --json
  mcprt trust add files`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSession(cmd, &o, "reading config files", discover)
		},
	}
	o.register(cmd)
	return cmd
}

// discovered is what the command uses of the reply of discover.
type discovered struct {
	Servers  []discoveredServer `json:"servers"`
	Shadowed []struct {
		Name   string `json:"name"`
		Source origin `json:"source"`
		By     origin `json:"by"`
	} `json:"shadowed"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type discoveredServer struct {
	Name        string `json:"name"`
	Transport   string `json:"transport"`
	Enabled     bool   `json:"enabled"`
	Trusted     bool   `json:"trusted"`
	Hash        string `json:"hash"`
	DuplicateOf string `json:"duplicateOf"`
	Source      origin `json:"source"`
	Config      struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		URL     string   `json:"url"`
	} `json:"config"`
}

type origin struct {
	Level        string `json:"level"`
	ProviderName string `json:"providerName"`
	Path         string `json:"path"`
	Line         int    `json:"line"`
}

func (o origin) String() string {
	switch {
	case o.Path == "":
		return o.ProviderName
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Path, o.Line)
	}
	return o.Path
}

// within is the source as a person in the folder root would write it: what lies there
// is named from there, which leaves room for the commands.
func (o origin) within(root string) string {
	if path, err := filepath.Rel(root, o.Path); o.Path != "" && err == nil && filepath.IsLocal(path) {
		o.Path = path
	}
	return o.String()
}

// discover asks what servers the config files have; reply is the core's own text.
func (s *session) discover() (found discovered, reply []byte, err error) {
	reply, err = s.do(s.ctx, core.VerbDiscover, map[string]any{})
	if err == nil {
		err = json.Unmarshal(reply, &found)
	}
	return found, reply, err
}

func discover(s *session) error {
	found, reply, err := s.discover()
	if s.raw(reply) || err != nil {
		return err
	}
	s.spin.end()
	root, err := filepath.Abs(s.cwd)
	if err != nil {
		return err
	}
	var untrusted []string
	rows := make([][]cell, 0, len(found.Servers))
	for _, server := range found.Servers {
		status := cell{"trusted", green}
		switch {
		case !server.Enabled:
			status = cell{"disabled", faint}
		case server.DuplicateOf != "":
			status = cell{"same as " + server.DuplicateOf, faint}
		case !server.Trusted:
			status = cell{"needs trust", yellow}
			untrusted = append(untrusted, server.Name)
		}
		target := server.Config.URL
		if target == "" {
			target = commandLine(server.Config.Command, server.Config.Args)
		}
		rows = append(rows, []cell{{server.Name, ""}, {server.Transport, ""}, status, {server.Source.within(root), faint}, {target, ""}})
	}
	switch {
	case len(rows) == 0 && !hasError(found.Diagnostics): // else the errors below say why there is none
		fmt.Fprintln(s.stderr, core.NoServers)
	case len(rows) > 0:
		s.stdout.table([]string{"NAME", "TRANSPORT", "STATUS", "SOURCE", "COMMAND OR URL"}, rows)
	}
	if len(untrusted) > 0 {
		s.needTrust("from a file of this project, and not approved", untrusted)
	}
	for _, lost := range found.Shadowed {
		fmt.Fprintf(s.stderr, "%s %s of %s is not used: %s comes first\n",
			s.stderr.paint(faint, "note"), oneLine(lost.Name), oneLine(lost.Source.String()), oneLine(lost.By.String()))
	}
	s.diagnostics(found.Diagnostics)
	return nil
}
