//! Which functions a ledger transaction may call.
use std::rc::Rc;

use crate::finding::Finding;
use crate::level::{Function, Language};
use crate::settings::Determinism;

/// The advice for a value of one session, database or server.
pub const PASS_PARAMETER: &str = "Compute the value before submitting, and pass it as a parameter.";
/// The reason against such a value.
pub const SESSION_REASON: &str = "It tells about one session, database or server.";
/// The reason against a sequence in a constraint or domain.
pub const SEQUENCE_REASON: &str =
    "Called from here it would work on the database's own sequence, which is not part of the agreed state.";
/// The statement to write instead.
pub const SEQUENCE_REWRITE: &str = "Call it in a statement, not in a constraint or domain.";

/// The use that a transaction may make of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The result follows from the arguments and from what is pinned.
    Allowed,
    /// The same sequence of values in every organisation, one per call.
    Draws,
    /// Written in SQL or PL/pgSQL; its statements are checked when they run.
    Runs,
    /// No ledger transaction may call it.
    Refused,
}

/// Stable functions of PostgreSQL whose results follow from their arguments, pinned settings, the
/// block's time and the client's role. Input and output functions are let through by their names'
/// endings.
const STABLE: &[&str] = &[
    "age",
    "anytextcat",
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "convert",
    "convert_from",
    "convert_to",
    "current_schema",
    "current_schemas",
    "current_user",
    "date",
    "date_part",
    "date_trunc",
    "enum_first",
    "enum_last",
    "enum_range",
    "extract",
    "format",
    "generate_series",
    "get_current_ts_config",
    "getdatabaseencoding",
    "getpgusername",
    "interval_pl_timestamptz",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
    "json_populate_record",
    "json_populate_recordset",
    "json_to_record",
    "json_to_recordset",
    "json_to_tsvector",
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object_agg",
    "jsonb_path_exists_tz",
    "jsonb_path_match_tz",
    "jsonb_path_query_array_tz",
    "jsonb_path_query_first_tz",
    "jsonb_path_query_tz",
    "jsonb_populate_record",
    "jsonb_populate_recordset",
    "jsonb_to_record",
    "jsonb_to_recordset",
    "jsonb_to_tsvector",
    "length",
    "make_timestamptz",
    "money",
    "now",
    "numeric",
    "overlaps",
    "phraseto_tsquery",
    "plainto_tsquery",
    "quote_literal",
    "quote_nullable",
    "row_to_json",
    "statement_timestamp",
    "textanycat",
    "time",
    "timestamp",
    "timestamptz",
    "timestamptz_mi_interval",
    "timestamptz_pl_interval",
    "timetz",
    "timezone",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_timestamp",
    "to_tsquery",
    "to_tsvector",
    "transaction_timestamp",
    "ts_headline",
    "ts_match_tq",
    "ts_match_tt",
    "websearch_to_tsquery",
    "xml",
    "xml_is_well_formed",
];

/// Stable because they compare a time with one that has a time zone, which is pinned.
const COMPARISONS: &[&str] = &["date", "timestamp", "timestamptz"];

/// Immutable, and yet it tells about a library of the machine. Since 17.
const OF_THE_MACHINE: &str = "icu_unicode_version";

/// The use that a function makes of a collation beside whether texts are equal, which is a matter
/// of bytes under all but those that are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    Order,
    /// Upper and lower case, letters and digits.
    Classes,
    /// The same, of the database's own collation, whatever that of its arguments.
    ClassesOfDatabase,
}

const COMPARING: &[&str] = &[
    "array_ge",
    "array_gt",
    "array_larger",
    "array_le",
    "array_lt",
    "array_smaller",
    "array_sort",
    "bpchar_larger",
    "bpchar_smaller",
    "bpcharcmp",
    "bpcharge",
    "bpchargt",
    "bpcharle",
    "bpcharlt",
    "btarraycmp",
    "btnamecmp",
    "btnametextcmp",
    "btrecordcmp",
    "bttextcmp",
    "bttextnamecmp",
    "jsonb_cmp",
    "jsonb_ge",
    "jsonb_gt",
    "jsonb_le",
    "jsonb_lt",
    "max",
    "min",
    "namege",
    "namegetext",
    "namegt",
    "namegttext",
    "namele",
    "nameletext",
    "namelt",
    "namelttext",
    "record_ge",
    "record_gt",
    "record_larger",
    "record_le",
    "record_lt",
    "record_smaller",
    "text_ge",
    "text_gt",
    "text_larger",
    "text_le",
    "text_lt",
    "text_smaller",
    "textgename",
    "textgtname",
    "textlename",
    "textltname",
    "width_bucket",
];

/// Prefixes of the functions of ranges, all of which compare bounds.
const OF_RANGES: &[&str] = &["range_", "multirange_", "elem_contained_by_"];

