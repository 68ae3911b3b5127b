package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/takeover"
)

func newAcceptServer() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:   "accept-server [--home DIR]",
		Short: "Have the node go on with a database server that it refuses",
		Long: `accept-server prepares a home whose node is stopped. At its next start the node goes on with the first server of database.dsn
that takes changes, also with one that was left behind. That may be a backup of before a failover, or the old primary after
the new one was lost. The node executes the blocks that are missing there, and compares each with its certificate. From then on it
refuses the server that it followed so far.

Stop the other servers first, or take them out of database.dsn.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := config.Load(home); err != nil {
				return err
			}
			was, err := takeover.AcceptServer(config.Home(home))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if was.Epoch > 0 {
				fmt.Fprintf(out, "so far the node followed %s, since epoch %d\n", was.Host, was.Epoch)
			}
			fmt.Fprintf(out, "at its next start it goes on with the first server of database.dsn that takes changes: chainify start --home %s\n", home)
			return nil
		},
	}
	homeFlag(cmd, &home)
	return cmd
}
