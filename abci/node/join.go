package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet"
	"github.com/chainify-db/chainify/abci/comet/trust"
	"github.com/chainify-db/chainify/abci/wire"
)

// prepareJoin decides whether the node joins by a snapshot, and clears the home's state of the
// order when it does.
func (n *node) prepareJoin() (err error) {
	if n.join, err = comet.Joining(n.opt.Home, n.opt.Beside, n.log); n.join == nil || err != nil {
		return err
	}
	if err := app.NewStore(n.store).Forget(); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if err := n.guards.Joins(); err != nil {
		return err
	}
	if n.genesisState.Parameters.SnapshotEvery == 0 {
		n.log.Warn("the genesis does not set snapshot_every: there is a snapshot to join by only if governance has set it since")
	}
	n.log.Info("joining the order by a snapshot", "trust_height", n.join.Height, "trust_hash", n.join.Hash)
	return nil
}

// joining returns the application's settings for joining by a snapshot; nil: it does not join.
func (n *node) joining() *app.Joining {
	if n.join == nil {
		return nil
	}
	j := &app.Joining{ChainID: n.genesis.ChainID}
	if n.backend != nil {
		j.Certified = n.databaseAhead
	}
	return j
}

// registryHistory returns the registries of all blocks so far. nil: the node is joining and does
// not know them yet; the database then goes on with those that it has stored.
func (n *node) registryHistory() (*wire.RegistryHistory, error) {
	if n.join != nil && n.app.Registry() == nil {
		return nil, nil
	}
	return n.app.RegistryHistory()
}

// databaseAhead returns the last block for which the database has a certificate, and at most the
// one before its last block. For an empty database that takes the ledger over, it returns the
// largest number. It waits until the database answers.
func (n *node) databaseAhead(ctx context.Context) (uint64, error) {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		if s := n.effects.Status(); s.Known {
			if _, joins := n.backend.(backend.Joiner); joins && s.LastCommitted == 0 {
				return math.MaxUint64, nil // it is empty, and takes the ledger over from another organisation
			}
			return min(s.Stored, max(s.LastCommitted, 1)-1), nil
		}
		if n.order.Stops() {
			return 0, trust.ErrEnds
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// tellTrust writes height and hash of a snapshot's order block to data/trust, for the operator.
func (n *node) tellTrust(height int64, block wire.Hash) {
	path := n.opt.Home.Trust()
	err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d:%X\n", height, block), 0o644)
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		n.log.Warn("the order block of the newest snapshot is not written", "file", path, "error", err)
	}
}
