//! The worker's reads of the database, as `chainify_reader` (spec/analytics.md).

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use chainify_codec::Hash;
use futures::TryStreamExt;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Row, Statement, ToStatement, Transaction};

use crate::layout::ToldColumn;

/// A failure of the connection, or the database's own words.
#[derive(Debug)]
pub enum SourceError {
    /// The connection is lost, or a statement failed.
    Database(tokio_postgres::Error),
    /// An answer that cannot be.
    Malformed(&'static str),
}

impl From<tokio_postgres::Error> for SourceError {
    fn from(error: tokio_postgres::Error) -> Self {
        SourceError::Database(error)
    }
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SourceError::Database(error) => match error.as_db_error() {
                Some(told) => {
                    write!(f, "{}{}", told.message(), told.detail().map(|d| format!(": {d}")).unwrap_or_default())
                }
                None => error.fmt(f),
            },
            SourceError::Malformed(what) => write!(f, "the database told {what} that cannot be"),
        }
    }
}

/// How long the database's machine may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The statements of each step. They are prepared once: the database would parse and plan them
/// anew, with one more way there and back, for each block.
struct Prepared {
    last_block: Statement,
    block: Statement,
    columns: Statement,
    tables: Statement,
    pins: Statement,
    changes: Statement,
    parts: Statement,
}

impl Prepared {
    async fn new(client: &Client) -> Result<Self, tokio_postgres::Error> {
        Ok(Prepared {
            last_block: client.prepare(LAST_BLOCK).await?,
            block: client.prepare("SELECT number, hash, state_root FROM chainify.ledger WHERE number = $1").await?,
            columns: client.prepare(COLUMNS).await?,
            tables: client.prepare(TABLES).await?,
            pins: client.prepare("SELECT name, block FROM chainify.snapshot_pins").await?,
            changes: client.prepare("SELECT chainify.mirror_changes($1, $2, $3)").await?,
            parts: client.prepare("SELECT name, state FROM chainify.state_parts").await?,
        })
    }
}

/// A connection to the database.
pub struct Database {
    client: Client,
    prepared: Prepared,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A block of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number; 0 before the first.
    pub number: i64,
    /// Its LedgerBlockHash; zeros before the first.
    pub hash: Hash,
    /// Over the states of all tables after it.
    pub state_root: Hash,
}

/// A table that is to be mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldTable {
    /// Number of its version.
    pub id: i32,
    /// Name on the ledger.
    pub name: String,
    /// Over its definition.
    pub schema_hash: Hash,
    /// Its columns.
    pub columns: Vec<ToldColumn>,
}

impl Database {
    /// Connects, and reads only from then on.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn connect(connection: &str) -> Result<Self, SourceError> {
        let mut config: Config = connection.parse()?;
        // A database whose machine is gone must not be waited for without end.
        config.keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(SILENCE_MAX);
        }
        let (client, task) = config.connect(NoTls).await?;
        let task = tokio::spawn(async move {
            if let Err(error) = task.await {
                tracing::warn!(%error, "the connection to the database is lost");
            }
        });
        // Plans are kept while the ledger grows, so they have to be those by an index whatever its
        // size now. Functions that read whole tables set this for themselves.
        let settings = "SET application_name = 'chainify-analytics'; SET search_path = pg_catalog, pg_temp;
            SET default_transaction_read_only = on; SET statement_timeout = 0; SET jit = off;
            SET enable_seqscan = off";
        client.batch_execute(settings).await?;
        let prepared = Prepared::new(&client).await?;
        Ok(Database { client, prepared, task })
    }

    /// The last block: it changes when there is something to do.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn last_block(&self) -> Result<Block, SourceError> {
        let found = self.client.query_opt(&self.prepared.last_block, &[]).await?;
        found.as_ref().map_or(Ok(BEFORE_ALL), block)
    }

    /// Begins to read as of one moment.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn moment(&mut self) -> Result<Moment<'_>, SourceError> {
        let begin = self.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok(Moment { reads: begin.start().await?, prepared: &self.prepared })
    }
}

