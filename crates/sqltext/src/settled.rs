//! Rewrites the text of an expression into the form that PostgreSQL prints after a dump and
//! restore.
//!
//! PostgreSQL prints a cast of a whole array as `(ARRAY[a, b])::text[]`. After pg_restore has read
//! this text, PostgreSQL prints `ARRAY[(a)::text, (b)::text]`, and keeps printing it. Such arrays
//! come from `varchar IN (…)`.

/// The text with every array cast as a whole worded as one of cast elements. Quoted text stays as
/// it is; bytes between are those of `text`. An array cast twice is read again twice before it
/// stays. Cost: a pass for each such cast; every pass leaves fewer `[]`.
pub fn settled(text: &str) -> String {
    let (mut text, mut again) = (text.to_owned(), read_again(text));
    while again != text {
        text = again;
        again = read_again(&text);
    }
    again
}

fn read_again(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let array = rest.strip_prefix("(ARRAY[").and_then(whole_cast);
        let taken = match array {
            Some((elements, type_name, after)) => {
                let casts = elements.iter().map(|e| format!("({})::{type_name}", read_again(e)));
                out.push_str(&format!("ARRAY[{}]", casts.collect::<Vec<_>>().join(", ")));
                rest.len() - after.len()
            }
            None => {
                let token = token(rest);
                out.push_str(&rest[..token]);
                token
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Elements, element type and what follows, of a text after `(ARRAY[` that goes on as an array cast
/// to `type[]`.
fn whole_cast(text: &str) -> Option<(Vec<&str>, &str, &str)> {
    let (mut depth, mut at, mut from) = (0, 0, 0);
    let mut elements = Vec::new();
    loop {
        let next = text[at..].chars().next()?;
        match next {
            '[' | '(' => depth += 1,
            ']' if depth == 0 => break,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                elements.push(text[from..at].trim());
                from = at + 1;
            }
            _ => (),
        }
        at += token(&text[at..]);
    }
    elements.push(text[from..at].trim());
    let cast = text[at..].strip_prefix("])::")?;
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_. ".contains(c);
    let end = cast.find(|c| !named(c))?;
    let after = cast[end..].strip_prefix("[]")?;
    Some((elements, &cast[..end], after))
}

/// Bytes of the first character, or of the string or name in quotes that it begins. `text` is not
/// empty.
fn token(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    match &text[..first] {
        quote @ ("'" | "\"") => text[first..].find(quote).map_or(text.len(), |at| at + 2),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::settled;

    #[test]
    fn casts_of_a_whole_array_become_casts_of_its_elements() {
        for (worded, read_again) in [
            (
                "((s)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))",
                "((s)::text = ANY (ARRAY[('a'::character varying)::text, ('b'::character varying)::text]))",
            ),
            (
                "(ARRAY['a, ]'::character varying, f(x, y[1])])::text[]",
                "ARRAY[('a, ]'::character varying)::text, (f(x, y[1]))::text]",
            ),
            (
                "((ARRAY[x, y])::text[])::character varying[]",
                "ARRAY[((x)::text)::character varying, ((y)::text)::character varying]",
            ),
            ("(ARRAY[f((ARRAY[x])::text[])])::character varying[]", "ARRAY[(f(ARRAY[(x)::text]))::character varying]"),
        ] {
            assert_eq!(settled(worded), read_again);
            assert_eq!(settled(read_again), read_again);
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "'(ARRAY[x])::text[]'",
            "'it''s (ARRAY[x])::text[]' || \"(ARRAY[x])::text[]\"",
            "(ARRAY[x])::text",
            "(ARRAY[x, y] || z)",
            "ARRAY[1, 2]",
            "(ARRAY[x",
            "'open (ARRAY[x])::text[]",
            "('é'::text || \"ü\")",
        ] {
            assert_eq!(settled(text), text);
        }
    }
}
