//! The functions of private values (sql/39_private.sql; spec/private.md).
use std::rc::Rc;

use chainify_codec::{decode_value, SealedColumn, SALT_BYTES};
use chainify_ledger::node_messages::SealedValue;
use pgrx::pg_sys::Oid;
use pgrx::JsonB;

use crate::ledger::as_of::AsOf;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::encode::encoded_argument;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call, Cell};
use crate::pg::base::random;
use crate::pg::base::relation::quoted;
use crate::pg::base::rights::may_read_all_rows;
use crate::pg::base::role::Role;
use crate::pg::base::spi::{connected, query};
use crate::pg::base::variadic::variadic_from;
use crate::pg::run::step::{enter, Step};
use crate::session::plain_sql;

crate::pg::sql_function!(chainify_seal, pg_finfo_chainify_seal, seal);
crate::pg::sql_function!(chainify_disclose, pg_finfo_chainify_disclose, disclose);
crate::pg::sql_function!(
    chainify_commitment,
    pg_finfo_chainify_commitment,
    commitment
);
crate::pg::sql_function!(
    chainify_encoded_value,
    pg_finfo_chainify_encoded_value,
    encoded_value
);
crate::pg::sql_function!(
    chainify_value_text,
    pg_finfo_chainify_value_text,
    value_text
);

/// `chainify.seal(table, column, value)`: the commitment of a value with a new salt, which the
/// session hands to its node beside the transaction. Raises 55000 outside of plain SQL, CH004 in a
/// ledger transaction, 42501 where the organisation is not in the column's circle.
fn seal(call: &mut Call) -> Answer {
    let (table, column): (String, String) = (call.required(0, "table"), call.required(1, "column"));
    let value = variadic_from(call, 2).pop().and_then(|value| value.text);
    let Some(value) = value else {
        return call.value::<Vec<u8>>(None);
    };
    match phase() {
        Phase::Plain => (),
        Phase::Outside => PgError::new(b"55000", "private values are sealed in plain SQL only")
            .detail("The value travels beside the transaction that has its commitment.")
            .hint("SET chainify.writes = 'effects', and write through the opened view.")
            .raise(),
        _ => PgError::new(b"CH004", "a ledger transaction cannot seal a value")
            .detail("Every organisation would see it.")
            .raise(),
    }
    let salt = random::key();
    let sealed = as_owner(&table, &column, &value, &salt);
    let commitment = sealed.commitment.clone();
    plain_sql::seal(sealed);
    call.value(commitment)
}

/// Keeps the value in this organisation's private table, whose rights the client need not have:
/// what it keeps there is undone with its transaction, and comes back by the block. The type's
/// functions are PostgreSQL's own.
fn as_owner(table: &str, column: &str, value: &str, salt: &[u8; SALT_BYTES]) -> SealedValue {
    enter(Step::Look, || {
        connected(|| {
            let column = sealed_column(table, column);
            let mut encoded = Vec::new();
            let given = cell(value.to_owned());
            query(&column.encode, &[given], |row| encoded = row.must(1));
            let commitment = column.commitments.commitment(salt, &encoded).to_vec();
            let row = [
                cell(commitment.clone()),
                cell(value.to_owned()),
                cell(salt.to_vec()),
            ];
            query(&column.keep, &row, |_| ());
            SealedValue {
                commitment,
                table: column.table.clone(),
                column: column.name.clone(),
                r#type: column.of.clone(),
                salt: salt.to_vec(),
                value: encoded,
            }
        })
    })
}

/// A sealed column, with the statements that seal a value for it.
struct Column {
    table: String,
    name: String,
    of: String,
    circle: String,
    /// This organisation is in the circle.
    own: bool,
    commitments: SealedColumn,
    encode: String,
    keep: String,
}

thread_local! {
    static COLUMNS: AsOf<Vec<Rc<Column>>> = const { AsOf::nothing() };
}

/// The sealed column of a table, whose schema may be left out where it is public. Raises 42704 for
/// another one, and 42501 where this organisation is not in its circle.
fn sealed_column(table: &str, name: &str) -> Rc<Column> {
    let known = COLUMNS.with(|known| known.or(read_columns));
    let in_public = format!("public.{table}");
    let named = |table: &str| known.iter().find(|c| c.table == table && c.name == name);
    let Some(column) = named(table).or_else(|| named(&in_public)) else {
        let message = format!("column \"{name}\" of table \"{table}\" is not sealed");
        PgError::new(b"42704", message).raise()
    };
    if !column.own {
        let circle = &column.circle;
        let message = format!(
            "this organisation is not in circle \"{circle}\", and may not seal values for it"
        );
        PgError::new(b"42501", message).raise();
    }
    column.clone()
}