const CASE: &[&str] = &[
    "bpchariclike",
    "bpcharicnlike",
    "bpcharicregexeq",
    "bpcharicregexne",
    "bpcharregexeq",
    "bpcharregexne",
    "casefold",
    "initcap",
    "lower",
    "nameiclike",
    "nameicnlike",
    "nameicregexeq",
    "nameicregexne",
    "nameregexeq",
    "nameregexne",
    "texticlike",
    "texticnlike",
    "texticregexeq",
    "texticregexne",
    "textregexeq",
    "textregexne",
    "upper",
];

/// Text search takes words apart as the database's collation classes characters.
const OF_TEXT_SEARCH: &[&str] = &[
    "json_to_tsvector",
    "jsonb_to_tsvector",
    "phraseto_tsquery",
    "plainto_tsquery",
    "to_tsquery",
    "to_tsvector",
    "ts_headline",
    "ts_lexize",
    "ts_match_tq",
    "ts_match_tt",
    "ts_parse",
    "websearch_to_tsquery",
];

/// Extensions that compare in lower case.
const IN_LOWER_CASE: &[&str] = &["citext", "pg_trgm"];

fn takes(f: &Function) -> Option<Takes> {
    let is_in = |names: &[&str]| names.contains(&f.name.as_str());
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| f.name.starts_with(p));
    let extension = f.extension.as_deref();
    if extension.is_some_and(|e| IN_LOWER_CASE.contains(&e)) {
        return Some(Takes::ClassesOfDatabase);
    }
    if !f.built_in {
        return None;
    }
    if is_in(COMPARING) || starts(OF_RANGES) {
        Some(Takes::Order)
    } else if is_in(CASE) || starts(&["regexp_"]) || (f.name == "substring" && f.takes_pattern) {
        Some(Takes::Classes)
    } else if is_in(OF_TEXT_SEARCH) {
        Some(Takes::ClassesOfDatabase)
    } else {
        None
    }
}

/// The questions of the rules to the database, when a statement makes it matter.
pub trait Database {
    /// The database's own collation, when order and case under it depend on the machine.
    fn local_collation(&self) -> Option<String>;
    /// The policy of determinism in force.
    fn policy(&self) -> Determinism;
}

/// Why a call is refused for a collation of the machine; None when it is not. `local` is the one
/// under which its arguments are taken.
pub fn by_collation(f: &Function, local: Option<&str>, database: &dyn Database) -> Option<Finding> {
    let (by, rewrite) = match (takes(f)?, local, database.local_collation()) {
        (Takes::Order, Some(name), _) => return Some(order_by(name)),
        (Takes::Classes, Some(name), _) => (format!("collation \"{name}\""), USE_C),
        (Takes::ClassesOfDatabase, _, Some(name)) => {
            let by = format!("the database's collation \"{name}\"");
            (by, PASS_PARAMETER)
        }
        _ => return None,
    };
    let construct = format!("{} by {by}", shown(f));
    Some(Finding::by_order(construct, CLASSES_REASON, rewrite).of_collation())
}

/// Users know functions behind operators by the operators, not by name.
fn shown(f: &Function) -> String {
    let is = |parts: &[&str]| parts.iter().any(|p| f.name.contains(p));
    match f.extension.as_deref() {
        Some(extension) => format!("a function of extension {extension}"),
        None if is(&["iclike", "icnlike"]) => "ILIKE".into(),
        None if is(&["regexeq", "regexne"]) => "a regular expression".into(),
        None => format!("{}()", f.name),
    }
}

/// The finding on an order by a collation of the machine.
pub fn order_by(collation: &str) -> Finding {
    Finding::by_order(
        format!("an order by collation \"{collation}\""),
        "Its order comes from libraries of the machine, whose versions differ between organisations.",
        USE_C,
    )
    .of_collation()
}

const CLASSES_REASON: &str =
    "What is upper and lower case, a letter or a digit comes from libraries of the machine, whose versions differ between organisations.";
const USE_C: &str = "Add COLLATE \"C\" to the expression, or to the texts in it.";

/// They say themselves that a ledger transaction cannot submit another.
const SUBMITTING: &[&str] =
    &["chainify.execute", "chainify.submit", "chainify.submit_batch", "chainify.attach", "chainify.detach"];

/// Extensions whose immutable functions in C are what they claim.
const EXTENSIONS: &[&str] = &[
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "isn",
    "ltree",
    "pg_trgm",
    "pgcrypto",
    "seg",
];

/// The use that a transaction may make of a function.
pub fn verdict(f: &Function) -> Verdict {
    if f.newer {
        return Verdict::Refused;
    }
    let random = f.built_in && f.name == "random";
    if f.on_sequence || f.name == "chainify.uuid" || random {
        return Verdict::Draws;
    }
    if SUBMITTING.contains(&f.name.as_str()) {
        return Verdict::Allowed;
    }
    let allowed = if f.built_in {
        (f.immutable && f.name != OF_THE_MACHINE) || (!f.volatile && !f.takes_xid && stable_allowed(&f.name))
    } else if f.language == Language::Checked || f.aggregate {
        if f.may_be_merged {
            return Verdict::Refused;
        }
        return Verdict::Runs;
    } else {
        f.immutable && f.extension.as_deref().is_some_and(|e| EXTENSIONS.contains(&e))
    };
    if allowed {
        Verdict::Allowed
    } else {
        Verdict::Refused
    }
}