const BEFORE_ALL: Block = Block { number: 0, hash: [0; 32], state_root: [0; 32] };
const LAST_BLOCK: &str = "SELECT number, hash, state_root FROM chainify.ledger ORDER BY number DESC LIMIT 1";
const COLUMNS: &str = "SELECT table_id, ordinal, attnum, of_key, type::oid, modifier FROM chainify.mirrored_columns";
const TABLES: &str = "SELECT table_id, name, schema_hash FROM chainify.mirrored_tables ORDER BY table_id";

/// Reads of one moment.
pub struct Moment<'a> {
    reads: Transaction<'a>,
    prepared: &'a Prepared,
}

impl Moment<'_> {
    async fn last_block(&self) -> Result<Block, SourceError> {
        let found = self.reads.query_opt(&self.prepared.last_block, &[]).await?;
        found.as_ref().map_or(Ok(BEFORE_ALL), block)
    }

    /// An earlier block; None when it is not there.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn block(&self, number: i64) -> Result<Option<Block>, SourceError> {
        if number == 0 {
            return Ok(Some(BEFORE_ALL));
        }
        self.reads.query_opt(&self.prepared.block, &[&number]).await?.as_ref().map(block).transpose()
    }

    /// The tables to be mirrored.
    ///
    /// # Errors
    /// Those of the statements.
    pub async fn tables(&self) -> Result<Vec<ToldTable>, SourceError> {
        let (columns, tables) = (&self.prepared.columns, &self.prepared.tables);
        let (told, named) = futures::try_join!(self.reads.query(columns, &[]), self.reads.query(tables, &[]))?;
        let mut columns: BTreeMap<i32, Vec<ToldColumn>> = BTreeMap::new();
        for row in told {
            let ordinal: i16 = row.try_get(1)?;
            columns.entry(row.try_get(0)?).or_default().push(ToldColumn {
                ordinal: u16::try_from(ordinal).or(Err(SourceError::Malformed("an ordinal")))?,
                attnum: row.try_get(2)?,
                of_key: row.try_get(3)?,
                type_oid: row.try_get(4)?,
                modifier: row.try_get(5)?,
            });
        }
        let mut tables = Vec::new();
        for row in named {
            let id = row.try_get(0)?;
            let columns = columns.remove(&id).unwrap_or_default();
            tables.push(ToldTable { id, name: row.try_get(1)?, schema_hash: hash(&row, 2)?, columns });
        }
        Ok(tables)
    }

    async fn pins(&self) -> Result<BTreeMap<String, i64>, SourceError> {
        let rows = self.reads.query(&self.prepared.pins, &[]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Calls `each` with all rows of a table at a block, as the database tells rows, some at a time.
    ///
    /// # Errors
    /// Those of the statement, and of `each`.
    pub async fn rows<E: From<SourceError>>(
        &self,
        table: i32,
        block: i64,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        // In a select list the database gives a piece before it has made the next.
        let sql = "SELECT chainify.mirror_rows($1, $2)";
        self.stream(sql, &[&table, &block], |piece| each(&rows_in(told(&piece, 0)?)?)).await
    }

    /// Calls `each` with the changes of a table after a block up to another, some at a time in
    /// their order.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn changes(
        &self,
        table: i32,
        (after, up_to): (i64, i64),
        mut each: impl FnMut(Changes),
    ) -> Result<(), SourceError> {
        self.stream(&self.prepared.changes, &[&table, &after, &up_to], |piece| {
            told(&piece, 0)?;
            each(Changes(piece));
            Ok(())
        })
        .await
    }

    async fn stream<E: From<SourceError>>(
        &self,
        sql: &(impl ToStatement + ?Sized + Sync),
        parameters: &[&(dyn ToSql + Sync)],
        mut each: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let rows = self.reads.query_raw(sql, parameters.iter().copied()).await.map_err(SourceError::from)?;
        let mut rows = pin!(rows);
        while let Some(row) = rows.try_next().await.map_err(SourceError::from)? {
            each(row)?;
        }
        Ok(())
    }

    /// The states of the last block, by name.
    async fn states(&self) -> Result<States, SourceError> {
        states(&self.reads.query(&self.prepared.parts, &[]).await?)
    }

    /// The states of an earlier block, by name.
    ///
    /// # Errors
    /// Those of the statement: 55000 for a block of which the database cannot tell the states.
    pub async fn states_at(&self, block: i64) -> Result<States, SourceError> {
        let sql = "SELECT name, state FROM chainify.state_parts_at($1)";
        states(&self.reads.query(sql, &[&block]).await?)
    }

    /// Everything that a step begins with, by one way to the database and back. `at` is the block
    /// that mirrors have.
    ///
    /// # Errors
    /// Those of the statements.
    pub async fn look(&self, at: Option<i64>) -> Result<Seen, SourceError> {
        let at = async {
            match at {
                Some(number) => self.block(number).await,
                None => Ok(None),
            }
        };
        let (last, at, tables, states, pins) =
            futures::try_join!(self.last_block(), at, self.tables(), self.states(), self.pins())?;
        Ok(Seen { last, at, tables, states, pins })
    }
}

