//! Texts that put a procedure on a ledger of several engines, or take it off (spec/engines.md).
//! Every engine reads this one spelling.

/// Parameters of a procedure.
const PARAMETERS_MAX: usize = 64;

/// Their types, by their logical names.
const TYPES: [&str; 14] = [
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "double",
    "boolean",
    "text",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "json",
];

/// A procedure that each engine has in words of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// In schema public.
    pub name: String,
    /// Logical types of its parameters.
    pub types: Vec<String>,
    /// SHA-256 of the words that MariaDB has for it.
    pub mariadb: Option<[u8; 32]>,
    /// The same of PostgreSQL.
    pub postgresql: Option<[u8; 32]>,
}

/// `public.name (type, …) ENCODING 2 MARIADB digest POSTGRESQL digest`, the text after
/// ATTACH PROCEDURE. One of the digests may be missing. Cost: linear.
pub(crate) fn attached(text: &str) -> Option<Procedure> {
    let (name, rest) = text.split_once(" (")?;
    let (types, rest) = rest.split_once(')')?;
    let types: Vec<String> = types.split(", ").filter(|_| !types.is_empty()).map(str::to_owned).collect();
    let known = types.iter().all(|of| TYPES.contains(&of.as_str())) && types.len() <= PARAMETERS_MAX;
    let rest = rest.strip_prefix(" ENCODING 2")?;
    let (mariadb, rest) = digest(rest, " MARIADB ")?;
    let (postgresql, rest) = digest(rest, " POSTGRESQL ")?;
    let whole = known && rest.is_empty() && (mariadb.is_some() || postgresql.is_some());
    whole.then_some(Procedure { name: shared(name)?.into(), types, mariadb, postgresql })
}

/// The name in schema public that `public.name` means in every engine, without quotes.
pub(crate) fn shared(name: &str) -> Option<&str> {
    let name = name.strip_prefix("public.")?;
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let first = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let of_the_system = name.starts_with("pg_");
    (plain && first && !of_the_system && name.len() <= 63).then_some(name)
}

/// The digest after the name of an engine, if this comes next, and what follows.
fn digest<'t>(text: &'t str, engine: &str) -> Option<(Option<[u8; 32]>, &'t str)> {
    let Some(rest) = text.strip_prefix(engine) else {
        return Some((None, text));
    };
    let (digits, rest) = rest.split_at_checked(64)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = half(pair[0])? << 4 | half(pair[1])?;
    }
    Some((Some(digest), rest))
}

/// The value of a hexadecimal digit in lower case.
fn half(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
