//! `chainify-analytics`: mirrors ledger tables column by column, and answers queries at a block
//! (spec/analytics.md).
//!
//! Rooms, from the top: `main` starts; `serve` answers the database; `session` decides which rows
//! a query sees; `engine`, `pushed`, `scan`, `filters` and `arrays` run queries; `follow` and
//! `earlier` read the database by `load` and `source`; `views` is what they publish; `mirror`,
//! `cells` and `layout` are pure.

mod arrays;
mod bounds;
mod cells;
mod command;
mod config;
mod earlier;
mod engine;
mod filters;
mod follow;
mod keys;
mod layout;
mod load;
mod mirror;
mod pushed;
mod scan;
mod serve;
mod session;
mod source;
mod stop;
mod views;

use std::io::IsTerminal;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use chainify_snapshot::Pool;
use clap::{Parser, Subcommand};
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::oneshot;

use crate::config::Settings;
use crate::earlier::Earlier;
use crate::engine::Engine;
use crate::follow::Follower;
use crate::load::Memory;
use crate::session::Worker;
use crate::views::Views;

/// Answers queries over ledger tables at a block, beside PostgreSQL.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mirrors the tables that chainify.mirror named, and serves queries until it is told to end.
    Run {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Prints a configuration file with every setting and its default.
    SampleConfig,
}

/// Exit code for a configuration that cannot be used.
const MISCONFIGURED: u8 = 2;

fn main() -> ExitCode {
    let Command::Run { config } = Arguments::parse().command else {
        print!("{}", config::SAMPLE);
        return ExitCode::SUCCESS;
    };
    let settings = match config::read(&config) {
        Ok(settings) => settings,
        Err(why) => {
            eprintln!("chainify-analytics: {why}");
            return ExitCode::from(MISCONFIGURED);
        }
    };
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
    match serve_until_told(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chainify-analytics: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve_until_told(settings: Settings) -> Result<(), String> {
    let threads = |name: &str| Builder::new_multi_thread().thread_name(name).enable_all().build();
    let failed = |error: std::io::Error| format!("threads cannot be started: {error}");
    let (connections, queries) = (threads("connections").map_err(failed)?, threads("queries").map_err(failed)?);
    let ended = connections.block_on(run(settings, queries.handle().clone()));
    // A query that computes is not waited for.
    queries.shutdown_background();
    connections.shutdown_background();
    ended
}

async fn run(settings: Settings, queries: Handle) -> Result<(), String> {
    let listener = listen(&settings.socket, settings.mode)?;
    let views = Views::new(settings.mirrors.recent_blocks);
    let pool = Pool::new(settings.mirror_bytes);
    let (strategy, missing) = settings.strategy.available(&pool);
    match missing {
        None => tracing::info!(strategy = strategy.name(), "how mirrors share memory with snapshots"),
        Some(why) => tracing::warn!(strategy = strategy.name(), %why, "memory.strategy does not work here"),
    }
    let memory = Memory { pool, strategy, views: views.clone() };
    let worker = Arc::new(Worker {
        views,
        earlier: Earlier::new(settings.connection.clone(), memory.clone(), settings.mirrors.earlier_blocks),
        engine: Engine::new(settings.bounds(), queries).map_err(|error| error.to_string())?,
    });
    let follower = Follower::new(settings.connection, memory, settings.mirrors.pace());
    // A failure of the follower is the process's: nothing would be fresh any more.
    let (failed, follower_ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("follower".into()).spawn(move || {
        let _failed = failed;
        if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
            runtime.block_on(follower.run());
        }
    });
    thread.map_err(|error| error.to_string())?;
    let served = serve::serve(listener, worker, settings.queries.connections_max);
    let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    let ended = tokio::select! {
        served = served => served.map_err(|error| format!("accepting connections failed: {error}")),
        _ = follower_ended => Err("following the database failed".into()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    let _ = std::fs::remove_file(&settings.socket);
    ended
}

fn on(kind: SignalKind) -> Result<tokio::signal::unix::Signal, String> {
    signal(kind).map_err(|error| format!("a signal cannot be handled: {error}"))
}

/// Listens at a path. A socket that a killed worker left behind makes way.
fn listen(path: &Path, mode: u32) -> Result<UnixListener, String> {
    let failed = |error: std::io::Error| format!("listening at \"{}\" failed: {error}", path.display());
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(format!("\"{}\" is there and is no socket", path.display()))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(format!("another worker listens at \"{}\"", path.display()))
        }
        _ => (),
    }
    // In a directory that is closed to others, until the socket has its mode.
    let closed = path.with_extension("new");
    let _ = std::fs::remove_dir_all(&closed);
    std::fs::DirBuilder::new().mode(0o700).create(&closed).map_err(failed)?;
    let bound = UnixListener::bind(closed.join("s")).and_then(|listener| {
        std::fs::set_permissions(closed.join("s"), std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(closed.join("s"), path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_dir(&closed);
    bound.map_err(failed)
}