/// Changes of a table, as the database told them together.
pub struct Changes(Row);

impl Changes {
    fn told(&self) -> &[u8] {
        told(&self.0, 0).unwrap_or_default()
    }

    /// The bytes that they take.
    pub fn bytes(&self) -> usize {
        self.told().len()
    }

    /// Calls `each` with the operation and the row of each change.
    ///
    /// # Errors
    /// Malformed changes, and those of `each`.
    pub fn each<E: From<SourceError>>(&self, mut each: impl FnMut(u8, &[u8]) -> Result<(), E>) -> Result<(), E> {
        rows_in(self.told())?.into_iter().try_for_each(|change| {
            let (op, row) = change.split_first().ok_or(SourceError::Malformed("a change"))?;
            each(*op, row)
        })
    }
}

/// The states that a state root is over, by the names of tables and of the definitions.
pub type States = BTreeMap<String, Hash>;

/// The ledger at a moment.
pub struct Seen {
    /// The last block.
    pub last: Block,
    /// The block that mirrors have, if it is there.
    pub at: Option<Block>,
    /// The tables to be mirrored.
    pub tables: Vec<ToldTable>,
    /// The states after the last block.
    pub states: States,
    /// The pinned snapshots: names and blocks.
    pub pins: BTreeMap<String, i64>,
}

fn states(rows: &[Row]) -> Result<States, SourceError> {
    rows.iter().map(|row| Ok((row.try_get(0)?, hash(row, 1)?))).collect()
}

fn block(row: &Row) -> Result<Block, SourceError> {
    Ok(Block { number: row.try_get(0)?, hash: hash(row, 1)?, state_root: hash(row, 2)? })
}

fn hash(row: &Row, column: usize) -> Result<Hash, SourceError> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().or(Err(SourceError::Malformed("a hash")))
}

/// The rows of a piece: each stands behind its length.
fn rows_in(mut piece: &[u8]) -> Result<Vec<&[u8]>, SourceError> {
    let mut rows = Vec::new();
    while let Some((length, rest)) = piece.split_first_chunk() {
        let (row, rest) = rest
            .split_at_checked(u32::from_be_bytes(*length) as usize)
            .ok_or(SourceError::Malformed("a piece of rows"))?;
        rows.push(row);
        piece = rest;
    }
    match piece {
        [] => Ok(rows),
        _ => Err(SourceError::Malformed("a piece of rows")),
    }
}

fn told(row: &Row, column: usize) -> Result<&[u8], SourceError> {
    Ok(row.try_get(column)?)
}

#[cfg(test)]
mod tests {
    use super::rows_in;

    #[test]
    fn a_piece_is_taken_apart_by_lengths() {
        let piece = [0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 1, b'c'];
        assert_eq!(rows_in(&piece).unwrap(), [&b"ab"[..], b"", b"c"]);
        assert!(rows_in(&[]).unwrap().is_empty());
        for cut in [1, 4, 5, 7, 13] {
            assert!(rows_in(&piece[..cut]).is_err(), "the first {cut} bytes");
        }
    }
}
