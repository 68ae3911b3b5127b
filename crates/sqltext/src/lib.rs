//! Finds the literals of an SQL text without parsing it, so that statements that differ in them
//! alone share a plan.
//!
//! The tokens are those of PostgreSQL 15 with `standard_conforming_strings` on. Rare or ambiguous
//! texts are not taken apart at all: those with comments, escape or dollar-quoted strings, or
//! strings continued on the next line. Such a text has its own plan. PostgreSQL's parser decides
//! which literals may become parameters, not this crate.

mod check;
mod command;
mod logical;
mod procedure;
mod settled;
mod strings;
mod tokens;
pub use check::check;
pub use command::{command, Command, Malformed, Sealed, TableName, TABLES_MAX};
pub use logical::{constant, logical_type, Constant};
pub use procedure::Procedure;
pub use settled::settled;
pub use strings::{has_word, may_read_clock, string_at, strings};
pub use tokens::{called_names, normalised};

/// Literals in one text; one with more is not taken apart.
pub const LITERALS_MAX: usize = 1024;

/// The parser's reading of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer below 2^31.
    Int4,
    /// An integer from 2^31 + 1 to below 2^63.
    Int8,
    /// Any other number.
    Numeric,
    /// A string, whose type follows from where it stands.
    Text,
}

impl Kind {
    /// Stands in the shape for a literal of this kind: outside of quotes no token has such a byte.
    const fn marker(self) -> char {
        match self {
            Kind::Int4 => '\x01',
            Kind::Int8 => '\x02',
            Kind::Numeric => '\x03',
            Kind::Text => '\x04',
        }
    }

    /// The type's name; empty for one that follows from the context.
    pub const fn type_name(self) -> &'static str {
        match self {
            Kind::Int4 => "integer",
            Kind::Int8 => "bigint",
            Kind::Numeric => "numeric",
            Kind::Text => "",
        }
    }
}

/// A literal of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Bytes of the text, from `at` to before `end`, quotes included.
    pub at: usize,
    /// See `at`.
    pub end: usize,
    /// The parser's reading.
    pub kind: Kind,
}

impl Literal {
    /// The literal as written.
    pub fn written<'s>(&self, sql: &'s str) -> &'s str {
        &sql[self.at..self.end]
    }

    /// Its value as an input function reads it: without quotes.
    pub fn value(&self, sql: &str) -> String {
        match self.kind {
            Kind::Text => sql[self.at + 1..self.end - 1].replace("''", "'"),
            _ => self.written(sql).to_owned(),
        }
    }
}

/// A text taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The text with a marker for each literal. Texts of one shape have the same tokens but for the
    /// literals' values.
    pub text: String,
    /// In order.
    pub literals: Vec<Literal>,
    /// The highest n of a parameter `$n`; 0 when there is none.
    pub parameter_max: u32,
}

/// Takes `sql` apart. `None` when it has something that only PostgreSQL's own scanner should judge,
/// or more than [`LITERALS_MAX`] literals. Cost: one pass over the bytes.
pub fn shape(sql: &str) -> Option<Shape> {
    let bytes = sql.as_bytes();
    let mut shape = Shape { text: String::with_capacity(sql.len()), literals: Vec::new(), parameter_max: 0 };
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let literal = match byte {
            b'\'' => Some(string(bytes, at)?),
            b'0'..=b'9' => Some(number(bytes, at)?),
            b'.' if next.is_ascii_digit() => Some(number(bytes, at)?),
            _ => None,
        };
        if let Some(literal) = literal {
            if shape.literals.len() == LITERALS_MAX {
                return None;
            }
            shape.text.push_str(&sql[copied..literal.at]);
            shape.text.push(literal.kind.marker());
            (at, copied) = (literal.end, literal.end);
            shape.literals.push(literal);
            continue;
        }
        at = match byte {
            b'"' => quoted(bytes, at)?,
            b'$' => parameter(bytes, at, &mut shape.parameter_max)?,
            b'-' if next == b'-' => return None,
            b'/' if next == b'*' => return None,
            b' ' | b'\t' | b'\n' | b'\r' => at + 1,
            0..=b' ' | 0x7f => return None,
            _ if starts_identifier(byte) => identifier(bytes, at)?,
            _ => at + 1,
        };
    }
    shape.text.push_str(&sql[copied..]);
    Some(shape)
}

const fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

