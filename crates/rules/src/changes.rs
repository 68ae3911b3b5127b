//! Finds changes whose result would depend on the order in which rows, or parts of a statement, are
//! processed.
use crate::finding::{Finding, ADD_KEY};
use crate::level::{Change, Command, Kind, Level};

/// Changes of one table by several parts of a statement, whose order is the plan's.
pub fn twice(level: &Level, found: &mut Vec<Finding>) {
    changed_twice(level, &mut Vec::new(), found);
}

/// `seen` has the changes met so far, and whether each is of one row at most. Two such changes
/// leave one thing to the plan: which of them counts when both change the very same row. PostgreSQL
/// runs a part when another asks for its rows.
fn changed_twice<'l>(level: &'l Level, seen: &mut Vec<(&'l Change, bool)>, found: &mut Vec<Finding>) {
    if let Some(change) = &level.change {
        let one_row = level.one_row();
        let beside = |other: &Change, other_one_row: bool| {
            let kinds = [other.kind, change.kind];
            (one_row && other_one_row) || (kinds.contains(&Kind::Adds) && !kinds.contains(&Kind::Any))
        };
        if seen.iter().any(|(c, one)| c.table == change.table && !beside(c, *one)) {
            found.push(Finding::by_order(
                format!("a statement that changes table \"{}\" in two places", change.name),
                "Its parts run side by side, and which of two changes of a row or key comes first depends on the plan.",
                "Write two statements.",
            ));
        }
        seen.push((change, one_row));
    }
    for (_, inner) in &level.inner {
        changed_twice(inner, seen, found);
    }
}

/// The results that an UPDATE or INSERT leaves to the order of the rows.
pub fn of_level(level: &Level, found: &mut Vec<Finding>) {
    let in_order = level.command == Command::Insert && level.sources.iter().all(|s| s.one_row || s.ordered);
    if level.change.as_ref().is_some_and(|c| c.moves_keys) && !in_order && !level.one_row() {
        found.push(Finding::by_order(
            "a change of a unique key in several rows",
            "Each row is checked when its turn comes, so whether it meets a row that has yet to move depends on the order in which rows are stored, which differs between organisations.",
            "Restrict the statement to one row, for example in a loop over the rows ordered by the key, or set all rows to one value.",
        ));
    }
    let several = |target| !level.determined(std::iter::empty(), &[target]);
    match (level.command, level.target) {
        (Command::Update, Some(target)) if several(target) => found.push(Finding::by_order(
            "UPDATE ... FROM that may match a row twice",
            "Which match is taken depends on the order in which rows are stored, which differs between organisations.",
            "Join by equality on a unique key of the other table, use a subquery, or MERGE, which fails on a second match.",
        )),
        (Command::Delete, Some(target)) if level.returning && several(target) => found.push(Finding::by_order(
            "DELETE ... USING ... RETURNING that may match a row twice",
            "Which match is returned depends on the order in which rows are stored, which differs between organisations.",
            "Join by equality on a unique key of the other table, or use a subquery.",
        )),
        (Command::Insert, _) if level.ignores_conflicts && !level.sources.iter().all(|s| s.one_row || s.ordered) => {
            found.push(Finding::by_order(
                "INSERT ... SELECT ... ON CONFLICT DO NOTHING without a total order",
                "Of two rows that conflict the first one is inserted, and the order in which rows are stored differs between organisations.",
                ADD_KEY,
            ))
        }
        _ => {}
    }
}
