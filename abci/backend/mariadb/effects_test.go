package mariadb

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// chain executes and commits blocks one after the other.
type chain struct {
	*testing.T
	b  *Backend
	at backend.Position
}

func (o *organisation) chain(t *testing.T) *chain {
	b := o.open(t)
	return &chain{t, b, connected(t, b)}
}

func (c *chain) commit(proposals ...proposal) backend.Execution {
	c.Helper()
	x, err := c.b.Execute(c.Context(), blockOf(c.at.Number+1, proposals...), c.at.Hash)
	if err == nil {
		err = c.b.Commit(c.Context())
	}
	if err != nil {
		c.Fatal(err)
	}
	c.at.Number, c.at.Hash = c.at.Number+1, x.Hash
	return x
}

func (c *chain) attach(tables string) {
	c.Helper()
	x := c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH TABLE " + tables + " ENCODING 2"})
	if !x.Results[0].Succeeded {
		c.Fatalf("attach %s: %+v", tables, x.Results[0])
	}
}

func sqlOf(text string) proposal { return proposal{kind: wire.Kind_KIND_SQL, sql: text} }

func number(ordinal uint16, n int64) canonical.Column {
	return canonical.Column{Ordinal: ordinal, Value: canonical.Value{Tag: canonical.Integer, Number: n}}
}

func text(ordinal uint16, s string) canonical.Column {
	return canonical.Column{Ordinal: ordinal, Value: canonical.Value{Tag: canonical.Text, Text: s}}
}

func encoded(t *testing.T, columns ...canonical.Column) []byte {
	t.Helper()
	row, err := canonical.AppendRow(nil, columns)
	must.Do(t, err)
	return row
}

func effectsOf(s *wire.WriteSet) proposal {
	s.Isolation, s.Tables = wire.ReadCommitted, []string{"public.items"}
	return proposal{kind: wire.Kind_KIND_EFFECTS, effects: s.Encode()}
}

func cell(t *testing.T, c canonical.Column) wire.Cell {
	t.Helper()
	raw, err := c.Value.Append(nil)
	must.Do(t, err)
	return wire.Cell{Ordinal: c.Ordinal, Value: raw}
}

func TestWriteSetsAreAppliedAsTheirClientsSawTheRows(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	const table = "public.items"
	hash := func(columns ...canonical.Column) wire.Hash { return wire.RowHash(table, encoded(t, columns...)) }
	key := func(n int64) []byte { return encoded(t, number(1, n)) }
	first := hash(number(1, 1), text(2, "first"))
	proposals := []proposal{
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{
			{Op: 'I', Row: encoded(t, number(1, 2), text(2, "it's \\ \"2\""))}, {Op: 'U', Before: first, Row: key(1), Cells: []wire.Cell{cell(t, text(2, "one"))}},
		}}),
		// The row is another one by now, which the first one made.
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'U', Before: first, Row: key(1), Cells: []wire.Cell{cell(t, text(2, "lost"))}}}}),
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'I', Row: key(2)}}}),                // is there
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'D', Before: first, Row: key(9)}}}), // is not
		effectsOf(&wire.WriteSet{
			Changes: []wire.RowChange{{Op: 'I', Row: key(3)}}, Seen: []wire.RowSeen{{Key: key(1), Present: true, Hash: first}},
		}),
		effectsOf(&wire.WriteSet{
			Changes: []wire.RowChange{{Op: 'I', Row: key(4)}},
			Seen:    []wire.RowSeen{{Key: key(1), Present: true, Hash: hash(number(1, 1), text(2, "one"))}, {Key: key(5)}},
		}),
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{
			{Op: 'D', Before: hash(number(1, 1), text(2, "one")), Row: key(1)}, {Op: 'I', Row: encoded(t, number(1, 1), text(2, ""))},
		}}),
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'I', Row: encoded(t, number(1, 6), number(2, 6))}}}),    // of another type
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'I', Row: encoded(t, number(1, 6), text(2, "\x00"))}}}), // no text of PostgreSQL's
		effectsOf(&wire.WriteSet{Changes: []wire.RowChange{
			{Op: 'I', Row: encoded(t, number(1, 6), text(2, strings.Repeat("é", 41)))},
		}}),
	}
	changes := 0
	for i, want := range []string{"", "40001", "40001", "40001", "40001", "", "", "CH011", "CH011", "22001"} {
		x := c.commit(proposals[i])
		if r := x.Results[0]; r.SQLState != want || r.Succeeded != (want == "") {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
		if m := x.Results[0].Message; i == 1 && m != `row (1) of table "public.items" is not as the transaction saw it` {
			t.Errorf("message %q", m)
		}
		header, err := wire.DecodeHeader(x.Header)
		must.Do(t, err)
		changes += int(header.EffectsCount)
	}
	var all string
	err := o.root.QueryRow("SELECT GROUP_CONCAT(id, '=', coalesce(name, 'NULL') ORDER BY id SEPARATOR '|') FROM " + o.name + ".items").Scan(&all)
	if want := `1=|2=it's \ "2"|4=NULL`; err != nil || all != want {
		t.Errorf("rows %s, %v, want %s", all, err, want)
	}
	if changes != 5 {
		t.Errorf("%d changes", changes)
	}
}

