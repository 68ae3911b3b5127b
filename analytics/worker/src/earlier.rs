//! Rows of blocks that the follower keeps no longer: they are read of the database when a query or
//! a pin asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::engine::Failure;
use crate::load::{differing, load, LoadError, Memory};
use crate::mirror::Trouble;
use crate::source::{Database, SourceError};
use crate::views::BlockView;

/// Reads earlier blocks, one at a time, and keeps the last few.
pub struct Earlier {
    connection: String,
    memory: Memory,
    reading: Mutex<()>,
    kept_max: usize,
}

impl Earlier {
    /// For the database of a connection string; `kept_max` blocks are kept.
    pub fn new(connection: String, memory: Memory, kept_max: usize) -> Self {
        Earlier { connection, memory, reading: Mutex::default(), kept_max }
    }

    /// The rows of these tables at an earlier block. Cost, when they are not kept: the database
    /// reads base and history of every ledger table, for the state root.
    ///
    /// # Errors
    /// 55000 when the database cannot tell them or they are not the certified ones; 53200 beyond
    /// the bound of memory; 08006 without the database.
    pub async fn rows(&self, block: i64, tables: &BTreeSet<i32>) -> Result<Arc<BlockView>, Failure> {
        let views = &self.memory.views;
        if let Some(view) = views.earlier(block, tables) {
            return Ok(view);
        }
        let _one_at_a_time = self.reading.lock().await;
        // Another query may have read them meanwhile.
        if let Some(view) = views.earlier(block, tables) {
            return Ok(view);
        }
        let view = Arc::new(self.read(block, tables).await?);
        views.keep_earlier(view.clone(), self.kept_max);
        Ok(view)
    }

    async fn read(&self, number: i64, wanted: &BTreeSet<i32>) -> Result<BlockView, Failure> {
        let unanswered = |error: SourceError| unreadable(number, &LoadError::Source(error));
        let mut database = Database::connect(&self.connection).await.map_err(unanswered)?;
        let moment = database.moment().await.map_err(unanswered)?;
        let Some(block) = moment.block(number).await.map_err(unanswered)? else {
            return Err(Failure::new("55000", format!("block {number} is not in the database")));
        };
        let (mut tables, mut states) = (BTreeMap::new(), Vec::new());
        for table in moment.tables().await.map_err(unanswered)? {
            if !wanted.contains(&table.id) {
                continue;
            }
            let mut mirror =
                load(&self.memory, &moment, &table, number).await.map_err(|error| unreadable(number, &error))?;
            states.push((table.name, mirror.state()));
            let view = self.memory.within(|| Ok(mirror.view()?)).map_err(|error| unreadable(number, &error.into()))?;
            tables.insert(table.id, Arc::new(view));
        }
        let told = moment.states_at(number).await.map_err(unanswered)?;
        let wrong = differing(&block.state_root, &told, &states);
        if wrong.is_empty() {
            return Ok(BlockView::new(number, tables));
        }
        Err(Failure::new(
            "55000",
            format!("the rows at block {number} cannot be shown to be those that organisations agreed on"),
        )
        .detail(format!(
            "The state root is another one, with table {}.",
            wrong.into_iter().collect::<Vec<_>>().join(", ")
        ))
        .hint("A DEPLOY transaction since that block may have changed definitions; chainify.verify_ledger tells more."))
    }
}

fn unreadable(block: i64, error: &LoadError) -> Failure {
    let message = format!("the rows at block {block} cannot be read");
    let sqlstate = match error {
        LoadError::Source(SourceError::Database(error)) if error.as_db_error().is_none() => "08006",
        LoadError::Trouble(Trouble::Store(_)) => "53200",
        _ => "55000",
    };
    Failure::new(sqlstate, message).detail(format!("{error}."))
}
