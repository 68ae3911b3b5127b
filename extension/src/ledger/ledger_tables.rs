//! Tables on the ledger as verification reads them, and the queries over their rows.
//!
//! Queries run with the rights of the extension's owner, so they call nothing a user could have
//! defined. They compare rows as canonical bytes, sort them as bytea, and show them by output
//! functions and casts of PostgreSQL itself.

use chainify_codec::{table_state, Hash, KeyRanges, LaneHasher, Lanes, State};
use pgrx::pg_sys;

use crate::ledger::key_ranges::{key_in, rows_in, rows_outside};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::spi::SpiClient;

/// A row of `chainify_ledger.ledger_table` with its running state.
pub struct LedgerTable {
    pub id: i32,
    /// `schema.name`, unquoted: what is hashed.
    pub name: String,
    pub schema_hash: Vec<u8>,
    /// Quoted names; `None` when the relation is gone.
    pub live: Option<String>,
    pub history: Option<String>,
    /// The base of the checkpoints (ledger/checkpoints.rs).
    pub checkpoint: Option<String>,
    pub relation: pg_sys::Oid,
    pub base: pg_sys::Oid,
    pub history_relation: pg_sys::Oid,
    /// The base holds the rows at the end of this block: later history is laid over it.
    pub base_block: i64,
    /// Block and transaction that started this version of the table; earlier history is of another.
    pub since: (i64, i32),
    pub row_count: i64,
    pub lanes: Vec<u8>,
    pub columns: Vec<Column>,
}

/// A column of the ledger.
pub struct Column {
    pub name: String,
    pub quoted: String,
    pub key: bool,
    /// Absent in the live table.
    pub missing: bool,
    /// In the live table, but not on the ledger.
    pub extra: bool,
    /// Computed by PostgreSQL, so not to be inserted.
    pub generated: bool,
    /// A type of PostgreSQL itself, which `to_jsonb` shows by its own code.
    pub built_in: bool,
}

/// Queries for the rows of the keys that a block changed.
pub struct AroundBlock {
    /// Columns `k` and `v`, as the table has them.
    pub before: String,
    /// The same, as the block leaves them.
    pub after: String,
    /// Where these differ, as [`LedgerTable::differences`].
    pub differences: String,
}

const TABLES: &str = "
    SELECT l.id, l.name, l.schema_hash, l.relation::int8, l.base_block, coalesce(s.row_count, -1), coalesce(s.lanes, ''),
        n.live, n.history, n.checkpoint, l.attached_at, l.attached_tx, l.checkpoint::int8, l.history::int8
    FROM chainify_ledger.ledger_table l
    LEFT JOIN chainify_ledger.table_state s ON s.table_id = l.id
    CROSS JOIN LATERAL (
        SELECT max(q.name) FILTER (WHERE r.oid = l.relation) AS live,
            max(q.name) FILTER (WHERE r.oid = l.history) AS history,
            max(q.name) FILTER (WHERE r.oid = l.checkpoint) AS checkpoint
        FROM pg_class r
        JOIN pg_namespace s ON s.oid = r.relnamespace
        CROSS JOIN LATERAL format('%I.%I', s.nspname, r.relname) AS q (name)
        WHERE r.oid IN (l.relation, l.history, l.checkpoint) AND r.relkind IN ('r', 'p')) n
    WHERE l.detached_at IS NULL
    ORDER BY l.name COLLATE \"C\"";

/// In the physical order of the live table, which is that of a row value of its type.
const COLUMNS: &str = "
    SELECT coalesce(c.name, a.attname::text), quote_ident(coalesce(c.name, a.attname::text)), c.key_part IS NOT NULL,
        a.attnum IS NULL, c.name IS NULL, coalesce(a.attgenerated <> '', false), coalesce(a.atttypid < 16384::oid, false)
    FROM (SELECT name, key_part FROM chainify_ledger.ledger_column WHERE table_id = $1) c
    FULL JOIN (
        SELECT attname, attnum, attgenerated, atttypid FROM pg_attribute
        WHERE attrelid = (SELECT relation FROM chainify_ledger.ledger_table WHERE id = $1) AND attnum > 0
            AND NOT attisdropped) a ON a.attname::text = c.name
    ORDER BY a.attnum";