// A SERIALIZABLE transaction fails when a row that came since its snapshot lies in a read of it, in
// an earlier block or in this one. Bounds need the right to read their columns.
func TestReadsOfSerializableTransactionsAreCompared(t *testing.T) {
	o := fresh(t, items, `CREATE TABLE %.dark (id BIGINT PRIMARY KEY, n BIGINT); GRANT INSERT ON %.dark TO effects_ops`)
	c := o.chain(t)
	c.attach("public.items, public.dark")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (5, 'five')"))
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (6, 'six')"))
	value := func(n int64) []byte { return cell(t, number(1, n)).Value }
	between := func(lower, upper int64) wire.Bound {
		return wire.Bound{Ordinal: 1, Lower: wire.End{Kind: 2, Value: value(lower)}, Upper: wire.End{Kind: 2, Value: value(upper)}}
	}
	next := int64(100)
	reading := func(snapshot uint64, table string, bounds ...wire.Bound) proposal {
		next++
		s := &wire.WriteSet{Snapshot: snapshot, Isolation: wire.Serializable, Tables: []string{"public.items"}}
		s.Changes = []wire.RowChange{{Op: 'I', Row: encoded(t, number(1, next))}}
		read := wire.Read{Bounds: bounds}
		if table != "public.items" {
			s.Tables = []string{table, "public.items"}
			s.Changes[0].Table = 1
		}
		s.Reads = []wire.Read{read}
		return proposal{kind: wire.Kind_KIND_EFFECTS, effects: s.Encode()}
	}
	for name, want := range map[string]struct {
		proposal
		state string
	}{
		"a row since the snapshot":     {reading(2, "public.items", between(6, 6)), "40001"},
		"no row since the snapshot":    {reading(2, "public.items", between(5, 5)), ""},
		"rows since the attach":        {reading(1, "public.items", between(5, 9)), "40001"},
		"before the attach":            {reading(0, "public.items", between(70, 90)), "40001"},
		"a snapshot that is not there": {reading(90, "public.items", between(5, 5)), "22023"},
		"a whole table":                {reading(2, "public.items"), "40001"},
		"a whole table of no rights":   {reading(2, "public.dark"), ""},
		"bounds without rights":        {reading(2, "public.dark", between(1, 2)), "42501"},
	} {
		x := c.commit(want.proposal)
		if r := x.Results[0]; r.SQLState != want.state || r.Succeeded != (want.state == "") {
			t.Errorf("%s: %+v, want %q", name, r, want.state)
		}
	}
	// In one run the reader of a range takes its turn before the one that puts a row there.
	insert := effectsOf(&wire.WriteSet{Changes: []wire.RowChange{{Op: 'I', Row: encoded(t, number(1, 50))}}})
	x := c.commit(insert, reading(c.at.Number, "public.items", between(50, 60)), sqlOf("DELETE FROM items WHERE id = 50"), reading(c.at.Number, "public.items", between(50, 60)))
	for i, want := range []string{"", "", "", "40001"} {
		if r := x.Results[i]; r.SQLState != want {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
	}
}

// Readers of a row come before its writer, and of two writers one loses, as spec/scheduling.md has
// it. Another kind of transaction ends the run.
func TestWriteSetsTakeTurns(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	hash := func(id int64, name string) wire.Hash {
		return wire.RowHash("public.items", encoded(t, number(1, id), text(2, name)))
	}
	update := func(id int64, before, after string) proposal {
		return effectsOf(&wire.WriteSet{Changes: []wire.RowChange{
			{Op: 'U', Before: hash(id, before), Row: encoded(t, number(1, id)), Cells: []wire.Cell{cell(t, text(2, after))}},
		}})
	}
	sees := func(insert int64) proposal {
		return effectsOf(&wire.WriteSet{
			Changes: []wire.RowChange{{Op: 'I', Row: encoded(t, number(1, insert))}},
			Seen:    []wire.RowSeen{{Key: encoded(t, number(1, 1)), Present: true, Hash: hash(1, "first")}},
		})
	}
	x := c.commit(update(1, "first", "one"), sees(10), update(2, "second", "a"), update(2, "second", "b"),
		sqlOf("INSERT INTO items (id, name) VALUES (20, 'x')"), sees(11), update(1, "one", "uno"))
	for i, want := range []string{"", "", "40001", "", "", "40001", ""} {
		if r := x.Results[i]; r.SQLState != want || r.Succeeded != (want == "") || r.Index != uint32(i) {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
	}
	if m := x.Results[2].Message; m != `row (2) of table "public.items" is changed by others of the block: by transaction 3` {
		t.Errorf("message %q", m)
	}
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Errorf("the rows are not those of the running state (%v)", err)
	}
}

// The running state is that of the rows, however they came about.
func TestTheStateOfATableIsThatOfItsRows(t *testing.T) {
	o := fresh(t, `CREATE TABLE %.v (id INT PRIMARY KEY, s SMALLINT, b BIGINT, n DECIMAL(20,4), d DOUBLE, ok TINYINT(1) CHECK (ok IN (0,1)), t LONGTEXT,
		v VARCHAR(10) UNIQUE, raw LONGBLOB, day DATE, clock TIME(6), ts DATETIME(6), tz DATETIME(6) COMMENT 'timestamptz', u UUID, j JSON,
		def VARCHAR(10) DEFAULT 'it''s', num INT NOT NULL DEFAULT 7);
		GRANT SELECT, INSERT, UPDATE, DELETE ON %.v TO effects_ops`)
	c := o.chain(t)
	c.attach("public.v")
	x := c.commit(
		sqlOf(`INSERT INTO v (id, s, b, n, ok, t, v, raw, day, clock, ts, tz, u, j) VALUES
			(1, -32768, 9223372036854775807, 12.5, TRUE, 'a ''é'' 😀 \n', 'x ', '\x00ff', '0001-01-01', '24:00:00', '9999-12-31 23:59:59.999999',
			'2024-02-29 12:00:00.5+00', '00112233-4455-6677-8899-aabbccddeeff', '{"b": [1.0, 2], "a": null}'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
			NULL, NULL, NULL, NULL, NULL)`),
		sqlOf(`UPDATE v SET n = n + 0.0001, t = t || '!', b = b - 1 WHERE id = 1 AND ok = TRUE AND v = 'x '`),
		sqlOf(`UPDATE v SET b = b + 1000 WHERE id = 1`),
		sqlOf(`UPDATE v SET s = 5 WHERE v = 'x'`), // no row: a blank counts
		sqlOf(`DELETE FROM v WHERE day IS NULL`),
		sqlOf(`INSERT INTO v (id, v) VALUES (3, 'x ')`),
		sqlOf(`UPDATE v SET num = NULL`),
		sqlOf(`INSERT INTO v (id, d) VALUES (3, 1.5)`),
		sqlOf(`SELECT 1`),
	)
	states := []string{"", "", "22003", "", "", "23505", "23502", "CH011", "CH011"}
	for i, want := range states {
		if r := x.Results[i]; r.SQLState != want || r.Succeeded != (want == "") {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
	}
	if rows := []int64{x.Results[0].Rows, x.Results[1].Rows, x.Results[3].Rows, x.Results[4].Rows}; rows[0] != 2 || rows[1] != 1 || rows[2] != 0 || rows[3] != 1 {
		t.Errorf("rows %v", rows)
	}
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Errorf("the rows are not those of the running state (%v)", err)
	}
	reading, err := c.b.Read(t.Context(), c.at.Number, c.at.Hash)
	must.Do(t, err)
	defer reading.Close()
	told := 0
	err = reading.Rows(t.Context(), "public.v", backend.All(), func(cells []byte) error {
		decoded, err := canonical.DecodeCells(cells)
		if err != nil || len(decoded) != 17 || *decoded[7] != "12.5001" {
			t.Errorf("cells %q, %v", cells, err)
		}
		told++
		return err
	})
	if err != nil || told != 1 {
		t.Errorf("%d rows, %v", told, err)
	}
}

func TestRightsAreThoseOfTheClientsRole(t *testing.T) {
	o := fresh(t, items, `CREATE TABLE %.hidden (id BIGINT PRIMARY KEY)`)
	c := o.chain(t)
	c.attach("public.items, public.hidden")
	o.run(t, "REVOKE DELETE ON "+o.name+".items FROM effects_ops")
	x := c.commit(sqlOf("DELETE FROM items"), sqlOf("INSERT INTO hidden (id) VALUES (1)"), sqlOf("INSERT INTO items (id) VALUES (2)"))
	for i, want := range []string{"42501", "42501", ""} {
		if r := x.Results[i]; r.SQLState != want {
			t.Errorf("transaction %d: %+v, want %q", i, r, want)
		}
	}
	o.run(t, "REVOKE "+o.name+"_admin FROM effects_ops")
	x = c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH TABLE public.items"})
	if r := x.Results[0]; r.SQLState != "42501" {
		t.Errorf("detach without the role: %+v", r)
	}
	// The node's user alone, without a role, has no right at all.
	conn, err := c.b.pool.Conn(t.Context())
	must.Do(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "SET ROLE NONE"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "DELETE FROM "+o.name+".items"); errorNumber(err) != 1142 {
		t.Errorf("without a role: %v", err)
	}
}

func TestWritesOutsideOfABlockAreRefused(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	for _, statement := range []string{"UPDATE %.items SET name = 'x'", "INSERT INTO %.items VALUES (7, 'x')", "DELETE FROM %.items"} {
		if _, err := o.root.Exec(strings.ReplaceAll(statement, "%", o.name)); errorNumber(err) != 1146 {
			t.Errorf("%s: %v", statement, err)
		}
	}
	c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH TABLE public.items"})
	o.run(t, "UPDATE "+o.name+".items SET name = 'x'")
}

// A dropped trigger would let changes pass; a table that was altered is not the agreed one.
func TestDefinitionsThatWereChangedAreFound(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	found, err := readTriggers(t.Context(), o.root, c.b.name)
	if err != nil || len(found) != 3 {
		t.Fatalf("triggers %v, %v", found, err)
	}
	for name := range found {
		o.run(t, "DROP TRIGGER "+o.name+"."+name)
	}
	if err := c.b.Scrub(t.Context()); err != nil || !connected(t, c.b).Deviates {
		t.Errorf("no triggers: %v", err)
	}
	if _, err := c.b.Repair(t.Context(), backend.Definitions, c.at.Number, c.at.Hash, c.at.Number, wire.Hash{}); err != nil {
		t.Fatal(err)
	}
	if found, err := readTriggers(t.Context(), o.root, c.b.name); err != nil || len(found) != 3 {
		t.Errorf("after the repair: triggers %v, %v", found, err)
	}
	if _, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, wire.Hash{}); err != nil || connected(t, c.b).Deviates {
		t.Fatal(err)
	}
	o.run(t, strings.ReplaceAll("CREATE TRIGGER %.chainify_more BEFORE UPDATE ON %.items FOR EACH ROW SET NEW.name = 'owned'", "%", o.name))
	if err := c.b.Scrub(t.Context()); err != nil || !connected(t, c.b).Deviates {
		t.Errorf("a trigger more: %v", err)
	}
	if _, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, wire.Hash{}); err != nil || connected(t, c.b).Deviates {
		t.Fatal(err)
	}
	o.run(t, "ALTER TABLE "+o.name+".items ADD UNIQUE (name)")
	if err := c.b.Scrub(t.Context()); err != nil || !connected(t, c.b).Deviates {
		t.Errorf("another definition: %v", err)
	}
}

