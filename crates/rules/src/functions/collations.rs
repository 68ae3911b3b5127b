//! Functions that order texts, or class their characters, as a collation says.
use crate::finding::Finding;
use crate::functions::reasons::PASS_PARAMETER;
use crate::level::Function;
use crate::settings::Database;

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
    "tsqueryin",
    "tsvectorin",
    "websearch_to_tsquery",
];

/// Whether a function of an extension classes characters as the database's collation does.
fn of_extension(extension: &str, name: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|p| name.contains(p));
    match extension {
        "citext" | "pg_trgm" => true,
        // The letters of a label, and the labels that agree with `label@`.
        "ltree" => has(&["regex", "_exec", "_rexec", "text2ltree", "textadd", "addtext"]) || name.ends_with("_in"),
        "fuzzystrmatch" => !has(&["levenshtein"]),
        _ => false,
    }
}

/// Whether a function takes words apart; it takes the name of a configuration, or a dictionary.
pub fn of_text_search(f: &Function) -> bool {
    f.built_in && OF_TEXT_SEARCH.contains(&f.name.as_str())
}

fn takes(f: &Function) -> Option<Takes> {
    let is_in = |names: &[&str]| names.contains(&f.name.as_str());
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| f.name.starts_with(p));
    if f.extension.as_deref().is_some_and(|e| of_extension(e, f.own_name())) {
        return Some(Takes::ClassesOfDatabase);
    }
    if !f.built_in {
        return None;
    }
    if is_in(COMPARING) || starts(OF_RANGES) {
        Some(Takes::Order)
    } else if is_in(CASE) || starts(&["regexp_"]) || (f.name == "substring" && f.takes_pattern) {
        Some(Takes::Classes)
    } else if of_text_search(f) {
        Some(Takes::ClassesOfDatabase)
    } else {
        None
    }
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

/// The finding on something else that classes characters as the database's collation does.
pub fn classes_of_database(construct: &str, collation: &str) -> Finding {
    let construct = format!("{construct} by the database's collation \"{collation}\"");
    Finding::by_order(construct, CLASSES_REASON, PASS_PARAMETER).of_collation()
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
