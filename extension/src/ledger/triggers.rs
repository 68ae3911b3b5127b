//! Checks and restores the ledger's triggers: they are there, and ENABLE ALWAYS, on every relation
//! that holds rows of a ledger table.

use crate::pg::base::spi::SpiClient;

use crate::ledger::ledger_tables::LedgerTable;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::cell;
use crate::pg::base::spi;

/// A trigger that is not as it should be; both sides for people to read.
pub struct Defect {
    pub expected: String,
    pub found: Option<String>,
}

/// `tgtype` of pg_trigger: row 1, before 2, insert 4, delete 8, update 16, truncate 32. `$1` is the
/// table. One trigger is there for columns whose values have several forms.
const DEFECTS: &str = "
    SELECT format('%s on %I.%I, always enabled', w.name, n.nspname, r.relname),
        CASE WHEN NOT r.relhastriggers THEN 'hidden by pg_class.relhastriggers' ELSE CASE t.tgenabled WHEN 'D' THEN 'disabled' WHEN 'O' THEN 'enabled, not always' WHEN 'R' THEN 'enabled for replicas'
            WHEN 'A' THEN 'another trigger of that name' END END
    FROM (SELECT relid FROM pg_partition_tree($1) WHERE isleaf UNION SELECT $1) p (relid)
    JOIN pg_class r ON r.oid = p.relid AND r.relkind = 'r'
    JOIN pg_namespace n ON n.oid = r.relnamespace
    CROSS JOIN (VALUES ('chainify_digest', 29, 'chainify_ledger.digest()'::regprocedure), ('chainify_truncate', 34, 'chainify_ledger.digest()'),
        ('chainify_store', 23, 'chainify_ledger.store()')) w (name, kind, function)
    LEFT JOIN pg_trigger t ON t.tgrelid = r.oid AND t.tgname = w.name
    WHERE (w.name <> 'chainify_store' OR chainify_ledger.columns_of_many_forms(r.oid) IS NOT NULL)
        AND (r.relhastriggers AND t.tgenabled = 'A' AND t.tgtype = w.kind AND t.tgqual IS NULL AND t.tgattr = '' AND t.tgfoid = w.function) IS NOT TRUE
    UNION ALL
    SELECT format('no other trigger of the ledger on %I.%I', n.nspname, r.relname), t.tgname::text
    FROM (SELECT relid FROM pg_partition_tree($1) UNION SELECT $1) p (relid)
    JOIN pg_class r ON r.oid = p.relid
    JOIN pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_trigger t ON t.tgrelid = r.oid AND t.tgname LIKE 'chainify\\_%'
    WHERE t.tgname NOT IN ('chainify_digest', 'chainify_truncate')
        AND NOT (t.tgname = 'chainify_store' AND chainify_ledger.columns_of_many_forms(r.oid) IS NOT NULL)
    ORDER BY 1";

/// The triggers that are missing, disabled or replaced.
pub fn defects(client: &SpiClient<'_>, sees: Sees, table: &LedgerTable) -> Vec<Defect> {
    let mut defects = Vec::new();
    let mut rows = Cursor::open(client, sees, DEFECTS, &[table.relation.into()]);
    while let Some(row) = rows.next_row() {
        defects.push(Defect {
            expected: row.text(1).unwrap_or_default(),
            found: row.text(2),
        });
    }
    defects
}

/// Puts the triggers of the table and its partitions in place again.
pub fn restore(table: &LedgerTable) {
    let sql = "SELECT chainify_ledger.restore_triggers($1)";
    spi::connected(|| spi::query(sql, &[cell(table.relation)], |_| ()));
}
