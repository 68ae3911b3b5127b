//! The statements that clients of the door may send (spec/analytics.md). Pure.
//!
//! A query is not read here: the database translates it. Everything else is a list of words.

use crate::engine::Failure;

/// Bytes of the longest statement that is no query.
const BYTES_MAX: usize = 8_192;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Nothing but blanks and comments.
    Empty,
    /// A SELECT, WITH, VALUES or TABLE: for the database to translate.
    Query,
    /// `SET name = value`, and its other spellings.
    Set {
        /// In lower case.
        name: String,
        /// The values of a list; none: the default.
        values: Vec<Word>,
        /// Until the transaction ends.
        local: bool,
    },
    /// `RESET name`; None: all.
    Reset(Option<String>),
    /// `SHOW name`
    Show(String),
    /// A transaction begins.
    Begin,
    /// A transaction ends.
    Commit,
    /// A transaction ends, and its settings with it.
    Rollback,
    /// `DEALLOCATE name`; None: all.
    Deallocate(Option<String>),
    /// `DISCARD ALL`
    Discard,
    /// `SET SESSION CHARACTERISTICS` with what holds anyway.
    Characteristics,
}

/// A word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A name or number, in lower case.
    Plain(String),
    /// A name in double quotes.
    Quoted(String),
    /// A text in single quotes.
    Text(String),
    /// Another sign.
    Sign(char),
}

impl Word {
    /// Its text, whatever its quotes.
    pub fn text(&self) -> &str {
        match self {
            Word::Plain(text) | Word::Quoted(text) | Word::Text(text) => text,
            Word::Sign(_) => "",
        }
    }
}

/// Statements that would write.
const WRITING: &[&str] = &[
    "alter", "analyze", "call", "cluster", "comment", "copy", "create", "delete", "do", "drop", "grant", "import",
    "insert", "lock", "merge", "notify", "reassign", "refresh", "reindex", "revoke", "security", "truncate", "update",
    "vacuum",
];

/// Reads a statement.
///
/// # Errors
/// 25006 for one that would write, 0A000 for one that is not available here, 42601.
pub fn parse(text: &str) -> Result<Statement, Failure> {
    let begun = without_blanks(text);
    let head = begun.trim_start_matches(|c: char| c == '(' || c.is_ascii_whitespace());
    let keyword = leading_word(without_blanks(head)).to_ascii_lowercase();
    match keyword.as_str() {
        "select" | "with" | "values" | "table" => return Ok(Statement::Query),
        word if WRITING.contains(&word) => {
            let message = format!("cannot execute {} in analytics, which is read only", word.to_ascii_uppercase());
            return Err(Failure::new("25006", message));
        }
        _ => (),
    }
    let words = words(begun)?;
    let mut words = words.as_slice();
    while let [rest @ .., Word::Sign(';')] = words {
        words = rest;
    }
    if words.contains(&Word::Sign(';')) {
        return Err(several());
    }
    match words {
        [] => Ok(Statement::Empty),
        [Word::Plain(first), rest @ ..] => {
            of_words(first, rest)?.ok_or_else(|| unavailable(&first.to_ascii_uppercase()))
        }
        _ => Err(Failure::new("42601", "syntax error at the beginning of the statement")),
    }
}

/// The refusal of a text with several statements.
fn several() -> Failure {
    Failure::new("0A000", "only one statement at a time is available in analytics")
}

fn unavailable(what: &str) -> Failure {
    Failure::new("0A000", format!("not available in analytics: {what}"))
        .hint("SELECT, SET, SHOW, BEGIN, COMMIT and ROLLBACK are.")
}

fn of_words(first: &str, rest: &[Word]) -> Result<Option<Statement>, Failure> {
    let rest_is = |wanted: &[&str]| rest.len() == wanted.len() && rest.iter().zip(wanted).all(|(w, t)| is(w, t));
    let ends = || rest_is(&[]) || rest_is(&["work"]) || rest_is(&["transaction"]);
    Ok(match first {
        "begin" => {
            let modes = match rest {
                [word, modes @ ..] if is(word, "work") || is(word, "transaction") => modes,
                modes => modes,
            };
            modes_are_kept(modes)?.then_some(Statement::Begin)
        }
        "start" => match rest {
            [word, modes @ ..] if is(word, "transaction") => modes_are_kept(modes)?.then_some(Statement::Begin),
            _ => None,
        },
        "commit" | "end" => ends().then_some(Statement::Commit),
        "rollback" | "abort" => ends().then_some(Statement::Rollback),
        "set" => set(rest)?,
        "reset" => match rest {
            [word] if is(word, "all") => Some(Statement::Reset(None)),
            name => setting_name(name).map(|name| Statement::Reset(Some(name))),
        },
        "show" => setting_name(rest).map(Statement::Show),
        "deallocate" => match rest {
            [name] | [_, name] if rest.len() == 1 || is(&rest[0], "prepare") => {
                let all = is(name, "all");
                Some(Statement::Deallocate((!all).then(|| name.text().to_owned())))
            }
            _ => None,
        },
        "discard" => rest_is(&["all"]).then_some(Statement::Discard),
        _ => None,
    })
}

