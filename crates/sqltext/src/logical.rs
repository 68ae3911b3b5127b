//! PostgreSQL's words for types and constants, read for schema text 2 (spec/engines.md).

/// The logical name of a type that `format_type` words so. A type without a logical name keeps its
/// words.
pub fn logical_type(words: &str) -> String {
    match words {
        "double precision" => "double",
        "time without time zone" => "time",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "jsonb" => "json",
        _ => {
            return words
                .strip_prefix("character ")
                .map_or(words.to_owned(), |rest| rest.replacen("varying", "varchar", 1))
        }
    }
    .to_owned()
}

/// A default as `pg_get_expr` words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// NULL, with a cast or without.
    Null,
    /// The text that the input function of the column's type reads.
    Text(String),
}

/// Reads a default of a column whose type has these words, without length and precision. None: it
/// is no constant, or one of another type.
pub fn constant(expression: &str, words: &str) -> Option<Constant> {
    let number = |text: &str| {
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        text.split('.').count() <= 2 && text.split('.').all(plain)
    };
    if ["true", "false"].contains(&expression) || number(expression) {
        return Some(Constant::Text(expression.to_owned()));
    }
    let (value, cast) = expression.rsplit_once("::").unwrap_or((expression, words));
    let numeric = ["smallint", "integer", "bigint", "numeric", "double precision"];
    let cast = cast.split('(').next().unwrap_or_default();
    if cast != words && !(numeric.contains(&cast) && numeric.contains(&words)) {
        return None;
    }
    if value == "NULL" {
        return Some(Constant::Null);
    }
    let inside = value.strip_prefix('\'')?.strip_suffix('\'')?;
    let parts: Vec<&str> = inside.split("''").collect();
    parts.iter().all(|part| !part.contains('\'')).then(|| Constant::Text(parts.join("'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_logical_names() {
        for (words, logical) in [
            ("bigint", "bigint"),
            ("numeric(10,2)", "numeric(10,2)"),
            ("double precision", "double"),
            ("character varying(20)", "varchar(20)"),
            ("character varying", "varchar"),
            ("character(3)", "character(3)"),
            ("timestamp with time zone", "timestamptz"),
            ("time without time zone", "time"),
            ("jsonb", "json"),
            ("json", "json"),
            ("timestamp(3) without time zone", "timestamp(3) without time zone"),
        ] {
            assert_eq!(logical_type(words), logical);
        }
    }

    #[test]
    fn constants_are_read_and_expressions_are_not() {
        let text = |text: &str| Some(Constant::Text(text.to_owned()));
        for (expression, words, expected) in [
            ("7", "integer", text("7")),
            ("1.50", "numeric", text("1.50")),
            ("'-7'::integer", "bigint", text("-7")),
            ("true", "boolean", text("true")),
            ("'it''s ::text'::character varying", "character varying", text("it's ::text")),
            ("''::text", "text", text("")),
            ("NULL::character varying", "character varying", Some(Constant::Null)),
            ("'1.5'::numeric(10,2)", "numeric", text("1.5")),
            ("'2024-01-01 10:00:00'::timestamp without time zone", "date", None),
            ("'a '::character(5)", "text", None),
            ("now()", "timestamp with time zone", None),
            ("(1 + 2)", "integer", None),
            ("1 + 2", "integer", None),
            ("('a'::text || 'b'::text)", "text", None),
            ("'a'::text || 'b'::text", "text", None),
            ("CURRENT_DATE", "date", None),
            (".", "numeric", None),
            ("1.2.3", "numeric", None),
            ("'", "text", None),
            ("nextval('s'::regclass)", "bigint", None),
        ] {
            assert_eq!(constant(expression, words), expected, "{expression}");
        }
    }
}
