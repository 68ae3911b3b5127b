package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ backend.Planner = (*Backend)(nil)

// DuePlans implements backend.Planner.
func (b *Backend) DuePlans(ctx context.Context, blockTime time.Time, most int) ([]backend.DuePlan, error) {
	rows, err := b.pool.Query(ctx, `SELECT id, role FROM chainify_node.due_plans($1, $2)`, blockTime.UnixMicro(), most)
	if err != nil {
		return nil, fmt.Errorf("look for due plans: %w", err)
	}
	plans, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (plan backend.DuePlan, err error) {
		var id []byte
		if err = row.Scan(&id, &plan.Role); err == nil && copy(plan.ID[:], id) != len(wire.TxID{}) {
			err = fmt.Errorf("plan has an id of %d bytes", len(id))
		}
		return plan, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for due plans: %w", err)
	}
	return plans, nil
}