fn read_columns() -> Vec<Rc<Column>> {
    let mut found = Vec::new();
    let sql = "SELECT s.table_name, s.column_name, s.type, s.circle, s.own, s.private, h.chain_id
        FROM chainify_ledger.sealed s, chainify_ledger.chain h";
    query(sql, &[], |row| {
        let (table, name, of): (String, String, String) = (row.must(1), row.must(2), row.must(3));
        let private = quoted(&row.must::<String>(6));
        let chain_id: String = row.must(7);
        found.push(Rc::new(Column {
            commitments: SealedColumn::new(&chain_id, &table, &name, &of),
            encode: format!("SELECT chainify_ledger.encoded_value(CAST($1 AS {of}))"),
            keep: format!(
                "INSERT INTO chainify_private.{private} (commitment, value, salt) VALUES ($1, CAST($2 AS {of}), $3)"
            ),
            circle: row.must(4),
            own: row.must(5),
            table,
            name,
            of,
        }));
    });
    found
}

/// `chainify.disclose(table, column, commitment)`: all that proves the value to somebody who sees
/// the commitment alone. NULL where the value is not here. Raises 42501 for a role that may not
/// read value and salt of every row.
fn disclose(call: &mut Call) -> Answer {
    let arguments: [Cell; 3] = [
        cell(call.required::<String>(0, "table")),
        cell(call.required::<String>(1, "column")),
        cell(call.required::<Vec<u8>>(2, "commitment")),
    ];
    let role = Role::current();
    let mut disclosed = None;
    let sql = "SELECT relation, told FROM chainify_ledger.disclosed($1, $2, $3)";
    enter(Step::Look, || {
        connected(|| {
            query(sql, &arguments, |row| {
                let private: Oid = row.must(1);
                if !may_read_all_rows(role, private, &[VALUE, SALT]).or_raise() {
                    let message = "the values of this column are not for this role";
                    PgError::new(b"42501", message).raise();
                }
                disclosed = row.get::<JsonB>(2);
            })
        })
    });
    call.value::<JsonB>(disclosed)
}

/// The columns of a private table.
const VALUE: i16 = 2;
const SALT: i16 = 3;

/// `commitment(table, column, type, salt, value)`; NULL where a part is NULL, the salt has another
/// length, or the chain has no name.
fn commitment(call: &mut Call) -> Answer {
    let names = (call.arg::<String>(0), call.arg(1), call.arg(2));
    let (Some(table), Some(column), Some(of)): (_, Option<String>, Option<String>) = names else {
        return call.value::<Vec<u8>>(None);
    };
    let salt: Option<[u8; SALT_BYTES]> = call.arg::<Vec<u8>>(3).and_then(|s| s.try_into().ok());
    let (Some(salt), Some(value)) = (salt, call.arg::<Vec<u8>>(4)) else {
        return call.value::<Vec<u8>>(None);
    };
    let mut chain = None;
    connected(|| {
        query("SELECT chain_id FROM chainify_ledger.chain", &[], |row| {
            chain = row.get::<String>(1)
        })
    });
    call.value::<Vec<u8>>(chain.map(|chain| {
        let column = SealedColumn::new(&chain, &table, &column, &of);
        column.commitment(&salt, &value).to_vec()
    }))
}

/// `encoded_value(value)`: a value in encoding 1.
fn encoded_value(call: &mut Call) -> Answer {
    call.value::<Vec<u8>>(encoded_argument(call, 0))
}

/// `value_text(encoded)`: the text of a canonical value. Raises 22023 for bytes that are none, or
/// that PostgreSQL has no text of.
fn value_text(call: &mut Call) -> Answer {
    let text = call.arg::<Vec<u8>>(0).map(|bytes| {
        let text = decode_value(&bytes).ok().map(|value| value.to_text());
        text.filter(|text| !text.contains('\0'))
            .unwrap_or_else(|| PgError::new(b"22023", "a private value is not canonical").raise())
    });
    call.value::<String>(text)
}
