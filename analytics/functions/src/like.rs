//! `LIKE` as PostgreSQL's like_match.c does it, over UTF-8, with `\` as the escape.
//!
//! PostgreSQL tries each place behind a `%`, which takes the product of the lengths at the worst,
//! and can be cancelled meanwhile. Here nothing looks for that before a batch is done. So each part
//! between two `%` is searched for as a text, in the sum of the lengths.
use crate::error::SqlError;

/// Only a part with `_` inside is tried at several places: this is how many bytes each byte of a
/// text may be compared with then.
const TRIED_MAX: usize = 64;

/// A pattern, cut at each `%`.
pub(crate) struct Pattern {
    /// Before the first `%`.
    first: Part,
    /// Behind each `%`.
    others: Vec<Part>,
    /// Its last character is the escape of nothing.
    ends_in_escape: bool,
}

/// Characters to be matched one after the other.
#[derive(Default)]
struct Part {
    runs: Vec<Run>,
    characters: usize,
}

/// A text behind so many `_`. Only the first of a part may have none of these, and only the last an
/// empty text.
#[derive(Default)]
struct Run {
    blanks: usize,
    text: String,
}

impl Pattern {
    pub fn new(pattern: &str) -> Pattern {
        let (mut parts, mut ends_in_escape) = (vec![Part::default()], false);
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let Some(part) = parts.last_mut() else { break };
            match character {
                '%' => parts.push(Part::default()),
                '_' => part.any(),
                '\\' => match characters.next() {
                    Some(escaped) => part.character(escaped),
                    None => ends_in_escape = true,
                },
                other => part.character(other),
            }
        }
        let mut others = parts.split_off(1);
        if ends_in_escape {
            // PostgreSQL looks at the escape where something of the text is left for it, or right
            // behind wildcards, which it reads together from a % on.
            match others.iter().rposition(|part| part.is_text()).map_or(0, |at| at + 1) {
                at if at < others.len() => {
                    let blanks = others.drain(at..).map(|part| part.characters).sum();
                    let runs = vec![Run { blanks, text: String::new() }];
                    others.push(Part { runs, characters: blanks });
                }
                _ => others.last_mut().into_iter().for_each(Part::any),
            }
        }
        Pattern { first: parts.pop().unwrap_or_default(), others, ends_in_escape }
    }

    /// Whether a text is like it. 22025 where it ends in an escape and the match gets there; 0A000
    /// where that would take too long. Cost: the sum of the lengths, and at the worst 64 times the
    /// text's.
    pub fn matches(&self, text: &str) -> Result<bool, SqlError> {
        let mut tries = Tries { left: TRIED_MAX * text.len() };
        let Some(mut rest) = tries.behind(&self.first.runs, text) else { return Ok(false) };
        let Some((last, middle)) = self.others.split_last() else {
            return match (rest, self.ends_in_escape) {
                ("", escape) => Ok(!escape),
                (_, true) => Err(ends_in_escape()),
                (_, false) => Ok(false),
            };
        };
        for part in middle {
            match part.find(rest, &mut tries)? {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        if !self.ends_in_escape {
            return Ok(last.ends(rest, &mut tries));
        }
        match rest.is_empty() || last.find(rest, &mut tries)?.is_none() {
            true => Ok(false),
            false => Err(ends_in_escape()),
        }
    }
}

impl Part {
    fn any(&mut self) {
        self.characters += 1;
        match self.runs.last_mut() {
            Some(run) if run.text.is_empty() => run.blanks += 1,
            _ => self.runs.push(Run { blanks: 1, text: String::new() }),
        }
    }

    fn character(&mut self, character: char) {
        self.characters += 1;
        match self.runs.last_mut() {
            Some(run) => run.text.push(character),
            None => self.runs.push(Run { blanks: 0, text: character.into() }),
        }
    }

    /// Whether it has more than `_`.
    fn is_text(&self) -> bool {
        self.runs.first().is_some_and(|run| !run.text.is_empty())
    }

    /// The rest of the text behind the place where it first has the part.
    fn find<'t>(&self, text: &'t str, tries: &mut Tries) -> Result<Option<&'t str>, SqlError> {
        let Some((run, more)) = self.runs.split_first() else { return Ok(Some(text)) };
        let Some(mut text) = behind(text, run.blanks) else { return Ok(None) };
        while self.characters - run.blanks <= text.len() {
            let Some(at) = text.find(&run.text) else { break };
            let found = &text[at + run.text.len()..];
            if let Some(rest) = tries.behind(more, found) {
                return Ok(Some(rest));
            }
            tries.take(run.text.len())?;
            text = behind(&text[at..], 1).unwrap_or_default();
        }
        Ok(None)
    }

    /// Whether a text ends with the part.
    fn ends(&self, text: &str, tries: &mut Tries) -> bool {
        let Some(before) = self.characters.checked_sub(1) else { return true };
        let start = text.char_indices().rev().nth(before);
        start.is_some_and(|(at, _)| tries.behind(&self.runs, &text[at..]).is_some())
    }
}

