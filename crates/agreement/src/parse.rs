//! Reads the text of a policy.

use std::fmt;

use crate::expression::{Expression, DEPTH_MAX, NAMES_MAX, TEXT_BYTES_MAX};

/// Bytes of an organisation's or a column's name.
const NAME_BYTES_MAX: usize = 63;

/// Why a text is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Characters in front of the place.
    pub position: usize,
    /// The fault there.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at position {}", self.what, self.position + 1)
    }
}

impl std::error::Error for ParseError {}

pub(crate) fn policy(text: &str) -> Result<Expression, ParseError> {
    let too_long = || ParseError { position: 0, what: format!("text of more than {TEXT_BYTES_MAX} bytes") };
    if text.len() > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    let mut parser = Parser { text, at: 0, names: 0 };
    let expression = parser.expression(0)?;
    parser.blanks();
    if !parser.rest().is_empty() {
        return Err(parser.wrong("more text than one policy"));
    }
    // The one spelling is what is kept and read again.
    match expression.to_string().len() > TEXT_BYTES_MAX {
        true => Err(too_long()),
        false => Ok(expression),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    names: usize,
}

impl<'t> Parser<'t> {
    fn expression(&mut self, depth: usize) -> Result<Expression, ParseError> {
        self.blanks();
        let start = self.at;
        let word = self.word();
        let begun = self.next_is('(');
        match word.to_ascii_uppercase().as_str() {
            "AND" | "OR" if begun && depth == DEPTH_MAX => Err(self.too_deep(start)),
            "AND" if begun => self.list(depth).map(|parts| Expression::AtLeast(parts.len(), parts)),
            "OR" if begun => self.list(depth).map(|parts| Expression::AtLeast(1, parts)),
            "ORG" if begun => self.column(),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => self.counted(word, start, depth),
            _ => self.organisation(word, start),
        }
    }

    /// `k OF (…)`, its number read.
    fn counted(&mut self, number: &str, start: usize, depth: usize) -> Result<Expression, ParseError> {
        self.blanks();
        if !self.word().eq_ignore_ascii_case("of") || !self.next_is('(') {
            return Err(self.wrong_at(start, "a number without OF (…) behind it"));
        }
        if depth == DEPTH_MAX {
            return Err(self.too_deep(start));
        }
        let parts = self.list(depth)?;
        match number.parse() {
            Ok(count) if (1..=parts.len()).contains(&count) => Ok(Expression::AtLeast(count, parts)),
            _ => Err(self.wrong_at(start, format!("{number} of {}", parts.len()))),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Expression>, ParseError> {
        self.symbol('(')?;
        let mut parts = vec![self.expression(depth + 1)?];
        while self.next_is(',') {
            self.symbol(',')?;
            parts.push(self.expression(depth + 1)?);
        }
        self.symbol(')')?;
        Ok(parts)
    }

    fn organisation(&mut self, name: &str, start: usize) -> Result<Expression, ParseError> {
        let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
        if !valid || name.len() > NAME_BYTES_MAX {
            return Err(self.wrong_at(start, "neither an organisation nor AND(…), OR(…), k OF (…), org(…)"));
        }
        self.count_name(start)?;
        Ok(Expression::Organisation(name.to_owned()))
    }

    fn column(&mut self) -> Result<Expression, ParseError> {
        self.symbol('(')?;
        self.blanks();
        let start = self.at;
        let name = match self.rest().strip_prefix('"') {
            Some(quoted) => self.quoted(quoted)?,
            None => self.word().to_lowercase(),
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(self.wrong_at(start, "no name of a column"));
        }
        self.symbol(')')?;
        self.count_name(start)?;
        Ok(Expression::Column(name))
    }

    fn quoted(&mut self, quoted: &str) -> Result<String, ParseError> {
        let mut end = 0;
        loop {
            let Some(length) = quoted[end..].find('"') else {
                return Err(self.wrong("a quoted name without end"));
            };
            end += length;
            if !quoted[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        self.at += end + 2;
        Ok(quoted[..end].replace("\"\"", "\""))
    }

    fn count_name(&mut self, start: usize) -> Result<(), ParseError> {
        self.names += 1;
        match self.names > NAMES_MAX {
            true => Err(self.wrong_at(start, format!("more than {NAMES_MAX} names"))),
            false => Ok(()),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn next_is(&self, symbol: char) -> bool {
        self.rest().trim_start().starts_with(symbol)
    }

    fn symbol(&mut self, symbol: char) -> Result<(), ParseError> {
        self.blanks();
        if !self.rest().starts_with(symbol) {
            return Err(self.wrong(format!("\"{symbol}\" is missing")));
        }
        self.at += symbol.len_utf8();
        Ok(())
    }

    fn too_deep(&self, start: usize) -> ParseError {
        self.wrong_at(start, format!("nested deeper than {DEPTH_MAX}"))
    }

    fn wrong(&self, what: impl Into<String>) -> ParseError {
        self.wrong_at(self.at, what)
    }

    fn wrong_at(&self, at: usize, what: impl Into<String>) -> ParseError {
        ParseError { position: self.text[..at].chars().count(), what: what.into() }
    }
}
