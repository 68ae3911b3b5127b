//! CHECK constraints as `pg_get_expr` words them, read for schema text 2 (spec/engines.md,
//! "Checks").
//!
//! It reads comparisons of columns and constants by PostgreSQL's own operators, in the words of
//! `pg_get_expr`, and nothing else. A cast counts as long as it changes no value.

use chainify_codec::schema::{logical_tag, Check, Column, Operand, Operator};
use chainify_codec::{value, Tag};

/// Bytes of an expression.
const EXPRESSION_BYTES_MAX: usize = 65_536;
/// How deep parentheses, casts and negations nest.
const NESTING_MAX: usize = 64;
/// Digits that a double has for sure.
const DOUBLE_DIGITS_MAX: usize = 15;

/// Why an expression cannot be read: the construct.
type Result<T> = std::result::Result<T, String>;

/// Reads the expression of a check. `typed` encodes the text of a constant of a type that has
/// neither length nor precision. The error names the construct that engines do not share. Cost:
/// linear.
pub fn check(
    expression: &str,
    columns: &[Column],
    typed: impl FnMut(&Column, &str) -> Option<Vec<u8>>,
) -> Result<Check> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression of {} bytes", expression.len()));
    }
    let mut parser = Parser { tokens: split(expression)?, at: 0, depth: 0 };
    let node = parser.either()?;
    match parser.peek() {
        None => Reader { columns, typed }.condition(node),
        Some(token) => Err(token.construct()),
    }
}

/// A part of an expression, as it is written.
enum Node {
    Column(String),
    /// In quotes, or a number, `true`, `false` or `null`.
    Constant(String),
    Cast(Box<Node>, String),
    Array(Vec<Node>),
    Compare(Operator, Box<Node>, Box<Node>),
    /// `= ANY` and the like; true: `ALL`.
    Quantified(Operator, Box<Node>, bool, Box<Node>),
    Null(Box<Node>, bool),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Clone, PartialEq)]
enum Token {
    /// A keyword, a type, or the name of a column that needs no quotes.
    Word(String),
    /// Without its quotes.
    Name(String),
    Number(String),
    /// Without its quotes.
    Text(String),
    Sign(&'static str),
}

impl Token {
    fn construct(&self) -> String {
        match self {
            Token::Word(text) | Token::Name(text) | Token::Number(text) => format!("at \"{text}\""),
            Token::Text(_) => "at a text".to_owned(),
            Token::Sign(sign) => format!("at \"{sign}\""),
        }
    }
}

const SIGNS: [&str; 13] = ["::", "<>", "<=", ">=", "=", "<", ">", "(", ")", "[", "]", ",", "."];

fn split(mut rest: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\n']);
        let Some(first) = rest.bytes().next() else {
            return Ok(tokens);
        };
        let (token, length) = match first {
            b'\'' => quoted(rest, '\'').map(|(text, length)| (Token::Text(text), length)),
            b'"' => quoted(rest, '"').map(|(text, length)| (Token::Name(text), length)),
            b'0'..=b'9' => {
                let length = while_bytes(rest, |byte| byte.is_ascii_digit() || byte == b'.');
                Some((Token::Number(rest[..length].to_owned()), length))
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = while_bytes(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if rest[..length] == *"OPERATOR" {
                    return Err("an operator of another schema".to_owned());
                }
                Some((Token::Word(rest[..length].to_owned()), length))
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                sign.map(|sign| (Token::Sign(sign), sign.len()))
            }
        }
        .ok_or_else(|| format!("operator at \"{}\"", rest.chars().take(20).collect::<String>()))?;
        // PostgreSQL has operators of several signs, such as =>, and of users.
        let after = rest.as_bytes().get(length).copied().unwrap_or(b' ');
        if matches!(token, Token::Sign("<>" | "<=" | ">=" | "=" | "<" | ">")) && after != b' ' {
            return Err(format!("operator at \"{}\"", rest.chars().take(20).collect::<String>()));
        }
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn while_bytes(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len())
}

/// The text in quotes that begins here, and its length with the quotes. A doubled quote is one.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let (mut out, mut chars) = (String::new(), text.char_indices().skip(1).peekable());
    while let Some((at, char)) = chars.next() {
        match char {
            _ if char != quote => out.push(char),
            _ if chars.next_if(|(_, next)| *next == quote).is_some() => out.push(quote),
            _ => return Some((out, at + 1)),
        }
    }
    None
}

/// Types of constants and casts, in PostgreSQL's words.
const TYPES: [&str; 13] = [
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "double precision",
    "text",
    "character varying",
    "bytea",
    "date",
    "time without time zone",
    "timestamp without time zone",
    "timestamp with time zone",
    "uuid",
];

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn skip(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: &'static str) -> bool {
        self.skip(&Token::Sign(sign))
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        self.skip(&Token::Word(keyword.to_owned()))
    }

