//! Queries of clients, translated by the database as the client's role.
//!
//! Everything of a client is a parameter here: no statement is put together from its words. The
//! client's search_path holds while the query is translated, so names are qualified.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Statement};

use crate::door::wire::{Field, Value};
use crate::engine::Failure;
use crate::source::SILENCE_MAX;

/// Connections to the database.
const LINKS_MAX: usize = 4;
/// How long a translation may take. It holds its connection until it ends.
const TRANSLATION_MAX: Duration = Duration::from_secs(10);
/// How long the database's machine may say nothing beyond that.
const SLACK: Duration = Duration::from_secs(5);

const ROLE: &str = "SELECT pg_catalog.set_config('role', $1, true)";
// Before the translation: a function of the query's could change the role, and then tell another.
const SETTINGS: &str = "SELECT pg_catalog.set_config('search_path', $1, true), \
    pg_catalog.set_config('TimeZone', $2, true), pg_catalog.set_config('statement_timeout', $3, true), \
    current_user, pg_catalog.pg_has_role('chainify_reader', 'MEMBER')";
const TRANSLATE: &str = "SELECT sql, names, types, typmods, current_user, parameters \
    FROM chainify.translate_query($1, $2, $3, $4)";
const LAST_BLOCK: &str = "SELECT number FROM chainify.ledger ORDER BY number DESC LIMIT 1";

/// A query as a client asks it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The client's role.
    pub role: String,
    /// Its search_path.
    pub search_path: String,
    /// Its time zone.
    pub time_zone: String,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// PostgreSQL's SQL.
    pub text: String,
    /// Types of its first parameters; 0: not given.
    pub types: Vec<u32>,
    /// Values of its parameters; None: it is only described.
    pub values: Option<Vec<Value>>,
}

/// A query in the worker's dialect.
#[derive(Debug)]
pub struct Translated {
    /// Its text; empty when it is only described.
    pub sql: String,
    /// Its columns.
    pub fields: Vec<Field>,
    /// The types of its parameters.
    pub parameters: Vec<u32>,
    /// The database's last block when it was translated.
    pub last_block: i64,
    /// Whether the role may see earlier blocks.
    pub is_reader: bool,
}

/// Asks the database, over a few connections of its own.
pub struct Translator {
    config: Config,
    idle: Mutex<Vec<Link>>,
    places: Arc<Semaphore>,
}

