//! An executor worker. `chainify_worker::executor` decides its answers to the leader's messages;
//! this file runs and commits the parts.
use chainify_codec::Hash;
use chainify_ledger::parts::{Nets, PartReport, PartRequest, RefusedTransaction};
use chainify_ledger::Transaction;
use chainify_worker::{executor, Failure};

use crate::block::lock_conflicts;
use crate::block::part;
use crate::block::part::Company;
use crate::ledger::failure;
use crate::parallel::declared_access;
use crate::pg::base::activity::show_query;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::cell;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::spi::query;
use crate::pg::run::step::{enter, Step};
use crate::pg::shared::conflict_memory::retire;
use crate::pg::shared::pool;
use crate::pg::shared::pool::Leader;
use crate::pg::shared::worker_transaction::{begin, commit, roll_back};
use crate::running::declared;
use crate::running::effects;
use crate::running::request::{Refused, Request};

/// Serves until the leader is gone; whatever is open then is rolled back.
pub fn serve(leader: &mut Leader) {
    pool::settle_worker();
    executor::run(&mut Worker { leader }).or_raise_malformed();
}

/// This process, and its leader.
struct Worker<'a> {
    leader: &'a mut Leader,
}

impl executor::Host for Worker<'_> {
    fn show(&mut self, activity: &str) {
        show_query(activity);
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.leader.receive()
    }

    fn send(&mut self, answer: &[u8]) -> bool {
        self.leader.send(answer)
    }

    fn run(&mut self, request: &PartRequest) -> Result<PartReport, Failure> {
        begin(|| run(request)).map_err(failure::of_error)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        commit().map_err(failure::of_error)
    }

    fn roll_back(&mut self) {
        roll_back();
    }

    fn retire(&mut self) {
        retire();
    }

    fn stop_parts(&mut self) {
        pool::stop_parts();
        pool::show_running(None);
    }
}

trait OrMalformed<T> {
    fn or_raise_malformed(self) -> T;
}

impl<T, E: std::fmt::Display> OrMalformed<T> for Result<T, E> {
    fn or_raise_malformed(self) -> T {
        self.map_err(|error| PgError::new(b"XX000", format!("malformed part: {error}")))
            .or_raise()
    }
}

/// Runs a part in the transaction just begun, which stays open.
fn run(message: &PartRequest) -> PartReport {
    own_lock::share(OwnLock::Parts);
    let request = request(message);
    let positions: Vec<usize> = (0..request.transactions.len()).collect();
    effects::start();
    enter(Step::Ledger, || {
        lock_conflicts::enlist(request.number);
        let declared = declared_access::from_messages(&message.declared);
        let run = || part::run(&request, &positions, Company::Beside);
        let ran = declared::checked(declared, run);
        let report = part::finish(&request, &positions, &ran).report;
        write_part(message, &report);
        report
    })
}

fn refused(of: &RefusedTransaction) -> Option<Refused> {
    let sqlstate = of.sqlstate.as_bytes().try_into().ok()?;
    let reason = PgError::new(sqlstate, of.message.clone());
    Some((of.transaction as i32, reason))
}

fn request(message: &PartRequest) -> Request<'_> {
    let transactions = message.bodies.iter().map(|body| Transaction::decode(body));
    Request {
        chain_id: message.chain_id.clone(),
        number: message.number,
        order_height: message.order_height,
        block_time: message.block_time,
        previous: Hash::try_from(&message.previous[..]).or_raise_malformed(),
        transactions: transactions.collect::<Result<_, _>>().or_raise_malformed(),
        indices: message.members.clone(),
        bodies: message.bodies.iter().map(Vec::as_slice).collect(),
        runs: message.runs.clone(),
        quarantined: message.quarantined.clone(),
        refused: message.refused.iter().filter_map(refused).collect(),
        quarantine_all: message.quarantine_all,
        effect_hashes: false, // such a block runs in its leader alone
    }
}

/// Leaves beside the effects what sealing the block needs of them, should the leader's commit not
/// follow (P5).
fn write_part(message: &PartRequest, report: &PartReport) {
    let nets = Nets {
        nets: report.nets.clone(),
    };
    let sql = "INSERT INTO chainify_ledger.part VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (part) DO UPDATE SET (block, order_height, block_time, previous_hash, tx_root, quarantined, quarantine_all, nets)
            = (excluded.block, excluded.order_height, excluded.block_time, excluded.previous_hash, excluded.tx_root,
               excluded.quarantined, excluded.quarantine_all, excluded.nets)";
    let args = [
        cell(message.part),
        cell(message.number),
        cell(message.order_height),
        cell(message.block_time),
        cell(&message.previous[..]),
        cell(&message.tx_root[..]),
        cell(message.quarantined.clone()),
        cell(message.quarantine_all),
        cell(nets.write()),
    ];
    query(sql, &args, |_| ());
}