fn stable_allowed(name: &str) -> bool {
    let input_or_output = ["_in", "_out", "recv", "send"].iter().any(|end| name.ends_with(end));
    let comparison = COMPARISONS.iter().any(|t| {
        let rest = name.strip_prefix(t).and_then(|r| r.strip_prefix('_'));
        rest.is_some_and(|r| r.split_once('_').is_some_and(|(op, other)| op.len() <= 3 && COMPARISONS.contains(&other)))
    });
    STABLE.contains(&name) || input_or_output || comparison
}

/// Whether the number and the order of a function's calls matter.
pub fn draws(f: &Function) -> bool {
    match verdict(f) {
        Verdict::Draws => true,
        Verdict::Runs => f.volatile,
        _ => false,
    }
}

/// As [`finding`], for a function about to run: aggregates have transition functions of their own,
/// and what is put into a statement unseen was refused with the statement.
pub fn execution_finding(f: &Function) -> Option<Finding> {
    let of_aggregate = f.built_in && ["_transfn", "_finalfn"].iter().any(|end| f.name.ends_with(end));
    if of_aggregate || f.may_be_merged {
        return None;
    }
    finding(f)
}

/// Why a function is refused; None when it is not.
pub fn finding(f: &Function) -> Option<Finding> {
    if verdict(f) != Verdict::Refused {
        return None;
    }
    let (reason, rewrite) = if f.built_in {
        built_in(f)
    } else if f.may_be_merged {
        (
            "PostgreSQL would put its statement into this one before it can be checked.",
            "Declare the function VOLATILE, write it in PL/pgSQL, or give it a SET clause, for example SET search_path = public.",
        )
    } else {
        ("It is not written in SQL or PL/pgSQL, so what it does cannot be checked.", "Write it in SQL or PL/pgSQL.")
    };
    Some(Finding::new(format!("{}()", f.name), reason, rewrite))
}

/// The finding in a text that could not be analysed and that names a function; `overloads` are
/// those of that name in the catalog's order. None when a transaction may call one of them.
pub fn named(overloads: &[Rc<Function>]) -> Option<Finding> {
    let findings: Option<Vec<Finding>> = overloads.iter().map(|f| finding(f)).collect();
    findings?.into_iter().next()
}

fn built_in(f: &Function) -> (&'static str, &'static str) {
    let name = f.name.as_str();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
    match name {
        _ if f.newer => ("PostgreSQL 15 does not have it, and organisations may run that.", PASS_PARAMETER),
        "clock_timestamp" | "timeofday" => (
            "It reads the clock of the machine that runs it.",
            "Use now(): in a block it is the block's time, the same in every organisation.",
        ),
        "gen_random_uuid" | "uuidv4" | "uuidv7" => (
            "It takes its bits from the machine's own source of randomness.",
            "Use chainify.uuid(), which follows from the transaction's id.",
        ),
        "setseed" => {
            ("random() is seeded with the transaction's id, which is the same in every organisation.", "Leave it out.")
        }
        "nextval" | "currval" | "lastval" | "setval" => (SEQUENCE_REASON, SEQUENCE_REWRITE),
        "ts_stat" | "ts_rewrite" => QUERIES,
        _ if name.contains("_to_xml") => QUERIES,
        _ if starts(&["pg_sleep"]) => {
            ("How long it takes differs between organisations, and the block waits for it.", "Leave it out.")
        }
        _ if name.contains("advisory") => (
            "Which locks are held at the moment differs between organisations.",
            "Leave it out: transactions of a block take effect one after the other.",
        ),
        _ if starts(&["lo_"]) || name == "loread" || name == "lowrite" => {
            ("Large objects are not part of the agreed state.", "Store the bytes in a column of type bytea.")
        }
        _ if starts(&["pg_read_", "pg_ls_", "pg_stat_file"]) => {
            ("It reads files of one machine.", "Pass the contents as a parameter.")
        }
        _ if starts(&["txid_"]) || name.contains("xact") || name.contains("snapshot") || f.takes_xid => {
            ("Transaction numbers are of one database.", "Use chainify.uuid(), or a number of your own.")
        }
        _ if starts(&["pg_get_", "to_reg", "has_", "pg_has_role", "format_type", "pg_typeof"])
            || name.ends_with("_description") =>
        {
            ("It looks into the catalogs of one database.", PASS_PARAMETER)
        }
        _ if f.volatile => {
            ("It is volatile: what it gives, or does, is of one session, database or server.", PASS_PARAMETER)
        }
        _ => (SESSION_REASON, PASS_PARAMETER),
    }
}

const QUERIES: (&str, &str) =
    ("It runs a query, given as text or by name, that is not checked.", "Write the query itself.");
