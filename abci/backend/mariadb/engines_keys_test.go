package mariadb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// Three tables, each of which refers to the one before: by a primary key, by a unique key, by a
// column of a key of two.
const (
	keysPG = `CREATE TABLE public.parent (id bigint PRIMARY KEY, code varchar(10) NOT NULL UNIQUE, n integer);
		CREATE TABLE public.child (id bigint PRIMARY KEY, parent bigint REFERENCES parent (id) %s, code varchar(10) REFERENCES parent (code) %s, mark integer UNIQUE,
			CHECK (mark > 2 OR id < 9));
		CREATE TABLE public.grand (a integer, b integer, child bigint NOT NULL REFERENCES child (id) %s, PRIMARY KEY (a, b));
		GRANT ALL ON public.parent, public.child, public.grand TO engines_ops`
	keysMariaDB = `CREATE TABLE engines.parent (id BIGINT PRIMARY KEY, code VARCHAR(10) NOT NULL UNIQUE, n INT);
		CREATE TABLE engines.child (id BIGINT PRIMARY KEY, parent BIGINT REFERENCES engines.parent (id) %s, code VARCHAR(10) REFERENCES engines.parent (code) %s, mark INT UNIQUE,
			CHECK (mark > 2 OR id < 9));
		CREATE TABLE engines.grand (a INT, b INT, child BIGINT NOT NULL REFERENCES engines.child (id) %s, PRIMARY KEY (a, b));
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.parent TO engines_ops; GRANT SELECT, INSERT, UPDATE, DELETE ON engines.child TO engines_ops;
		GRANT SELECT, INSERT, UPDATE, DELETE ON engines.grand TO engines_ops`
	keysBlocks = 80 // with each of keysActions
	keysMost   = 12 // values of each column
)

// keysActions are what the three tables' foreign keys do on deletion, in order.
var keysActions = [][]any{{"", "", ""}, {"ON DELETE CASCADE", "ON DELETE CASCADE", "ON DELETE CASCADE"}, {"ON DELETE SET NULL", "", "ON DELETE CASCADE"}, {"", "ON DELETE SET NULL", ""}}

// keyed is a table of these, its columns in order.
type keyed struct {
	name    string
	columns []string
	types   []string
	key     int // of the columns, how many are the primary key
}

var keyedTables = []keyed{
	{"child", []string{"id", "parent", "code", "mark"}, []string{"bigint", "bigint", "varchar(10)", "integer"}, 1},
	{"grand", []string{"a", "b", "child"}, []string{"integer", "integer", "bigint"}, 2},
	{"parent", []string{"id", "code", "n"}, []string{"bigint", "varchar(10)", "integer"}, 1},
}

// keysGenerator makes transactions on rows that foreign keys connect.
type keysGenerator struct {
	*rand.Rand
	*testing.T
	tables []keyed
	rows   [][][]*string // as they are before the block, by table
}

// Random statements and write sets on tables that foreign keys connect, with rows that change their
// keys, have the same LedgerBlockHash in both engines.
func TestEnginesAgreeOnForeignKeysAndChangedKeys(t *testing.T) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	random, counts := seeded.Random(t), map[string]int{}
	for _, actions := range keysActions {
		t.Run(fmt.Sprint(actions...), func(t *testing.T) {
			agreeOnKeys(t, &keysGenerator{Rand: random, T: t, tables: keyedTables}, pg, my, actions, counts)
		})
	}
	t.Logf("transactions by kind and SQLSTATE: %v", counts)
	for _, want := range []string{"KIND_SQL ", "KIND_EFFECTS ", "KIND_SQL 23503", "KIND_SQL 23505", "KIND_EFFECTS 40001"} {
		if counts[want] < 50 {
			t.Errorf("only %d of %q", counts[want], want)
		}
	}
}

