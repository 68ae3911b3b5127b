package backendtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Subject is a fresh database and what the suite has to do to it behind the backend's back.
type Subject struct {
	// Open returns a backend on the database, as a starting node would; the test closes it. Its
	// limit for one transaction is about a second.
	Open func(t *testing.T) backend.Backend
	// Block returns a block that a database at number-1 executes with at least one success and one
	// change.
	Block func(number uint64) *wire.OrderedBlock
	// Tamper changes a row on the ledger; TamperBoth its history, too, so that only Replay helps;
	// TamperHistory does so beyond repair. All after block 2.
	Tamper, TamperBoth, TamperHistory func(t *testing.T)
	// TamperPast changes block 2 as it is kept, and has the database notice.
	TamperPast func(t *testing.T)
	// Scrub has the database look for tampering by itself.
	Scrub func(t *testing.T)
	// Stick makes block n not end at its transaction 0: it returns such a block and how to end
	// that.
	Stick func(number uint64) (block *wire.OrderedBlock, end func())
}

const callLimit = 30 * time.Second

// Run runs the conformance suite; fresh makes a new subject for each test.
func Run(t *testing.T, fresh func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*run)
	}{
		{"a rolled back block leaves no trace", testRollback},
		{"a committed block is the position", testCommit},
		{"blocks out of turn are refused", testOutOfTurn},
		{"executing again replaces the open block", testReplace},
		{"cancelling an execution ends it", testCancel},
		{"a transaction that does not end is named", testStuck},
		{"quarantined transactions are not run", testQuarantine},
		{"effects of transactions are told from round 1 on", testEffects},
		{"certificates are kept beside blocks", testCertificate},
		{"repair undoes tampering", testRepair},
		{"what scrubbing finds shows in the position until it is repaired", testScrub},
		{"what rows do not cure, executing again does", testReplay},
		{"what is beyond repair is said to be", testBeyondRepair},
		{"what is beyond repair is taken from another database", testRestore},
		{"a block that is not kept as agreed is taken from another database", testPast},
		{"a block is adopted from another database, or nothing of it is kept", testAdopt},
		{"two nodes do not share a database", testOwner},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			ctx, cancel := context.WithTimeout(context.Background(), 2*callLimit)
			t.Cleanup(cancel)
			r := &run{T: t, s: s, fresh: fresh, ctx: ctx}
			r.b = r.start()
			c.test(r)
		})
	}
}

type run struct {
	*testing.T
	s     Subject
	fresh func(t *testing.T) Subject
	b     backend.Backend
	ctx   context.Context
}

