package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
)

func newJoin() *cobra.Command {
	var home, trust string
	var period time.Duration
	var drop bool
	cmd := &cobra.Command{
		Use:   "join [--home DIR] --trust HEIGHT:HASH",
		Short: "Have a node begin with a snapshot of the order instead of its first block",
		Long: `join prepares a home whose node is stopped. At its next start the node takes the state of the order from a snapshot of the nodes
that it is connected to (network.peers), and fetches the order blocks since then. It needs this when no node has the older blocks
any more.

--trust names an order block that you trust: its height and its hash. The organisations' own nodes write that of their newest
snapshot to data/trust of their homes. Have an organisation tell you over a channel of its own, or several, and compare. All that
the others' nodes tell is verified from that block on.

The database has to be empty, or ahead of the snapshot. An empty one, with nothing but the extension and the consortium's roles, takes the
ledger over from another organisation, proven from a certified block. One that is ahead was restored from a newer dump or backup, or left as it
was. The node names a snapshot that is newer than the database, and tries older ones. The chain has to be founded with snapshots (chainify
genesis --snapshot-every).`,
		Example: `  ssh bolt cat /var/lib/chainify/data/trust
  chainify join --home /var/lib/chainify --drop-order \
      --trust 120000:5A7BDA2AEF7B0F3C3F2F0C6D7E3FBA9E1D6B0F4E9C6A4C8B5D1E2F3A4B5C6D7E
  chainify start --home /var/lib/chainify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			join, err := config.ParseTrust(trust)
			if err != nil {
				return usageError("--trust: %w", err)
			}
			if join.Period = config.Duration(period); period <= 0 {
				return usageError("--trust-period: %s, want a positive duration", period)
			}
			if err := prepareJoin(home, join, drop); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the node joins at its next start, from order block %d on: chainify start --home %s\n", join.Height, home)
			return nil
		},
	}
	homeFlag(cmd, &home, "trust")
	cmd.Flags().StringVar(&trust, "trust", "", "an order block that you trust, HEIGHT:HASH (required)")
	cmd.Flags().DurationVar(&period, "trust-period", config.TrustPeriod, "how old the order block of --trust may be when the node joins")
	cmd.Flags().BoolVar(&drop, "drop-order", false, "remove the order blocks of the home; its keys and its last signature stay")
	return cmd
}

func prepareJoin(home string, join config.Join, drop bool) error {
	c, err := config.Load(home)
	if err != nil {
		return err
	}
	h := config.Home(home)
	if _, _, err := h.LoadGenesis(); err != nil {
		return err
	}
	if len(c.Network.Peers) == 0 {
		return errors.New("network.peers is empty: there is no node to join by")
	}
	has, err := h.HasOrder()
	if err != nil {
		return err
	}
	if has && !drop {
		return errors.New("the home has order blocks, and its node goes on with them. When no node has those that it misses, join with --drop-order")
	}
	if has {
		if err := h.DropOrder(); err != nil {
			return err
		}
	}
	return h.Join(join)
}
