//! Which statements a DEPLOY transaction may contain: a closed list. A statement that is not on it
//! is refused with the reason.
//!
//! The rules look at the statement alone, so that a refusal is the same in every organisation.
use crate::objects::ATTRIBUTE;
use crate::refusal::Refusal;

/// Statements of one DEPLOY transaction.
pub const STATEMENTS_MAX: usize = 100;

/// Kinds of statements that may be allowed; everything else is `Other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the statements of these names")]
pub enum Kind {
    CreateTable,
    AlterTable,
    CreateIndex,
    CreateView,
    CreateFunction,
    AlterFunction,
    CreateSchema,
    CreatePolicy,
    AlterPolicy,
    CreateType,
    AddEnumValue,
    AlterDomain,
    CreateSequence,
    AlterSequence,
    Rename,
    SetSchema,
    SetOwner,
    Drop,
    Grant,
    Comment,
    Other,
}

/// A part of a statement that the rules look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clause {
    /// IF EXISTS, IF NOT EXISTS.
    IfExists,
    /// REVOKE … CASCADE.
    CascadeRights,
    /// CREATE TEMPORARY.
    Temporary,
    /// CREATE UNLOGGED.
    Unlogged,
    /// TABLESPACE of a table, an index or a constraint.
    Tablespace,
    /// INHERITS.
    Inherits,
    /// CREATE TABLE … OF type.
    OfType,
    /// LIKE of CREATE TABLE.
    Like,
    /// USING of a table.
    AccessMethod(String),
    /// USING of an index.
    IndexMethod(String),
    /// CREATE or DROP INDEX CONCURRENTLY.
    Concurrently,
    /// A constraint made of an index that is there already.
    UsingIndex,
    /// The language of a function; empty when the statement has none.
    Language(String),
    /// SET … FROM CURRENT of a function.
    FromCurrent,
    /// A statement inside CREATE SCHEMA.
    SchemaElement,
    /// The kind of object of a DROP, ALTER … RENAME and the like that is not one of ours.
    OtherObject,
    /// A part of ALTER TABLE, as it is written.
    Alteration(&'static str),
    /// A part of ALTER TABLE that is not allowed; empty when it has no short name.
    OtherAlteration(&'static str),
    /// GRANT … ON ALL TABLES IN SCHEMA.
    AllInSchema,
    /// GRANTED BY.
    Grantor,
    /// CURRENT_ROLE, CURRENT_USER, SESSION_USER.
    RoleOfSession,
    /// ALTER TYPE … RENAME VALUE.
    RenameValue,
    /// A part of ALTER DOMAIN that looks at the values that there are.
    ChecksValues,
}

/// A statement of a DEPLOY transaction, as the parser described it.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'s> {
    /// Its command tag.
    pub command: &'s str,
    /// Its kind.
    pub kind: Kind,
    /// Its parts that rules are about.
    pub clauses: &'s [Clause],
}

/// Why a DEPLOY transaction of these statements is not allowed; None when it is. The first refusal
/// counts.
pub fn refusal_of_all(statements: &[Statement]) -> Option<Refusal> {
    if statements.is_empty() {
        return Some(Refusal::new(b"42601", "transaction contains no statement"));
    }
    if statements.len() > STATEMENTS_MAX {
        let count = statements.len();
        let message = format!("{count} statements, at most {STATEMENTS_MAX} are allowed in a DEPLOY transaction");
        return Some(Refusal::new(b"54000", message));
    }
    statements.iter().find_map(refusal)
}

/// Why a statement is not allowed; None when it is.
pub fn refusal(statement: &Statement) -> Option<Refusal> {
    let command = statement.command;
    if statement.kind == Kind::Other {
        return Some(other(command));
    }
    let (clause, reason, rewrite) = statement.clauses.iter().find_map(rule)?;
    let refusal =
        Refusal::new(b"CH004", format!("{clause} is not allowed in a DEPLOY transaction ({command})")).detail(reason);
    Some(if rewrite.is_empty() { refusal } else { refusal.hint(rewrite) })
}

