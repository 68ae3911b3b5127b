package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
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
	Transaction *uint32         `json:"tx,omitempty"`
}

// Slice says which rows to fetch.
type Slice struct {
	Kind     string // Blocks, Transactions or Changes
	From, To uint64 // blocks
	Table    string // of changes; empty: all
}

// Fetch gives the archived rows of a range of blocks, in their order; each returning an error ends
// it. Manifests are accepted, and files compared with them, and not the rest: Verify does that.
// Cost: reads the files of the ranges.
func Fetch(ctx context.Context, store Store, chainID string, authorities audit.Authorities, s Slice, each func(*Row) error) error {
	return accepted(ctx, store, chainID, authorities, func(m *Manifest) error {
		switch {
		case m.First > s.To:
			return errEnough
		case m.Last < s.From:
			return nil
		}
		return fetchRange(ctx, store, m, s, each)
	})
}

func fetchRange(ctx context.Context, store Store, m *Manifest, s Slice, do func(*Row) error) error {
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
		return each(ctx, store, m, Changes, func(r *changeRow) error {
			if !within(r.Block) || s.Table != "" && s.Table != r.Table {
				return nil
			}
			tx := uint32(r.Tx)
			return do(&Row{
				Block: uint64(r.Block), Transaction: &tx, Table: r.Table, Op: r.Op, Key: hex.EncodeToString(r.Key), EncodedRow: hex.EncodeToString(r.Row),
				Cells: json.RawMessage(r.Cells),
			})
		})
	}
}
