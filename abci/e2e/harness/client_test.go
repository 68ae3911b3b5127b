package harness

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestErrorsOfBothEnginesHaveTheirSQLState(t *testing.T) {
	for want, err := range map[string]error{
		"57P03": &pgconn.PgError{Code: "57P03"},
		"70100": &mysql.MySQLError{Number: 1927, SQLState: [5]byte([]byte("70100"))},
		"":      errors.New("connection lost"),
	} {
		if got := SQLState(fmt.Errorf("submit: %w", err)); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestErrorsOfCommitTellWhetherTheTransactionFailed(t *testing.T) {
	id := strings.Repeat("5c", 32)
	named := "Transaction \\x" + id
	for _, c := range []struct {
		err    error
		failed bool
		id     string
	}{
		{&pgconn.PgError{Code: "40001", Detail: named + " failed in block 15."}, true, id},
		{&pgconn.PgError{Code: "40001", Detail: "Block 7 changed it."}, true, ""},
		{&pgconn.PgError{Code: "23514", Detail: named + " failed in block 15."}, true, id},
		{&pgconn.PgError{Code: "54000", Detail: named + " was refused by the order."}, true, id},
		{&pgconn.PgError{Code: "57P03"}, true, ""},
		{&pgconn.PgError{Code: "57P03", Detail: named + " may be ordered later."}, false, id},
		{&pgconn.PgError{Code: "57014", Detail: named + " may be ordered later."}, false, id},
		{&pgconn.PgError{Code: "08006", Detail: "Whether the transaction was queued is unknown."}, false, ""},
		{&pgconn.PgError{Code: "57P02"}, false, ""},
		{errors.New("connection lost"), false, ""},
	} {
		failed, id := CommitFailed(fmt.Errorf("COMMIT: %w", c.err))
		if failed != c.failed || hex.EncodeToString(id) != c.id {
			t.Errorf("%v: failed %t, id %x; want %t, %s", c.err, failed, id, c.failed, c.id)
		}
	}
}

func TestATransactionWithoutOutcomeIsNamed(t *testing.T) {
	id := strings.Repeat("5c", 32)
	if got, known := notInTime("the outcome is not known yet: CALL chainify_wait('" + id + "')"); !known || hex.EncodeToString(got) != id {
		t.Errorf("%x, %t", got, known)
	}
	if got, known := notInTime("the node takes no requests"); known {
		t.Errorf("%x", got)
	}
}