// agreeOnKeys compares the engines with one kind of foreign keys.
func agreeOnKeys(t *testing.T, g *keysGenerator, pg, my string, actions []any, counts map[string]int) {
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	engines[0].tamper(fmt.Sprintf(keysPG, actions...))
	engines[1].tamper(fmt.Sprintf(keysMariaDB, actions...))
	conn, err := pgx.Connect(t.Context(), pg+" dbname=engines")
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	attach := enginesBlock(1, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.parent, public.child, public.grand ENCODING 2"})
	if a, b := engines[0].commit(t, attach), engines[1].commit(t, attach); a.Hash != b.Hash {
		t.Fatalf("attach: headers %+v, %+v", headerOf(t, a), headerOf(t, b))
	}
	for n := uint64(2); n < 2+keysBlocks; n++ {
		g.look(conn)
		proposals := g.proposals()
		block := enginesBlock(n, proposals...)
		block.Round = 1
		a, b := engines[0].commit(t, block), engines[1].commit(t, block)
		for i := range proposals {
			x, y, p := a.Results[i], b.Results[i], proposals[i]
			if x.Succeeded != y.Succeeded || x.Rows != y.Rows && x.Succeeded && p.Kind == wire.Kind_KIND_SQL || a.Effects[i] != b.Effects[i] {
				t.Errorf("block %d, transaction %d, %s %s: PostgreSQL %+v, MariaDB %+v", n, i, p.Sql, g.words(p), x, y)
			}
			counts[fmt.Sprint(p.Kind, " ", x.SQLState)]++
		}
		if a.Hash != b.Hash {
			t.Fatalf("block %d: %s", n, difference(t, a, b, engines))
		}
	}
}

// look reads the rows that the next block begins with.
func (g *keysGenerator) look(conn *pgx.Conn) {
	g.rows = make([][][]*string, len(g.tables))
	for i, table := range g.tables {
		columns := make([]string, len(table.columns))
		for j, c := range table.columns {
			columns[j] = c + "::text"
		}
		rows, err := conn.Query(g.Context(), "SELECT ARRAY["+strings.Join(columns, ", ")+"] FROM public."+table.name)
		if err == nil {
			g.rows[i], err = pgx.CollectRows(rows, pgx.RowTo[[]*string])
		}
		if err != nil {
			g.Fatal(err)
		}
	}
	for i := range g.rows {
		slices.SortFunc(g.rows[i], func(a, b []*string) int { return strings.Compare(inOrder(a), inOrder(b)) })
	}
}

func inOrder(row []*string) string {
	out := ""
	for _, v := range row {
		if v != nil {
			out += *v
		}
		out += "|"
	}
	return out
}

func (g *keysGenerator) proposals() []*wire.Proposal {
	var all []*wire.Proposal
	for range 8 {
		all = append(all, &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: g.statement()}, g.writeSet())
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (g *keysGenerator) number() string { return fmt.Sprint(g.IntN(keysMost)) }
func (g *keysGenerator) code() string   { return fmt.Sprintf("'c%d'", g.IntN(keysMost)) }

func (g *keysGenerator) orNull(value string) string {
	if g.IntN(4) == 0 {
		return "NULL"
	}
	return value
}

// statement is one of the subset, or an update of a key, which is refused.
func (g *keysGenerator) statement() string {
	child := func() string {
		return fmt.Sprintf("(%s, %s, %s, %s)", g.number(), g.orNull(g.number()), g.orNull(g.code()), g.orNull(g.number()))
	}
	switch g.IntN(16) {
	case 0, 1:
		return fmt.Sprintf("INSERT INTO parent (id, code, n) VALUES (%s, %s, %s)", g.number(), g.code(), g.number())
	case 2:
		return fmt.Sprintf("INSERT INTO parent (id, code, n) VALUES (%s, %s, 1), (%s, %s, 2)", g.number(), g.code(), g.number(), g.code())
	case 3:
		return "DELETE FROM parent WHERE " + g.pick("id = "+g.number(), "code = "+g.code(), "n = "+g.number(), "id > "+g.number())
	case 4:
		return "UPDATE parent SET n = n + 1 WHERE id <> " + g.number()
	case 5, 6:
		return "INSERT INTO child (id, parent, code, mark) VALUES " + child()
	case 7:
		return "INSERT INTO child (id, parent, code, mark) VALUES " + child() + ", " + child()
	case 8:
		return "UPDATE child SET parent = " + g.orNull(g.number()) + " WHERE " + g.pick("id = "+g.number(), "parent = "+g.number(), "code IS NULL")
	case 9:
		return "UPDATE child SET code = " + g.orNull(g.code()) + ", parent = " + g.orNull(g.number()) + " WHERE id < " + g.number()
	case 10:
		return "DELETE FROM child WHERE " + g.pick("id = "+g.number(), "parent = "+g.number(), "code = "+g.code(), "mark IS NULL")
	case 11, 12:
		return fmt.Sprintf("INSERT INTO grand (a, b, child) VALUES (%s, %s, %s)", g.number(), g.number(), g.number())
	case 13:
		return "UPDATE grand SET child = " + g.number() + " WHERE a = " + g.number()
	case 14:
		return "DELETE FROM grand WHERE " + g.pick("a = "+g.number(), "child = "+g.number())
	}
	return g.pick("UPDATE parent SET id = "+g.number(), "UPDATE parent SET code = "+g.code(), "UPDATE child SET mark = 1 WHERE id = "+g.number(), "UPDATE grand SET b = 1")
}

func (g *keysGenerator) pick(list ...string) string { return list[g.IntN(len(list))] }

// set is a write set in the making.
type set struct {
	*testing.T
	tables  []keyed
	changes map[int][]wire.RowChange // by table
	order   []int                    // tables of the changes, in their order
}

// writeSet changes some rows of some tables: inserts, deletes, updates, and rows that change their
// keys by a delete and an insert in either order.
func (g *keysGenerator) writeSet() *wire.Proposal {
	s := &set{T: g.T, tables: g.tables, changes: map[int][]wire.RowChange{}}
	for range 1 + g.IntN(3) {
		table := g.IntN(len(g.tables))
		rows := g.rows[table]
		if len(rows) == 0 || g.IntN(4) == 0 {
			s.insert(table, g.fresh(table))
			continue
		}
		row := rows[g.IntN(len(rows))]
		next := slices.Clone(row)
		switch g.IntN(5) {
		case 0:
			s.remove(table, row, g.IntN(10) == 0)
		case 1, 2:
			for range 1 + g.IntN(2) {
				at := g.tables[table].key + g.IntN(len(row)-g.tables[table].key)
				next[at] = g.fresh(table)[at]
			}
			s.update(table, row, next, g.IntN(10) == 0)
		case 3:
			next[0] = g.fresh(table)[0]
			s.remove(table, row, false)
			s.insert(table, next)
		case 4:
			next[0] = g.fresh(table)[0]
			s.insert(table, next)
			s.remove(table, row, false)
		}
	}
	if len(s.order) == 0 { // an update that changes nothing
		s.insert(2, g.fresh(2))
	}
	return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.encode()}
}

// fresh draws a row.
func (g *keysGenerator) fresh(table int) []*string {
	row := make([]*string, len(g.tables[table].columns))
	for i, c := range g.tables[table].columns {
		text := g.number()
		if c == "code" {
			text = "c" + text
		}
		nullable := table == 0 && i > 0 || c == "n"
		if !nullable || g.IntN(4) > 0 {
			row[i] = &text
		}
	}
	return row
}

// values are the columns of a row from one to another.
func (s *set) values(table int, row []*string, to int) []byte {
	s.Helper()
	var columns []canonical.Column
	for i, text := range row[:to] {
		if text == nil {
			continue
		}
		v, err := canonical.ParseText(s.tables[table].types[i], *text)
		if err != nil {
			s.Fatal(err)
		}
		columns = append(columns, canonical.Column{Ordinal: uint16(i + 1), Value: v})
	}
	raw, err := canonical.AppendRow(nil, columns)
	if err != nil {
		s.Fatal(err)
	}
	return raw
}

func (s *set) add(table int, c wire.RowChange) {
	s.changes[table], s.order = append(s.changes[table], c), append(s.order, table)
}

func (s *set) insert(table int, row []*string) {
	s.add(table, wire.RowChange{Op: 'I', Row: s.values(table, row, len(row))})
}

func (s *set) hash(table int, row []*string, wrong bool) wire.Hash {
	raw := s.values(table, row, len(row))
	if wrong {
		raw = append(raw, 0)
	}
	return wire.RowHash("public."+s.tables[table].name, raw)
}

func (s *set) remove(table int, row []*string, wrong bool) {
	s.add(table, wire.RowChange{Op: 'D', Row: s.values(table, row, s.tables[table].key), Before: s.hash(table, row, wrong)})
}

func (s *set) update(table int, row, next []*string, wrong bool) {
	s.Helper()
	c := wire.RowChange{Op: 'U', Row: s.values(table, row, s.tables[table].key), Before: s.hash(table, row, wrong)}
	for i := range row {
		if inOrder(row[i:i+1]) == inOrder(next[i:i+1]) {
			continue
		}
		cell := make([]byte, 5) // NULL
		if next[i] != nil {
			v, err := canonical.ParseText(s.tables[table].types[i], *next[i])
			if err == nil {
				cell, err = v.Append(nil)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
		c.Cells = append(c.Cells, wire.Cell{Ordinal: uint16(i + 1), Value: cell})
	}
	if len(c.Cells) > 0 {
		s.add(table, c)
	}
}

// encode puts the changes in their order, with the tables that they are of.
func (s *set) encode() []byte {
	w := &wire.WriteSet{Isolation: wire.ReadCommitted}
	places := map[int]uint16{}
	for table := range s.tables {
		if len(s.changes[table]) > 0 {
			places[table] = uint16(len(w.Tables))
			w.Tables = append(w.Tables, "public."+s.tables[table].name)
		}
	}
	taken := map[int]int{}
	for _, table := range s.order {
		c := s.changes[table][taken[table]]
		taken[table]++
		c.Table = places[table]
		w.Changes = append(w.Changes, c)
	}
	return w.Encode()
}

// words are those of a write set.
func (g *keysGenerator) words(p *wire.Proposal) string {
	if p.Kind != wire.Kind_KIND_EFFECTS {
		return ""
	}
	s, err := wire.DecodeWriteSet(p.Effects)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, c := range s.Changes {
		row, err := canonical.DecodeRow(c.Row)
		out += fmt.Sprintf("%c %s", c.Op, s.Tables[c.Table])
		for i := range row {
			out += fmt.Sprintf(" %d=%d%s", row[i].Ordinal, row[i].Value.Number, row[i].Value.Text)
		}
		for _, cell := range c.Cells {
			out += fmt.Sprintf(" cell %d %x", cell.Ordinal, cell.Value)
		}
		if err != nil {
			out += err.Error()
		}
		out += "; "
	}
	return out
}