    fn unexpected<T>(&self) -> Result<T> {
        Err(self.peek().map_or("an unfinished expression".to_owned(), Token::construct))
    }

    fn want(&mut self, sign: &'static str) -> Result<()> {
        match self.sign(sign) {
            true => Ok(()),
            false => self.unexpected(),
        }
    }

    /// Runs `f` one level deeper.
    fn nested(&mut self, f: impl FnOnce(&mut Self) -> Result<Node>) -> Result<Node> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(format!("more than {NESTING_MAX} levels"));
        }
        let node = f(self);
        self.depth -= 1;
        node
    }

    fn either(&mut self) -> Result<Node> {
        let mut parts = vec![self.both()?];
        while self.keyword("OR") {
            parts.push(self.both()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Node::Any(parts) })
    }

    fn both(&mut self) -> Result<Node> {
        let mut parts = vec![self.not()?];
        while self.keyword("AND") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Node::All(parts) })
    }

    fn not(&mut self) -> Result<Node> {
        match self.keyword("NOT") {
            true => Ok(Node::Not(Box::new(self.nested(Self::not)?))),
            false => self.test(),
        }
    }

    fn test(&mut self) -> Result<Node> {
        let left = self.cast()?;
        if self.keyword("IS") {
            let is = !self.keyword("NOT");
            return match self.keyword("NULL") {
                true => Ok(Node::Null(Box::new(left), is)),
                false => self.unexpected(),
            };
        }
        let Some(operator) = Operator::ALL.into_iter().find(|operator| self.sign(operator.sign())) else {
            return Ok(left);
        };
        let all = self.keyword("ALL");
        if !all && !self.keyword("ANY") {
            return Ok(Node::Compare(operator, Box::new(left), Box::new(self.cast()?)));
        }
        self.want("(")?;
        let list = self.cast()?;
        self.want(")")?;
        Ok(Node::Quantified(operator, Box::new(left), all, Box::new(list)))
    }

    fn cast(&mut self) -> Result<Node> {
        let mut node = self.primary()?;
        let mut casts = 0;
        while self.sign("::") {
            casts += 1;
            if casts > NESTING_MAX {
                return self.unexpected();
            }
            node = Node::Cast(Box::new(node), self.type_name()?);
        }
        Ok(node)
    }

    /// One of [`TYPES`], or an array of it.
    fn type_name(&mut self) -> Result<String> {
        let known = TYPES.into_iter().find(|name| {
            name.split(' ')
                .enumerate()
                .all(|(at, word)| matches!(self.tokens.get(self.at + at), Some(Token::Word(found)) if found == word))
        });
        let Some(name) = known else {
            return Err(match self.peek() {
                Some(Token::Word(word) | Token::Name(word)) => format!("type {word}"),
                _ => "an unfinished expression".to_owned(),
            });
        };
        self.at += name.split(' ').count();
        if self.peek() == Some(&Token::Sign("(")) {
            return Err(format!("a cast to {name} of a length"));
        }
        match self.sign("[") {
            true => self.want("]").map(|()| format!("{name}[]")),
            false => Ok(name.to_owned()),
        }
    }

    fn primary(&mut self) -> Result<Node> {
        let Some(token) = self.peek().cloned() else {
            return self.unexpected();
        };
        self.at += 1;
        let call = self.peek() == Some(&Token::Sign("("));
        let of_schema = self.peek() == Some(&Token::Sign("."));
        match token {
            Token::Sign("(") => {
                let node = self.nested(Self::either)?;
                self.want(")").map(|()| node)
            }
            Token::Number(text) | Token::Text(text) => Ok(Node::Constant(text)),
            Token::Word(word) if word == "ARRAY" && self.sign("[") => self.array(),
            Token::Word(word) | Token::Name(word) if call => Err(format!("function {word}")),
            Token::Word(word) | Token::Name(word) if of_schema => Err(format!("a name of schema {word}")),
            Token::Word(word) if ["true", "false"].contains(&word.as_str()) => Ok(Node::Constant(word)),
            Token::Word(word) if word.bytes().any(|byte| byte.is_ascii_uppercase()) => Err(format!("at \"{word}\"")),
            Token::Word(name) | Token::Name(name) => Ok(Node::Column(name)),
            Token::Sign(_) => Err(token.construct()),
        }
    }

    fn array(&mut self) -> Result<Node> {
        let mut elements = vec![self.cast()?];
        while self.sign(",") {
            elements.push(self.cast()?);
        }
        self.want("]").map(|()| Node::Array(elements))
    }
}

