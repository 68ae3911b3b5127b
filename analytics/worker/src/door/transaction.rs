//! A session's settings and its transaction, which sees one block (V2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::command::Sees;
use crate::door::settings::Settings;
use crate::door::statement::Statement;
use crate::door::translate::Translated;
use crate::door::wire::Status;
use crate::engine::Failure;
use crate::session::Worker;
use crate::views::BlockView;

struct Open {
    /// Settings before it.
    before: Settings,
    /// Settings after it, when it is committed.
    after: Settings,
    /// The rows that its first query saw.
    view: Option<Arc<BlockView>>,
    failed: bool,
}

/// The settings of a session, and its transaction.
pub struct Transaction {
    /// Those of now.
    pub settings: Settings,
    open: Option<Open>,
}

impl Transaction {
    /// No transaction.
    pub fn new(settings: Settings) -> Self {
        Transaction { settings, open: None }
    }

    /// As ReadyForQuery tells it.
    pub fn status(&self) -> Status {
        match &self.open {
            None => Status::Idle,
            Some(open) if open.failed => Status::Failed,
            Some(_) => Status::Open,
        }
    }

    /// A statement failed.
    pub fn failed(&mut self) {
        if let Some(open) = &mut self.open {
            open.failed = true;
        }
    }

    /// Refuses a statement of a transaction that has failed, unless it ends it.
    ///
    /// # Errors
    /// 25P02
    pub fn check(&self, statement: &Statement) -> Result<(), Failure> {
        let ends = matches!(statement, Statement::Commit | Statement::Rollback | Statement::Empty);
        match self.status() {
            Status::Failed if !ends => Err(Failure::new(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    /// Runs a statement that changes settings or the transaction.
    ///
    /// # Errors
    /// Those of the settings; 25001 for another block once one was seen; 0A000 for others.
    pub fn run(&mut self, statement: &Statement) -> Result<&'static str, Failure> {
        match statement {
            Statement::Set { name, values, local } => {
                self.change(name, |settings| settings.set(name, values), *local)?;
                Ok("SET")
            }
            Statement::Reset(None) => {
                self.change(
                    "chainify.block",
                    |settings| {
                        settings.reset();
                        Ok(())
                    },
                    false,
                )?;
                Ok("RESET")
            }
            Statement::Reset(Some(name)) => {
                self.change(name, |settings| settings.set(name, &[]), false)?;
                Ok("RESET")
            }
            Statement::Characteristics => Ok("SET"),
            Statement::Begin => {
                let (before, after) = (self.settings.clone(), self.settings.clone());
                self.open.get_or_insert(Open { before, after, view: None, failed: false });
                Ok("BEGIN")
            }
            Statement::Commit | Statement::Rollback => {
                let commits = *statement == Statement::Commit;
                Ok(match self.open.take() {
                    Some(open) if commits && !open.failed => {
                        self.settings = open.after;
                        "COMMIT"
                    }
                    Some(open) => {
                        self.settings = open.before;
                        "ROLLBACK"
                    }
                    None if commits => "COMMIT",
                    None => "ROLLBACK",
                })
            }
            _ => Err(Failure::new("0A000", "not available in analytics")),
        }
    }

    fn change(
        &mut self,
        name: &str,
        set: impl Fn(&mut Settings) -> Result<(), Failure>,
        local: bool,
    ) -> Result<(), Failure> {
        let sees = self.settings.sees.clone();
        let mut changed = self.settings.clone();
        set(&mut changed)?;
        match &mut self.open {
            Some(open) => {
                if open.view.is_some() && changed.sees != sees {
                    let message =
                        format!("\"{}\" must be set before any query of the transaction", name.escape_default());
                    return Err(Failure::new("25001", message));
                }
                if !local {
                    set(&mut open.after)?;
                }
            }
            // As in PostgreSQL, SET LOCAL changes nothing outside of a transaction.
            None if local => return Ok(()),
            None => (),
        }
        self.settings = changed;
        Ok(())
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// 25001 in a transaction.
    pub fn discard(&mut self) -> Result<(), Failure> {
        match self.open {
            Some(_) => Err(Failure::new("25001", "DISCARD ALL cannot run inside a transaction block")),
            None => {
                self.settings.reset();
                Ok(())
            }
        }
    }

    /// The rows that a query sees. Those of a transaction are of one block.
    ///
    /// # Errors
    /// 42501 for an earlier block, unless the role is a reader; 22023 for a block that is not in the
    /// database; those of [`Worker::rows`].
    pub async fn rows(
        &mut self,
        worker: &Worker,
        translated: &Translated,
        tables: &BTreeSet<i32>,
    ) -> Result<Arc<BlockView>, Failure> {
        let last = translated.last_block;
        let (sees, earlier) = match &self.settings.sees {
            Sees::Newest => (Sees::AtLeast(last), false),
            Sees::AtLeast(block) if *block <= last => (Sees::AtLeast(last), false),
            Sees::Block(block) if *block <= last => (Sees::Block(*block), true),
            Sees::Snapshot(name) => (Sees::Snapshot(name.clone()), true),
            Sees::AtLeast(block) | Sees::Block(block) => {
                return Err(Failure::new("22023", format!("block {block} is not in this database"))
                    .hint(format!("The last block is {last}.")));
            }
        };
        if earlier && !translated.is_reader {
            return Err(Failure::new("42501", "permission denied for earlier blocks")
                .detail("The role is no member of chainify_reader.")
                .hint("RESET chainify.block and chainify.snapshot, to see the last block."));
        }
        let timeout = self.settings.timeout;
        let kept = self.open.as_ref().and_then(|open| open.view.clone());
        match kept {
            Some(view) if !earlier || view.has(tables) => Ok(view),
            Some(view) => worker.rows(&Sees::Block(view.block), tables, timeout).await,
            None => {
                let view = worker.rows(&sees, tables, timeout).await?;
                if let Some(open) = &mut self.open {
                    open.view = Some(view.clone());
                }
                Ok(view)
            }
        }
    }

    /// How long a statement may take.
    pub fn timeout(&self) -> Option<Duration> {
        self.settings.timeout
    }
}
