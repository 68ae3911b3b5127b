package main

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// signedValidity is for how many heights a signed proposal may be ordered.
const signedValidity = 1_000

// place says for which chain, organisation and height a proposal is signed.
type place struct {
	chainID, organisation string
	height                uint64
}

// sign makes a proposal of a statement and signs it with the client's key.
func (s *submission) sign(key ed25519.PrivateKey, at place, statement *wire.Statement) (*wire.SignedProposal, error) {
	nonce, err := randomNonce()
	if err != nil {
		return nil, err
	}
	return wire.SignProposal(key, &wire.Proposal{
		ChainId: at.chainID, Client: &wire.Client{Organisation: at.organisation, Role: s.roleName()}, Nonce: nonce,
		ValidUntilHeight: at.height + signedValidity, Kind: statement.Kind, Sql: statement.Sql, Parameters: statement.Parameters,
	}), nil
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
	ids, err := client.SubmitSigned(ctx, signed)
	if err != nil {
		return nil, err
	}
	return ids[0], nil
}

func newClientSign() *cobra.Command {
	var s submission
	var at place
	cmd := &cobra.Command{
		Use:   "sign --key FILE --chain-id ID --organisation NAME --height N [flags] SQL",
		Short: "Sign one transaction for the HTTP interface",
		Long: `sign makes a transaction, signs it with the client's key and prints it as POST /v1/transactions/signed takes it; it needs no node.
Chain and height are what GET /healthz says: the transaction can be ordered for 1,000 blocks from then. Sent again, it is the same one.`,
		Example: `  chainify client sign --key clerk.json --chain-id trade --organisation acme --height 1200 --role clerk "UPDATE …" |
      curl --json @- https://acme.example:26680/v1/transactions/signed`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			statement, err := s.statement(args[0])
			if err != nil {
				return err
			}
			key, err := config.ReadClientKey(s.key)
			if err != nil {
				return err
			}
			signed, err := s.sign(key, at, statement)
			if err != nil {
				return err
			}
			if _, err := wire.DecodeSignedProposal(signed); err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), map[string]string{
				"proposal": hex.EncodeToString(signed.Proposal), "signature": hex.EncodeToString(signed.Signature),
			})
		},
	}
	s.statementFlags(cmd)
	cmd.Flags().StringVar(&at.chainID, "chain-id", "", "the chain (required)")
	cmd.Flags().StringVar(&at.organisation, "organisation", "", "the client's organisation (required)")
	cmd.Flags().Uint64Var(&at.height, "height", 0, "of the chain now (required)")
	require(cmd, "key", "chain-id", "organisation", "height")
	return cmd
}
