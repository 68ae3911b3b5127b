//! Facts that follow from rows of PostgreSQL's catalog, by the numbers that initdb gives to its own
//! objects.
use crate::level::{Function, Language};

/// A row of `pg_proc`.
#[derive(Debug)]
pub struct Declared<'d> {
    /// Its number.
    pub oid: u32,
    /// The name of its schema.
    pub schema: &'d str,
    /// Its name.
    pub name: &'d str,
    /// It came with PostgreSQL.
    pub built_in: bool,
    /// The name of its language.
    pub language: &'d str,
    /// Its language is PostgreSQL's SQL.
    pub in_sql: bool,
    /// `provolatile`.
    pub volatility: u8,
    /// `prokind`.
    pub kind: u8,
    /// Oids of the types of its arguments.
    pub arguments: &'d [u32],
    /// It returns a set.
    pub returns_set: bool,
    /// SECURITY DEFINER.
    pub definer: bool,
    /// It has a SET clause.
    pub settings: bool,
    /// The extension that it belongs to.
    pub extension: Option<String>,
}

/// PostgreSQL's own functions that came after 15 and would be allowed: organisations may run 15.
/// The numbers of built-in functions never change.
#[rustfmt::skip]
const NEWER: [u32; 44] = [
    // 16: xmltext, erf, erfc, date_add, date_subtract, generate_series with a time zone, aggregates
    3813, 6219, 6220, 6222, 6273, 6274, 6288, 6289, 6290, 6291,
    // 17: unicode_version, unicode_assigned, to_bin, to_oct, AT LOCAL, random with bounds, parts of
    // a uuid
    4549, 6105, 6330, 6331, 6332, 6333, 6334, 6335, 6336, 6339, 6340, 6341, 6342, 6343,
    // 18: crc32, bytea and integers, max and min, reversed and sorted arrays, gamma, casefold
    6364, 6365, 6367, 6368, 6369, 6370, 6371, 6372, 6373, 6374, 6381, 6382, 6383, 6384, 6388,
    6389, 6390, 6395, 6396, 6412,
];
const FLOATS: [u32; 2] = [700, 701];
/// interval, money
const BOUNDED: [u32; 2] = [1186, 790];
const XID: u32 = 28;
const INTERNAL: u32 = 2281;
const TEXT: u32 = 25;

impl From<Declared<'_>> for Function {
    fn from(of: Declared<'_>) -> Self {
        let volatile = of.volatility == b'v';
        let on_sequence = of.schema == "chainify_ledger"
            && matches!(of.name, "nextval" | "next_identity" | "currval" | "lastval" | "setval");
        let name = match of.name {
            "next_identity" if on_sequence => "nextval".to_owned(),
            name if of.built_in || on_sequence => name.to_owned(),
            name => format!("{}.{name}", of.schema),
        };
        Function {
            name,
            built_in: of.built_in,
            language: match of.language {
                "sql" | "plpgsql" => Language::Checked,
                _ => Language::Other,
            },
            volatile,
            immutable: of.volatility == b'i',
            aggregate: matches!(of.kind, b'a' | b'w'),
            extension: of.extension,
            takes_float: of.arguments.iter().any(|a| FLOATS.contains(a)),
            takes_bounded: of.arguments.iter().any(|a| BOUNDED.contains(a)),
            takes_xid: of.arguments.contains(&XID),
            takes_internal: of.arguments.contains(&INTERNAL),
            newer: of.built_in && NEWER.contains(&of.oid),
            takes_pattern: of.arguments.get(1) == Some(&TEXT),
            may_be_merged: of.in_sql && of.returns_set && !volatile && !of.definer && !of.settings,
            on_sequence,
        }
    }
}

/// The name of a system column, which has a negative number.
pub fn system_column(number: i16) -> &'static str {
    match number {
        -1 => "ctid",
        -2 => "xmin",
        -3 => "cmin",
        -4 => "xmax",
        -5 => "cmax",
        _ => "tableoid",
    }
}

