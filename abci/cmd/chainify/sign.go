package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// signedValidity is for how many heights a signed proposal may be ordered.
const signedValidity = 1_000

// lineBytesMax bounds a statement as JSON, in which texts are escaped.
const lineBytesMax = 2 * wire.ProposalBytesMax

// place says for which chain, organisation and height a proposal is signed.
type place struct {
	chainID, organisation string
	height                uint64
}

// sign makes a proposal of each statement and signs them together with the client's key.
func (s *submission) sign(key ed25519.PrivateKey, at place, statements ...*wire.Statement) ([]*wire.SignedProposal, error) {
	proposals := make([]*wire.Proposal, len(statements))
	for i, statement := range statements {
		nonce, err := randomNonce()
		if err != nil {
			return nil, err
		}
		proposals[i] = &wire.Proposal{
			ChainId: at.chainID, Client: &wire.Client{Organisation: at.organisation, Role: s.roleName()}, Nonce: nonce,
			ValidUntilHeight: at.height + signedValidity, Kind: statement.Kind, Sql: statement.Sql, Parameters: statement.Parameters, Plan: statement.Plan,
		}
	}
	return wire.SignProposals(key, proposals), nil
}

// submitSigned signs a statement with the client's key and hands it to the node.
func (s *submission) submitSigned(ctx context.Context, client *gateway.Client, statement *wire.Statement) ([]byte, error) {
	key, err := config.ReadClientKey(s.key)
	if err != nil {
		return nil, err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	signed, err := s.sign(key, place{status.ChainId, status.Organisation, uint64(max(status.Height, 0))}, statement)
	if err != nil {
		return nil, err
	}
	ids, err := client.SubmitSigned(ctx, signed...)
	if err != nil {
		return nil, err
	}
	return ids[0], nil
}

func newClientSign() *cobra.Command {
	var s submission
	var at place
	cmd := &cobra.Command{
		Use:   "sign --key FILE --chain-id ID --organisation NAME --height N [flags] (SQL | -)",
		Short: "Sign transactions for the HTTP interface",
		Long: `sign makes a transaction, signs it with the client's key and prints it as POST /v1/transactions/signed takes it. It needs no
node. Take chain and height from GET /healthz: the transaction can be ordered for 1,000 blocks from then. The same bytes sent again
are the same transaction.

With "-" it reads statements from standard input, one a line as POST /v1/transactions takes it, and signs them together, with one
signature for eight of them. Submit the printed lines in any order, all or some.`,
		Example: `  chainify client sign --key clerk.json --chain-id trade --organisation acme --height 1200 --role clerk "UPDATE …" |
      curl --json @- https://acme.example:26680/v1/transactions/signed
  echo '{"sql": "UPDATE t SET x = $1", "parameters": [{"value": "7"}]}' | chainify client sign … -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			statements, err := s.statements(cmd, args[0])
			if err != nil {
				return err
			}
			key, err := config.ReadClientKey(s.key)
			if err != nil {
				return err
			}
			signed, err := s.sign(key, at, statements...)
			if err != nil {
				return err
			}
			return printSigned(cmd.OutOrStdout(), signed)
		},
	}
	s.statementFlags(cmd)
	cmd.Flags().StringVar(&at.chainID, "chain-id", "", "the chain (required)")
	cmd.Flags().StringVar(&at.organisation, "organisation", "", "the client's organisation (required)")
	numberFlag(cmd, &at.height, "height", "of the chain now (required)")
	require(cmd, "key", "chain-id", "organisation", "height")
	return cmd
}

// statements are the one given or, for "-", those of standard input.
func (s *submission) statements(cmd *cobra.Command, text string) ([]*wire.Statement, error) {
	if text != "-" {
		statement, err := s.statement(text)
		return []*wire.Statement{statement}, err
	}
	if cmd.Flags().Changed("kind") || cmd.Flags().Changed("param") {
		return nil, usageError("--kind and --param: with \"-\" each line has its own")
	}
	var out []*wire.Statement
	lines := bufio.NewScanner(cmd.InOrStdin())
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		statement, err := gateway.ParseStatement(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		out = append(out, statement)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read statements, line %d: %w", len(out)+1, err)
	}
	return out, nil
}

// printSigned writes each as a body of POST /v1/transactions/signed on a line of its own, if all of
// them are well-formed.
func printSigned(out io.Writer, signed []*wire.SignedProposal) error {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for i, p := range signed {
		_, err := wire.DecodeSignedProposal(p)
		if err == nil {
			err = e.Encode(map[string]string{"proposal": hex.EncodeToString(p.Proposal), "signature": hex.EncodeToString(p.Signature)})
		}
		if err != nil {
			return fmt.Errorf("transaction %d: %w", i+1, err)
		}
	}
	_, err := lines.WriteTo(out)
	return err
}
