//! A statement with its values, as the node takes it.
use chainify_ledger::messages::{Kind, Parameter};
use chainify_ledger::node_messages::Statement;
use chainify_ledger::{PARAMETERS_MAX, PROPOSAL_BYTES_MAX};

use crate::pg::base::error::PgError;
use crate::pg::base::variadic::TextValue;

/// The statement of a SQL transaction. Errors: 22023 for an empty text or a value of a type that
/// others do not have, 54000 for what is too large.
pub fn sql_statement(sql: Option<String>, values: Vec<TextValue>) -> Result<Statement, PgError> {
    let sql = sql
        .filter(|sql| !sql.trim().is_empty())
        .ok_or_else(|| PgError::new(b"22023", "statement is empty"))?;
    if names_private(&sql) {
        return Err(
            PgError::new(b"CH004", "statement names an opened view or seals a value")
                .detail("All organisations would see its values.")
                .hint("Run it in plain SQL, with SET chainify.writes = 'effects'."),
        );
    }
    if values.len() > PARAMETERS_MAX {
        return Err(PgError::new(
            b"54000",
            format!(
                "{} parameters, at most {PARAMETERS_MAX} are allowed",
                values.len()
            ),
        ));
    }
    let bytes = sql.len()
        + values
            .iter()
            .filter_map(|value| value.text.as_ref())
            .map(String::len)
            .sum::<usize>();
    if bytes > PROPOSAL_BYTES_MAX {
        return Err(PgError::new(b"54000", format!("statement and parameters have {bytes} bytes, at most {PROPOSAL_BYTES_MAX} are allowed")));
    }
    let parameters = values
        .into_iter()
        .enumerate()
        .map(parameter)
        .collect::<Result<_, _>>()?;
    Ok(Statement {
        kind: Kind::Sql as i32,
        sql,
        parameters,
        ..Statement::default()
    })
}

/// Whether a text names opened views or `chainify.seal`, however it is spaced and quoted. Another
/// organisation could not run it, and has to see nothing of it. Cost: linear.
fn names_private(sql: &str) -> bool {
    let written = |c: &char| !c.is_whitespace() && *c != '"';
    let sql: String = sql.chars().filter(written).collect();
    let sql = sql.to_ascii_lowercase();
    ["chainify_open", "chainify_private", "chainify.seal("]
        .iter()
        .any(|name| sql.contains(name))
}

fn parameter((index, value): (usize, TextValue)) -> Result<Parameter, PgError> {
    if value.pseudo_type {
        return Err(PgError::new(
            b"22023",
            format!(
                "parameter ${} has pseudo-type {}",
                index + 1,
                value.type_name
            ),
        )
        .hint("Cast it to a type that every organisation has."));
    }
    Ok(Parameter {
        r#type: value.type_name,
        null: value.text.is_none(),
        text: value.text.unwrap_or_default(),
    })
}
