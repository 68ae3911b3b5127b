package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/audit"
)

// Row is a row of the archive for people and programs.
type Row struct {
	Block       uint64          `json:"block"`
	BlockTime   string          `json:"block_time,omitempty"`
	Hash        string          `json:"hash,omitempty"`
	Index       *uint32         `json:"index,omitempty"` // of the transaction
	ID          string          `json:"id,omitempty"`
	Outcome     *bool           `json:"outcome,omitempty"`
	Error       string          `json:"error,omitempty"`
	Body        string          `json:"body,omitempty"`
	Table       string          `json:"table,omitempty"`
	Op          string          `json:"op,omitempty"`
	Key         string          `json:"key,omitempty"`
	EncodedRow  string          `json:"row,omitempty"`
	Cells       json.RawMessage `json:"cells,omitempty"`
	NotProven   bool            `json:"names_not_proven,omitempty"` // the names of Cells, by definitions that were agreed on
	Transaction *uint32         `json:"tx,omitempty"`
}

// Slice says which rows to fetch.
type Slice struct {
	Kind     string // Blocks, Transactions or Changes
	From, To uint64 // blocks
	Table    string // of changes; empty: all
}

// Fetch gives the archived rows of a range of blocks, in their order; each returning an error ends
// it. Manifests are accepted, files compared with them, and names of columns with definitions.
// Verify does the rest. Cost: reads the files of the ranges.
func Fetch(ctx context.Context, store Store, chainID string, authorities audit.Authorities, s Slice, each func(*Row) error) error {
	return accepted(ctx, store, chainID, authorities, func(m *Manifest) error {
		switch {
		case m.First > s.To:
			return errEnough
		case m.Last < s.From:
			return nil
		}
		return fetchRange(ctx, store, m, authorities, s, each)
	})
}

func fetchRange(ctx context.Context, store Store, m *Manifest, authorities audit.Authorities, s Slice, do func(*Row) error) error {
	within := func(block int64) bool { return uint64(block) >= s.From && uint64(block) <= s.To }
	switch s.Kind {
	case Blocks:
		return each(ctx, store, m, Blocks, func(r *blockRow) error {
			if !within(r.Number) {
				return nil
			}
			return do(&Row{Block: uint64(r.Number), BlockTime: time.UnixMicro(r.BlockTime).UTC().Format(time.RFC3339Nano), Hash: hex.EncodeToString(r.Hash)})
		})
	case Transactions:
		return each(ctx, store, m, Transactions, func(r *transactionRow) error {
			if !within(r.Block) {
				return nil
			}
			index := uint32(r.Index)
			return do(&Row{
				Block: uint64(r.Block), Index: &index, ID: hex.EncodeToString(r.ID), Outcome: &r.Succeeded, Error: r.Message, Body: hex.EncodeToString(r.Body),
			})
		})
	default:
		names, err := namesOf(ctx, store, m, authorities)
		if err != nil {
			return err
		}
		return each(ctx, store, m, Changes, func(r *changeRow) error {
			if !within(r.Block) || s.Table != "" && s.Table != r.Table {
				return nil
			}
			c, err := changeOf(r)
			if err != nil {
				return err
			}
			cells := names.cells(c)
			if cells != r.Cells {
				return fmt.Errorf("block %d: %w: the cells of a row of %s are not what its encoding says", c.Block, ErrFalse, c.Table)
			}
			return do(&Row{
				Block: c.Block, Transaction: &c.Tx, Table: c.Table, Op: r.Op, Key: hex.EncodeToString(r.Key), EncodedRow: hex.EncodeToString(r.Row),
				Cells: json.RawMessage(cells), NotProven: !names.proves(c),
			})
		})
	}
}

// namesOf are the names of a range's columns. Such as the agreed definitions say otherwise are an
// error.
func namesOf(ctx context.Context, store Store, m *Manifest, authorities audit.Authorities) (*names, error) {
	r := newRangeCheck(ctx, store, m, authorities, nil)
	if r.columns(); len(r.c.list) > 0 {
		return nil, fmt.Errorf("the archive %s: %w: %s", store, ErrFalse, r.c.list[0])
	}
	return r.names, nil
}
