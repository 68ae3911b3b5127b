package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

func newEvidence() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "evidence [--home DIR | --socket PATH]",
		Short: "Show which organisations voted twice, differently, for one execution of a block",
		Long: `evidence asks the node over its socket for votes that contradict each other. Their organisation has signed both: it lies, its
keys are in use in two places, or it lost its earlier vote. With --json it prints the evidence of votes on effects, which anybody can
check without a node (chainify verify-evidence, audit/audit.py). CometBFT's evidence, of votes of the order, stands in order blocks
that two thirds of the votes have checked. The exit code is 0 when there is none, 1 when there is.

` + exitHelp,
		Example: `  chainify evidence --home /var/lib/chainify
  chainify evidence --home /var/lib/chainify --json > evidence.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := asked(cmd.Context(), &t, (*gateway.Client).Evidence)
			if err != nil {
				return err
			}
			if asJSON {
				all := []audit.Evidence{}
				for _, e := range found.GetEvidence() {
					all = append(all, audit.EvidenceOf(found.ChainId, e))
				}
				err = printJSON(cmd.OutOrStdout(), all)
			} else {
				err = evidenceScreen(cmd.OutOrStdout(), found)
			}
			return failUnless(found.GetCount() == 0 && found.GetOrderCount() == 0, err)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "for machines and auditors")
	return cmd
}

func evidenceScreen(out io.Writer, found *wire.EvidenceResponse) error {
	if found.GetCount() == 0 && found.GetOrderCount() == 0 {
		_, err := fmt.Fprintln(out, "no organisation was seen to vote twice")
		return err
	}
	var err error
	if found.GetCount() > 0 {
		err = effectEvidenceScreen(out, found)
	}
	if err == nil && found.GetOrderCount() > 0 {
		err = orderEvidenceScreen(out, found)
	}
	return err
}

// orderEvidenceScreen shows CometBFT's evidence, which stands in order blocks.
func orderEvidenceScreen(out io.Writer, found *wire.EvidenceResponse) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORGANISATION\tVALIDATOR\tSIGNED TWICE FOR ORDER BLOCK\tEVIDENCE IN ORDER BLOCK")
	for _, e := range found.Order {
		fmt.Fprintf(w, "%s\t%x\t%d\t%d\n", cmp.Or(e.Organisation, "none"), e.Validator, e.Height, e.Decided)
	}
	moreLine(w, found.OrderCount, len(found.Order))
	return w.Flush()
}

func moreLine(out io.Writer, count uint64, kept int) {
	if more := count - uint64(kept); more > 0 && more <= count {
		fmt.Fprintf(out, "and %d more that are not kept\n", more)
	}
}

func effectEvidenceScreen(out io.Writer, found *wire.EvidenceResponse) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORGANISATION\tBLOCK\tEFFECT ROUND\tFIRST VOTE\tSECOND VOTE")
	for _, e := range found.Evidence {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", e.Organisation, e.Block, e.EffectRound, voteLine(e.First), voteLine(e.Second))
	}
	moreLine(w, found.Count, len(found.Evidence))
	return w.Flush()
}

// voteLine says where a vote was signed, and what it says.
func voteLine(v *wire.ExtendedVote) string {
	said, err := wire.DecodeEffectVote(v.GetExtension())
	what := fmt.Sprintf("%x…", said.Value[:4])
	if at, stuck := said.StuckAt(); stuck {
		what = fmt.Sprintf("stuck at %d", at)
	} else if err != nil {
		what = "?"
	}
	return fmt.Sprintf("%s at height %d round %d", what, v.GetHeight(), v.GetRound())
}

func newVerifyEvidence() *cobra.Command {
	var f genesisFlags
	cmd := &cobra.Command{
		Use:   "verify-evidence FILE... --genesis FILE",
		Short: "Check the output of chainify evidence --json, without node or database",
		Long: `verify-evidence checks that an organisation signed two different votes for one execution of a block. The keys are those of the
genesis or, where they changed since, of the governance record. FILE is one piece of evidence or a list of them; "-" is standard input.

` + verifyExitHelp,
		Example: `  chainify verify-evidence evidence.json --genesis genesis.json --governance governance.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			a, err := f.authorities()
			if err != nil {
				return err
			}
			verdicts, valid := []evidenceVerdict{}, true
			for _, file := range files {
				list, err := verifyEvidenceFile(cmd.InOrStdin(), file, a)
				if err != nil {
					return err
				}
				verdicts = append(verdicts, list...)
			}
			for _, v := range verdicts {
				valid = valid && v.Valid
				if !f.asJSON {
					printEvidenceVerdict(cmd.OutOrStdout(), v)
				}
			}
			if f.asJSON {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"valid": valid, "evidence": verdicts})
			}
			return failUnless(valid, err)
		},
	}
	f.flags(cmd)
	return cmd
}

// evidenceVerdict is the command's verdict on one piece of evidence.
type evidenceVerdict struct {
	File         string          `json:"file"`
	Valid        bool            `json:"valid"`
	Organisation string          `json:"organisation,omitempty"`
	Block        uint64          `json:"block,omitempty"`
	EffectRound  uint32          `json:"effect_round"`
	Findings     []audit.Finding `json:"findings"`
}

// verifyEvidenceFile checks the pieces of one file; one at least, or none that holds.
func verifyEvidenceFile(in io.Reader, file string, a audit.Authorities) ([]evidenceVerdict, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, audit.BytesMax+1))
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("read %s: %w", file, err)}
	}
	pieces := []json.RawMessage{text}
	if list := bytes.TrimSpace(text); len(text) <= audit.BytesMax && bytes.HasPrefix(list, []byte("[")) {
		if err := json.Unmarshal(list, &pieces); err != nil {
			return []evidenceVerdict{{File: file, Findings: []audit.Finding{{Field: "evidence", Detail: err.Error()}}}}, nil
		}
	}
	if len(pieces) == 0 {
		return []evidenceVerdict{{File: file, Findings: []audit.Finding{{Field: "evidence", Detail: "the list is empty"}}}}, nil
	}
	var out []evidenceVerdict
	for _, piece := range pieces {
		v := evidenceVerdict{File: file, Findings: []audit.Finding{}}
		if e, err := audit.ParseEvidence(piece); err != nil {
			field, detail, named := strings.Cut(err.Error(), ": ")
			if !named {
				field, detail = "evidence", err.Error()
			}
			v.Findings = append(v.Findings, audit.Finding{Field: field, Detail: detail})
		} else {
			v.Organisation, v.Block, v.EffectRound = e.Organisation, e.Block, e.EffectRound
			v.Findings = append(v.Findings, e.Check(a)...)
			v.Valid = len(v.Findings) == 0
		}
		out = append(out, v)
	}
	return out, nil
}

func printEvidenceVerdict(out io.Writer, v evidenceVerdict) {
	if v.Valid {
		fmt.Fprintf(out, "%s: holds: %s signed two different votes for block %d in effect round %d\n", v.File, v.Organisation, v.Block, v.EffectRound)
		return
	}
	fmt.Fprintf(out, "%s: DOES NOT HOLD\n", v.File)
	for _, f := range v.Findings {
		fmt.Fprintf(out, "  %s\n", f)
	}
}