fn is(word: &Word, wanted: &str) -> bool {
    matches!(word, Word::Plain(text) if text == wanted)
}

fn plain(word: &Word) -> Option<&str> {
    match word {
        Word::Plain(text) => Some(text),
        _ => None,
    }
}

/// Whether all modes of a transaction hold here: it is read only, and sees one block.
fn modes_are_kept(modes: &[Word]) -> Result<bool, Failure> {
    let mut words = modes.iter().filter(|word| **word != Word::Sign(',')).map(|word| plain(word).unwrap_or(""));
    while let Some(word) = words.next() {
        let holds = match (word, words.next()) {
            ("isolation", Some("level")) => match (words.next(), &mut words) {
                (Some("serializable"), _) => true,
                (Some("repeatable"), rest) => rest.next() == Some("read"),
                (Some("read"), rest) => matches!(rest.next(), Some("committed" | "uncommitted")),
                _ => false,
            },
            ("read", Some("only")) | ("not", Some("deferrable")) => true,
            ("read", Some("write")) => {
                return Err(Failure::new("25006", "transactions of analytics are read only"));
            }
            _ => false,
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

fn set(rest: &[Word]) -> Result<Option<Statement>, Failure> {
    let (local, rest) = match rest {
        [session, on, as_, transaction, modes @ ..]
            if is(session, "session")
                && is(on, "characteristics")
                && is(as_, "as")
                && is(transaction, "transaction") =>
        {
            return Ok(modes_are_kept(modes)?.then_some(Statement::Characteristics));
        }
        [transaction, modes @ ..] if is(transaction, "transaction") => {
            return Ok(modes_are_kept(modes)?.then_some(Statement::Characteristics));
        }
        [word, rest @ ..] if is(word, "session") || is(word, "local") => (is(word, "local"), rest),
        rest => (false, rest),
    };
    let (name, values) = match rest {
        [time, zone, values @ ..] if is(time, "time") && is(zone, "zone") => ("timezone".to_owned(), values),
        [names, values @ ..] if is(names, "names") => ("client_encoding".to_owned(), values),
        [name, to, values @ ..] if *to == Word::Sign('=') || is(to, "to") => match plain(name) {
            Some(name) => (name.to_owned(), values),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let default = matches!(values, [word] if is(word, "default"));
    let mut listed = Vec::new();
    for (at, word) in values.iter().enumerate() {
        match (at % 2, word) {
            (0, Word::Sign(_)) => return Ok(None),
            (0, word) => listed.push(word.clone()),
            (_, Word::Sign(',')) => (),
            _ => return Ok(None),
        }
    }
    if values.len() % 2 == 0 {
        return Ok(None);
    }
    Ok(Some(Statement::Set { name, values: if default { Vec::new() } else { listed }, local }))
}

fn setting_name(words: &[Word]) -> Option<String> {
    match words {
        [time, zone] if is(time, "time") && is(zone, "zone") => Some("timezone".into()),
        [transaction, isolation, level]
            if is(transaction, "transaction") && is(isolation, "isolation") && is(level, "level") =>
        {
            Some("transaction_isolation".into())
        }
        [name] => plain(name).map(str::to_owned),
        _ => None,
    }
}

fn leading_word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// The text without blanks and comments before it. A comment without end is the whole text.
fn without_blanks(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
        if text.starts_with("--") {
            text = text.find('\n').map_or("", |end| &text[end..]);
        } else if text.starts_with("/*") {
            text = behind_comment(text);
        } else {
            return text;
        }
    }
}

/// The text behind a comment, in which others may be.
fn behind_comment(text: &str) -> &str {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = text[at..].find(['*', '/']) {
        at += next;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return &text[at..];
            }
        } else {
            at += 1;
        }
    }
    ""
}

/// The words of a statement that is no query.
fn words(text: &str) -> Result<Vec<Word>, Failure> {
    if text.len() > BYTES_MAX {
        return Err(Failure::new("54000", format!("a statement that is no query has more than {BYTES_MAX} bytes")));
    }
    let mut words = Vec::new();
    let mut rest = without_blanks(text);
    while let Some(first) = rest.chars().next() {
        let is_plain = |c: char| c.is_alphanumeric() || "_.$".contains(c);
        let end = match first {
            '\'' | '"' => {
                let (inside, end) = quoted(rest, first)?;
                words.push(if first == '"' { Word::Quoted(inside) } else { Word::Text(inside) });
                end
            }
            '-' | '+' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let end = rest[1..].find(|c| !is_plain(c)).map_or(rest.len(), |end| end + 1);
                words.push(Word::Plain(rest[..end].to_owned()));
                end
            }
            c if is_plain(c) => {
                let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
                // As in e'…' and b'…': these texts have rules of their own.
                if rest[end..].starts_with('\'') {
                    return Err(unavailable("texts with a prefix in a statement that is no query"));
                }
                words.push(Word::Plain(rest[..end].to_lowercase()));
                end
            }
            sign => {
                words.push(Word::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = without_blanks(&rest[end..]);
    }
    Ok(words)
}

/// The text between quotes, and where it ends.
fn quoted(text: &str, quote: char) -> Result<(String, usize), Failure> {
    let mut inside = String::new();
    let mut at = 1;
    while let Some(next) = text[at..].find(quote) {
        inside.push_str(&text[at..at + next]);
        at += next + 1;
        if !text[at..].starts_with(quote) {
            return Ok((inside, at));
        }
        inside.push(quote);
        at += 1;
    }
    Err(Failure::new("42601", "a quoted text has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(text: &str) -> String {
        parse(text).unwrap_err().sqlstate
    }

    fn set_to(text: &str) -> (String, Vec<String>, bool) {
        match parse(text) {
            Ok(Statement::Set { name, values, local }) => {
                (name, values.iter().map(|word| word.text().to_owned()).collect(), local)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn queries() {
        for text in [
            "SELECT 1",
            "select",
            " -- x\n /* a /* b */ ' */ (\n(SELECT 1)",
            "( -- x\n SELECT 1)",
            "WITH x AS (SELECT 1) SELECT 1",
            "VALUES (1)",
            "TABLE t",
            "SELECT 1; DROP TABLE t",
        ] {
            assert_eq!(parse(text), Ok(Statement::Query), "{text}");
        }
        for text in ["", " ; ;", "-- SELECT", "/* SELECT 1", "--"] {
            assert_eq!(parse(text), Ok(Statement::Empty), "{text}");
        }
    }

    #[test]
    fn settings() {
        let one = |name: &str, value: &str, local| (name.to_owned(), vec![value.to_owned()], local);
        assert_eq!(set_to("SET chainify.block = 12"), one("chainify.block", "12", false));
        assert_eq!(set_to("set Chainify.Block to '>=12';"), one("chainify.block", ">=12", false));
        assert_eq!(set_to("SET LOCAL statement_timeout = '30s'"), one("statement_timeout", "30s", true));
        assert_eq!(set_to("SET SESSION x = -1"), one("x", "-1", false));
        assert_eq!(set_to("SET TIME ZONE 'it''s'"), one("timezone", "it's", false));
        assert_eq!(set_to("SET NAMES 'UTF8'"), one("client_encoding", "UTF8", false));
        assert_eq!(set_to("SET x TO DEFAULT"), ("x".into(), vec![], false));
        assert_eq!(set_to("SET x = a, \"B\", 'c'").1, ["a", "B", "c"]);
        assert_eq!(parse("RESET ALL"), Ok(Statement::Reset(None)));
        assert_eq!(parse("SHOW TRANSACTION ISOLATION LEVEL"), Ok(Statement::Show("transaction_isolation".into())));
        assert_eq!(parse("DEALLOCATE PREPARE x"), Ok(Statement::Deallocate(Some("x".into()))));
        assert_eq!(parse("DEALLOCATE ALL"), Ok(Statement::Deallocate(None)));
    }

    #[test]
    fn transactions() {
        for text in ["BEGIN", "begin read only", "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"] {
            assert_eq!(parse(text), Ok(Statement::Begin), "{text}");
        }
        assert_eq!(parse("END"), Ok(Statement::Commit));
        assert_eq!(parse("ROLLBACK WORK;"), Ok(Statement::Rollback));
        assert_eq!(parse("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), Ok(Statement::Characteristics));
        assert_eq!(state("BEGIN READ WRITE"), "25006");
        assert_eq!(state("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"), "25006");
    }

    #[test]
    fn refusals() {
        for text in ["INSERT INTO t VALUES (1)", "/* x */ update t set a = 1", "COPY t TO STDOUT", "DO 'x'"] {
            assert_eq!(state(text), "25006", "{text}");
        }
        for text in [
            "CHAINIFY PIN 'x' AT 1",
            "EXPLAIN SELECT 1",
            "DECLARE c CURSOR FOR SELECT 1",
            "BEGIN; COMMIT",
            "SET x = 1; SELECT 1",
            "SET ROLE boss",
            "SET SESSION AUTHORIZATION boss",
            "SET x = e'\\''",
            "SET x = 1 2",
            "SET x =",
            "COMMIT AND CHAIN",
            "ROLLBACK TO SAVEPOINT a",
            "SAVEPOINT a",
            "PREPARE x AS SELECT 1",
            "LISTEN x",
        ] {
            assert_eq!(state(text), "0A000", "{text}");
        }
        assert_eq!(state("SET x = 'a"), "42601");
        assert_eq!(state(&format!("SET x = '{}'", "a".repeat(BYTES_MAX))), "54000");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(SET|BEGIN|--|/\\*|\\*/|'|\"|;|é|[a-z =,.(-]){0,20}") {
            let _ = parse(&text);
        }
    }
}
