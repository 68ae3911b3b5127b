// Package archive takes ranges of blocks out of a database into Parquet files with a signed
// manifest (spec/archive.md), verifies such archives against the genesis alone, and makes receipts
// from them. The interface Source is the database, and Store is the place of the archive.
package archive

import (
	"context"
	"fmt"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

// Kinds of files.
const (
	Blocks       = "blocks"
	Votes        = "votes"
	Transactions = "transactions"
	Changes      = "changes"
	Columns      = "columns"
)

// Bounds of ranges and files (spec/archive.md).
const (
	RangeBlocksMax = 10_000
	// RangeRowsMax ends a range: transactions and changes together. A single block may have more.
	RangeRowsMax  = 1_000_000
	FileBytesMax  = 64 << 20
	filesMax      = 10_000
	rangesMax     = 1 << 22
	manifestMax   = 8 << 20
	findingsMax   = 1_000
	fileBytesGoal = 24 << 20 // a file that has so many bytes ends
	groupBytes    = 8 << 20  // of a row group before compression
	batchRows     = 20_000   // that are asked of the database at a time, or those of one block
)

// Block is a certified block without its rows.
type Block struct {
	Header      wire.Header
	Hash        wire.Hash
	EffectRound uint32
	Votes       []wire.CertifiedVote
}

// Transaction is one of a block, with its outcome. No hash covers Rows, SQLState and Message.
type Transaction struct {
	Block     uint64
	Index     uint32
	ID        wire.TxID
	Body      []byte // ChainedTx
	Succeeded bool
	Rows      int64
	SQLState  string
	Message   string
}

// Change is a change of a row by a transaction: Key and Row are row encodings.
type Change struct {
	Block  uint64
	Table  string
	Key    []byte
	Serial uint32
	Tx     uint32
	Op     byte
	Row    []byte
}

// Column names a column of one version of a table: the one since a transaction of a block. Names of
// the newest version are in its definition, which the state root of a block covers.
type Column struct {
	Table      string
	SinceBlock uint64
	SinceTx    uint32
	Ordinal    uint16
	Name       string
	Type       string
	KeyPart    uint16 // place in the primary key from 1; 0: none
}

// Head is how far a database is.
type Head struct {
	Certified uint64 // last block with a certificate
	Place     string // of its archive, as it was told; empty: none
	Archived  uint64 // last block that it was told is archived
	Dropped   uint64 // last block that it dropped for that
}

// Source is a database. Nothing that it tells is trusted. Its methods may be called at any time.
type Source interface {
	ArchiveHead(ctx context.Context) (Head, error)
	// ReadArchive begins to read blocks, on a connection of its own.
	ReadArchive(ctx context.Context) (Reading, error)
	// SetArchived tells it that the archive at a place was verified up to a block.
	SetArchived(ctx context.Context, place string, block uint64, hash wire.Hash) error
}

// Database is a Source that drops what is archived.
type Database interface {
	Source
	// DropArchived drops some rows of archived blocks that are not among the newest so many: whole
	// blocks of at most rowsMax rows together, or one. It returns the last block dropped; 0: there
	// was none to drop.
	DropArchived(ctx context.Context, keep, rowsMax uint64) (block, rows uint64, err error)
}

// Reading reads blocks. Methods are called one at a time; each returning an error ends one.
type Reading interface {
	// Blocks gives certified blocks, ascending; it may leave blocks out.
	Blocks(ctx context.Context, from, to uint64, each func(*Block) error) error
	// Transactions gives those of blocks, by block and index.
	Transactions(ctx context.Context, from, to uint64, each func(*Transaction) error) error
	// Changes gives those of blocks, by block and in the order of leaves.
	Changes(ctx context.Context, from, to uint64, each func(*Change) error) error
	// Names gives the columns of all tables, and the definitions at the same moment; nil: the
	// database has none of a certified block now.
	Names(ctx context.Context, each func(*Column) error) (*Definitions, error)
	Close()
}

// Finding is one thing wrong with an archive.
type Finding struct {
	File   string `json:"file"`  // or manifest
	Block  uint64 `json:"block"` // 0: of no single block
	What   string `json:"what"`
	Detail string `json:"detail"`
}

func (f Finding) String() string {
	if f.Block == 0 {
		return fmt.Sprintf("%s: %s: %s", f.File, f.What, f.Detail)
	}
	return fmt.Sprintf("%s: block %d: %s: %s", f.File, f.Block, f.What, f.Detail)
}

// findings collects the first findingsMax of them.
type findings struct {
	list []Finding
	file string // what is being looked at
}

func (f *findings) add(block uint64, what, format string, args ...any) {
	if len(f.list) < findingsMax {
		f.list = append(f.list, Finding{f.file, block, what, fmt.Sprintf(format, args...)})
	}
}

// digest is the block as its own digest (spec/receipt.md).
func (b *Block) digest() *audit.Receipt {
	h := &b.Header
	r := &audit.Receipt{Version: audit.Version, ChainID: h.ChainID, Hash: [32]byte(b.Hash)}
	r.Block = audit.Block{
		Number: h.Number, OrderHeight: h.OrderHeight, BlockTime: h.BlockTime, TxRoot: [32]byte(h.TxRoot), TxCount: h.Outcomes.Len(),
		Outcomes: h.Outcomes.Bytes(), EffectsRoot: [32]byte(h.EffectsRoot), EffectsCount: h.EffectsCount, StateRoot: [32]byte(h.StateRoot),
		Previous: [32]byte(h.Previous),
	}
	r.Certificate.EffectRound = b.EffectRound
	r.Certificate.Votes = make([]audit.Vote, len(b.Votes))
	for i, v := range b.Votes {
		r.Certificate.Votes[i] = audit.Vote{
			Organisation: v.Organisation, Validator: v.Validator, Height: v.Height, Round: v.Round, Extension: v.Extension, Signature: v.Signature,
		}
	}
	return r
}
