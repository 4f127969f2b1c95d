package main

import (
	"github.com/spf13/cobra"
)

// completeServers offers the names of the configured servers to a shell. It only reads
// config files: pressing TAB starts nothing.
func completeServers(o *clientOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		_ = withSession(cmd, o, "", func(s *session) error { // no names is all that a shell can be told
			s.spin.end()
			found, _, err := s.discover()
			if err != nil {
				return err
			}
			for _, server := range found.Servers {
				names = append(names, oneLine(server.Name))
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag offers the words that a flag takes.
func completeFlag(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords offers fixed words as the one argument of a command.
func completeWords(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// mustComplete sets how a flag's value is completed.
func mustComplete(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}
