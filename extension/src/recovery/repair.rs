//! `chainify_node.repair`: brings the ledger tables back to the certified state at the end of a
//! block, from checkpoint and history (ChainifyDB's recovery, row by row instead of table by
//! table).
//!
//! Invariant R1: nothing changes before checkpoint and history have been shown to give the
//! certified state root. Invariant R2: afterwards every table scans to its certified state, or
//! everything is undone by an error. Each step has a file of its own below this one. This file
//! calls the step that the node asks for, and does the work around it that is the same for all.

use crate::block::{half_committed, lock_conflicts};
use crate::ledger::{checkpoints, row_bytes, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::Sees;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::cured::Cured;
use crate::recovery::deviations;
use crate::recovery::deviations::Kind;
use crate::recovery::{
    checkpoint_repair, definition_repair, index_repair, replay, row_repair, start_over, surplus,
};

crate::pg::sql_function!(chainify_repair, pg_finfo_chainify_repair, repair);

/// `chainify_node.repair(number, certified_hash, deviating_block, found_hash, step)`; contract in
/// spec/sql-api.md. No rows when nothing differed. Cost of rows: for each table a scan of base and
/// history and one of the table (ledger/table_scans.rs). Where they differ, a second scan of both
/// and a third of the table read keys alone, except in the ranges that differ. The files of the
/// other steps state their cost.
fn repair(call: &mut Call) -> Answer {
    let recovery = Recovery::of(call);
    let step: String = call.required(4, "step");
    let (by, cured_by): (Step, _) = match step.as_str() {
        "rows" => (row_repair::repair_tables, "repair"),
        "replay" => (replay::replay, "replay"),
        "rebase" => (checkpoint_repair::rebase, "rebase"),
        "full" => return recovery.start_over(call),
        "definitions" => {
            return recovery.run_part(
                call,
                "definitions",
                Kind::Definitions,
                definition_repair::put_back,
            )
        }
        "reindex" => {
            let waiting = recovery.deviating != recovery.number;
            return recovery.run_part(
                call,
                "reindex",
                Kind::Indexes,
                |client, number, certified| {
                    index_repair::reindex(client, number, certified, waiting)
                },
            );
        }
        _ => PgError::new(b"22023", format!("there is no step \"{step}\" of recovery"))
            .hint("Steps are definitions, reindex, rows, replay, rebase and full.")
            .raise(),
    };
    recovery.run(call, cured_by, by)
}

/// The question to every way of repairing: the position, its certified hash, the block that
/// deviates, the hash it had.
pub struct Recovery {
    number: i64,
    certified: Vec<u8>,
    deviating: i64,
    found: Option<Vec<u8>>,
}

impl Recovery {
    /// The first four arguments of a call.
    pub fn of(call: &Call) -> Self {
        Recovery {
            number: call.required(0, "number"),
            certified: call.required(1, "certified_hash"),
            deviating: call.required(2, "deviating_block"),
            found: call.arg(3),
        }
    }

    /// Takes the ledger back to before its first block. The record of it stays open until the node
    /// has executed the blocks again.
    fn start_over(self, call: &mut Call) -> Answer {
        row_bytes::forget();
        unrecorded(|| {
            checkpoints::lock_bases();
            lock_conflicts::before_locals(self.deviating, || {
                spi::connect(|client| {
                    check_position(client, self.number).or_raise();
                    surplus::before_block(self.deviating);
                    start_over::start_over(client, self.deviating, self.found).or_raise();
                })
            })
        });
        call.rows(|_| ())
    }

    /// Puts one kind of thing right and records it: what else differs is left to the steps after
    /// it.
    fn run_part(
        self,
        call: &mut Call,
        cured_by: &str,
        kind: Kind,
        by: impl FnOnce(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>,
    ) -> Answer {
        let (number, deviating) = (self.number, self.deviating);
        row_bytes::forget();
        let mut cured = Vec::new();
        unrecorded(|| {
            checkpoints::lock_bases();
            // Definitions and indexes take locks that readers are in the way of.
            lock_conflicts::before_locals(deviating, || {
                spi::connect(|client| {
                    check_position(client, number).or_raise();
                    half_committed::take_back(number);
                    // Definitions has them among what it puts back.
                    if !matches!(kind, Kind::Definitions) {
                        cured = surplus::drop_all();
                    }
                    if number > 0 {
                        cured.extend(by(client, number, &self.certified).or_raise());
                    }
                })
            });
            deviations::record_part(&cured, kind, number, deviating, self.found, cured_by);
        });
        call.rows(|row| cured.iter().for_each(|cured| row(&cured.cells())))
    }

    /// Repairs by one way and records what differed.
    pub fn run(
        self,
        call: &mut Call,
        cured_by: &str,
        by: impl FnOnce(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>,
    ) -> Answer {
        let (number, deviating) = (self.number, self.deviating);
        row_bytes::forget();
        let mut cured = Vec::new();
        unrecorded(|| {
            checkpoints::lock_bases();
            spi::connect(|client| {
                check_position(client, number).or_raise();
                half_committed::take_back(number);
                cured = lock_conflicts::before_locals(deviating, surplus::drop_all);
                if number > 0 {
                    cured.extend(by(client, number, &self.certified).or_raise());
                    if deviating == number {
                        cured.extend(checkpoint_repair::drop_false(client, number));
                    }
                }
            });
            deviations::record(&cured, number, deviating, self.found, cured_by);
        });
        call.rows(|row| cured.iter().for_each(|cured| row(&cured.cells())))
    }
}

/// One way of repairing: the position, its certified hash.
type Step = fn(&SpiClient<'_>, i64, &[u8]) -> Result<Vec<Cured>, PgError>;

fn check_position(client: &SpiClient<'_>, number: i64) -> Result<(), PgError> {
    match stored_blocks::last_block(client, Sees::Latest).unwrap_or(0) {
        position if position == number => Ok(()),
        position => Err(PgError::new(
            b"55000",
            format!("repair of block {number}, but the last block is {position}"),
        )),
    }
}
