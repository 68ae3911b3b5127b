//! Commands of DEPLOY transactions: written with every name quoted, they read as the same.

#![no_main]

use chainify_codec::hex;
use chainify_sqltext::{command, Command, Procedure, Sealed, TableName, TABLES_MAX};
use libfuzzer_sys::fuzz_target;

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn whole(of: &TableName) -> String {
    format!("{}.{}", quoted(&of.schema), quoted(&of.table))
}

fn list(tables: &[TableName]) -> String {
    tables.iter().map(whole).collect::<Vec<_>>().join(",")
}

fn attaching(procedure: &Procedure) -> String {
    let digest = |engine: &str, digest: Option<[u8; 32]>| {
        digest.map(|digest| format!(" {engine} {}", hex(&digest))).unwrap_or_default()
    };
    format!(
        "ATTACH PROCEDURE public.{} ({}) ENCODING 2{}{}",
        procedure.name,
        procedure.types.join(", "),
        digest("MARIADB", procedure.mariadb),
        digest("POSTGRESQL", procedure.postgresql)
    )
}

fn written(command: &Command<'_>) -> String {
    match command {
        Command::Attach(tables) => format!("ATTACH TABLE {}", list(tables)),
        Command::AttachShared(tables) => {
            let names: Vec<String> = tables.iter().map(TableName::to_string).collect();
            format!("ATTACH TABLE {} ENCODING 2", names.join(", "))
        }
        Command::Detach(tables) => format!("detach table {}", list(tables)),
        Command::AttachProcedure(procedure) => attaching(procedure),
        Command::DetachProcedure(name) => format!("DETACH PROCEDURE public.{name}"),
        Command::SetPolicy(table, policy) => format!("SET AGREEMENT POLICY {} TO {policy}", whole(table)),
        Command::DropPolicy(table) => format!("DROP AGREEMENT POLICY {}", whole(table)),
        Command::SetDeterminism(value) => format!("SET DETERMINISM {value}"),
        Command::SetDeploys(value) => format!("SET DEPLOYS {value}"),
        Command::SetRoleOrganisations(role, organisations) => {
            let names: Vec<String> = organisations.iter().map(|name| quoted(name)).collect();
            format!("SET ORGANISATIONS OF ROLE {} TO {}", quoted(role), names.join(","))
        }
        Command::DropRoleOrganisations(role) => format!("DROP ORGANISATIONS OF ROLE {}", quoted(role)),
        Command::CreateCircle(circle, organisations) => {
            let names: Vec<String> = organisations.iter().map(|name| quoted(name)).collect();
            format!("CREATE CIRCLE {} OF {}", quoted(circle), names.join(","))
        }
        Command::DropCircle(circle) => format!("DROP CIRCLE {}", quoted(circle)),
        Command::SealColumn(Sealed { table, column, of, circle }) => {
            format!("ALTER TABLE {} SEAL COLUMN {} AS {of} FOR {}", whole(table), quoted(column), quoted(circle))
        }
    }
}

fuzz_target!(|text: &str| {
    let Some(Ok(read)) = command(text) else { return };
    assert_eq!(command(&written(&read)), Some(Ok(read.clone())));
    let names = match &read {
        Command::Attach(tables) | Command::AttachShared(tables) | Command::Detach(tables) => &tables[..],
        // There is one spelling.
        Command::AttachProcedure(_) | Command::DetachProcedure(_) => return assert_eq!(written(&read), text),
        Command::SetPolicy(table, rest) => {
            assert!(text.contains(rest));
            std::slice::from_ref(table)
        }
        Command::DropPolicy(table) => std::slice::from_ref(table),
        Command::SetDeterminism(value) | Command::SetDeploys(value) => return assert!(text.contains(value)),
        Command::SealColumn(Sealed { table, of, .. }) => {
            assert!(text.contains(of));
            std::slice::from_ref(table)
        }
        Command::DropCircle(circle) => return assert!(!circle.is_empty()),
        Command::SetRoleOrganisations(_, organisations) | Command::CreateCircle(_, organisations) => {
            return assert!((1..=TABLES_MAX).contains(&organisations.len()));
        }
        Command::DropRoleOrganisations(role) => return assert!(!role.is_empty()),
    };
    assert!((1..=TABLES_MAX).contains(&names.len()));
    // Quoted names stand in the text, plain ones but for capitals.
    let lower = text.to_ascii_lowercase();
    let plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "_$".contains(c)) && lower.contains(name);
    let within = |name: &str| !name.is_empty() && (plain(name) || text.contains(&quoted(name)));
    assert!(names.iter().all(|of| within(&of.schema) && within(&of.table)));
});
