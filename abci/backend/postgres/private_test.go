package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// onTheWay has values of transactions.
type onTheWay struct {
	values map[wire.TxID][]*wire.SealedValue
	unheld []error
}

func (o *onTheWay) Values(id wire.TxID) []*wire.SealedValue { return o.values[id] }
func (o *onTheWay) Unheld(err error)                        { o.unheld = append(o.unheld, err) }

// sealedNote is a value of public.trades.note.
func sealedNote(t *testing.T, text string) *wire.SealedValue {
	t.Helper()
	v := canonical.Value{Tag: canonical.Text, Text: text}
	value, err := v.Append(nil)
	must.Do(t, err)
	salt := bytes.Repeat([]byte{7}, 32)
	commitment := canonical.Commitment("test", "public.trades", "note", "text", salt, value)
	return &wire.SealedValue{Commitment: commitment[:], Table: "public.trades", Column: "note", Type: "text", Salt: salt, Value: value}
}

// A block of n transactions, each of which inserts one row with a commitment.
func insertsNotes(number uint64, ids []int, notes ...*wire.SealedValue) *wire.OrderedBlock {
	statements := make([]string, len(notes))
	for i, note := range notes {
		statements[i] = fmt.Sprintf(`INSERT INTO public.trades VALUES (%d, '\x%x')`, ids[i], note.Commitment)
	}
	return orderedBlock(number, wire.Kind_KIND_SQL, statements...)
}

// Values come with the rows of their block, those of failed transactions do not, and no block
// depends on them (K5).
func TestPrivateValuesComeWithTheirBlock(t *testing.T) {
	dsn := database(t, setup+"; GRANT CREATE ON SCHEMA public TO effects_ops")
	way := &onTheWay{values: map[wire.TxID][]*wire.SealedValue{}}
	b := open(t, dsn+" user=effects_node")
	b.cfg.OnTheWay = way
	position := connected(t, b)
	run(t, dsn, fmt.Sprintf(`SELECT chainify_node.set_registry(jsonb_build_object('organisations', (SELECT jsonb_agg(jsonb_build_object('name', o, 'gateway_key', '%s',
		'ordering_only', false, 'from_block', 0, 'until_block', null)) FROM unnest(ARRAY['a', 'b']) o)))`, strings.Repeat("0", 64)))
	hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.trades (id bigint PRIMARY KEY, note chainify.sealed)",
		"CREATE CIRCLE pair OF a, b", "ALTER TABLE public.trades SEAL COLUMN note AS text FOR pair"), position.Hash, time.Minute)
	told, err := b.Circles(t.Context())
	if err != nil || len(told.Members) != 2 || len(told.Columns) != 1 || told.Columns[0].Type != "text" || told.Columns[0].Table != "public.trades" {
		t.Fatal(told, err)
	}

	one, failing := sealedNote(t, "one"), sealedNote(t, "of a transaction that fails")
	block := insertsNotes(2, []int{1, 1}, one, failing)
	way.values[block.IDs[0]], way.values[block.IDs[1]] = []*wire.SealedValue{one}, []*wire.SealedValue{failing}
	if _, err := b.Execute(t.Context(), block, hash); err != nil {
		t.Fatal(err)
	}
	notes := func() string {
		var notes string
		must.Do(t, b.pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(convert_from(substr(value, 6), 'UTF8'), ','), '') FROM chainify_node.held_private($1, $2, $3)`,
			[]string{"public.trades", "public.trades", "public.trades"}, []string{"note", "note", "other"}, [][]byte{one.Commitment, failing.Commitment, one.Commitment}).Scan(&notes))
		return notes
	}
	if got := notes(); got != "" {
		t.Errorf("before the block commits there are %q", got)
	}
	must.Do(t, b.Commit(t.Context()))
	if got := notes(); got != "one" || len(way.unheld) > 0 {
		t.Errorf("with the block there are %q, not held %v", got, way.unheld)
	}

	// A value that the database does not take leaves the block as it is, and is found missing.
	hash = connected(t, b).Hash
	lie := sealedNote(t, "two")
	lie.Salt = bytes.Repeat([]byte{8}, 32)
	block = insertsNotes(3, []int{2}, lie)
	without := executedAndUndone(t, b, block, hash)
	way.values[block.IDs[0]] = []*wire.SealedValue{lie}
	if with := executed(t, b, block, hash, time.Minute); with != without || len(way.unheld) != 1 || strings.Contains(way.unheld[0].Error(), hex.EncodeToString(lie.Salt)) {
		t.Errorf("hashes %x and %x, not held %v", with, without, way.unheld)
	}
	missing, err := b.Missing(t.Context(), 10)
	if err != nil || len(missing) != 1 || !bytes.Equal(missing[0].Commitment, lie.Commitment) {
		t.Fatal(missing, err)
	}
	must.Do(t, b.Hold(t.Context(), []*wire.SealedValue{sealedNote(t, "two"), one}))
	held, err := b.Held(context.Background(), append(missing, &wire.SealedName{Table: "public.trades", Column: "note", Commitment: one.Commitment}))
	if err != nil || len(held) != 2 || !bytes.Equal(held[0].Salt, one.Salt) || held[0].Type != "text" {
		t.Error(held, err)
	}
	if missing, err := b.Missing(t.Context(), 10); err != nil || len(missing) != 0 {
		t.Error(missing, err)
	}
	missedAmongOthers(t, b)
}

// missedAmongOthers: commitments that nobody can open, in front of one that somebody can, do not
// keep that one from being found missing.
func missedAmongOthers(t *testing.T, b *Backend) {
	t.Helper()
	wanted := sealedNote(t, "wanted")
	executed(t, b, orderedBlock(4, wire.Kind_KIND_SQL,
		`INSERT INTO public.trades SELECT i + 100, sha256(i::text::bytea) FROM generate_series(1, 50) i`,
		fmt.Sprintf(`INSERT INTO public.trades VALUES (999, '\x%x')`, wanted.Commitment)), connected(t, b).Hash, time.Minute)
	for range 1_000 { // each has it with one chance in six
		missing, err := b.Missing(t.Context(), 10)
		must.Do(t, err)
		for _, name := range missing {
			if bytes.Equal(name.Commitment, wanted.Commitment) {
				return
			}
		}
	}
	t.Error("ten of 51 missing values are always others")
}

// executedAndUndone is the hash of a block, of which nothing is kept.
func executedAndUndone(t *testing.T, b *Backend, block *wire.OrderedBlock, previous wire.Hash) wire.Hash {
	t.Helper()
	x, err := b.Execute(t.Context(), block, previous)
	must.Do(t, err)
	must.Do(t, b.Rollback(t.Context()))
	return x.Hash
}