/// Gives the parts of an expression their types.
struct Reader<'c, F> {
    columns: &'c [Column],
    typed: F,
}

impl<F: FnMut(&Column, &str) -> Option<Vec<u8>>> Reader<'_, F> {
    fn condition(&mut self, node: Node) -> Result<Check> {
        match node {
            Node::Not(node) => self.condition(*node).map(Check::negated),
            Node::All(parts) => self.conditions(parts).map(Check::All),
            Node::Any(parts) => self.conditions(parts).map(Check::Any),
            Node::Null(node, is) => match *node {
                Node::Column(column) => Ok(Check::Null { column, is }),
                _ => Err("a test for NULL of more than a column".to_owned()),
            },
            Node::Column(name) => {
                let column = self.column(&name)?.clone();
                let with = Operand::Value(self.constant(&column, Node::Constant("true".to_owned()))?);
                Ok(Check::Compare { column: name, operator: Operator::Equal, with })
            }
            Node::Compare(operator, left, right) => match (self.named(*left), self.named(*right)) {
                (Ok(column), Ok(other)) => Ok(Check::Compare { column, operator, with: Operand::Column(other) }),
                (Ok(column), Err(constant)) => self.compare(column, operator, constant),
                (Err(constant), Ok(column)) => self.compare(column, operator.turned(), constant),
                (Err(_), Err(_)) => Err("a comparison of more than columns and constants".to_owned()),
            },
            Node::Quantified(operator, left, all, list) => self.quantified(operator, *left, all, *list),
            Node::Constant(_) | Node::Cast(..) | Node::Array(_) => Err("a condition that is a value".to_owned()),
        }
    }

    fn conditions(&mut self, parts: Vec<Node>) -> Result<Vec<Check>> {
        parts.into_iter().map(|part| self.condition(part)).collect()
    }

    /// `= ANY (ARRAY[…])`, which is IN, and `<> ALL (ARRAY[…])`, which is NOT IN. An array cast as
    /// a whole casts each element.
    fn quantified(&mut self, operator: Operator, left: Node, all: bool, list: Node) -> Result<Check> {
        let (mut list, mut casts) = (list, Vec::new());
        while let Node::Cast(inner, name) = list {
            let Some(name) = name.strip_suffix("[]") else {
                return Err(format!("a cast of a list to {name}"));
            };
            casts.push(name.to_owned());
            list = *inner;
        }
        let (Node::Array(elements), Ok(column)) = (list, self.named(left)) else {
            return Err("a list that is no array of constants".to_owned());
        };
        if (operator, all) != (Operator::Equal, false) && (operator, all) != (Operator::Differs, true) {
            return Err(format!("{} {}", operator.sign(), if all { "ALL" } else { "ANY" }));
        }
        let cast = |element| casts.iter().rev().fold(element, |node, name| Node::Cast(Box::new(node), name.clone()));
        let tests = elements.into_iter().map(|element| self.compare(column.clone(), operator, cast(element)));
        let tests = tests.collect::<Result<Vec<_>>>()?;
        Ok(if all { Check::All(tests) } else { Check::Any(tests) })
    }

    fn column(&self, name: &str) -> Result<&Column> {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .ok_or_else(|| format!("column {name}, which is not there"))
    }

    /// The column that a part is. A varchar is compared as text.
    fn named(&self, node: Node) -> std::result::Result<String, Node> {
        match node {
            Node::Column(name) => Ok(name),
            Node::Cast(inner, of) => match *inner {
                Node::Column(name) if of == "text" && self.is_text(&name) => Ok(name),
                inner => Err(Node::Cast(Box::new(inner), of)),
            },
            other => Err(other),
        }
    }

    fn is_text(&self, name: &str) -> bool {
        self.column(name).is_ok_and(|column| logical_tag(&column.logical) == Some(Tag::Text))
    }

    fn compare(&mut self, column: String, operator: Operator, constant: Node) -> Result<Check> {
        let of = self.column(&column)?.clone();
        let with = Operand::Value(self.constant(&of, constant)?);
        Ok(Check::Compare { column, operator, with })
    }

    /// A constant as a column of its type compares with it.
    fn constant(&mut self, column: &Column, node: Node) -> Result<Vec<u8>> {
        let (mut node, mut casts) = (node, Vec::new());
        while let Node::Cast(inner, name) = node {
            casts.push(name);
            node = *inner;
        }
        casts.reverse();
        let Node::Constant(text) = node else {
            return Err("a comparison of more than columns and constants".to_owned());
        };
        let tag = logical_tag(&column.logical);
        let value = tag.and_then(|tag| match plain(tag, &text, &casts) {
            Some(value) => value,
            None => (self.typed)(column, &text).filter(|_| casts == [words(&column.logical)]),
        });
        value.ok_or_else(|| {
            let cast: String = casts.iter().map(|name| format!("::{name}")).collect();
            format!("column {} of type {} beside {:.40}{cast}", column.name, column.logical, text)
        })
    }
}

