package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
)

// A fault of this machine is never another organisation's, and no obstacle to a block: it is tried
// again. An answer that does not fit here is nobody's fault, until another's word fits.
func TestWhoseFaultAnErrorIs(t *testing.T) {
	for _, c := range []struct {
		state, message, severity string
		told, adopted            error // nil: this database's own
	}{
		{state: "25006", message: "cannot execute INSERT in a read-only transaction"},
		{state: "25P04", severity: "FATAL"},
		{state: "08006"},
		{state: "28000"},
		{state: "40001"},
		{state: "40P01"},
		{state: "53100", message: "could not extend file"},
		{state: "53200", message: "out of shared memory"},
		{state: "53400"},
		{state: "54001"},
		{state: "55P03"},
		{state: "57014"},
		{state: "57P01", severity: "FATAL"},
		{state: "58P01", message: "could not access file \"$libdir/citext\""},
		{state: "58030"},
		{state: "72000"},
		{state: "F0000"},
		{state: "XX000"},
		{state: "XX001"},
		{state: "42501", message: "could not open file \"base/1/2\": Read-only file system"},
		{state: "42809", message: "could not open file \"base/1/2\": Is a directory"},
		{state: "22P02", severity: "FATAL"},
		{state: "42501", message: "permission denied for table t", adopted: backend.ErrBeyondRepair},
		{state: "42883", message: "function f() does not exist", adopted: backend.ErrBeyondRepair},
		{state: "22P02", told: backend.ErrUnfit, adopted: backend.ErrBeyondRepair},
		{state: "22023", told: backend.ErrUnfit, adopted: backend.ErrUnfit},
		{state: "23514", told: backend.ErrUnfit, adopted: backend.ErrBeyondRepair},
		{state: "42P01", told: backend.ErrUnfit, adopted: backend.ErrBeyondRepair},
		{state: "P0001", told: backend.ErrUnfit, adopted: backend.ErrBeyondRepair},
		{state: "55000", adopted: backend.ErrOutOfTurn},
		{state: "CH002", adopted: backend.ErrBeyondRepair},
	} {
		if c.severity == "" {
			c.severity = "ERROR"
		}
		err := error(&pgconn.PgError{Code: c.state, Message: c.message, Severity: c.severity})
		for name, got := range map[string]struct{ err, want error }{
			"told":    {told(err), c.told},
			"adopted": {notAdopted(err), c.adopted},
		} {
			if got.want == nil && got.err != err || got.want != nil && !errors.Is(got.err, got.want) || errors.Is(got.err, backend.ErrFalse) {
				t.Errorf("%s %s %q, %s: %v, want %v", c.severity, c.state, c.message, name, got.err, got.want)
			}
		}
	}
	lost := errors.New("connection lost")
	if told(lost) != lost || notAdopted(lost) != lost {
		t.Error("a lost connection is not this database's own")
	}
}
