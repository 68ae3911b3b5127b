package mariadb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// errRefused is the error for a table that the ledger does not take.
var errRefused = errors.New("refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
}

// described is a table of the database in the words of engines, and in MariaDB's own.
type described struct {
	canonical.Table
	text     string // schema text
	wording  wire.Hash
	children []string // tables whose foreign keys refer to it, ascending
	why      error    // the words cannot describe it
}

// describe reads a table, schema.name. errRefused: it is none for the ledger.
func describe(ctx context.Context, q querier, name names, table string) (*described, error) {
	schema, short, ok := strings.Cut(table, ".")
	if !ok || schema != "public" {
		return nil, refused("table %s: tables of schema public alone are in this database", table)
	}
	d := &described{Table: canonical.Table{Name: table}}
	var engine, kind string
	err := q.QueryRowContext(ctx, `SELECT coalesce(ENGINE, ''), TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`,
		name.database, short).Scan(&engine, &kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, refused("table %s does not exist", table)
	case err != nil:
		return nil, err
	case engine != "InnoDB" || kind != "BASE TABLE":
		return nil, refused("table %s is no plain table of InnoDB", table)
	}
	checks, err := readChecks(ctx, q, name, short)
	if err == nil {
		err = d.readColumns(ctx, q, name, short, checks)
	}
	if err == nil {
		err = d.addChecks(checks)
	}
	if err == nil {
		err = d.readKeys(ctx, q, name, short)
	}
	if err == nil {
		err = d.readForeignKeys(ctx, q, name, short)
	}
	if err == nil {
		err = d.refuseOthers(ctx, q, name, short)
	}
	if err == nil {
		d.wording, err = wordingOf(ctx, q, name, short)
	}
	if err == nil {
		err = d.word()
	}
	return d, err
}

// word brings the parts into the order of the schema text, which everybody reads later.
func (d *described) word() (err error) {
	if d.text, err = canonical.SchemaText(&d.Table); err != nil {
		return refused("%s", err)
	}
	t, err := canonical.ParseSchemaText(d.Name, d.text)
	if err == nil {
		d.Table = *t
	}
	return err
}

// readColumns takes the checks that belong to a type out of checks.
func (d *described) readColumns(ctx context.Context, q querier, name names, short string, checks map[string]string) error {
	rows, err := q.QueryContext(ctx, `SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, coalesce(COLLATION_NAME, ''), EXTRA, COLUMN_COMMENT
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, name.database, short)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var c canonical.ColumnType
		var engineType, nullable, collation, extra, comment string
		var standard sql.NullString
		if err := rows.Scan(&c.Name, &engineType, &nullable, &standard, &collation, &extra, &comment); err != nil {
			return err
		}
		c.Ordinal, c.NotNull = uint16(len(d.Columns)+1), nullable == "NO"
		c.Type = logicalType(engineType, comment, isCheck(checks["Column "+c.Name], "json_valid(", c.Name, ")"))
		switch {
		case c.Type == "":
			return refused("column %s: type %s", c.Name, engineType)
		case extra != "":
			return refused("column %s is %s", c.Name, extra)
		case collation != "" && collation != "utf8mb4_nopad_bin" && c.Type != "json":
			return refused("column %s has the collation %s, want utf8mb4_nopad_bin", c.Name, collation)
		}
		if err := takeTypeCheck(&c, checks); err != nil {
			return err
		}
		if err := readDefault(&c, standard); err != nil {
			return err
		}
		d.Columns = append(d.Columns, c)
		return nil
	})
}

func logicalType(engineType, comment string, json bool) string {
	switch engineType {
	case "tinyint(1)":
		return "boolean"
	case "smallint(6)":
		return "smallint"
	case "int(11)":
		return "integer"
	case "bigint(20)":
		return "bigint"
	case "double", "date", "uuid":
		return engineType
	case "longblob":
		return "bytea"
	case "time(6)":
		return "time"
	case "datetime(6)":
		if comment == "timestamptz" {
			return comment
		}
		return "timestamp"
	case "longtext":
		if json {
			return "json"
		}
		return "text"
	}
	if size, ok := strings.CutPrefix(engineType, "decimal"); ok {
		return "numeric" + size
	}
	if strings.HasPrefix(engineType, "varchar(") {
		return engineType
	}
	return ""
}

var quotedText = regexp.MustCompile(`^'((?:[^'\\]|'')*)'$`)

