//! Shows the serialization order of a run of EFFECTS transactions to people.

use crate::TxIndex;

/// EFFECTS transactions that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// The transactions, ascending.
    pub transactions: Vec<TxIndex>,
    /// The rows that put transactions before others.
    pub rows: Vec<SharedRow>,
    /// The transactions that have a turn, in the order of the turns.
    pub order: Vec<TxIndex>,
    /// The transactions without a turn, ascending, with the reason.
    pub lost: Vec<(TxIndex, String)>,
    /// The transactions that failed in their turn, ascending, with the reason.
    pub failed: Vec<(TxIndex, String)>,
}

/// A row that one transaction writes, and another one saw or writes.
#[derive(Clone, Debug)]
pub struct SharedRow {
    /// The name of the row.
    pub name: String,
    /// The transactions that saw it and do not write it, ascending.
    pub seen_by: Vec<TxIndex>,
    /// The transactions that write it, ascending.
    pub written_by: Vec<TxIndex>,
}

impl Turns {
    /// The lines of the text, without their ends.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let order = (!self.transactions.is_empty())
            .then(|| format!("turns of {}: {}", list(&self.transactions), list(&self.order)));
        let rows = self.rows.iter().map(|row| {
            let seen = match row.seen_by.is_empty() {
                true => String::new(),
                false => format!("seen by {}, ", list(&row.seen_by)),
            };
            format!("{}: {seen}written by {}", row.name, list(&row.written_by))
        });
        let lost = self.lost.iter().map(|(tx, why)| format!("t{tx} has no turn: {why}"));
        let failed = self.failed.iter().map(|(tx, why)| format!("t{tx} failed in its turn: {why}"));
        order.into_iter().chain(rows).chain(lost).chain(failed)
    }

    /// The lines of the graph: each row is a node, numbered from `first` on. Arrows lead from those
    /// that saw it through it to those that write it.
    pub(super) fn dot_lines(&self, first: usize) -> impl Iterator<Item = String> + '_ {
        let rows = (first..).zip(&self.rows).map(|(number, row)| {
            let name = row.name.replace('\\', "\\\\").replace('"', "\\\"");
            let seen = row.seen_by.iter().map(|tx| format!(" t{tx} -> r{number};"));
            let written = row.written_by.iter().map(|tx| format!(" r{number} -> t{tx};"));
            let arrows: String = seen.chain(written).collect();
            format!("  r{number} [label=\"{name}\", shape=ellipse];{arrows}")
        });
        let lost = self.lost.iter().map(|(tx, _)| format!("  t{tx} [style=dotted];"));
        let failed = self.failed.iter().map(|(tx, _)| format!("  t{tx} [style=dashed];"));
        rows.chain(lost).chain(failed)
    }
}

/// Names transactions.
pub(super) fn list(transactions: &[TxIndex]) -> String {
    let names: Vec<String> = transactions.iter().map(|tx| format!("t{tx}")).collect();
    names.join(" ")
}
