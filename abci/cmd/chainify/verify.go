package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

const verifyExitHelp = `Needs no node, no database and no network.

Exit codes: 0 it holds; 1 it does not, or is malformed; 2 wrong usage, or a file cannot be read.`

// genesisFlags say whose votes count.
type genesisFlags struct {
	genesis, governance string
	consent             int
	asJSON              bool
}

func (f *genesisFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.genesis, "genesis", "", "the consortium's genesis.json, from a source that you trust; a node has it in config/ of its home (required)")
	cmd.Flags().StringVar(&f.governance, "governance", "", "the record of governance changes since (chainify governance record), from a source that you trust")
	numberFlag(cmd, &f.consent, "consent", "how many organisations must agree, where that alone was changed later; 0: as the genesis says")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "for machines")
	require(cmd, "genesis")
}

// authorities reads genesis and record.
func (f *genesisFlags) authorities() (audit.Authorities, error) {
	founding, err := readFounding(f.genesis)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	var record *audit.Governance
	if f.governance != "" {
		if f.consent != 0 {
			return nil, usageError("--consent: the governance record says it")
		}
		if record, err = readRecord(f.governance); err != nil {
			return nil, &exitError{exitUsage, err}
		}
	}
	voters := 0
	for _, o := range founding.Organisations {
		if !o.OrderingOnly {
			voters++
		}
	}
	if f.consent < 0 || f.consent > voters {
		return nil, usageError("--consent: %d, want 1 to %d", f.consent, voters)
	}
	founding.Consent = cmp.Or(f.consent, founding.Consent)
	a, err := founding.Authorities(record)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %w", f.governance, err)}
	}
	return a, nil
}

// readFounding reads the consortium of a genesis.
func readFounding(path string) (audit.Founding, error) {
	doc, state, err := config.ReadGenesis(path)
	if err != nil {
		return audit.Founding{}, err
	}
	f := audit.Founding{ChainID: doc.ChainID, Consent: state.Consent}
	for _, o := range state.Organisations {
		f.Organisations = append(f.Organisations, audit.Organisation(o))
	}
	return f, nil
}

// readRecord reads a record of governance changes.
func readRecord(path string) (*audit.Governance, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	record, err := audit.ParseGovernance(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return record, nil
}

// verdict is the command's verdict on one file.
type verdict struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Findings []audit.Finding `json:"findings"`
	receipt  *audit.Receipt
}

// verifyFile reads and checks one receipt or digest; "-" is standard input.
func verifyFile(cmd *cobra.Command, file string, a audit.Authorities) (verdict, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return verdict{}, &exitError{exitUsage, err}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, audit.BytesMax+1))
	if err != nil {
		return verdict{}, &exitError{exitUsage, fmt.Errorf("read %s: %w", file, err)}
	}
	v := verdict{File: file, Findings: []audit.Finding{}}
	if v.receipt, err = audit.Parse(text); err != nil {
		field, detail, named := strings.Cut(err.Error(), ": ")
		if !named {
			field, detail = "receipt", err.Error()
		}
		v.Findings = append(v.Findings, audit.Finding{Field: field, Detail: detail})
		return v, nil
	}
	v.Findings = append(v.Findings, v.receipt.Check(a.For(v.receipt.Block.Number))...)
	v.Valid = len(v.Findings) == 0
	return v, nil
}

