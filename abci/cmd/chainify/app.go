package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/node"
)

func newApp() *cobra.Command {
	var home string
	var configure bool
	cmd := &cobra.Command{
		Use:   "app [--home DIR] [--configure]",
		Short: "Run the node without CometBFT, which is a process of its own",
		Long: `app runs all of the node but CometBFT, in the foreground, until SIGINT or SIGTERM. CometBFT's own program, of the version that
"chainify version" names, runs beside it on the same home: cometbft start --home DIR. It asks this process over a socket. When
it goes away this process waits for it; when this process goes away CometBFT ends, and a service manager starts both again.

At its start app writes CometBFT's configuration, DIR/config/config.toml, from chainify.toml. With --configure it does that
alone. It signs with the validator key of the home; CometBFT has none. A home works with app and with start, one at a time.

This way does without rows and agreement of other organisations, joining by a snapshot, the express lane and CometBFT's metrics.
A database repairs itself from its own history. The operator names each node that is let in, in network.peers or
network.admitted_file. SIGHUP does nothing.`,
		Example: `  chainify app --home /var/lib/chainify
  cometbft start --home /var/lib/chainify                 # beside it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			log, err := newLog(cmd.ErrOrStderr(), c.Log)
			if err != nil {
				return err
			}
			opt := node.Options{Home: config.Home(home), Config: c, Version: version, Log: log, Beside: true}
			if configure {
				return node.Configure(opt)
			}
			signal.Ignore(syscall.SIGHUP)
			return node.Run(cmd.Context(), opt)
		},
	}
	homeFlag(cmd, &home)
	cmd.Flags().BoolVar(&configure, "configure", false, "write CometBFT's configuration and end")
	return cmd
}