const fn continues_identifier(byte: u8) -> bool {
    starts_identifier(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn skip(bytes: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[at..].iter().position(|b| !wanted(*b)).map_or(bytes.len(), |n| at + n)
}

/// The end of an identifier. One that touches a quote, as in `E'…'` or `U&"…"`, makes it another
/// kind of token.
fn identifier(bytes: &[u8], at: usize) -> Option<usize> {
    let end = skip(bytes, at, continues_identifier);
    match (bytes.get(end), bytes.get(end + 1)) {
        (Some(b'\''), _) | (Some(b'&'), Some(b'\'' | b'"')) => None,
        _ => Some(end),
    }
}

/// The end of a quoted identifier; a doubled quote ends one and begins another, which is the same
/// here.
fn quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let end = skip(bytes, at + 1, |b| b != b'"');
    (end < bytes.len()).then_some(end + 1)
}

fn parameter(bytes: &[u8], at: usize, highest: &mut u32) -> Option<usize> {
    let end = skip(bytes, at + 1, |b| b.is_ascii_digit());
    let number: u32 = std::str::from_utf8(&bytes[at + 1..end]).ok()?.parse().ok()?;
    *highest = number.max(*highest);
    ends_token(bytes, end).then_some(end)
}

/// Whether a number or parameter may end here; the scanner calls the rest of `1a` junk.
fn ends_token(bytes: &[u8], end: usize) -> bool {
    !bytes.get(end).is_some_and(|b| continues_identifier(*b) || *b == b'.')
}

fn string(bytes: &[u8], at: usize) -> Option<Literal> {
    let mut end = at + 1;
    loop {
        end = skip(bytes, end, |b| b != b'\'' && b != 0);
        if bytes.get(end) != Some(&b'\'') {
            return None;
        }
        if bytes.get(end + 1) != Some(&b'\'') {
            break;
        }
        end += 2;
    }
    let after = skip(bytes, end + 1, |b| b.is_ascii_whitespace());
    // Two strings with a line end between them are one.
    (bytes.get(after) != Some(&b'\'')).then_some(Literal { at, end: end + 1, kind: Kind::Text })
}

fn number(bytes: &[u8], at: usize) -> Option<Literal> {
    let digits = |from: usize| skip(bytes, from, |b| b.is_ascii_digit());
    let mut end = digits(at);
    let whole = end;
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent == end + 1 + sign {
            return None;
        }
        end = exponent;
    }
    if !ends_token(bytes, end) {
        return None;
    }
    let kind = if end > whole { Kind::Numeric } else { integer(&bytes[at..end])? };
    Some(Literal { at, end, kind })
}

/// With a minus in front, 2^31 and 2^63 are of a smaller type than without: they are left to the
/// parser.
fn integer(digits: &[u8]) -> Option<Kind> {
    let value = digits.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')));
    match value {
        Some(0..=0x7fff_ffff) => Some(Kind::Int4),
        Some(0x8000_0000 | 0x8000_0000_0000_0000) => None,
        Some(0x8000_0001..=0x7fff_ffff_ffff_ffff) => Some(Kind::Int8),
        _ => Some(Kind::Numeric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(sql: &str) -> Vec<(Kind, &str)> {
        let shape = shape(sql).expect("is taken apart");
        shape.literals.iter().map(|l| (l.kind, l.written(sql))).collect()
    }

    #[test]
    fn numbers_have_the_type_the_parser_gives_them() {
        use Kind::*;
        let sql = "0 007 2147483647 2147483649 9223372036854775807 9223372036854775809 1.5 .5 5. 1e3 1.5E-3 99999999999999999999";
        let kinds = [Int4, Int4, Int4, Int8, Int8, Numeric, Numeric, Numeric, Numeric, Numeric, Numeric, Numeric];
        let expected: Vec<_> = kinds.into_iter().zip(sql.split(' ')).collect();
        assert_eq!(literals(sql), expected);
    }

    #[test]
    fn only_literals_are_taken_out() {
        let sql = r#"UPDATE t1 SET "a 5 ''" = a1-5, x$2 = $12 + '12''3' WHERE é7[3] <= 4 -- "#.trim_end_matches("-- ");
        let shape = shape(sql).expect("is taken apart");
        assert_eq!(shape.text, "UPDATE t1 SET \"a 5 ''\" = a1-\x01, x$2 = $12 + \x04 WHERE é7[\x01] <= \x01 ");
        assert_eq!(shape.parameter_max, 12);
        assert_eq!(shape.literals[1].value(sql), "12'3");
    }

    #[test]
    fn what_is_ambiguous_is_left_alone() {
        let left = [
            "SELECT 1 -- x",
            "SELECT /* x */ 1",
            "SELECT E'a'",
            "SELECT b'1'",
            "SELECT U&'a'",
            "SELECT U&\"a\"",
            "SELECT $$a$$",
            "SELECT $a$1$a$",
            "SELECT 'a'\n'b'",
            "SELECT 'a",
            "SELECT \"a",
            "SELECT 1a",
            "SELECT 1..2",
            "SELECT 1e",
            "SELECT $1a",
            "SELECT \x01",
            "SELECT 1.2.3",
            "SELECT 2147483648",
            "SELECT 9223372036854775808",
            "SELECT $99999999999",
        ];
        for sql in left {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }

    #[test]
    fn shapes_differ_when_anything_but_a_value_does() {
        let shapes = [
            "SELECT 1",
            "SELECT 3000000000",
            "SELECT 1.0",
            "SELECT '1'",
            "SELECT  1",
            "SELECT -1",
            "SELECT $1",
            "select 1",
        ];
        for (i, a) in shapes.iter().enumerate() {
            for b in &shapes[..i] {
                assert_ne!(shape(a).map(|s| s.text), shape(b).map(|s| s.text), "{a} and {b}");
            }
        }
        assert_eq!(shape("SELECT 1").map(|s| s.text), shape("SELECT 22").map(|s| s.text));
    }

    #[test]
    fn a_text_with_too_many_literals_is_left_alone() {
        assert!(shape(&"1 ".repeat(LITERALS_MAX)).is_some());
        assert!(shape(&"1 ".repeat(LITERALS_MAX + 1)).is_none());
    }
}
