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

func TestATransactionWithoutOutcomeIsNamed(t *testing.T) {
	id := strings.Repeat("5c", 32)
	if got, known := notInTime("the outcome is not known yet: CALL chainify_wait('" + id + "')"); !known || hex.EncodeToString(got) != id {
		t.Errorf("%x, %t", got, known)
	}
	if got, known := notInTime("the node takes no requests"); known {
		t.Errorf("%x", got)
	}
}
