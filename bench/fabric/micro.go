package fabric

import (
	"context"

	"github.com/chainify-db/chainify/bench/report"
)

func micro(ctx context.Context, cfg Config, r *report.Report) ([][]string, error) {
	return nil, nil
}
