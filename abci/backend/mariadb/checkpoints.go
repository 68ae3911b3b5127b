package mariadb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Checkpoints are the blocks whose number is a multiple of Interval, as PostgreSQL's settings of
// these names have it. The base of the tables is the oldest of those kept.
type Checkpoints struct {
	Interval uint64 // 0: there are none, and the base stays where it is
	Kept     uint64 // the newest
}

// oldest is the oldest checkpoint kept while number is the last block; 0: there is none.
func (c Checkpoints) oldest(number uint64) uint64 {
	if c.Interval == 0 || c.Kept == 0 || number/c.Interval < c.Kept {
		return 0
	}
	return (number/c.Interval - c.Kept + 1) * c.Interval
}

const (
	foldLook       = time.Second     // from one look for work to the next
	foldRest       = time.Minute     // after a failure
	foldGaveWay    = 5 * time.Second // after it gave way
	foldLimit      = time.Minute     // for the transaction of one piece
	foldWait       = 5               // seconds for which it waits for the end of a block
	foldChangesMax = 10_000          // of one piece, or one block
	foldBytesMax   = 64 << 20        // of the rows of a piece, or one block
	pieceBlocksMax = 1_000           // of one piece, however few changes they made
	foldBlocksMax  = 100_000         // whose hashes are in memory
	headersPage    = 1_000           // that one query reads
	keysPage       = 1_000
)

// errGaveWay is the error of a piece that stood in the way, or whose base moved meanwhile.
var errGaveWay = errors.New("it gives way to a block or to recovery")

// falsePast is the error of history that must not get into the base.
type falsePast struct {
	number uint64
	why    string
}

func (f *falsePast) Error() string {
	return fmt.Sprintf("history of block %d was changed: %s", f.number, f.why)
}

// falseBase is the error of a base that does not lead to the state root of a block, though the
// history after it is as agreed.
type falseBase struct{ number uint64 }

func (f *falseBase) Error() string {
	return fmt.Sprintf("the base was changed: with the history after it, it does not give the state root of block %d", f.number)
}

// folder brings the base of the tables forward. It works beside blocks, a piece of whole blocks in
// a transaction.
//
// Invariant R3: the base of a table holds the rows at the end of block base_after. History gets in
// when the last block leads back to its blocks, and it gives their effects roots and the state root
// of the last of them.
type folder struct {
	b          *Backend
	changesMax int            // of one piece
	bytesMax   int            // of the rows of one piece
	bases      map[int64]base // by the number of the table, as they were read
}

// base is the state of a table's base, as long as nothing shows that it is another one.
type base struct {
	state canonical.State
	read  time.Time
}

// keepFolding folds until ctx ends.
func (b *Backend) keepFolding(ctx context.Context, log *slog.Logger) {
	f := folder{b: b, changesMax: foldChangesMax, bytesMax: foldBytesMax}
	for pause := foldLook; b.cfg.Checkpoints.oldest(maxBlock) > 0 && sleep(ctx, pause); {
		pause = foldLook
		switch err := f.fold(ctx); {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errGaveWay):
			log.Info("folding history", "pause", err)
			pause = foldGaveWay
		case err != nil:
			log.Warn("folding history", "error", err)
			pause = foldRest
		}
	}
}

// fold brings the base forward to the oldest checkpoint kept. History that is not as agreed, and a
// base that is not, show in the position, and recovery puts them right.
func (f *folder) fold(ctx context.Context) error {
	err := f.pieces(ctx)
	var past *falsePast
	var base *falseBase
	var noted error
	switch {
	case errors.As(err, &past):
		_, noted = f.b.pool.ExecContext(ctx, f.b.name.in(`INSERT IGNORE INTO %L.false_block (number) VALUES (?)`), past.number)
	case errors.As(err, &base):
		_, noted = f.b.pool.ExecContext(ctx, f.b.name.in(`UPDATE %L.chain SET deviates = TRUE`))
	}
	return errors.Join(err, noted)
}

func (f *folder) pieces(ctx context.Context) error {
	p, err := readPosition(ctx, f.b.pool, f.b.name)
	if err != nil {
		return err
	}
	spans, err := readSpans(ctx, f.b.pool, f.b.name)
	if err != nil {
		return err
	}
	after := oldestBase(spans)
	to := min(f.b.cfg.Checkpoints.oldest(p.Number), after+foldBlocksMax)
	if p.Deviates || to <= after { // recovery goes first
		return nil
	}
	var waits int // blocks that recovery has not put right yet
	err = f.b.pool.QueryRowContext(ctx, f.b.name.in(`SELECT count(*) FROM %L.false_block WHERE number > ? AND number <= ?`), after, p.Number).Scan(&waits)
	if err != nil || waits > 0 {
		return err
	}
	links, err := linksTo(ctx, f.b.pool, f.b.name, p, after, to)
	for err == nil && len(links) > 0 {
		var folded int
		folded, err = f.piece(ctx, after, links)
		after, links = after+uint64(folded), links[folded:]
	}
	return err
}

// span is for how long a table was on the ledger, and where its base is.
type span struct{ base, detached uint64 }

func readSpans(ctx context.Context, q querier, name names) ([]span, error) {
	rows, err := q.QueryContext(ctx, name.in(`SELECT base_after, coalesce(detached_at, ?) FROM %L.ledger_table`), uint64(maxBlock))
	if err != nil {
		return nil, err
	}
	var spans []span
	return spans, each(rows, func() error {
		var s span
		err := rows.Scan(&s.base, &s.detached)
		spans = append(spans, s)
		return err
	})
}

// oldestBase is the block after which folding goes on: the oldest base of a table that counts. That
// is one on the ledger now, or at the end of a block after that base. maxBlock: there is none.
func oldestBase(spans []span) uint64 {
	oldest := uint64(maxBlock)
	for again := true; again; {
		again = false
		for _, s := range spans {
			if s.base < oldest && (s.detached == maxBlock || oldest != maxBlock && s.detached > oldest+1) {
				oldest, again = s.base, true
			}
		}
	}
	return oldest
}

// link is a block that the last one leads back to.
type link struct {
	hash    wire.Hash
	changes int
}

// linksTo are the blocks after one up to another one, as the last block leads back to them by the
// hashes in headers. *falsePast: it does not. Cost: a read of all headers since.
func linksTo(ctx context.Context, q querier, name names, p backend.Position, after, to uint64) ([]link, error) {
	links := make([]link, to-after)
	want, number := p.Hash, p.Number
	for number > after {
		from := number
		rows, err := q.QueryContext(ctx, name.in(`SELECT number, hash, header FROM %L.block WHERE number <= ? AND number > ? ORDER BY number DESC LIMIT ?`), number, after, headersPage)
		if err != nil {
			return nil, err
		}
		err = each(rows, func() error {
			var kept uint64
			var hash, raw []byte
			if err := rows.Scan(&kept, &hash, &raw); err != nil {
				return err
			}
			if kept != number || string(hash) != string(want[:]) || wire.HeaderHash(raw) != want {
				return &falsePast{number, "it is not the block that later ones follow"}
			}
			header, err := wire.DecodeHeader(raw)
			if err != nil {
				return &falsePast{number, err.Error()}
			}
			if number <= to {
				links[number-after-1] = link{want, int(header.EffectsCount)}
			}
			want, number = header.Previous, number-1
			return nil
		})
		if err == nil && number == from {
			err = &falsePast{number, "the block is not there"}
		}
		if err != nil {
			return nil, err
		}
	}
	return links, nil
}
