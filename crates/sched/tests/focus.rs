//! With one key chosen for each target, more transactions are independent, and no dependency is
//! lost.

use chainify_sched::template::{Access, KeyLimits, Limit, Operand, Template, Touched};
use chainify_sched::value::{Class, Value};
use chainify_sched::{AccessSet, Focus, KeyId, Target};
use chainify_seeded::check;
use proptest::collection::vec;
use proptest::prelude::*;

const ROWS: Target = Target::Rows(1);

/// An access bounded in some keys of one column each: key and the number of the value.
fn access(write: bool, keys: &[(KeyId, usize)]) -> Access {
    let limits = keys.iter().map(|(key, given)| {
        let columns = vec![(Class::Integer, vec![Limit::Equal(vec![Operand::Given(*given)])])];
        KeyLimits { key: *key, columns, complete: true }
    });
    Access { target: ROWS, write, touched: Touched::All, limits: limits.collect() }
}

fn template(accesses: impl IntoIterator<Item = Access>) -> Template {
    let mut template = Template::default();
    accesses.into_iter().for_each(|access| template.add(access));
    template
}

fn depend(a: &AccessSet, b: &AccessSet) -> bool {
    !a.dependencies_on(b).0.is_empty()
}

/// The sets of a block, all bounds kept, and focused.
fn sets(templates: &[Template], block: &[(usize, Vec<Value>)]) -> (Vec<AccessSet>, Vec<AccessSet>) {
    let templates: Vec<&Template> = templates.iter().collect();
    let sample: Vec<(usize, &[Value])> = block.iter().map(|(of, values)| (*of, &values[..])).collect();
    let focus = Focus::choose(&templates, &sample);
    let focused: Vec<Template> = templates.iter().map(|template| focus.apply(template)).collect();
    let wide = block.iter().map(|(of, values)| templates[*of].fill(values));
    (wide.collect(), block.iter().map(|(of, values)| focused[*of].fill(values)).collect())
}

/// S5, S7: what was apart stays so, and what becomes apart is disjoint in some key.
#[test]
fn focusing_loses_nothing() {
    let template_of = vec((any::<bool>(), vec(any::<bool>(), 3)), 1..3).prop_map(|accesses| {
        template(accesses.into_iter().map(|(write, bounded)| {
            let keys = (0..3).filter(|key| bounded[*key as usize]).map(|key| (key, usize::from(key)));
            access(write, &keys.collect::<Vec<_>>())
        }))
    });
    let value = prop_oneof![6 => (0i64..4).prop_map(Value::Integer), 1 => Just(Value::Opaque), 1 => Just(Value::Null)];
    let block = vec((any::<prop::sample::Index>(), vec(value, 3)), 2..6);
    check(4000, (vec(template_of, 1..4), block), |(templates, block)| {
        let block: Vec<_> = block.into_iter().map(|(of, values)| (of.index(templates.len()), values)).collect();
        let (wide, focused) = sets(&templates, &block);
        for i in 0..block.len() {
            for j in 0..i {
                let ((a, x), (b, y)) = (&block[i], &block[j]);
                // Rows of both: their values agree in every key that both are bounded in.
                let meets = |a: &Access, b: &Access| {
                    let bounded = |access: &Access, key| access.limits.iter().any(|limits| limits.key == key);
                    let null = |access: &Access, values: &[Value]| {
                        (0..3).any(|key| bounded(access, key) && values[usize::from(key)] == Value::Null)
                    };
                    let differ = |key: KeyId| match (&x[usize::from(key)], &y[usize::from(key)]) {
                        (Value::Integer(x), Value::Integer(y)) => x != y,
                        _ => false,
                    };
                    (a.write || b.write)
                        && !null(a, x)
                        && !null(b, y)
                        && !(0..3).any(|key| bounded(a, key) && bounded(b, key) && differ(key))
                };
                let share =
                    templates[*a].accesses().iter().any(|a| templates[*b].accesses().iter().any(|b| meets(a, b)));
                prop_assert!(!share || depend(&focused[i], &focused[j]), "{i} and {j} share a row");
                let nothing_unknown = !x.contains(&Value::Opaque) && !y.contains(&Value::Opaque);
                let was = depend(&wide[i], &wide[j]);
                // A value that is not known may have been made up for by another key.
                prop_assert!(
                    was || !depend(&focused[i], &focused[j])
                        || !nothing_unknown
                        || x.contains(&Value::Null)
                        || y.contains(&Value::Null)
                );
            }
        }
        Ok(())
    });
}

#[test]
fn inserts_that_share_a_parent_are_apart_unless_somebody_looks_for_it() {
    let inserts = template([access(true, &[(0, 0), (1, 1)])]);
    let row = |id: i64, parent: i64| (0, vec![Value::Integer(id), Value::Integer(parent)]);
    let (wide, focused) = sets(std::slice::from_ref(&inserts), &[row(1, 7), row(2, 7)]);
    assert!(depend(&wide[1], &wide[0]) && !depend(&focused[1], &focused[0]));
    let readers = template([access(false, &[(1, 1)])]);
    let reads = (1, vec![Value::Integer(0), Value::Integer(7)]);
    let (_, focused) = sets(&[inserts, readers], &[row(1, 7), row(2, 7), reads]);
    assert!(depend(&focused[2], &focused[0]) && depend(&focused[2], &focused[1]));
}

/// Lines of orders in districts, each of an item: the items are many, and shared between districts.
#[test]
fn of_several_keys_the_one_that_leaves_the_most_components_is_taken() {
    let lines = template([0, 1].map(|item| access(true, &[(0, 2 + item), (1, 0)])));
    let order = |district: i64, items: [i64; 2]| (0, [district, 0, items[0], items[1]].map(Value::Integer).to_vec());
    let block: Vec<_> = (0..40).map(|i| order(i % 4, [i, i + 1])).collect();
    let (_, focused) = sets(std::slice::from_ref(&lines), &block);
    assert_eq!(chainify_sched::graph::build(&focused).components(), 4);
}
