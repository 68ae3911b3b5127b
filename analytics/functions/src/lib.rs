//! The functions of the dialect (`spec/analytics.md`) as functions of DataFusion.
//!
//! They give what PostgreSQL gives, with its errors. `extension/tests/analytics/dialect.sql`
//! defines each of them by PostgreSQL's own.
mod aggregates;
mod arithmetic;
mod calendar;
mod call;
mod casts;
mod dates;
mod decimal;
mod error;
mod exact;
mod float;
mod like;
mod memory;
mod number;
mod percentile;
mod single;
mod spread;
mod strings;
mod sums;
mod text;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

use memory::Memory;

pub use error::SqlError;
pub use text::write_text;

/// Registers every function of the dialect. Their texts take memory of the context's pool. Cost: some
/// hundred small allocations.
pub fn register(context: &SessionContext) {
    let memory = Memory::new(context.runtime_env().memory_pool.clone());
    let functions = [
        arithmetic::functions(),
        exact::functions(),
        casts::functions(),
        strings::functions(),
        dates::functions(),
    ];
    for function in functions.into_iter().flatten() {
        context.register_udf(ScalarUDF::new_from_impl(function.within(memory.clone())));
    }
    for aggregate in aggregates::aggregates() {
        context.register_udaf(AggregateUDF::new_from_impl(aggregate));
    }
}

#[cfg(test)]
mod recorded;
