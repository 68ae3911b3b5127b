package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/config"
)

func newInit() *cobra.Command {
	var home, organisation, dsn, address, mode, keyHolder string
	var orderingOnly, standby bool
	var orderBlocks int
	cmd := &cobra.Command{
		Use:   "init --home DIR --organisation NAME",
		Short: "Make one organisation's home: keys and configuration",
		Long: `init makes a home with new keys and a commented chainify.toml. It prints the organisation's part of the genesis: public keys
only, signed with the private ones. Send it to the others; "chainify genesis" makes the common genesis.json of all parts.

With --standby it makes a home beside that of the organisation's node, on another machine, and prints that node's id and address.
The standby keeps the order, so that it can take the place of a lost node at once ("chainify take-over").

With --key-holder the keys are those of another process, such as chainify-hsm with an HSM, which has one of each kind and signs
the part. The home then has no private key but the node's own.`,
		Example: `  chainify init --home /var/lib/chainify --organisation acme --address acme.example:26656 \
      --dsn 'host=/run/postgresql dbname=acme user=chainify_login' > acme.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if orderingOnly && dsn != "" {
				return usageError("--ordering-only means no database: leave --dsn out")
			}
			if orderingOnly && standby {
				return usageError("--standby and --ordering-only: name one of them")
			}
			if standby && keyHolder != "" {
				return usageError("--standby: its home has keys of its own; name the key holder in its chainify.toml (keys.holder), which counts once it takes over")
			}
			c := config.Default(organisation)
			if err := c.Tune(config.Mode(mode)); err != nil {
				return usageError("--%v", err)
			}
			c.Database.DSN, c.Keys.Holder, c.Retention.OrderBlocks = dsn, keyHolder, int64(orderBlocks)
			h := config.Home(home)
			if err := h.Create(c); err != nil {
				return err
			}
			part, err := h.Part(organisation, address)
			if err != nil {
				return err
			}
			if standby {
				fmt.Fprintf(cmd.ErrOrStderr(), "made %s for a standby; edit %s, and put the consortium's genesis.json into %s\n", home, h.Path(config.FileName), h.Genesis())
				fmt.Fprintln(cmd.OutOrStdout(), part.Node)
				return h.BecomeStandby()
			}
			part.OrderingOnly = orderingOnly
			if part, err = h.SignPart(part); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "made %s; edit %s, then put the consortium's genesis.json into %s\n",
				home, h.Path(config.FileName), h.Genesis())
			return printJSON(cmd.OutOrStdout(), part)
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "directory to make (required)")
	cmd.Flags().StringVar(&organisation, "organisation", "", "the organisation's name: [a-z][a-z0-9_-]*, at most 63 bytes (required)")
	cmd.Flags().StringVar(&mode, "mode", string(config.Balanced), modeHelp)
	cmd.Flags().StringVar(&dsn, "dsn", "", "the organisation's database; empty: this node only orders")
	orderBlocksFlag(cmd, &orderBlocks)
	cmd.Flags().BoolVar(&orderingOnly, "ordering-only", false, "an organisation without any database: it orders, has no say in the effects and submits nothing")
	cmd.Flags().BoolVar(&standby, "standby", false, "a second node of the organisation, which keeps the order until it takes over")
	cmd.Flags().StringVar(&keyHolder, "key-holder", "", "unix:///PATH of a key holder, such as chainify-hsm, that has the organisation's keys")
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:26656", "host:port at which the other organisations reach this node")
	require(cmd, "home", "organisation")
	return cmd
}

const modeHelp = "purpose of the timing: latency, balanced or throughput"

func newGenesis() *cobra.Command {
	var chainID, at string
	var consent, snapshotEvery int
	var times config.Times
	var shares config.Shares
	cmd := &cobra.Command{
		Use:   "genesis --chain-id ID PART.json...",
		Short: "Make the common genesis.json of all organisations' parts",
		Long: `genesis checks that each part is signed by the keys in it, and puts together the parts that "chainify init" printed. Every
organisation should make it itself, from the same parts in the same order and with the same --time, and compare: the bytes are
then the same. It prints each node's address to standard error, for the others' peers.`,
		Example: `  chainify genesis --chain-id trade --time 2026-01-01T00:00:00Z acme.json bolt.json cargo.json > genesis.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			when, err := time.Parse(time.RFC3339, at)
			if err != nil {
				return usageError("--time: %q is not a time such as 2026-01-01T00:00:00Z", at)
			}
			f := config.Founding{ChainID: chainID, Time: when.UTC(), Consent: consent, Parameters: shares.In(times.Parameters())}
			f.Parameters.SnapshotEvery = snapshotEvery
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				part, err := config.ParsePart(text)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				f.Parts = append(f.Parts, part)
				fmt.Fprintf(cmd.ErrOrStderr(), "%-16s %s\n", part.Organisation, part.Node)
			}
			text, err := f.Genesis()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&chainID, "chain-id", "", "the chain's name: [a-z][a-z0-9_-]*, at most 50 bytes (required)")
	cmd.Flags().StringVar(&at, "time", "", "founding time, RFC 3339 (required)")
	numberFlag(cmd, &consent, "consent", "how many organisations with a database must report the same effects; 0: more than two thirds")
	timesFlags(cmd, &times)
	foundingSharesFlags(cmd, &shares)
	snapshotFlag(cmd, &snapshotEvery)
	require(cmd, "chain-id", "time")
	return cmd
}

