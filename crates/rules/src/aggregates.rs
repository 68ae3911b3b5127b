//! Whether the result of each aggregate and window function of PostgreSQL 15 depends on the order
//! of rows.
use crate::level::Function;

/// The part that the order of its rows has in the result, or the error, of an aggregate or window
/// function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByOrder {
    /// None.
    Nothing,
    /// None beside which rows are peers, whatever the frame.
    Peers,
    /// It returns one of its values, of those that compare as equal any.
    Picks,
    /// Floating point: each step rounds.
    Rounds,
    /// A sum may leave the range of its type on the way, and come back.
    Overflows,
    /// It keeps the rows in their order, or takes the first or last.
    Keeps,
    /// It tells rows of a window apart which ORDER BY does not.
    Position,
}

enum Kind {
    Of(ByOrder),
    /// Exact sums but for some types of arguments.
    Sums,
}

use ByOrder::*;
use Kind::{Of, Sums};

/// Looked at one by one. Numbers add up exactly: sums of whole numbers and of numeric are kept with
/// all digits, those of squares too.
#[rustfmt::skip]
const KNOWN: &[(Kind, &[&str])] = &[
    (Of(Nothing), &["bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "count", "every", "regr_count"]),
    (Sums, &[
        "avg", "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope",
        "regr_sxx", "regr_sxy", "regr_syy", "stddev", "stddev_pop", "stddev_samp", "sum", "var_pop", "var_samp", "variance",
    ]),
    (Of(Peers), &["cume_dist", "dense_rank", "percent_rank", "rank"]),
    // Those of ranges put together or cut bounds, of which equal ones may differ: 1.0 and 1.00.
    (Of(Picks), &["max", "min", "mode", "percentile_cont", "percentile_disc", "range_agg", "range_intersect_agg"]),
    // Of an object in jsonb, the last value of a key stays.
    (Of(Keeps), &[
        "any_value", "array_agg", "json_agg", "json_object_agg", "jsonb_agg", "jsonb_object_agg", "string_agg", "xmlagg",
    ]),
    (Of(Position), &["first_value", "lag", "last_value", "lead", "nth_value", "ntile", "row_number"]),
];

fn kind(name: &str) -> Option<&'static Kind> {
    KNOWN.iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| kind)
}

/// Whether an aggregate or window function of PostgreSQL's is among those looked at.
pub fn is_known(name: &str) -> bool {
    kind(name).is_some()
}

/// The part that the order of rows has. An aggregate of a user or an extension, or one that is not
/// known, may keep them as they come.
pub fn by_order(function: &Function) -> ByOrder {
    match kind(&function.name).filter(|_| function.built_in) {
        None => Keeps,
        Some(Of(by)) => *by,
        Some(Sums) if function.takes_float => Rounds,
        Some(Sums) if function.takes_bounded => Overflows,
        Some(Sums) => Nothing,
    }
}
