//! A ledger table as write sets change it: statements by key, and the values that they take.
use std::rc::Rc;

use chainify_codec::{decode_row, decode_value, DecodeError, Value};
use chainify_ledger::write_set::{Bound, End};
use chainify_ledger::Hash;
use pgrx::pg_sys::Oid;

use crate::ledger::tables::{self, Leaf};
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::{cell, Cell};
use crate::pg::base::input::{base_type, input, null};
use crate::pg::base::relation::{quoted, Lock, Relation, Tuple};
use crate::pg::base::rights::may_read_all_rows;
use crate::pg::base::role::Role;
use crate::pg::base::snapshot::{as_next_statement, Sees};
use crate::pg::base::spi;
use crate::pg::run::step::{enter, Step};

/// The encoding of NULL in a cell.
pub const NULL: [u8; 5] = [0; 5];

/// The operators of a B-tree's order, from place 1 on.
const OPERATORS: [&str; 5] = ["<", "<=", "=", ">=", ">"];
const EQUAL: i16 = 3;

/// A column on the ledger.
struct Column {
    ordinal: u16,
    number: i16,
    /// In quotes.
    name: String,
    /// The type below its domain, if it has one.
    of: Oid,
    key: bool,
    generated: bool,
    /// Of a column of the key: the operator that its index takes as equality.
    equals: String,
    /// Sequences on the ledger from which it takes its values.
    sequences: Vec<Oid>,
}

/// A row's primary key and hash.
pub type KeyAndHash = (Vec<u8>, Hash);

/// A table that may be changed by key.
pub struct WrittenTable {
    /// `schema.name`, unquoted.
    pub name: String,
    pub relation: Oid,
    pub id: i32,
    /// The block that put it on the ledger as it is now.
    pub since: i64,
    /// In quotes.
    pub history: String,
    /// In quotes.
    quoted: String,
    /// Ascending by ordinal.
    columns: Vec<Column>,
    rows: chainify_codec::RowHasher,
    /// The relations that hold its rows.
    leaves: Vec<Rc<Leaf>>,
}

/// The kind of a statement on the row with a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    Insert,
    /// Of the columns with these ordinals.
    Update(Vec<u16>),
    Delete,
    Find,
    /// All columns of the row.
    Row,
}

impl WrittenTable {
    /// Reads the definition, as a role that may. Raises for a column without equality in the key.
    pub fn of(leaf: &Leaf) -> Self {
        let relation = Relation::open(leaf.relation, Lock::AccessShare);
        let physical = relation.columns();
        let sequences = sequences_of(leaf.relation);
        let column = |known: &crate::pg::base::encode::LedgerColumn| {
            let found = physical.iter().find(|c| c.name == known.name);
            let found = found.unwrap_or_else(|| {
                let message = format!("column \"{}\" of a ledger table is missing", known.name);
                PgError::new(b"42703", message).raise()
            });
            let of = base_type(found.type_oid);
            Column {
                ordinal: known.ordinal,
                number: found.number,
                name: quoted(&known.name),
                of,
                key: known.key,
                generated: found.generated,
                sequences: of_column(&sequences, found.number),
                equals: if known.key {
                    operator(of, EQUAL)
                } else {
                    String::new()
                },
            }
        };
        let mut columns: Vec<_> = leaf.table.columns.iter().map(column).collect();
        columns.sort_by_key(|column| column.ordinal);
        Self {
            name: leaf.table.name.clone(),
            relation: leaf.relation,
            id: leaf.table.id,
            since: since(leaf.table.id),
            history: Relation::open(leaf.table.history, Lock::AccessShare).quoted_name(),
            quoted: relation.quoted_name(),
            columns,
            rows: leaf.table.rows.clone(),
            leaves: leaves(leaf.relation),
        }
    }

    /// The statement of a shape, with the types of its parameters.
    pub fn statement(&self, shape: &Shape) -> (String, Vec<Oid>) {
        let given: Vec<_> = self.given_columns(shape).collect();
        let mut types: Vec<Oid> = given.iter().map(|c| c.of).collect();
        if *shape != Shape::Insert {
            types.extend(self.key_columns().map(|c| c.of));
        }
        let conditions = self.is_key(given.len() + 1);
        let list = |item: &dyn Fn(&Column, usize) -> String| {
            let items = given.iter().zip(1..).map(|(column, n)| item(column, n));
            items.collect::<Vec<_>>().join(", ")
        };
        let table = &self.quoted;
        let sql = match shape {
            Shape::Insert => format!(
                "INSERT INTO {table} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                list(&|column, _| column.name.clone()),
                list(&|_, n| format!("${n}"))
            ),
            Shape::Update(_) => format!(
                "UPDATE {table} SET {} WHERE {conditions}",
                list(&|column, n| format!("{} = ${n}", column.name))
            ),
            Shape::Delete => format!("DELETE FROM {table} WHERE {conditions}"),
            Shape::Find => format!("SELECT FROM {table} WHERE {conditions}"),
            Shape::Row => format!("SELECT * FROM {table} WHERE {conditions}"),
        };
        (sql, types)
    }

