//! Texts of DEPLOY transactions that are not PostgreSQL's SQL but the ledger's own
//! (spec/sql-api.md).

use std::fmt;

use crate::procedure::{attached, shared, Procedure};

/// Tables, or organisations, of one command.
pub const TABLES_MAX: usize = 1_000;

/// A name as PostgreSQL keeps it: unquoted ones are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The schema's name.
    pub schema: String,
    /// The table's name in the schema.
    pub table: String,
}

/// As the ledger names it, without quotes.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// The command of a text. Borrowed text is not read any further here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'t> {
    /// `ATTACH TABLE schema.table, …`
    Attach(Vec<TableName>),
    /// `ATTACH TABLE public.table, … ENCODING 2`, in this spelling alone (spec/engines.md)
    AttachShared(Vec<TableName>),
    /// `DETACH TABLE schema.table, …`
    Detach(Vec<TableName>),
    /// `ATTACH PROCEDURE public.name (type, …) ENCODING 2 …`, in this spelling alone
    AttachProcedure(Procedure),
    /// `DETACH PROCEDURE public.name`, the same: the name
    DetachProcedure(String),
    /// `SET AGREEMENT POLICY schema.table TO policy`
    SetPolicy(TableName, &'t str),
    /// `DROP AGREEMENT POLICY schema.table`
    DropPolicy(TableName),
    /// `SET DETERMINISM value`
    SetDeterminism(&'t str),
    /// `SET DEPLOYS value`
    SetDeploys(&'t str),
    /// `SET ORGANISATIONS OF ROLE role TO organisation, …`
    SetRoleOrganisations(String, Vec<String>),
    /// `DROP ORGANISATIONS OF ROLE role`
    DropRoleOrganisations(String),
    /// `CREATE CIRCLE name OF organisation, …` (spec/private.md)
    CreateCircle(String, Vec<String>),
    /// `DROP CIRCLE name`
    DropCircle(String),
    /// `ALTER TABLE schema.table SEAL COLUMN column AS type FOR circle`
    SealColumn(Sealed<'t>),
}

/// A column to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed<'t> {
    /// Its table.
    pub table: TableName,
    /// Its name.
    pub column: String,
    /// The logical type, which is not read any further here.
    pub of: &'t str,
    /// The circle whose members may hold the values.
    pub circle: String,
}

/// A command that a text begins as, and does not go on as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// ATTACH TABLE or DETACH TABLE.
    Tables,
    /// ATTACH PROCEDURE or DETACH PROCEDURE.
    Procedure,
    /// SET AGREEMENT POLICY or DROP AGREEMENT POLICY.
    Policy,
    /// SET ORGANISATIONS OF ROLE or DROP ORGANISATIONS OF ROLE.
    RoleOrganisations,
    /// CREATE CIRCLE or DROP CIRCLE.
    Circle,
    /// ALTER TABLE … SEAL.
    Sealed,
}

/// Reads a command; `None` for any other text, which is SQL or nothing. Cost: linear.
pub fn command(sql: &str) -> Option<Result<Command<'_>, Malformed>> {
    if let Some(tables) = shared_tables(sql) {
        return Some(Ok(Command::AttachShared(tables)));
    }
    if let Some(procedure) = procedure(sql) {
        return Some(Ok(procedure));
    }
    let text = sql.trim().trim_end_matches(';').trim_end();
    let (first, rest) = word(text)?;
    let make = match first.as_str() {
        "attach" => Command::Attach,
        "detach" => Command::Detach,
        "set" | "drop" => return setting(rest, first == "set"),
        "create" => {
            let (_, rest) = word(rest).filter(|(what, _)| what == "circle")?;
            return Some(create_circle(rest).ok_or(Malformed::Circle));
        }
        "alter" => return sealed(rest),
        _ => return None,
    };
    if word(rest).is_some_and(|(what, _)| what == "procedure") {
        return Some(Err(Malformed::Procedure));
    }
    Some(tables(rest).map(make).ok_or(Malformed::Tables))
}

/// A command about a procedure. Every engine reads this one spelling.
fn procedure(sql: &str) -> Option<Command<'_>> {
    if let Some(rest) = sql.strip_prefix("ATTACH PROCEDURE ") {
        return attached(rest).map(Command::AttachProcedure);
    }
    let name = sql.strip_prefix("DETACH PROCEDURE ")?;
    shared(name).map(|name| Command::DetachProcedure(name.into()))
}