// readDefault takes constants alone.
func readDefault(c *canonical.ColumnType, standard sql.NullString) error {
	if !standard.Valid || standard.String == "NULL" {
		return nil
	}
	text := standard.String
	if m := quotedText.FindStringSubmatch(text); m != nil {
		text = strings.ReplaceAll(m[1], "''", "'")
	} else if _, err := strconv.ParseFloat(text, 64); err != nil {
		return refused("column %s has the default %s, which is no constant", c.Name, text)
	}
	v, err := parse(c.Type, []byte(text))
	if err != nil {
		return refused("column %s has the default %s, which is no %s", c.Name, text, c.Type)
	}
	c.Default = &v
	return nil
}

func (d *described) readKeys(ctx context.Context, q querier, name names, short string) error {
	rows, err := q.QueryContext(ctx, `SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`, name.database, short)
	if err != nil {
		return err
	}
	last := ""
	return each(rows, func() error {
		var index, column string
		var part sql.NullInt64
		if err := rows.Scan(&index, &column, &part); err != nil {
			return err
		}
		switch {
		case part.Valid:
			return refused("key %s has the beginning of column %s alone", index, column)
		case index == "PRIMARY":
			d.PrimaryKey = append(d.PrimaryKey, column)
		case index != last:
			d.Unique = append(d.Unique, []string{column})
		default:
			d.Unique[len(d.Unique)-1] = append(d.Unique[len(d.Unique)-1], column)
		}
		last = index
		return nil
	})
}

// refuseOthers refuses triggers of users, and partitions.
func (d *described) refuseOthers(ctx context.Context, q querier, name names, short string) error {
	for what, query := range map[string]string{
		"a trigger": `SELECT count(*) FROM information_schema.TRIGGERS WHERE (EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?
			OR EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?) AND TRIGGER_NAME NOT LIKE 'chainify\_%' ESCAPE '\'`,
		"partitions": `SELECT count(*) FROM information_schema.PARTITIONS WHERE PARTITION_NAME IS NOT NULL
			AND (TABLE_SCHEMA = ? AND TABLE_NAME = ? OR TABLE_SCHEMA = ? AND TABLE_NAME = ?)`,
	} {
		var count int
		if err := q.QueryRowContext(ctx, query, name.database, short, name.database, short).Scan(&count); err != nil {
			return err
		}
		if count > 0 {
			return refused("table %s has %s", d.Name, what)
		}
	}
	return nil
}

// wordingOf is the hash of the server's own words for a table.
func wordingOf(ctx context.Context, q querier, name names, short string) (wire.Hash, error) {
	var table, text string
	err := q.QueryRowContext(ctx, "SHOW CREATE TABLE "+name.in("%D.")+quoted(short)).Scan(&table, &text)
	return sha256.Sum256([]byte(text)), err
}

// table is a table on the ledger, with its running state.
type table struct {
	id int64
	canonical.Table
	text       string // schema text
	attachedAt uint64
	baseAfter  uint64
	state      canonical.State
	hasher     *canonical.LaneHasher
	started    wire.Hash // table_state at the end of the block before
	changed    bool      // by the block at work
	altered    bool      // since it was attached
	children   []string  // tables whose foreign keys refer to it
}

func (t *table) stateHash() wire.Hash {
	return canonical.TableState(t.Name, canonical.SchemaHash2(t.text), &t.state)
}

func (t *table) quoted(name names) string {
	return quoted(name.database) + "." + quoted(t.Name[strings.IndexByte(t.Name, '.')+1:])
}

// isKey tells whether a column is one of the primary key.
func (t *table) isKey(column string) bool { return slices.Contains(t.PrimaryKey, column) }

// keyOf are the columns of the primary key alone.
func (t *table) keyOf(row []canonical.Column) []canonical.Column {
	var key []canonical.Column
	for _, c := range row {
		if t.isKey(t.Columns[c.Ordinal-1].Name) {
			key = append(key, c)
		}
	}
	return key
}

