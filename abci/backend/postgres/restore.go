package postgres

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds for narrowing down the ranges that differ. Each round costs both databases a scan, and
// each surplus row costs some bytes of transfer.
const (
	rowsPerRange   = 64      // of the first look
	firstBitsMax   = 12      // of the first look: 4,096 ranges
	narrowAbove    = 16_384  // rows in ranges that differ: fewer are not worth another look
	narrowLooksMax = 3       // at one table
	rangesMax      = 4_096   // of one look
	stageBytes     = 1 << 20 // of rows handed to the database at once
)

// Restore takes the rows in which the tables differ from another organisation's reading.
func (b *Backend) Restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) (rows []backend.RowDeviation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = beyond(b.once(ctx, func() error {
		rows, err = b.restore(ctx, from, number, certified, deviating, found)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("restore at block %d: %w", number, err)
	}
	return rows, nil
}

// malformed is invalid_parameter_value: the data from another organisation do not decode.
const malformed = "22023"

// machine has the beginnings of SQLSTATEs that are failures of this database or its machine, and
// not of the received data.
var machine = []string{"08", "25", "28", "3D", "40", "53", "54001", "55P03", "57", "58", "72", "F0", "XX"}

// own reports whether an error is a failure of this database or its machine. A disk that became
// read-only gives the SQLSTATE of a missing right.
func own(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Severity != "ERROR" {
		return true
	}
	return slices.ContainsFunc(machine, func(class string) bool { return strings.HasPrefix(e.Code, class) }) ||
		(e.Code == "42501" || e.Code == "42809") && strings.HasPrefix(e.Message, "could not ")
}

// unfit has the beginnings of SQLSTATEs for values that do not fit their type, rows that a domain's
// constraint refuses, and tables that do not exist.
var unfit = []string{"22", "23", "42P01", "P0"}

// told marks an error as one of received data that do not fit here. The data of a further
// organisation show whether the sender or this database is wrong.
func told(err error) error {
	state := sqlState(err)
	if own(err) || !slices.ContainsFunc(unfit, func(class string) bool { return strings.HasPrefix(state, class) }) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrUnfit, err)
}

// beyond marks an error as one of received data that do not repair this database.
func beyond(err error) error {
	if errors.Is(err, backend.ErrFalse) || errors.Is(err, backend.ErrUnfit) || errors.Is(err, backend.ErrNoHelp) || errors.Is(err, backend.ErrBeyondRepair) {
		return err
	}
	switch sqlState(err) {
	case beyondRepair, malformed: // malformed of the list of tables, not of rows, which told has met
		return fmt.Errorf("%w: %w", backend.ErrBeyondRepair, err)
	}
	return err
}

func (b *Backend) restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]backend.RowDeviation, error) {
	type received struct {
		Name   string   `json:"name"`
		State  string   `json:"state"`
		Bits   uint32   `json:"bits"`
		Ranges []uint32 `json:"ranges"`
	}
	tables := []received{}
	if err := b.checkTold(ctx, from.Tables(), number, certified); err != nil {
		return nil, err
	}
	for _, t := range from.Tables() {
		differ, most, err := b.differing(ctx, from, number, t)
		if err == nil && len(differ.List) > 0 {
			err = b.fetch(ctx, from, t.Table, differ, most)
		}
		if err != nil {
			return nil, err
		}
		tables = append(tables, received{t.Table, hex.EncodeToString(t.State[:]), differ.Bits, append([]uint32{}, differ.List...)})
	}
	text, err := json.Marshal(tables)
	if err != nil {
		return nil, fmt.Errorf("encode tables: %w", err)
	}
	rows, err := b.conn.Query(ctx,
		`SELECT tbl, key::text, expected::text, found::text FROM chainify_node.restore($1, $2, $3, $4, $5::jsonb)`,
		int64(number), certified[:], int64(deviating), found[:], string(text))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, rowDeviation)
}

// checkTold refuses tables that do not exist, and numbers of rows that contradict the received
// states. Where this database has the same state, it knows the number of its rows.
func (b *Backend) checkTold(ctx context.Context, tables []backend.TableState, number uint64, certified wire.Hash) error {
	own := reading{conn: b.conn, number: number}
	if _, err := b.conn.Exec(ctx, `SAVEPOINT own_tables`); err != nil {
		return err
	}
	if err := own.collect(ctx, certified); err != nil { // restore reports a failure of this database
		_, err = b.conn.Exec(ctx, `ROLLBACK TO own_tables`)
		return err
	}
	known := map[string]backend.TableState{}
	for _, t := range own.tables {
		known[t.Table] = t
	}
	for i, t := range tables {
		here, is := known[t.Table]
		switch {
		case slices.ContainsFunc(tables[:i], func(before backend.TableState) bool { return before.Table == t.Table }):
			return fmt.Errorf("%w: table %q twice", backend.ErrFalse, t.Table)
		case !is: // or it was taken off the ledger here, behind its back
			return fmt.Errorf("%w: table %q was told, which is not on the ledger here", backend.ErrBeyondRepair, t.Table)
		case here.State == t.State && here.Rows != t.Rows:
			return fmt.Errorf("%w: %d rows of table %q, its state has %d", backend.ErrUnfit, t.Rows, t.Table, here.Rows)
		}
	}
	return nil
}

