package faults

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

// words are queries that the engines answer each in words of its own.
type words struct {
	heads      string // number and hash of the blocks after one
	entries    string // id, block, place, outcome, SQLSTATE and content as ordered of each transaction
	deviations string // all of them, and those not cured
	stale      string // whether rows may not be those agreed on
}

var (
	postgresWords = words{
		heads:      "SELECT number, encode(hash, 'hex') FROM chainify.ledger WHERE number > $1 ORDER BY number",
		entries:    "SELECT id, block, index, succeeded, coalesce(sqlstate, ''), body FROM chainify_ledger.transaction",
		deviations: "SELECT count(*), count(*) FILTER (WHERE cured_by IS NULL) FROM chainify.deviations",
		stale:      "SELECT stale FROM chainify.status",
	}
	mariaDBWords = words{
		heads:   "SELECT number, lower(hex(hash)) FROM bank_ledger.block WHERE number > ? ORDER BY number",
		entries: `SELECT id, block, place, outcome, sql_state, raw FROM bank_ledger."transaction"`,
		deviations: `SELECT count(*), count(*) - count(cured_by) + (SELECT deviates FROM bank_ledger.chain) + (SELECT count(*) FROM bank_ledger.false_block)
			FROM bank_ledger.deviation`,
		stale: "SELECT deviates FROM bank_ledger.chain",
	}
)

func wordsOf(o *harness.Organisation) words {
	if o.MariaDB != nil {
		return mariaDBWords
	}
	return postgresWords
}

// counters is the table in which each client counts his transactions, and attemptOrdinal its column
// with the number of the last attempt at an EFFECTS transaction that succeeded.
const (
	counters       = "public.counters"
	attemptOrdinal = 4
)

// repeated is the attempt of a write set that counts and has no number: its client's row had it
// already, since that attempt had succeeded before.
const repeated = -1

// authorOf tells whose counter a transaction adds to; 0: nobody's. It also tells which attempt of
// that client it is, if it is an EFFECTS transaction.
func authorOf(content []byte) (client int, attempt int64, err error) {
	tx, err := wire.DecodeChainedTx(content)
	if err != nil {
		return 0, 0, err
	}
	if tx.Proposal.Kind == wire.Kind_KIND_EFFECTS {
		return authorOfEffects(tx.Proposal.Effects)
	}
	return clientOf(tx.Proposal.Sql), 0, nil
}

// authorOfEffects finds them in the change of the client's counter.
func authorOfEffects(effects []byte) (client int, attempt int64, err error) {
	set, err := wire.DecodeWriteSet(effects)
	if err != nil {
		return 0, 0, err
	}
	for _, change := range set.Changes {
		if change.Op != 'U' || set.Tables[change.Table] != counters {
			continue
		}
		key, err := canonical.DecodeRow(change.Row)
		if err != nil {
			return 0, 0, err
		}
		client = int(key[0].Value.Number)
		for _, cell := range change.Cells {
			if cell.Ordinal == attemptOrdinal {
				value, err := canonical.DecodeValue(cell.Value)
				return client, value.Number, err
			}
		}
	}
	if client > 0 {
		return client, repeated, nil
	}
	return 0, 0, nil
}

// counting finds in a statement whose counter it adds to.
var counting = regexp.MustCompile(`(?:client = |^CALL [a-z]+\()(\d+)`)

// clientOf is the client whose counter a statement adds to; 0: none.
func clientOf(statement string) int {
	found := counting.FindStringSubmatch(statement)
	if found == nil {
		return 0
	}
	client, _ := strconv.Atoi(found[1]) // digits
	return client
}

// each calls do for every row, scanned into the variables.
func each(ctx context.Context, db *sql.DB, query string, arguments, into []any, do func() error) error {
	rows, err := db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}