/// Whether a type is one of those that most values have, which hold nothing else.
pub fn is_plain(oid: u32) -> bool {
    const TYPES: [u32; 21] =
        [16, 17, 20, 21, 23, 25, 114, 700, 701, 705, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2278, 2950, 3802];
    TYPES.contains(&oid)
}

/// Whether a function makes a floating-point number of a whole or decimal one: equal ones are then
/// the same bytes, since none is -0.
pub fn widened(function: u32) -> bool {
    const TO_FLOAT8: [u32; 4] = [235, 316, 482, 1746];
    const TO_FLOAT4: [u32; 4] = [236, 318, 652, 1745];
    TO_FLOAT8.contains(&function) || TO_FLOAT4.contains(&function)
}

/// The name of a type whose values are numbers of objects of one database.
pub fn object_identifier(oid: u32) -> Option<&'static str> {
    Some(match oid {
        24 => "regproc",
        2202 => "regprocedure",
        2203 => "regoper",
        2204 => "regoperator",
        2205 => "regclass",
        2206 => "regtype",
        3734 => "regconfig",
        3769 => "regdictionary",
        1033 => "aclitem",
        4096 => "regrole",
        4089 => "regnamespace",
        4191 => "regcollation",
        _ => return None,
    })
}

/// Whether a constant names one of PostgreSQL's own configurations or dictionaries of text search,
/// which are the same everywhere: as an argument of a function it is no number of one database.
pub fn is_own_of_text_search(of: u32, value: u32) -> bool {
    matches!(object_identifier(of), Some("regconfig" | "regdictionary")) && value < OF_USERS
}

/// Whether a literal of a type has to stay in its statement, because what its text means is told
/// there: names of objects, and paths of jsonpath.
pub fn stays_written(of: u32) -> bool {
    const JSONPATH: u32 = 4072;
    of == JSONPATH || object_identifier(of).is_some()
}

/// Whether values of a type that compare as equal are the same: not so for 1.0 and 1.00, or 24
/// hours and one day. Of those that initdb makes; those of an enumeration are as well.
pub fn is_identical(oid: u32, typmod: i32) -> bool {
    const BPCHAR: u32 = 1042;
    const NUMERIC: u32 = 1700;
    const TYPES: [u32; 15] = [16, 17, 18, 19, 20, 21, 23, 25, 869, 1043, 1082, 1083, 1114, 1184, 2950];
    TYPES.contains(&oid) || (matches!(oid, BPCHAR | NUMERIC) && typmod >= 0)
}

/// transam.h: objects from here on were made by users, whatever they are called.
pub const OF_USERS: u32 = 16_384;

/// The collation under which texts compare that have none of their own: the database's.
pub const DEFAULT_COLLATION: u32 = 100;

/// Collations of PostgreSQL's own that order by bytes. Letters beyond ASCII are none under `C` and
/// `POSIX`.
pub const BY_BYTES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic"];