// differing finds the ranges in which the table here and the received one differ, and the number of
// rows that the other one has in them.
func (b *Backend) differing(ctx context.Context, from backend.Reading, number uint64, t backend.TableState) (in backend.Ranges, most uint64, err error) {
	in = backend.All()
	next := firstBits(t.Rows)
	for range narrowLooksMax {
		own, err := digests(ctx, b.conn, number, t.Table, in, next)
		if err != nil {
			return in, 0, told(err) // the name, if anything
		}
		theirs, err := from.Digests(ctx, t.Table, in, next)
		if err != nil {
			return in, 0, fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		if err := fits(theirs, in, next, t); err != nil {
			return in, 0, err
		}
		list, rows := unequal(own, theirs)
		before := len(in.List)
		narrowed := in.Bits > 0 && uint64(len(list)) >= uint64(before)<<(next-in.Bits)
		in, most = backend.Ranges{Bits: next, List: list}, rows
		room := uint32(bits.Len(uint(rangesMax/max(1, len(list))))) - 1
		if rows <= narrowAbove || narrowed || len(list) > rangesMax/2 || next+room > wire.RangeBitsMax {
			break
		}
		next += room
	}
	return in, most, nil
}

// firstBits returns the number of hash bits that divide a table of this many rows into ranges for
// the first round.
func firstBits(rows uint64) uint32 {
	return min(uint32(bits.Len64(rows/rowsPerRange)), firstBitsMax)
}

// fits refuses digests of ranges that were not asked for, or that count more rows than the table
// has.
func fits(list []backend.RangeDigest, in backend.Ranges, next uint32, t backend.TableState) error {
	left := t.Rows
	for _, d := range list {
		if _, asked := slices.BinarySearch(in.List, d.Range>>(next-in.Bits)); !asked {
			return fmt.Errorf("%w: range %d of %d bits of table %q, which was not asked for", backend.ErrFalse, d.Range, next, t.Table)
		}
		if d.Rows > left {
			return fmt.Errorf("%w: more rows in ranges of table %q than the %d that it has", backend.ErrFalse, t.Table, t.Rows)
		}
		left -= d.Rows
	}
	return nil
}

// unequal compares two ascending lists of digests. It returns the ranges that differ, and the
// number of rows that the second list has in them.
func unequal(own, theirs []backend.RangeDigest) (list []uint32, rows uint64) {
	for len(own) > 0 || len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(own) > 0 && own[0].Range < theirs[0].Range:
			list, own = append(list, own[0].Range), own[1:]
		case len(own) == 0 || theirs[0].Range < own[0].Range:
			list, rows = append(list, theirs[0].Range), rows+theirs[0].Rows
			theirs = theirs[1:]
		default:
			if own[0] != theirs[0] {
				list, rows = append(list, own[0].Range), rows+theirs[0].Rows
			}
			own, theirs = own[1:], theirs[1:]
		}
	}
	return list, rows
}

// fetch stages the rows of these ranges, at most as many as their digests count.
func (b *Backend) fetch(ctx context.Context, from backend.Reading, table string, in backend.Ranges, most uint64) error {
	rows := newStage(func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.stage_rows($1, $2)`, table, raw)
		return told(err)
	})
	taken := uint64(0)
	err := from.Rows(ctx, table, in, func(cells []byte) error {
		if taken++; taken > most {
			return fmt.Errorf("%w: more rows of table %q than the %d in its ranges", backend.ErrFalse, table, most)
		}
		return rows.add(ctx, cells)
	})
	return rows.end(ctx, err)
}

// stage gathers what was received and hands it to the database in pieces: u32 count ‖ per part
// lp(part).
type stage struct {
	raw    []byte
	count  uint32
	give   func(ctx context.Context, raw []byte) error
	failed bool // the database refused a piece
}

func newStage(give func(ctx context.Context, raw []byte) error) *stage {
	return &stage{raw: make([]byte, 4), give: give}
}

func (s *stage) add(ctx context.Context, part []byte) error {
	s.raw = append(binary.BigEndian.AppendUint32(s.raw, uint32(len(part))), part...)
	s.count++
	if len(s.raw) < stageBytes {
		return nil
	}
	return s.hand(ctx)
}

func (s *stage) hand(ctx context.Context) error {
	if s.count == 0 {
		return nil
	}
	binary.BigEndian.PutUint32(s.raw, s.count)
	err := s.give(ctx, s.raw)
	s.raw, s.count, s.failed = s.raw[:4], 0, err != nil
	return err
}

// end hands over the rest once all was received; an error of receiving is no fault of this
// database.
func (s *stage) end(ctx context.Context, received error) error {
	switch {
	case received == nil:
		return s.hand(ctx)
	case s.failed, errors.Is(received, backend.ErrFalse), errors.Is(received, backend.ErrUnfit):
		return received
	}
	return fmt.Errorf("%w: %w", backend.ErrNoHelp, received)
}