/// The tables of an ATTACH TABLE with ENCODING 2. Every engine reads this one spelling.
fn shared_tables(sql: &str) -> Option<Vec<TableName>> {
    let names = sql.strip_prefix("ATTACH TABLE ")?.strip_suffix(" ENCODING 2")?;
    let tables: Option<Vec<TableName>> = names.split(", ").map(shared_name).collect();
    tables.filter(|tables| tables.len() <= TABLES_MAX)
}

/// A table that every engine knows by this name.
fn shared_name(name: &str) -> Option<TableName> {
    shared(name).map(|table| TableName { schema: "public".into(), table: table.into() })
}

/// The text after SET, or else DROP.
fn setting(rest: &str, set: bool) -> Option<Result<Command<'_>, Malformed>> {
    let (what, rest) = word(rest)?;
    match what.as_str() {
        "determinism" if set => Some(Ok(Command::SetDeterminism(rest))),
        "deploys" if set => Some(Ok(Command::SetDeploys(rest))),
        "agreement" => {
            let (_, rest) = word(rest).filter(|(word, _)| word == "policy")?;
            Some(policy(rest, set).ok_or(Malformed::Policy))
        }
        "organisations" => {
            let (_, rest) = word(rest).filter(|(word, _)| word == "of")?;
            Some(role_organisations(rest, set).ok_or(Malformed::RoleOrganisations))
        }
        "circle" if !set => Some(name(rest).map(Command::DropCircle).ok_or(Malformed::Circle)),
        _ => None,
    }
}

/// A circle's name, `OF` and a list of organisations.
fn create_circle(rest: &str) -> Option<Command<'_>> {
    let (circle, rest) = word(rest)?;
    let (_, rest) = word(rest).filter(|(word, _)| word == "of")?;
    Some(Command::CreateCircle(circle, list(rest, organisation)?))
}

/// The text after ALTER; None where it does not go on as `TABLE schema.table SEAL`.
fn sealed(rest: &str) -> Option<Result<Command<'_>, Malformed>> {
    let (_, rest) = word(rest).filter(|(what, _)| what == "table")?;
    let (table, rest) = table(rest)?;
    let (_, rest) = word(rest).filter(|(verb, _)| verb == "seal")?;
    Some(sealed_column(table, rest).map(Command::SealColumn).ok_or(Malformed::Sealed))
}

/// `COLUMN column AS type FOR circle`; the circle is all that stands behind the last `FOR`.
fn sealed_column(table: TableName, rest: &str) -> Option<Sealed<'_>> {
    let (_, rest) = word(rest).filter(|(word, _)| word == "column")?;
    let (column, rest) = word(rest)?;
    let (_, rest) = word(rest).filter(|(word, _)| word == "as")?;
    let behind = |(at, _): (usize, &str)| {
        let (_, circle) = word(&rest[at + 1..]).filter(|(word, _)| word == "for")?;
        Some((rest[..at].trim_end(), name(circle)?))
    };
    let (of, circle) = rest.rmatch_indices(|c: char| c.is_ascii_whitespace()).find_map(behind)?;
    (!of.is_empty()).then_some(Sealed { table, column, of, circle })
}

/// A name with nothing behind it.
fn name(rest: &str) -> Option<String> {
    let (name, rest) = word(rest)?;
    rest.is_empty().then_some(name)
}

fn policy(rest: &str, set: bool) -> Option<Command<'_>> {
    let (table, rest) = table(rest)?;
    if !set {
        return rest.is_empty().then_some(Command::DropPolicy(table));
    }
    let (_, policy) = word(rest).filter(|(word, _)| word == "to")?;
    Some(Command::SetPolicy(table, policy))
}

/// `ROLE` and its name, then for SET the list of organisations.
fn role_organisations(rest: &str, set: bool) -> Option<Command<'_>> {
    let (_, rest) = word(rest).filter(|(word, _)| word == "role")?;
    let (role, rest) = word(rest)?;
    if !set {
        return rest.is_empty().then_some(Command::DropRoleOrganisations(role));
    }
    let (_, rest) = word(rest).filter(|(word, _)| word == "to")?;
    Some(Command::SetRoleOrganisations(role, list(rest, organisation)?))
}

/// An organisation's name, in quotes or without; it has letters, digits, `_` and `-`.
fn organisation(rest: &str) -> Option<(String, &str)> {
    if rest.starts_with('"') {
        return word(rest);
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    (end > 0).then(|| (rest[..end].to_ascii_lowercase(), rest[end..].trim_start()))
}

/// `TABLE` and a list.
fn tables(rest: &str) -> Option<Vec<TableName>> {
    let (_, rest) = word(rest).filter(|(word, _)| word == "table")?;
    list(rest, table)
}

/// One to [`TABLES_MAX`] items with commas between them, and nothing behind.
fn list<'t, T>(mut rest: &'t str, item: impl Fn(&'t str) -> Option<(T, &'t str)>) -> Option<Vec<T>> {
    let mut items = Vec::new();
    loop {
        let (read, after) = item(rest)?;
        items.push(read);
        match after.strip_prefix(',') {
            Some(next) if items.len() < TABLES_MAX => rest = next.trim_start(),
            _ => return after.is_empty().then_some(items),
        }
    }
}