func newVerifyReceipt() *cobra.Command {
	var f genesisFlags
	cmd := &cobra.Command{
		Use:   "verify-receipt FILE --genesis FILE",
		Short: "Check the output of chainify.receipt(), without node or database",
		Long: `verify-receipt checks that enough organisations of the genesis signed for the block, and that the transaction is in it with this
outcome. Where the receipt is for a row, it checks that the transaction changed the row so. FILE "-" is standard input. Later
changes of organisations, keys and consent are in the governance record, which approvals lead to from the genesis.

It cannot know whether a later block changed the row again. ` + verifyExitHelp,
		Example: `  psql -XAtc "SELECT chainify.receipt('accounts', 42)" > receipt.json
  chainify verify-receipt receipt.json --genesis genesis.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.authorities()
			if err != nil {
				return err
			}
			v, err := verifyFile(cmd, args[0], a)
			if err != nil {
				return err
			}
			if v.Valid && v.receipt.Transaction == nil {
				v.Valid = false
				v.Findings = append(v.Findings, audit.Finding{Field: "transaction", Detail: "there is none: this is a digest (chainify verify-digest)"})
			}
			if f.asJSON {
				err = printJSON(cmd.OutOrStdout(), v)
			} else {
				printVerdict(cmd.OutOrStdout(), v)
			}
			return failUnless(v.Valid, err)
		},
	}
	f.flags(cmd)
	return cmd
}

func newVerifyDigest() *cobra.Command {
	var f genesisFlags
	cmd := &cobra.Command{
		Use:   "verify-digest FILE... --genesis FILE",
		Short: "Check digests of chainify.digest() and of nodes, without node or database",
		Long: `verify-digest checks that enough organisations of the genesis signed for each digest's block. It checks that several digests agree:
one block of each number, each following the block before it. Digests may come from different organisations. To check a
database against a digest, run chainify.verify(digest) there.

` + verifyExitHelp,
		Example: `  chainify verify-digest /var/lib/chainify/anchors/*.json --genesis genesis.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			a, err := f.authorities()
			if err != nil {
				return err
			}
			var verdicts []verdict
			var held []*audit.Receipt
			for _, file := range files {
				v, err := verifyFile(cmd, file, a)
				if err != nil {
					return err
				}
				if verdicts = append(verdicts, v); v.Valid {
					held = append(held, v.receipt)
				}
			}
			against := append([]audit.Finding{}, audit.Contradictions(held)...)
			valid := len(held) == len(verdicts) && len(against) == 0
			if f.asJSON {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"valid": valid, "digests": verdicts, "contradictions": against})
			} else {
				for _, v := range verdicts {
					printVerdict(cmd.OutOrStdout(), v)
				}
				for _, c := range against {
					fmt.Fprintf(cmd.OutOrStdout(), "contradiction: %s\n", c)
				}
			}
			return failUnless(valid, err)
		},
	}
	f.flags(cmd)
	return cmd
}

// failUnless gives what was printed its exit code.
func failUnless(valid bool, err error) error {
	if err == nil && !valid {
		return &exitError{code: exitFailed}
	}
	return err
}

func printVerdict(out io.Writer, v verdict) {
	if !v.Valid {
		fmt.Fprintf(out, "%s: DOES NOT HOLD\n", v.File)
		for _, f := range v.Findings {
			fmt.Fprintf(out, "  %s\n", f)
		}
		return
	}
	r := v.receipt
	var organisations []string
	for _, vote := range r.Certificate.Votes {
		organisations = append(organisations, vote.Organisation)
	}
	fmt.Fprintf(out, "%s: holds\n  block %d of chain %s, %s, hash %x\n  agreed on by %s\n", v.File, r.Block.Number, r.ChainID,
		time.UnixMicro(r.Block.BlockTime).UTC().Format(time.RFC3339), r.Hash[:], strings.Join(organisations, ", "))
	if r.Transaction != nil {
		fmt.Fprint(out, transactionLine(r.Transaction))
	}
	if c := r.Change; c != nil {
		what := map[string]string{"I": "inserted", "U": "updated", "D": "deleted"}[c.Op]
		fmt.Fprintf(out, "  %s a row of %s: key %x, row %x\n", what, c.Table, []byte(c.Key), []byte(c.Row))
	}
}

// transactionLine says what a transaction that was checked asked for.
func transactionLine(t *audit.Transaction) string {
	tx, err := wire.DecodeChainedTx(t.Body)
	if err != nil {
		return ""
	}
	outcome := "failed"
	if t.Outcome {
		outcome = "succeeded"
	}
	p := tx.Proposal
	content := fmt.Sprintf("%q", p.Sql)
	switch p.Kind {
	case wire.Kind_KIND_EFFECTS:
		content = writeSetLine(p.Effects)
	case wire.Kind_KIND_PLAN:
		content = planLine(p)
	}
	return fmt.Sprintf("  transaction %x %s\n  by %s of %s: %s\n", t.ID[:], outcome, p.Client.Role, p.Client.Organisation, content)
}

// planLine says what a PLAN transaction that a decoder took asks for.
func planLine(p *wire.Proposal) string {
	verbs := map[wire.PlanAction]string{
		wire.PlanAction_PLAN_ACTION_APPROVE: "approve", wire.PlanAction_PLAN_ACTION_CANCEL: "cancel", wire.PlanAction_PLAN_ACTION_EXECUTE: "execute",
	}
	if verb, acts := verbs[p.Plan.Action]; acts {
		return fmt.Sprintf("%s planned transaction %x", verb, p.Plan.Planned)
	}
	return fmt.Sprintf("plan %q, with approvals %q", p.Sql, p.Plan.Approvals)
}

// tablesShown are those of a write set that a line names.
const tablesShown = 10

// writeSetLine counts the changes of a write set that a decoder took, and names its tables.
func writeSetLine(effects []byte) string {
	set, err := wire.DecodeWriteSet(effects)
	if err != nil {
		return err.Error()
	}
	count := map[byte]int{}
	for _, c := range set.Changes {
		count[c.Op]++
	}
	names := fmt.Sprintf("%q", set.Tables[:min(len(set.Tables), tablesShown)])
	if more := len(set.Tables) - tablesShown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("a write set after block %d, %d rows inserted, %d updated, %d deleted, with tables %s",
		set.Snapshot, count['I'], count['U'], count['D'], names)
}
