package mariadb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestTheBaseIsTheOldestCheckpointKept(t *testing.T) {
	for _, at := range []struct{ interval, kept, number, want uint64 }{
		{100, 3, 0, 0},
		{100, 3, 299, 0},
		{100, 3, 300, 100},
		{100, 3, 399, 100},
		{100, 3, 400, 200},
		{100, 1, 199, 100},
		{1, 1, 7, 7},
		{0, 3, 1_000, 0},
		{100, 0, 1_000, 0},
	} {
		if got := (Checkpoints{at.interval, at.kept}).oldest(at.number); got != at.want {
			t.Errorf("%+v: %d", at, got)
		}
	}
}

func TestFoldingGoesOnFromTheOldestBaseThatCounts(t *testing.T) {
	const now = maxBlock
	for _, of := range []struct {
		spans []span
		want  uint64
	}{
		{nil, maxBlock},
		{[]span{{0, now}, {7, now}}, 0},
		{[]span{{0, 5}}, maxBlock},                // nothing is there
		{[]span{{0, 400}, {399, now}}, 399},       // it was gone by then
		{[]span{{0, 402}, {399, now}}, 0},         // it was there at the end of block 401
		{[]span{{0, 9}, {7, 402}, {399, now}}, 0}, // and the first when that one's history begins
	} {
		if got := oldestBase(of.spans); got != of.want {
			t.Errorf("%+v: %d", of, got)
		}
	}
}

func TestAPieceIsOfWholeBlocks(t *testing.T) {
	for _, of := range []struct {
		changes []int
		want    int
	}{{[]int{4, 6, 1}, 2}, {[]int{10}, 1}, {[]int{11, 1}, 1}, {[]int{1, 2, 3}, 3}, {[]int{9, 11, 1}, 1}} {
		var links []link
		for _, n := range of.changes {
			links = append(links, link{changes: n})
		}
		if got := pieceOf(links, 10); got != of.want {
			t.Errorf("%v: %d", of.changes, got)
		}
	}
}

// keeping sets the checkpoints, and gives the work that Maintain repeats.
func (c *chain) keeping(interval, kept uint64) *folder {
	c.b.cfg.Checkpoints = Checkpoints{interval, kept}
	return &folder{b: c.b, changesMax: foldChangesMax, bytesMax: foldBytesMax}
}

// base is where the bases are, and all that is in them.
func (o *organisation) base(t *testing.T) (after []uint64, rows string) {
	t.Helper()
	spans, err := readSpans(t.Context(), o.root, names{o.name})
	for _, s := range spans {
		after = append(after, s.base)
	}
	if err == nil {
		err = o.root.QueryRow(names{o.name}.in("SELECT coalesce(sha2(group_concat(table_id, key_hash, row_bytes ORDER BY table_id, key_hash), 256), '') FROM %L.base")).Scan(&rows)
	}
	must.Do(t, err)
	return after, rows
}

