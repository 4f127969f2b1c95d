package main

import (
	"fmt"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

func cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show or empty the cache of tools",
		Long: `The library keeps the tool lists of servers, so that a later start need not wait for
them. The cache holds no credentials and may be emptied at any time.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		cacheVerb("info", "Show where the cache is and what it holds", func(s *session, c cacheReply) {
			if !c.Enabled {
				fmt.Fprintln(s.stdout, c.none())
				return
			}
			fmt.Fprintf(s.stdout, "%s: tools of %d servers, %d bytes\n", c.Dir, c.Entries, c.Bytes)
		}),
		cacheVerb("clear", "Forget the tools of all servers", func(s *session, c cacheReply) {
			fmt.Fprintf(s.stdout, "forgot the tools of %d servers\n", c.Removed)
		}))
	return cmd
}

// cacheReply is what mcprt/cache.info and mcprt/cache.clear answer.
type cacheReply struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"` // why not
	Dir     string `json:"dir"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	Removed int    `json:"removed"`
}

// none says what follows from having no cache, why there is none, and what to do.
func (c cacheReply) none() string {
	return "tools are not cached, so every start waits for its servers: " + c.Reason + "; --cache-dir names another place"
}

func cacheVerb(verb, short string, print func(*session, cacheReply)) *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Example: "  mcprt cache " + verb + " --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withSession(cmd, &o, "reading the cache", func(s *session) error {
				reply, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/cache." + verb})
				if s.raw(reply) || err != nil {
					return err
				}
				var r struct {
					Result cacheReply `json:"result"`
				}
				if err := json.Unmarshal(reply, &r); err != nil {
					return err
				}
				s.spin.end()
				print(s, r.Result)
				return nil
			})
		},
	}
	o.register(cmd)
	return cmd
}
