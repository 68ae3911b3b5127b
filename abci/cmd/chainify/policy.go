package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// approvalFile is what "chainify policy sign" prints. The readable fields are for people; what counts is change.
type approvalFile struct {
	ChainID         string `json:"chain_id"`
	Sequence        uint64 `json:"sequence"`
	Consent         uint32 `json:"consent"`
	EffectiveHeight uint64 `json:"effective_height"`
	Change          []byte `json:"change"`
	Organisation    string `json:"organisation"`
	Signature       []byte `json:"signature"`
}

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Change how many organisations must report the same effects",
		Long: `policy changes consent, c of the n organisations with a database, from "any two" to "all". A change is signed by more than
two thirds of them and holds for the blocks ordered from its height on; blocks ordered before keep theirs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &exitError{code: exitUsage}
		},
	}
	cmd.AddCommand(newPolicySign(), newPolicySubmit())
	return cmd
}

func newPolicySign() *cobra.Command {
	var home string
	change := &wire.PolicyChange{}
	cmd := &cobra.Command{
		Use:   "sign --home DIR --consent C --from-height H --sequence S",
		Short: "Approve a change with this organisation's gateway key",
		Long: `sign prints this organisation's approval of a change. All organisations sign the same consent, height and sequence; the
sequence is one more than the policy_changes of "chainify status --json", and the height should be far enough ahead for the
approvals to be exchanged.`,
		Example: `  chainify policy sign --home /var/lib/chainify --consent 4 --from-height 120000 --sequence 1 > acme.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := config.Home(home)
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			doc, state, err := h.LoadGenesis()
			if err != nil {
				return err
			}
			voters := 0
			for _, o := range state.Organisations {
				if !o.OrderingOnly {
					voters++
				}
			}
			if change.Consent < 1 || int(change.Consent) > voters {
				return usageError("--consent: %d, want 1 to %d", change.Consent, voters)
			}
			key, err := h.GatewayKey()
			if err != nil {
				return err
			}
			change.ChainId = doc.ChainID
			raw := wire.Encode(change)
			if _, err := wire.DecodePolicyChange(raw); err != nil {
				return usageError("%w", err)
			}
			return printJSON(cmd.OutOrStdout(), approvalFile{
				ChainID: doc.ChainID, Sequence: change.Sequence, Consent: change.Consent, EffectiveHeight: change.EffectiveHeight,
				Change: raw, Organisation: c.Organisation, Signature: wire.Approve(key, c.Organisation, doc.ChainID, raw).Signature,
			})
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "the node's directory (required)")
	cmd.Flags().Uint32Var(&change.Consent, "consent", 0, "how many organisations must report the same effects (required)")
	cmd.Flags().Uint64Var(&change.EffectiveHeight, "from-height", 0, "order height from which blocks need them (required)")
	cmd.Flags().Uint64Var(&change.Sequence, "sequence", 0, "1 for the chain's first change, and so on (required)")
	require(cmd, "home", "consent", "from-height", "sequence")
	return cmd
}

func newPolicySubmit() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "submit (--home DIR | --socket PATH) APPROVAL.json...",
		Short: "Hand an approved change to the order",
		Long: `submit puts the approvals of one change together and hands them to the order. "chainify status" shows the change once a
block holds it. Anybody may submit; what counts are the signatures.`,
		Example: `  chainify policy submit --home /var/lib/chainify acme.json bolt.json cargo.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			change, err := readApprovals(files)
			if err != nil {
				return err
			}
			return t.ask(cmd.Context(), func(ctx context.Context, c *gateway.Client) error { return c.ChangePolicy(ctx, change) })
		},
	}
	t.flags(cmd)
	return cmd
}

// readApprovals puts approvals of the same change together, by organisation.
func readApprovals(files []string) (*wire.SignedPolicyChange, error) {
	signed := &wire.SignedPolicyChange{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var a approvalFile
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if _, err := wire.DecodePolicyChange(a.Change); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if signed.Change != nil && string(signed.Change) != string(a.Change) {
			return nil, fmt.Errorf("%s approves another change than %s", file, files[0])
		}
		signed.Change = a.Change
		signed.Approvals = append(signed.Approvals, &wire.Approval{Organisation: a.Organisation, Signature: a.Signature})
	}
	slices.SortFunc(signed.Approvals, func(a, b *wire.Approval) int { return strings.Compare(a.Organisation, b.Organisation) })
	return signed, nil
}
