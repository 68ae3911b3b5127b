//! Texts that put a procedure on a ledger of several engines, or take it off (spec/engines.md).
//! Every engine reads this one spelling.

use crate::command::shared_name;

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
    whole.then_some(Procedure { name: shared_name(name)?.table, types, mariadb, postgresql })
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

#[cfg(test)]
mod tests {
    use crate::{command, Command, Malformed};

    /// The node reads the same texts (abci/portable).
    #[test]
    fn texts_of_procedures_have_one_spelling() {
        let texts = include_str!("../../../spec/vectors/procedures.txt");
        let mut count = 0;
        for line in texts.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (expected, text) = line.split_once(' ').expect("+ or -, and a text");
            let text = text.replace("HASH", &"0a".repeat(32)).replace("\\n", "\n");
            let read = command(&text);
            match expected {
                "+" => assert!(
                    matches!(read, Some(Ok(Command::AttachProcedure(_) | Command::DetachProcedure(_)))),
                    "{text}: {read:?}"
                ),
                _ => assert_eq!(read, Some(Err(Malformed::Procedure)), "{text}"),
            }
            count += 1;
        }
        assert!(count > 20);
    }

    #[test]
    fn a_procedure_is_read_whole() {
        let text = format!("ATTACH PROCEDURE public.pay (bigint, numeric) ENCODING 2 POSTGRESQL {}", "0a".repeat(32));
        let Some(Ok(Command::AttachProcedure(read))) = command(&text) else { panic!("not read") };
        assert_eq!((read.name.as_str(), read.types.join(" ")), ("pay", "bigint numeric".into()));
        assert_eq!((read.mariadb, read.postgresql), (None, Some([10; 32])));
        assert_eq!(command("DETACH PROCEDURE public.pay"), Some(Ok(Command::DetachProcedure("pay".into()))));
    }
}
