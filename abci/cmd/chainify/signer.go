package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
)

// signerAgain is the pause between two attempts to reach the node.
const signerAgain = time.Second

func newSigner() *cobra.Command {
	var home, address string
	cmd := &cobra.Command{
		Use:   "signer --home DIR --node ADDRESS",
		Short: "Sign for a node that holds no validator key",
		Long: `signer signs votes and proposals for the node that listens at ADDRESS (consensus.signer_listen of its chainify.toml), until
SIGINT or SIGTERM. The home holds config/genesis.json, the validator key and its last signatures. It never signs two different
contents of one step, whichever node asks: a second node of the organisation may take over with the same signer.

Run one signer for a key. The address is unix://PATH, or tcp://HOST:PORT, whose other end is not authenticated: take a tunnel.`,
		Example: `  chainify signer --home /var/lib/chainify-signer --node unix:///run/chainify/signer.sock`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.CheckSignerAddress(address); err != nil {
				return usageError("--node: %w", err)
			}
			return serveSigner(cmd.Context(), config.Home(home), address)
		},
	}
	cmd.Flags().StringVar(&home, "home", "", "the signer's directory (required)") // never one that a node signs from as well
	require(cmd, "home", "node")
	cmd.Flags().StringVar(&address, "node", "", "where the node listens: unix://PATH or tcp://HOST:PORT (required)")
	return cmd
}

// serveSigner signs until ctx ends. A node that is away says so itself.
func serveSigner(ctx context.Context, home config.Home, address string) (err error) {
	doc, _, err := home.LoadGenesis()
	if err != nil {
		return err
	}
	ids, err := home.ValidatorIDs()
	if err != nil {
		return err
	}
	if len(ids) != 1 {
		return fmt.Errorf("%s has %d validator keys, a signer has one", home, len(ids))
	}
	key, err := home.OpenSigner(ids[0], true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, key.Close()) }()
	// Unlike a node, a signer hears from nobody how far the order is.
	if key.Last.Height == 0 && !key.Unused() {
		return fmt.Errorf("%s does not have what its validator key signed last: take data/priv_validator_state* from where the key signed last; for a key that never signed make the empty file %s", home, home.UnusedFile())
	}
	signer.Serve(ctx, address, signerAgain, doc.ChainID, key, func(error) {})
	return nil
}
