package takeover

import (
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/nodestore"
)

// SignAgain has the node of a home, which does not run, sign again. Its key was used elsewhere, or
// its last signature was lost. It signs for heights that the key cannot have been used for. With
// after, the operator vouches that it was used for no height beyond.
func SignAgain(home config.Home, after int64) error {
	c, err := config.Load(string(home))
	if err != nil {
		return err
	}
	db, err := nodestore.Open(home.Data())
	if err != nil {
		return fmt.Errorf("open the node's store (does the node run?): %w", err)
	}
	if err := db.Close(); err != nil {
		return err
	}
	if !c.SignsElsewhere() {
		if err := home.ForgetLastSignatures(after, c.Consensus.ExpressLane); err != nil {
			return err
		}
	}
	kept := config.Signing{}
	if after == 0 {
		now := time.Now().UTC()
		kept.DoubtSince = &now
	}
	return home.KeepSigning(kept)
}
