package faults

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// tampering is a change behind the ledger's back, in the words of both engines.
type tampering struct{ postgres, mariaDB []string }

// recent bounds tampering to the history that repair reads. No checkpoint tells of older rows:
// verify_ledger finds it, nothing puts it right. A MariaDB reads all history since the base.
const recent = " AND _block > (SELECT coalesce(min(block), 0) FROM chainify.checkpoints)"

// rowsOf bounds a MariaDB's tampering to the rows of a table in history or base.
func rowsOf(table string) string {
	return " WHERE table_id = (SELECT id FROM bank_ledger.ledger_table WHERE name = 'public." + table + "')"
}

var (
	// otherRows changes rows.
	otherRows = tampering{
		postgres: []string{
			"ALTER TABLE checking DISABLE TRIGGER ALL", "UPDATE checking SET balance = balance + 1000000 WHERE custid % 10 = 3",
			"ALTER TABLE checking ENABLE TRIGGER ALL",
		},
		mariaDB: []string{"UPDATE checking SET balance = balance + 1000000 WHERE custid % 10 = 3"},
	}
	// otherHistory changes rows and the history that would tell how to put them right.
	otherHistory = tampering{
		postgres: []string{
			"ALTER TABLE savings DISABLE TRIGGER ALL", "UPDATE savings SET balance = balance + 7 WHERE custid % 10 = 4",
			"UPDATE chainify_history.savings SET balance = balance + 7 WHERE custid % 10 = 4" + recent,
			"ALTER TABLE savings ENABLE TRIGGER ALL",
		},
		mariaDB: []string{
			"UPDATE savings SET balance = balance + 7 WHERE custid % 10 = 4",
			"UPDATE bank_ledger.history SET row_bytes = x'0000'" + rowsOf("savings") + " AND op = 'U'",
		},
	}
	// everything leaves nothing of a table that could tell its rows: another organisation has to.
	everything = tampering{
		postgres: []string{
			"ALTER TABLE savings DISABLE TRIGGER ALL", "UPDATE savings SET balance = balance + 9 WHERE custid % 10 = 5",
			"UPDATE chainify_history.savings SET balance = balance + 9 WHERE custid % 10 = 5" + recent,
			"UPDATE chainify_checkpoint.savings SET balance = balance + 9 WHERE custid % 10 = 5",
			"ALTER TABLE savings ENABLE TRIGGER ALL",
		},
		mariaDB: []string{
			"UPDATE savings SET balance = balance + 9 WHERE custid % 10 = 5",
			"UPDATE bank_ledger.history SET row_bytes = x'0000'" + rowsOf("savings") + " AND op = 'U'",
			"UPDATE bank_ledger.base SET row_bytes = x'0000'" + rowsOf("savings") + " AND ord(key_hash) % 10 = 5",
		},
	}
	// agreed changes also what the ledger says was agreed, the last block included, and what it
	// began with: nothing helps, and an organisation that is hit is excluded by the next block.
	agreed = tampering{
		postgres: append([]string{
			"LOCK TABLE chainify_ledger.block IN SHARE ROW EXCLUSIVE MODE",
			"UPDATE chainify_ledger.initial_table SET table_state = " + flipped("table_state"),
			"CREATE TABLE tampered AS SELECT number FROM chainify_ledger.block",
			"UPDATE chainify_ledger.block SET state_root = " + flipped("state_root"),
			"UPDATE chainify_ledger.table_state SET row_count = row_count + 1", // no block comes out right from here on
		}, everything.postgres...),
		mariaDB: append([]string{
			"UPDATE bank_ledger.block SET header = concat(header, 'tampered')",
			"UPDATE bank_ledger.ledger_table SET row_count = row_count + 1",
		}, everything.mariaDB...),
	}
	// agreedAgain puts back what was agreed.
	agreedAgain = tampering{
		postgres: []string{
			"UPDATE chainify_ledger.initial_table SET table_state = " + flipped("table_state"),
			"UPDATE chainify_ledger.block b SET state_root = " + flipped("state_root") + " FROM tampered t WHERE t.number = b.number",
			"DROP TABLE tampered",
		},
		mariaDB: []string{"UPDATE bank_ledger.block SET header = left(header, octet_length(header) - 8) WHERE right(header, 8) = 'tampered'"},
	}
)

// flipped is the first byte of a column's value changed; once more, and it is as it was.
func flipped(column string) string {
	return "set_byte(" + column + ", 0, get_byte(" + column + ", 0) # 1)"
}

// begins is a step that tampers with a member.
func (t tampering) begins(ctx context.Context, _ *run, m *member, _ Fault) error {
	return t.with(ctx, m.organisation)
}

const tamperTries = 5

// with changes what it says in one transaction, as a superuser who knows where the guard is; again
// when it ended for a conflict with a block.
func (t tampering) with(ctx context.Context, o *harness.Organisation) error {
	begin, statements := "SET chainify.guard = off; SET lock_timeout = '30s'; ", t.postgres
	if o.MariaDB != nil {
		// A list of changes of the session's own: triggers refuse nothing.
		begin = "CREATE TEMPORARY TABLE bank_ledger.captured (name TEXT, op TEXT, before_row LONGBLOB, after_row LONGBLOB); BEGIN; "
		statements = slices.Concat(t.mariaDB, []string{"COMMIT"})
	}
	for try := 1; ; try++ {
		err := o.Administer(ctx, begin+strings.Join(statements, "; "))
		if err == nil || try == tamperTries || !conflicted(err) {
			return err
		}
	}
}

// conflicted tells that the server ended a transaction for another one. A MariaDB organisation ends
// the connection of a session that holds rows which a block needs.
func conflicted(err error) bool {
	switch harness.SQLState(err) {
	case "40P01", "40001", "70100":
		return true
	case "":
		return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
	}
	return false
}

// rejoin is what an operator does: puts back what was agreed, and asks to take part again as soon
// as that is refused no more.
func rejoin(ctx context.Context, _ *run, m *member, _ Fault) error {
	if err := agreedAgain.with(ctx, m.organisation); err != nil {
		return err
	}
	return harness.Poll(ctx, rejoinLimit, "rejoining of "+m.Name, func(ctx context.Context) (bool, string, error) {
		state, err := within(ctx, m.organisation.State)
		switch {
		case err != nil:
			return false, err.Error(), nil
		case state == "excluded":
			_, err = m.Run(ctx, "rejoin")
			return false, "it was excluded", err
		}
		var stale bool
		err = m.organisation.Scan(ctx, wordsOf(m.organisation).stale, &stale)
		return !stale, "its rows are stale; it is " + state, err
	})
}
