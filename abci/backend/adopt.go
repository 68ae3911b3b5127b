package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// AdoptedState is the SQLSTATE of a transaction of an adopted block that failed: its reason is
// known elsewhere alone.
const AdoptedState = "CH012"

// Told is another organisation's answer about a certified block: its header, which has the
// certified hash, as it came and decoded.
type Told struct {
	Raw    []byte
	Header *wire.Header
}

// Take has another organisation tell a certified block that is to be adopted, and hands on its
// changes. Nothing is decoded before the header has the certified hash, and no more changes are
// taken than it says. ErrFalse: what was told is not as certified; ErrBeyondRepair: the block is
// none to adopt; any other error is of telling, or of change.
func Take(ctx context.Context, from Past, b *wire.OrderedBlock, certified wire.Hash, change func(part []byte) error) (*Told, error) {
	var told *Told
	left := uint32(0)
	err := from.Block(ctx, b.Number, certified, func(part []byte) error {
		if told == nil {
			var err error
			if told, err = toldHeader(b, certified, part); err == nil {
				left = told.Header.EffectsCount
			}
			return err
		}
		if left == 0 {
			return fmt.Errorf("%w: more changes of block %d than the %d of its header", ErrFalse, b.Number, told.Header.EffectsCount)
		}
		left--
		return change(part)
	})
	switch {
	case err != nil:
		return nil, err
	case told == nil:
		return nil, errors.New("there is no header in what was told")
	case left > 0:
		return nil, fmt.Errorf("%w: %d changes of block %d are missing", ErrFalse, left, b.Number)
	}
	return told, nil
}

func toldHeader(b *wire.OrderedBlock, certified wire.Hash, part []byte) (*Told, error) {
	if wire.HeaderHash(part) != certified {
		return nil, fmt.Errorf("%w: a header of block %d with another hash", ErrFalse, b.Number)
	}
	told := &Told{Raw: append([]byte{}, part...)}
	var err error
	if told.Header, err = wire.DecodeHeader(told.Raw); err != nil {
		return nil, beyond("the certified header of block %d is malformed: %v", b.Number, err)
	}
	if told.Header.Number != b.Number || int(told.Header.Outcomes.Len()) != len(b.IDs) || told.Header.TxRoot != wire.TxRoot(b.IDs) {
		return nil, beyond("the certified header is not that of the ordered block %d", b.Number)
	}
	return told, adoptable(b, told.Header)
}

// adoptable refuses a block with a DEPLOY transaction that succeeded: no row tells its definitions.
func adoptable(b *wire.OrderedBlock, header *wire.Header) error {
	raw, err := wire.SplitTransactions(b.Transactions)
	if err != nil || len(raw) != len(b.IDs) {
		return beyond("the transactions of block %d cannot be read (%v)", b.Number, err)
	}
	for i := range raw {
		tx, err := wire.DecodeChainedTx(raw[i])
		if err != nil {
			return beyond("transaction %d of block %d cannot be read: %v", i, b.Number, err)
		}
		if tx.Proposal.GetKind() == wire.Kind_KIND_DEPLOY && header.Outcomes.Succeeded(uint32(i)) {
			return beyond("transaction %d of block %d is a DEPLOY transaction, whose definitions cannot be taken over", i, b.Number)
		}
	}
	return nil
}

func beyond(format string, args ...any) error {
	return &Obstacle{Why: fmt.Sprintf(format, args...), Err: errors.New("adopt")}
}
