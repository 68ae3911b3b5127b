//! The organisations that agree to a transaction, and whether they are enough for what it changed
//! (spec/agreement.md).
//!
//! Invariant C2: a transaction that changed a row of a table with a policy succeeds only when the
//! policy is satisfied for the row before and for the row after. The submitting organisation counts
//! for it, and so do those whose signed agreement the transaction carries.
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use chainify_agreement::{Need, Policy};
use chainify_codec::{decode_row, hex, Value};

use crate::agreement::agreement_policies;
use crate::agreement::agreement_policies::Policies;
use crate::ledger::tables::LedgerTable;
use crate::pg::base::error::{attempt, OrRaise, PgError};
use crate::rules::agreeing::Agreeing;
use crate::running::effects;
use crate::running::recorded::Effects;

/// Fails with CH009 when a change of the transaction that just ran lacks an agreement of those that
/// `agreeing` gives. To be called before its subtransaction ends.
pub fn check<A: Borrow<Agreeing>>(index: u32, agreeing: impl FnOnce() -> A) -> Result<(), PgError> {
    let policies = agreement_policies::known();
    if policies.is_empty() {
        return Ok(());
    }
    attempt(|| {
        let images = effects::with(|effects| images(effects, index, &policies));
        if images.is_empty() {
            return;
        }
        let agreeing = agreeing();
        if let Some((image, need)) = images
            .iter()
            .find_map(|image| Some((image, image.need(agreeing.borrow())?)))
        {
            PgError::new(
                b"CH009",
                format!(
                    "change of table \"{}\", key {}, lacks the agreement of {need}",
                    image.table.name,
                    image.key()
                ),
            )
            .raise();
        }
    })
}

/// The row that a policy has to be satisfied for: a row before or after a change. Of those that
/// name the same organisations the first.
pub struct Image {
    pub table: Rc<LedgerTable>,
    policy: Rc<Policy>,
    /// The row of the primary key.
    pk: Vec<u8>,
    /// By column of the policy.
    values: BTreeMap<String, Option<String>>,
}

impl Image {
    /// The image of one row of a table with a policy.
    pub fn of(table: &Rc<LedgerTable>, policy: &Rc<Policy>, pk: &[u8], row: &[u8]) -> Self {
        Self {
            table: table.clone(),
            policy: policy.clone(),
            pk: pk.to_vec(),
            values: values(table, policy, row),
        }
    }

    /// Whether the policy names the organisation for this row.
    pub fn names(&self, organisation: &str) -> bool {
        let value = |column: &str| self.values.get(column).cloned().flatten();
        let all = self.policy.need(&value, &|_| false);
        all.is_some_and(|need| need.organisations().contains(organisation))
    }

    /// The agreements that it misses.
    pub fn need(&self, agreeing: &Agreeing) -> Option<Need> {
        let value = |column: &str| self.values.get(column).cloned().flatten();
        self.policy
            .need(&value, &|organisation| agreeing.includes(organisation))
    }

    /// `(id = 7)`
    pub fn key(&self) -> String {
        let shown = columns(&self.pk).into_iter().map(|(ordinal, value)| {
            let column = self
                .table
                .columns
                .iter()
                .find(|column| column.ordinal == ordinal);
            format!(
                "{} = {}",
                column.map_or("?", |column| &column.name),
                shown(&value)
            )
        });
        format!("({})", shown.collect::<Vec<_>>().join(", "))
    }
}

/// The images of what transaction `index`, the last one, changed in tables with policies.
pub fn images(effects: &Effects, index: u32, policies: &Policies) -> Vec<Image> {
    let first = effects.changes.partition_point(|change| change.tx < index);
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for change in &effects.changes[first..] {
        let table = &effects.leaves[change.leaf as usize].table;
        let Some(policy) = policies.get(&table.name) else {
            continue;
        };
        for row in [change.before, change.after].into_iter().flatten() {
            let (pk, row) = (effects.bytes(change.pk), effects.bytes(row));
            let image = Image::of(table, policy, pk, row);
            if seen.insert((table.id, image.values.clone())) {
                found.push(image);
            }
        }
    }
    found
}

/// The values of the columns that a policy names.
fn values(table: &LedgerTable, policy: &Policy, row: &[u8]) -> BTreeMap<String, Option<String>> {
    let names = policy.columns();
    if names.is_empty() {
        return BTreeMap::new();
    }
    let row = columns(row);
    let value = |name: &str| {
        let column = table.columns.iter().find(|column| column.name == name)?;
        let (_, value) = row.iter().find(|(ordinal, _)| *ordinal == column.ordinal)?;
        match value {
            Value::Text(text) | Value::Enum(text) | Value::Other { text, .. } => Some(text.clone()),
            _ => None,
        }
    };
    names
        .into_iter()
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

fn columns(row: &[u8]) -> Vec<(u16, Value)> {
    let malformed = |error| PgError::new(b"XX000", format!("row recorded cannot be read: {error}"));
    decode_row(row).map_err(malformed).or_raise()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Text(text)
        | Value::Enum(text)
        | Value::Numeric(text)
        | Value::Other { text, .. } => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        Value::Uuid(bytes) => hex(bytes),
        _ => "…".to_owned(),
    }
}