    fn given_columns<'t>(&'t self, shape: &'t Shape) -> impl Iterator<Item = &'t Column> {
        let given = move |c: &&Column| match shape {
            Shape::Insert => !c.generated,
            Shape::Update(ordinals) => ordinals.contains(&c.ordinal),
            Shape::Delete | Shape::Find | Shape::Row => false,
        };
        self.columns.iter().filter(given)
    }

    /// The ordinals of the columns that are the first parameters of a statement; but for an insert,
    /// those of the key follow.
    pub fn given<'t>(&'t self, shape: &'t Shape) -> impl Iterator<Item = u16> + 't {
        self.given_columns(shape).map(|c| c.ordinal)
    }

    pub fn key_ordinals(&self) -> impl Iterator<Item = u16> + '_ {
        self.key_columns().map(|c| c.ordinal)
    }

    pub fn has_column(&self, ordinal: u16) -> bool {
        self.column(ordinal).is_some()
    }

    /// The shape of an update of these cells; None where [`Self::cells`] fails for their columns.
    pub fn update(&self, cells: &[(u16, Vec<u8>)]) -> Option<Shape> {
        let columns = cells.iter().map(|(ordinal, _)| self.column(*ordinal));
        let columns: Option<Vec<&Column>> = columns.collect();
        let given = columns?.into_iter().filter(|c| !c.generated);
        let ordinals: Vec<u16> = given.map(|c| c.ordinal).collect();
        (!ordinals.is_empty()).then_some(Shape::Update(ordinals))
    }

    /// The values of an insert: of every column that is not generated, NULL where the row has none.
    pub fn row(&self, row: &[u8]) -> Result<Vec<Cell>, PgError> {
        let values = decode_row(row).map_err(malformed)?;
        if let Some((ordinal, _)) = values
            .iter()
            .find(|(ordinal, _)| self.column(*ordinal).is_none())
        {
            return Err(self.without_column(*ordinal));
        }
        let given = self.columns.iter().filter(|column| !column.generated);
        let value = |column: &Column| {
            let found = values.binary_search_by_key(&column.ordinal, |(ordinal, _)| *ordinal);
            match found {
                Ok(at) => input(&values[at].1, column.of),
                Err(_) => Ok(null(column.of)),
            }
        };
        given.map(value).collect()
    }

    /// The sequences from which columns of a new row take their values, with those of the row.
    pub fn drawn(&self, row: &[u8]) -> Vec<(Oid, i64)> {
        if self
            .columns
            .iter()
            .all(|column| column.sequences.is_empty())
        {
            return Vec::new();
        }
        let values = decode_row(row).unwrap_or_default();
        let mut drawn = Vec::new();
        for (ordinal, value) in values {
            if let (Some(column), Value::Int(value)) = (self.column(ordinal), value) {
                drawn.extend(column.sequences.iter().map(|sequence| (*sequence, value)));
            }
        }
        drawn
    }

    /// The ordinals and values of an update, without generated columns.
    pub fn cells(&self, cells: &[(u16, Vec<u8>)]) -> Result<(Vec<u16>, Vec<Cell>), PgError> {
        let (mut ordinals, mut values) = (Vec::new(), Vec::new());
        for (ordinal, value) in cells {
            let Some(column) = self.column(*ordinal) else {
                return Err(self.without_column(*ordinal));
            };
            if column.generated {
                continue;
            }
            ordinals.push(*ordinal);
            values.push(match value[..] == NULL {
                true => null(column.of),
                false => input(&decode_value(value).map_err(malformed)?, column.of)?,
            });
        }
        match ordinals.is_empty() {
            true => Err(PgError::new(
                b"22023",
                format!(
                    "update of table \"{}\" changes generated columns alone",
                    self.name
                ),
            )),
            false => Ok((ordinals, values)),
        }
    }

    /// The values of a primary key.
    pub fn key(&self, key: &[u8]) -> Result<Vec<Cell>, PgError> {
        let values = decode_row(key).map_err(malformed)?;
        let ordinals = values.iter().map(|(ordinal, _)| *ordinal);
        if !ordinals.eq(self.key_columns().map(|c| c.ordinal)) {
            return Err(PgError::new(
                b"22023",
                format!(
                    "key of table \"{}\" has other columns than its primary key",
                    self.name
                ),
            ));
        }
        let values = values.iter().zip(self.key_columns());
        values
            .map(|((_, value), column)| input(value, column.of))
            .collect()
    }

    /// The key of a row; empty for bytes that are no row.
    pub fn key_of(&self, row: &[u8]) -> Vec<u8> {
        let mut key = decode_row(row).unwrap_or_default();
        key.retain(|(ordinal, _)| self.column(*ordinal).is_some_and(|c| c.key));
        let mut bytes = Vec::new();
        let encoded = Value::encode_row(&key, &mut bytes);
        encoded.map_or_else(|_| Vec::new(), |()| bytes)
    }

    /// The key of a row, or of a key itself, as people read it.
    pub fn key_text(&self, row: &[u8]) -> String {
        let values = decode_row(row).unwrap_or_default();
        let key = |ordinal: u16| self.column(ordinal).is_some_and(|c| c.key);
        let values = values.iter().filter(|(ordinal, _)| key(*ordinal));
        values
            .map(|(_, value)| value.to_text())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The hash of the row with this key; None when there is no such row. Needs a subtransaction
    /// that is undone after an Err. Cost: one descent of an index of each partition.
    pub fn hash_now(&self, key: &[u8]) -> Result<Option<Hash>, PgError> {
        let values = self.key(key)?;
        let hash_in = |leaf: &Rc<Leaf>| self.hash_in(leaf, key, &values);
        attempt(|| as_next_statement(|| self.leaves.iter().find_map(hash_in)))
    }

    fn hash_in(&self, leaf: &Leaf, key: &[u8], values: &[Cell]) -> Option<Hash> {
        let relation = Relation::open(leaf.relation, Lock::AccessShare);
        let numbers = self.key_ordinals().map(|o| leaf.encoder.number_of(o));
        let numbers = numbers.collect::<Option<Vec<_>>>()?; // the encoder has every column
        let asked: Vec<_> = numbers.into_iter().zip(values).collect();
        let (mut hash, mut bytes) = (None, Vec::new());
        let mut found = |row: &Tuple| {
            bytes.clear();
            leaf.encoder.row(row, &mut bytes);
            hash = Some(self.rows.hash(&bytes));
        };
        if !relation.rows_by_key(&asked, &mut found) {
            let mut of_row = Vec::new();
            relation.scan_seen(Sees::Statement, |row| {
                of_row.clear();
                leaf.encoder.key(row, &mut of_row);
                if of_row == key {
                    found(row);
                }
            });
        }
        hash
    }

    /// Whether a role sees all rows of the table and reads the columns with these bounds and of the
    /// key. Another role could learn of a hidden row by what changes within bounds.
    pub fn may_bound(&self, role: Role, bounds: &[Bound]) -> Result<bool, PgError> {
        let bounded = |column: &&Column| {
            column.key || bounds.iter().any(|bound| bound.ordinal == column.ordinal)
        };
        let columns: Vec<i16> = self
            .columns
            .iter()
            .filter(bounded)
            .map(|c| c.number)
            .collect();
        may_read_all_rows(role, self.relation, &columns)
    }

    /// The key that bounds name value by value; None: they do not name all columns of the key.
    pub fn key_at(&self, bounds: &[Bound]) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        for column in self.key_columns() {
            let bound = bounds
                .iter()
                .find(|bound| bound.ordinal == column.ordinal)?;
            let value = bound.point().and_then(|value| decode_value(value).ok())?;
            key.push((column.ordinal, value));
        }
        let mut bytes = Vec::new();
        Value::encode_row(&key, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Keys and hashes of the rows within bounds, as this session sees them; None: there are more
    /// than `max`. Needs a subtransaction that is undone after an Err.
    pub fn rows_within(
        &self,
        bounds: &[Bound],
        max: usize,
    ) -> Result<Option<Vec<KeyAndHash>>, PgError> {
        let mut values = vec![cell(self.id)];
        let mut conditions = vec!["true".to_owned()];
        for bound in bounds {
            let Some(column) = self.column(bound.ordinal) else {
                return Err(self.without_column(bound.ordinal));
            };
            for (end, open, closed) in [(&bound.lower, 5, 4), (&bound.upper, 1, 2)] {
                let place = match end {
                    End::None => continue,
                    End::Open(_) => open,
                    End::Closed(_) => closed,
                };
                let value = decode_value(end.value().unwrap_or(&NULL)).map_err(malformed)?;
                values.push(input(&value, column.of)?);
                let operator = || operator(column.of, place);
                let operator = attempt(|| enter(Step::Look, operator))?;
                conditions.push(format!("t.{} {operator} ${}", column.name, values.len()));
            }
        }
        let sql = format!(
            "SELECT chainify_ledger.encoded_key($1, t), chainify_ledger.encoded_row($1, t) FROM {} t WHERE {} LIMIT {}",
            self.quoted,
            conditions.join(" AND "),
            max + 1
        );
        let mut rows = Vec::new();
        let find = || {
            spi::query_once(&sql, &values, |row| {
                let encoded: Vec<u8> = row.must(2);
                rows.push((row.must(1), self.rows.hash(&encoded)));
            })
        };
        attempt(|| enter(Step::Look, || spi::connected(find)))?;
        Ok((rows.len() <= max).then_some(rows))
    }

    /// The condition for a row with a key, whose values are the parameters from `first` on.
    fn is_key(&self, first: usize) -> String {
        let conditions = self.key_columns().zip(first..);
        let conditions = conditions.map(|(c, n)| format!("{} {} ${n}", c.name, c.equals));
        conditions.collect::<Vec<_>>().join(" AND ")
    }

    fn column(&self, ordinal: u16) -> Option<&Column> {
        let found = self
            .columns
            .binary_search_by_key(&ordinal, |column| column.ordinal);
        found.ok().map(|at| &self.columns[at])
    }

    fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.key)
    }

    fn without_column(&self, ordinal: u16) -> PgError {
        PgError::new(
            b"42703",
            format!(
                "table \"{}\" has no column with ordinal {ordinal}",
                self.name
            ),
        )
    }
}

