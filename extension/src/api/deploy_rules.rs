//! Which statements a DEPLOY transaction may contain: a closed list. What is not on it is refused with the reason.
//!
//! The rules look at the statement alone, so that a refusal is the same in every organisation.
use crate::pg::ddl::{Clause, Definition, Kind};
use crate::pg::error::PgError;

/// Statements of one DEPLOY transaction.
pub const STATEMENTS_MAX: usize = 100;

/// Why the statement is not allowed, if so.
pub fn refusal(definition: &Definition) -> Option<PgError> {
    if definition.kind == Kind::Other {
        return Some(other(&definition.command));
    }
    let refused = |(clause, reason, rewrite): (String, &str, &str)| {
        let error = PgError::new(
            b"CH004",
            format!(
                "{clause} is not allowed in a DEPLOY transaction ({})",
                definition.command
            ),
        );
        let error = error.detail(reason);
        if rewrite.is_empty() {
            error
        } else {
            error.hint(rewrite)
        }
    };
    definition.clauses.iter().find_map(rule).map(refused)
}

/// The refusal of a statement of another kind.
fn other(command: &str) -> PgError {
    const ROWS: [&str; 7] = [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "TRUNCATE TABLE",
        "CALL",
    ];
    const LIST: &str = "Allowed are CREATE, ALTER and DROP of TABLE, INDEX, VIEW, FUNCTION, PROCEDURE, SCHEMA, POLICY and TYPE, GRANT, REVOKE and COMMENT.";
    let error = PgError::new(
        b"CH004",
        format!("{command} is not allowed in a DEPLOY transaction"),
    );
    let error = error.detail(LIST);
    match command {
        c if ROWS.contains(&c) => {
            error.hint("Submit it with SELECT chainify.execute('...').")
        }
        "CREATE TABLE AS" | "SELECT INTO" => {
            error.hint("Create the table with its primary key, then fill it with chainify.execute('INSERT ... SELECT ...').")
        }
        _ => error,
    }
}

const LOCAL: &str = "What it names is of one database.";

/// What a clause is called, why it is refused and what to write instead; None when it is allowed.
fn rule(clause: &Clause) -> Option<(String, &'static str, &'static str)> {
    let refuse = |name: &str, reason, rewrite| Some((name.to_owned(), reason, rewrite));
    match clause {
        Clause::IfExists => refuse(
            "IF [NOT] EXISTS",
            "What exists off the ledger differs between organisations, so what the statement does would.",
            "Leave it out: the transaction fails as a whole when the object is not as expected.",
        ),
        Clause::Cascade => refuse(
            "CASCADE",
            "What depends on the object off the ledger differs between organisations.",
            "Name every object.",
        ),
        Clause::Temporary => refuse("a temporary object", "It is of one session.", ""),
        Clause::Unlogged => refuse("UNLOGGED", "A crash would empty it in one organisation.", ""),
        Clause::Tablespace => refuse("TABLESPACE", LOCAL, "Leave it out; each organisation may move the table's files with the guard off."),
        Clause::Inherits => refuse("INHERITS", "Rows of a ledger table belong to it alone.", ""),
        Clause::Partition => refuse(
            "a partition",
            "Partitioned tables are put on the ledger with their partitions at once.",
            "Create them in every organisation, then SELECT chainify.attach('...').",
        ),
        Clause::OfType => refuse("OF type", "The table's columns would be those of a type that may change.", ""),
        Clause::Like => refuse("LIKE", "The other table may differ between organisations.", "Write the columns."),
        Clause::AccessMethod(_) => refuse("USING method", "Only PostgreSQL's own access methods are the same everywhere.", ""),
        Clause::Concurrently => refuse("CONCURRENTLY", "It works outside of a transaction.", "Leave it out."),
        Clause::UsingIndex => refuse("USING INDEX", "The index may not be there in every organisation.", "Write the constraint's columns."),
        Clause::Language(language) if language == "sql" || language == "plpgsql" => None,
        Clause::Language(language) => {
            let name = match language.as_str() {
                "" => "a function without LANGUAGE".to_owned(),
                other => format!("LANGUAGE {other}"),
            };
            Some((name, "Only functions in SQL and PL/pgSQL can be checked.", "Write it in SQL or PL/pgSQL."))
        }
        Clause::SchemaElement => refuse("an object inside CREATE SCHEMA", "Each object is a statement of its own.", "Create it with its schema's name after CREATE SCHEMA."),
        Clause::OtherObject => refuse("this kind of object", "The ledger does not follow it.", ""),
        Clause::Alteration(_) => None,
        Clause::OtherAlteration(name) => {
            let name = if name.is_empty() { "this ALTER" } else { name };
            refuse(name, "The ledger does not follow it.", "")
        }
        Clause::AllInSchema => refuse(
            "ALL ... IN SCHEMA",
            "A schema may hold other objects in each organisation.",
            "Name the objects.",
        ),
        Clause::Grantor => refuse("GRANTED BY", "Rights are granted by the object's owner.", "Leave it out."),
        Clause::RoleOfSession => refuse("CURRENT_ROLE", "It names the session's role.", "Write the role's name."),
        Clause::RenameValue => refuse("RENAME VALUE", "Rows on the ledger hold the value's name.", ""),
    }
}
