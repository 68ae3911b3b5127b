//! Literals taken out of an SQL text: put back they give the text, and other values of their kinds
//! give the same shape.

#![no_main]

use chainify_sqltext::{shape, Kind, Literal, Shape, LITERALS_MAX};
use libfuzzer_sys::fuzz_target;

/// The text with `written` in place of each literal.
fn rewritten(sql: &str, shape: &Shape, written: impl Fn(&Literal) -> String) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for literal in &shape.literals {
        assert!(at <= literal.at && literal.at < literal.end);
        out += &sql[at..literal.at];
        out += &written(literal);
        at = literal.end;
    }
    out + &sql[at..]
}

/// The literal as its value is written.
fn from_value(sql: &str, literal: &Literal) -> String {
    let value = literal.value(sql);
    match literal.kind {
        Kind::Text => format!("'{}'", value.replace('\'', "''")),
        _ => value,
    }
}

fn another(sql: &str, literal: &Literal) -> String {
    let another = match literal.kind {
        Kind::Int4 => "2147483647",
        Kind::Int8 => "2147483649",
        Kind::Numeric if literal.written(sql).starts_with('.') => ".0",
        Kind::Numeric => "9223372036854775809",
        Kind::Text => "'-- $1 1 \"'",
    };
    another.to_owned()
}

fuzz_target!(|sql: &str| {
    let Some(found) = shape(sql) else { return };
    assert!(found.literals.len() <= LITERALS_MAX);
    assert_eq!(rewritten(sql, &found, |literal| from_value(sql, literal)), sql);

    // Where another string follows, PostgreSQL may hold both for one.
    let alone = |literal: &Literal| !sql[literal.end..].trim_ascii_start().starts_with('\'');
    assert!(found.literals.iter().all(|literal| literal.kind != Kind::Text || alone(literal)));

    let others = shape(&rewritten(sql, &found, |literal| another(sql, literal))).expect("has the same tokens");
    assert_eq!((&others.text, others.parameter_max), (&found.text, found.parameter_max));
    assert!(others.literals.iter().map(|l| l.kind).eq(found.literals.iter().map(|l| l.kind)));
});
