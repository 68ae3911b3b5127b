package archive

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/chainify-db/chainify/abci/wire"
)

// The rows of the files as Parquet has them: required columns, plain, so that a small reader
// suffices (spec/archive.md).

type blockRow struct {
	Number       int64  `parquet:"number,plain"`
	OrderHeight  int64  `parquet:"order_height,plain"`
	BlockTime    int64  `parquet:"block_time,plain,timestamp(microsecond)"`
	TxRoot       []byte `parquet:"tx_root,plain"`
	TxCount      int64  `parquet:"tx_count,plain"`
	Outcomes     []byte `parquet:"outcomes,plain"`
	EffectsRoot  []byte `parquet:"effects_root,plain"`
	EffectsCount int64  `parquet:"effects_count,plain"`
	StateRoot    []byte `parquet:"state_root,plain"`
	Previous     []byte `parquet:"previous,plain"`
	Hash         []byte `parquet:"hash,plain"`
	EffectRound  int64  `parquet:"effect_round,plain"`
}

type voteRow struct {
	Block        int64  `parquet:"block,plain"`
	Organisation string `parquet:"organisation,plain"`
	Validator    []byte `parquet:"validator,plain"`
	Height       int64  `parquet:"height,plain"`
	Round        int64  `parquet:"round,plain"`
	Extension    []byte `parquet:"extension,plain"`
	Signature    []byte `parquet:"signature,plain"`
}

type transactionRow struct {
	Block     int64  `parquet:"block,plain"`
	Index     int64  `parquet:"index,plain"`
	ID        []byte `parquet:"id,plain"`
	Body      []byte `parquet:"body,plain"`
	Succeeded bool   `parquet:"succeeded,plain"`
	Rows      int64  `parquet:"rows,plain"`
	SQLState  string `parquet:"sqlstate,plain"`
	Message   string `parquet:"message,plain"`
}

type changeRow struct {
	Block  int64  `parquet:"block,plain"`
	Table  string `parquet:"table,plain"`
	Key    []byte `parquet:"key,plain"`
	Serial int64  `parquet:"serial,plain"`
	Tx     int64  `parquet:"tx,plain"`
	Op     string `parquet:"op,plain"`
	Row    []byte `parquet:"row,plain"`
	// Cells is the row for people: JSON by the names of the range's columns. It follows from Row.
	Cells string `parquet:"cells,plain"`
}

type columnRow struct {
	Table      string `parquet:"table,plain"`
	SinceBlock int64  `parquet:"since_block,plain"`
	SinceTx    int64  `parquet:"since_tx,plain"`
	Ordinal    int64  `parquet:"ordinal,plain"`
	Name       string `parquet:"name,plain"`
	Type       string `parquet:"type,plain"`
	KeyPart    int64  `parquet:"key_part,plain"`
}

func blockOf(r *blockRow, chainID string) (*Block, error) {
	if r.TxCount < 0 || r.TxCount > 1<<32-1 || r.EffectsCount < 0 || r.EffectsCount > 1<<32-1 || r.EffectRound < 0 || r.EffectRound > 1<<32-1 {
		return nil, errors.New("a number is out of range")
	}
	outcomes, err := wire.DecodeOutcomes(uint32(r.TxCount), r.Outcomes)
	if err != nil {
		return nil, err
	}
	b := &Block{EffectRound: uint32(r.EffectRound)}
	b.Header = wire.Header{
		ChainID: chainID, Number: uint64(r.Number), OrderHeight: uint64(r.OrderHeight), BlockTime: r.BlockTime,
		Outcomes: outcomes, EffectsCount: uint32(r.EffectsCount),
	}
	for _, h := range []struct {
		to   *wire.Hash
		from []byte
	}{{&b.Hash, r.Hash}, {&b.Header.TxRoot, r.TxRoot}, {&b.Header.EffectsRoot, r.EffectsRoot}, {&b.Header.StateRoot, r.StateRoot}, {&b.Header.Previous, r.Previous}} {
		if len(h.from) != len(h.to) {
			return nil, fmt.Errorf("a hash has %d bytes", len(h.from))
		}
		*h.to = wire.Hash(h.from)
	}
	return b, nil
}

func rowOfBlock(b *Block) blockRow {
	h := &b.Header
	return blockRow{
		Number: int64(h.Number), OrderHeight: int64(h.OrderHeight), BlockTime: h.BlockTime, TxRoot: h.TxRoot[:], TxCount: int64(h.Outcomes.Len()),
		Outcomes: h.Outcomes.Bytes(), EffectsRoot: h.EffectsRoot[:], EffectsCount: int64(h.EffectsCount), StateRoot: h.StateRoot[:],
		Previous: h.Previous[:], Hash: b.Hash[:], EffectRound: int64(b.EffectRound),
	}
}

func transactionOf(r *transactionRow) (*Transaction, error) {
	if len(r.ID) != len(wire.TxID{}) || r.Index < 0 || r.Index > 1<<32-1 {
		return nil, errors.New("id or index is none")
	}
	return &Transaction{uint64(r.Block), uint32(r.Index), wire.TxID(r.ID), r.Body, r.Succeeded, r.Rows, r.SQLState, r.Message}, nil
}

func changeOf(r *changeRow) (*Change, error) {
	if r.Serial < 0 || r.Serial > 1<<32-1 || r.Tx < 0 || r.Tx > 1<<32-1 || (r.Op != "I" && r.Op != "U" && r.Op != "D") {
		return nil, errors.New("serial, transaction or operation is none")
	}
	return &Change{uint64(r.Block), r.Table, r.Key, uint32(r.Serial), uint32(r.Tx), r.Op[0], r.Row}, nil
}

// readRows gives the rows of a file, one at a time; each returning an error ends it. A row is
// overwritten by the next. Memory is that of the file, and of a page of each column.
func readRows[T any](file []byte, each func(*T) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library's answer to some files that are none
			err = fmt.Errorf("no Parquet file of this kind: %v", p)
		}
	}()
	want := parquet.SchemaOf(new(T))
	f, err := openParquet(file, len(want.Fields()))
	if err != nil {
		return err
	}
	if !parquet.EqualNodes(f.Schema(), want) {
		return fmt.Errorf("no Parquet file of this kind: its columns are %v", f.Schema())
	}
	r := parquet.NewGenericReader[T](f)
	defer r.Close()
	rows := make([]T, 256)
	for {
		n, err := r.Read(rows)
		for i := range n {
			if err := each(&rows[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		clear(rows) // the takers of rows keep their byte slices
	}
}
