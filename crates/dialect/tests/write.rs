//! The writer's bounds and what depends on the form of numbers. Whole queries are in
//! `sql/analytics.sql` and `extension/tests/analytics`.
use std::collections::BTreeMap;

use chainify_dialect::query::{Expr, From, Letters, Query, Source, TableColumn, Target, Typed, Window, With};
use chainify_dialect::types::Type;
use chainify_dialect::{translate, Settings, DEPTH_MAX};

const NUMBER: Typed = Typed { of: Type::Numeric, typmod: (12 << 16 | 2) + 4 };

fn column() -> Expr {
    Expr::Column { up: 0, source: 0, number: 1, name: "a".to_owned() }
}

fn constant(text: &str) -> Expr {
    Expr::Constant { typed: NUMBER, text: Some(text.to_owned()) }
}

const SETTINGS: Settings = Settings { utc: true, deeper: || () };

/// A function of pg_proc.dat.
fn call(function: u32, args: Vec<Expr>, of: Type) -> Expr {
    let typed = Typed { of, typmod: -1 };
    Expr::Call { function, shown: "f".to_owned(), args, typed, order: None, letters: Letters::Ascii, at: Some(7) }
}

/// `SELECT expr FROM` a table with one column of type numeric(12,2).
fn select(expr: Expr) -> Query {
    let column = TableColumn { typed: NUMBER, not_null: true };
    let target = Target { expr, name: "a".to_owned(), junk: false };
    Query {
        sources: vec![Source::Table { id: 3, columns: BTreeMap::from([(1, column)]) }],
        from: vec![From::Source(0)],
        targets: vec![target],
        ..Query::default()
    }
}

fn written(expr: Expr) -> Result<String, String> {
    let translation = translate(&select(expr), SETTINGS);
    translation.map(|t| t.sql).map_err(|refusal| refusal.construct)
}

#[test]
fn a_function_that_is_not_listed_is_refused_with_its_place() {
    let refusal = translate(&select(call(1598, vec![], Type::Float8)), SETTINGS);
    let refusal = refusal.expect_err("random() is not listed");
    assert_eq!((refusal.construct.as_str(), refusal.at), ("f", Some(7)));
}

#[test]
fn products_beyond_the_scale_become_texts() {
    let mut product = column();
    let mut scale = 2;
    while scale + 2 <= 30 {
        product = call(1726, vec![product, column()], Type::Numeric);
        scale += 2;
    }
    let sql = written(product.clone());
    assert!(sql.is_ok_and(|sql| !sql.contains("pg_num")));
    let sql = written(call(1726, vec![product, column()], Type::Numeric));
    assert!(sql.is_ok_and(|sql| sql.contains("pg_num_mul(pg_num(")));
}

#[test]
fn a_quotient_is_a_text_for_all_that_follows() {
    let quotient = call(1727, vec![column(), constant("3")], Type::Numeric);
    let sum = call(1724, vec![quotient.clone(), column()], Type::Numeric);
    let sql = written(sum).expect("is written");
    assert!(sql.starts_with("SELECT pg_num_add(pg_div(s1.c_1, CAST('3' AS DECIMAL(1,0))), pg_num(s1.c_1)) AS o1"));
    let less = call(1722, vec![quotient, constant("1")], Type::Bool);
    assert!(written(less).is_ok_and(|sql| sql.contains("(pg_num_cmp(") && sql.contains(" < 0)")));
}

#[test]
fn the_digits_of_alternatives_are_told_apart() {
    let case = Expr::Case {
        when: vec![(Expr::IsNull(Box::new(column()), false), column())],
        otherwise: Some(Box::new(constant("0"))),
        typed: NUMBER,
    };
    let sql = written(case).expect("is written");
    assert!(sql.contains("THEN 2 ELSE 0 END)) AS INT)"), "{sql}");
    assert!(sql.contains("ELSE CAST('0' AS DECIMAL(38,2)) END"), "{sql}");
}

#[test]
fn depth_and_length_are_bounded() {
    let mut deep = column();
    for _ in 0..DEPTH_MAX {
        deep = call(1704, vec![deep], Type::Numeric);
    }
    assert!(written(deep).is_err_and(|construct| construct.contains("nested")));
    // Each CASE writes its condition twice, and each condition holds the CASE before.
    let mut long = column();
    for _ in 0..40 {
        long = Expr::Case {
            when: vec![(Expr::IsNull(Box::new(long.clone()), true), long)],
            otherwise: Some(Box::new(constant("0.5"))),
            typed: NUMBER,
        };
        if written(long.clone()).is_err() {
            break;
        }
    }
    assert!(written(long).is_err_and(|construct| construct.contains("bytes")));
}

