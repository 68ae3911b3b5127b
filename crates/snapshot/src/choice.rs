//! Which strategy a program uses.

use std::sync::Arc;

use crate::error::Error;
use crate::pool::Pool;
use crate::strategies::Chunks;
#[cfg(target_os = "linux")]
use crate::strategies::VmSnapshot;
use crate::strategy::Strategy;

/// The strategies for use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// [`Chunks`], which works everywhere.
    #[default]
    Chunks,
    /// The system call of a patched kernel.
    VmSnapshot,
}

impl Choice {
    /// The one of a setting.
    pub fn named(name: &str) -> Option<Choice> {
        [Choice::Chunks, Choice::VmSnapshot].into_iter().find(|choice| choice.name() == name)
    }

    /// Its name, as in settings.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Chunks => "chunks",
            Choice::VmSnapshot => "vm_snapshot",
        }
    }

    /// The choice that works here: itself, or [`Choice::Chunks`] and the reason.
    pub fn available(self, pool: &Arc<Pool>) -> (Choice, Option<Error>) {
        self.tried(self.strategy(pool).map(drop))
    }

    fn tried(self, tried: Result<(), Error>) -> (Choice, Option<Error>) {
        match tried {
            Ok(()) => (self, None),
            Err(error) => (Choice::Chunks, Some(error)),
        }
    }

    /// The strategy, without columns.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for [`Choice::VmSnapshot`] on another kernel.
    pub fn strategy(self, pool: &Arc<Pool>) -> Result<Box<dyn Strategy>, Error> {
        match self {
            Choice::Chunks => Ok(Box::new(Chunks::new(pool.clone()))),
            #[cfg(target_os = "linux")]
            Choice::VmSnapshot => Ok(Box::new(VmSnapshot::new(pool.clone())?)),
            #[cfg(not(target_os = "linux"))]
            Choice::VmSnapshot => Err(Error::Unavailable { strategy: self.name(), reason: "this is not Linux".into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_does_not_work_falls_back_with_the_reason() {
        let why = || Error::Unavailable { strategy: "vm_snapshot", reason: "no such call".into() };
        assert_eq!(Choice::VmSnapshot.tried(Ok(())), (Choice::VmSnapshot, None));
        assert_eq!(Choice::VmSnapshot.tried(Err(why())), (Choice::Chunks, Some(why())));
    }

    /// On this machine, whichever kernel it has.
    #[test]
    fn what_is_available_makes_tables() {
        let pool = Pool::new(1 << 20);
        for wanted in [Choice::Chunks, Choice::VmSnapshot] {
            let (choice, why) = wanted.available(&pool);
            assert_eq!(why.is_none(), choice == wanted, "{why:?}");
            assert_eq!(choice.strategy(&pool).unwrap().name(), choice.name());
            assert_eq!(Choice::named(wanted.name()), Some(wanted));
        }
        assert_eq!(Choice::default().available(&pool), (Choice::Chunks, None));
        assert_eq!(Choice::named("fork"), None);
    }
}