fn table(rest: &str) -> Option<(TableName, &str)> {
    let (schema, rest) = word(rest)?;
    let (table, rest) = word(rest.strip_prefix('.')?.trim_start())?;
    Some((TableName { schema, table }, rest))
}

/// The word that the text begins with, as PostgreSQL keeps it, and what follows behind blanks.
fn word(text: &str) -> Option<(String, &str)> {
    let (word, length) = match text.strip_prefix('"') {
        Some(quoted) => {
            let end = quote_end(quoted)?;
            (quoted[..end].replace("\"\"", "\""), end + 2)
        }
        None => {
            let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
            (text[..end].to_ascii_lowercase(), end)
        }
    };
    (!word.is_empty()).then(|| (word, text[length..].trim_start()))
}

/// Where the first quote stands that is not doubled.
fn quote_end(quoted: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += quoted[at..].find('"')?;
        if !quoted[at + 1..].starts_with('"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(schema: &str, table: &str) -> TableName {
        TableName { schema: schema.into(), table: table.into() }
    }

    #[test]
    fn commands_are_read_as_postgresql_reads_names() {
        let odd = name("odd \"one", "Ta,b.le");
        for (sql, expected) in [
            ("attach  Table Public.Ä , p.\"b\";", Command::Attach(vec![name("public", "Ä"), name("p", "b")])),
            (
                "ATTACH TABLE public.a, public.b_2 ENCODING 2",
                Command::AttachShared(vec![name("public", "a"), name("public", "b_2")]),
            ),
            (" DETACH TABLE \"odd \"\"one\" . \"Ta,b.le\"", Command::Detach(vec![odd.clone()])),
            (
                "SET agreement POLICY a.b TO AND(org(x), \"c\")",
                Command::SetPolicy(name("a", "b"), "AND(org(x), \"c\")"),
            ),
            ("drop agreement policy \"odd \"\"one\".\"Ta,b.le\" ;;", Command::DropPolicy(odd)),
            ("set determinism Detect ;", Command::SetDeterminism("Detect")),
            ("SET DETERMINISM", Command::SetDeterminism("")),
            ("Set Deploys agreed;", Command::SetDeploys("agreed")),
            (
                "set Organisations OF role \"Odd \"\"one\" to acme, b-2 ,\"cargo\";",
                Command::SetRoleOrganisations("Odd \"one".into(), vec!["acme".into(), "b-2".into(), "cargo".into()]),
            ),
            ("DROP ORGANISATIONS OF ROLE Clerk", Command::DropRoleOrganisations("clerk".into())),
            (
                "create Circle Pricing of acme , b-2;",
                Command::CreateCircle("pricing".into(), vec!["acme".into(), "b-2".into()]),
            ),
            ("DROP CIRCLE \"for x\"", Command::DropCircle("for x".into())),
            (
                "Alter table P.t seal column \"Pr ice\" as timestamp(3) with time zone\n for \"a for b\" ;",
                Command::SealColumn(Sealed {
                    table: name("p", "t"),
                    column: "Pr ice".into(),
                    of: "timestamp(3) with time zone",
                    circle: "a for b".into(),
                }),
            ),
        ] {
            assert_eq!(command(sql), Some(Ok(expected)), "{sql}");
        }
    }

    #[test]
    fn what_begins_as_a_command_has_to_be_one() {
        for (sql, expected) in [
            ("ATTACH", Malformed::Tables),
            ("ATTACH TABLE", Malformed::Tables),
            ("ATTACH TABLE a", Malformed::Tables),
            ("ATTACH TABLE a.b,", Malformed::Tables),
            ("ATTACH TABLE a.b c.d", Malformed::Tables),
            ("ATTACH TABLE a.b ENCODING 2", Malformed::Tables),
            ("ATTACH TABLE public.b ENCODING 1", Malformed::Tables),
            ("attach table public.b encoding 2", Malformed::Tables),
            ("ATTACH TABLE public.b,public.c ENCODING 2", Malformed::Tables),
            ("ATTACH TABLE public.b ENCODING 2;", Malformed::Tables),
            ("ATTACH TABLE public.B ENCODING 2", Malformed::Tables),
            ("ATTACH TABLE public.\"b\" ENCODING 2", Malformed::Tables),
            ("ATTACH TABLE public.pg_class ENCODING 2", Malformed::Tables),
            ("ATTACH TABLE public. ENCODING 2", Malformed::Tables),
            ("DETACH TABLE public.b ENCODING 2", Malformed::Tables),
            ("DETACH TABLE a.\"b", Malformed::Tables),
            ("DETACH TABLE a.\"\"", Malformed::Tables),
            ("DETACH VIEW a.b", Malformed::Tables),
            ("SET AGREEMENT POLICY a TO x", Malformed::Policy),
            ("SET AGREEMENT POLICY a.b x", Malformed::Policy),
            ("DROP AGREEMENT POLICY a.b TO x", Malformed::Policy),
            ("SET ORGANISATIONS OF ROLE a", Malformed::RoleOrganisations),
            ("SET ORGANISATIONS OF ROLE a TO", Malformed::RoleOrganisations),
            ("SET ORGANISATIONS OF ROLE a TO b,", Malformed::RoleOrganisations),
            ("SET ORGANISATIONS OF ROLE a TO b c", Malformed::RoleOrganisations),
            ("SET ORGANISATIONS OF b TO c", Malformed::RoleOrganisations),
            ("DROP ORGANISATIONS OF ROLE a TO b", Malformed::RoleOrganisations),
            ("CREATE CIRCLE a", Malformed::Circle),
            ("CREATE CIRCLE a OF", Malformed::Circle),
            ("CREATE CIRCLE a OF b c", Malformed::Circle),
            ("DROP CIRCLE a, b", Malformed::Circle),
            ("ALTER TABLE a.b SEAL c AS text FOR d", Malformed::Sealed),
            ("ALTER TABLE a.b SEAL COLUMN c AS text", Malformed::Sealed),
            ("ALTER TABLE a.b SEAL COLUMN c AS FOR d", Malformed::Sealed),
            ("ALTER TABLE a.b SEAL COLUMN c AS text FOR d, e", Malformed::Sealed),
        ] {
            assert_eq!(command(sql), Some(Err(expected)), "{sql}");
        }
        let list = |count| format!("ATTACH TABLE {}", vec!["a.b"; count].join(","));
        assert!(matches!(command(&list(TABLES_MAX)), Some(Ok(_))));
        assert_eq!(command(&list(TABLES_MAX + 1)), Some(Err(Malformed::Tables)));
    }

    #[test]
    fn all_else_is_left_to_postgresql() {
        for sql in [
            "",
            ";",
            "SET x = 1",
            "DROP TABLE a.b",
            "CREATE TABLE circle (of int)",
            "ALTER TABLE a.b ADD COLUMN seal int",
            "ALTER TABLE a SEAL COLUMN c AS text FOR d",
            "DROP DETERMINISM x",
            "DROP DEPLOYS x",
            "SET AGREEMENT a.b",
            "SET ORGANISATIONS = a",
            "SET ROLE a",
            "\"attach",
            "-- ATTACH TABLE a.b",
        ] {
            assert_eq!(command(sql), None, "{sql}");
        }
    }

    /// The node reads the same texts (abci/portable).
    #[test]
    fn texts_of_procedures_have_one_spelling() {
        let texts = include_str!("../../../spec/vectors/procedures.txt");
        let mut count = 0;
        for line in texts.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (expected, text) = line.split_once(' ').expect("+ or -, and a text");
            let text = text.replace("HASH", &"0a".repeat(32)).replace("\\n", "\n");
            let read = command(&text);
            match expected {
                "+" => assert!(
                    matches!(read, Some(Ok(Command::AttachProcedure(_) | Command::DetachProcedure(_)))),
                    "{text}: {read:?}"
                ),
                _ => assert_eq!(read, Some(Err(Malformed::Procedure)), "{text}"),
            }
            count += 1;
        }
        assert!(count > 20);
    }

    #[test]
    fn a_procedure_is_read_whole() {
        let text = format!("ATTACH PROCEDURE public.pay (bigint, numeric) ENCODING 2 POSTGRESQL {}", "0a".repeat(32));
        let Some(Ok(Command::AttachProcedure(read))) = command(&text) else { panic!("not read") };
        assert_eq!((read.name.as_str(), read.types.join(" ")), ("pay", "bigint numeric".into()));
        assert_eq!((read.mariadb, read.postgresql), (None, Some([10; 32])));
        assert_eq!(command("DETACH PROCEDURE public.pay"), Some(Ok(Command::DetachProcedure("pay".into()))));
    }
}
