package faults

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

// words are queries that the engines answer each in words of its own.
type words struct {
	heads      string // number and hash of the blocks after one
	entries    string // id, block, place, outcome, SQLSTATE and content of each transaction
	deviations string // all of them, and those not cured
	stale      string // whether rows may not be those agreed on
}

var (
	postgresWords = words{
		heads:      "SELECT number, encode(hash, 'hex') FROM chainify.ledger WHERE number > $1 ORDER BY number",
		entries:    "SELECT id, block, index, outcome, coalesce(sqlstate, ''), coalesce(sql, '') FROM chainify.transactions",
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

// statement is the SQL text of a transaction as a database keeps it.
func statement(o *harness.Organisation, content []byte) (string, error) {
	if o.MariaDB == nil {
		return string(content), nil
	}
	tx, err := wire.DecodeChainedTx(content)
	if err != nil {
		return "", err
	}
	return tx.Proposal.Sql, nil
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
