package node

import (
	"context"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

// decide says why this organisation does not agree to a transaction. Its database may be a block
// behind the one that the client saw, so that a no is looked at again.
func decide(ctx context.Context, database backend.Rehearser, tx []byte) (refusal string, err error) {
	for range agreementLooks {
		found, err := database.Rehearse(ctx, [][]byte{tx})
		switch {
		case err != nil && refusal != "":
			return refusal, nil // the time is gone
		case err != nil:
			return "", err
		case found[0].SQLState != "":
			refusal = "the transaction fails there: " + found[0].Message
		case found[0].Refusal != "":
			refusal = found[0].Refusal
		default:
			return "", nil
		}
		select {
		case <-ctx.Done():
			return refusal, nil
		case <-time.After(agreementPause):
		}
	}
	return refusal, nil
}
