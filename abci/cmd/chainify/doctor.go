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
		Use:   "doctor [--home DIR]",
		Short: "Examine node and database, and say how to mend faults",
		Long: `doctor examines the node: keys, the registration and file modes of keys, the genesis, the clients let in, places of digests,
ports, peers, disk and clock. It examines the database: version, settings, extension, role, collations, and the explorer's role.
It warns of choices that are less safe than others (docs/operator/defaults.md).
It changes nothing. Run it as the node's user, on the node's machine; the node may run or not. Faults come first, then warnings.
The exit code is 1 when there is a fault.

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