/// PostgreSQL's words for a type that has neither length nor precision.
fn words(logical: &str) -> &str {
    match logical {
        "time" => "time without time zone",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        other => other,
    }
}

/// The encoding of a constant under casts that change no value; `Some(None)`: there is none.
/// `None`: its type is read elsewhere.
fn plain(tag: Tag, text: &str, casts: &[String]) -> Option<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let all = |wanted: &[&str]| casts.iter().all(|name| wanted.contains(&name.as_str()));
    let written = match tag {
        Tag::Bool => {
            casts.is_empty() && ["true", "false"].contains(&text) && {
                value::bool(&mut out, text == "true");
                true
            }
        }
        Tag::Int => whole(text, casts).is_some_and(|number| {
            value::int(&mut out, number);
            all(&INTEGERS)
        }),
        Tag::Numeric => {
            let digits = is_number(text) && all(&["smallint", "integer", "bigint", "numeric"]);
            digits && fits(text, casts) && value::numeric(&mut out, text).is_ok()
        }
        Tag::Float => {
            let digits = is_number(text) && all(&["smallint", "integer", "bigint", "numeric", "double precision"]);
            let few = text.bytes().filter(u8::is_ascii_digit).count() <= DOUBLE_DIGITS_MAX;
            let double = casts.last().is_some_and(|name| name == "double precision");
            digits
                && few
                && double
                && fits(text, casts)
                && text.parse().is_ok_and(|number| {
                    value::float(&mut out, number);
                    true
                })
        }
        Tag::Text => {
            !casts.is_empty() && all(&["text", "character varying"]) && {
                value::text(&mut out, text);
                true
            }
        }
        _ => return None,
    };
    Some(written.then_some(out))
}

const INTEGERS: [&str; 3] = ["smallint", "integer", "bigint"];

/// An integer that every cast to an integer leaves as it is.
fn whole(text: &str, casts: &[String]) -> Option<i64> {
    let number: i64 = text.parse().ok().filter(|number: &i64| number.to_string() == text)?;
    let fit = casts.iter().all(|name| match name.as_str() {
        "smallint" => i16::try_from(number).is_ok(),
        "integer" => i32::try_from(number).is_ok(),
        _ => true,
    });
    fit.then_some(number)
}

