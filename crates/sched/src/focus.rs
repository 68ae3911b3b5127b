//! Chooses the key of a table by which its places are compared (the focus).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph;
use crate::template::{Access, Template};
use crate::value::Value;
use crate::{KeyId, Target};

/// Executions of a block that are looked at to choose between keys.
pub const SAMPLE_MAX: usize = 128;

/// For a target, the one key in which its places stay bounded. Places count as apart only if they
/// are so in every key. With several keys, inserts that share a parent or a day would wait for each
/// other. One bound also takes less to fill in than several.
///
/// Invariant S7: a target's key bounds every access to it that is bounded at all. So of what was
/// apart all stays so, and what becomes apart is disjoint in that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Focus(BTreeMap<Target, KeyId>);

impl Focus {
    /// Chooses for the statements of a block. Of several keys that bound all accesses to a target
    /// it takes the one in which the sample falls into the most components, of equal ones the
    /// first.
    ///
    /// `sample`: the first executions of the block, each with the number of its template and its
    /// values; more than [`SAMPLE_MAX`] are not looked at. Cost: for each target with several such
    /// keys and each of these, that of a graph of the sample.
    pub fn choose(templates: &[&Template], sample: &[(usize, &[Value])]) -> Self {
        let mut common: BTreeMap<Target, BTreeSet<KeyId>> = BTreeMap::new();
        for access in templates.iter().flat_map(|t| t.accesses()).filter(|access| !access.limits.is_empty()) {
            let keys = || access.limits.iter().map(|limits| limits.key);
            let known = common.entry(access.target).or_insert_with(|| keys().collect());
            known.retain(|known| keys().any(|key| key == *known));
        }
        let sample = &sample[..sample.len().min(SAMPLE_MAX)];
        let best = |(target, keys): (Target, BTreeSet<KeyId>)| {
            if keys.len() < 2 {
                return keys.first().map(|key| (target, *key));
            }
            let (mut best, mut most) = (None, 0);
            for key in keys {
                let components = components(templates, sample, target, key);
                if components > most {
                    (best, most) = (Some((target, key)), components);
                }
            }
            best
        };
        Self(common.into_iter().filter_map(best).collect())
    }

    /// The key of a target, when there is one.
    pub fn key(&self, target: Target) -> Option<KeyId> {
        self.0.get(&target).copied()
    }

    /// The template whose accesses are bounded in the key of their target alone.
    pub fn apply(&self, template: &Template) -> Template {
        template.map(|access| {
            let mut access = access.clone();
            if let Some(key) = self.key(access.target) {
                access.limits.retain(|limits| limits.key == key);
            }
            Some(access)
        })
    }
}

/// Into how many components a sample falls by its accesses to one target, bounded in one key.
fn components(templates: &[&Template], sample: &[(usize, &[Value])], target: Target, key: KeyId) -> u32 {
    let focus = Focus(BTreeMap::from([(target, key)]));
    let only = |access: &Access| (access.target == target).then(|| access.clone());
    // An access to everything says nothing about this target.
    let of = |template: &&Template| match template.everything() {
        None => focus.apply(&template.map(only)),
        Some(_) => Template::default(),
    };
    let templates: Vec<Template> = templates.iter().map(of).collect();
    let sets: Vec<_> = sample.iter().map(|(template, values)| templates[*template].fill(values)).collect();
    graph::build(&sets).components()
}
