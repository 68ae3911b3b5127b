//! The statements of a connection (spec/analytics.md, "Statements of a session").

use std::time::Duration;

/// The rows that queries of a session see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sees {
    /// The newest block that the worker has.
    #[default]
    Newest,
    /// The newest one, and at least this.
    AtLeast(i64),
    /// This block.
    Block(i64),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SET chainify.block`
    See(Sees),
    /// `SET statement_timeout`; None: no bound.
    Timeout(Option<Duration>),
    /// `CHAINIFY PIN 'name' AT block`
    Pin {
        /// Its name.
        name: String,
        /// The block.
        block: i64,
    },
    /// `CHAINIFY UNPIN 'name'`
    Unpin {
        /// Its name.
        name: String,
    },
    /// `chainify_worker.mirrors`
    Mirrors,
    /// `chainify_worker.snapshots`
    Snapshots,
    /// A query.
    Query,
}

/// Columns of `chainify_worker.mirrors`.
pub const MIRRORS: [&str; 10] =
    ["table_id", "rows", "bytes", "chunks", "chunks_shared", "block", "lag", "digest_checked", "state", "error"];
/// Columns of `chainify_worker.snapshots`.
pub const SNAPSHOTS: [&str; 5] = ["name", "block", "pinned", "bytes", "readers"];

/// Bytes of the longest name of a snapshot.
const NAME_BYTES_MAX: usize = 63;

/// Reads a statement. Error: the reason, for a SET or CHAINIFY statement that is malformed.
pub fn parse(text: &str) -> Result<Command, String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    if text == format!("SELECT {} FROM chainify_worker.mirrors", MIRRORS.join(", ")) {
        return Ok(Command::Mirrors);
    }
    if text == format!("SELECT {} FROM chainify_worker.snapshots", SNAPSHOTS.join(", ")) {
        return Ok(Command::Snapshots);
    }
    if let Some(rest) = keyword(text, "SET") {
        return setting(rest);
    }
    match keyword(text, "CHAINIFY") {
        Some(rest) => pinning(rest).ok_or_else(|| format!("malformed statement: {text}")),
        None => Ok(Command::Query),
    }
}

/// The text behind a word that ends with a blank.
fn keyword<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let rest = rest.strip_prefix(char::is_whitespace)?;
    head.eq_ignore_ascii_case(word).then(|| rest.trim_start())
}

fn setting(rest: &str) -> Result<Command, String> {
    let malformed = || format!("malformed statement: SET {rest}");
    let (name, value) = rest.split_once('=').or_else(|| rest.split_once(" TO ")).ok_or_else(malformed)?;
    let value = value.trim();
    let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
    let number = |digits: &str| digits.trim().parse::<i64>().ok().filter(|number| *number >= 0);
    match name.trim() {
        "chainify.block" => {
            let sees = match value.strip_prefix(">=") {
                Some(least) => number(least).map(Sees::AtLeast),
                None if value.is_empty() => Some(Sees::Newest),
                None => number(value).map(Sees::Block),
            };
            sees.map(Command::See)
                .ok_or_else(|| format!("\"{value}\" is no block: it is 1234, >=1234, or empty for the newest"))
        }
        "statement_timeout" => {
            let milliseconds = number(value).ok_or_else(|| format!("\"{value}\" is no number of milliseconds"))?;
            Ok(Command::Timeout((milliseconds > 0).then(|| Duration::from_millis(milliseconds as u64))))
        }
        other => Err(format!("there is no setting \"{}\"", other.escape_default())),
    }
}

fn pinning(rest: &str) -> Option<Command> {
    let quoted =
        |text: &str| Some(text.trim().strip_prefix('\'')?.strip_suffix('\'')?.to_owned()).filter(|name| is_name(name));
    if let Some(rest) = keyword(rest, "UNPIN") {
        return Some(Command::Unpin { name: quoted(rest)? });
    }
    let (name, block) = keyword(rest, "PIN")?.rsplit_once(" AT ")?;
    Some(Command::Pin { name: quoted(name)?, block: block.trim().parse().ok().filter(|block| *block >= 0)? })
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements() {
        let seen = |text| match parse(text) {
            Ok(Command::See(sees)) => sees,
            other => panic!("{other:?}"),
        };
        assert_eq!(seen("SET chainify.block = '1234'"), Sees::Block(1234));
        assert_eq!(seen("set chainify.block TO 7;"), Sees::Block(7));
        assert_eq!(seen("SET chainify.block = '>=12'"), Sees::AtLeast(12));
        assert_eq!(seen("SET chainify.block = ''"), Sees::Newest);
        assert_eq!(parse("SET statement_timeout = '0'"), Ok(Command::Timeout(None)));
        assert_eq!(parse("SET statement_timeout = '25'"), Ok(Command::Timeout(Some(Duration::from_millis(25)))));
        assert_eq!(parse("CHAINIFY PIN 'x' AT 12"), Ok(Command::Pin { name: "x".into(), block: 12 }));
        assert_eq!(parse("CHAINIFY UNPIN 'x'"), Ok(Command::Unpin { name: "x".into() }));
        assert_eq!(
            parse("SELECT name, block, pinned, bytes, readers FROM chainify_worker.snapshots"),
            Ok(Command::Snapshots)
        );
        assert_eq!(parse("SELECT 1"), Ok(Command::Query));
        assert_eq!(parse("SETTLE"), Ok(Command::Query));
    }

    #[test]
    fn malformed_statements() {
        for text in [
            "SET chainify.block = '-1'",
            "SET chainify.block = 'x'",
            "CHAINIFY PIN 'a b' AT 1",
            "SET other = '1'",
            "SET statement_timeout = 'soon'",
            "CHAINIFY PIN 'a''b' AT 1",
            "CHAINIFY PIN 'x' AT -1",
            "CHAINIFY DROP",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