// attachedTables are the tables on the ledger at the end of a block as they were attached, with the
// states that run now. The server's catalogue of today says nothing about them.
func attachedTables(ctx context.Context, q querier, name names, at uint64) (map[string]*table, error) {
	rows, err := q.QueryContext(ctx, name.in(`SELECT id, name, schema_text, attached_at, base_after, row_count, lanes FROM %L.ledger_table
		WHERE attached_at <= ? AND (detached_at IS NULL OR detached_at > ?)`), at, at)
	if err != nil {
		return nil, err
	}
	tables := map[string]*table{}
	return tables, each(rows, func() error {
		t := &table{}
		var lanes []byte
		var of string
		if err := rows.Scan(&t.id, &of, &t.text, &t.attachedAt, &t.baseAfter, &t.state.Rows, &lanes); err != nil {
			return err
		}
		parsed, err := canonical.ParseSchemaText(of, t.text)
		if err != nil {
			return err
		}
		t.Table, t.hasher = *parsed, canonical.NewLaneHasher(of)
		t.state.Lanes, err = canonical.DecodeLanes(lanes)
		tables[of] = t
		return err
	})
}

// readTables is attachedTables, compared with the server's catalogue of now. A table with another
// definition than the attached one has another schema text: it deviates. known keeps descriptions
// from one call to the next, as long as the server's words stay.
func readTables(ctx context.Context, q querier, name names, at uint64, known map[string]*described) (map[string]*table, error) {
	tables, err := attachedTables(ctx, q, name, at)
	if err == nil {
		err = forgetChanged(ctx, q, name, tables, known)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		d := known[t.Name]
		if d == nil {
			if d, err = describe(ctx, q, name, t.Name); errors.Is(err, errRefused) {
				d, err = &described{Table: t.Table, why: err}, nil
			}
			if err != nil {
				return nil, fmt.Errorf("describe %s: %w", t.Name, err)
			}
			known[t.Name] = d
		}
		t.children = d.children
		if t.altered = d.text != t.text || d.why != nil; t.altered {
			t.text = fmt.Sprintf("worded otherwise: %x %v", d.wording, d.why)
		}
		t.started = t.stateHash()
	}
	return tables, nil
}

// forgetChanged drops the descriptions of tables that the server words otherwise by now, or that
// got a trigger. Those of tables without a description are not looked at.
func forgetChanged(ctx context.Context, q querier, name names, tables map[string]*table, known map[string]*described) error {
	var shown []*described
	var text strings.Builder
	for of, t := range tables {
		d := known[of]
		switch {
		case d == nil:
		case d.why != nil: // it may be right again
			delete(known, of)
		default:
			shown = append(shown, d)
			text.WriteString("SHOW CREATE TABLE " + t.quoted(name) + "; ")
		}
	}
	if shown == nil {
		return nil
	}
	wordings, err := shownWordings(ctx, q, text.String())
	if errorNumber(err) != 0 || err == nil && len(wordings) != len(shown) { // one is gone
		clear(known)
		return nil
	}
	if err != nil {
		return err
	}
	for i, d := range shown {
		if wordings[i] != d.wording {
			delete(known, d.Name)
		}
	}
	rows, err := q.QueryContext(ctx, `SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS
		WHERE EVENT_OBJECT_SCHEMA = ? AND TRIGGER_NAME NOT LIKE 'chainify\_%' ESCAPE '\'`, name.database)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var short string
		err := rows.Scan(&short)
		delete(known, "public."+short)
		return err
	})
}

// shownWordings are the hashes of what SHOW CREATE TABLE statements tell.
func shownWordings(ctx context.Context, q querier, statements string) (wordings []wire.Hash, err error) {
	rows, err := q.QueryContext(ctx, "BEGIN NOT ATOMIC "+statements+"END")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var of, text string
			if err := rows.Scan(&of, &text); err != nil {
				return nil, err
			}
			wordings = append(wordings, sha256.Sum256([]byte(text)))
		}
	}
	return wordings, rows.Err()
}
