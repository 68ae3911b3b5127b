package archive

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

// Options say what is archived where.
type Options struct {
	Source       Source
	Store        Store
	ChainID      string
	Organisation string
	// Authorities are whose votes count, now.
	Authorities func() (audit.Authorities, error)
	// Key is the organisation's gateway key that counts now.
	Key func() (crypto.Signer, error)
	// RangeBlocks bounds the blocks of a range, and RowsMax their rows; 0: the format's bounds.
	RangeBlocks uint64
	RowsMax     uint64
}

// Archiver archives one chain in one place.
type Archiver struct {
	opt  Options
	last *Manifest // the newest; nil: it is to be looked for
	held uint64    // Holds read the ranges up to this block
	// As fileSet has them.
	goal, group int
}

// New makes an archiver. One at a time works in one place.
func New(opt Options) *Archiver {
	if opt.RangeBlocks == 0 || opt.RangeBlocks > RangeBlocksMax {
		opt.RangeBlocks = RangeBlocksMax
	}
	if opt.RowsMax == 0 {
		opt.RowsMax = RangeRowsMax
	}
	return &Archiver{opt: opt, goal: fileBytesGoal, group: groupBytes}
}

// ErrFalse says that the database or the archive is not as the organisations agreed.
var ErrFalse = errors.New("not as agreed")

// Run archives the blocks that are certified when it begins, up to a block, 0 for all of them. It
// tells each range when the archive has it. Blocks certified meanwhile are for the next run: a busy
// chain has some after each range, however small, and the run would not end.
func (a *Archiver) Run(ctx context.Context, to uint64, each func(*Manifest)) error {
	head, err := a.opt.Source.ArchiveHead(ctx)
	if err != nil {
		return err
	}
	if to == 0 || to > head.Certified {
		to = head.Certified
	}
	for {
		m, err := a.Step(ctx, to)
		if err != nil || m == nil {
			return err
		}
		each(m)
	}
}

