//! Which statements a DEPLOY transaction may contain: a closed list. What is not on it is refused with the reason.
//!
//! The rules look at the statement alone, so that a refusal is the same in every organisation.
use crate::pg::base::error::PgError;
use crate::pg::ddl::deploy_statements::{Clause, Definition, Kind};

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
    const LIST: &str = "Allowed are CREATE, ALTER and DROP of TABLE, INDEX, VIEW, SEQUENCE, FUNCTION, PROCEDURE, SCHEMA, POLICY, TYPE and DOMAIN, GRANT, REVOKE and COMMENT.";
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
        Clause::CascadeRights => refuse(
            "CASCADE",
            "To whom a role granted rights further differs between organisations.",
            "Revoke the rights of each role.",
        ),
        Clause::Temporary => refuse("a temporary object", "It is of one session.", ""),
        Clause::Unlogged => refuse("UNLOGGED", "A crash would empty it in one organisation.", ""),
        Clause::Tablespace => refuse("TABLESPACE", LOCAL, "Leave it out; each organisation may move the table's files with the guard off."),
        Clause::Inherits => refuse("INHERITS", "Rows of a ledger table belong to it alone.", ""),
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
        Clause::FromCurrent => refuse("SET ... FROM CURRENT", "It takes over a setting of one session.", "Write the value."),
        Clause::SchemaElement => refuse("an object inside CREATE SCHEMA", "Each object is a statement of its own.", "Create it with its schema's name after CREATE SCHEMA."),
        Clause::OtherObject => refuse("this kind of object", "The ledger does not follow it.", ""),
        Clause::Alteration(_) => None,
        Clause::OtherAlteration(name) => {
            let (reason, rewrite) = alteration(name);
            refuse(if name.is_empty() { "this ALTER" } else { name }, reason, rewrite)
        }
        Clause::AllInSchema => refuse(
            "ALL ... IN SCHEMA",
            "A schema may hold other objects in each organisation.",
            "Name the objects.",
        ),
        Clause::Grantor => refuse("GRANTED BY", "Rights are granted by the object's owner.", "Leave it out."),
        Clause::RoleOfSession => refuse("CURRENT_ROLE", "It names the session's role.", "Write the role's name."),
        Clause::RenameValue => refuse("RENAME VALUE", "Rows on the ledger hold the value's name.", "Add a value and update the rows."),
        Clause::ChecksValues => refuse(
            "a check of a domain's values",
            "It would look at earlier versions of rows as well, of which organisations keep different ones.",
            "Add the constraint NOT VALID, or add one to each table.",
        ),
    }
}

/// Why a part of ALTER TABLE is refused and what to write instead.
fn alteration(name: &str) -> (&'static str, &'static str) {
    match name {
        "ALTER of a type's attributes" => (
            "Rows on the ledger hold values of the type.",
            "Create another type, add a column of it, and fill it.",
        ),
        "RENAME of a schema" => (
            "Statements and objects of each organisation may name it.",
            "Create another schema and move the objects with SET SCHEMA.",
        ),
        "RENAME of a view's column" | "SET DEFAULT" => (
            "A view is its query, and nothing else.",
            "Write the view anew with DROP VIEW and CREATE VIEW.",
        ),
        "SET UNLOGGED" => ("A crash would empty it in one organisation.", ""),
        "SET TABLESPACE" | "SET (…)" | "SET STORAGE" | "SET COMPRESSION" | "SET STATISTICS"
        | "CLUSTER" | "REPLICA IDENTITY" => (
            "How rows are stored is each organisation's own matter.",
            "Change it in the database itself, with chainify.guard off.",
        ),
        "SET ACCESS METHOD" => ("Ledger tables are stored as heaps.", ""),
        "INHERIT" => ("Rows of a ledger table belong to it alone.", ""),
        "ATTACH PARTITION" => (
            "Its rows would come without a transaction that inserts them.",
            "Create it with CREATE TABLE ... PARTITION OF, then insert the rows.",
        ),
        "DETACH PARTITION" => (
            "Its rows would leave the table without a transaction that deletes them.",
            "Insert the rows into another table, then DROP TABLE the partition.",
        ),
        "ALTER CONSTRAINT" => ("Constraints of ledger tables are checked at once.", ""),
        "ENABLE TRIGGER" | "DISABLE TRIGGER" => (
            "A ledger table has the ledger's own triggers alone, and these stay enabled.",
            "",
        ),
        _ => ("The ledger does not follow it.", ""),
    }
}
