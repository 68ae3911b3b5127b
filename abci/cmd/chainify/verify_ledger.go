package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/engines"
)

// findingsShown bounds what verify prints and keeps.
const findingsShown = 1_000

func newVerify() *cobra.Command {
	var dsn string
	var f genesisFlags
	cmd := &cobra.Command{
		Use:   "verify --dsn DSN [--genesis FILE]",
		Short: "Check the whole ledger of a database",
		Long: `verify reads blocks, transactions, history and tables of a database as of one moment, and prints what does not hold. The database
is PostgreSQL (libpq keywords or URL, a role that is a member of chainify_reader) or MariaDB (mysql://…, a user with the ledger's
role). PostgreSQL checks the signatures of certificates by itself. For a MariaDB --genesis says whose signatures count;
without it they are not checked. It needs no node.

Exit codes: 0 it holds; 1 it does not, or the database cannot be read; 2 wrong usage.`,
		Example: `  chainify verify --dsn 'mysql://chainify@/shop?socket=/run/mysqld/mysqld.sock' --genesis genesis.json
  chainify verify --dsn 'host=/var/run/postgresql dbname=ledger user=auditor'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var authorities audit.Authorities
			if f.genesis != "" {
				var err error
				if authorities, err = f.authorities(); err != nil {
					return err
				}
			}
			findings, count := []backend.Finding{}, 0
			err := engines.Verify(cmd.Context(), dsn, authorities, func(found backend.Finding) error {
				if count++; count <= findingsShown {
					findings = append(findings, found)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if f.asJSON {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"valid": count == 0, "findings": findings, "count": count})
			} else {
				writeLedgerFindings(cmd, findings, count)
			}
			return failUnless(count == 0, err)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database (required)")
	require(cmd, "dsn")
	return cmd
}

func writeLedgerFindings(cmd *cobra.Command, findings []backend.Finding, count int) {
	out := cmd.OutOrStdout()
	for _, f := range findings {
		fmt.Fprintf(out, "block %d: %s: %s\n", f.Block, f.What, f.Detail)
	}
	if count > len(findings) {
		fmt.Fprintf(out, "and %d more\n", count-len(findings))
	}
	if count == 0 {
		fmt.Fprintln(out, "the ledger holds")
	}
}