#[test]
fn texts_cannot_leave_their_quotes() {
    let typed = Typed { of: Type::Text, typmod: -1 };
    let text = Some("a' OR 'b".to_owned());
    let sql = written(Expr::Constant { typed, text });
    assert!(sql.is_ok_and(|sql| sql.starts_with("SELECT 'a'' OR ''b' AS o1 ")));
    for (of, text) in [
        (Type::Date, "infinity"),
        (Type::Date, "0044-03-15 BC"),
        (Type::Timestamp, "0044-03-15 12:00:00 BC"),
        (Type::Float8, "NaN"),
        (Type::Numeric, "NaN"),
        (Type::Text, "a\0b"),
        (Type::Timestamp, "12024-01-01 00:00:00"),
    ] {
        let typed = Typed { of, typmod: -1 };
        let text = Some(text.to_owned());
        assert!(written(Expr::Constant { typed, text }).is_err());
    }
}

fn count() -> Expr {
    Expr::Aggregate {
        function: 2803,
        shown: "count(*)".to_owned(),
        args: Vec::new(),
        distinct: false,
        sorted: Vec::new(),
        filter: None,
        order: None,
        at: None,
        window: None,
    }
}

/// A constant that came of an aggregate: `CASE WHEN false THEN count(*) ELSE 0 END`.
fn folded() -> Query {
    Query { aggregates: true, ..select(constant("0")) }
}

/// Of a subquery's row and one around it: `a = a`.
fn around() -> Expr {
    let outer = Expr::Column { up: 1, source: 0, number: 1, name: "a".to_owned() };
    call(1718, vec![column(), outer], Type::Bool)
}

fn refusal(query: &Query) -> Option<String> {
    translate(query, SETTINGS).err().map(|refusal| refusal.construct)
}

fn is_refused(query: &Query, why: &str) -> bool {
    refusal(query).is_some_and(|construct| construct.contains(why))
}

fn from(source: Source) -> Query {
    Query { sources: vec![source], ..select(column()) }
}

#[test]
fn aggregates_that_are_computed_away_leave_one_row() {
    let sql = |query: &Query| translate(query, SETTINGS).expect("is written").sql;
    assert!(sql(&folded()).ends_with(" HAVING (count(*) >= 0)"));
    let kept = Query { aggregates: true, ..select(count()) };
    assert!(!sql(&kept).contains("HAVING"));
    let having = Expr::Constant { typed: Typed { of: Type::Bool, typmod: -1 }, text: Some("f".to_owned()) };
    let none = Query { having: Some(having), ..folded() };
    assert!(sql(&none).ends_with(" HAVING FALSE AND (count(*) >= 0)"));
    let correlated = Query { condition: Some(around()), ..folded() };
    assert!(is_refused(&select(Expr::Scalar(Box::new(correlated))), "aggregates are constant"));
}

#[test]
fn an_aggregate_has_a_row_of_no_rows() {
    let few = call(1722, vec![column(), constant("3")], Type::Bool);
    let of_around = |query: Query| Query { condition: Some(around()), ..query };
    let exists = |query: Query| select(Expr::Exists(Box::new(query)));
    let one = Query { aggregates: true, ..select(count()) };
    for query in [of_around(one.clone()), of_around(Query { having: Some(few.clone()), ..one.clone() })] {
        assert!(is_refused(&exists(query.clone()), "of a query around"));
        assert!(is_refused(&select(Expr::Not(Box::new(Expr::Exists(Box::new(query))))), "of a query around"));
    }
    assert_eq!(refusal(&exists(one)), None);
    assert_eq!(refusal(&exists(of_around(select(column())))), None);
    let grouped = Query { group: vec![0], having: Some(few), ..of_around(select(column())) };
    assert_eq!(refusal(&exists(grouped)), None);
}

#[test]
fn one_row_is_distinct_and_in_order() {
    let order = chainify_dialect::query::Order { target: 0, descending: false, nulls_first: false, collation: None };
    let one = Query { aggregates: true, condition: Some(around()), ..select(count()) };
    let sql = |query: Query| translate(&select(Expr::Scalar(Box::new(query))), SETTINGS).expect("is written").sql;
    let plain = sql(one.clone());
    assert_eq!(sql(Query { distinct: true, ..one.clone() }), plain);
    assert_eq!(sql(Query { order: vec![order], ..one.clone() }), plain);
    for derived in [Query { offset: Some(1), ..one.clone() }, Query { limit: Some(0), ..one.clone() }] {
        assert!(is_refused(&select(Expr::Scalar(Box::new(derived))), "of a query around"));
    }
    let test = call(1718, vec![column(), Expr::RowOfSubquery], Type::Bool);
    let within = Query { condition: Some(Expr::In(Box::new(test), Box::new(one))), ..select(column()) };
    assert!(is_refused(&within, "of a query around"));
}