/// Every table on the ledger, by name.
pub fn all(client: &SpiClient<'_>, sees: Sees) -> Vec<LedgerTable> {
    let mut tables = Vec::new();
    let mut rows = Cursor::open(client, sees, TABLES, &[]);
    while let Some(row) = rows.next_row() {
        tables.push(LedgerTable {
            id: row.int(1).unwrap_or_default(),
            name: row.text(2).unwrap_or_default(),
            schema_hash: row.bytes(3).unwrap_or_default(),
            relation: pg_sys::Oid::from(row.bigint(4).unwrap_or_default() as u32),
            base_block: row.bigint(5).unwrap_or_default(),
            row_count: row.bigint(6).unwrap_or_default(),
            lanes: row.bytes(7).unwrap_or_default(),
            live: row.text(8),
            history: row.text(9),
            checkpoint: row.text(10),
            since: (
                row.bigint(11).unwrap_or_default(),
                row.int(12).unwrap_or_default(),
            ),
            base: pg_sys::Oid::from(row.bigint(13).unwrap_or_default() as u32),
            history_relation: pg_sys::Oid::from(row.bigint(14).unwrap_or_default() as u32),
            columns: Vec::new(),
        });
    }
    for table in &mut tables {
        table.columns = columns(client, sees, table.id);
    }
    tables
}

fn columns(client: &SpiClient<'_>, sees: Sees, id: i32) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut rows = Cursor::open(client, sees, COLUMNS, &[id.into()]);
    while let Some(row) = rows.next_row() {
        let is = |column| row.boolean(column).unwrap_or_default();
        columns.push(Column {
            name: row.text(1).unwrap_or_default(),
            quoted: row.text(2).unwrap_or_default(),
            key: is(3),
            missing: is(4),
            extra: is(5),
            generated: is(6),
            built_in: is(7),
        });
    }
    columns
}

impl LedgerTable {
    /// Why rows cannot be compared at all, if so.
    pub fn unreadable(&self) -> Option<String> {
        let gone = |name: &Option<String>, what: &str| {
            name.is_none().then(|| format!("the {what} table is gone"))
        };
        let missing = self.columns.iter().find(|column| column.missing);
        let extra = self.columns.iter().find(|column| column.extra);
        gone(&self.live, "live")
            .or_else(|| gone(&self.history, "history"))
            .or_else(|| gone(&self.checkpoint, "checkpoint"))
            .or_else(|| missing.map(|column| format!("column \"{}\" is gone", column.name)))
            .or_else(|| {
                extra.map(|column| format!("column \"{}\" is not on the ledger", column.name))
            })
    }

    /// The state kept while blocks ran; `None` when what is kept is no state.
    pub fn running_state(&self) -> Option<State> {
        let row_count = u64::try_from(self.row_count).ok()?;
        Some(State {
            row_count,
            lanes: Lanes::from_bytes(&self.lanes)?,
        })
    }

    /// `table_state` of the formats for this table in `state`.
    pub fn state_hash(&self, state: &State) -> Hash {
        self.state_hash_by(&self.schema_hash, state)
    }

    /// The same with a definition it had earlier.
    pub fn state_hash_by(&self, schema_hash: &[u8], state: &State) -> Hash {
        let schema_hash = schema_hash.try_into().unwrap_or_default();
        table_state(&self.name, &schema_hash, state.row_count, &state.lanes)
    }

    /// Hash of the definition as it is now; `None` when the relation is gone.
    pub fn live_schema_hash(&self, client: &SpiClient<'_>, sees: Sees) -> Option<Vec<u8>> {
        self.live.as_ref()?;
        let sql = "SELECT chainify_ledger.live_schema_hash($1)";
        Cursor::open(client, sees, sql, &[self.relation.into()])
            .next_row()
            .and_then(|row| row.bytes(1))
    }