func TestTablesThatEnginesDoNotShareAreRefused(t *testing.T) {
	for definition, why := range map[string]string{
		"CREATE TABLE %.x (id BIGINT)":                                                                              "key",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n DECIMAL(65,30), f FLOAT)":                                       "type float",
		"CREATE TABLE %.x (id BIGINT AUTO_INCREMENT PRIMARY KEY)":                                                   "auto_increment",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n VARCHAR(5) COLLATE utf8mb4_general_ci)":                         "collation",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n INT CHECK (n + 1 > 0))":                                         "check",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n DATETIME(6) DEFAULT NOW(6))":                                    "default",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n INT AS (id + 1))":                                               "GENERATED",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, up BIGINT REFERENCES %.items (id) ON UPDATE CASCADE)":             "of another kind",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, up BIGINT REFERENCES %.x (id))":                                   "which refers to table",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, item BIGINT REFERENCES %.items (id))":                             "attach them together",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY) ENGINE=MyISAM":                                                    "InnoDB",
		"CREATE TABLE %.x (`Id` BIGINT PRIMARY KEY)":                                                                "name",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n TINYINT(1))":                                                    "boolean",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY, n LONGTEXT, UNIQUE (n(5)))":                                       "beginning",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2":                              "partitions",
		"CREATE TABLE %.x (id BIGINT PRIMARY KEY); CREATE TRIGGER %.y BEFORE INSERT ON %.x FOR EACH ROW SET @a = 1": "trigger",
	} {
		t.Run(why, func(t *testing.T) {
			o := fresh(t, items, definition)
			c := o.chain(t)
			x := c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH TABLE public.x ENCODING 2"})
			if r := x.Results[0]; r.SQLState != "0A000" || !strings.Contains(r.Message, why) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A commit whose connection is lost has either happened or not, and the position says which.
func TestALostConnectionRollsBackAndComesBack(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	next := itemsBlock(2)
	if _, err := c.b.Execute(t.Context(), next, c.at.Hash); err != nil {
		t.Fatal(err)
	}
	if _, err := o.root.ExecContext(context.Background(), "KILL CONNECTION ?", c.b.id); err != nil {
		t.Fatal(err)
	}
	if err := c.b.Commit(t.Context()); err == nil {
		t.Fatal("a lost connection commits")
	}
	if p := connected(t, c.b); p.Number != 1 {
		t.Fatalf("position %+v", p)
	}
	x, err := c.b.Execute(t.Context(), next, c.at.Hash)
	if err != nil || !x.Results[0].Succeeded {
		t.Fatalf("%+v, %v", x, err)
	}
	must.Do(t, c.b.Commit(t.Context()))
}

func TestNoServerIsAnErrorInTime(t *testing.T) {
	b, err := New(Config{DSN: "nobody@unix(/nonexistent)/none", ChainID: "test", Organisation: "a"})
	must.Do(t, err)
	defer func() { _ = b.Close() }()
	began := time.Now()
	if _, err := b.Position(t.Context()); err == nil || time.Since(began) > 10*time.Minute {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
}

// A retry puts the rows right that the block changes, and nothing when the block still differs.
func TestARetryPutsTouchedRowsRight(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("UPDATE items SET name = 'second' WHERE id = 1"))
	next := blockOf(3, sqlOf("UPDATE items SET name = name || '!' WHERE id = 1"))
	good, err := c.b.Execute(t.Context(), next, c.at.Hash)
	must.Do(t, err)
	must.Do(t, c.b.Rollback(t.Context()))
	o.unguarded(t, "UPDATE %D.items SET name = 'tampered'")
	bad, err := c.b.Retry(t.Context(), next, c.at.Hash, wire.Hash{1})
	if err != nil || bad.Hash == good.Hash {
		t.Fatalf("a hash that nothing gives: %x, %v", bad.Hash, err)
	}
	x, err := c.b.Retry(t.Context(), next, c.at.Hash, good.Hash)
	if err != nil || x.Hash != good.Hash {
		t.Fatalf("%x, %v, want %x", x.Hash, err, good.Hash)
	}
	must.Do(t, c.b.Commit(t.Context()))
	if err := c.b.Scrub(t.Context()); err != nil || connected(t, c.b).Deviates {
		t.Errorf("after the retry: %v", err)
	}
	must.Do(t, c.b.RecordDeviation(t.Context(), 3, good.Hash, bad.Hash, "retry", time.Second))
	var count int
	var cured, expected, was string
	row := o.root.QueryRow(names{o.name}.in("SELECT count(*), min(d.cured_by), min(r.expected), min(r.found) FROM %L.deviation d JOIN %L.deviation_row r ON r.deviation = d.id"))
	if err := row.Scan(&count, &cured, &expected, &was); err != nil || count != 1 || cured != "retry" || !strings.Contains(expected, "second") || !strings.Contains(was, "tampered") {
		t.Errorf("%d recorded, cured by %s: %s, found %s, %v", count, cured, expected, was, err)
	}
}

// Where history and base tell rows that the table cannot have, the block comes out otherwise: it is
// for recovery to go on, and no failure of the database.
func TestARetryOverImpossibleRowsIsADeviation(t *testing.T) {
	for _, row := range []string{"x'0000'", "x'ff'"} {
		o := fresh(t, items)
		c := o.chain(t)
		c.attach("public.items")
		c.commit(sqlOf("UPDATE items SET name = 'second' WHERE id = 1"))
		next := blockOf(3, sqlOf("UPDATE items SET name = name || '!' WHERE id = 1"))
		o.unguarded(t, "UPDATE %D.items SET name = 'tampered'; UPDATE %L.history SET row_bytes = "+row)
		bad, err := c.b.Execute(t.Context(), next, c.at.Hash)
		must.Do(t, err)
		x, err := c.b.Retry(t.Context(), next, c.at.Hash, wire.Hash{1})
		if err != nil || x.Hash != bad.Hash {
			t.Errorf("history has %s: %x, %v, want %x", row, x.Hash, err, bad.Hash)
		}
		if err := c.b.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
