package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/takeover"
)

func newVouch() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:   "vouch [--home DIR] NODE-ID",
		Short: "Sign that a standby is a node of this organisation",
		Long: `vouch signs the id of another node with the organisation's gateway key, so that the other organisations' nodes let it in. The
home is that of the organisation's own node, which may run. Put the line that it prints into config/vouch of the standby's home.
When the gateway key is replaced, sign again.`,
		Example: `  chainify vouch --home /var/lib/chainify 0f3b1c5d7e9a8b6c4d2e1f0a9b8c7d6e5f4a3b2c`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			h := config.Home(home)
			doc, _, err := h.LoadGenesis()
			if err != nil {
				return err
			}
			vouch, err := h.VouchFor(c.Organisation, doc.ChainID, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), vouch)
			return nil
		},
	}
	homeFlag(cmd, &home)
	return cmd
}

func newTakeOver() *cobra.Command {
	var home, from string
	var signed bool
	cmd := &cobra.Command{
		Use:   "take-over [--home DIR] [--from COPY]",
		Short: "Have a standby take the place of the organisation's lost node",
		Long: `take-over prepares the home of a standby ("chainify init --standby") whose node is stopped. From its next start on that node is the
organisation's: it votes, and works on the database of chainify.toml. Make sure that the lost node is off and stays off.

--from is a copy of the lost node's home, such as a backup. The keys in its directory config are copied. It is not needed when the
standby's home has the gateway key already, and consensus.signer_listen names where a signer connects.

A key must never sign twice at the same place. A signer remembers what it signed last. Without one, the node asks the others how far
they are, and signs after the last order block that the lost node can have signed for. So the others have to be enough to go on. With --signed, COPY
has to be the lost node's own disk, with its directory data as the stopped node left it; an older copy could sign twice. The node
then signs at once, and knows how the lost one voted on effects. Else it abstains from what was pending ("chainify vote-again").`,
		Example: `  chainify take-over --home /var/lib/chainify --from /backup/chainify
  chainify start --home /var/lib/chainify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if signed && from == "" {
				return usageError("--signed needs --from, the lost node's own disk")
			}
			if err := takeover.TakeOver(config.Home(home), config.Home(from), signed); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the standby is the organisation's node from its next start on: chainify start --home %s\n", home)
			return nil
		},
	}
	homeFlag(cmd, &home)
	cmd.Flags().StringVar(&from, "from", "", "a copy of the lost node's home, whose keys are copied")
	cmd.Flags().BoolVar(&signed, "signed", false, "the copy is the lost node's own disk, with its last signatures")
	return cmd
}

func newSignAgain() *cobra.Command {
	var home string
	var after int64
	cmd := &cobra.Command{
		Use:   "sign-again [--home DIR]",
		Short: "Have a node sign that stopped signing, or lost its last signature",
		Long: `sign-again prepares a home whose node is stopped. It is for a node that stopped signing because another process signs with its
validator key, and for one whose file of the last signature is damaged. Make sure first that the other process is off for good.

From its next start on the node signs, but for order blocks that the key may have been used for: it asks the others how far
they are, and signs after them. So the others have to be enough to go on. Where they are not, the key signs nothing until you
name the last order block that it can have been used for, with --after. The others hold evidence against you when that is wrong.`,
		Example: `  chainify sign-again --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if after < 0 {
				return usageError("--after is the height of an order block")
			}
			if err := takeover.SignAgain(config.Home(home), after); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the node signs again from its next start on: chainify start --home %s\n", home)
			return nil
		},
	}
	homeFlag(cmd, &home)
	cmd.Flags().Int64Var(&after, "after", 0, "the last order block that the key was used for; 0: not known, the others tell")
	return cmd
}

func newVoteAgain() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:   "vote-again [--home DIR]",
		Short: "Have a node vote on what it abstains from after a take-over",
		Long: `vote-again is for a ledger that stands still after a take-over, since the pending block needs this organisation's vote. A node in the
place of a lost one abstains from executions on which the lost one may have voted. With this command it votes on them after all.
Its vote is that of the lost one where that one came to the same effects. The others hold evidence against you where it did not. That is so
when its operator gave a transaction up ("chainify cancel"), or when its log says that one did not end or that its effects deviate.`,
		Example: `  chainify vote-again --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := takeover.VoteAgain(config.Home(home)); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the node votes on all executions from its next start on: chainify start --home %s\n", home)
			return nil
		},
	}
	homeFlag(cmd, &home)
	return cmd
}
