package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

var listKinds = []string{"tools", "servers", "resources", "resourceTemplates", "prompts"}

func listCommand() *cobra.Command {
	var o clientOptions
	var server, search string
	var counts bool
	cmd := &cobra.Command{
		Use:   "list [" + strings.Join(listKinds, " | ") + "]",
		Short: "Start the servers and list what they offer",
		Long: `Start the configured servers and list their tools (the default), the servers
themselves, or their resources, resource templates or prompts. A server that does
not start is named on stderr, and the others are listed all the same.`,
		Example: `  mcprt list
  mcprt list servers --trust-project
  mcprt list resources --server files --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(listKinds, args[0]) {
				return usageError("list takes one of %s", strings.Join(listKinds, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := "tools"
			if len(args) == 1 {
				kind = args[0]
			}
			return withSession(cmd, &o, "connecting", func(s *session) error {
				if counts {
					return listStats(s, server)
				}
				return list(s, kind, server, search)
			})
		},
	}
	cmd.ValidArgsFunction = completeWords(listKinds)
	o.register(cmd)
	cmd.Flags().StringVar(&server, "server", "", "only this `server`; it alone is started")
	mustComplete(cmd, "server", completeServers(&o))
	cmd.Flags().StringVar(&search, "search", "", "only what matches these `words`")
	cmd.Flags().BoolVar(&counts, "stats", false, "start the servers and print what was counted of each")
	return cmd
}

// listed is what the command uses of the reply of list; which field is set
// depends on the kind.
type listed struct {
	Tools             []item       `json:"tools"`
	Servers           []serverView `json:"servers"`
	Resources         []item       `json:"resources"`
	ResourceTemplates []item       `json:"resourceTemplates"`
	Prompts           []item       `json:"prompts"`
}

// item is a tool, resource, resource template or prompt.
type item struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	URI         string `json:"uri"`
	URITemplate string `json:"uriTemplate"`
	Description string `json:"description"`
	Deferred    bool   `json:"deferred"`
	Unavailable bool   `json:"unavailable"`
}

func list(s *session, kind, server, search string) error {
	// Tools are known from the cache while servers start; all else only they can tell.
	report, err := s.connect(s.ctx, server, kind != "tools")
	if err != nil {
		return err
	}
	request := map[string]any{"kind": kind}
	if server != "" {
		request["server"] = server
	}
	if search != "" {
		request["search"] = search
	}
	reply, err := s.do(s.ctx, core.VerbList, request)
	if s.raw(reply) || err != nil {
		return err
	}
	var all listed
	if err := json.Unmarshal(reply, &all); err != nil {
		return err
	}
	if kind == "servers" {
		report.Errors = nil // the table has them
	}
	s.report(report)
	items := map[string][]item{"tools": all.Tools, "resources": all.Resources, "resourceTemplates": all.ResourceTemplates, "prompts": all.Prompts}[kind]
	switch {
	case kind == "servers" && len(all.Servers) > 0:
		printServers(s.stdout, all.Servers)
	case kind == "tools" && len(items) > 0:
		printTools(s.stdout, items)
	case len(items) > 0:
		printItems(s.stdout, items)
	case len(report.Servers) == 0 && !hasError(report.Diagnostics): // else these say why there is none
		fmt.Fprintln(s.stderr, core.NoServers)
	default:
		fmt.Fprintf(s.stderr, "no %s\n", kind)
	}
	return nil
}

func printTools(p *painter, tools []item) {
	rows := make([][]cell, 0, len(tools))
	for _, tool := range tools {
		state := cell{"live", green}
		switch {
		case tool.Unavailable:
			state = cell{"unavailable", red}
		case tool.Deferred:
			state = cell{"deferred", yellow}
		}
		rows = append(rows, []cell{{tool.Name, ""}, {tool.Server, faint}, state, {tool.Description, ""}})
	}
	p.table([]string{"NAME", "SERVER", "STATE", "DESCRIPTION"}, rows)
}

func printItems(p *painter, items []item) {
	rows := make([][]cell, 0, len(items))
	for _, i := range items {
		id, description := i.URI+i.URITemplate, i.Description
		if id == "" {
			id = i.Name
		} else if description == "" {
			description = i.Name
		}
		rows = append(rows, []cell{{id, ""}, {i.Server, faint}, {description, ""}})
	}
	p.table([]string{"NAME OR URI", "SERVER", "DESCRIPTION"}, rows)
}

func printServers(p *painter, servers []serverView) {
	rows := make([][]cell, 0, len(servers))
	for _, v := range servers {
		protocol, took, problem := v.ProtocolVersion, "", ""
		if v.State == "ready" {
			took = fmt.Sprintf("%.0f ms", v.ConnectMs)
		}
		if v.Error != nil {
			problem = v.Error.Message
		}
		rows = append(rows, []cell{{v.Name, ""}, {v.State, stateStyle(v.State)}, {fmt.Sprint(v.ToolCount), ""}, {protocol, faint}, {took, faint}, {problem, ""}})
	}
	p.table([]string{"NAME", "STATE", "TOOLS", "PROTOCOL", "CONNECTED IN", "PROBLEM"}, rows)
}
