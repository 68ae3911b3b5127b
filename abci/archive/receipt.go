package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

// ErrNotArchived says that the archive does not have what was asked for.
var ErrNotArchived = errors.New("the archive does not have it")

// Wanted says what a receipt is for.
type Wanted struct {
	ID    wire.TxID
	Block uint64 // 0: wherever it is, which reads all transactions
	// Table and Key name a row that the transaction changed: its last change by it; empty: none.
	Table string
	Key   []byte
}

// Receipt makes the receipt of an archived transaction, or of its change of a row. It is
// one that holds (spec/receipt.md). Cost: reads the transactions up to it, and the range's files.
func Receipt(ctx context.Context, store Store, chainID string, authorities audit.Authorities, w Wanted) (*audit.Receipt, error) {
	m, at, err := find(ctx, store, chainID, authorities, w)
	if err != nil {
		return nil, err
	}
	r, err := assemble(ctx, store, m, at, w)
	if err != nil {
		return nil, err
	}
	if wrong := r.Check(authorities.For(r.Block.Number)); len(wrong) > 0 {
		return nil, fmt.Errorf("block %d: %w: %s", r.Block.Number, ErrFalse, wrong[0])
	}
	return r, nil
}

// find looks for a transaction, in the newest range first.
func find(ctx context.Context, store Store, chainID string, authorities audit.Authorities, w Wanted) (*Manifest, *Transaction, error) {
	var all []*Manifest
	err := accepted(ctx, store, chainID, authorities, func(m *Manifest) error {
		if w.Block == 0 || m.First <= w.Block && w.Block <= m.Last {
			all = append(all, m)
		}
		if w.Block != 0 && m.Last >= w.Block {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		var found *Transaction
		err := each(ctx, store, all[i], Transactions, func(row *transactionRow) error {
			if found != nil || !bytes.Equal(row.ID, w.ID[:]) {
				return nil
			}
			found, err = transactionOf(row)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if found != nil {
			return all[i], found, nil
		}
	}
	return nil, nil, fmt.Errorf("transaction %x: %w", w.ID, ErrNotArchived)
}

// each gives the rows of the files of a kind, which have to be those of the manifest.
func each[T any](ctx context.Context, store Store, m *Manifest, kind string, do func(*T) error) error {
	for _, f := range m.Files {
		if f.Kind != kind {
			continue
		}
		data, err := store.Get(ctx, f.Name)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); !bytes.Equal(sum[:], f.SHA256) {
			return fmt.Errorf("%s: %w: its SHA-256 is %x, the manifest says %x", f.Name, ErrFalse, sum, []byte(f.SHA256))
		}
		if err := readRows(data, do); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// assemble puts a receipt together from the range's files.
func assemble(ctx context.Context, store Store, m *Manifest, t *Transaction, w Wanted) (*audit.Receipt, error) {
	b, err := readBlock(ctx, store, m, t.Block)
	if err != nil {
		return nil, err
	}
	var ids []wire.Hash
	err = each(ctx, store, m, Transactions, func(row *transactionRow) error {
		if uint64(row.Block) == t.Block {
			ids = append(ids, sha256.Sum256(append([]byte{0}, row.ID...)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := b.digest()
	r.Transaction = &audit.Transaction{Index: t.Index, ID: [32]byte(t.ID), Outcome: t.Succeeded, Body: t.Body}
	audit.SetPath(&r.Transaction.Path, wire.InclusionPath(ids, int(t.Index)))
	if w.Table == "" {
		return r, nil
	}
	return r, addChange(ctx, store, m, t, w, r)
}

// addChange adds the transaction's last change of a row.
func addChange(ctx context.Context, store Store, m *Manifest, t *Transaction, w Wanted, r *audit.Receipt) error {
	var leaves []wire.Hash
	at := 0
	var found *Change
	err := each(ctx, store, m, Changes, func(row *changeRow) error {
		if uint64(row.Block) != t.Block {
			return nil
		}
		c, err := changeOf(row)
		if err != nil {
			return err
		}
		if c.Tx == t.Index && c.Table == w.Table && bytes.Equal(c.Key, w.Key) {
			at, found = len(leaves), c
		}
		leaves = append(leaves, c.leaf())
		return nil
	})
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("a change of %s with key %x by transaction %x: %w", w.Table, w.Key, w.ID, ErrNotArchived)
	}
	r.Change = &audit.Change{Table: found.Table, Key: found.Key, Row: found.Row, Serial: found.Serial, Op: string(found.Op), Leaf: uint32(at)}
	audit.SetPath(&r.Change.Path, wire.InclusionPath(leaves, at))
	return nil
}

func readBlock(ctx context.Context, store Store, m *Manifest, number uint64) (b *Block, err error) {
	err = each(ctx, store, m, Blocks, func(row *blockRow) error {
		if uint64(row.Number) != number {
			return nil
		}
		b, err = blockOf(row, m.ChainID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("block %d: %w", number, ErrNotArchived)
	}
	return b, each(ctx, store, m, Votes, func(row *voteRow) error {
		if uint64(row.Block) == number && len(b.Votes) < wire.CertificateVotesMax {
			b.Votes = append(b.Votes, voteOf(row))
		}
		return nil
	})
}

func voteOf(row *voteRow) wire.CertifiedVote {
	return wire.CertifiedVote{
		Organisation: row.Organisation, Validator: row.Validator, Height: row.Height, Round: int32(row.Round), Extension: row.Extension, Signature: row.Signature,
	}
}