/// The ledger's sequences that columns of a table own or have in their defaults, with the numbers
/// of these columns.
fn sequences_of(relation: Oid) -> Vec<(Oid, i16)> {
    let sql = "SELECT h.relation::oid, d.refobjsubid::smallint FROM chainify_ledger.sequence_here h
        JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = h.relation AND d.deptype IN ('a', 'i')
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = $1
        UNION SELECT h.relation::oid, a.adnum FROM chainify_ledger.sequence_here h
        JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = h.relation AND d.classid = 'pg_attrdef'::regclass
        JOIN pg_attrdef a ON a.oid = d.objid WHERE a.adrelid = $1";
    let mut found = Vec::new();
    spi::connected(|| {
        spi::query(sql, &[cell(relation)], |row| {
            found.push((row.must(1), row.must(2)))
        })
    });
    found
}

fn leaves(relation: Oid) -> Vec<Rc<Leaf>> {
    let sql = "SELECT l.leaf FROM unnest(chainify_ledger.leaves($1)) l (leaf)";
    let mut leaves = Vec::new();
    spi::connected(|| {
        spi::query(sql, &[cell(relation)], |row| {
            leaves.extend(tables::leaf(row.must(1)))
        })
    });
    leaves
}

fn since(table: i32) -> i64 {
    let sql = "SELECT attached_at FROM chainify_ledger.ledger_table WHERE id = $1";
    let mut since = i64::MAX;
    spi::connected(|| spi::query(sql, &[cell(table)], |row| since = row.must(1)));
    since
}

fn of_column(sequences: &[(Oid, i16)], number: i16) -> Vec<Oid> {
    let of_it = sequences.iter().filter(|(_, column)| *column == number);
    of_it.map(|(sequence, _)| *sequence).collect()
}

/// An operator of a type's default order, by its place in it, with its schema.
fn operator(of: Oid, place: i16) -> String {
    let sql = "SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
        FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod
        JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
        JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
        WHERE m.amname = 'btree' AND c.opcdefault AND c.opcintype = $1 AND a.amopstrategy = $2";
    let mut found = None;
    let arguments = [cell(of), cell(place)];
    spi::connected(|| spi::query(sql, &arguments, |row| found = Some(row.must(1))));
    // Types without an order of their own take that of another, whose operators are in pg_catalog.
    found.unwrap_or_else(|| format!("OPERATOR(pg_catalog.{})", OPERATORS[place as usize - 1]))
}

fn malformed(error: DecodeError) -> PgError {
    PgError::new(b"22023", error.to_string())
}