func (r *run) must(what string, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

func (r *run) want(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// start opens the database and waits until it is ours.
func (r *run) start() backend.Backend {
	b := r.s.Open(r.T)
	r.Cleanup(func() { _ = b.Close() })
	for {
		_, err := b.Position(r.ctx)
		if err == nil {
			return b
		}
		select {
		case <-r.ctx.Done():
			r.Fatalf("connect: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// outcomes are those in the database, which gives each once.
func (r *run) outcomes(ids ...wire.TxID) map[wire.TxID]wire.TxResult {
	r.Helper()
	list, err := r.b.Outcomes(r.ctx, ids)
	r.must("outcomes", err)
	found := map[wire.TxID]wire.TxResult{}
	for _, result := range list {
		if _, twice := found[result.ID]; twice {
			r.Fatalf("the outcome of %x is given twice", result.ID)
		}
		found[result.ID] = result
	}
	return found
}

func (r *run) position() backend.Position {
	r.Helper()
	p, err := r.b.Position(r.ctx)
	r.must("position", err)
	return p
}

func (r *run) execute(b *wire.OrderedBlock) backend.Execution {
	r.Helper()
	x, err := r.b.Execute(r.ctx, b, r.position().Hash)
	r.must("execute", err)
	if len(x.Results) != len(b.IDs) {
		r.Fatalf("%d results of %d transactions", len(x.Results), len(b.IDs))
	}
	return x
}

func (r *run) commit(number uint64) backend.Execution {
	r.Helper()
	x := r.execute(r.s.Block(number))
	r.must("commit", r.b.Commit(r.ctx))
	return x
}

func testEffects(r *run) {
	r.commit(1)
	b := r.s.Block(2)
	plain := r.execute(b)
	if plain.Effects != nil {
		r.Fatalf("effects in round 0: %x", plain.Effects)
	}
	b.Round = 1
	first, again := r.execute(b), r.execute(b)
	if first.Hash != plain.Hash {
		r.Fatalf("round 1 gives %x, round 0 gave %x", first.Hash, plain.Hash)
	}
	if len(first.Effects) != len(b.IDs) || !slices.Equal(first.Effects, again.Effects) {
		r.Fatalf("effects %x, then %x, of %d transactions", first.Effects, again.Effects, len(b.IDs))
	}
	b.Round, b.Quarantined = 2, []uint32{1}
	other := r.execute(b)
	if other.Effects[0] != first.Effects[0] || other.Effects[1] == first.Effects[1] {
		r.Fatalf("with transaction 1 quarantined the effects are %x, before %x", other.Effects, first.Effects)
	}
}

func testRollback(r *run) {
	if p := r.position(); p.Number != 0 || p.Hash != (wire.Hash{}) || p.Certified != 0 {
		r.Fatalf("a fresh database is at %+v", p)
	}
	first := r.execute(r.s.Block(1))
	r.must("roll back", r.b.Rollback(r.ctx))
	if p := r.position(); p.Number != 0 {
		r.Fatalf("after a rollback the position is %d", p.Number)
	}
	if found := r.outcomes(r.s.Block(1).IDs...); len(found) != 0 {
		r.Fatal("a transaction that was rolled back has an outcome")
	}
	if again := r.execute(r.s.Block(1)); again.Hash != first.Hash {
		r.Fatalf("executed again, the block gives %x, not %x", again.Hash, first.Hash)
	}
	r.must("roll back", r.b.Rollback(r.ctx))
	r.must("roll back with nothing open", r.b.Rollback(r.ctx))
	r.want("commit with nothing open", r.b.Commit(r.ctx), backend.ErrNothingOpen)
}

func testCommit(r *run) {
	var all []wire.TxResult
	for n := uint64(1); n <= 3; n++ {
		x := r.commit(n)
		if p := r.position(); p.Number != n || p.Hash != x.Hash {
			r.Fatalf("after block %d the position is %d, %x, want %x", n, p.Number, p.Hash, x.Hash)
		}
		for _, want := range x.Results {
			if found := r.outcomes(want.ID); len(found) != 1 || found[want.ID] != want {
				r.Fatalf("outcome %+v, want %+v", found, want)
			}
		}
		all = append(all, x.Results...)
	}
	ids := []wire.TxID{{1}, all[0].ID} // one that is unknown, and one twice
	for _, want := range all {
		ids = append(ids, want.ID)
	}
	found := r.outcomes(ids...)
	for _, want := range all {
		if found[want.ID] != want {
			r.Fatalf("outcome %+v among others, want %+v", found[want.ID], want)
		}
	}
	if len(found) != len(all) {
		r.Fatalf("%d outcomes, want %d: none of an unknown transaction", len(found), len(all))
	}
	if found := r.outcomes(); len(found) != 0 {
		r.Fatalf("nothing asked gives %+v", found)
	}
	before := r.position()
	r.must("close", r.b.Close())
	r.b = r.start()
	if after := r.position(); !reflect.DeepEqual(after, before) {
		r.Fatalf("opened again, the position is %+v, want %+v", after, before)
	}
}

func testOutOfTurn(r *run) {
	x := r.commit(1)
	_, err := r.b.Execute(r.ctx, r.s.Block(1), wire.Hash{})
	r.want("a block a second time", err, backend.ErrOutOfTurn)
	_, err = r.b.Execute(r.ctx, r.s.Block(3), x.Hash)
	r.want("a block too far ahead", err, backend.ErrOutOfTurn)
	_, err = r.b.Execute(r.ctx, r.s.Block(2), wire.Hash{1})
	r.want("a block on another ledger", err, backend.ErrOutOfTurn)
	r.commit(2)
}

func testReplace(r *run) {
	r.execute(r.s.Block(1))
	x := r.execute(r.s.Block(1))
	r.must("commit", r.b.Commit(r.ctx))
	if p := r.position(); p.Number != 1 || p.Hash != x.Hash {
		r.Fatalf("position %+v, want block 1, %x", p, x.Hash)
	}
}

func testCancel(r *run) {
	r.commit(1)
	r.commit(2)
	stuck, end := r.s.Stick(3)
	at := r.position()
	ctx, cancel := context.WithCancel(r.ctx)
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if _, err := r.b.Execute(ctx, stuck, at.Hash); err == nil {
		r.Fatal("a cancelled execution succeeds")
	} else if e := (*backend.StuckError)(nil); errors.As(err, &e) {
		r.Fatalf("a cancelled execution counts as stuck: %v", err)
	}
	if took := time.Since(began); took > callLimit/3 {
		r.Fatalf("cancelling took %v", took)
	}
	end()
	if p := r.position(); !reflect.DeepEqual(p, at) {
		r.Fatalf("after a cancelled block the position is %+v, want %+v", p, at)
	}
	r.commit(3)
}

func testStuck(r *run) {
	r.commit(1)
	r.commit(2)
	stuck, end := r.s.Stick(3)
	_, err := r.b.Execute(r.ctx, stuck, r.position().Hash)
	var e *backend.StuckError
	if !errors.As(err, &e) || e.Index != 0 {
		r.Fatalf("%v, want stuck at transaction 0", err)
	}
	end()
	r.commit(3)
}

func testQuarantine(r *run) {
	r.commit(1)
	r.commit(2)
	b := r.s.Block(3)
	plain := r.execute(b)
	b.Round, b.QuarantineAll = 1, true
	all := r.execute(b)
	if all.Hash == plain.Hash {
		r.Fatal("a quarantined block has the hash of the block that ran")
	}
	for _, x := range all.Results {
		if x.Succeeded || x.SQLState != "CH001" {
			r.Fatalf("quarantined, but %+v", x)
		}
	}
	b.QuarantineAll, b.Quarantined = false, []uint32{0}
	if x := r.execute(b); x.Results[0].SQLState != "CH001" {
		r.Fatalf("quarantined, but %+v", x.Results[0])
	}
	r.must("roll back", r.b.Rollback(r.ctx))
}

func testCertificate(r *run) {
	x := r.commit(1)
	c := wire.Certificate{Number: 1, Hash: x.Hash, Votes: []wire.CertifiedVote{{
		Organisation: "a", Validator: make([]byte, 20), Height: 2, Extension: make([]byte, 78), Signature: make([]byte, 64),
	}}}
	open := r.execute(r.s.Block(2))
	r.must("store certificate", r.b.StoreCertificate(r.ctx, c))
	r.must("store certificate again", r.b.StoreCertificate(r.ctx, c))
	wrong := c
	wrong.Hash[0] ^= 1
	r.want("store another certificate", r.b.StoreCertificate(r.ctx, wrong), backend.ErrBeyondRepair)
	r.must("commit the block open meanwhile", r.b.Commit(r.ctx))
	if p := r.position(); p.Certified != 1 || p.Number != 2 || p.Hash != open.Hash {
		r.Fatalf("position %+v, want block 2, certificate 1", p)
	}
}

func testRepair(r *run) {
	r.commit(1)
	at := r.commit(2)
	good := r.execute(r.s.Block(3))
	r.must("roll back", r.b.Rollback(r.ctx))
	r.s.Tamper(r.T)
	bad := r.execute(r.s.Block(3))
	if bad.Hash == good.Hash {
		r.Fatal("tampering does not show in the hash")
	}
	rows, err := r.b.Repair(r.ctx, backend.Rows, 2, at.Hash, 3, bad.Hash) // with the block still open
	r.must("repair", err)
	if len(rows) == 0 || rows[0].Table == "" {
		r.Fatalf("repair reports %+v", rows)
	}
	rows, err = r.b.Repair(r.ctx, backend.Rows, 2, at.Hash, 3, bad.Hash)
	r.must("repair again", err)
	if len(rows) != 0 {
		r.Fatalf("with nothing to repair it reports %+v", rows)
	}
	if x := r.execute(r.s.Block(3)); x.Hash != good.Hash {
		r.Fatalf("after repair the block gives %x, want %x", x.Hash, good.Hash)
	}
	r.must("commit", r.b.Commit(r.ctx))
	r.must("record deviation", r.b.RecordDeviation(r.ctx, 3, good.Hash, bad.Hash, "repair", time.Second))
}

func testScrub(r *run) {
	r.commit(1)
	at := r.commit(2)
	r.s.Scrub(r.T)
	if r.position().Deviates {
		r.Fatal("a database that nobody touched deviates")
	}
	r.s.Tamper(r.T)
	r.s.Scrub(r.T)
	if p := r.position(); !p.Deviates || p.Number != 2 || p.Hash != at.Hash {
		r.Fatalf("after tampering the position is %+v", p)
	}
	rows, err := r.b.Repair(r.ctx, backend.Rows, 2, at.Hash, 2, wire.Hash{})
	r.must("repair", err)
	if len(rows) == 0 {
		r.Fatal("nothing to repair")
	}
	if r.position().Deviates {
		r.Fatal("after the repair it still deviates")
	}
	r.commit(3)
}

func testBeyondRepair(r *run) {
	r.commit(1)
	at := r.commit(2)
	r.s.TamperHistory(r.T)
	for _, step := range []backend.Step{backend.Rows, backend.Replay, backend.Rebase} {
		_, err := r.b.Repair(r.ctx, step, 2, at.Hash, 3, wire.Hash{})
		r.want("repair by "+step.String(), err, backend.ErrBeyondRepair)
	}
}

func testReplay(r *run) {
	r.commit(1)
	at := r.commit(2)
	good := r.execute(r.s.Block(3))
	r.must("roll back", r.b.Rollback(r.ctx))
	r.s.TamperBoth(r.T)
	_, err := r.b.Repair(r.ctx, backend.Rows, 2, at.Hash, 3, wire.Hash{})
	r.want("repair by rows", err, backend.ErrBeyondRepair)
	rows, err := r.b.Repair(r.ctx, backend.Replay, 2, at.Hash, 3, wire.Hash{})
	r.must("repair by replay", err)
	if len(rows) == 0 {
		r.Fatal("nothing differed")
	}
	if p := r.position(); p.Number != 2 || p.Hash != at.Hash {
		r.Fatalf("after the replay the position is %+v", p)
	}
	if x := r.execute(r.s.Block(3)); x.Hash != good.Hash {
		r.Fatalf("after the replay the block gives %x, want %x", x.Hash, good.Hash)
	}
}

func testRestore(r *run) {
	r.commit(1)
	at := r.commit(2)
	good := r.execute(r.s.Block(3))
	r.must("roll back", r.b.Rollback(r.ctx))
	r.s.TamperHistory(r.T)
	other := &run{T: r.T, s: r.fresh(r.T), ctx: r.ctx}
	other.b = other.start()
	other.commit(1)
	_, err := other.b.Read(r.ctx, 2, at.Hash)
	r.want("read a block that is not there", err, backend.ErrOutOfTurn)
	other.commit(2)
	_, err = other.b.Read(r.ctx, 2, good.Hash)
	r.want("read another block", err, backend.ErrOutOfTurn)
	reading, err := other.b.Read(r.ctx, 2, at.Hash)
	r.must("read", err)
	defer reading.Close()
	other.commit(3) // the reading stays at its block

	_, err = r.b.Restore(r.ctx, silent{reading}, 2, at.Hash, 3, wire.Hash{})
	r.want("restore from one that does not answer", err, backend.ErrNoHelp)
	if x := r.execute(r.s.Block(3)); x.Hash == good.Hash {
		r.Fatal("a restore that failed changed something")
	}
	rows, err := r.b.Restore(r.ctx, reading, 2, at.Hash, 3, wire.Hash{}) // with the block still open
	r.must("restore", err)
	if len(rows) == 0 {
		r.Fatal("nothing differed")
	}
	if x := r.execute(r.s.Block(3)); x.Hash != good.Hash {
		r.Fatalf("after the restore the block gives %x, want %x", x.Hash, good.Hash)
	}
	r.must("commit", r.b.Commit(r.ctx))
	late, err := other.b.Read(r.ctx, 2, at.Hash)
	r.must("read a block before the last", err)
	late.Close()
}

func testPast(r *run) {
	r.commit(1)
	at := r.commit(2)
	next := r.commit(3)
	r.s.TamperPast(r.T)
	if p := r.position(); !reflect.DeepEqual(p.FalseBlocks, []uint64{2}) {
		r.Fatalf("after tampering the position is %+v", p)
	}
	other := &run{T: r.T, s: r.fresh(r.T), ctx: r.ctx}
	other.b = other.start()
	other.commit(1)
	past, err := other.b.ReadPast(r.ctx)
	r.must("read the past", err)
	defer past.Close()
	block := r.s.Block(2)
	r.want("restore from one that has no such block", r.b.RestoreBlock(r.ctx, past, block, at.Hash), backend.ErrNoHelp)
	other.commit(2)
	r.want("restore from one that tells too little", r.b.RestoreBlock(r.ctx, taciturn{past}, block, at.Hash), backend.ErrBeyondRepair)
	r.want("restore as another block", r.b.RestoreBlock(r.ctx, renamed{past, at.Hash}, block, next.Hash), backend.ErrBeyondRepair)
	if p := r.position(); len(p.FalseBlocks) == 0 {
		r.Fatal("a restore that failed changed something")
	}
	r.must("restore", r.b.RestoreBlock(r.ctx, backwards{past}, block, at.Hash))
	if p := r.position(); len(p.FalseBlocks) > 0 || p.Hash != next.Hash {
		r.Fatalf("after the restore the position is %+v", p)
	}
	r.commit(4)
}

// taciturn leaves out the last part of a block.
type taciturn struct{ backend.Past }

func (p taciturn) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	parts, err := partsOf(ctx, p.Past, number, hash)
	for i, part := range parts {
		if err == nil && i < len(parts)-1 {
			err = each(part)
		} else if err == nil && i == 0 { // a block that is a header alone
			err = each(part[1:])
		}
	}
	return err
}

// backwards tells the changes of a block in another order: no order is agreed.
type backwards struct{ backend.Past }

func (p backwards) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	parts, err := partsOf(ctx, p.Past, number, hash)
	if err == nil && len(parts) > 1 {
		slices.Reverse(parts[1:])
	}
	for _, part := range parts {
		if err == nil {
			err = each(part)
		}
	}
	return err
}

func partsOf(ctx context.Context, p backend.Past, number uint64, hash wire.Hash) (parts [][]byte, err error) {
	err = p.Block(ctx, number, hash, func(part []byte) error {
		parts = append(parts, slices.Clone(part))
		return nil
	})
	return parts, err
}

// renamed tells the block of one hash when asked for another.
type renamed struct {
	backend.Past
	hash wire.Hash
}

func (p renamed) Block(ctx context.Context, number uint64, _ wire.Hash, each func([]byte) error) error {
	return p.Past.Block(ctx, number, p.hash, each)
}

// silent is a reading that ends after its tables.
type silent struct{ backend.Reading }

func (silent) Digests(context.Context, string, backend.Ranges, uint32) ([]backend.RangeDigest, error) {
	return nil, errors.New("connection lost")
}

func testOwner(r *run) {
	r.commit(1)
	other := r.s.Open(r.T)
	r.Cleanup(func() { _ = other.Close() })
	if _, err := other.Position(r.ctx); err == nil {
		r.Fatal("a second node reaches a database that has one")
	}
	r.must("close", r.b.Close())
	r.b = r.start()
	r.commit(2)
}
