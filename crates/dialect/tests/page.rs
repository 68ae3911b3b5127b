//! The page of refusals says what the list of kinds says. With UPDATE_EXPECTED=1 the test writes
//! it.
use std::path::Path;

use chainify_dialect::Kind;

const HEAD: &str = "# Refusals of analytics

The worker answers a query as PostgreSQL does, or the query is refused. A refused query gets SQLSTATE 0A000 and the construct by name. With `chainify.analytics` PostgreSQL runs it.
This table is made of the list by which queries are refused (`crates/dialect/src/kinds.rs`). [Analytics at a block](analytics.md) says how queries are asked.

| construct | reason |
|---|---|
";

#[test]
fn the_page_names_every_kind() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/user/analytics-refused.md");
    let mut page = HEAD.to_owned();
    for kind in Kind::ALL {
        let (constructs, reason) = kind.words();
        page += &format!("| {constructs} | {reason} |\n");
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let is = std::fs::read_to_string(&path).expect("the page is there");
    assert_eq!(is, page, "UPDATE_EXPECTED=1 cargo test -p chainify-dialect writes it");
}
