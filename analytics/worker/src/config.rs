//! The configuration file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chainify_snapshot::Choice;
use serde::Deserialize;

/// A file with every setting, its default and what it means.
pub const SAMPLE: &str = include_str!("../chainify-analytics.toml");

/// All settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The database.
    pub database: DatabaseConfig,
    /// The Unix socket.
    #[serde(default)]
    pub socket: SocketConfig,
    /// Bounds of memory.
    #[serde(default)]
    pub memory: MemoryConfig,
    /// Queries.
    #[serde(default)]
    pub queries: QueriesConfig,
    /// Mirrors.
    #[serde(default)]
    pub mirrors: MirrorsConfig,
}

/// `[database]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseConfig {
    /// A connection string of libpq's kind.
    pub connection: String,
}

/// `[socket]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketConfig {
    /// Directory of the socket.
    pub directory: PathBuf,
    /// Number in the socket's name.
    pub port: u16,
    /// Its mode, in octal.
    pub mode: String,
}

impl Default for SocketConfig {
    fn default() -> Self {
        SocketConfig { directory: "/var/run/chainify".into(), port: 26670, mode: "0600".into() }
    }
}

/// `[memory]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// For mirrors and snapshots.
    pub mirrors: String,
    /// For all queries together.
    pub queries: String,
    /// How mirrors and snapshots share memory.
    pub strategy: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig { mirrors: "4GiB".into(), queries: "1GiB".into(), strategy: Choice::default().name().into() }
    }
}

/// `[queries]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueriesConfig {
    /// Threads of one query.
    pub threads: usize,
    /// Queries that compute at a time.
    pub running_max: usize,
    /// Seconds that a query may take.
    pub seconds_max: u64,
    /// Connections at a time.
    pub connections_max: usize,
}

impl Default for QueriesConfig {
    fn default() -> Self {
        QueriesConfig { threads: 2, running_max: 16, seconds_max: 3_600, connections_max: 200 }
    }
}

/// `[mirrors]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MirrorsConfig {
    /// Milliseconds between two looks at the last block.
    pub poll_ms: u64,
    /// Seconds before a mirror that failed is made anew.
    pub retry_seconds: u64,
    /// Minutes between two looks at the cells of all mirrors.
    pub recheck_minutes: u64,
    /// Newest blocks whose rows are kept.
    pub recent_blocks: usize,
    /// Earlier blocks whose rows are kept after a query read them.
    pub earlier_blocks: usize,
}

impl Default for MirrorsConfig {
    fn default() -> Self {
        MirrorsConfig { poll_ms: 50, retry_seconds: 10, recheck_minutes: 60, recent_blocks: 16, earlier_blocks: 2 }
    }
}

fn at_most(name: &str, value: u64, most: u64) -> Result<(), String> {
    match value <= most {
        true => Ok(()),
        false => Err(format!("{name} is {value}, and has to be 0 to {most}")),
    }
}

fn range(name: &str, value: usize, most: usize) -> Result<(), String> {
    match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} is {value}, and has to be 1 to {most}")),
    }
}

/// Settings as the worker uses them.
#[derive(Debug)]
pub struct Settings {
    /// Connection string.
    pub connection: String,
    /// Path of the socket.
    pub socket: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// Bytes for mirrors and snapshots.
    pub mirror_bytes: usize,
    /// Bytes for queries.
    pub query_bytes: usize,
    /// How mirrors and snapshots share memory, where the machine can.
    pub strategy: Choice,
    /// As configured.
    pub queries: QueriesConfig,
    /// As configured.
    pub mirrors: MirrorsConfig,
}