/// The bytes that may still be compared.
struct Tries {
    left: usize,
}

impl Tries {
    fn take(&mut self, bytes: usize) -> Result<(), SqlError> {
        let message = "a LIKE with _ between other characters takes too long on this text";
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| SqlError::unsupported(message))?;
        Ok(())
    }

    /// The rest of a text that begins with these runs, behind them.
    fn behind<'t>(&mut self, runs: &[Run], text: &'t str) -> Option<&'t str> {
        runs.iter().try_fold(text, |text, run| {
            let text = behind(text, run.blanks)?;
            let same = run.text.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            self.left = self.left.saturating_sub(run.blanks + same);
            (same == run.text.len()).then(|| &text[same..])
        })
    }
}

/// A text without its first characters; None: it has fewer.
fn behind(text: &str, characters: usize) -> Option<&str> {
    let Some(before) = characters.checked_sub(1) else { return Some(text) };
    text.char_indices().nth(before).map(|(at, last)| &text[at + last.len_utf8()..])
}

fn ends_in_escape() -> SqlError {
    SqlError::new("22025", "LIKE pattern must not end with escape character")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(text: &str, pattern: &str) -> Result<bool, &'static str> {
        Pattern::new(pattern).matches(text).map_err(|error| error.sqlstate)
    }

    /// like_match.c; None: it is sure that no later place of the text matches either.
    fn model(text: &[char], pattern: &[char]) -> Result<Option<bool>, &'static str> {
        let (Some((first, rest)), Some((wanted, patterns))) =
            (text.split_first(), pattern.split_first())
        else {
            let is_like = pattern.iter().all(|c| *c == '%');
            return Ok(if text.is_empty() { is_like.then_some(true) } else { Some(false) });
        };
        match (wanted, patterns.first()) {
            ('%', _) => {
                let (mut text, mut patterns) = (text, patterns);
                while let Some((wild, more)) =
                    patterns.split_first().filter(|(c, _)| "%_".contains(**c))
                {
                    if *wild == '_' {
                        let Some((_, rest)) = text.split_first() else { return Ok(None) };
                        text = rest;
                    }
                    patterns = more;
                }
                match patterns {
                    [] => return Ok(Some(true)),
                    ['\\'] => return Err("22025"),
                    _ => (),
                }
                for at in 0..text.len() {
                    match model(&text[at..], patterns)? {
                        Some(false) => (),
                        sure => return Ok(sure),
                    }
                }
                Ok(None)
            }
            ('_', _) => model(rest, patterns),
            ('\\', None) => Err("22025"),
            ('\\', Some(escaped)) if escaped == first => model(rest, &patterns[1..]),
            (other, _) if *other != '\\' && other == first => model(rest, patterns),
            _ => Ok(Some(false)),
        }
    }

    /// All texts of these characters up to a length.
    fn texts(of: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut begin = 0;
        for _ in 0..length {
            let end = all.len();
            for at in begin..end {
                all.extend(of.chars().map(|c| format!("{}{c}", all[at])).collect::<Vec<_>>());
            }
            begin = end;
        }
        all
    }

    #[test]
    fn every_short_pattern_is_postgresqls() {
        let texts = texts("aä\\", 4);
        for pattern in self::texts("aä%_\\", 5) {
            let characters: Vec<char> = pattern.chars().collect();
            for text in &texts {
                let wanted = model(&text.chars().collect::<Vec<_>>(), &characters);
                assert_eq!(
                    like(text, &pattern),
                    wanted.map(|is| is == Some(true)),
                    "{text} LIKE {pattern}"
                );
            }
        }
    }

    /// Each of these would take the product of the lengths, which is minutes and more.
    #[test]
    fn long_patterns_end() {
        let (text, half) = ("a".repeat(1 << 18), "a".repeat(1 << 17));
        for (pattern, wanted) in [
            (format!("%{half}b%"), Ok(false)),
            (format!("%{half}b"), Ok(false)),
            (format!("%{half}%{half}"), Ok(true)),
            (format!("%{half}%{half}%a"), Ok(false)),
            (format!("{}b", "%a".repeat(1 << 17)), Ok(false)),
            (format!("%{half}b\\"), Ok(false)),
            (format!("%{half}_{half}b"), Ok(false)),
            (format!("%{half}_{half}b%"), Ok(false)),
            (format!("%a_{half}b%"), Err("0A000")),
            (format!("%{half}_b%"), Err("0A000")),
            (format!("%a_{}b%", "_".repeat(1 << 17)), Err("0A000")),
            (format!("%a_a{}b%", "a".repeat(50)), Ok(false)),
        ] {
            assert_eq!(like(&text, &pattern), wanted, "{pattern:.20}");
        }
    }
}