/// The refusal of a change of an object that is not on the ledger.
pub fn not_on_ledger(name: &str) -> Refusal {
    Refusal::new(b"CH004", format!("{name} is not on the ledger"))
        .detail("A DEPLOY transaction changes what it or an earlier one made, and tables on the ledger: what else a database holds differs between organisations.")
}

/// The refusal of a DROP … CASCADE that reaches an object outside of the ledger.
pub fn dropped_as_well(name: &str) -> Refusal {
    Refusal::new(b"CH004", format!("{name} would be dropped as well, which is not on the ledger"))
        .detail("A DEPLOY transaction drops what every organisation has, and what the history still needs stays.")
        .hint("What the database has of its own can be dropped there first.")
}

/// The refusal of a column that comes to, or goes from, a relation whose rows a ledger column
/// holds.
pub fn values_of_row_type(changed: &str, table: &str, column: &str) -> Refusal {
    let message = format!("columns of \"{changed}\" cannot be added or dropped in a DEPLOY transaction");
    Refusal::new(b"CH004", message)
        .detail(format!(
            "Column \"{column}\" of table \"{table}\" holds values of its row type, which would be others."
        ))
        .hint("Give that column a type of its own: add a column of another type, fill it, and drop this one.")
}

/// The refusal of an object that is temporary, or refers to such a one.
pub fn temporary(kind: &str, name: &str) -> Refusal {
    Refusal::new(b"CH004", format!("{kind} {name} is temporary, which is not allowed in a DEPLOY transaction"))
        .detail("A temporary object is of one session of one database.")
        .hint("Name a schema that every organisation has, such as public.")
}

/// How the statements of a function are checked when it is deployed; all of them are checked again
/// when they run (X6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// They were parsed when the function was made (BEGIN ATOMIC).
    Parsed,
    /// One by one, as the text of an SQL function.
    Sql,
    /// One by one, as statements of PL/pgSQL; then the names that the text calls.
    Statements,
    /// By the names alone that the text calls: a SET clause may give them another meaning.
    Names,
}

/// How the body of a function is checked. `settings`: it has a SET clause.
pub fn body(language: &str, parsed: bool, settings: bool) -> Body {
    match (language, parsed) {
        (_, true) => Body::Parsed,
        ("sql", _) => Body::Sql,
        _ if settings => Body::Names,
        _ => Body::Statements,
    }
}

/// The refusal of a statement of another kind.
fn other(command: &str) -> Refusal {
    const ROWS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE TABLE", "CALL"];
    const LIST: &str = "Allowed are CREATE, ALTER and DROP of TABLE, INDEX, VIEW, SEQUENCE, FUNCTION, PROCEDURE, SCHEMA, POLICY, TYPE and DOMAIN, GRANT, REVOKE and COMMENT.";
    let error = Refusal::new(b"CH004", format!("{command} is not allowed in a DEPLOY transaction"));
    let error = error.detail(LIST);
    match command {
        c if ROWS.contains(&c) => error.hint("Submit it with SELECT chainify.execute('...')."),
        "CREATE TABLE AS" | "SELECT INTO" => error.hint(
            "Create the table with its primary key, then fill it with chainify.execute('INSERT ... SELECT ...').",
        ),
        _ => error,
    }
}

/// Access methods of indexes that PostgreSQL has of its own.
const INDEX_METHODS: [&str; 6] = ["btree", "hash", "gin", "gist", "spgist", "brin"];

const LOCAL: &str = "What it names is of one database.";

