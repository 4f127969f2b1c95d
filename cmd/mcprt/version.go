package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionText is what the command and the flag print.
func versionText() string {
	return fmt.Sprintf("mcprt %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the one of include/mcprt.h; a test compares the two.
const version = "0.1.0"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
