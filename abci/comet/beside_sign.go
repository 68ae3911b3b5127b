package comet

import (
	"context"
	"time"

	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// signerAgain is the pause between two attempts to reach CometBFT. It waits 3 s for the signer.
const signerAgain = 200 * time.Millisecond

// sign signs for CometBFT by its protocol for remote signers, until ctx ends. So the validator key
// and its last signature stay where they are when CometBFT is in this process. E7, A13 and keys
// that take the place of others hold as there.
func (b *Beside) sign(ctx context.Context) {
	log := b.opt.Log.With("part", "signer")
	signer.Serve(ctx, b.sockets.Signer, signerAgain, b.opt.Founded.ChainID(), b.opt.Signer, func(err error) {
		if b.answers() {
			log.Debug("the connection to CometBFT ends; dialling again", "error", err)
		}
	})
}

// askHeights asks how far the peers are. A vote that CometBFT asked for in vain is asked for again
// only when CometBFT starts anew, so it is let go once the key may sign.
func (b *Beside) askHeights(ctx context.Context, peers []remote.Peer) {
	told, err := b.rpc.Heights(ctx)
	if err != nil {
		b.opt.Log.Debug("how far the peers are is not known", "error", err)
		return
	}
	heights := map[string]int64{}
	for _, p := range peers {
		if of := b.admits.OrganisationShown(p); of != "" {
			heights[of] = max(heights[of], told[p.ID])
		}
	}
	b.mu.Lock()
	b.heights = heights
	b.mu.Unlock()
	if b.opt.Guards.Late(b.opt.Keys.Counting(), b.opt.Next()) != nil {
		b.opt.Log.Info("CometBFT is let go: started again, it asks for the vote that it did not get")
		b.server.Drop()
	}
}

// Reported implements keyring.Order. CometBFT ends with this process, so its connections are
// younger. It is not asked here: it may wait for a signature.
func (b *Beside) Reported() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heights
}

// Counted implements keyring.Order: that is not asked for.
func (b *Beside) Counted(height int64, _ []byte) bool { return height > 0 }
