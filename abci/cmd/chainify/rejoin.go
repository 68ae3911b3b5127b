package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/gateway"
)

func newRejoin() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "rejoin [--home DIR | --socket PATH]",
		Short: "Let an excluded organisation try again",
		Long: `rejoin tells the node of an excluded organisation that its database was put right. Recovery begins anew, and the node executes
the blocks missed meanwhile. An organisation is excluded when no step of recovery gave the certified state. It stays excluded over
restarts of the node until it is told to rejoin. In SQL: SELECT chainify.rejoin().

` + exitHelp,
		Example: `  chainify rejoin --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := t.ask(cmd.Context(), func(ctx context.Context, c *gateway.Client) error { return c.Rejoin(ctx) })
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "recovery begins anew; \"chainify status\" shows how it goes")
			}
			return err
		},
	}
	t.flags(cmd)
	return cmd
}
