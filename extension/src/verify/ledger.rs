//! `chainify.verify_ledger`: the ledger's own tables against the hashes that organisations agreed
//! on.
//!
//! Blocks, transactions and history are read in block order, each once, side by side; memory is
//! that of one block. Nothing stored is trusted that can be computed (chainify_ledger::audit), and
//! certificates are checked down to the signatures of the validators.

use chainify_codec::row_hash;
use chainify_ledger::audit::{check_block, check_header, Finding, StoredChange};
use pgrx::pg_sys;

use crate::block::half_committed;
use crate::ledger::definitions;
use crate::ledger::definitions_lock;
use crate::ledger::dropped;
use crate::ledger::history;
use crate::ledger::history::{History, Report};
use crate::ledger::row_bytes;
use crate::ledger::stored_blocks::{
    last_block, stored_block, stored_transaction, BLOCKS, TRANSACTIONS,
};
use crate::pg::base::cursor::{Cursor, Row, Sees};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::shared::progress::{Phase, Progress};
use crate::verify::{certificates, indexes};

crate::pg::sql_function!(
    chainify_verify_ledger,
    pg_finfo_chainify_verify_ledger,
    verify_ledger
);

/// `chainify.verify_ledger(from_block, to_block)`: one row per finding. Cost: one pass over the
/// blocks asked for, sorted history included, and one signature verification per vote.
fn verify_ledger(call: &mut Call) -> Answer {
    let from = call.arg::<i64>(0).unwrap_or(1).max(1);
    let to: Option<i64> = call.arg(1);
    row_bytes::forget();
    call.rows(|row| {
        let mut report = |block: i64, finding: Finding| {
            row(&[
                cell::<i64>(block),
                cell(finding.what.to_owned()),
                cell(finding.detail),
            ]);
        };
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            let tables = history::all(client, &mut report);
            let mut audit = Audit::new(client, from, to);
            let progress = Progress::start(pg_sys::InvalidOid);
            progress.phase(Phase::Blocks, audit.blocks());
            audit.progress = Some(progress);
            audit.run(&tables, &mut report);
            if to.is_none() {
                check_indexes(client, &mut report);
            }
        });
    })
}

/// Compares the indexes of the ledger's own tables with these.
fn check_indexes(client: &SpiClient<'_>, report: &mut Report) {
    let last = last_block(client, Sees::Statement).unwrap_or_default();
    let own = indexes::of_ledger(client, Sees::Statement);
    for defect in indexes::defects(client, Sees::Statement, &own, &mut || ()) {
        report(last, Finding::new("index", defect.to_string()));
    }
}

/// The first fault of these blocks themselves, certificates aside. Cost: reads them, their
/// transactions and history.
pub fn first_finding(
    client: &SpiClient<'_>,
    sees: Sees,
    from: i64,
    to: i64,
) -> Option<(i64, Finding)> {
    let mut first = None;
    let mut report = |block: i64, finding: Finding| {
        first.get_or_insert((block, finding));
    };
    let tables = history::readable(client, &mut report);
    check_blocks(client, sees, &tables, from, to, &mut report);
    first
}

/// Reports what is wrong with these blocks themselves, certificates aside.
pub fn check_blocks(
    client: &SpiClient<'_>,
    sees: Sees,
    tables: &[History],
    from: i64,
    to: i64,
    report: &mut Report,
) {
    let mut audit = Audit::new(client, from, Some(to));
    audit.sees = sees;
    audit.run(tables, &mut |block, finding| {
        if !finding.what.starts_with("certificate") {
            report(block, finding);
        }
    });
}

struct Audit<'c> {
    client: &'c SpiClient<'c>,
    sees: Sees,
    from: i64,
    to: i64,
    authority: certificates::Authority,
    /// Of blocks up to this one the headers alone are kept.
    dropped: i64,
    /// Told of each block read.
    progress: Option<Progress>,
}

impl<'c> Audit<'c> {
    fn new(client: &'c SpiClient<'c>, from: i64, to: Option<i64>) -> Self {
        Audit {
            client,
            sees: Sees::Statement,
            from,
            to: to.unwrap_or(i64::MAX),
            authority: certificates::Authority::read(client),
            dropped: dropped::read(client, Sees::Statement).block,
            progress: None,
        }
    }

    /// How many blocks are to be read, if all are there.
    fn blocks(&self) -> i64 {
        let last = last_block(self.client, self.sees).unwrap_or_default();
        (self.to.min(last) - self.from + 1).max(0)
    }

