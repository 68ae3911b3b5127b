//! Why functions are refused, and what to write instead.
use crate::level::Function;

/// The advice for a value of one session, database or server.
pub const PASS_PARAMETER: &str = "Compute the value before submitting, and pass it as a parameter.";
/// The reason against such a value.
pub const SESSION_REASON: &str = "It tells about one session, database or server.";
/// The reason against a sequence in a constraint or domain.
pub const SEQUENCE_REASON: &str =
    "Called from here it would work on the database's own sequence, which is not part of the agreed state.";
/// The statement to write instead.
pub const SEQUENCE_REWRITE: &str = "Call it in a statement, not in a constraint or domain.";

type Reason = (&'static str, &'static str);

const QUERIES: Reason = ("It runs a query, given as text or by name, that is not checked.", "Write the query itself.");
const NUMBERS: Reason = (
    "Object numbers of one database, as those of labels of an enumeration, are part of what it gives.",
    "Use the value as text: hashtext(x::text), convert_to(x::text, 'UTF8').",
);
const RANDOMNESS: &str = "It takes its bits from the machine's own source of randomness.";

pub(super) fn built_in(f: &Function) -> Reason {
    let name = f.name.as_str();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
    match name {
        _ if f.newer => ("PostgreSQL 15 does not have it, and organisations may run that.", PASS_PARAMETER),
        "clock_timestamp" | "timeofday" => (
            "It reads the clock of the machine that runs it.",
            "Use now(): in a block it is the block's time, the same in every organisation.",
        ),
        "gen_random_uuid" | "uuidv4" | "uuidv7" => {
            (RANDOMNESS, "Use chainify.uuid(), which follows from the transaction's id.")
        }
        "setseed" => {
            ("random() is seeded with the transaction's id, which is the same in every organisation.", "Leave it out.")
        }
        "nextval" | "currval" | "lastval" | "setval" => (SEQUENCE_REASON, SEQUENCE_REWRITE),
        "current_schema" | "current_schemas" => (
            "A session that has had a temporary table shows its schema, and schemas are shown to those who may use them.",
            "Write the schema's name: in a block it is public.",
        ),
        "ts_stat" | "ts_rewrite" => QUERIES,
        _ if name.contains("_to_xml") => QUERIES,
        _ if starts(&["hashenum", "hash_array", "hash_record", "hash_range", "hash_multirange"]) => NUMBERS,
        "array_send" | "record_send" | "range_send" | "multirange_send" => NUMBERS,
        _ if starts(&["record_image_", "btrecordimage"]) => NUMBERS,
        _ if starts(&["acl", "makeaclitem", "hash_acl"]) => {
            ("It is about rights, in which roles are numbers of one database.", PASS_PARAMETER)
        }
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
        _ if starts(&["pg_walfile_name"]) => ("It tells the timeline of one server.", PASS_PARAMETER),
        _ if starts(&["txid_", "xid", "cid"]) || name.contains("xact") || name.contains("snapshot") || f.takes_xid => {
            ("Transaction numbers are of one database.", "Use chainify.uuid(), or a number of your own.")
        }
        _ if starts(&["pg_get_", "to_reg", "reg", "has_", "pg_has_role", "format_type", "pg_typeof"])
            || name.ends_with("_description")
            || name == "get_current_ts_config" =>
        {
            ("It looks into the catalogs of one database.", PASS_PARAMETER)
        }
        _ if f.volatile => {
            ("It is volatile: what it gives, or does, is of one session, database or server.", PASS_PARAMETER)
        }
        _ if f.aggregate => ("It is not known whether its result depends on the order of rows.", PASS_PARAMETER),
        _ => (SESSION_REASON, PASS_PARAMETER),
    }
}

/// The reason for a function that is neither PostgreSQL's own nor written in SQL or PL/pgSQL.
pub(super) fn in_c(f: &Function) -> Reason {
    match (f.extension.as_deref(), f.own_name()) {
        (Some("isn"), "isn_weak") => (
            "It switches whether its session takes numbers that are not valid, and tells what the session was switched to.",
            "Leave it out: a block takes valid numbers alone. Store others as text.",
        ),
        (Some("pg_trgm"), name) if name.ends_with("_op") || name.ends_with("_limit") => (
            "Its limit is a setting of the session.",
            "Compare with a number: similarity(a, b) > 0.3, word_similarity(a, b) > 0.6.",
        ),
        (Some("pgcrypto"), name) if name.starts_with("gen_") || name.ends_with("encrypt") || name.ends_with("encrypt_bytea") => {
            (RANDOMNESS, PASS_PARAMETER)
        }
        (Some("unaccent"), _) => ("It reads files of one machine.", PASS_PARAMETER),
        _ => ("It is not written in SQL or PL/pgSQL, so what it does cannot be checked.", "Write it in SQL or PL/pgSQL."),
    }
}