    /// The state of what a query with columns `k` and `v` gives.
    pub fn state_by(&self, client: &SpiClient<'_>, sees: Sees, rows: &str) -> State {
        let sql = format!(
            "SELECT chainify_ledger.encoded_row({}, v) FROM ({rows}) e",
            self.id
        );
        let hasher = LaneHasher::new(&self.name);
        let mut state = State::default();
        let mut rows = Cursor::open(client, sees, &sql, &[]);
        while let Some(row) = rows.next_row() {
            state.add(&hasher, &row.bytes(1).unwrap_or_default());
        }
        state
    }

    /// Quoted, with its schema; empty when the relation is gone, see [`LedgerTable::unreadable`].
    pub fn live_name(&self) -> &str {
        self.live.as_deref().unwrap_or_default()
    }

    /// Columns `k` (canonical key) and `v` (row of the base's type): the base overlaid with the
    /// last change of each key up to block `number`, which must not be before the base's.
    pub fn expected_rows(&self, number: i64) -> String {
        self.expected_rows_of(number, &|_| "true".into())
    }

    /// The same of the rows for which `which` gives a condition, on a row of base or history of
    /// that alias.
    fn expected_rows_of(&self, number: i64, which: &dyn Fn(&str) -> String) -> String {
        // Only the history is sorted: it is short beside the base.
        format!(
            "WITH last AS MATERIALIZED ({})
            SELECT k, v FROM (
                SELECT chainify_ledger.encoded_key({}, c.*) AS k, {} AS v FROM {} c WHERE {}) base
            WHERE NOT EXISTS (SELECT FROM last WHERE last.k = base.k)
            UNION ALL SELECT k, v FROM last WHERE op <> 'D'",
            self.last_changes_of(number, which),
            self.id,
            self.row_of("c", ""),
            self.checkpoint.as_deref().unwrap_or_default(),
            which("c"),
        )
    }

    /// Columns `k`, `op` and `v`: the last change of each key after the base, up to block `number`.
    pub fn last_changes(&self, number: i64) -> String {
        self.last_changes_of(number, &|_| "true".into())
    }

    fn last_changes_of(&self, number: i64, which: &dyn Fn(&str) -> String) -> String {
        format!(
            "SELECT DISTINCT ON (k) k, op, v FROM ({}) changes ORDER BY k, b DESC, s DESC",
            self.changes_of(number, which),
        )
    }

    /// Columns `k`, `op`, `v`, `b`, `until` and `first` of the changes after the base, up to block
    /// `number`. `b` is the block of a change, `until` that of the next change of its key, and
    /// `first` whether no change of that key comes before.
    pub fn changes_with_next(&self, number: i64) -> String {
        format!(
            "SELECT k, op, v, b, lead(b) OVER w AS until, row_number() OVER w = 1 AS first FROM ({}) changes
            WINDOW w AS (PARTITION BY k ORDER BY b, s)",
            self.changes_of(number, &|_| "true".into()),
        )
    }

    fn changes_of(&self, number: i64, which: &dyn Fn(&str) -> String) -> String {
        format!(
            "SELECT chainify_ledger.encoded_key({}, h.*) AS k, h._op AS op, h._block AS b, h._serial AS s, {} AS v
            FROM {} h WHERE {} AND {}",
            self.id,
            self.row_of("h", ""),
            self.history.as_deref().unwrap_or_default(),
            self.after_base(number),
            which("h"),
        )
    }

    /// The relations that hold the table's rows.
    pub fn leaves(&self, client: &SpiClient<'_>, sees: Sees) -> Vec<pg_sys::Oid> {
        let sql = "SELECT l.leaf::int8 FROM unnest(chainify_ledger.leaves($1)) l (leaf)";
        let mut rows = Cursor::open(client, sees, sql, &[self.relation.into()]);
        let mut leaves = Vec::new();
        while let Some(row) = rows.next_row() {
            leaves.push(pg_sys::Oid::from(row.bigint(1).unwrap_or_default() as u32));
        }
        leaves
    }

