package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

func newGovernanceRecord() *cobra.Command {
	var genesis, since, withdrawn string
	var fromBlock uint64
	cmd := &cobra.Command{
		Use:   "record APPROVAL.json... --from-block N --genesis FILE",
		Short: "Add a change that is in force to the record that auditors verify receipts with",
		Long: `record prints the governance record with one change more: its approvals, and the ledger block from which on it holds. Like an
auditor, it checks that the changes lead from the genesis to here, and that enough of the entitled organisations approved each.
The order decided the first block of a change, and no approval names it. Ask a database (chainify_reader):

  SELECT max(block) FROM chainify.registry_changes

Of a withdrawn change only the withdrawal is added; it needs no --from-block. Where fewer organisations withdrew a version of the
protocol than approve other changes, --withdrawn names the file of that version's change, or of an approval of it.

Needs no node, no database and no network.

Exit codes: 0 done; 1 not such a change; 2 wrong usage.`,
		Example: `  chainify governance record --genesis genesis.json --from-block 812 acme.json bolt.json cargo.json > governance.json
  chainify governance record --genesis genesis.json --since governance.json --from-block 1440 acme2.json bolt2.json cargo2.json > governance2.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			founding, err := readFounding(genesis)
			if err != nil {
				return err
			}
			record := &audit.Governance{Version: audit.GovernanceVersion, ChainID: founding.ChainID}
			if since != "" {
				if record, err = readRecord(since); err != nil {
					return err
				}
			}
			signed, err := readApprovals(files)
			if err != nil {
				return err
			}
			change, err := wire.DecodeGovernanceChange(signed.Change)
			if err != nil {
				return err
			}
			switch withdrawal := change.Withdraws() != nil; {
			case withdrawal && fromBlock == 0:
				fromBlock = record.Last()
			case !withdrawal && fromBlock == 0:
				return usageError("--from-block is needed: the first ledger block that the change holds for")
			}
			var of []byte
			if withdrawn != "" {
				f, _, err := readChange(withdrawn)
				if err != nil {
					return err
				}
				of = f.Change
			}
			record.Take(fromBlock, signed, of)
			if _, err := founding.Authorities(record); err != nil {
				return fmt.Errorf("the changes do not follow from the genesis: %w", err)
			}
			return printJSON(cmd.OutOrStdout(), record)
		},
	}
	cmd.Flags().StringVar(&genesis, "genesis", "", "the consortium's genesis.json (required)")
	cmd.Flags().StringVar(&since, "since", "", "the record of the changes before this one; left out: it is the first")
	cmd.Flags().StringVar(&withdrawn, "withdrawn", "", "the change that was withdrawn, a version of the protocol; left out: as many withdrew it as approve other changes")
	numberFlag(cmd, &fromBlock, "from-block", "the first ledger block that the change holds for (required, but for a withdrawal)")
	require(cmd, "genesis")
	return cmd
}
