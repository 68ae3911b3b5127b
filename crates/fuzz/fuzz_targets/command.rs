//! Commands of DEPLOY transactions: written with every name quoted, they read as the same.

#![no_main]

use chainify_sqltext::{command, Command, TableName, TABLES_MAX};
use libfuzzer_sys::fuzz_target;

fn quoted(of: &TableName) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    format!("{}.{}", quoted(&of.schema), quoted(&of.table))
}

fn list(tables: &[TableName]) -> String {
    tables.iter().map(quoted).collect::<Vec<_>>().join(",")
}

fn written(command: &Command<'_>) -> String {
    match command {
        Command::Attach(tables) => format!("ATTACH TABLE {}", list(tables)),
        Command::Detach(tables) => format!("detach table {}", list(tables)),
        Command::SetPolicy(table, policy) => format!("SET AGREEMENT POLICY {} TO {policy}", quoted(table)),
        Command::DropPolicy(table) => format!("DROP AGREEMENT POLICY {}", quoted(table)),
        Command::SetDeterminism(value) => format!("SET DETERMINISM {value}"),
    }
}

fuzz_target!(|text: &str| {
    let Some(Ok(read)) = command(text) else { return };
    assert_eq!(command(&written(&read)), Some(Ok(read.clone())));
    let names = match &read {
        Command::Attach(tables) | Command::Detach(tables) => &tables[..],
        Command::SetPolicy(table, rest) => {
            assert!(text.contains(rest));
            std::slice::from_ref(table)
        }
        Command::DropPolicy(table) => std::slice::from_ref(table),
        Command::SetDeterminism(value) => return assert!(text.contains(value)),
    };
    assert!((1..=TABLES_MAX).contains(&names.len()));
    // Names are part of the text, but for doubled quotes and capitals.
    let plain = text.replace("\"\"", "\"").to_ascii_lowercase();
    let within = |name: &String| !name.is_empty() && plain.contains(&name.to_ascii_lowercase());
    assert!(names.iter().all(|of| within(&of.schema) && within(&of.table)));
});
