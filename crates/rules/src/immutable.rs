//! Functions that are declared IMMUTABLE and are not. PostgreSQL computes a call with constants
//! once, when it plans the statement, and a session keeps the plan with the result.
use crate::finding::Finding;
use crate::level::{Function, Level};

/// PostgreSQL's functions that tell the time of the transaction. age() does where it takes one
/// time: the other is immutable.
const CLOCK: [&str; 4] = ["now", "transaction_timestamp", "statement_timestamp", "age"];

/// Why a function with these statements must not be declared IMMUTABLE.
pub fn finding(levels: &[Level]) -> Option<Finding> {
    levels.iter().find_map(varies).map(|by| {
        Finding::new(
            format!("{by} in a function that is declared IMMUTABLE"),
            "PostgreSQL computes such a function when it plans a statement, and keeps the result: it would be that of an earlier block.",
            "Declare the function STABLE.",
        )
    })
}

/// Why the level may give another result in another block.
fn varies(level: &Level) -> Option<String> {
    if level.reads_tables {
        return Some("a table that is read".to_owned());
    }
    if level.reads_time {
        return Some("current_date or the like".to_owned());
    }
    let of_calls = level.calls.iter().find(|call| call_varies(&call.function));
    let of_calls = of_calls.map(|call| format!("{}()", call.function.name));
    of_calls.or_else(|| level.inner.iter().find_map(|(_, inner)| varies(inner)))
}

fn call_varies(function: &Function) -> bool {
    let of_users = !function.built_in && function.extension.is_none();
    !function.immutable && (of_users || function.built_in && CLOCK.contains(&function.name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::catalog::Declared;
    use crate::level::{Command, FunctionCall, Place};

    fn calls(name: &str, built_in: bool, volatility: u8) -> Level {
        let function = Rc::new(Function::from(Declared {
            oid: if built_in { 1299 } else { 20_000 },
            schema: if built_in { "pg_catalog" } else { "public" },
            name,
            built_in,
            language: if built_in { "internal" } else { "sql" },
            in_sql: !built_in,
            volatility,
            kind: b'f',
            arguments: &[],
            returns_set: false,
            definer: false,
            settings: false,
            extension: None,
        }));
        let call = FunctionCall { function, in_target: true, local_collation: None, loose: false };
        Level { calls: vec![call], ..Level::new(Command::Select) }
    }

    #[test]
    fn the_clock_tables_and_functions_of_users_that_vary_are_told_wherever_they_stand() {
        let none = || Level::new(Command::Select);
        let within = |inner| Level { inner: vec![(Place::Expression, inner)], ..none() };
        for (level, by) in [
            (calls("now", true, b's'), "now()"),
            (calls("own", false, b's'), "public.own()"),
            (within(calls("own", false, b'v')), "public.own()"),
            (Level { reads_time: true, ..none() }, "current_date or the like"),
            (within(Level { reads_tables: true, ..none() }), "a table that is read"),
        ] {
            let found = finding(&[none(), level]).expect("is refused");
            assert_eq!(found.construct, format!("{by} in a function that is declared IMMUTABLE"));
        }
        for level in [calls("to_char", true, b's'), calls("age", true, b'i'), calls("own", false, b'i'), none()] {
            assert_eq!(finding(&[level]), None);
        }
    }
}
