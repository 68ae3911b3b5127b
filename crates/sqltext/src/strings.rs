//! String literals of a text that PostgreSQL has parsed, with `standard_conforming_strings` on.
use std::iter::Peekable;
use std::str::Chars;

/// The value of the string literal that begins at byte `at`, or None: there is none.
pub fn string_at(sql: &str, at: usize) -> Option<String> {
    match token(sql.get(at..)?) {
        Token::String(value, _) => Some(value),
        Token::Other(_) => None,
    }
}

/// The values of all string literals of a text, in order.
pub fn strings(sql: &str) -> Vec<String> {
    let (mut rest, mut found) = (sql, Vec::new());
    while !rest.is_empty() {
        let length = match token(rest) {
            Token::String(value, length) => {
                found.push(value);
                length
            }
            Token::Other(length) => length,
        };
        rest = &rest[length..];
    }
    found
}

/// Whether a value has a word of at least three letters. Without such a word no input function
/// reads the clock: the shortest such words are `now` and the names of time zones.
pub fn has_word(value: &str) -> bool {
    let letter = |c: &u8| c.is_ascii_alphabetic();
    value.as_bytes().windows(3).any(|three| three.iter().all(letter))
}

/// Whether a value of any type may contain a time relative to the clock, or a time of day in a
/// named time zone.
pub fn may_read_clock(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let relative = ["now", "today", "tomorrow", "yesterday"];
    relative.iter().any(|word| lower.contains(word)) || has_word(value) && value.bytes().any(|b| b.is_ascii_digit())
}

/// The first token of a text, or a piece of white space or comment; with its length in bytes.
enum Token {
    String(String, usize),
    Other(usize),
}

fn token(sql: &str) -> Token {
    let rest = |prefix: usize| sql.get(prefix..).filter(|rest| rest.starts_with('\''));
    let read = |prefix: usize, value: fn(&str) -> String| match rest(prefix).map(quoted) {
        Some((raw, length)) => Token::String(value(&raw), prefix + length),
        None => Token::Other(1),
    };
    match sql.as_bytes() {
        [b'\'', ..] => read(0, str::to_owned),
        [b'e' | b'E', b'\'', ..] => {
            let (raw, length) = escaped(&sql[1..]);
            Token::String(without_escapes(&raw), 1 + length)
        }
        [b'u' | b'U', b'&', b'\'', ..] => unicode(sql),
        // An NCHAR literal, and those of bits, whose letters mean nothing here.
        [b'n' | b'N' | b'b' | b'B' | b'x' | b'X', b'\'', ..] => read(1, str::to_owned),
        [b'u' | b'U', b'&', b'"', ..] => Token::Other(2),
        [b'"', ..] => Token::Other(sql[1..].find('"').map_or(sql.len(), |end| end + 2)),
        [b'-', b'-', ..] => Token::Other(sql.find(['\n', '\r']).unwrap_or(sql.len())),
        [b'/', b'*', ..] => Token::Other(comment(sql)),
        [b'$', ..] => dollar(sql),
        [byte, ..] if continues_word(*byte) => {
            Token::Other(sql.bytes().position(|b| !continues_word(b)).unwrap_or(sql.len()))
        }
        _ => Token::Other(1),
    }
}

const fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The end of a comment; those inside it count.
fn comment(sql: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    let bytes = sql.as_bytes();
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn dollar(sql: &str) -> Token {
    let Some(tag) = sql[1..].find('$').map(|end| &sql[..end + 2]) else {
        return Token::Other(1);
    };
    let name = &tag.as_bytes()[1..tag.len() - 1];
    let is_tag = !name.first().is_some_and(u8::is_ascii_digit) && name.iter().all(|b| continues_word(*b));
    let value = &sql[tag.len()..];
    match is_tag.then(|| value.find(tag)).flatten() {
        Some(end) => Token::String(value[..end].to_owned(), 2 * tag.len() + end),
        None => Token::Other(1),
    }
}

/// A string and its length, from its quote on, without escapes. One that goes on in a later line is
/// one string.
fn quoted(sql: &str) -> (String, usize) {
    pieces(sql, |rest| rest.find('\'').unwrap_or(rest.len()))
}

/// The same for a string in which a backslash escapes the next character.
fn escaped(sql: &str) -> (String, usize) {
    pieces(sql, |rest| {
        let bytes = rest.as_bytes();
        let mut at = 0;
        while at < bytes.len() && bytes[at] != b'\'' {
            at += 1 + usize::from(bytes[at] == b'\\');
        }
        at.min(bytes.len())
    })
}

fn pieces(sql: &str, quote: impl Fn(&str) -> usize) -> (String, usize) {
    let (mut value, mut at) = (String::new(), 1);
    loop {
        let end = at + quote(&sql[at..]);
        value.push_str(&sql[at..end]);
        let Some(after) = sql.get(end + 1..) else {
            return (value, sql.len());
        };
        if after.starts_with('\'') {
            value.push('\'');
            at = end + 2;
        } else if let Some(next) = continuation(after) {
            at = end + 1 + next;
        } else {
            return (value, end + 1);
        }
    }
}

/// The number of bytes up to and with the quote by which a string continues on a later line. White
/// space with a line end, and comments, may stand before it.
fn continuation(after: &str) -> Option<usize> {
    let (mut rest, mut line) = (after, false);
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
        line |= rest[..rest.len() - trimmed.len()].contains(['\n', '\r']);
        if trimmed.starts_with("--") {
            rest = &trimmed[trimmed.find(['\n', '\r'])?..];
        } else {
            let quote = line && trimmed.starts_with('\'');
            return quote.then_some(after.len() - trimmed.len() + 1);
        }
    }
}

