package node

import (
	"context"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

const (
	// agreementLooks is how often a no is looked at. agreementPause is before the last look: the
	// asking node may tell where it stands after its question.
	agreementLooks = 3
	agreementPause = 100 * time.Millisecond
	// agreementWait bounds how long a no waits for blocks that the asking organisation may have,
	// and agreementPoll is how often it looks for them.
	agreementWait = 3 * time.Second
	agreementPoll = 10 * time.Millisecond
)

// decide says why this organisation does not agree to a transaction. Its database may lack a block
// that the asking organisation has, and then other rows would be changed. So a no is looked at
// again with that block. The reason is the lack where the block does not come in time.
func decide(ctx context.Context, database backend.Rehearser, beside asker, tx []byte) (refusal string, err error) {
	ends := time.Now().Add(agreementWait)
	for look := range agreementLooks {
		if look > 1 && !paused(ctx, agreementPause) {
			return refusal, nil
		}
		if look > 0 {
			if lack := beside.catchUp(ctx, ends); lack != "" {
				return lack, nil
			}
		}
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
	}
	return refusal, nil
}

// asker is where this organisation stands beside one that asks.
type asker struct {
	at        func() int64  // order block that the asking node works on; 0: it is not known
	decided   func() int64  // last order block that this node has decided
	ordered   func() uint64 // last ledger block in these
	committed func() uint64 // last ledger block of this database
}

// catchUp waits until this database has each block that the asking organisation's may have now. It
// says which one is lacking, when that does not come in time.
func (a asker) catchUp(ctx context.Context, ends time.Time) (lack string) {
	for told := a.at() - 1; a.decided() < told; {
		if time.Now().After(ends) || !paused(ctx, agreementPoll) {
			return fmt.Sprintf("its node is behind: it has decided order block %d, and the asking one block %d; ask again", a.decided(), told)
		}
	}
	for last := a.ordered(); a.committed() < last; {
		if time.Now().After(ends) || !paused(ctx, agreementPoll) {
			return fmt.Sprintf("its database is behind: it has block %d, and block %d is ordered; ask again", a.committed(), last)
		}
	}
	return ""
}

// paused is false when ctx ends first.
func paused(ctx context.Context, length time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}