    fn open(&self, sql: &str) -> Cursor<'c> {
        Cursor::open(
            self.client,
            self.sees,
            sql,
            &[self.from.into(), self.to.into()],
        )
    }

    fn run(&mut self, tables: &[History], report: &mut Report) {
        let mut blocks = ByBlock::new(self.open(BLOCKS), stored_block);
        let mut transactions = ByBlock::new(self.open(TRANSACTIONS), stored_transaction);
        let changes_sql = history::changes(tables);
        let mut changes = ByBlock::new(self.open(&changes_sql), history::kept_change);
        let mut certificates = ByBlock::new(self.open(certificates::STORED), certificates::stored);
        let mut previous = self.hash_before();
        let mut next = self.from;
        let mut uncertified = None;
        while let Some(number) = blocks.block() {
            if number > next {
                report(next, missing(next, number - 1));
                previous = None;
            }
            orphaned("transactions", transactions.skip_to(number), report);
            orphaned("history", changes.skip_to(number), report);
            orphaned("certificate", certificates.skip_to(number), report);
            let block = blocks.take(number).remove(0);
            if number <= self.dropped {
                check_header(&self.authority.chain_id, &block, previous.as_deref())
                    .into_iter()
                    .for_each(|finding| report(number, finding));
                previous = Some(block.hash);
                next = number + 1;
                continue;
            }
            let kept_transactions = transactions.take(number);
            let kept_changes = changes.take(number);
            let changes = stored_changes(tables, &kept_changes);
            let findings = check_block(
                &self.authority.chain_id,
                &block,
                previous.as_deref(),
                &kept_transactions,
                &changes,
            );
            findings
                .into_iter()
                .for_each(|finding| report(number, finding));
            if let Some(number) = uncertified.take() {
                report(
                    number,
                    Finding::new(
                        "certificate missing",
                        "a later block is there, so it was certified",
                    ),
                );
            }
            match certificates.take(number).pop() {
                Some(certificate) => {
                    for finding in self.authority.findings(number, &block.hash, certificate) {
                        report(number, Finding::new("certificate", finding));
                    }
                }
                None => uncertified = Some(number),
            }
            previous = Some(block.hash);
            next = number + 1;
            if let Some(progress) = &self.progress {
                progress.done(next - self.from);
            }
        }
        orphaned("transactions", transactions.skip_to(i64::MAX), report);
        orphaned("history", changes.skip_to(i64::MAX), report);
        orphaned("certificate", certificates.skip_to(i64::MAX), report);
        if self.to == i64::MAX {
            self.check_definitions(next - 1, report);
        }
        if let Some(number) = uncertified.filter(|_| self.exists(next)) {
            report(
                number,
                Finding::new(
                    "certificate missing",
                    "a later block is there, so it was certified",
                ),
            );
        }
    }

    /// Functions, views, rights and the like are as of the last block.
    fn check_definitions(&self, last: i64, report: &mut Report) {
        let defects =
            definitions_lock::seen_twice(|client| definitions::defects(client, Sees::Latest));
        for defect in defects.unwrap_or_else(|| definitions_lock::refusal().raise()) {
            let part = |text: Option<String>| text.map_or("nothing".into(), |t| format!("{t:?}"));
            let (expected, found) = (part(defect.expected), part(defect.found));
            let detail = format!("{}: expected {expected}, found {found}", defect.object);
            report(last, Finding::new("definition", detail));
        }
    }

    /// The previous hash that the first block has to have: zeros, or the hash the block before
    /// keeps.
    fn hash_before(&self) -> Option<Vec<u8>> {
        match self.from {
            1 => Some(vec![0; 32]),
            from => {
                let sql = "SELECT hash FROM chainify_ledger.block WHERE number = $1";
                Cursor::open(self.client, Sees::Statement, sql, &[(from - 1).into()])
                    .next_row()
                    .and_then(|row| row.bytes(1))
            }
        }
    }

    fn exists(&self, number: i64) -> bool {
        let sql = "SELECT number FROM chainify_ledger.block WHERE number >= $1";
        Cursor::open(self.client, Sees::Statement, sql, &[number.into()])
            .next_row()
            .is_some()
    }
}

fn missing(first: i64, last: i64) -> Finding {
    match first == last {
        true => Finding::new(
            "block missing",
            "there is no such block, but there are later ones",
        ),
        false => Finding::new(
            "block missing",
            format!("there are no blocks {first} to {last}, but there are later ones"),
        ),
    }
}

fn orphaned(what: &str, blocks: Vec<i64>, report: &mut Report) {
    for block in blocks {
        report(
            block,
            Finding::new("no such block", format!("{what} of it kept")),
        );
    }
}

/// Rows of history as `check_block` takes them.
pub fn stored_changes<'t>(tables: &'t [History], kept: &[history::Kept]) -> Vec<StoredChange<'t>> {
    let change = |kept: &history::Kept| {
        let table = &tables[kept.table].name;
        StoredChange {
            table,
            pk: kept.key.clone(),
            serial: kept.serial,
            tx: kept.tx,
            op: kept.op,
            kept_hash: kept.hash.clone(),
            row_hash: row_hash(table, &kept.row),
        }
    };
    kept.iter().map(change).collect()
}

/// Rows of a query whose first column is the block, ascending, taken block by block.
struct ByBlock<'c, T> {
    cursor: Cursor<'c>,
    read: fn(&Row<'_>) -> T,
    next: Option<(i64, T)>,
}

impl<'c, T> ByBlock<'c, T> {
    fn new(cursor: Cursor<'c>, read: fn(&Row<'_>) -> T) -> Self {
        let mut rows = ByBlock {
            cursor,
            read,
            next: None,
        };
        rows.advance();
        rows
    }

    fn advance(&mut self) -> Option<(i64, T)> {
        let read = self.read;
        let next = self
            .cursor
            .next_row()
            .map(|row| (row.bigint(1).unwrap_or_default(), read(&row)));
        std::mem::replace(&mut self.next, next)
    }

    /// The block of the next row.
    fn block(&self) -> Option<i64> {
        self.next.as_ref().map(|(block, _)| *block)
    }

    /// All rows of block `number`, when they are next.
    fn take(&mut self, number: i64) -> Vec<T> {
        let mut taken = Vec::new();
        while self.block() == Some(number) {
            taken.extend(self.advance().map(|(_, row)| row));
        }
        taken
    }

    /// Passes over rows of blocks before `number`; returns those blocks.
    fn skip_to(&mut self, number: i64) -> Vec<i64> {
        let mut skipped = Vec::new();
        while let Some(block) = self.block().filter(|block| *block < number) {
            self.take(block);
            skipped.push(block);
        }
        skipped
    }
}
