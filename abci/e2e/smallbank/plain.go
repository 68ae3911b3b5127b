package smallbank

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// PlainOptions is all that sends pgbench's plain SQL through the ledger (PGOPTIONS).
const PlainOptions = "-c chainify.writes=effects"

// plainTries bounds how often pgbench runs a transaction again that lost with 40001.
const plainTries = 1000

var plainTransactions = []string{"deposit_checking", "send_payment", "transact_savings", "write_check"}

// PlainResult is pgbench's result of a run.
type PlainResult struct {
	Processed, Retried int // transactions that succeeded; those of them that ran more than once
}

var (
	plainProcessed = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	plainRetried   = regexp.MustCompile(`(?m)^number of transactions retried: (\d+)`)
)

// LoadPlain runs pgbench to its end with the scripts of plain SQL. Each transaction changes a row
// and succeeds; those that conflict are run again by pgbench.
func (b Bank) LoadPlain(ctx context.Context, o *harness.Organisation, database string, run Run) (PlainResult, error) {
	scripts := make([]string, len(plainTransactions))
	for i, t := range plainTransactions {
		scripts[i] = "plain/" + t + ".sql"
	}
	out, err := b.pgbench(ctx, o, database, run, []string{"--max-tries", fmt.Sprint(plainTries)}, scripts)
	if err != nil {
		return PlainResult{}, err
	}
	return readPlainResult(out)
}

func readPlainResult(report string) (r PlainResult, err error) {
	for _, number := range []struct {
		line *regexp.Regexp
		into *int
	}{{plainProcessed, &r.Processed}, {plainRetried, &r.Retried}} {
		found := number.line.FindStringSubmatch(report)
		if found == nil {
			return r, fmt.Errorf("pgbench's report lacks %q:\n%s", number.line, lastLines(report, 10))
		}
		if *number.into, err = strconv.Atoi(found[1]); err != nil {
			return r, err
		}
	}
	return r, nil
}
