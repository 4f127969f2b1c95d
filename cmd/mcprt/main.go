// Command mcprt is the command line tool of the MCP client runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses; rootCommand's help documents them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitToolFailed  = 3
	exitInterrupted = 130
)

// exitError is an error with its own exit status. An empty message is not
// printed: what there was to say is on stdout.
type exitError struct {
	code    int
	message string
}

func (e *exitError) Error() string { return e.message }

func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, message: fmt.Sprintf(format, args...)}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mcprt",
		Short: "Discover, start and call MCP servers",
		Long: `mcprt discovers the MCP servers of a project, starts them and calls their tools.

Exit status:
  0    done
  1    the operation failed; stderr says why in one sentence
  2    the command line is wrong
  3    the called tool reported a failure of its own; it is on stdout
  130  interrupted`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(cacheCommand(), callCommand(), demoServerCommand(), discoverCommand(), doctorCommand(), faultServerCommand(), listCommand(), loginCommand(), logoutCommand(), serveCommand(), traceCommand(), trustCommand(), versionCommand(), watchCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() { // cobra's own show help for any word, and say that all is well
		case "help":
			cmd.Args = knownCommand
		case "completion":
			cmd.Args, cmd.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// knownCommand takes the words of a command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if _, left, err := cmd.Root().Find(args); err != nil || len(left) > 0 {
		return usageError("%s does not know %q; see %s", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
	}
	return nil
}

// noArgs is cobra.NoArgs with a message that names what to do.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("%s does not know %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	if err.Error() != "" {
		fmt.Fprintf(errOut, "mcprt: %s\n", oneLine(err.Error()))
	}
	return code
}

func main() {
	log.SetOutput(io.Discard) // net/http writes there what servers do, in their words
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