#[test]
fn a_with_query_is_evaluated_once() {
    let with = |query: Query, several_uses: bool| {
        let with = |name: &str, query, several_uses| With { name: name.to_owned(), query, several_uses };
        let of = |name: &str| Source::With { name: name.to_owned(), up: 0 };
        let inner = Source::With { name: "v".to_owned(), up: 1 };
        Query { with: vec![with("v", query, false), with("w", from(inner), several_uses)], ..from(of("w")) }
    };
    let some = Query { limit: Some(5), ..select(column()) };
    assert!(is_refused(&with(some.clone(), true), "used twice"));
    assert!(is_refused(&with(from(Source::Subquery(Box::new(some.clone()))), true), "used twice"));
    assert_eq!(refusal(&with(some, false)), None);
    assert_eq!(refusal(&with(select(column()), true)), None);
}

#[test]
fn the_order_of_a_subquery_counts_for_limit() {
    let order = chainify_dialect::query::Order { target: 0, descending: true, nulls_first: true, collation: None };
    let sorted = Query { order: vec![order.clone()], ..select(column()) };
    let over = |query: Query| from(Source::Subquery(Box::new(query)));
    let cut = |query: Query| Query { limit: Some(10), ..query };
    assert!(is_refused(&cut(over(sorted.clone())), "sorted subquery"));
    assert!(is_refused(&cut(over(over(sorted.clone()))), "sorted subquery"));
    assert_eq!(refusal(&cut(sorted.clone())), None);
    assert_eq!(refusal(&cut(Query { order: vec![order.clone()], ..over(sorted.clone()) })), None);
    assert_eq!(refusal(&over(sorted.clone())), None);
    let window = |order| Window { partition: vec![], order, frame: "" };
    let numbered = |order| Query { windows: vec![window(order)], ..over(sorted.clone()) };
    assert!(is_refused(&numbered(vec![]), "sorted subquery"));
    assert_eq!(refusal(&numbered(vec![order])), None);
}

#[test]
fn long_constants_are_bounded() {
    let text =
        |bytes: usize| Expr::Constant { typed: Typed { of: Type::Text, typmod: -1 }, text: Some("x".repeat(bytes)) };
    assert!(written(text(32 << 10)).is_ok());
    assert!(written(text((32 << 10) + 1)).is_err_and(|construct| construct.contains("bytes together")));
    let typed = Typed { of: Type::Text, typmod: -1 };
    let both = Expr::Coalesce(vec![text(20_000), text(20_000)], typed);
    assert!(written(both).is_err_and(|construct| construct.contains("bytes together")));
    // An argument is not repeated.
    assert!(written(call(67, vec![text(1_000_000), text(7)], Type::Bool)).is_ok());
}

#[test]
fn what_needs_utc_says_so() {
    let translated = |expr: Expr| translate(&select(expr), SETTINGS).expect("is written").needs_utc;
    let seen = Expr::Constant {
        typed: Typed { of: Type::TimestampTz, typmod: -1 },
        text: Some("2024-01-01 00:00:00+00".to_owned()),
    };
    assert!(translated(call(1178, vec![seen.clone()], Type::Date)));
    assert!(translated(call(2027, vec![seen.clone()], Type::Timestamp)));
    assert!(!translated(seen));
}