fn fits(text: &str, casts: &[String]) -> bool {
    !casts.iter().any(|name| INTEGERS.contains(&name.as_str())) || whole(text, casts).is_some()
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    digits.split('.').count() <= 2 && digits.split('.').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let types = [
            ("id", "bigint"),
            ("s", "smallint"),
            ("i", "integer"),
            ("n", "numeric(10,2)"),
            ("ok", "boolean"),
            ("t", "text"),
            ("v", "varchar(10)"),
            ("raw", "bytea"),
            ("day", "date"),
            ("ts", "timestamp"),
            ("u", "uuid"),
            ("d", "double"),
            ("order", "integer"),
        ];
        let column = |(at, (name, logical)): (usize, &(&str, &str))| Column {
            ordinal: at as u16 + 1,
            name: (*name).to_owned(),
            logical: (*logical).to_owned(),
            not_null: false,
            default: None,
        };
        types.iter().enumerate().map(column).collect()
    }

    /// The check in short words: constants as `typed` and the encoders leave them.
    fn read(expression: &str) -> std::result::Result<String, String> {
        check(expression, &columns(), |_, text| Some(text.as_bytes().to_vec())).map(|check| words(&check))
    }

    fn words(check: &Check) -> String {
        let all = |parts: &[Check]| parts.iter().map(words).collect::<Vec<_>>();
        match check {
            Check::Null { column, is } => format!("{column} {}null", if *is { "" } else { "not " }),
            Check::Compare { column, operator, with: Operand::Column(other) } => {
                format!("{column} {} {other}", operator.sign())
            }
            Check::Compare { column, operator, with: Operand::Value(value) } => {
                let value = chainify_codec::decode_value(value)
                    .map_or_else(|_| String::from_utf8_lossy(value).into_owned(), |value| value.to_text());
                format!("{column} {} {value}", operator.sign())
            }
            Check::All(parts) => format!("({})", all(parts).join(" & ")),
            Check::Any(parts) => format!("({})", all(parts).join(" | ")),
        }
    }

    #[test]
    fn checks_are_read_as_postgresql_words_them() {
        for (expression, expected) in [
            ("(i > 0)", "i > 0"),
            ("((i >= 1) AND (i <= 5))", "(i >= 1 & i <= 5)"),
            ("(i = ANY (ARRAY[1, 2, '-3'::integer]))", "(i = 1 | i = 2 | i = -3)"),
            ("(i <> ALL (ARRAY[1, 2]))", "(i <> 1 & i <> 2)"),
            ("(NOT ((i = 1) OR (s < 2)))", "(i <> 1 & s >= 2)"),
            ("(NOT (NOT (i = ANY (ARRAY[1]))))", "(i = 1)"),
            ("(id = ANY (ARRAY[(1)::bigint, '3000000000'::bigint]))", "(id = 1 | id = 3000000000)"),
            ("(5 < i)", "i > 5"),
            ("(i < id)", "i < id"),
            ("(n > (0)::numeric)", "n > 0"),
            ("(n >= ('-5'::integer)::numeric)", "n >= -5"),
            ("(n <> '-1.50'::numeric)", "n <> -1.5"),
            ("(n = 1.005)", "n = 1.005"),
            ("(d > (1.5)::double precision)", "d > 1.5e0"),
            ("(d > '-2'::double precision)", "d > -2e0"),
            ("ok", "ok = t"),
            ("(NOT ok)", "ok <> t"),
            ("((ok = false) OR (t IS NOT NULL))", "(ok = f | t not null)"),
            ("(NOT (t IS NULL))", "t not null"),
            ("(t = 'it''s ''::text'::text)", "t = it's '::text"),
            ("((v)::text < 'x'::text)", "v < x"),
            ("((v)::text = t)", "v = t"),
            ("((v)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))", "(v = a | v = b)"),
            (
                "((v)::text = ANY (ARRAY[('a'::character varying)::text, ('b'::character varying)::text]))",
                "(v = a | v = b)",
            ),
            ("(raw <> '\\x00'::bytea)", "raw <> \\x00"),
            ("(day >= '2024-02-29'::date)", "day >= 2024-02-29"),
            ("(ts < '2024-02-29 00:00:00'::timestamp without time zone)", "ts < 2024-02-29 00:00:00"),
            ("(\"order\" > 0)", "order > 0"),
        ] {
            assert_eq!(read(expression).as_deref(), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn other_expressions_are_refused_by_their_construct() {
        for (expression, construct) in [
            ("(lower(t) = t)", "function lower"),
            ("(char_length(t) > 0)", "function char_length"),
            ("((i + 1) > 0)", "operator at \"+ 1) > 0)\""),
            ("(i OPERATOR(public.<) 5)", "an operator of another schema"),
            ("(public.f(i) > 0)", "a name of schema public"),
            ("(i <# 5)", "operator at \"<# 5)\""),
            ("(t ~~ 'a%'::text)", "operator at \"~~ 'a%'::text)\""),
            ("(t < ('x'::text COLLATE \"de_DE\"))", "at \"COLLATE\""),
            ("((i)::text < (id)::text)", "a comparison of more than columns and constants"),
            ("((i)::text < t)", "a comparison of more than columns and constants"),
            ("((i)::numeric > 1.5)", "a comparison of more than columns and constants"),
            ("(s = (70000)::smallint)", "column s of type smallint beside 70000::smallint"),
            ("(n = (1.005)::numeric(10,2))", "a cast to numeric of a length"),
            ("(n = 'NaN'::numeric)", "column n of type numeric(10,2) beside NaN::numeric"),
            ("(n = ((1.5)::integer)::numeric)", "column n of type numeric(10,2) beside 1.5::integer::numeric"),
            (
                "(d = ((1.5)::integer)::double precision)",
                "column d of type double beside 1.5::integer::double precision",
            ),
            ("(n = ('5'::text)::numeric)", "column n of type numeric(10,2) beside 5::text::numeric"),
            ("(d > 1.5)", "column d of type double beside 1.5"),
            (
                "(d > (1234567890.123456)::double precision)",
                "column d of type double beside 1234567890.123456::double precision",
            ),
            ("(ts < '2024-02-29'::date)", "column ts of type timestamp beside 2024-02-29::date"),
            ("(day < CURRENT_DATE)", "at \"CURRENT_DATE\""),
            ("(i = NULL::integer)", "at \"NULL\""),
            ("(i = ANY ('{1,2}'::integer[]))", "a list that is no array of constants"),
            ("(i < ANY (ARRAY[1, 2]))", "< ANY"),
            ("(i IS DISTINCT FROM 1)", "at \"DISTINCT\""),
            ("(ok IS TRUE)", "at \"TRUE\""),
            ("((i > 0) IS NULL)", "a test for NULL of more than a column"),
            ("((i > 0) = ok)", "a comparison of more than columns and constants"),
            ("(5 > 3)", "a comparison of more than columns and constants"),
            ("true", "a condition that is a value"),
            ("(i > 0", "an unfinished expression"),
            ("(i > 0) x", "at \"x\""),
            ("(x > 0)", "column x, which is not there"),
            ("(kinds.i > 0)", "a name of schema kinds"),
            ("(v = 'a'::public.text)", "type public"),
            ("", "an unfinished expression"),
        ] {
            let found = read(expression);
            assert!(found.as_ref().is_err_and(|why| why.starts_with(construct)), "{expression}: {found:?}");
        }
    }

    #[test]
    fn nesting_and_length_are_bounded() {
        let deep = |levels: usize| format!("{}i > 0{}", "(".repeat(levels), ")".repeat(levels));
        assert!(read(&deep(64)).is_ok());
        assert_eq!(read(&deep(65)), Err("more than 64 levels".to_owned()));
        assert_eq!(read(&format!("{}ok", "NOT ".repeat(100_000 / 10))), Err("more than 64 levels".to_owned()));
        assert!(read(&" ".repeat(EXPRESSION_BYTES_MAX + 1)).is_err());
    }
}
