package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/internal/serve"
)

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve the C API as frames on stdin and stdout",
		Long: `Serve the verbs, events and questions of the C API as frames on stdin and stdout,
for a program that cannot load the library libmcprt: one whose libc is musl, for
example. The Python and the Node package do this there by themselves. The frames
are described in docs/serve.md; nothing else is written to stdout.

It ends, after all MCP servers that it has started, when stdin closes or on
SIGTERM. An interrupt is the business of the program that runs it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Caught, not ignored: what is ignored stays so in the servers that are started.
			// A write to a host that has gone is an error then, and not our end: stdin tells.
			signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGHUP, syscall.SIGPIPE)
			term := make(chan os.Signal, 1)
			signal.Notify(term, syscall.SIGTERM)
			stop := make(chan struct{})
			go func() {
				<-term
				close(stop)
			}()
			return serve.New().Run(version, cmd.InOrStdin(), cmd.OutOrStdout(), stop)
		},
	}
}
