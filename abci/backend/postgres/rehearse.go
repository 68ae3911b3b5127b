package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

const (
	rehearsalAttempts = 5 // while blocks are in the way
	rehearsalPause    = 20 * time.Millisecond
)

var errNoTime = errors.New("rehearse transaction: the time allowed for it is gone")

var _ backend.Rehearser = (*Backend)(nil)

// HasPolicies implements backend.Rehearser.
func (b *Backend) HasPolicies(ctx context.Context) (has bool, err error) {
	if err := b.pool.QueryRow(ctx, `SELECT chainify_node.has_policies()`).Scan(&has); err != nil {
		return false, fmt.Errorf("look for agreement policies: %w", err)
	}
	return has, nil
}

// Rehearse implements backend.Rehearser. A block goes first: a rehearsal in its way is cancelled,
// and tried again.
func (b *Backend) Rehearse(ctx context.Context, txs [][]byte) ([]backend.Rehearsal, error) {
	if backend.Allowed(ctx).Gone() {
		return nil, errNoTime
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := make([]backend.Rehearsal, 0, len(txs))
	for some := range slices.Chunk(txs, rehearsalsMax) {
		for _, r := range b.rehearsals.add(ctx, some...) {
			found, err := b.rehearsed(ctx, r)
			if err != nil {
				return nil, fmt.Errorf("rehearse transaction: %w", err)
			}
			shown = append(shown, found)
		}
	}
	return shown, nil
}

// rehearsed waits for a rehearsal, and for another one while something was in its way.
func (b *Backend) rehearsed(ctx context.Context, r *rehearsal) (shown backend.Rehearsal, err error) {
	for attempt := range rehearsalAttempts {
		if attempt > 0 {
			if err := sleep(ctx, time.Duration(attempt)*rehearsalPause); err != nil {
				return shown, err
			}
			r = b.rehearsals.add(ctx, r.tx)[0]
		}
		if shown, err = r.wait(ctx); err == nil || !passing(sqlState(err)) || r.allowed.Gone() {
			return shown, err
		}
	}
	return shown, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// passing says that a failure tells of this moment: a block was in the way, or another session.
func passing(state string) bool {
	switch state {
	case "CH007", "40001", "40P01", "55P03", "57014":
		return true
	}
	return false
}
