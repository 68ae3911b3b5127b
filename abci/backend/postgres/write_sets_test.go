package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// writeSetTables are on the ledger. The role of the transactions may change all of them but one,
// and a policy hides rows of another from it.
const writeSetTables = setup + `;
	DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'effects_reader') THEN
			CREATE ROLE effects_reader IN ROLE chainify_client;
		END IF;
	END $$;
	CREATE TABLE public.parents (id bigint PRIMARY KEY, note text CHECK (note <> 'bad'));
	CREATE TABLE public.children (id bigint PRIMARY KEY, parent bigint REFERENCES public.parents ON DELETE CASCADE, twice bigint GENERATED ALWAYS AS (id * 2) STORED);
	CREATE TABLE public.hidden (id bigint PRIMARY KEY, owner text);
	CREATE TABLE public.others (id bigint PRIMARY KEY, v text);
	CREATE TABLE public.shut (id bigint PRIMARY KEY, v text);
	GRANT SELECT (id) ON public.shut TO effects_ops;
	CREATE TABLE public.drawn (id bigserial PRIMARY KEY, v text);
	INSERT INTO public.parents SELECT i, 'n' || i FROM generate_series(1, 20) i;
	INSERT INTO public.children SELECT i, i FROM generate_series(1, 3) i;
	INSERT INTO public.hidden VALUES (1, 'effects_ops'), (2, 'another');
	INSERT INTO public.others VALUES (1, 'o');
	ALTER TABLE public.hidden ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON public.hidden USING (owner = current_user);
	GRANT ALL ON public.parents, public.children, public.hidden, public.drawn TO effects_ops;
	GRANT SELECT ON public.others TO effects_ops;
	GRANT SELECT ON public.parents TO effects_reader`

// rowsOf encodes rows of ledger tables as the database does.
type rowsOf struct {
	t    *testing.T
	conn *pgx.Conn
}

func (r rowsOf) scan(sql string) (bytes []byte) {
	r.t.Helper()
	if err := r.conn.QueryRow(r.t.Context(), sql).Scan(&bytes); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return bytes
}

func (r rowsOf) encoded(function, table, row string) []byte {
	r.t.Helper()
	return r.scan(fmt.Sprintf("SELECT chainify_ledger.%s(id, ROW(%s)::%s) FROM chainify_ledger.ledger_table WHERE name = '%s'", function, row, table, table))
}

func (r rowsOf) row(table, row string) []byte {
	r.t.Helper()
	return r.encoded("encoded_row", table, row)
}

func (r rowsOf) key(table, row string) []byte {
	r.t.Helper()
	return r.encoded("encoded_key", table, row)
}

func (r rowsOf) hash(table, row string) (hash wire.Hash) {
	r.t.Helper()
	copy(hash[:], r.scan(fmt.Sprintf("SELECT chainify.row_hash(ROW(%s)::%s)", row, table)))
	return hash
}

// cell is a column of a row, or NULL where the row has none.
func (r rowsOf) cell(table, row string, ordinal uint16) wire.Cell {
	r.t.Helper()
	encoded := r.row(table, row)
	for rest := encoded[2:]; len(rest) > 0; {
		length := 7 + int(binary.BigEndian.Uint32(rest[3:]))
		if binary.BigEndian.Uint16(rest) == ordinal {
			return wire.Cell{Ordinal: ordinal, Value: rest[2:length]}
		}
		rest = rest[length:]
	}
	return wire.Cell{Ordinal: ordinal, Value: make([]byte, 5)}
}

// change is of one row of one table: op, the row before and the row after.
func (r rowsOf) change(table string, op byte, before, after string, ordinals ...uint16) *wire.WriteSet {
	r.t.Helper()
	c := wire.RowChange{Op: op}
	switch op {
	case 'I':
		c.Row = r.row(table, after)
	case 'U':
		c.Before, c.Row = r.hash(table, before), r.key(table, before)
		for _, ordinal := range ordinals {
			c.Cells = append(c.Cells, r.cell(table, after, ordinal))
		}
	case 'D':
		c.Before, c.Row = r.hash(table, before), r.key(table, before)
	}
	return &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{table}, Changes: []wire.RowChange{c}}
}

