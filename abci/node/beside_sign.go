package node

import (
	"context"
	"strings"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/privval"

	"github.com/chainify-db/chainify/abci/signer"
)

const (
	// signerAgain is the pause between two attempts to reach CometBFT. It waits 3 s for the signer.
	signerAgain    = 200 * time.Millisecond
	signerHandover = 5 * time.Second
)

// sign signs for CometBFT by its protocol for remote signers, until ctx ends. So the validator key
// and its last signature stay where they are when CometBFT is in this process. E7, A13 and keys
// that take the place of others hold as there.
func (b *beside) sign(ctx context.Context) {
	address, log := b.sockets.Signer, b.n.log.With("part", "signer")
	dial := privval.DialTCPFn(strings.TrimPrefix(address, "tcp://"), signerHandover, ed25519.GenPrivKey())
	if path, unix := strings.CutPrefix(address, "unix://"); unix {
		dial = privval.DialUnixFn(path)
	}
	signer.Serve(ctx, dial, signerAgain, b.n.founded.ChainID(), b.n.keys, func(err error) {
		if b.answers() {
			log.Debug("the connection to CometBFT ends; dialling again", "error", err)
		}
	})
}
