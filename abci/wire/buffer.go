package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// EncodeTransactions returns u32 count ‖ lp(ChainedTx bytes)…, the block buffer that execute_block
// takes.
func EncodeTransactions(txs [][]byte) []byte {
	size := 4
	for _, tx := range txs {
		size += 4 + len(tx)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(len(txs)))
	for _, tx := range txs {
		out = binary.BigEndian.AppendUint32(out, uint32(len(tx)))
		out = append(out, tx...)
	}
	return out
}

// SplitTransactions returns the ChainedTx bytes of a block buffer, as slices of it.
func SplitTransactions(buffer []byte) ([][]byte, error) {
	if len(buffer) < 4 {
		return nil, fieldErrorf("block buffer.count", "%d bytes left, want 4", len(buffer))
	}
	count, rest := binary.BigEndian.Uint32(buffer), buffer[4:]
	if uint64(count)*4 > uint64(len(rest)) || count > math.MaxInt32 {
		return nil, fieldErrorf("block buffer.count", "%d transactions do not fit %d bytes", count, len(rest))
	}
	txs := make([][]byte, count)
	for i := range txs {
		if len(rest) < 4 {
			return nil, fieldErrorf(fmt.Sprintf("block buffer.transactions[%d]", i), "%d bytes left, want 4", len(rest))
		}
		n := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(n) > uint64(len(rest)) {
			return nil, fieldErrorf(fmt.Sprintf("block buffer.transactions[%d]", i), "%d bytes left, want %d", len(rest), n)
		}
		txs[i], rest = rest[:n:n], rest[n:]
	}
	if len(rest) > 0 {
		return nil, fieldErrorf("block buffer", "%d bytes too many", len(rest))
	}
	return txs, nil
}