/// Name of a refused clause, the reason, and the wording to use instead; None when it is allowed.
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
        Clause::Tablespace => refuse(
            "TABLESPACE",
            LOCAL,
            "Leave it out; each organisation may move the table's files with the guard off.",
        ),
        Clause::Inherits => refuse("INHERITS", "Rows of a ledger table belong to it alone.", ""),
        Clause::OfType => refuse("OF type", "The table's columns would be those of a type that may change.", ""),
        Clause::Like => refuse("LIKE", "The other table may differ between organisations.", "Write the columns."),
        Clause::AccessMethod(method) if method == "heap" => None,
        Clause::IndexMethod(method) if INDEX_METHODS.contains(&method.as_str()) => None,
        Clause::AccessMethod(_) | Clause::IndexMethod(_) => {
            refuse("USING method", "Only PostgreSQL's own access methods are the same everywhere.", "")
        }
        Clause::Concurrently => refuse("CONCURRENTLY", "It works outside of a transaction.", "Leave it out."),
        Clause::UsingIndex => refuse(
            "USING INDEX",
            "The index may not be there in every organisation.",
            "Write the constraint's columns.",
        ),
        Clause::Language(language) if language == "sql" || language == "plpgsql" => None,
        Clause::Language(language) => {
            let name = match language.as_str() {
                "" => "a function without LANGUAGE".to_owned(),
                other => format!("LANGUAGE {other}"),
            };
            Some((name, "Only functions in SQL and PL/pgSQL can be checked.", "Write it in SQL or PL/pgSQL."))
        }
        Clause::FromCurrent => {
            refuse("SET ... FROM CURRENT", "It takes over a setting of one session.", "Write the value.")
        }
        Clause::SchemaElement => refuse(
            "an object inside CREATE SCHEMA",
            "Each object is a statement of its own.",
            "Create it with its schema's name after CREATE SCHEMA.",
        ),
        Clause::OtherObject => refuse("this kind of object", "The ledger does not follow it.", ""),
        Clause::Alteration(_) => None,
        Clause::OtherAlteration(name) => {
            let (reason, rewrite) = alteration(name);
            refuse(if name.is_empty() { "this ALTER" } else { name }, reason, rewrite)
        }
        Clause::AllInSchema => {
            refuse("ALL ... IN SCHEMA", "A schema may hold other objects in each organisation.", "Name the objects.")
        }
        Clause::Grantor => refuse("GRANTED BY", "Rights are granted by the object's owner.", "Leave it out."),
        Clause::RoleOfSession => refuse("CURRENT_ROLE", "It names the session's role.", "Write the role's name."),
        Clause::RenameValue => {
            refuse("RENAME VALUE", "Rows on the ledger hold the value's name.", "Add a value and update the rows.")
        }
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
        ATTRIBUTE => {
            ("Rows on the ledger hold values of the type.", "Create another type, add a column of it, and fill it.")
        }
        "RENAME of a schema" => (
            "Statements and objects of each organisation may name it.",
            "Create another schema and move the objects with SET SCHEMA.",
        ),
        "RENAME of a view's column" | "SET DEFAULT" => {
            ("A view is its query, and nothing else.", "Write the view anew with DROP VIEW and CREATE VIEW.")
        }
        "SET UNLOGGED" => ("A crash would empty it in one organisation.", ""),
        "SET TABLESPACE" | "SET (…)" | "SET STORAGE" | "SET COMPRESSION" | "SET STATISTICS" | "CLUSTER"
        | "REPLICA IDENTITY" => (
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
        "ENABLE TRIGGER" | "DISABLE TRIGGER" => {
            ("A ledger table has the ledger's own triggers alone, and these stay enabled.", "")
        }
        _ => ("The ledger does not follow it.", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_as_far_as_it_says_the_same_when_it_runs() {
        assert_eq!(body("sql", true, false), Body::Parsed);
        assert_eq!(body("sql", true, true), Body::Parsed, "names in it have their meaning");
        assert_eq!(body("sql", false, true), Body::Sql);
        assert_eq!(body("plpgsql", false, false), Body::Statements);
        assert_eq!(body("plpgsql", false, true), Body::Names, "under another search_path");
    }

    #[test]
    fn what_is_of_one_database_is_named() {
        for (refusal, message) in [
            (not_on_ledger("table public.t"), "table public.t is not on the ledger"),
            (dropped_as_well("view v"), "view v would be dropped as well, which is not on the ledger"),
            (temporary("view", "v"), "view v is temporary, which is not allowed in a DEPLOY transaction"),
        ] {
            assert_eq!((refusal.sqlstate, refusal.message.as_str()), (b"CH004", message));
            assert!(refusal.detail.is_some());
        }
    }
}