// Step archives the next range of certified blocks up to a block, 0 for all, verifies it in the
// archive and tells the database. It returns nil when there is none. After an error, or a crash,
// the next one does the same again.
func (a *Archiver) Step(ctx context.Context, to uint64) (*Manifest, error) {
	head, err := a.opt.Source.ArchiveHead(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.find(ctx, head); err != nil {
		return nil, err
	}
	m, err := a.begin(head, to)
	if err != nil || m == nil {
		return nil, err
	}
	authorities, err := a.opt.Authorities()
	if err != nil {
		return nil, err
	}
	checked := seals{}
	if err := a.write(ctx, m, authorities, checked); err != nil {
		return nil, fmt.Errorf("archive from block %d on: %w", m.First, err)
	}
	if wrong := checkRange(ctx, a.opt.Store, m, authorities, checked); len(wrong) > 0 {
		return nil, fmt.Errorf("archive blocks %d to %d: %w: read back: %s; in a file with the right SHA-256, the database told it so: verify the ledger", m.First, m.Last, ErrFalse, wrong[0])
	}
	key, err := a.opt.Key()
	if err != nil {
		return nil, err
	}
	if err := m.Sign(key); err != nil {
		return nil, err
	}
	if err := putManifest(ctx, a.opt.Store, m); err != nil {
		return nil, err
	}
	a.last = m
	return m, a.tell(ctx)
}

// Holds reads the ranges again that have blocks after one up to another, before these are dropped
// elsewhere. It compares them with what was agreed. It reads a range once.
func (a *Archiver) Holds(ctx context.Context, after, to uint64) error {
	authorities, err := a.opt.Authorities()
	if err != nil {
		return err
	}
	last := uint64(0)
	err = accepted(ctx, a.opt.Store, a.opt.ChainID, authorities, func(m *Manifest) error {
		if m.First > to {
			return errEnough
		}
		if last = m.Last; m.Last <= max(after, a.held) {
			return nil
		}
		if wrong := checkRange(ctx, a.opt.Store, m, authorities, nil); len(wrong) > 0 {
			return fmt.Errorf("the archive %s: %w: %s", a.opt.Store, ErrFalse, wrong[0])
		}
		a.held = m.Last
		return nil
	})
	if err == nil && last < to {
		err = fmt.Errorf("the archive %s: %w: it ends with block %d, before block %d", a.opt.Store, ErrFalse, last, to)
	}
	return err
}

// newest is the newest range whose manifest is accepted, as all before; nil: there is none. One
// that ends beyond the certified blocks is an error.
func (a *Archiver) newest(ctx context.Context, certified uint64) (*Manifest, error) {
	first, err := next(ctx, a.opt.Store, a.opt.ChainID, nil)
	if err != nil || first == nil {
		return nil, err
	}
	authorities, err := a.opt.Authorities()
	if err != nil {
		return nil, err
	}
	newest := first
	err = accepted(ctx, a.opt.Store, a.opt.ChainID, authorities, func(m *Manifest) error {
		newest = m
		return a.behind(m.Last, certified)
	})
	if err != nil {
		return nil, err
	}
	return newest, nil
}

// behind is why nothing is archived while the archive has blocks that are not certified here.
func (a *Archiver) behind(last, certified uint64) error {
	if last <= certified {
		return nil
	}
	return fmt.Errorf("the archive %s has blocks up to %d, and the database certified ones up to %d: archive when it has caught up", a.opt.Store, last, certified)
}

// find looks for the newest range, and has the database know of it.
func (a *Archiver) find(ctx context.Context, head Head) (err error) {
	if a.last == nil {
		if a.last, err = a.newest(ctx, head.Certified); err != nil {
			return err
		}
	}
	last := uint64(0)
	if a.last != nil {
		last = a.last.Last
	}
	switch {
	case head.Dropped > last:
		return fmt.Errorf("the database dropped blocks up to %d, and the archive %s ends with block %d: put the ranges of %s there", head.Dropped, a.opt.Store, last, head.Place)
	case last > head.Certified:
		return a.behind(last, head.Certified)
	case last > 0 && (head.Archived != last || head.Place != a.opt.Store.String()):
		return a.tell(ctx)
	}
	return nil
}

func (a *Archiver) tell(ctx context.Context) error {
	return a.opt.Source.SetArchived(ctx, a.opt.Store.String(), a.last.Last, wire.Hash(a.last.Hash))
}

// begin makes the manifest of the next range, without its last block and files.
func (a *Archiver) begin(head Head, to uint64) (*Manifest, error) {
	m := &Manifest{Version: 1, ChainID: a.opt.ChainID, Organisation: a.opt.Organisation, First: 1}
	m.Previous, m.PreviousHash = make([]byte, len(wire.Hash{})), make([]byte, len(wire.Hash{}))
	if a.last != nil {
		m.First, m.Previous, m.PreviousHash = a.last.Last+1, a.last.digest(), a.last.Hash
	}
	if to == 0 || to > head.Certified {
		to = head.Certified
	}
	if m.First > to {
		return nil, nil
	}
	m.Last = min(to, m.First+a.opt.RangeBlocks-1)
	return m, nil
}

// write reads and writes a range. It checks headers and certificates, which say how many rows
// follow. The rows themselves are checked as they are read back.
func (a *Archiver) write(ctx context.Context, m *Manifest, authorities audit.Authorities, checked seals) error {
	reading, err := a.opt.Source.ReadArchive(ctx)
	if err != nil {
		return err
	}
	defer reading.Close()
	c := &checker{findings: &findings{file: "the database"}, authorities: authorities, first: m.First, previous: wire.Hash(m.PreviousHash), seals: checked}
	if m.Last, err = a.end(ctx, reading, m); err != nil {
		return err
	}
	set := &fileSet{store: a.opt.Store, chainID: m.ChainID, first: m.First, goal: a.goal, group: a.group}
	names, err := writeColumns(ctx, reading, set, m)
	if err != nil {
		return err
	}
	if err := writeBlocks(ctx, reading, m, set, c); err != nil {
		return err
	}
	if len(c.list) > 0 {
		return fmt.Errorf("%w: %s", ErrFalse, c.list[0])
	}
	if err := writeTransactions(ctx, reading, set, c); err != nil {
		return err
	}
	if err := writeChanges(ctx, reading, set, c, names); err != nil {
		return err
	}
	m.Files, m.Hash = set.files, c.blocks[len(c.blocks)-1].Hash[:]
	return nil
}

// end is where a range ends: with the last block planned before, else where its rows are enough.
func (a *Archiver) end(ctx context.Context, reading Reading, m *Manifest) (uint64, error) {
	last, rows := uint64(0), uint64(0)
	err := reading.Blocks(ctx, m.First, m.Last, func(b *Block) error {
		if rows += b.rows(); last > 0 && rows > a.opt.RowsMax {
			return errEnough
		}
		last = b.Header.Number
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, err
	}
	if last < m.First || last > m.Last {
		return 0, fmt.Errorf("%w: the database does not have block %d with its certificate", ErrFalse, m.First)
	}
	return planned(ctx, a.opt.Store, m.ChainID, m.First, last)
}

// rows are the transactions and changes of a block.
func (b *Block) rows() uint64 { return uint64(b.Header.Outcomes.Len()) + uint64(b.Header.EffectsCount) }

// writeColumns also gives the manifest its definitions, where these are not too many for it.
func writeColumns(ctx context.Context, reading Reading, set *fileSet, m *Manifest) (*names, error) {
	w, all := newWriter[columnRow](set, Columns), newNames()
	definitions, err := reading.Names(ctx, func(c *Column) error {
		all.add(c)
		return w.add(ctx, columnRow{c.Table, int64(c.SinceBlock), int64(c.SinceTx), int64(c.Ordinal), c.Name, c.Type, int64(c.KeyPart)}, len(c.Table)+len(c.Name)+len(c.Type)+32)
	})
	if err != nil {
		return nil, err
	}
	if definitions.fit() {
		m.Version, m.Definitions = Version, definitions
	}
	return all, w.end(ctx)
}

func writeBlocks(ctx context.Context, reading Reading, m *Manifest, set *fileSet, c *checker) error {
	blocks, votes := newWriter[blockRow](set, Blocks), newWriter[voteRow](set, Votes)
	err := reading.Blocks(ctx, m.First, m.Last, func(b *Block) error {
		if len(b.Votes) > wire.CertificateVotesMax || b.Header.ChainID != m.ChainID {
			return fmt.Errorf("%w: block %d has %d votes and is of chain %q", ErrFalse, b.Header.Number, len(b.Votes), b.Header.ChainID)
		}
		c.block(b)
		if err := blocks.add(ctx, rowOfBlock(b), 256+len(b.Header.Outcomes.Bytes())); err != nil {
			return err
		}
		for _, v := range b.Votes {
			row := voteRow{int64(b.Header.Number), v.Organisation, v.Validator, v.Height, int64(v.Round), v.Extension, v.Signature}
			if err := votes.add(ctx, row, 128+len(v.Extension)); err != nil {
				return err
			}
		}
		c.certificate(b)
		return nil
	})
	if err != nil {
		return err
	}
	if n := uint64(len(c.blocks)); n != m.Last-m.First+1 {
		c.add(m.First+n, "block", "the database does not have it with its certificate")
		return nil
	}
	return errors.Join(blocks.end(ctx), votes.end(ctx))
}

// batches divides the blocks of a range so that each batch has few rows.
func (c *checker) batches(do func(from, to uint64) error) error {
	for at := 0; at < len(c.blocks); {
		from, rows := at, uint64(0)
		for at < len(c.blocks) && (at == from || rows+c.blocks[at].rows() <= batchRows) {
			rows += c.blocks[at].rows()
			at++
		}
		if err := do(c.blocks[from].Header.Number, c.blocks[at-1].Header.Number); err != nil {
			return err
		}
	}
	return nil
}

func writeTransactions(ctx context.Context, reading Reading, set *fileSet, c *checker) error {
	w := newWriter[transactionRow](set, Transactions)
	err := c.batches(func(from, to uint64) error {
		return reading.Transactions(ctx, from, to, func(t *Transaction) error {
			row := transactionRow{int64(t.Block), int64(t.Index), t.ID[:], t.Body, t.Succeeded, t.Rows, t.SQLState, t.Message}
			return w.add(ctx, row, 96+len(t.Body)+len(t.Message))
		})
	})
	return errors.Join(err, w.end(ctx))
}

func writeChanges(ctx context.Context, reading Reading, set *fileSet, c *checker, all *names) error {
	w := newWriter[changeRow](set, Changes)
	err := c.batches(func(from, to uint64) error {
		return reading.Changes(ctx, from, to, func(change *Change) error {
			cells := all.cells(change)
			row := changeRow{int64(change.Block), change.Table, change.Key, int64(change.Serial), int64(change.Tx), string(change.Op), change.Row, cells}
			return w.add(ctx, row, 64+len(change.Table)+len(change.Key)+len(change.Row)+len(cells))
		})
	})
	return errors.Join(err, w.end(ctx))
}

// putManifest ends a range: the archive has it from then on.
func putManifest(ctx context.Context, store Store, m *Manifest) error {
	text, err := m.encode()
	if err != nil {
		return err
	}
	at := ManifestName(m.ChainID, m.First)
	if err := store.Put(ctx, at, text); err != nil {
		return err
	}
	again, err := store.Get(ctx, at)
	if err == nil && !slices.Equal(again, text) {
		err = fmt.Errorf("%s: read back, it is not what was written", at)
	}
	return err
}
