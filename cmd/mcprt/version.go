package main

import (
	"fmt"
	"runtime"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"
)

// versionText is what the command and the flag print.
func versionText() string {
	return fmt.Sprintf("mcprt %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the one of include/mcprt.h; a test compares the two.
const version = "0.1.0"

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := []byte(versionText())
			if asJSON {
				var err error
				if text, err = json.Marshal(map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as a JSON object")
	return cmd
}
