//! `LIKE` as PostgreSQL's like_match.c does it, over UTF-8, with `\` as the escape.
use crate::error::SqlError;

/// Whether a text is like a pattern. 22025 where a pattern ends in an escape and the match gets
/// there. Cost: the product of the lengths, at the worst.
pub(crate) fn like(text: &str, pattern: &str) -> Result<bool, SqlError> {
    let (mut text, mut pattern) = (text.as_bytes(), pattern.as_bytes());
    // Behind the last %: the text that is still to be tried, and the pattern.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match step(text, pattern)? {
            Step::Next(rest, patterns) => (text, pattern) = (rest, patterns),
            Step::True => return Ok(true),
            Step::Abort => return Ok(false),
            Step::Percent(rest, patterns) => {
                let Some(start) = find(rest, patterns)? else {
                    return Ok(false);
                };
                retry = Some((start, patterns));
                (text, pattern) = (start, patterns);
            }
            Step::False => {
                // An earlier % cannot help where the last one does not.
                let Some((tried, patterns)) = retry else {
                    return Ok(false);
                };
                let Some(start) = find(next_character(tried), patterns)? else {
                    return Ok(false);
                };
                retry = Some((start, patterns));
                (text, pattern) = (start, patterns);
            }
        }
    }
}

enum Step<'t, 'p> {
    Next(&'t [u8], &'p [u8]),
    /// The pattern goes on behind wildcards with a character.
    Percent(&'t [u8], &'p [u8]),
    True,
    /// No match here.
    False,
    /// No match here nor further to the right.
    Abort,
}

fn step<'t, 'p>(text: &'t [u8], pattern: &'p [u8]) -> Result<Step<'t, 'p>, SqlError> {
    let (Some((&byte, rest)), Some((&wanted, patterns))) =
        (text.split_first(), pattern.split_first())
    else {
        return Ok(match (text.is_empty(), pattern.iter().all(|b| *b == b'%')) {
            (true, true) => Step::True,
            (true, false) => Step::Abort,
            (false, _) => Step::False,
        });
    };
    Ok(match wanted {
        b'%' => behind_percent(text, patterns),
        b'_' => Step::Next(next_character(text), patterns),
        b'\\' => match patterns.split_first() {
            None => return Err(ends_in_escape()),
            Some((escaped, patterns)) if *escaped == byte => Step::Next(rest, patterns),
            Some(_) => Step::False,
        },
        _ if wanted == byte => Step::Next(rest, patterns),
        _ => Step::False,
    })
}

fn behind_percent<'t, 'p>(mut text: &'t [u8], mut pattern: &'p [u8]) -> Step<'t, 'p> {
    loop {
        match pattern.split_first() {
            None => return Step::True,
            Some((b'%', patterns)) => pattern = patterns,
            Some((b'_', _)) if text.is_empty() => return Step::Abort,
            Some((b'_', patterns)) => (text, pattern) = (next_character(text), patterns),
            Some(_) => return Step::Percent(text, pattern),
        }
    }
}

/// The first place where the pattern, which begins with a character, may match.
fn find<'t>(mut text: &'t [u8], pattern: &[u8]) -> Result<Option<&'t [u8]>, SqlError> {
    let first = match pattern {
        [b'\\'] => return Err(ends_in_escape()),
        [b'\\', escaped, ..] => Some(*escaped),
        _ => pattern.first().copied(),
    };
    while let Some(byte) = text.first() {
        if Some(*byte) == first {
            return Ok(Some(text));
        }
        text = next_character(text);
    }
    Ok(None)
}

fn next_character(text: &[u8]) -> &[u8] {
    let rest = text.get(1..).unwrap_or_default();
    let continued = rest.iter().take_while(|b| **b & 0xc0 == 0x80).count();
    &rest[continued..]
}

fn ends_in_escape() -> SqlError {
    SqlError::new("22025", "LIKE pattern must not end with escape character")
}
