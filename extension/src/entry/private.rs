//! The functions of private values (sql/39_private.sql; spec/private.md).
use chainify_codec::{decode_value, SealedColumn, SALT_BYTES};
use chainify_ledger::node_messages::SealedValue;

use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::encode::encoded_argument;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::random;
use crate::pg::base::spi::{connected, query};
use crate::pg::base::variadic::variadic_from;
use crate::pg::run::step::{enter, Step};
use crate::session::plain_sql;

crate::pg::sql_function!(chainify_seal, pg_finfo_chainify_seal, seal);
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
/// what it keeps there is undone with its transaction, and comes back by the block.
fn as_owner(table: &str, column: &str, value: &str, salt: &[u8]) -> SealedValue {
    let sql = "SELECT commitment, table_name, type, encoded FROM chainify_ledger.seal_value($1, $2, $3, $4)";
    let arguments = [
        cell(table.to_owned()),
        cell(column.to_owned()),
        cell(value.to_owned()),
        cell(salt.to_vec()),
    ];
    let mut sealed = SealedValue::default();
    enter(Step::Look, || {
        connected(|| {
            query(sql, &arguments, |row| {
                sealed = SealedValue {
                    commitment: row.must(1),
                    table: row.must(2),
                    column: column.to_owned(),
                    r#type: row.must(3),
                    salt: salt.to_vec(),
                    value: row.must(4),
                };
            })
        })
    });
    sealed
}

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

/// `value_text(encoded)`: the text of a canonical value. Raises 22023 for bytes that are none.
fn value_text(call: &mut Call) -> Answer {
    let text = call.arg::<Vec<u8>>(0).map(|bytes| {
        let value = decode_value(&bytes)
            .unwrap_or_else(|_| PgError::new(b"22023", "a private value is not canonical").raise());
        value.to_text()
    });
    call.value::<String>(text)
}
