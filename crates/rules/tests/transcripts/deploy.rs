//! Statements of DEPLOY transactions as transcripts write them: the command tag, and after a colon
//! the clauses that rules are about. `100 times` at the end repeats a statement; `?` after the tag
//! marks a statement of a kind that has no rules.

use std::fmt::Write;

use chainify_rules::deploy::{refusal_of_all, Clause, Kind, Statement};
use chainify_rules::objects::*;
use chainify_rules::refusal::Refusal;

const PARTS: [Part; 33] = [
    Part::AddColumn,
    Part::DropColumn,
    Part::ColumnType,
    Part::ColumnDefault,
    Part::SetNotNull,
    Part::DropNotNull,
    Part::AddConstraint,
    Part::DropConstraint,
    Part::ValidateConstraint,
    Part::Owner,
    Part::EnableRowSecurity,
    Part::DisableRowSecurity,
    Part::ForceRowSecurity,
    Part::NoForceRowSecurity,
    Part::Identity,
    Part::DropExpression,
    Part::Options,
    Part::ColumnOptions,
    Part::Logged,
    Part::Tablespace,
    Part::AccessMethod,
    Part::Inherit,
    Part::AttachPartition,
    Part::DetachPartition,
    Part::AlterConstraint,
    Part::EnableTrigger,
    Part::DisableTrigger,
    Part::Storage,
    Part::Compression,
    Part::Statistics,
    Part::Cluster,
    Part::ReplicaIdentity,
    Part::Other,
];

const OBJECTS: [Object; 15] = [
    Object::Table,
    Object::View,
    Object::Index,
    Object::Column,
    Object::TableConstraint,
    Object::Policy,
    Object::Sequence,
    Object::Function,
    Object::Procedure,
    Object::Routine,
    Object::Schema,
    Object::Type,
    Object::Domain,
    Object::DomainConstraint,
    Object::Other,
];

pub fn refusal(lines: &[&str]) -> Option<Refusal> {
    let mut described: Vec<(String, Kind, Vec<Clause>)> = Vec::new();
    for line in lines {
        let (line, times) = match line.rsplit_once(", ").and_then(|(l, n)| Some((l, n.strip_suffix(" times")?))) {
            Some((line, times)) => (line, times.parse().unwrap()),
            None => (*line, 1),
        };
        let (command, clauses) = line.split_once(':').unwrap_or((line, ""));
        let clauses: Vec<Clause> = clauses.split(',').map(str::trim).filter(|c| !c.is_empty()).map(clause).collect();
        for _ in 0..times {
            described.push(match command.strip_suffix('?') {
                Some(command) => (command.to_owned(), Kind::Other, clauses.clone()),
                None => (command.to_owned(), Kind::CreateTable, clauses.clone()),
            });
        }
    }
    let statements: Vec<Statement> =
        described.iter().map(|(command, kind, clauses)| Statement { command, kind: *kind, clauses }).collect();
    refusal_of_all(&statements)
}

fn clause(text: &str) -> Clause {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name {
        "if-exists" => Clause::IfExists,
        "cascade-rights" => Clause::CascadeRights,
        "temporary" => Clause::Temporary,
        "unlogged" => Clause::Unlogged,
        "tablespace" => Clause::Tablespace,
        "inherits" => Clause::Inherits,
        "of-type" => Clause::OfType,
        "like" => Clause::Like,
        "table-method" => Clause::AccessMethod(value.into()),
        "index-method" => Clause::IndexMethod(value.into()),
        "concurrently" => Clause::Concurrently,
        "using-index" => Clause::UsingIndex,
        "language" => Clause::Language(value.into()),
        "from-current" => Clause::FromCurrent,
        "schema-element" => Clause::SchemaElement,
        "other-object" => Clause::OtherObject,
        "part" => part(value),
        "attribute" => Clause::OtherAlteration(ATTRIBUTE),
        "rename-schema" => Clause::OtherAlteration("RENAME of a schema"),
        "rename-view-column" => Clause::OtherAlteration("RENAME of a view's column"),
        "all-in-schema" => Clause::AllInSchema,
        "grantor" => Clause::Grantor,
        "role-of-session" => Clause::RoleOfSession,
        "rename-value" => Clause::RenameValue,
        "checks-values" => Clause::ChecksValues,
        other => panic!("no clause {other}"),
    }
}

/// `SET NOT NULL of view`: as the extension makes a clause of a part.
fn part(text: &str) -> Clause {
    let (name, of) = text.split_once(" of ").unwrap_or((text, "table"));
    let object = match of {
        "table" => Object::Table,
        "view" => Object::View,
        "sequence" => Object::Sequence,
        other => panic!("no object {other}"),
    };
    let part = PARTS.into_iter().find(|p| p.name() == name).unwrap_or_else(|| panic!("no part {name}"));
    match part.follows(object) {
        true => Clause::Alteration(part.name()),
        false => Clause::OtherAlteration(part.name()),
    }
}

/// The statements that may name each kind of object.
pub fn objects() -> String {
    let statements: [(&str, fn(Object) -> bool); 7] = [
        ("ALTER", altered),
        ("RENAME", renamed),
        ("SET SCHEMA", moved),
        ("OWNER", owned),
        ("DROP", dropped),
        ("GRANT", granted),
        ("COMMENT", commented),
    ];
    let mut out = String::new();
    for object in OBJECTS {
        let names: Vec<&str> = statements.iter().filter(|(_, may)| may(object)).map(|(name, _)| *name).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        writeln!(out, "{object:?}: {names}").unwrap();
    }
    out
}

/// The parts of ALTER TABLE, and for which kinds of objects the ledger follows them.
pub fn parts() -> String {
    let mut out = String::new();
    for part in PARTS {
        let of: Vec<String> = OBJECTS[..7].iter().filter(|o| part.follows(**o)).map(|o| format!("{o:?}")).collect();
        let of = match of.len() {
            0 => "none".into(),
            7 => "any".into(),
            _ => of.join(", "),
        };
        writeln!(out, "{part:?}, {:?}: {of}", part.name()).unwrap();
    }
    out
}