func (r rowsOf) insert(table, row string) *wire.WriteSet { return r.change(table, 'I', "", row) }
func (r rowsOf) remove(table, row string) *wire.WriteSet { return r.change(table, 'D', row, "") }

// with adds a row seen.
func (r rowsOf) with(s *wire.WriteSet, table, row string, present bool) *wire.WriteSet {
	r.t.Helper()
	s.Tables = append(s.Tables, table)
	seen := wire.RowSeen{Table: uint16(len(s.Tables) - 1), Key: r.key(table, row), Present: present}
	if present {
		seen.Hash = r.hash(table, row)
	}
	s.Seen = append(s.Seen, seen)
	return s
}

// writeSetCase is a transaction of a block.
type writeSetCase struct {
	name     string
	set      *wire.WriteSet
	sqlstate string // empty: it succeeds
	says     string
	role     string
}

// writeSetCases run in one block, one after the other.
func writeSetCases(r rowsOf) []writeSetCase {
	forged := func(s *wire.WriteSet, change func(*wire.RowChange)) *wire.WriteSet {
		change(&s.Changes[0])
		return s
	}
	table := func(s *wire.WriteSet, name string) *wire.WriteSet { s.Tables[0] = name; return s }
	const parents, children, hidden, others, drawn = "public.parents", "public.children", "public.hidden", "public.others", "public.drawn"
	twice := r.change(parents, 'U', "1, 'n1'", "1, 'once'", 2)
	twice.Changes = append(twice.Changes, r.change(parents, 'U', "1, 'once'", "1, 'twice'", 2).Changes...)
	// read makes the change SERIALIZABLE after snapshot, with a read of a table within bounds.
	read := func(s *wire.WriteSet, snapshot uint64, table string, bounds ...wire.Bound) *wire.WriteSet {
		s.Isolation, s.Snapshot = wire.Serializable, snapshot
		changed := s.Tables[0]
		s.Tables = append(s.Tables, table)
		slices.Sort(s.Tables)
		s.Tables = slices.Compact(s.Tables)
		number := func(table string) uint16 { return uint16(slices.Index(s.Tables, table)) }
		s.Changes[0].Table = number(changed)
		s.Reads = []wire.Read{{Table: number(table), Bounds: bounds}}
		return s
	}
	between := func(ordinal uint16, lower, upper []byte) wire.Bound {
		return wire.Bound{Ordinal: ordinal, Lower: wire.End{Kind: 2, Value: lower}, Upper: wire.End{Kind: 1, Value: upper}}
	}
	id := func(number int) []byte { return r.cell(parents, fmt.Sprintf("%d, ''", number), 1).Value }
	note := func(text string) []byte { return r.cell(parents, fmt.Sprintf("1, '%s'", text), 2).Value }
	cascade := r.remove(parents, "2, 'n2'")
	cascade.Tables = []string{children, parents}
	cascade.Changes[0].Table = 1
	cascade.Changes = append(cascade.Changes, r.remove(children, "2, 2, 4").Changes...)
	return []writeSetCase{
		{name: "an insert", set: r.insert(parents, "30, NULL")},
		{name: "two updates of a row", set: twice},
		{name: "a delete", set: r.remove(parents, "20, 'n20'")},
		{name: "the actions of a foreign key are named", set: cascade},
		{name: "they are not", set: r.remove(parents, "3, 'n3'"), sqlstate: "40001", says: `row (3) of table "public.children"`},
		{name: "another row before", set: r.change(parents, 'U', "4, 'older'", "4, 'new'", 2), sqlstate: "40001", says: `row (4) of table "public.parents" is not as the transaction saw it`},
		{name: "no such row", set: r.remove(parents, "99, 'x'"), sqlstate: "40001", says: "row (99)"},
		{name: "a row that an earlier one of the block changed", set: r.change(parents, 'U', "1, 'n1'", "1, 'late'", 2), sqlstate: "40001", says: "row (1)"},
		{name: "a key that is there", set: r.insert(parents, "5, 'again'"), sqlstate: "40001", says: "parents_pkey"},
		{name: "a parent that is not there", set: r.insert(children, "50, 98, 100"), sqlstate: "40001", says: "children_parent_fkey"},
		{name: "a condition", set: r.insert(parents, "51, 'bad'"), sqlstate: "23514"},
		{name: "a generated column that is forged", set: r.insert(children, "52, 5, 7")},
		{name: "an update of a generated column alone", set: r.change(children, 'U', "1, 1, 2", "1, 1, 3", 3), sqlstate: "22023", says: "generated columns alone"},
		{name: "an update of the key", set: r.change(parents, 'U', "6, 'n6'", "60, 'n6'", 1), sqlstate: "40001"},
		{name: "an unknown table", set: table(r.insert(parents, "53, 'x'"), "public.nowhere"), sqlstate: "42P01", says: "public.nowhere"},
		{name: "a table beside the ledger", set: table(r.insert(parents, "53, 'x'"), "pg_catalog.pg_authid"), sqlstate: "42P01"},
		{name: "a table of the ledger's own", set: table(r.insert(parents, "53, 'x'"), "chainify_ledger.sequence"), sqlstate: "42P01"},
		{name: "the history", set: table(r.insert(parents, "53, 'x'"), "chainify_history.parents"), sqlstate: "42P01"},
		{name: "a column that there is not", set: forged(r.change(parents, 'U', "7, 'n7'", "7, 'x'", 2), func(c *wire.RowChange) { c.Cells[0].Ordinal = 9 }), sqlstate: "42703", says: "ordinal 9"},
		{name: "a key of another table", set: forged(r.remove(parents, "7, 'n7'"), func(c *wire.RowChange) { c.Row = r.row(parents, "7, 'n7'") }), sqlstate: "22023", says: "other columns than its primary key"},
		{name: "a value of another type", set: forged(r.change(parents, 'U', "7, 'n7'", "7, 'x'", 2), func(c *wire.RowChange) {
			c.Row = append([]byte{0, 1, 0, 1}, r.cell(parents, "7, 'x'", 2).Value...)
		}), sqlstate: "22P02"},
		{name: "a value that is not canonical", set: forged(r.change(parents, 'U', "7, 'n7'", "7, 'x'", 2), func(c *wire.RowChange) {
			c.Cells[0].Value = append(append([]byte{}, c.Cells[0].Value[:1]...), 0, 0, 0, 1, 0xff)
		}), sqlstate: "22023", says: "effects.changes[0].cells"},
		{name: "no right to the table", set: r.change(others, 'U', "1, 'o'", "1, 'mine'", 2), sqlstate: "42501"},
		{name: "a role that only reads", set: r.change(parents, 'U', "8, 'n8'", "8, 'mine'", 2), role: "effects_reader", sqlstate: "42501"},
		{name: "a superuser", set: r.insert(parents, "54, 'x'"), role: "postgres", sqlstate: "42501"},
		{name: "a row that a policy shows", set: r.change(hidden, 'U', "1, 'effects_ops'", "1, 'effects_ops'", 2)},
		{name: "a row that a policy hides", set: r.remove(hidden, "2, 'another'"), sqlstate: "40001"},
		{name: "a row that a policy forbids", set: r.insert(hidden, "3, 'another'"), sqlstate: "42501"},
		{name: "rows seen", set: r.with(r.insert(children, "55, 5, 110"), parents, "9, 'n9'", true)},
		{name: "a row seen that was another", set: r.with(r.insert(children, "56, 5, 112"), parents, "9, 'other'", true), sqlstate: "40001", says: "row (9)"},
		{name: "a row seen that is missing", set: r.with(r.insert(children, "57, 5, 114"), parents, "9, 'n9'", false), sqlstate: "40001", says: "row (9)"},
		{name: "a row seen that no policy shows: nobody learns its hash", set: r.with(r.insert(children, "58, 5, 116"), hidden, "2, 'another'", true), sqlstate: "40001", says: "row (2)"},
		{name: "SERIALIZABLE without reads", set: func() *wire.WriteSet { s := read(r.insert(parents, "100, 'x'"), 1, parents); s.Reads = nil; return s }()},
		{name: "a read in which a row comes to lie", set: read(r.insert(children, "60, 5, 120"), 1, parents, between(1, id(28), id(31))), sqlstate: "40001", says: "rows of table \"public.parents\" that the transaction read have changed"},
		{name: "a read in which none does", set: read(r.insert(children, "61, 5, 122"), 1, parents, between(1, id(28), id(30)))},
		{name: "a read of a column that is in no index", set: read(r.insert(children, "62, 5, 124"), 1, parents, between(2, note("tw"), note("twz"))), sqlstate: "40001"},
		{name: "a read of a whole table that changed", set: read(r.insert(children, "63, 5, 126"), 1, parents), sqlstate: "40001"},
		{name: "a read of a whole table that did not", set: read(r.insert(children, "64, 5, 128"), 1, others)},
		{name: "a read of a table beside the ledger", set: read(r.insert(children, "65, 5, 130"), 1, "pg_catalog.pg_authid"), sqlstate: "42P01"},
		{name: "bounds of a column that the role does not read", set: read(r.insert(parents, "101, 'x'"), 1, "public.shut", between(2, note("a"), note("z"))), sqlstate: "42501", says: "bounds of reads of table \"public.shut\""},
		{name: "bounds of a table whose rows a policy hides", set: read(r.insert(parents, "102, 'x'"), 1, hidden, between(2, note("a"), note("z"))), sqlstate: "42501", says: "bounds of reads of table \"public.hidden\""},
		{name: "a read of the whole of it", set: read(r.insert(parents, "103, 'x'"), 1, "public.shut")},
		{name: "a snapshot that is still to come", set: read(r.insert(parents, "104, 'x'"), 1<<40, "public.shut"), sqlstate: "22023", says: "and the last one is"},
		{name: "a snapshot from before the table", set: read(r.insert(parents, "105, 'x'"), 0, "public.shut"), sqlstate: "40001", says: "another definition"},
		{name: "a number that was drawn", set: r.insert(drawn, "7, 'x'")},
		{name: "a number that was not drawn", set: r.insert(drawn, "9000000000000000000, 'x'")},
	}
}