#[test]
fn rows_away_are_a_constant_from_0_on() {
    let rows = |text: &str| Expr::Constant { typed: Typed { of: Type::Int4, typmod: -1 }, text: Some(text.to_owned()) };
    let written = |function: u32, args: Vec<Expr>, window: Option<usize>| {
        let offset = Expr::Aggregate {
            function,
            shown: "f".to_owned(),
            args,
            distinct: false,
            sorted: Vec::new(),
            filter: None,
            order: None,
            at: None,
            window,
        };
        let over = Window { partition: vec![], order: vec![], frame: "" };
        let translated = translate(&Query { windows: vec![over], ..select(offset) }, SETTINGS);
        translated.map(|t| t.sql).map_err(|refusal| refusal.construct)
    };
    assert!(written(3106, vec![column()], Some(0)).is_ok_and(|sql| sql.contains("lag(s1.c_1, 1) OVER ()")));
    assert!(written(3110, vec![column(), rows("2")], Some(0)).is_ok_and(|sql| sql.contains("lead(s1.c_1, 2) OVER ()")));
    let quotient = call(1727, vec![column(), constant("3")], Type::Numeric);
    let text = written(3107, vec![quotient, rows("0")], Some(0));
    assert!(text.is_ok_and(|sql| sql.contains("lag(pg_div(")));
    for refused in [rows("-1"), column()] {
        assert_eq!(written(3107, vec![column(), refused], Some(0)), Err("f by this number of rows".to_owned()));
    }
    assert!(written(3106, vec![column()], None).is_err());
}

fn text(of: Type, text: &str) -> Expr {
    Expr::Constant { typed: Typed { of, typmod: -1 }, text: Some(text.to_owned()) }
}

#[test]
fn letters_are_of_the_collation() {
    let upper = |letters| {
        let typed = Typed { of: Type::Text, typmod: -1 };
        let args = vec![text(Type::Text, "é")];
        written(Expr::Call { function: 871, shown: "f".to_owned(), args, typed, order: None, letters, at: None })
    };
    assert!(upper(Letters::Ascii).is_ok_and(|sql| sql.contains("pg_upper_ascii('é')")));
    assert!(upper(Letters::Unicode).is_ok_and(|sql| sql.contains("pg_upper('é')")));
    assert_eq!(upper(Letters::Other), Err("f under this collation".to_owned()));
}

#[test]
fn constant_intervals_are_compared_as_times() {
    let time = text(Type::Timestamp, "2024-01-01 00:00:00");
    let between = call(2031, vec![time.clone(), time.clone()], Type::Interval);
    let less = |interval: &str| written(call(1164, vec![between.clone(), text(Type::Interval, interval)], Type::Bool));
    assert!(less("1 2 -3").is_ok_and(|sql| sql.contains(" < pg_interval(CAST(2764799999997 AS BIGINT)))")));
    assert!(less("2147483647 0 0").is_err());
    assert!(written(text(Type::Interval, "1 2 -3")).is_err());
    let zone = |zone: &str| written(call(2069, vec![text(Type::Text, zone), time.clone()], Type::TimestampTz));
    assert!(zone("UTC").is_ok_and(|sql| sql.contains("pg_timestamptz(")));
    assert_eq!(zone("Europe/Berlin"), Err("f of another zone than UTC".to_owned()));
}

#[test]
fn aggregates_in_an_order() {
    use chainify_dialect::query::Order;
    let order = |descending| Order { target: 0, descending, nulls_first: false, collation: None };
    let aggregate = |function, args, sorted, distinct| {
        let (shown, filter, window) = ("f".to_owned(), None, None);
        written(Expr::Aggregate { function, shown, args, distinct, sorted, filter, order: None, at: None, window })
    };
    let joined =
        |between: Expr, sorted, distinct| aggregate(3538, vec![text(Type::Text, "a"), between], sorted, distinct);
    let by = |expr: Expr| vec![(expr, order(true))];
    let sql = joined(text(Type::Text, "'"), by(column()), false);
    assert!(sql.is_ok_and(|sql| sql.contains("string_agg('a', '''' ORDER BY s1.c_1 DESC NULLS LAST)")));
    assert!(joined(text(Type::Text, ","), vec![], false).is_err(), "without an order");
    assert!(joined(column(), by(column()), false).is_err(), "with another text between each two");
    assert!(joined(text(Type::Text, ","), by(column()), true).is_err(), "DISTINCT by another order");
    let sql = joined(text(Type::Text, ","), by(text(Type::Text, "a")), true);
    assert!(sql.is_ok_and(|sql| sql.contains("max('a')")), "a constant, once");
    assert!(aggregate(2147, vec![column()], by(column()), false).is_err(), "count in an order");
    let percentile =
        |function, part: &str, of: Expr| aggregate(function, vec![text(Type::Float8, part)], by(of), false);
    let sql = percentile(3972, "0.5", column());
    assert!(sql.is_ok_and(|sql| sql.contains("pg_percentile_disc(s1.c_1, CAST('0.5' AS DOUBLE), TRUE)")));
    assert!(percentile(3972, "1.5", column()).is_err());
    assert!(percentile(3972, "0.5", text(Type::Text, "a")).is_err());
}
