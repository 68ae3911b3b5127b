//! The functions in C that a transaction may call, by name: read one by one in the catalog of
//! PostgreSQL 15 and of its extensions (sql/functions.sql). Each file has words in the order of
//! their bytes.

/// Functions that PostgreSQL declares immutable, and that are so.
const IMMUTABLE: &str = include_str!("immutable.txt");
/// Stable ones whose results follow from their arguments, pinned settings, the block's time and the
/// client's role.
const STABLE: &str = include_str!("stable.txt");
/// Immutable ones of extensions, each after the name of its extension and a dot.
const OF_EXTENSIONS: &str = include_str!("extensions.txt");

pub(super) fn immutable(name: &str) -> bool {
    has(IMMUTABLE, name)
}

pub(super) fn stable(name: &str) -> bool {
    has(STABLE, name)
}

pub(super) fn of_extension(extension: &str, name: &str) -> bool {
    has(OF_EXTENSIONS, &format!("{extension}.{name}"))
}

/// Whether a word is in a list of words in order, one space or line end after each.
fn has(list: &str, word: &str) -> bool {
    let blank = |c: char| c.is_ascii_whitespace();
    let (mut from, mut to) = (0, list.len());
    while from < to {
        let middle = from + (to - from) / 2;
        let start = list[from..middle].rfind(blank).map_or(from, |at| from + at + 1);
        let end = list[start..to].find(blank).map_or(to, |at| start + at);
        match list[start..end].cmp(word) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => from = end + 1,
            std::cmp::Ordering::Greater => to = start,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_list_is_found_and_nothing_else() {
        for list in [IMMUTABLE, STABLE, OF_EXTENSIONS] {
            let words: Vec<&str> = list.split_ascii_whitespace().collect();
            assert!(words.is_sorted_by(|a, b| a < b));
            assert_eq!(list.len(), words.iter().map(|w| w.len() + 1).sum::<usize>(), "one blank after each");
            for word in words {
                assert!(has(list, word), "{word}");
                assert!(!has(list, &word[1..]) || list.split_ascii_whitespace().any(|w| w == &word[1..]));
                assert!(!has(list, &format!("{word} ")));
            }
        }
        assert!(!has(IMMUTABLE, "") && !has(IMMUTABLE, "~") && !has("", "a"));
    }
}
