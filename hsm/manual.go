//go:build manual

package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The command that writes manual pages is in the program that makes packages alone, so that no key
// holder has a writer of them in it.
func init() {
	further = append(further, newManual)
}

func newManual() *cobra.Command {
	return &cobra.Command{
		Use:   "manual DIR",
		Short: "Write a manual page of each command into a directory",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.RemoveCommand(cmd)
			root.DisableAutoGenTag = true
			epoch := time.Unix(0, 0).UTC() // the same bytes whenever it runs
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Chainify " + version, Manual: "Chainify", Date: &epoch}, args[0])
		},
	}
}