func newTestnet() *cobra.Command {
	n := config.Testnet{}
	cmd := &cobra.Command{
		Use:   "testnet --organisations A,B,C,D --dir DIR",
		Short: "Make homes for a network on this machine",
		Long: `testnet makes one home for each organisation under DIR, with keys, a common genesis and each other as peers, all on
loopback. Home i takes the ports from --base-port + 10·i on: the first for the other nodes, the second for HTTP,
the fourth for metrics.`,
		Example: `  chainify testnet --organisations acme,bolt,cargo,delta --dir /tmp/net \
      --dsn-template 'host=/tmp/net/pg/{organisation} dbname=ledger user=chainify_login'
  for o in acme bolt cargo delta; do chainify start --home /tmp/net/$o & done`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n.Now = time.Now().UTC()
			homes, err := n.Create()
			if err != nil {
				return err
			}
			for _, h := range homes {
				fmt.Fprintln(cmd.OutOrStdout(), string(h))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&n.Dir, "dir", "", "directory for the homes (required)")
	cmd.Flags().StringSliceVar(&n.Organisations, "organisations", nil, "names, separated by commas (required)")
	cmd.Flags().StringSliceVar(&n.OrderingOnly, "ordering-only", nil, "further names, of organisations without a database")
	cmd.Flags().StringVar(&n.ChainID, "chain-id", "chainify-test", "the chain's name")
	n.BasePort = 26656
	numberFlag(cmd, &n.BasePort, "base-port", "first port")
	cmd.Flags().StringVar(&n.DSNTemplate, "dsn-template", "", "database of each; {organisation} and {index} are replaced")
	cmd.Flags().StringVar(&n.HostTemplate, "host-template", "", "for containers: name of each node's host, replaced likewise; all then have the same ports")
	cmd.Flags().StringVar((*string)(&n.Mode), "mode", string(config.Balanced), modeHelp)
	cmd.Flags().StringVar(&n.Socket, "socket", "", "path of each node's socket (default: in its home)")
	cmd.Flags().StringSliceVar(&n.Users, "users", nil, "operating-system users, by name or number, that may connect to it")
	cmd.Flags().Var(powers{&n.Powers}, "powers", "voting powers in the order, separated by commas; left out: all the same")
	numberFlag(cmd, &n.Consent, "consent", "how many organisations with a database must report the same effects; 0: more than two thirds")
	timesFlags(cmd, &n.Times)
	foundingSharesFlags(cmd, &n.Shares)
	snapshotFlag(cmd, &n.SnapshotEvery)
	orderBlocksFlag(cmd, &n.OrderBlocks)
	require(cmd, "dir", "organisations")
	return cmd
}

// timesFlags are of how long a block may run.
func timesFlags(cmd *cobra.Command, t *config.Times) {
	cmd.Flags().DurationVar(&t.Block, "block-time-max", 0, "time for the SQL transactions of a block, after which organisations vote that one does not end; 0: 10s")
	cmd.Flags().DurationVar(&t.Deploy, "deploy-time-max", 0, "the same for its DEPLOY transactions; 0: 10m")
}

// orderBlocksFlag is of how many order blocks a new home keeps.
func orderBlocksFlag(cmd *cobra.Command, n *int) {
	*n = config.OrderBlocksOfNew
	numberFlag(cmd, n, "order-blocks", "newest order blocks that a node keeps (retention.order_blocks). 0: all, and its disk grows for ever")
}

const snapshotEveryFlag = "snapshot-every"

// snapshotFlag is of how often the state of the order is kept for nodes that join.
func snapshotFlag(cmd *cobra.Command, every *int) {
	*every = order.SnapshotEvery
	numberFlag(cmd, every, snapshotEveryFlag, "order blocks from one snapshot of the order to the next, by which nodes join. 0: none")
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// plural writes "1 row", "2 rows".
func plural[N int | int64 | uint32 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(what, "s"))
}
