//! An organisation joins with an empty database: the foundation of the ledger and the rows come
//! from another organisation, in one transaction. The sender need not be trusted.
//!
//! Invariant R16: headers lead back from a certified hash, and each state is in the state root of
//! that header. Each DEPLOY transaction is proven to be in its block, and to have succeeded there,
//! before it runs. Each table scans to its state at the end.

use std::collections::{BTreeMap, BTreeSet};

use chainify_codec::{state_root, table_state, Hash, Lanes, DEFINITIONS, PROCEDURES};
use chainify_ledger::foundation::{decode, Deploy, Part};
use chainify_ledger::messages::Kind;
use chainify_ledger::{block_buffer, LedgerBlock, Transaction};

use crate::block::{restored, seal};
use crate::leader::execute_block::defined_by;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::table_scans::live_state;
use crate::ledger::{checkpoints, definitions, deployed, row_bytes, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::certified::{beyond_repair, check_definitions, check_schema, locked};
use crate::recovery::checkpoint_repair::make_base;
use crate::recovery::repair_from_peer::{by_column, insert, types};
use crate::recovery::row_repair::{as_owner, by_owner, repair_running_state};
use crate::running::request::Request;

crate::pg::sql_function!(
    chainify_join_parts,
    pg_finfo_chainify_join_parts,
    join_parts
);
crate::pg::sql_function!(
    chainify_join_schema,
    pg_finfo_chainify_join_schema,
    join_schema
);
crate::pg::sql_function!(chainify_join_rows, pg_finfo_chainify_join_rows, join_rows);
crate::pg::sql_function!(chainify_join_end, pg_finfo_chainify_join_end, join_end);

/// Tables on a ledger, and one entry beside them.
const STATES_MAX: i64 = 16_385;

/// Where states received wait; until the end of the transaction.
const STATES: &str = "pg_temp.chainify_join";

/// The place of what came before the first block of this database.
const ELSEWHERE: &str = "of another organisation";

pub fn is_false(why: impl std::fmt::Display) -> PgError {
    PgError::new(b"22023", "what was told of the ledger is false").detail(format!("{why}."))
}

/// `chainify_node.join_parts(number, certified_hash, parts)`; contract in spec/sql-api.md.
fn join_parts(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let certified: Vec<u8> = call.required(1, "certified_hash");
    let buffer: Vec<u8> = call.required(2, "parts");
    let parts = block_buffer::split(&buffer).map_err(is_false).or_raise();
    unrecorded(|| {
        spi::connect(|client| {
            check_new(client).or_raise();
            make_states(client);
            let mut headers = Headers::of(client, number, &certified);
            for part in parts {
                match decode(part).map_err(is_false).or_raise() {
                    Part::Header(header) => headers.add(header).or_raise(),
                    Part::Table {
                        name,
                        schema_hash,
                        state,
                    } => {
                        let lanes = state.lanes.to_bytes().to_vec();
                        keep_state(name, schema_hash, state.row_count, lanes)
                    }
                    Part::Definitions(hash) => keep_state(DEFINITIONS, hash, 0, Vec::new()),
                    Part::Procedures(hash) => keep_state(PROCEDURES, hash, 0, Vec::new()),
                    Part::Deploy(deploy) => {
                        headers.write();
                        keep_deploy(client, &deploy).or_raise();
                    }
                }
            }
            headers.write();
            check_states(client).or_raise();
        })
    });
    call.void()
}

/// Nothing of a ledger may be here: blocks that this database executed stay.
fn check_new(client: &SpiClient<'_>) -> Result<(), PgError> {
    let sql = "SELECT FROM chainify_ledger.here";
    let new = Cursor::open(client, Sees::Latest, sql, &[])
        .next_row()
        .is_none();
    match new {
        true => Ok(()),
        false => Err(PgError::new(b"55000", "this database has a ledger already")),
    }
}

/// Headers from a certified one down to the first, each proven by the one before.
struct Headers {
    chain_id: String,
    next: u64,
    hash: Vec<u8>,
    unwritten: Vec<LedgerBlock>,
}

impl Headers {
    fn of(client: &SpiClient<'_>, number: i64, certified: &[u8]) -> Self {
        let sql =
            "SELECT number - 1, previous_hash FROM chainify_ledger.block ORDER BY number LIMIT 1";
        let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
        let last = rows.next_row();
        let last = last.map(|row| (row.bigint(1), row.bytes(2)));
        let (next, hash) = last.unwrap_or((Some(number), Some(certified.to_vec())));
        Headers {
            chain_id: stored_blocks::chain_id(client, Sees::Latest),
            next: next.unwrap_or_default() as u64,
            hash: hash.unwrap_or_default(),
            unwritten: Vec::new(),
        }
    }

    fn add(&mut self, header: LedgerBlock) -> Result<(), PgError> {
        let fits = header.number == self.next && header.hash()[..] == self.hash[..];
        if !fits || header.chain_id != self.chain_id || self.next == 0 {
            return Err(is_false(format!("Header {} is another", header.number)));
        }
        self.next -= 1;
        self.hash = header.previous.to_vec();
        self.unwritten.push(header);
        Ok(())
    }

    fn write(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        seal::write_blocks(&std::mem::take(&mut self.unwritten));
    }
}

/// Whether the states are there. Raises 55000 when the session put something in their place, which
/// might run code of its own here.
fn states_are_there(client: &SpiClient<'_>) -> bool {
    let sql = format!(
        "SELECT c.relowner = current_user::regrole AND c.relkind = 'r' FROM pg_class c WHERE c.oid = to_regclass('{STATES}')"
    );
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    match rows.next_row().map(|row| row.boolean(1)) {
        None => false,
        Some(Some(true)) => true,
        Some(_) => PgError::new(b"55000", format!("{STATES} is somebody else's")).raise(),
    }
}

fn make_states(client: &SpiClient<'_>) {
    if states_are_there(client) {
        return;
    }
    let sql = format!(
        "CREATE TEMPORARY TABLE {} (name text PRIMARY KEY, schema_hash bytea NOT NULL, rows bigint NOT NULL, lanes bytea NOT NULL, cleared boolean NOT NULL) ON COMMIT DROP",
        STATES.trim_start_matches("pg_temp.")
    );
    spi::connected(|| spi::execute(&sql, &[]));
}

fn keep_state(name: &str, schema_hash: Hash, rows: u64, lanes: Vec<u8>) {
    let sql = format!("INSERT INTO {STATES} VALUES ($1, $2, $3, $4, false)");
    let arguments = [
        cell(name.to_owned()),
        cell(schema_hash.to_vec()),
        cell(rows as i64),
        cell(lanes),
    ];
    spi::connected(|| spi::execute(&sql, &arguments));
}

fn check_states(client: &SpiClient<'_>) -> Result<(), PgError> {
    let sql = format!("SELECT count(*) FROM {STATES}");
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    match rows.next_row().and_then(|row| row.bigint(1)) {
        Some(count) if count <= STATES_MAX => Ok(()),
        _ => Err(is_false("There are more tables than a ledger has")),
    }
}

/// Keeps a DEPLOY transaction that is proven, and comes after those before.
fn keep_deploy(client: &SpiClient<'_>, deploy: &Deploy) -> Result<(), PgError> {
    let place = format!("Transaction {} of block {}", deploy.index, deploy.block);
    let number = i64::try_from(deploy.block).map_err(is_false)?;
    let chain_id = stored_blocks::chain_id(client, Sees::Latest);
    let header = stored_blocks::block(client, Sees::Latest, number)
        .and_then(|kept| kept.header(&chain_id).ok())
        .ok_or_else(|| is_false(format!("{place} comes before its header")))?;
    let transaction = Transaction::decode(deploy.body).map_err(is_false)?;
    if transaction.kind() != Kind::Deploy || !deploy.is_in(&header, &transaction.id) {
        return Err(is_false(format!("{place} is another, or failed")));
    }
    let sql = "SELECT FROM chainify_ledger.deployed WHERE (block, index) >= ($1, $2)";
    let place_of = [number.into(), (deploy.index as i32).into()];
    let after = Cursor::open(client, Sees::Latest, sql, &place_of)
        .next_row()
        .is_some();
    match after {
        true => Err(is_false(format!("{place} comes late"))),
        false => {
            deployed::keep(deploy);
            Ok(())
        }
    }
}

/// A state received.
struct Told {
    name: String,
    schema_hash: Hash,
    rows: u64,
    lanes: Vec<u8>,
}

impl Told {
    /// Its entry in the state root.
    fn hash(&self) -> Hash {
        match Lanes::from_bytes(&self.lanes) {
            Some(lanes) => table_state(&self.name, &self.schema_hash, self.rows, &lanes),
            None => self.schema_hash, // definitions, or procedures
        }
    }
}

/// The states received of tables, and what else is in the state root.
type States = (Vec<Told>, Vec<(&'static str, Hash)>);

fn told(client: &SpiClient<'_>) -> States {
    let sql =
        format!("SELECT name, schema_hash, rows, lanes FROM {STATES} ORDER BY name COLLATE \"C\"");
    let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
    let mut all = Vec::new();
    while let Some(row) = rows.next_row() {
        all.push(Told {
            name: row.text(1).unwrap_or_default(),
            schema_hash: row
                .bytes(2)
                .and_then(|hash| hash.try_into().ok())
                .unwrap_or_default(),
            rows: row.bigint(3).unwrap_or_default() as u64,
            lanes: row.bytes(4).unwrap_or_default(),
        });
    }
    let beside = [DEFINITIONS, PROCEDURES];
    let (tables, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|told| !beside.contains(&told.name.as_str()));
    let entry = |name: &'static str| {
        let told = others.iter().find(|told| told.name == name);
        told.map(|told| (name, told.hash()))
    };
    (tables, beside.into_iter().filter_map(entry).collect())
}

/// `chainify_node.join_schema(number, certified_hash)`; contract in spec/sql-api.md. Cost: that of
/// the DEPLOY transactions on empty tables.
fn join_schema(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let certified: Vec<u8> = call.required(1, "certified_hash");
    row_bytes::forget();
    let mut tables = Vec::new();
    unrecorded(|| {
        checkpoints::lock_bases();
        spi::connect(|client| {
            check_new(client).or_raise();
            make_states(client);
            let told = proven(client, number, &certified).or_raise();
            spi::connected(restored::make_own);
            deploy_all(client, number).or_raise();
            attach_own(&told.0, number);
            check_made(client, &told).or_raise();
            tables = told.0;
        })
    });
    call.rows(|row| {
        for table in &tables {
            row(&[cell(table.name.clone()), cell(table.rows as i64)]);
        }
    })
}

/// The states received, once all headers are here and the states are in the last one.
fn proven(client: &SpiClient<'_>, number: i64, certified: &[u8]) -> Result<States, PgError> {
    let first = stored_blocks::block(client, Sees::Latest, 1);
    let last = stored_blocks::block(client, Sees::Latest, number);
    let (Some(first), Some(last)) = (first, last) else {
        return Err(is_false("There are not all headers"));
    };
    if first.previous_hash[..] != Hash::default() || last.hash[..] != *certified {
        return Err(is_false(
            "The headers lead from another block, or to another",
        ));
    }
    let (tables, beside) = told(client);
    let states = tables
        .iter()
        .map(|table| (table.name.as_str(), table.hash()));
    let root = state_root(states.chain(beside.iter().copied()));
    match root[..] == last.state_root[..] {
        true => Ok((tables, beside)),
        false => Err(is_false("The states give another state root")),
    }
}

/// Runs the DEPLOY transactions in their order.
fn deploy_all(client: &SpiClient<'_>, number: i64) -> Result<(), PgError> {
    let mut blocks: BTreeMap<i64, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
    deployed::each(client, Sees::Latest, number, &mut |deploy| {
        let of_block = blocks.entry(deploy.block as i64).or_default();
        of_block.push((deploy.index, deploy.body.to_vec()));
    });
    let chain_id = stored_blocks::chain_id(client, Sees::Latest);
    for (block, deploys) in &blocks {
        let header = stored_blocks::block(client, Sees::Latest, *block)
            .and_then(|kept| kept.header(&chain_id).ok())
            .ok_or_else(|| is_false(format!("There is no header of block {block}")))?;
        let bodies = deploys.iter().map(|(_, body)| body.as_slice());
        let decoded = bodies.clone().map(Transaction::decode);
        let request = Request {
            chain_id: chain_id.clone(),
            number: *block,
            order_height: header.order_height as i64,
            block_time: header.block_time,
            previous: header.previous,
            transactions: decoded.collect::<Result<_, _>>().map_err(is_false)?,
            indices: deploys.iter().map(|(index, _)| *index).collect(),
            bodies: bodies.collect(),
            runs: vec![0; deploys.len()],
            quarantined: Vec::new(),
            refused: Vec::new(),
            quarantine_all: false,
            effect_hashes: false,
        };
        let outcomes = spi::connected(|| defined_by(&request));
        for ((index, _), outcome) in deploys.iter().zip(outcomes) {
            outcome.map_err(|error| not_here(*block, *index, &error))?;
        }
    }
    Ok(())
}

/// It succeeded in the other organisations.
fn not_here(block: i64, index: u32, error: &PgError) -> PgError {
    let why = error.detail.as_deref().map(|detail| format!(" {detail}"));
    beyond_repair(format!(
        "Transaction {index} of block {block} changes definitions, and fails here: {}.{}",
        error.message,
        why.unwrap_or_default()
    ))
    .hint("Roles, extensions, and tables and procedures that were put on the ledger have to be here as they were agreed, the tables empty or as they were then.")
}

/// The ledger's own tables that no DEPLOY transaction puts on it.
fn attach_own(tables: &[Told], number: i64) {
    for own in ["planned", "planned_approval"] {
        let name = format!("chainify_ledger.{own}");
        if tables.iter().any(|table| table.name == name) {
            let sql = "SELECT chainify_ledger.attach_own($1, $2, 1)";
            spi::connected(|| spi::query(sql, &[cell(own), cell(number)], |_| ()));
        }
    }
}

/// Whether tables and definitions are now those of the state root.
fn check_made(client: &SpiClient<'_>, told: &States) -> Result<(), PgError> {
    let tables = locked(client)?;
    let expected = told.0.iter();
    let expected: BTreeSet<_> = expected
        .map(|told| (told.name.as_str(), &told.schema_hash[..]))
        .collect();
    let found = tables.iter();
    let found: BTreeSet<_> = found
        .map(|table| (table.name.as_str(), &table.schema_hash[..]))
        .collect();
    let differs = expected.symmetric_difference(&found).next();
    if let Some((name, _)) = differs {
        return Err(beyond_repair(format!(
            "Table {name} is not here, or is defined otherwise, after all DEPLOY transactions."
        ))
        .hint("The locale of the database has to be that of the other organisations: compare chainify.environment()."));
    }
    let made = Vec::from_iter(definitions::entry(client, Sees::Latest));
    if made != told.1 {
        return Err(beyond_repair(
            "Definitions are not those certified after all DEPLOY transactions.".into(),
        ));
    }
    check_definitions(client)?;
    for table in &tables {
        check_schema(client, table)?;
    }
    Ok(())
}

/// `chainify_node.join_rows(tbl, rows)`; contract in spec/sql-api.md. Types are read, and rows
/// written, with the rights of the table's owner.
fn join_rows(call: &mut Call) -> Answer {
    let name: String = call.required(0, "tbl");
    let buffer: Vec<u8> = call.required(1, "rows");
    let received = block_buffer::split(&buffer).map_err(is_false).or_raise();
    row_bytes::forget();
    unrecorded(|| {
        spi::connect(|client| {
            let table = joining(client, &name).or_raise();
            clear(client, &table);
            let cells = by_column(&table, &received).or_raise();
            let types = types(client, &table);
            by_owner(client, table.relation, table.live_name(), || {
                insert(&table, (table.live_name(), ""), true, &types, cells)
            });
        })
    });
    call.void()
}

/// Takes away what DEPLOY transactions left in the table, or what it was prepared with; once.
pub fn clear(client: &SpiClient<'_>, table: &LedgerTable) {
    let sql = format!("UPDATE {STATES} SET cleared = true WHERE name = $1 AND NOT cleared");
    let cleared = spi::connected(|| spi::execute(&sql, &[cell(table.name.clone())]));
    if cleared > 0 {
        let name = table.live_name();
        as_owner(client, table.relation, name, &format!("DELETE FROM {name}"));
    }
}

/// Raises 55000 unless this very transaction joins a ledger: `join_schema` made it this database's.
fn check_joining(client: &SpiClient<'_>) -> Result<(), PgError> {
    let sql = "SELECT FROM chainify_ledger.here WHERE xmin = pg_current_xact_id()::xid";
    let begun = Cursor::open(client, Sees::Latest, sql, &[])
        .next_row()
        .is_some();
    match begun && states_are_there(client) {
        true => Ok(()),
        false => Err(PgError::new(b"55000", "no ledger is being joined")),
    }
}

/// A table of the ledger that is being joined.
pub fn joining(client: &SpiClient<'_>, name: &str) -> Result<LedgerTable, PgError> {
    check_joining(client)?;
    let mut tables = ledger_tables::all(client, Sees::Latest).into_iter();
    let missing = || PgError::new(b"42P01", format!("table \"{name}\" is not on the ledger"));
    tables.find(|table| table.name == name).ok_or_else(missing)
}

/// `chainify_node.join_end(number)`; contract in spec/sql-api.md. Cost: a scan and a
/// copy of each table.
fn join_end(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    row_bytes::forget();
    unrecorded(|| {
        spi::connect(|client| {
            check_joining(client).or_raise();
            let (told, _) = told(client);
            let tables = locked(client).or_raise();
            for (table, told) in tables.iter().zip(&told) {
                take(client, table, told, number).or_raise();
            }
            checkpoints::make(number);
            spi::connected(|| {
                let sql = "INSERT INTO chainify_ledger.archived (place, block, dropped) VALUES ($1, $2, $2)";
                spi::query(sql, &[cell(ELSEWHERE), cell(number)], |_| ());
                let sql = "SELECT setval(h.relation::regclass, s.last_value, s.called)
                    FROM chainify_ledger.sequence s JOIN chainify_ledger.sequence_here h USING (name)";
                spi::query(sql, &[], |_| ());
                spi::query("SELECT chainify_ledger.announce_tables()", &[], |_| ());
                spi::query("SELECT chainify_ledger.open_tables()", &[], |_| ());
                spi::execute("TRUNCATE chainify_ledger.received", &[]);
            });
        })
    });
    call.void()
}

/// Takes a table over that scans to its state.
fn take(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    told: &Told,
    number: i64,
) -> Result<(), PgError> {
    let live = live_state(client, table);
    if table.name != told.name || table.state_hash(&live) != told.hash() {
        return Err(beyond_repair(format!(
            "The rows received of table {} do not give its certified state.",
            told.name
        )));
    }
    repair_running_state(table, &live);
    make_base(table, number);
    Ok(())
}
