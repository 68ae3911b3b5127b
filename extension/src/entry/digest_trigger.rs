//! The trigger on ledger tables: what a block or a session of plain SQL changes is captured, and
//! what anyone else changes is refused.
use crate::guard::writes;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::trigger::TriggerCall;
use crate::pg::tree::parse::not_allowed;
use crate::running::capture::capture;
use crate::running::effects;
use crate::running::recorded::Effects;
use crate::session::plain_sql;

crate::pg::trigger_function!(chainify_digest, pg_finfo_chainify_digest, digest);

/// The one transaction that a session's record of its own changes is of.
const OWN: u32 = 0;

/// AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW, and BEFORE TRUNCATE FOR EACH STATEMENT on every
/// relation with rows.
fn digest(call: &TriggerCall) {
    match phase() {
        Phase::Internal => (),
        Phase::Outside => writes::refuse_write(call.relation()),
        Phase::Deploy => not_allowed("changing rows while definitions change").raise(),
        Phase::Plain => capture(call, OWN, plain_sql::record),
        Phase::Client { tx } | Phase::Own { tx } => {
            capture(call, tx, |change: &mut dyn FnMut(&mut Effects)| {
                effects::record(|e| change(e))
            })
        }
    }
}