/// The name of a collation when its order depends on the machine's libraries; None for byte order,
/// and for none at all.
pub fn local_collation(oid: u32, name: impl FnOnce() -> String) -> Option<String> {
    const NONE: u32 = 0;
    const C: u32 = 950;
    const POSIX: u32 = 951;
    if matches!(oid, NONE | C | POSIX) {
        return None;
    }
    let name = name();
    let trusted = oid < OF_USERS && BY_BYTES.contains(&name.as_str());
    (!trusted).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(schema: &'static str, name: &'static str) -> Declared<'static> {
        Declared {
            oid: 0,
            schema,
            name,
            built_in: false,
            language: "sql",
            in_sql: true,
            volatility: b's',
            kind: b'f',
            arguments: &[],
            returns_set: true,
            definer: false,
            settings: false,
            extension: None,
        }
    }

    #[test]
    fn a_set_returning_sql_function_may_be_merged_unless_something_keeps_it_apart() {
        let merged = |d: Declared| Function::from(d).may_be_merged;
        assert!(merged(declared("s", "f")));
        assert!(merged(Declared { volatility: b'i', ..declared("s", "f") }));
        assert!(!merged(Declared { volatility: b'v', ..declared("s", "f") }));
        assert!(!merged(Declared { returns_set: false, ..declared("s", "f") }));
        assert!(!merged(Declared { definer: true, ..declared("s", "f") }));
        assert!(!merged(Declared { settings: true, ..declared("s", "f") }));
        assert!(!merged(Declared { in_sql: false, language: "plpgsql", ..declared("s", "f") }));
    }

    #[test]
    fn names_say_the_schema_but_for_built_in_functions_and_those_on_sequences() {
        let name = |d: Declared| Function::from(d).name;
        assert_eq!(name(declared("public", "now")), "public.now");
        assert_eq!(name(Declared { built_in: true, ..declared("pg_catalog", "now") }), "now");
        assert_eq!(name(declared("chainify_ledger", "next_identity")), "nextval");
        assert_eq!(name(declared("public", "nextval")), "public.nextval");
        assert!(Function::from(declared("chainify_ledger", "setval")).on_sequence);
        assert!(!Function::from(declared("chainify_ledger", "follow")).on_sequence);
        assert!(!Function::from(declared("public", "setval")).on_sequence);
    }

    #[test]
    fn what_15_does_not_have_is_known_by_its_number() {
        let random = |oid, built_in| Function::from(Declared { oid, built_in, ..declared("pg_catalog", "random") });
        assert!(random(6339, true).newer, "random(1, 6)");
        assert!(!random(1598, true).newer, "random()");
        assert!(!random(6339, false).newer, "a user's function");
    }

    #[test]
    fn arguments_languages_and_kinds() {
        let f = Function::from(Declared { arguments: &[23, 25], kind: b'w', language: "c", ..declared("s", "f") });
        assert!(f.takes_pattern && f.aggregate && f.language == Language::Other);
        assert!(!f.takes_float && !f.takes_xid && !f.volatile && !f.immutable);
        let f = Function::from(Declared { arguments: &[25, 700, 28], volatility: b'v', ..declared("s", "f") });
        assert!(f.takes_float && f.takes_xid && f.volatile && !f.takes_pattern && !f.aggregate);
        assert!(Function::from(Declared { arguments: &[701], ..declared("s", "f") }).takes_float);
        assert_eq!(Function::from(Declared { language: "plpgsql", ..declared("s", "f") }).language, Language::Checked);
    }

    #[test]
    fn equal_values_of_some_types_are_different_bytes() {
        for (name, oid) in [("float8", 701), ("interval", 1186), ("timetz", 1266), ("bpchar", 1042), ("jsonb", 3802)] {
            assert!(!is_identical(oid, -1), "{name}");
        }
        for (name, oid) in [("bool", 16), ("int4", 23), ("text", 25), ("varchar", 1043), ("uuid", 2950), ("inet", 869)]
        {
            assert!(is_identical(oid, -1), "{name}");
        }
        assert!(is_identical(1700, 655_366), "numeric(10, 2) shows two digits always");
        assert!(!is_identical(1700, -1), "numeric: 1.0 and 1.00");
        assert!(is_identical(1042, 14), "char(10) has ten characters always");
    }

    #[test]
    fn a_user_cannot_call_a_collation_c() {
        let local = |oid, name: &str| local_collation(oid, || name.to_owned()).is_some();
        assert!(!local(950, "C") && !local(0, "") && !local(951, "POSIX"));
        assert!(!local(DEFAULT_COLLATION, "C.UTF-8"));
        assert!(local(DEFAULT_COLLATION, "de_DE.utf8"));
        assert!(local(20_000, "C"), "it may be anything");
        assert!(local(12_345, "de-x-icu") && !local(12_346, "ucs_basic"));
    }

    #[test]
    fn names_by_number() {
        assert_eq!([-1, -2, -3, -4, -5, -6].map(system_column), ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"]);
        assert_eq!(object_identifier(2205), Some("regclass"));
        assert_eq!(object_identifier(26), None, "a plain oid is a number like others");
    }
}