fn without_escapes(raw: &str) -> String {
    let (mut value, mut chars) = (Vec::with_capacity(raw.len()), raw.chars().peekable());
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('b') => '\x08',
                Some('f') => '\x0c',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('x') if chars.peek().is_some_and(char::is_ascii_hexdigit) => {
                    value.push(digits(&mut chars, 2, 16, 0) as u8);
                    continue;
                }
                Some('u') => code(digits(&mut chars, 4, 16, 0)),
                Some('U') => code(digits(&mut chars, 8, 16, 0)),
                Some(octal @ '0'..='7') => {
                    value.push(digits(&mut chars, 2, 8, octal as u32 - '0' as u32) as u8);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    String::from_utf8_lossy(&value).into_owned()
}

/// Reads at most `max` digits to the base `radix`, and appends them to the digits already read.
fn digits(chars: &mut Peekable<Chars>, max: usize, radix: u32, read: u32) -> u32 {
    let next = |n: u32, digit: u32| n.wrapping_mul(radix).wrapping_add(digit);
    (0..max).map_while(|_| chars.next_if(|c| c.is_digit(radix))?.to_digit(radix)).fold(read, next)
}

/// A surrogate is read as no letter, since no word that matters has one.
fn code(n: u32) -> char {
    char::from_u32(n).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// `U&'…'`, with UESCAPE or without.
fn unicode(sql: &str) -> Token {
    let (raw, length) = quoted(&sql[2..]);
    let after = sql[2 + length..].trim_start();
    let own = after.get(..7).filter(|word| word.eq_ignore_ascii_case("uescape"));
    let own = own.and_then(|_| after[7..].trim_start().strip_prefix('\''));
    let escape = own.and_then(|rest| rest.chars().next()).unwrap_or('\\');
    let (mut value, mut chars) = (String::new(), raw.chars().peekable());
    while let Some(c) = chars.next() {
        value.push(match c {
            c if c != escape => c,
            _ if chars.next_if_eq(&escape).is_some() => escape,
            _ if chars.next_if_eq(&'+').is_some() => code(digits(&mut chars, 6, 16, 0)),
            _ => code(digits(&mut chars, 4, 16, 0)),
        });
    }
    Token::String(value, 2 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_however_it_is_written() {
        for (sql, value) in [
            ("'now'", "now"),
            ("'it''s'::text", "it's"),
            ("'to'\n  'day'", "today"),
            ("'to' -- and on\n'day'", "today"),
            ("'to' 'day'", "to"),
            (r"'\156ow'", r"\156ow"),
            (r"E'\156o\x77'", "now"),
            (r"e'\u006eow\'\\'''", r"now'\'"),
            (r"E'\U0000006eow'", "now"),
            (
                r"E'to'
              '\144ay'",
                "today",
            ),
            (r"U&'\006eow'", "now"),
            (r"u&'\+00006eow\\'", r"now\"),
            ("U&'!006eow' uescape '!'", "now"),
            ("N'now'", "now"),
            ("$$now$$", "now"),
            ("$tag$ now $$ $tag$", " now $$ "),
            ("'é' || x", "é"),
        ] {
            assert_eq!(string_at(sql, 0).as_deref(), Some(value), "{sql}");
        }
    }

    #[test]
    fn what_is_no_string_has_no_value() {
        for sql in ["now()", "1", "$1", "\"now\"", "-- 'now'", "/* 'now' */", ""] {
            assert_eq!(string_at(sql, 0), None, "{sql}");
        }
        assert_eq!(string_at("é'a'", 1), None, "inside of a character");
        assert_eq!(string_at("'a'", 9), None);
    }

    #[test]
    fn all_strings_of_a_text_are_found_and_nothing_else() {
        let sql = r#"SELECT 'a', /* ' /* ' */ ' */ "it's", e'b\'' -- 'no
            , $1, $f$c'$f$, x$$y, U&"d''" FROM t$1 WHERE U&'\0065' = N'f'"#;
        assert_eq!(strings(sql), ["a", "b'", "c'", "e", "f"]);
        assert_eq!(strings("'open"), ["open"]);
        assert_eq!(strings("E'open\\"), ["open"]);
        assert_eq!(strings("\""), [""; 0]);
    }

    #[test]
    fn a_value_without_a_word_reads_no_clock() {
        for value in ["2024-01-01 12:00:00+01", "20240101T120000Z", "{\"1 am\"}", "", "[,)"] {
            assert!(!has_word(value) && !may_read_clock(value), "{value}");
        }
        for value in ["now", "Today 12:00", "{now}", "[yesterday,toMorrow)", "12:00 MSK", "(1,now)"] {
            assert!(has_word(value) && may_read_clock(value), "{value}");
        }
        assert!(has_word("infinity") && !may_read_clock("infinity"));
    }
}
