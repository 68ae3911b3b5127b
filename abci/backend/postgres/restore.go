package postgres

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// How ranges are narrowed: each look costs both databases a scan, each row too many some bytes on the way.
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

// malformed is invalid_parameter_value: what another organisation told is none of what the database takes.
const malformed = "22023"

// beyond says of what another organisation told that it does not help.
func beyond(err error) error {
	switch sqlState(err) {
	case beyondRepair, malformed:
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
	for _, t := range from.Tables() {
		differ, err := b.differing(ctx, from, number, t)
		if err == nil && len(differ.List) > 0 {
			err = b.fetch(ctx, from, t.Table, differ)
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

// differing finds the ranges in which the table here and the one read have other rows.
func (b *Backend) differing(ctx context.Context, from backend.Reading, number uint64, t backend.TableState) (backend.Ranges, error) {
	in := backend.All()
	next := min(uint32(bits.Len64(t.Rows/rowsPerRange)), firstBitsMax)
	for range narrowLooksMax {
		own, err := digests(ctx, b.conn, number, t.Table, in, next)
		if err != nil {
			return in, err
		}
		theirs, err := from.Digests(ctx, t.Table, in, next)
		if err != nil {
			return in, fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		list, rows := unequal(own, theirs)
		before := len(in.List)
		narrowed := in.Bits > 0 && uint64(len(list)) >= uint64(before)<<(next-in.Bits)
		in = backend.Ranges{Bits: next, List: list}
		room := uint32(bits.Len(uint(rangesMax/max(1, len(list))))) - 1
		if rows <= narrowAbove || narrowed || len(list) > rangesMax/2 || next+room > wire.RangeBitsMax {
			break
		}
		next += room
	}
	return in, nil
}

// unequal compares two ascending lists of digests: the ranges that differ, and how many rows the second has in them.
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

// fetch stages the rows of these ranges.
func (b *Backend) fetch(ctx context.Context, from backend.Reading, table string, in backend.Ranges) error {
	rows := newStage(func(ctx context.Context, raw []byte) error {
		_, err := b.conn.Exec(ctx, `SELECT chainify_node.stage_rows($1, $2)`, table, raw)
		return err
	})
	err := from.Rows(ctx, table, in, func(cells []byte) error { return rows.add(ctx, cells) })
	return rows.end(ctx, err)
}

// stage gathers what was received and hands it to the database in pieces: u32 count ‖ per part lp(part).
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

// end hands over the rest once all was received; an error of receiving is no fault of this database.
func (s *stage) end(ctx context.Context, received error) error {
	switch {
	case received == nil:
		return s.hand(ctx)
	case s.failed:
		return received
	}
	return fmt.Errorf("%w: %w", backend.ErrNoHelp, received)
}