// orderedWriteSets is block n of these write sets.
func orderedWriteSets(n uint64, cases []writeSetCase) *wire.OrderedBlock {
	block := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000}
	var raw [][]byte
	for i, c := range cases {
		role := c.role
		if role == "" {
			role = "effects_ops"
		}
		raw = append(raw, orderWriteSet(block, n<<16+uint64(i), role, c.set))
	}
	block.Transactions = wire.EncodeTransactions(raw)
	return block
}

// orderWriteSet adds the id of an EFFECTS transaction to a block, and gives its bytes.
func orderWriteSet(block *wire.OrderedBlock, nonce uint64, role string, set *wire.WriteSet) []byte {
	proposal := marshal(&wire.Proposal{
		ChainId: "test", Client: &wire.Client{Organisation: "a", Role: role}, Nonce: nonce,
		ValidUntilHeight: 1000, Kind: wire.Kind_KIND_EFFECTS, Effects: set.Encode(),
	})
	block.IDs = append(block.IDs, wire.TxIDOf(proposal))
	return marshal(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}})
}

// writeSetDatabase has the tables of write sets on the ledger; rows encodes rows as it does.
func writeSetDatabase(t *testing.T) (dsn string, b *Backend, first wire.Hash, rows rowsOf) {
	t.Helper()
	dsn = database(t, writeSetTables)
	b = open(t, dsn+" user=effects_node")
	at := connected(t, b)
	attach := orderedBlock(1, wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.parents, public.children, public.hidden, public.others, public.drawn, public.shut")
	x, err := b.Execute(t.Context(), attach, at.Hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err != nil || !x.Results[0].Succeeded {
		t.Fatal(err, x.Results)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return dsn, b, x.Hash, rowsOf{t, conn}
}

// apply executes and commits a block of write sets, and compares the outcomes.
func applyWriteSets(t *testing.T, b *Backend, n uint64, previous wire.Hash, cases []writeSetCase) wire.Hash {
	t.Helper()
	x, err := b.Execute(t.Context(), orderedWriteSets(n, cases), previous)
	if err == nil {
		err = b.Commit(t.Context())
	}
	must.Do(t, err)
	for i, r := range x.Results {
		if c := cases[i]; r.SQLState != c.sqlstate || r.Succeeded != (c.sqlstate == "") || !strings.Contains(r.Message, c.says) {
			t.Errorf("%s: %q %s, want %q %s", c.name, r.SQLState, r.Message, c.sqlstate, c.says)
		}
	}
	return x.Hash
}

func shows(t *testing.T, dsn string, wants map[string]string) {
	t.Helper()
	for sql, want := range wants {
		var got string
		query(t, dsn, sql, &got)
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// Every organisation checks a write set by itself: nothing that its sender makes up gets more than
// the role's rights, and nothing happens that it does not name.
func TestWriteSetsAreChecked(t *testing.T) {
	var organisations [2]wire.Hash
	for i := range organisations {
		dsn, b, previous, rows := writeSetDatabase(t)
		// Each has a block of its own, so that none has another's turn.
		for i, c := range writeSetCases(rows) {
			previous = applyWriteSets(t, b, uint64(i+2), previous, []writeSetCase{c})
		}
		shows(t, dsn, map[string]string{
			"SELECT note FROM parents WHERE id = 1":                                        "twice",
			"SELECT string_agg(id::text, ',' ORDER BY id) FROM children":                   "1,3,52,55,61,64",
			"SELECT twice::text FROM children WHERE id = 52":                               "104",
			"SELECT last_value::text FROM chainify.sequences WHERE name LIKE '%drawn_id%'": "7",
			"SELECT count(*)::text FROM parents":                                           "21",
			verified:                                                                       "",
		})
		organisations[i] = previous
	}
	if organisations[0] != organisations[1] {
		t.Errorf("two organisations end with blocks %x and %x", organisations[0], organisations[1])
	}
}

// A write set takes the agreements that its changes take, as statements do. Rows that it only saw
// take none.
func TestWriteSetsTakeAgreements(t *testing.T) {
	dsn, b, previous, r := writeSetDatabase(t)
	registry := attestRegistry()
	b.cfg.Registry = func() (*wire.RegistryHistory, error) { return registry, nil }
	policy := orderedBlock(2, wire.Kind_KIND_DEPLOY, "SET AGREEMENT POLICY public.parents TO b")
	x, err := b.Execute(t.Context(), policy, previous)
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err != nil || !x.Results[0].Succeeded {
		t.Fatal(err, x.Results)
	}
	const parents, children = "public.parents", "public.children"
	saw := r.insert(children, "80, 5, 160")
	saw.Tables = append(saw.Tables, parents)
	saw.Seen = append(saw.Seen, wire.RowSeen{Table: 1, Key: r.key(parents, "5, NULL"), Present: true, Hash: r.hash(parents, "5, 'n5'")})
	applyWriteSets(t, b, 3, x.Hash, []writeSetCase{
		{name: "a change", set: r.change(parents, 'U', "5, 'n5'", "5, 'x'", 2), sqlstate: "CH009", says: "lacks the agreement of b"},
		{name: "a new row", set: r.insert(parents, "400, 'n400'"), sqlstate: "CH009", says: "lacks the agreement of b"},
		{name: "a row that was seen", set: saw},
	})
	shows(t, dsn, map[string]string{"SELECT string_agg(note, ',') FROM parents WHERE id IN (5, 6, 400)": "n5,n6", verified: ""})
}

// verified is what verification finds, but for certificates, which these blocks have none of.
const verified = "SELECT coalesce(string_agg(v::text, '; '), '') FROM chainify.verify_ledger() v WHERE v::text NOT LIKE '%certificate missing%'"

// Of the write sets of one block, those that saw a row come before the one that changes it, and of
// those that exclude each other the fewest lose. One that saw an older row takes no other's turn.
func TestWriteSetsOfABlockTakeTurns(t *testing.T) {
	dsn, b, first, r := writeSetDatabase(t)
	const parents, children = "public.parents", "public.children"
	update := func(id int, note string) *wire.WriteSet {
		return r.change(parents, 'U', fmt.Sprintf("%d, 'n%d'", id, id), fmt.Sprintf("%d, '%s'", id, note), 2)
	}
	saw := func(s *wire.WriteSet, id int) *wire.WriteSet {
		s.Seen = append(s.Seen, wire.RowSeen{Key: r.key(parents, fmt.Sprint(id, ", NULL")), Present: true, Hash: r.hash(parents, fmt.Sprintf("%d, 'n%d'", id, id))})
		return s
	}
	// reads makes an insert SERIALIZABLE, which has read the parents with ids from lower on.
	reads := func(row string, lower ...int) *wire.WriteSet {
		s := r.insert(children, row)
		s.Isolation, s.Snapshot, s.Tables = wire.Serializable, 1, []string{children, parents}
		s.Reads = []wire.Read{{Table: 1}}
		for _, id := range lower {
			s.Reads[0].Bounds = append(s.Reads[0].Bounds, wire.Bound{Ordinal: 1, Lower: wire.End{Kind: 2, Value: r.cell(parents, fmt.Sprintf("%d, ''", id), 1).Value}})
		}
		return s
	}
	stale := r.change(parents, 'U', "9, 'older'", "9, 'stale'", 2)
	stale.Changes = append(stale.Changes, update(10, "stale").Changes...)
	applyWriteSets(t, b, 2, first, []writeSetCase{
		{name: "a writer of row 1", set: update(1, "written")},
		{name: "a reader of row 1", set: saw(update(2, "after a reader"), 1)},
		{name: "three that exclude each other: the first", set: saw(update(4, "a"), 5), sqlstate: "40001", says: "by transaction 3"},
		{name: "three that exclude each other: the second", set: saw(update(5, "b"), 6)},
		{name: "three that exclude each other: the third", set: saw(update(6, "c"), 4)},
		{name: "one that saw an older row", set: stale, sqlstate: "40001", says: "row (9)"},
		{name: "another one with a row of its", set: update(10, "fresh")},
		{name: "the only key", set: r.insert(children, "70, 5, 140"), sqlstate: "40001", says: `row (70) of table "public.children" is changed by others of the block`},
		{name: "the same key", set: r.insert(children, "70, 6, 140")},
		{name: "an insert", set: r.insert(parents, "300, 'n300'")},
		{name: "a reader of rows like it", set: reads("71, 5, 142", 200)},
		{name: "a reader of all rows", set: reads("72, 5, 144")},
	})
	shows(t, dsn, map[string]string{
		"SELECT string_agg(id || note, ',' ORDER BY id) FROM parents WHERE note !~ '^n'":               "1written,2after a reader,5b,6c,10fresh",
		"SELECT parent::text FROM children WHERE id = 70":                                              "6",
		"SELECT string_agg(_tx::text, ',' ORDER BY id) FROM chainify_history.parents WHERE _block = 2": "0,1,3,4,6,9",
		verified: "",
	})
}
