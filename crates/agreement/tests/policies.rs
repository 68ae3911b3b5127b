//! Policies against a model that decides them directly.

use std::collections::BTreeSet;

use chainify_agreement::{Need, Policy, DEPTH_MAX, NAMES_MAX, TEXT_BYTES_MAX};
use proptest::prelude::*;

/// The meaning of a policy, without its text.
#[derive(Clone, Debug)]
enum Model {
    Organisation(String),
    Column(String),
    AtLeast(usize, Vec<Model>),
}

impl Model {
    fn text(&self) -> String {
        match self {
            Model::Organisation(name) => name.clone(),
            Model::Column(name) => format!("ORG ( \"{name}\" )"),
            Model::AtLeast(count, parts) => {
                let parts: Vec<_> = parts.iter().map(Model::text).collect();
                format!("{count} of ({})", parts.join(" ,"))
            }
        }
    }

    fn holds(&self, agree: &BTreeSet<String>) -> bool {
        match self {
            Model::Organisation(name) => agree.contains(name),
            Model::Column(name) => value(name).is_some_and(|name| agree.contains(&name)),
            Model::AtLeast(count, parts) => parts.iter().filter(|part| part.holds(agree)).count() >= *count,
        }
    }
}

/// Column x holds organisation x; column z is null.
fn value(column: &str) -> Option<String> {
    (column != "z").then(|| column.to_owned())
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof!["[a-f]".prop_map(Model::Organisation), "[a-fz]".prop_map(Model::Column)];
    leaf.prop_recursive(4, 40, 5, |part| {
        prop::collection::vec(part, 1..5)
            .prop_flat_map(|parts| (1..=parts.len(), Just(parts)))
            .prop_map(|(count, parts)| Model::AtLeast(count, parts))
    })
}

fn agreeing() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[a-f]", 0..6)
}

fn need(policy: &Policy, agree: &BTreeSet<String>) -> Option<Need> {
    policy.need(&value, &|name| agree.contains(name))
}

proptest! {
    #![proptest_config(chainify_seeded::config(256))]

    #[test]
    fn a_policy_means_what_it_says(model in model(), agree in agreeing(), more in "[a-f]") {
        let policy = Policy::parse(&model.text()).unwrap();
        let missing = need(&policy, &agree);
        prop_assert_eq!(missing.is_none(), model.holds(&agree));
        // C1: more who agree satisfy it all the same
        let mut all = agree.clone();
        all.insert(more);
        prop_assert!(missing.is_some() || need(&policy, &all).is_none());
        // all that are named as missing are enough, if anybody is
        if let Some(missing) = missing {
            prop_assert!(missing.organisations().iter().all(|name| !agree.contains(*name)));
            all.extend(missing.organisations().into_iter().map(str::to_owned));
            let everybody: BTreeSet<String> = ('a'..='f').map(String::from).collect();
            prop_assert_eq!(need(&policy, &all).is_none(), model.holds(&everybody));
        }
    }

    #[test]
    fn one_spelling_reads_as_the_same(model in model()) {
        let policy = Policy::parse(&model.text()).unwrap();
        let text = policy.to_string();
        prop_assert_eq!(&Policy::parse(&text).unwrap(), &policy);
        prop_assert_eq!(Policy::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place_in_it(text in "[ANDORGof0-9a-z(),\" é-]{0,60}|\\PC{0,40}") {
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(error.position <= text.chars().count());
        }
    }
}

#[test]
fn errors_say_where() {
    for (text, want) in [
        ("", "neither an organisation nor AND(…), OR(…), k OF (…), org(…) at position 1"),
        ("AND(acme, Bolt)", "neither an organisation nor AND(…), OR(…), k OF (…), org(…) at position 11"),
        ("AND(acme bolt)", "\")\" is missing at position 10"),
        ("AND(acme,)", "neither an organisation nor AND(…), OR(…), k OF (…), org(…) at position 10"),
        ("acme bolt", "more text than one policy at position 6"),
        ("3 OF (acme, bolt)", "3 of 2 at position 1"),
        ("OR(0 OF (acme))", "0 of 1 at position 4"),
        ("99999999999999999999 OF (a)", "99999999999999999999 of 1 at position 1"),
        ("2 acme", "a number without OF (…) behind it at position 1"),
        ("org()", "no name of a column at position 5"),
        ("org(\"seller)", "a quoted name without end at position 5"),
        ("é", "neither an organisation nor AND(…), OR(…), k OF (…), org(…) at position 1"),
    ] {
        assert_eq!(Policy::parse(text).unwrap_err().to_string(), want, "{text}");
    }
}

#[test]
fn bounds_hold() {
    let nested = |depth: usize| "OR(".repeat(depth) + "a" + &")".repeat(depth);
    assert!(Policy::parse(&nested(DEPTH_MAX)).is_ok());
    assert!(Policy::parse(&nested(DEPTH_MAX + 1)).is_err());
    assert!(Policy::parse(&nested(TEXT_BYTES_MAX / 4)).is_err());
    let names = |count: usize| format!("AND({})", vec!["a"; count].join(","));
    assert!(Policy::parse(&names(NAMES_MAX)).is_ok());
    assert!(Policy::parse(&names(NAMES_MAX + 1)).is_err());
    assert!(Policy::parse(&(" ".repeat(TEXT_BYTES_MAX) + "a")).is_err());
}

/// It is the one spelling that is kept: what is read must not become too long to be read again.
#[test]
fn a_policy_whose_one_spelling_is_too_long_is_refused() {
    let list = |separator: &str| format!("AND({})", vec!["a".repeat(15); NAMES_MAX - 1].join(separator));
    assert!(list(",").len() <= TEXT_BYTES_MAX && list(", ").len() > TEXT_BYTES_MAX);
    assert!(Policy::parse(&list(",")).is_err());
}

#[test]
fn keywords_without_parentheses_are_organisations() {
    let policy = Policy::parse("AND(or, and, org, 1 OF (of))").unwrap();
    assert_eq!(policy.organisations(), ["or", "and", "org", "of"]);
    let policy = Policy::parse("AND(org(Seller), org(\"Odd \"\"one\"), bolt)").unwrap();
    assert_eq!(policy.columns(), ["seller", "Odd \"one"]);
    assert_eq!(policy.to_string(), "AND(org(seller), org(\"Odd \"\"one\"), bolt)");
}

#[test]
fn what_is_missing_reads_like_a_policy() {
    let policy = Policy::parse("AND(acme, 2 OF (bolt, cargo, org(z)), org(delta))").unwrap();
    let need = policy.need(&value, &|name| name == "acme" || name == "bolt").unwrap();
    assert_eq!(need.to_string(), "AND(OR(cargo, org(z), which is null), delta)");
    assert_eq!(need.organisations(), BTreeSet::from(["cargo", "delta"]));
}
