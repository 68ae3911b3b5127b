package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/doctor"
)

func newDoctor() *cobra.Command {
	var home string
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "doctor --home DIR",
		Short: "Examine node and database, and say how to mend what is wrong",
		Long: `doctor looks at keys, which of them count and who may read them, the genesis, who is let in, places of digests, ports, peers,
disk, clock, and at the database's version, settings, extension, role and collations, and the explorer's role. It changes nothing. Run it as the node's user, on the node's machine, whether
the node runs or not. What is bad comes first, then warnings. The exit code is 1 when something is bad.

` + exitHelp,
		Example: `  chainify doctor --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			findings := doctor.Examine(cmd.Context(), config.Home(home), c, version)
			err = asJSON.print(cmd, map[string]any{"findings": findings}, func(out io.Writer) { writeFindings(out, findings) })
			return failUnless(findings[0].Level != doctor.Bad, err)
		},
	}
	homeFlag(cmd, &home)
	asJSON.flag(cmd)
	return cmd
}

func writeFindings(out io.Writer, findings []doctor.Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%-5s %-22s %s\n", f.Level, f.Check, f.Found)
		if f.Mend != "" {
			fmt.Fprintf(out, "%-5s %-22s → %s\n", "", "", f.Mend)
		}
	}
}
