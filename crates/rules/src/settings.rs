//! Settings that all organisations share: their names, values and defaults.
use crate::refusal::Refusal;

/// The treatment of a statement whose effects follow from the order of rows, which is not the same
/// everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Determinism {
    /// It is refused.
    #[default]
    Strict,
    /// It runs; where effects differ, the organisations do not agree on them.
    Detect,
}

/// The questions of the rules to the database, when a statement makes it matter.
pub trait Database {
    /// The database's own collation, when order and case under it depend on the machine.
    fn local_collation(&self) -> Option<String>;
    /// The policy of determinism in force.
    fn policy(&self) -> Determinism;
}

/// The agreement that a DEPLOY transaction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deploys {
    /// Only policies ask for agreement: an admin of one organisation changes definitions for all.
    #[default]
    Free,
    /// More than two thirds of the organisations (C6).
    Agreed,
}

/// A setting with the words of its values.
pub trait Setting: Copy + PartialEq + Default + 'static {
    /// The key of its row.
    const NAME: &'static str;
    /// Its values; the default is the first.
    const VALUES: &'static [(&'static str, Self)];

    /// The value of a stored word.
    fn parse(word: &str) -> Option<Self> {
        let found = Self::VALUES.iter().find(|(name, _)| *name == word);
        found.map(|(_, value)| *value)
    }

    /// The word that `SET name word` stores. Errors: 22023.
    fn stored(word: &str) -> Result<String, Refusal> {
        let word = word.to_ascii_lowercase();
        if Self::parse(&word).is_some() {
            return Ok(word);
        }
        let written = |(name, _): &(&str, Self)| format!("SET {} {name}", Self::NAME.to_ascii_uppercase());
        let choices: Vec<String> = Self::VALUES.iter().map(written).collect();
        let message = format!("\"{word}\" is no policy of {}", Self::NAME);
        Err(Refusal::new(b"22023", message).hint(format!("Write {}.", choices.join(" or "))))
    }
}

impl Setting for Determinism {
    const NAME: &'static str = "determinism";
    const VALUES: &'static [(&'static str, Self)] = &[("strict", Determinism::Strict), ("detect", Determinism::Detect)];
}

impl Setting for Deploys {
    const NAME: &'static str = "deploys";
    const VALUES: &'static [(&'static str, Self)] = &[("free", Deploys::Free), ("agreed", Deploys::Agreed)];
}

/// Invariant C6: whether a DEPLOY transaction takes the agreement of more than two thirds, by the
/// setting before and after it.
pub fn takes_agreement(before: Deploys, after: Deploys) -> bool {
    (before, after) != (Deploys::Free, Deploys::Free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_first_values() {
        assert_eq!(Determinism::VALUES[0].1, Determinism::default());
        assert_eq!(Deploys::VALUES[0].1, Deploys::default());
    }

    #[test]
    fn a_word_is_stored_in_lower_case() {
        assert_eq!(Determinism::stored("DETECT").unwrap(), "detect");
        assert_eq!(Determinism::parse("detect"), Some(Determinism::Detect));
        assert_eq!(Determinism::parse("DETECT"), None, "what is stored has one spelling");
        assert_eq!(Deploys::parse("agreed"), Some(Deploys::Agreed));
    }

    #[test]
    fn another_word_is_refused_with_the_choices() {
        let refusal = Deploys::stored("Maybe").unwrap_err();
        assert_eq!(refusal.sqlstate, b"22023");
        assert_eq!(refusal.message, "\"maybe\" is no policy of deploys");
        assert_eq!(refusal.hint.as_deref(), Some("Write SET DEPLOYS free or SET DEPLOYS agreed."));
    }

    #[test]
    fn agreement_is_taken_to_switch_it_off_and_on() {
        use Deploys::{Agreed, Free};
        let taken =
            [(Free, Free), (Free, Agreed), (Agreed, Free), (Agreed, Agreed)].map(|(b, a)| takes_agreement(b, a));
        assert_eq!(taken, [false, true, true, true]);
    }
}
