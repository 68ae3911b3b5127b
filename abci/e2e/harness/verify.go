package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Verify has chainify verify read the organisation's whole ledger, and tells the first findings.
func (o *Organisation) Verify(ctx context.Context) ([]string, error) {
	args := []string{"verify", "--json", "--dsn"}
	if o.MariaDB != nil {
		args = append(args, o.MariaDB.DSN(o.net.Database, NodeRole), "--genesis", filepath.Join(o.Home(), "config", "genesis.json"))
	} else {
		args = append(args, o.Cluster.DSN(o.net.Database, "postgres"))
	}
	out, failed := o.Tool(ctx, args...)
	var verdict struct {
		Valid    bool
		Findings []struct {
			Block        uint64
			What, Detail string
		}
	}
	if err := json.Unmarshal([]byte(out), &verdict); err != nil {
		return nil, fmt.Errorf("verify %s: %w %s", o.Name, failed, strings.TrimSpace(out))
	}
	var findings []string
	for _, f := range verdict.Findings {
		findings = append(findings, fmt.Sprintf("block %d: %s: %s", f.Block, f.What, f.Detail))
	}
	return findings, nil
}