/// Reads a configuration file. Error: a sentence that names the setting.
pub fn read(path: &Path) -> Result<Settings, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Settings, String> {
    let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
    let mode = u32::from_str_radix(&config.socket.mode, 8).ok().filter(|mode| *mode <= 0o777);
    range("queries.threads", config.queries.threads, 256)?;
    range("queries.running_max", config.queries.running_max, 10_000)?;
    range("queries.seconds_max", config.queries.seconds_max as usize, 1_000_000)?;
    range("queries.connections_max", config.queries.connections_max, 10_000)?;
    range("mirrors.poll_ms", config.mirrors.poll_ms as usize, 60_000)?;
    range("mirrors.retry_seconds", config.mirrors.retry_seconds as usize, 86_400)?;
    at_most("mirrors.recheck_minutes", config.mirrors.recheck_minutes, 1_000_000)?;
    range("mirrors.recent_blocks", config.mirrors.recent_blocks, 10_000)?;
    range("mirrors.earlier_blocks", config.mirrors.earlier_blocks, 1_000)?;
    Ok(Settings {
        connection: config.database.connection,
        socket: config.socket.directory.join(format!(".s.PGSQL.{}", config.socket.port)),
        mode: mode
            .ok_or_else(|| format!("socket.mode is \"{}\", and has to be octal, as \"0660\"", config.socket.mode))?,
        mirror_bytes: bytes("memory.mirrors", &config.memory.mirrors)?,
        query_bytes: bytes("memory.queries", &config.memory.queries)?,
        strategy: Choice::named(&config.memory.strategy).ok_or_else(|| {
            format!("memory.strategy is \"{}\", and has to be \"chunks\" or \"vm_snapshot\"", config.memory.strategy)
        })?,
        queries: config.queries,
        mirrors: config.mirrors,
    })
}

/// A size as `512MiB` or `4GiB`.
fn bytes(name: &str, text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let found = units.iter().find_map(|(unit, shift)| {
        let number: usize = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(1 << shift).filter(|bytes| *bytes >= 1 << 20)
    });
    found.ok_or_else(|| {
        format!("{name} is \"{text}\", and has to be a size of at least 1MiB, as \"512MiB\" or \"4GiB\"")
    })
}

impl Settings {
    /// The bounds of all queries together.
    pub fn bounds(&self) -> crate::engine::Bounds {
        crate::engine::Bounds {
            memory_bytes: self.query_bytes,
            parts: self.queries.threads,
            running_max: self.queries.running_max,
            time_max: Duration::from_secs(self.queries.seconds_max),
        }
    }
}

impl MirrorsConfig {
    /// How the follower paces itself.
    pub fn pace(&self) -> crate::follow::Pace {
        crate::follow::Pace {
            poll: Duration::from_millis(self.poll_ms),
            tables: Duration::from_secs(1),
            retry: Duration::from_secs(self.retry_seconds),
            recheck: Duration::from_secs(60 * self.recheck_minutes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_the_defaults() {
        let sample = parse(SAMPLE).unwrap();
        let least =
            parse("[database]\nconnection = 'host=/var/run/postgresql dbname=app user=chainify_analytics'").unwrap();
        assert_eq!(format!("{sample:?}"), format!("{least:?}"));
    }

    #[test]
    fn mistakes_are_named() {
        let with = |more: &str| parse(&format!("[database]\nconnection = ''\n{more}")).unwrap_err();
        assert!(with("[memory]\nmirrors = '4GB'").contains("memory.mirrors"));
        assert!(with("[memory]\nmirrors = '99999999999999TiB'").contains("memory.mirrors"));
        assert!(with("[memory]\nstrategy = 'fork'").contains("memory.strategy"));
        assert!(with("[queries]\nthreads = 0").contains("queries.threads"));
        assert!(with("[queries]\nseconds_max = 0").contains("queries.seconds_max"));
        assert!(with("[socket]\nmode = '9'").contains("socket.mode"));
        assert!(with("[mirrors]\npoll = 1").contains("poll"));
        assert!(with("[listen]\naddress = ''").contains("listen"));
        assert!(parse("").unwrap_err().contains("database"));
    }
}
