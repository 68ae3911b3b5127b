package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/archive"
	"github.com/chainify-db/chainify/abci/wire"
)

var _ archive.Database = (*Backend)(nil)

// Archivable is a database as the archive sees it, on connections of its own.
type Archivable struct {
	connect func(context.Context) (*pgx.Conn, error)
	chain   string
}

// archivable is the database that the connection for blocks leads to.
func (b *Backend) archivable() Archivable { return Archivable{b.session, b.cfg.ChainID} }

// OpenArchivable is the database of a DSN, beside a node at work.
func OpenArchivable(dsn, chainID string) (Archivable, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return Archivable{}, fmt.Errorf("configure database: %w", err)
	}
	settle(&c.Config)
	return Archivable{func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, c) }, chainID}, nil
}

// row asks for one row.
func (a Archivable) row(ctx context.Context, what, sql string, args []any, fields ...any) error {
	conn, err := a.connect(ctx)
	if err != nil {
		return fmt.Errorf("%s: connect: %w", what, err)
	}
	defer past{conn}.Close()
	if err := conn.QueryRow(ctx, sql, args...).Scan(fields...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ArchiveHead implements archive.Source.
func (a Archivable) ArchiveHead(ctx context.Context) (archive.Head, error) {
	var h archive.Head
	var certified, archived, dropped int64
	err := a.row(ctx, "read what is archived", `SELECT p.certified, coalesce(a.place, ''), coalesce(a.block, 0), coalesce(a.dropped, 0)
		FROM chainify_node.position() p LEFT JOIN chainify_node.archived() a ON true`, nil, &certified, &h.Place, &archived, &dropped)
	h.Certified, h.Archived, h.Dropped = uint64(certified), uint64(archived), uint64(dropped)
	return h, err
}

// SetArchived implements archive.Source.
func (a Archivable) SetArchived(ctx context.Context, place string, block uint64, hash wire.Hash) error {
	var none string
	return a.row(ctx, "tell what is archived", `SELECT chainify_node.set_archived($1, $2, $3)::text`, []any{place, int64(block), hash[:]}, &none)
}

// DropArchived implements archive.Database.
func (a Archivable) DropArchived(ctx context.Context, keep, rowsMax uint64) (block, rows uint64, err error) {
	var last, gone int64
	err = a.row(ctx, "drop what is archived", `SELECT coalesce(block, 0), rows FROM chainify_node.drop_archived($1, $2)`,
		[]any{int64(keep), int64(rowsMax)}, &last, &gone)
	return uint64(last), uint64(gone), err
}

// ReadArchive implements archive.Source.
func (a Archivable) ReadArchive(ctx context.Context) (archive.Reading, error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("read for the archive: connect: %w", err)
	}
	return &archiveReading{conn, a.chain}, nil
}

// ArchiveHead tells how far the database and its archive are.
func (b *Backend) ArchiveHead(ctx context.Context) (archive.Head, error) {
	return b.archivable().ArchiveHead(ctx)
}

// SetArchived tells the database how far its archive is.
func (b *Backend) SetArchived(ctx context.Context, place string, block uint64, hash wire.Hash) error {
	return b.archivable().SetArchived(ctx, place, block, hash)
}

// DropArchived drops rows that the archive has.
func (b *Backend) DropArchived(ctx context.Context, keep, rowsMax uint64) (block, rows uint64, err error) {
	return b.archivable().DropArchived(ctx, keep, rowsMax)
}

// ReadArchive begins to read blocks for the archive.
func (b *Backend) ReadArchive(ctx context.Context) (archive.Reading, error) {
	return b.archivable().ReadArchive(ctx)
}

// archiveReading is a connection of its own: it may take long.
type archiveReading struct {
	conn  *pgx.Conn
	chain string
}

// Close ends it.
func (r *archiveReading) Close() { past{r.conn}.Close() }

// each gives the rows of a query, scanned into fields.
func (r *archiveReading) each(ctx context.Context, what, sql string, args, fields []any, row func() error) error {
	rows, err := r.conn.Query(ctx, sql, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, fields, row)
	}
	if err != nil {
		return fmt.Errorf("read %s for the archive: %w", what, err)
	}
	return nil
}

var errMalformed = errors.New("a row of the ledger is malformed")

// Blocks gives certified blocks.
func (r *archiveReading) Blocks(ctx context.Context, from, to uint64, each func(*archive.Block) error) error {
	var number, height, time, count, effects, round int64
	var txRoot, outcomes, effectsRoot, stateRoot, previous, hash, votes []byte
	fields := []any{&number, &height, &time, &txRoot, &count, &outcomes, &effectsRoot, &effects, &stateRoot, &previous, &hash, &round, &votes}
	return r.each(ctx, "blocks", `SELECT number, order_height, block_time, tx_root, tx_count::bigint, outcomes, effects_root, effects_count::bigint, state_root,
			previous_hash, hash, effect_round::bigint, votes FROM chainify_node.archive_blocks($1, $2)`,
		[]any{int64(from), int64(to)}, fields, func() error {
			b := &archive.Block{EffectRound: uint32(round)}
			decoded, err := wire.DecodeOutcomes(uint32(count), outcomes)
			if err != nil {
				return fmt.Errorf("block %d: %w: %w", number, archive.ErrFalse, err)
			}
			b.Header = wire.Header{ChainID: r.chain, Number: uint64(number), OrderHeight: uint64(height), BlockTime: time, Outcomes: decoded, EffectsCount: uint32(effects)}
			for _, h := range []struct {
				to   *wire.Hash
				from []byte
			}{{&b.Header.TxRoot, txRoot}, {&b.Header.EffectsRoot, effectsRoot}, {&b.Header.StateRoot, stateRoot}, {&b.Header.Previous, previous}, {&b.Hash, hash}} {
				if *h.to, err = hashOf(h.from); err != nil {
					return fmt.Errorf("block %d: %w: %w", number, archive.ErrFalse, err)
				}
			}
			if b.Votes, err = wire.VotesFromJSON(votes); err != nil {
				return fmt.Errorf("block %d: %w: %w", number, archive.ErrFalse, err)
			}
			return each(b)
		})
}