// told is what the database tells of the tables at the end of a block.
func (c *chain) told(number uint64) (string, error) {
	c.Helper()
	var hash []byte
	if err := c.b.pool.QueryRow(c.b.name.in("SELECT hash FROM %L.block WHERE number = ?"), number).Scan(&hash); err != nil {
		c.Fatal(err)
	}
	r, err := c.b.Read(c.Context(), number, wire.Hash(hash))
	if err != nil {
		return "", err
	}
	defer r.Close()
	var lines []string
	for _, table := range r.Tables() {
		lines = append(lines, fmt.Sprintf("%+v", table))
		err := r.Rows(c.Context(), table.Table, backend.All(), func(cells []byte) error {
			lines = append(lines, fmt.Sprintf("%s %x", table.Table, cells))
			return nil
		})
		if err != nil {
			c.Fatal(err)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// history makes blocks of all kinds of changes in two tables, of which one comes at block 10 and
// another one goes at block 13, up to block 32.
func (c *chain) history(o *organisation) {
	c.Helper()
	o.make(c.T, "CREATE PROCEDURE %.poses() SQL SECURITY INVOKER SELECT 1")
	c.attach("public.items")
	c.attach("public.others")
	for c.at.Number < 32 {
		n := c.at.Number + 1
		switch n {
		case 5:
			if x := c.commit(c.attachProcedure(o, "poses", "()")).Results[0]; !x.Succeeded {
				c.Fatalf("%+v", x)
			}
			continue
		case 10:
			c.attach("public.things")
			continue
		case 13:
			c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH TABLE public.others"})
			continue
		}
		work := []proposal{sqlOf(fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", n)), sqlOf("UPDATE items SET name = name || '!' WHERE id = 1")}
		if n%4 == 0 {
			work = append(work, sqlOf(fmt.Sprintf("DELETE FROM items WHERE id = %d", n-1)))
		}
		if n < 13 {
			work = append(work, sqlOf(fmt.Sprintf("INSERT INTO others (id, name) VALUES (%d, 'y')", n)))
		}
		if n > 10 {
			work = append(work, sqlOf(fmt.Sprintf("INSERT INTO things (id, name) VALUES (%d, 'z')", n)), sqlOf(fmt.Sprintf("DELETE FROM things WHERE id = %d", n-2)))
		}
		c.commit(work...)
	}
}

var others = strings.ReplaceAll(things, "things", "others")

// Small pieces move the base in many transactions, each of whole blocks. The
// database tells the same rows as before, and refuses blocks before the base.
func TestAFoldedBaseTellsTheSameRows(t *testing.T) {
	o := fresh(t, items, things, others)
	c := o.chain(t)
	c.history(o)
	before := map[uint64]string{}
	for n := uint64(1); n <= c.at.Number; n++ {
		var err error
		if before[n], err = c.told(n); err != nil {
			t.Fatal(err)
		}
	}
	f := c.keeping(5, 2)
	f.changesMax = 4
	must.Do(t, f.fold(t.Context()))
	if after, _ := o.base(t); !slices.Equal(after, []uint64{25, 12, 25}) { // others was detached by block 13
		t.Errorf("the bases are those of blocks %v", after)
	}
	for n := uint64(1); n <= c.at.Number; n++ {
		told, err := c.told(n)
		if n < 25 && (!errors.Is(err, backend.ErrOutOfTurn) || !strings.Contains(err.Error(), fmt.Sprintf("the rows at block %d cannot be told: ", n)) ||
			!strings.Contains(err.Error(), "reaches back to block 25 only")) {
			t.Errorf("block %d: %v", n, err)
		}
		if n >= 25 && (err != nil || told != before[n]) {
			t.Errorf("block %d: %v %s\nbefore:\n%s", n, err, told, before[n])
		}
	}
	err := Verify(t.Context(), o.dsn, nil, func(f backend.Finding) error { t.Errorf("%+v", f); return nil })
	if next, audited := c.b.Audit(t.Context(), 1, 100); err != nil || audited != nil || next != 0 {
		t.Fatal(err, audited, next)
	}
	p := connected(t, c.b)
	if p.Deviates || p.FalseBlocks != nil {
		t.Errorf("%+v", p)
	}
}

// Each transaction folds a few changes, or one block. The words of procedures now do not matter.
func TestPiecesAreBounded(t *testing.T) {
	o := fresh(t, items, things, others)
	c := o.chain(t)
	c.history(o)
	o.run(t, "DROP PROCEDURE "+o.name+".poses")
	f := c.keeping(5, 2)
	f.changesMax = 4
	links, err := linksTo(t.Context(), c.b.pool, c.b.name, c.at, 0, 25)
	must.Do(t, err)
	var sizes []int
	for after := uint64(0); len(links) > 0; {
		folded, err := f.piece(t.Context(), after, links)
		if err != nil || folded == 0 {
			t.Fatal(folded, err)
		}
		changes := 0
		for _, l := range links[:folded] {
			changes += l.changes
		}
		if changes > 4 && folded > 1 {
			t.Errorf("%d blocks with %d changes after block %d", folded, changes, after)
		}
		after, links, sizes = after+uint64(folded), links[folded:], append(sizes, folded)
	}
	if len(sizes) < 15 {
		t.Errorf("pieces of %v blocks", sizes)
	}
	if links, err = linksTo(t.Context(), c.b.pool, c.b.name, c.at, 25, 28); err != nil {
		t.Fatal(err)
	}
	f.changesMax, f.bytesMax = foldChangesMax, 1
	if folded, err := f.piece(t.Context(), 25, links); err != nil || folded != 1 {
		t.Errorf("a piece of few bytes: %d blocks, %v", folded, err)
	}
}

// After folding, each step of recovery does what it did. Replay starts at the new base: it needs
// nothing from before.
func TestRecoveryStartsAtTheFoldedBase(t *testing.T) {
	o := fresh(t, items, things, others)
	c := o.chain(t)
	c.history(o)
	f := c.keeping(5, 2)
	must.Do(t, f.fold(t.Context()))
	repair := func(step backend.Step) ([]backend.RowDeviation, error) {
		return c.b.Repair(t.Context(), step, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash)
	}
	tamper := "UPDATE %D.items SET name = 'tampered' WHERE id IN (1, 4); DELETE FROM %D.things WHERE id = 31"
	o.unguarded(t, tamper)
	if found, err := repair(backend.Rows); err != nil || len(found) != 3 {
		t.Error("rows:", found, err)
	}
	o.unguarded(t, tamper+"; UPDATE %L.history SET row_bytes = x'0000' WHERE block = 28; UPDATE %L.transaction SET raw = x'00' WHERE block < 26")
	if _, err := repair(backend.Rows); !errors.Is(err, backend.ErrBeyondRepair) {
		t.Error("rows with tampered history:", err)
	}
	if found, err := repair(backend.Replay); err != nil || len(found) != 3 {
		t.Error("replay:", found, err)
	}
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Error("after replay:", err)
	}
	c.commit(sqlOf("UPDATE items SET name = name || '?' WHERE id = 1"))
	o.unguarded(t, "UPDATE %L.base SET row_bytes = x'0000'")
	if _, err := repair(backend.Rebase); err != nil {
		t.Error("rebase:", err)
	}
	if after, _ := o.base(t); !slices.Equal(after, []uint64{33, 1, 33}) {
		t.Errorf("the bases are those of blocks %v", after)
	}
}

// Blocks commit while history is folded all the time; none fails for it.
func TestHistoryIsFoldedBesideBlocks(t *testing.T) {
	o := fresh(t, items, things)
	c := o.chain(t)
	c.attach("public.items, public.things")
	f := c.keeping(1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && (err == nil || errors.Is(err, errGaveWay)) {
			err = f.fold(ctx)
		}
		done <- err
	}()
	for n := range 60 {
		c.commit(sqlOf(fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", n+2)), sqlOf("UPDATE things SET name = name || '!' WHERE id = 1"))
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errGaveWay) {
		t.Fatal(err)
	}
	beside, _ := o.base(t)
	must.Do(t, f.fold(t.Context()))
	after, _ := o.base(t)
	if want := c.at.Number - 1; !slices.Equal(after, []uint64{want, want}) || beside[0] < 10 || beside[0] != beside[1] {
		t.Errorf("the bases were those of blocks %v beside blocks, and are those of %v at block %d", beside, after, c.at.Number)
	}
	if found, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil || found != nil {
		t.Error(found, err)
	}
}

// foldable has five blocks after the one that attaches its table, and a checkpoint at every second
// block, of which one is kept.
func foldable(t *testing.T) (*organisation, *chain, *folder) {
	t.Helper()
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.grow(5)
	return o, c, c.keeping(2, 1)
}

// An open block keeps its tables' states locked, so that folding waits behind it. When it
// ends there, the base is the old one, whole.
func TestFoldingThatIsCutOffLeavesTheOldBase(t *testing.T) {
	o, c, f := foldable(t)
	after, rows := o.base(t)
	stays := func(when string) {
		t.Helper()
		if a, r := o.base(t); !slices.Equal(a, after) || r != rows {
			t.Errorf("%s the base is that of block %v, and other rows", when, a)
		}
	}
	if _, err := c.b.Execute(t.Context(), blockOf(c.at.Number+1, sqlOf("UPDATE items SET name = 'open'")), c.at.Hash); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := f.fold(t.Context()); !errors.Is(err, errGaveWay) || time.Since(began) > 10*time.Minute {
		t.Errorf("behind an open block: %v after %v", err, time.Since(began))
	}
	stays("after giving way")
	done := make(chan error)
	go func() { done <- f.fold(t.Context()) }()
	o.run(t, fmt.Sprintf("KILL CONNECTION %d", o.waiting(t, "%SET base_after%")))
	if err := <-done; err == nil || errors.Is(err, errGaveWay) {
		t.Errorf("with a killed connection: %v", err)
	}
	stays("after the end of its connection")
	must.Do(t, c.b.Commit(t.Context()))
	must.Do(t, f.fold(t.Context()))
	if a, r := o.base(t); a[0] != 6 || r == rows {
		t.Errorf("then the base is that of block %v", a)
	}
}

// A repair and folding do not move the bases at once, and folding goes on from no other base than
// the one that it read.
func TestFoldingGivesWayToRepairs(t *testing.T) {
	o, c, f := foldable(t)
	before, _ := o.base(t)
	err := c.b.repairing(t.Context(), c.at.Number, c.at.Hash, func(*repair) error {
		if err := f.fold(t.Context()); !errors.Is(err, errGaveWay) {
			t.Errorf("beside a repair: %v", err)
		}
		return nil
	})
	if after, _ := o.base(t); err != nil || !slices.Equal(after, before) {
		t.Errorf("%v, base %v", err, after)
	}
	links, err := linksTo(t.Context(), c.b.pool, c.b.name, c.at, 0, 4)
	must.Do(t, err)
	p, err := f.read(t.Context(), 0, links)
	must.Do(t, err)
	if _, err := c.b.Repair(t.Context(), backend.Rebase, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil {
		t.Fatal(err)
	}
	moved, rows := o.base(t)
	if err := f.write(t.Context(), p); !errors.Is(err, errGaveWay) {
		t.Errorf("from a base that moved: %v", err)
	}
	if after, same := o.base(t); !slices.Equal(after, moved) || same != rows || moved[0] != 6 {
		t.Errorf("the base moved to block %v, then to %v, or got other rows", moved, after)
	}
}

// A block that waits for folding never holds what folding waits for.
func TestFoldingAndBlocksLockInOneOrder(t *testing.T) {
	o := fresh(t, items, things, others)
	c := o.chain(t)
	c.attach("public.items, public.things, public.others")
	o.run(t, "DROP PROCEDURE "+o.name+"_ledger.end_holders")
	f := c.keeping(1, 1)
	for n := uint64(2); n < 8; n++ {
		holder := o.session(t, "BEGIN", "SELECT * FROM %_ledger.ledger_table WHERE id = 1 FOR UPDATE")
		folded, executed := make(chan error), make(chan error)
		go func() { folded <- f.fold(t.Context()) }()
		o.waiting(t, "%SET base_after%")
		b := blockOf(n, sqlOf("UPDATE items SET name = name || '!'"), sqlOf("UPDATE things SET name = name || '!'"), sqlOf("UPDATE others SET name = name || '!'"))
		go func() {
			x, err := c.b.Execute(t.Context(), b, c.at.Hash)
			c.at.Hash = x.Hash
			executed <- err
		}()
		o.waiting(t, "%SET row_count%")
		_, err := holder.ExecContext(t.Context(), "ROLLBACK")
		if err := <-folded; err != nil {
			t.Errorf("folding: %v", err)
		}
		if err = errors.Join(err, <-executed); err == nil {
			err = c.b.Commit(t.Context())
		}
		must.Do(t, err)
	}
}

// waiting polls for a connection of the node's that such a statement takes so long that it waits,
// at most ten seconds.
func (o *organisation) waiting(t *testing.T, like string) (id int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := o.root.QueryRow("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE ? AND TIME_MS > 100 AND ID <> CONNECTION_ID() AND USER = ?", like, o.name).Scan(&id)
		if err == nil {
			return id
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// History that was changed does not get into the base, however well it was changed. It is found,
// and nothing more is folded until recovery has put it right.
func TestTamperedHistoryStaysOutOfTheBase(t *testing.T) {
	for change, want := range map[string]string{
		"UPDATE %L.history SET row_bytes = x'0000' WHERE block = 3":     "has another row",
		"UPDATE %L.history SET op = 'I' WHERE block = 3 AND op = 'U'":   "are not those of its header",
		"DELETE FROM %L.history WHERE block = 3 AND op = 'U'":           "are not those of its header",
		"DELETE FROM %L.block WHERE number = 3":                         "it is not the block that later ones follow",
		"DELETE FROM %L.transaction WHERE block = 3 AND place = 0":      "are not those of its header",
		"UPDATE %L.history SET block = 13 WHERE block = 3 AND op = 'U'": "are not those of its header",
		"UPDATE %L.block SET hash = REPEAT('x', 32) WHERE number = 3":   "it is not the block that later ones follow",
		"forged": "it is not the block that later ones follow",
	} {
		o, c, f := foldable(t)
		if change == "forged" {
			c.forge(3)
		} else {
			o.unguarded(t, change)
		}
		f.changesMax = 1
		err := f.fold(t.Context())
		p := connected(t, c.b)
		if err == nil || !strings.Contains(err.Error(), "history of block 3 was changed: ") || !strings.Contains(err.Error(), want) || !slices.Equal(p.FalseBlocks, []uint64{3}) {
			t.Errorf("%s: %v, position %+v", change, err, p)
		}
		_, rows := o.base(t)
		if err := f.fold(t.Context()); err != nil {
			t.Errorf("%s, again: %v", change, err)
		}
		if after, same := o.base(t); after[0] > 2 || same != rows {
			t.Errorf("%s: the base is that of block %v", change, after)
		}
	}
}

// forge changes a row of a block, and everything of this block that tells of it.
func (c *chain) forge(block uint64) {
	c.Helper()
	k, err := keptBlock(c.Context(), c.b.pool, c.b.name, block)
	if err == nil {
		err = k.readIDs(c.Context(), c.b.pool, c.b.name, block)
	}
	if err != nil {
		c.Fatal(err)
	}
	header, err := wire.DecodeHeader(k.header)
	if err != nil {
		c.Fatal(err)
	}
	changes, outcomes := make([]canonical.Change, len(k.changes)), make([]bool, len(k.ids))
	for i := range k.changes {
		one := &k.changes[i]
		if one.Op == 'U' {
			one.row = encoded(c.T, number(1, 1), text(2, "forged"))
			one.Hash = wire.RowHash(one.Table, one.row)
			c.exec("UPDATE %L.history SET row_bytes = ?, row_hash = ? WHERE block = ? AND place = ?", one.row, one.Hash[:], block, i)
		}
		changes[i] = one.Change
	}
	for i := range outcomes {
		outcomes[i] = header.Outcomes.Succeeded(uint32(i))
	}
	header.EffectsRoot = canonical.EffectsOf(changes, canonical.Sort(changes), outcomes).Root
	k.header = header.Encode()
	if _, err := k.check(block, header.Hash()); err != nil {
		c.Fatal("not forged well: ", err)
	}
	hash := header.Hash()
	c.exec("UPDATE %L.block SET header = ?, hash = ? WHERE number = ?", k.header, hash[:], block)
}

func (c *chain) exec(statement string, args ...any) {
	c.Helper()
	if _, err := c.b.pool.ExecContext(c.Context(), c.b.name.in(statement), args...); err != nil {
		c.Fatal(err)
	}
}

// A base with other rows shows at the state root of a later block, once it is read. Recovery takes
// the tables as the new base.
func TestATamperedBaseIsFoundByFolding(t *testing.T) {
	for _, scrubbing := range []Scrubbing{{}, {Every: time.Nanosecond, RowsPerSecond: 1_000_000}} {
		o := fresh(t, items)
		c := o.chain(t)
		c.attach("public.items")
		f := c.keeping(2, 1)
		c.grow(1)
		must.Do(t, f.fold(t.Context()))
		if c.b.cfg.Scrubbing = scrubbing; scrubbing.Every == 0 {
			f = c.keeping(2, 1) // as after a start of the node
		}
		c.grow(2)
		o.unguarded(t, "UPDATE %L.base SET row_bytes = x'0000' WHERE row_bytes = (SELECT row_bytes FROM %L.history WHERE block = 2 AND op = 'I')")
		after, rows := o.base(t)
		err := f.fold(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the base was changed: ") || !connected(t, c.b).Deviates {
			t.Errorf("%v, or it does not show", err)
		}
		if err := f.fold(t.Context()); err != nil {
			t.Error("before recovery:", err)
		}
		if a, r := o.base(t); !slices.Equal(a, after) || r != rows {
			t.Errorf("the base is that of block %v", a)
		}
		for _, step := range []backend.Step{backend.Rows, backend.Replay} {
			if _, err := c.b.Repair(t.Context(), step, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); !errors.Is(err, backend.ErrBeyondRepair) {
				t.Error(step, err)
			}
		}
		if _, err := c.b.Repair(t.Context(), backend.Rebase, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil {
			t.Error(err)
		}
		c.grow(2)
		if err := f.fold(t.Context()); err != nil {
			t.Error("after recovery:", err)
		}
		if after, _ := o.base(t); after[0] != c.at.Number/2*2 {
			t.Errorf("after recovery the base is that of block %v", after)
		}
	}
}

// A row of the base that was changed and is replaced does no harm: the new base is as agreed.
func TestATamperedRowOfTheBaseIsReplaced(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	f := c.keeping(2, 1)
	c.grow(1)
	must.Do(t, f.fold(t.Context()))
	c.grow(2)
	o.unguarded(t, "UPDATE %L.base SET row_bytes = x'0000' WHERE row_bytes = (SELECT row_bytes FROM %L.history WHERE block = 2 AND op = 'U')")
	must.Do(t, f.fold(t.Context()))
	if found, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash); err != nil || found != nil {
		t.Error(found, err)
	}
}

// grow makes so many blocks, each with a new row and a change of the first.
func (c *chain) grow(blocks int) {
	c.Helper()
	for range blocks {
		c.commit(sqlOf(fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", c.at.Number+1)), sqlOf("UPDATE items SET name = name || '!' WHERE id = 1"))
	}
}

// Maintain folds on its own, with the scrubber off as well.
func TestMaintenanceFolds(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	c.keeping(2, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.b.Maintain(ctx, slog.New(slog.DiscardHandler)); close(done) }()
	defer func() { cancel(); <-done }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		after, _ := o.base(t)
		if after[0] == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the base is that of block %v", after)
		}
	}
}
