//! Canonical JSON: RFC 8785, with numbers as exact decimal text.
//!
//! This crate has a parser of its own, because common parsers turn numbers into doubles, and
//! PostgreSQL's JSON numbers are exact.

use std::borrow::Cow;

use crate::{decimal, ValueError};

/// Arrays and objects nest at most this deep.
pub const JSON_DEPTH_MAX: usize = 1_000;

/// Appends the canonical text of the JSON text `text` to `out`: no space, keys sorted by UTF-16
/// code units, the last of duplicate keys, minimal escapes, numbers as tag 03.
///
/// Fails on text that is not JSON (RFC 8259), deeper than [`JSON_DEPTH_MAX`], with half a surrogate
/// pair, or with a number beyond numeric. Cost: O(n log n), memory about 10 times the text for
/// small members.
pub(crate) fn write_canonical(out: &mut Vec<u8>, text: &str) -> Result<(), ValueError> {
    let mut parser = Parser { text, at: 0 };
    parser.space();
    let json = parser.value(0)?;
    parser.space();
    if parser.at != text.len() {
        return Err(parser.error("end of text"));
    }
    write(out, &json)
}

enum Json<'a> {
    /// `null`, `true` or `false`.
    Word(&'static str),
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// Sorted, each key once.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, what: &'static str) -> ValueError {
        ValueError::Json { offset: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), ValueError> {
        if self.peek() != Some(byte) {
            return Err(self.error(what));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, ValueError> {
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => Err(self.error("nested too deep")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json<'a>, ValueError> {
        let rest = &self.text.as_bytes()[self.at..];
        let word = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
        let word = word.ok_or_else(|| self.error("a value"))?;
        self.at += word.len();
        Ok(Json::Word(word))
    }

    fn digits(&mut self) -> Result<(), ValueError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.error("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json<'a>, ValueError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1; // nothing but a point or an exponent may follow a leading zero
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Json::Number(&self.text[start..self.at]))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, ValueError> {
        self.expect(b'"', "a string")?;
        let mut unescaped: Option<String> = None;
        let mut start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.error("the end of the string")),
                Some(b'"') => break,
                Some(0..=0x1F) => return Err(self.error("control character in a string")),
                Some(b'\\') => {
                    let part = &self.text[start..self.at];
                    self.at += 1;
                    let escaped = self.escape()?;
                    let text = unescaped.get_or_insert_default();
                    text.push_str(part);
                    text.push(escaped);
                    start = self.at;
                }
                Some(_) => self.at += 1,
            }
        }
        let part = &self.text[start..self.at];
        self.at += 1;
        Ok(match unescaped {
            None => Cow::Borrowed(part),
            Some(text) => Cow::Owned(text + part),
        })
    }

    /// The character after a backslash.
    fn escape(&mut self) -> Result<char, ValueError> {
        let escaped = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => c as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.error("an escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode_escape(&mut self) -> Result<char, ValueError> {
        let unit = self.hex4()?;
        let code = match unit {
            0xD800..=0xDBFF => {
                self.expect(b'\\', "the other half of a surrogate pair")?;
                self.expect(b'u', "the other half of a surrogate pair")?;
                match self.hex4()? {
                    low @ 0xDC00..=0xDFFF => 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00),
                    _ => return Err(self.error("the other half of a surrogate pair")),
                }
            }
            _ => unit,
        };
        char::from_u32(code).ok_or_else(|| self.error("half a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, ValueError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| (b as char).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.error("four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, ValueError> {
        let mut elements = Vec::new();
        self.items(b']', |parser| {
            elements.push(parser.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Json::Array(elements))
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, ValueError> {
        let mut members = Vec::new();
        self.items(b'}', |parser| {
            let key = parser.string()?;
            parser.space();
            parser.expect(b':', "a colon")?;
            parser.space();
            members.push((key, parser.value(depth + 1)?));
            Ok(())
        })?;
        Ok(Json::Object(sorted(members)))
    }

    /// An opening bracket, items separated by commas, and the closing bracket `close`.
    fn items(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        self.at += 1;
        self.space();
        if self.peek() != Some(close) {
            loop {
                item(self)?;
                self.space();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                self.space();
            }
        }
        self.expect(close, "a comma or the closing bracket")
    }
}

type Member<'a> = (Cow<'a, str>, Json<'a>);

/// Members by key in UTF-16 code units, the last one of equal keys.
fn sorted(mut members: Vec<Member<'_>>) -> Vec<Member<'_>> {
    members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16())); // stable: equal keys keep their order
    members.dedup_by(|later, earlier| {
        let equal = later.0 == earlier.0;
        if equal {
            std::mem::swap(later, earlier);
        }
        equal
    });
    members
}

fn write(out: &mut Vec<u8>, json: &Json<'_>) -> Result<(), ValueError> {
    match json {
        Json::Word(word) => out.extend_from_slice(word.as_bytes()),
        Json::Number(text) => decimal::write_canonical(out, text)?,
        Json::String(text) => write_string(out, text),
        Json::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, element)?;
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(out, key);
                out.push(b':');
                write(out, member)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0A => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            0x0D => out.extend_from_slice(b"\\r"),
            0..=0x1F => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write_canonical(&mut out, text).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn one_spelling_per_value() {
        let cases = [
            (" null ", "null"),
            ("[ true , false ]", "[true,false]"),
            ("[]", "[]"),
            ("{ }", "{}"),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (r#"{"a":1,"b":2,"a":3,"a":[4]}"#, r#"{"a":[4],"b":2}"#),
            (r#"{"a":1,"a":3}"#, r#"{"a":3}"#),
            (r#""\u0041\/\u00e9\ud83d\ude00\u0000\u001F\n""#, "\"A/é😀\\u0000\\u001f\\n\""),
            ("1.50e1", "15"),
            ("-0.0", "0"),
            ("123456789012345678901234567890.10", "123456789012345678901234567890.1"),
            ("\"\u{7f}\"", "\"\u{7f}\""),
        ];
        for (text, want) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(want), "{text}");
        }
    }

    /// U+FB33 sorts before U+1F600 by code point and after it by UTF-16 code units (RFC 8785,
    /// section 3.2.3).
    #[test]
    fn keys_sort_by_utf16() {
        let text = "{\"\u{FB33}\":1,\"\u{1F600}\":2,\"\u{80}\":3,\"1\":4,\"\\r\":5}";
        let want = "{\"\\r\":5,\"1\":4,\"\u{80}\":3,\"\u{1F600}\":2,\"\u{FB33}\":1}";
        assert_eq!(canonical(text).as_deref(), Ok(want));
    }

    #[test]
    fn refuses_what_is_no_json() {
        let cases = [
            "",
            " ",
            "nul",
            "[1,]",
            "[1 2]",
            "{1:2}",
            "{\"a\"}",
            "{\"a\":1,}",
            "01",
            "-",
            "1.",
            ".5",
            "+1",
            "1e",
            "NaN",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "1 1",
            "[",
            "]",
            "tru",
            "'a'",
        ];
        for text in cases {
            assert!(matches!(canonical(text), Err(ValueError::Json { .. })), "{text}");
        }
        assert_eq!(canonical("1e200000"), Err(ValueError::NumericRange));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(canonical(&nested(JSON_DEPTH_MAX)), Ok(nested(JSON_DEPTH_MAX)));
        let want = ValueError::Json { offset: JSON_DEPTH_MAX, what: "nested too deep" };
        assert_eq!(canonical(&nested(JSON_DEPTH_MAX + 1)), Err(want.clone()));
        assert_eq!(canonical(&"[".repeat(1_000_000)), Err(want));
    }
}