impl Translator {
    /// For the database of a connection string.
    ///
    /// # Errors
    /// A string that cannot be read.
    pub fn new(connection: &str) -> Result<Arc<Self>, String> {
        let mut config: Config = connection.parse().map_err(|error: tokio_postgres::Error| error.to_string())?;
        config.keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX).connect_timeout(SLACK);
        Ok(Arc::new(Translator { config, idle: Mutex::default(), places: Arc::new(Semaphore::new(LINKS_MAX)) }))
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }

    /// Translates a query. A caller that goes away does not free the connection earlier.
    ///
    /// # Errors
    /// Those of the database for the role, and 08006 without a database.
    pub async fn translate(self: &Arc<Self>, asked: Asked) -> Result<Translated, Failure> {
        let gone = || unanswered(&"the translation broke off");
        let place = self.places.clone().acquire_owned().await.map_err(|_| gone())?;
        let translator = self.clone();
        let task = tokio::spawn(async move {
            let _place = place;
            let bound = asked.timeout.unwrap_or(TRANSLATION_MAX).min(TRANSLATION_MAX);
            let answered = tokio::time::timeout(bound + 2 * SLACK, translator.on_a_link(&asked, bound));
            answered.await.unwrap_or_else(|_| Err(unanswered(&"it does not answer in time")))
        });
        task.await.map_err(|_| gone())?
    }

    async fn on_a_link(&self, asked: &Asked, bound: Duration) -> Result<Translated, Failure> {
        let user = self.config.get_user().unwrap_or("the worker's role");
        loop {
            let kept = self.idle().pop();
            let was_kept = kept.is_some();
            let mut link = match kept {
                Some(link) => link,
                None => Link::new(&self.config).await.map_err(|error| unanswered(&error))?,
            };
            let told = link.translate(asked, bound, user).await;
            if !link.client.is_closed() {
                self.idle().push(link);
            } else if was_kept {
                continue; // the database was started anew meanwhile
            }
            return told;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Link {
    client: Client,
    task: tokio::task::JoinHandle<()>,
    role: Statement,
    settings: Statement,
    translate: Statement,
    last_block: Statement,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    async fn new(config: &Config) -> Result<Link, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a connection for clients' queries is lost");
            }
        });
        let settings = "SET application_name = 'chainify-analytics clients'; SET search_path = pg_catalog, pg_temp;
            SET default_transaction_read_only = on; SET jit = off; SET DateStyle = 'ISO, MDY';
            SET IntervalStyle = postgres; SET extra_float_digits = 1";
        client.batch_execute(settings).await?;
        Ok(Link {
            role: client.prepare(ROLE).await?,
            settings: client.prepare(SETTINGS).await?,
            translate: client.prepare(TRANSLATE).await?,
            last_block: client.prepare(LAST_BLOCK).await?,
            client,
            task,
        })
    }

    /// One transaction, which is rolled back whatever happens: nothing that it sets stays.
    async fn translate(&mut self, asked: &Asked, bound: Duration, user: &str) -> Result<Translated, Failure> {
        let begin = self.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let reads = begin.start().await.map_err(told)?;
        let last_block = match reads.query_opt(&self.last_block, &[]).await.map_err(told)? {
            Some(row) => row.try_get(0).map_err(told)?,
            None => 0,
        };
        if let Err(error) = reads.query_one(&self.role, &[&asked.role]).await {
            return Err(match error.as_db_error() {
                Some(_) => may_not_ask(&asked.role, user),
                None => told(error),
            });
        }
        let timeout = bound.as_millis().max(1).to_string();
        let parameters: [&(dyn ToSql + Sync); 3] = [&asked.search_path, &asked.time_zone, &timeout];
        let set = reads.query_one(&self.settings, &parameters).await.map_err(told)?;
        let (role, is_reader) = (set.try_get::<_, &str>(3).map_err(told)?, set.try_get(4).map_err(told)?);
        if role != asked.role {
            return Err(may_not_ask(&asked.role, user));
        }
        let bytes = |value: &Value| value.bytes.clone();
        let values = asked.values.as_ref().map(|values| values.iter().map(bytes).collect::<Vec<_>>());
        let binary: Vec<bool> = asked.values.iter().flatten().map(|value| value.binary).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&asked.text, &asked.types, &values, &binary];
        let row = reads.query_one(&self.translate, &parameters).await.map_err(told)?;
        if row.try_get::<_, &str>(4).map_err(told)? != asked.role {
            return Err(Failure::new("42501", "a function of the query changed the role"));
        }
        let names: Vec<String> = row.try_get(1).map_err(told)?;
        let (types, typmods): (Vec<u32>, Vec<i32>) = (row.try_get(2).map_err(told)?, row.try_get(3).map_err(told)?);
        let columns = names.into_iter().zip(types).zip(typmods);
        let fields = columns.map(|((name, of), typmod)| Field { name, of, typmod }).collect();
        let sql: Option<String> = row.try_get(0).map_err(told)?;
        let (sql, parameters) = (sql.unwrap_or_default(), row.try_get(5).map_err(told)?);
        let translated = Translated { sql, fields, parameters, last_block, is_reader };
        reads.rollback().await.map_err(told)?;
        Ok(translated)
    }
}

fn may_not_ask(role: &str, user: &str) -> Failure {
    Failure::new("42501", format!("the analytics worker may not ask as role \"{role}\""))
        .detail("The role does not exist, or the worker's role is no member of it.")
        .hint(format!("GRANT \"{}\" TO \"{}\"", role.replace('"', "\"\""), user.replace('"', "\"\"")))
}

fn unanswered(why: &dyn std::fmt::Display) -> Failure {
    tracing::warn!("the database does not translate: {why}");
    Failure::new("08006", "the database does not answer the analytics worker")
}

/// The database's own words: it told them to the client's role. Other failures are the worker's.
fn told(error: tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(told) => Failure {
            sqlstate: told.code().code().into(),
            message: told.message().into(),
            detail: told.detail().map(str::to_owned),
            hint: told.hint().map(str::to_owned),
        },
        None => unanswered(&error),
    }
}