// Transactions gives those of blocks.
func (r *archiveReading) Transactions(ctx context.Context, from, to uint64, each func(*archive.Transaction) error) error {
	var t archive.Transaction
	var block, index int64
	var id []byte
	fields := []any{&block, &index, &id, &t.Body, &t.Succeeded, &t.Rows, &t.SQLState, &t.Message}
	return r.each(ctx, "transactions", `SELECT block, index::bigint, id, body, succeeded, rows, sqlstate, message FROM chainify_node.archive_transactions($1, $2)`,
		[]any{int64(from), int64(to)}, fields, func() (err error) {
			if t.ID, err = hashOf(id); err != nil {
				return fmt.Errorf("block %d: %w: %w", block, archive.ErrFalse, err)
			}
			given := t
			given.Block, given.Index = uint64(block), uint32(index)
			return each(&given)
		})
}

// Changes gives those of blocks, in the order of leaves.
func (r *archiveReading) Changes(ctx context.Context, from, to uint64, each func(*archive.Change) error) error {
	var c archive.Change
	var block, serial, tx int64
	var op string
	fields := []any{&block, &c.Table, &c.Key, &serial, &tx, &op, &c.Row}
	return r.each(ctx, "changes", `SELECT block, tbl, key, serial::bigint, tx::bigint, op, "row" FROM chainify_node.archive_changes($1, $2)`,
		[]any{int64(from), int64(to)}, fields, func() error {
			if len(op) != 1 {
				return fmt.Errorf("block %d: %w: %w", block, archive.ErrFalse, errMalformed)
			}
			given := c
			given.Block, given.Serial, given.Tx, given.Op = uint64(block), uint32(serial), uint32(tx), op[0]
			return each(&given)
		})
}

// Names gives columns and definitions of one moment. A definition that changes meanwhile is worded
// as it is then, so it is read again.
func (r *archiveReading) Names(ctx context.Context, each func(*archive.Column) error) (*archive.Definitions, error) {
	var columns []*archive.Column
	var states []archive.State
	var block *archive.Block
	for range definitionAttempts {
		last := uint64(0)
		columns = nil
		err := pgx.BeginTxFunc(ctx, r.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(pgx.Tx) (err error) {
			if last, states, err = r.definitions(ctx); err != nil {
				return err
			}
			return r.columns(ctx, func(c *archive.Column) error {
				columns = append(columns, c)
				return nil
			})
		})
		if err == nil {
			block, err = r.certified(ctx, last)
		}
		if err != nil {
			return nil, err
		}
		if block == nil {
			break
		}
		if root, err := archive.Root(states); err == nil && root == block.Header.StateRoot {
			break
		}
	}
	for _, c := range columns {
		if err := each(c); err != nil {
			return nil, err
		}
	}
	if block == nil {
		return nil, nil
	}
	return archive.NewDefinitions(block, states)
}

// Bounds of reading definitions, and of the time until the last block has its certificate.
const (
	definitionAttempts = 3
	certificateLimit   = 5 * time.Second
	certificateLook    = 50 * time.Millisecond
)

// certified waits for a block to have its certificate; nil: it does not get one, as when the order
// stands still.
func (r *archiveReading) certified(ctx context.Context, number uint64) (block *archive.Block, err error) {
	for limit := time.Now().Add(certificateLimit); ; {
		err := r.Blocks(ctx, number, number, func(b *archive.Block) error {
			block = b
			return nil
		})
		if err != nil || block != nil || time.Now().After(limit) {
			return block, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(certificateLook):
		}
	}
}

// definitions are the states of all tables after the last block.
func (r *archiveReading) definitions(ctx context.Context) (last uint64, states []archive.State, err error) {
	var s archive.State
	var block, encoding, rows int64
	var state []byte
	fields := []any{&block, &s.Name, &encoding, &s.Text, &rows, &state}
	err = r.each(ctx, "definitions", `SELECT block, name, encoding::bigint, text, rows, state FROM chainify_node.archive_definitions()`, nil, fields, func() error {
		given := s
		last, given.Encoding, given.Rows, given.State = uint64(block), uint32(encoding), uint64(rows), state
		states = append(states, given)
		return nil
	})
	return last, states, err
}

// columns gives the names of columns.
func (r *archiveReading) columns(ctx context.Context, each func(*archive.Column) error) error {
	var c archive.Column
	var block, tx, ordinal, part int64
	fields := []any{&c.Table, &block, &tx, &ordinal, &c.Name, &c.Type, &part}
	return r.each(ctx, "columns", `SELECT tbl, since_block, since_tx::bigint, ordinal::bigint, name, type, key_part::bigint FROM chainify_node.archive_columns()`,
		nil, fields, func() error {
			given := c
			given.SinceBlock, given.SinceTx, given.Ordinal, given.KeyPart = uint64(block), uint32(tx), uint16(ordinal), uint16(part)
			return each(&given)
		})
}
