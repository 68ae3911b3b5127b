//! Words and literals of an SQL text that PostgreSQL has parsed already, for display only. An error
//! on an ambiguous text costs a grouping or a hint. [`crate::shape`] handles texts that are
//! executed.

/// The text with literals replaced by parameters numbered after its own, for grouping statements
/// that differ in values alone.
pub fn normalised(sql: &str) -> String {
    let tokens = tokens(sql);
    let own = tokens.iter().filter_map(|(start, end, _)| sql[*start..*end].strip_prefix('$')?.parse::<u32>().ok());
    let mut next = own.max().map_or(0, u64::from);
    let (mut out, mut at) = (String::with_capacity(sql.len()), 0);
    for (start, end, literal) in tokens {
        if literal {
            next += 1;
            out.push_str(&sql[at..start]);
            out.push_str(&format!("${next}"));
            at = end;
        }
    }
    out + &sql[at..]
}

/// Words, parameters and literals with their places; the last field tells literals. PostgreSQL has
/// parsed the text already.
fn tokens(sql: &str) -> Vec<(usize, usize, bool)> {
    let b = sql.as_bytes();
    let find =
        |from: usize, what: &str| sql.get(from..).and_then(|s| s.find(what)).map_or(b.len(), |i| from + i + what.len());
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c >= 0x80;
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < b.len() {
        let start = at;
        match b[at] {
            b'-' if b.get(at + 1) == Some(&b'-') => at = find(at, "\n"),
            b'/' if b.get(at + 1) == Some(&b'*') => at = find(at + 2, "*/"),
            b'"' => at = find(at + 1, "\""),
            b'\'' => {
                at = quoted_end(b, at, false);
                tokens.push((start, at, true));
            }
            b'$' if !b.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                let tag = find(at + 1, "$");
                at = find(tag, &sql[start..tag]);
                tokens.push((start, at, true));
            }
            c if c.is_ascii_digit() || (c == b'.' && b.get(at + 1).is_some_and(u8::is_ascii_digit)) => {
                at = number_end(b, at);
                tokens.push((start, at, true));
            }
            c if word(c) => {
                while at < b.len() && word(b[at]) {
                    at += 1;
                }
                let prefix = at == start + 1 && b.get(at) == Some(&b'\'') && b"eEbBxXnN".contains(&c);
                if prefix {
                    at = quoted_end(b, at, matches!(c, b'e' | b'E'));
                }
                tokens.push((start, at, prefix));
            }
            _ => at += 1,
        }
    }
    tokens
}

fn number_end(b: &[u8], mut at: usize) -> usize {
    while at < b.len() {
        let sign = matches!(b[at], b'+' | b'-') && matches!(b[at - 1], b'e' | b'E');
        if !(b[at].is_ascii_digit() || b[at] == b'.' || matches!(b[at], b'e' | b'E') || sign) {
            break;
        }
        at += 1;
    }
    at
}

/// The end of a string whose quote is at `at`; a quote doubled, or after a backslash when
/// `escapes`, is part of it.
fn quoted_end(b: &[u8], mut at: usize, escapes: bool) -> usize {
    at += 1;
    while at < b.len() {
        match b[at] {
            b'\\' if escapes => at += 2,
            b'\'' if b.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    b.len()
}

/// Names of functions that a text calls without a schema or in `pg_catalog`, as far as words
/// followed by a parenthesis are such.
pub fn called_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut before = String::new();
    for (start, end, literal) in tokens(text) {
        let word = text[start..end].to_lowercase();
        let qualified = text[..start].trim_end().ends_with('.');
        let called = text[end..].trim_start().starts_with('(');
        let ours = !qualified || before == "pg_catalog";
        if called && ours && !literal && !names.contains(&word) {
            names.push(word.clone());
        }
        before = word;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{called_names, normalised};

    #[test]
    fn literals_become_parameters_after_those_of_the_text() {
        for (sql, expected) in [
            ("SELECT 1, 'it''s', E'a\\'b', $$c$$, $t$d$t$, x'ff', .5e-3", "SELECT $1, $2, $3, $4, $5, $6, $7"),
            ("SELECT $7 + 1 -- 2\n/* 3 */ + t1.\"a 4\"", "SELECT $7 + $8 -- 2\n/* 3 */ + t1.\"a 4\""),
            ("SELECT $4294967295 + 1", "SELECT $4294967295 + $4294967296"),
        ] {
            assert_eq!(normalised(sql), expected);
            assert_eq!(normalised(expected), expected);
        }
    }

    #[test]
    fn names_with_a_parenthesis_behind_them_are_called() {
        assert_eq!(called_names("SELECT Now (), pg_catalog.random(), s.f(1), 'g(1)', now()"), ["now", "random"]);
    }
}