    /// Columns `k`, `op` and `v` of the rows at the end of a block before the base, as far as the
    /// base and the history up to it tell them. Where a row's first change after the block is an
    /// update and none was before, `op` is *U* and `v` not what it was.
    pub fn rows_before_base(&self, number: i64) -> String {
        let id = self.id;
        let (block, tx) = self.since;
        let (history, base) = (
            self.history.as_deref().unwrap_or_default(),
            self.checkpoint.as_deref().unwrap_or_default(),
        );
        format!(
            "WITH h AS MATERIALIZED (
                SELECT chainify_ledger.encoded_key({id}, h.*) AS k, h._op::text AS op, h._block AS b, h._serial AS s, {} AS v
                FROM {history} h WHERE (h._block, h._tx) > ({block}, {tx}) AND h._block <= {}),
            before AS (SELECT DISTINCT ON (k) k, op, v FROM h WHERE b <= {number} ORDER BY k, b DESC, s DESC),
            after AS (SELECT DISTINCT ON (k) k, op, v FROM h WHERE b > {number} ORDER BY k, b, s)
            SELECT k, ''::text AS op, v FROM before WHERE op <> 'D'
            UNION ALL SELECT k, op, v FROM after a WHERE op <> 'I' AND NOT EXISTS (SELECT FROM before b WHERE b.k = a.k)
            UNION ALL SELECT b.k, ''::text, b.v FROM (
                SELECT chainify_ledger.encoded_key({id}, c.*) AS k, {} AS v FROM {base} c) b
            WHERE NOT EXISTS (SELECT FROM h WHERE h.k = b.k)",
            self.row_of("h", ""),
            self.base_block,
            self.row_of("c", ""),
        )
    }

    /// A row of the base's type from one with the same columns, of table `of`. It has no domains:
    /// to make a row of the live table's type would evaluate their conditions, with the rights of
    /// the extension's owner. Where there is no base, the row as it is.
    fn row_of(&self, alias: &str, of: &str) -> String {
        match &self.checkpoint {
            Some(base) => format!("ROW({})::{base}", self.listed(&format!("{alias}."))),
            None => format!("{alias}.*::{of}"),
        }
    }

    /// Columns `k` and `v`, as [`LedgerTable::expected_rows`], of the live table.
    pub fn live_rows(&self) -> String {
        format!(
            "SELECT chainify_ledger.encoded_key({}, t.*) AS k, {} AS v FROM {} t",
            self.id,
            self.row_of("t", self.live_name()),
            self.live_name()
        )
    }

    /// The same of another table with these columns; of `None`, none.
    pub fn rows_of(&self, other: Option<&str>) -> String {
        match other {
            None => format!("{} WHERE false", self.live_rows()),
            Some(other) => format!(
                "SELECT chainify_ledger.encoded_key({}, o.*) AS k, {} AS v FROM {other} o",
                self.id,
                self.row_of("o", other)
            ),
        }
    }

    /// The same with the rows of `other` instead in these ranges of keys
    /// (`chainify_codec::key_range`).
    pub fn rows_with(&self, other: &str, ranges: &KeyRanges) -> String {
        format!(
            "{} UNION ALL {}",
            rows_outside(ranges, &self.live_rows()),
            self.rows_of(Some(other)),
        )
    }

    /// The rows of history `h` after the base, up to block `number`, as far as they are of this
    /// version.
    fn after_base(&self, number: i64) -> String {
        let (block, tx) = self.since;
        format!(
            "h._block > {} AND h._block <= {number} AND (h._block, h._tx) > ({block}, {tx})",
            self.base_block
        )
    }

    /// The columns, each with `prefix`.
    pub fn listed(&self, prefix: &str) -> String {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .map(|column| format!("{prefix}{}", column.quoted))
            .collect();
        columns.join(", ")
    }

    /// Brings the base forward to block `to`: of every key changed since, the row it has goes, and
    /// the last one comes. Found by the index where PostgreSQL's own operators compare the key,
    /// else by a scan of the base.
    pub fn folding(&self, to: i64) -> String {
        let (id, later) = (self.id, self.after_base(to));
        let (history, base) = (
            self.history.as_deref().unwrap_or_default(),
            self.checkpoint.as_deref().unwrap_or_default(),
        );
        let key = || self.columns.iter().filter(|column| column.key);
        let same: String = key()
            .filter(|_| key().all(|column| column.built_in))
            .map(|column| format!("b.{0} = (l.h).{0} AND ", column.quoted))
            .collect();
        format!(
            "WITH last AS MATERIALIZED (
                SELECT DISTINCT ON (k) k, h FROM (
                    SELECT chainify_ledger.encoded_key({id}, h.*) AS k, h.*::{history} AS h FROM {history} h
                    WHERE {later}) changes
                ORDER BY k, (h)._block DESC, (h)._serial DESC),
            gone AS (
                DELETE FROM {base} b USING last l WHERE {same}chainify_ledger.encoded_key({id}, b.*) = l.k),
            come AS (
                INSERT INTO {base} ({}) SELECT {} FROM last l WHERE (l.h)._op <> 'D')
            SELECT FROM last",
            self.listed(""),
            self.listed("(l.h)."),
        )
    }

    /// Rows that differ between what is expected at the end of block `number` and what the table
    /// holds: the key, the expected and the found row as jsonb. The canonical key, the partition
    /// and place of the found row and the expected row follow, for repair.
    pub fn differences(&self, number: i64) -> String {
        self.differences_between(&self.expected_rows(number), self.live_name(), "true")
    }

    /// The same between rows as [`LedgerTable::expected_rows`] gives them and the table, in some
    /// ranges of keys.
    pub fn differences_in(&self, ranges: &KeyRanges, expected: &str) -> String {
        let key = format!("chainify_ledger.encoded_key({}, t.*)", self.id);
        self.differences_between(
            &rows_in(ranges, expected),
            self.live_name(),
            &key_in(ranges, &key),
        )
    }

    /// Rows that are there a second time, as [`LedgerTable::differences_in`] gives rows that are
    /// not to be there.
    pub fn doubles_in(&self, ranges: &KeyRanges, expected: &str) -> String {
        let (id, live) = (self.id, self.live_name());
        let key = format!("chainify_ledger.encoded_key({id}, t.*)");
        format!(
            "SELECT {} AS key, NULL::jsonb AS expected, {} AS found, f.k, f.part, f.place,
                (SELECT e.v FROM ({expected}) e WHERE false) AS v
            FROM (SELECT {key} AS k, t.tableoid::int8 AS part, t.ctid AS place, t.*::{live} AS v,
                    row_number() OVER (PARTITION BY {key}, chainify_ledger.encoded_row({id}, t.*) ORDER BY t.tableoid, t.ctid) AS n
                FROM {live} t WHERE {}) f
            WHERE f.n > 1",
            self.json_of("f.v", |column| column.key),
            self.json_of("f.v", |_| true),
            key_in(ranges, &key),
        )
    }

    /// The same for the keys kept in a table with the key's columns, which are of PostgreSQL's own
    /// types.
    pub fn differences_of(&self, number: i64, keys: &str) -> String {
        let which = |alias: &str| self.key_in(alias, keys);
        let expected = self.expected_rows_of(number, &which);
        self.differences_between(&expected, self.live_name(), &which("t"))
    }

    /// The rows of the keys that block `number` changed, whose history is there. `keys` is a table
    /// of these keys, of PostgreSQL's own types; without one the live table is read for them.
    pub fn around_block(&self, number: i64, keys: Option<&str>) -> AroundBlock {
        let (id, (block, tx)) = (self.id, self.since);
        let last = format!(
            "SELECT DISTINCT ON (k) k, op, v FROM (
                SELECT chainify_ledger.encoded_key({id}, h.*) AS k, h._op AS op, h._serial AS s, {} AS v
                FROM {} h WHERE h._block = {number} AND (h._block, h._tx) > ({block}, {tx})) changes
            ORDER BY k, s DESC",
            self.row_of("h", ""),
            self.history.as_deref().unwrap_or_default(),
        );
        let here = match keys {
            Some(keys) => self.key_in("t", keys),
            None => {
                format!("chainify_ledger.encoded_key({id}, t.*) IN (SELECT k FROM ({last}) last)")
            }
        };
        let after = format!("SELECT k, v FROM ({last}) last WHERE op <> 'D'");
        AroundBlock {
            before: format!("{} WHERE {here}", self.live_rows()),
            differences: self.differences_between(&after, self.live_name(), &here),
            after,
        }
    }

    /// A condition: the row of this alias has a key of table `keys`.
    fn key_in(&self, alias: &str, keys: &str) -> String {
        let key = self.columns.iter().filter(|column| column.key);
        let key: Vec<_> = key.map(|column| column.quoted.as_str()).collect();
        let of = |alias: &str| {
            let columns = key.iter().map(|column| format!("{alias}.{column}"));
            columns.collect::<Vec<_>>().join(", ")
        };
        format!("({}) IN (SELECT {} FROM {keys} w)", of(alias), of("w"))
    }

    /// The same between what the table holds now and rows of it kept in another table.
    pub fn differences_from(&self, found: &str) -> String {
        self.differences_between(&self.live_rows(), found, "true")
    }

    /// `here` is a condition on the rows `t` found.
    fn differences_between(&self, expected: &str, found: &str, here: &str) -> String {
        let id = self.id;
        let key = |side: &str| self.json_of(side, |column| column.key);
        let whole = |side: &str| self.json_of(side, |_| true);
        format!(
            "SELECT CASE WHEN e.k IS NOT NULL THEN {} ELSE {} END AS key, CASE WHEN e.k IS NOT NULL THEN {} END AS expected,
                CASE WHEN f.k IS NOT NULL THEN {} END AS found, coalesce(e.k, f.k) AS k, f.part, f.place, e.v
            FROM ({expected}) e
            FULL JOIN (
                SELECT chainify_ledger.encoded_key({id}, t.*) AS k, t.tableoid::int8 AS part, t.ctid AS place, t.*::{found} AS v
                FROM {found} t WHERE {here}) f ON f.k = e.k
            WHERE chainify_ledger.encoded_row({id}, e.v) IS DISTINCT FROM chainify_ledger.encoded_row({id}, f.v)
            ORDER BY coalesce(e.k, f.k), f.place",
            key("e.v"),
            key("f.v"),
            whole("e.v"),
            whole("f.v"),
        )
    }

    fn json_of(&self, row: &str, wanted: impl Fn(&Column) -> bool) -> String {
        let columns = self.columns.iter().filter(|column| wanted(column));
        let shown = columns.map(|column| (&*column.name, &*column.quoted, column.built_in));
        json_object(&format!("({row})."), shown)
    }
}

/// Columns of a row as a jsonb object: each with its name, its quoted name after `prefix`, and
/// whether its type is PostgreSQL's.
pub fn json_object<'c>(
    prefix: &str,
    columns: impl Iterator<Item = (&'c str, &'c str, bool)>,
) -> String {
    let member = |(name, quoted, built_in): (&str, &str, bool)| {
        let value = format!("{prefix}{quoted}");
        let shown = match built_in {
            true => format!("to_jsonb({value})"),
            // to_jsonb and ::text would look for a cast, which a user may have defined; format only
            // prints.
            false => {
                format!("CASE WHEN {value} IS NOT NULL THEN to_jsonb(format('%s', {value})) END")
            }
        };
        format!("({}, {shown})", literal(name))
    };
    let members = columns.map(member).collect::<Vec<_>>().join(", ");
    format!("(SELECT jsonb_object_agg(n, x) FROM (VALUES {members}) j (n, x))")
}

/// A string constant of SQL, whatever `standard_conforming_strings` says.
pub fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
