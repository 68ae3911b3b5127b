package backendtest

import (
	"context"
	"reflect"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// testAdopt takes block 3 from a database that executed it: it has the same hash and the same
// outcomes, and what follows it comes out the same. A false word leaves no trace (R15).
func testAdopt(r *run) {
	r.commit(1)
	at := r.commit(2)
	other := &run{T: r.T, s: r.fresh(r.T), ctx: r.ctx}
	other.b = other.start()
	other.commit(1)
	other.commit(2)
	past, err := other.b.ReadPast(r.ctx)
	r.must("read the past", err)
	defer past.Close()
	block := r.s.Block(3)
	adopt := func(from backend.Past, certified wire.Hash) (backend.Execution, error) {
		return r.b.Adopt(r.ctx, from, block, at.Hash, certified)
	}

	_, err = adopt(past, wire.Hash{1})
	r.want("adopt from one that has no such block", err, backend.ErrNoHelp)
	good := other.commit(3)
	_, err = adopt(taciturn{past}, good.Hash)
	r.want("adopt from one that tells too little", err, backend.ErrFalse)
	_, err = adopt(inventive{past}, good.Hash)
	r.want("adopt from one that tells too much", err, backend.ErrFalse)
	_, err = adopt(garbled{past}, good.Hash)
	r.want("adopt from one that tells another change", err, backend.ErrUnfit)
	_, err = adopt(renamed{past, good.Hash}, at.Hash)
	r.want("adopt another block", err, backend.ErrFalse)
	r.want("commit after these", r.b.Commit(r.ctx), backend.ErrNothingOpen)
	if p := r.position(); p.Number != 2 || p.Hash != at.Hash {
		r.Fatalf("adoptions that failed left the position %+v", p)
	}

	_, err = adopt(past, good.Hash)
	r.must("adopt", err)
	r.must("roll back", r.b.Rollback(r.ctx))
	if x := r.execute(block); x.Hash != good.Hash {
		r.Fatalf("executed after a rolled back adoption, the block gives %x, want %x", x.Hash, good.Hash)
	}
	x, err := adopt(backwards{past}, good.Hash) // with the block still open
	r.must("adopt", err)
	if x.Hash != good.Hash || len(x.Results) != len(good.Results) {
		r.Fatalf("adopted, the block is %x with %d results", x.Hash, len(x.Results))
	}
	for i, result := range x.Results {
		if want := good.Results[i]; result.ID != want.ID || result.Succeeded != want.Succeeded || result.Index != want.Index {
			r.Fatalf("adopted, transaction %d is %+v, want %+v", i, result, want)
		}
	}
	r.must("commit", r.b.Commit(r.ctx))
	if p := r.position(); p.Number != 3 || p.Hash != good.Hash {
		r.Fatalf("after an adoption the position is %+v", p)
	}
	if found := r.outcomes(block.IDs...); !reflect.DeepEqual(found[block.IDs[0]].Succeeded, true) {
		r.Fatalf("outcomes %+v", found)
	}
	if own, others := r.commit(4), other.commit(4); own.Hash != others.Hash {
		r.Fatalf("after an adoption block 4 gives %x, want %x", own.Hash, others.Hash)
	}
	r.s.Tamper(r.T)
	last := other.commit(5)
	_, err = r.b.Adopt(r.ctx, past, r.s.Block(5), r.position().Hash, last.Hash)
	r.want("adopt changes of a row that was tampered with", err, backend.ErrBeyondRepair)
	r.want("commit after that", r.b.Commit(r.ctx), backend.ErrNothingOpen)
}

// inventive tells the last part twice.
type inventive struct{ backend.Past }

func (p inventive) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	var last []byte
	err := p.Past.Block(ctx, number, hash, func(part []byte) error {
		last = slices.Clone(part)
		return each(part)
	})
	if err == nil {
		err = each(append(last, 0)) // of a database that tells a hash alone, another one
	}
	return err
}

// garbled tells another last byte of the last part: of a change, that of a text.
type garbled struct{ backend.Past }

func (p garbled) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	var last []byte
	err := p.Past.Block(ctx, number, hash, func(part []byte) error {
		before := last
		last = slices.Clone(part)
		if before == nil {
			return nil
		}
		return each(before)
	})
	if err == nil {
		last[len(last)-1] ^= 1
		err = each(last)
	}
	return err
}
