-- The ledger's own tables. Only the extension's functions write them; readers see them through the views of schema chainify.

-- The chain this database belongs to: one row after chainify_node.init.
CREATE TABLE chainify_ledger.chain (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    chain_id     text NOT NULL,
    organisation text NOT NULL,
    consent      integer,                    -- c; NULL: the default for the number of organisations
    letters      text                        -- chainify_ledger.letters() of its database, '' for NULL; NULL: of before
);

-- The state of the database and its server at the last start of the node: chainify.environment().
CREATE TABLE chainify_ledger.environment (
    name  text PRIMARY KEY,
    value text
);

-- One row from the first block executed in this database on. A dump leaves it out (80_dump.sql): blocks without it were restored from one.
CREATE TABLE chainify_ledger.here (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    since    timestamptz NOT NULL DEFAULT now()
);

-- Which of the organisation's servers the node follows, as far as this one knows (docs/operator/failover.md). Physical copies have the row, and
-- standbys get it; a dump leaves it out. Of two servers with other marks, the one with the lower epoch was left behind.
CREATE TABLE chainify_ledger.fence (
    only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch             bigint NOT NULL CHECK (epoch > 0), -- grows with each server that the node goes over to
    mark              bytea NOT NULL CHECK (octet_length(mark) = 16), -- random, of the epoch
    system_identifier bigint NOT NULL,
    timeline          integer NOT NULL,      -- of the WAL when the node took the server
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    superseded_by     bigint                 -- the epoch of the server that the node follows now; NULL: none is known
);

-- Members by block, as the node told from the order (chainify_node.set_registry). A period begins with from_block and ends
-- before until_block; NULL: it goes on.

-- c of the ledger blocks from a number on; before, and where there is none, that of chain.
CREATE TABLE chainify_ledger.consent (
    from_block   bigint PRIMARY KEY,
    consent      integer NOT NULL
);

-- Organisations, a row for each gateway key that one had.
CREATE TABLE chainify_ledger.organisation (
    name          text NOT NULL,
    gateway_key   bytea NOT NULL,
    ordering_only boolean NOT NULL,
    from_block    bigint NOT NULL,
    until_block   bigint,
    PRIMARY KEY (name, from_block)
);

-- Whose consensus key signs effect votes.
CREATE TABLE chainify_ledger.validator (
    address      bytea NOT NULL,
    public_key   bytea NOT NULL,
    organisation text NOT NULL,
    from_block   bigint NOT NULL DEFAULT 1,
    until_block  bigint,
    PRIMARY KEY (address, from_block)
);

-- LedgerBlocks, field by field as in the hashed header (spec/formats.md).
CREATE TABLE chainify_ledger.block (
    number        bigint PRIMARY KEY,
    order_height  bigint NOT NULL,
    block_time    bigint NOT NULL,          -- microseconds since the Unix epoch
    tx_root       bytea NOT NULL,
    tx_count      integer NOT NULL,
    outcomes      bytea NOT NULL,
    effects_root  bytea NOT NULL,
    effects_count integer NOT NULL,
    state_root    bytea NOT NULL,
    previous_hash bytea NOT NULL,
    hash          bytea NOT NULL
);

CREATE TABLE chainify_ledger.transaction (
    block     bigint NOT NULL,
    index     integer NOT NULL,
    id        bytea NOT NULL,
    body      bytea NOT NULL,               -- ChainedTx as ordered
    succeeded boolean NOT NULL,
    rows      bigint NOT NULL,
    sqlstate  text,                          -- of a failure; not hashed
    message   text
);
-- Rows come block after block, which is what BRIN summarises, at a tenth of the cost of a B-tree: ranges of pages are summarised once they are full, by
-- autovacuum; those that are not yet are read. Ids are random and asked for by equality alone: a hash keeps four bytes of them. (A BRIN filter of ids would be
-- cheaper still, but the planner takes it for useless where values have no order.)
CREATE INDEX transaction_block ON chainify_ledger.transaction USING brin (block) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX transaction_id ON chainify_ledger.transaction USING hash (id);

CREATE TABLE chainify_ledger.certificate (
    number       bigint PRIMARY KEY,
    effect_round integer NOT NULL,
    hash         bytea NOT NULL,
    votes        jsonb NOT NULL
);

-- Tables on the ledger, one row per version: name, columns and key of a version never change but for names of columns and for
-- columns added that are NULL in every row. A version that ended keeps its row, and its history is read by it.
CREATE TABLE chainify_ledger.ledger_table (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text NOT NULL,            -- schema.name, unquoted: what is hashed
    relation       regclass NOT NULL,        -- these are of this database; a dump has their names
    history        regclass NOT NULL,
    checkpoint     regclass NOT NULL,
    schema_hash    bytea NOT NULL,
    attached_at    bigint NOT NULL,
    detached_at    bigint,
    base_block     bigint NOT NULL,          -- chainify_checkpoint.t holds the rows at the end of this block
    -- Transactions of these blocks: changes after the one and before the other are of this version.
    attached_tx    integer NOT NULL,
    detached_tx    integer,
    follows        integer,                 -- the version that a DEPLOY transaction ended
    -- Of a table with schema text 2 (spec/engines.md): that text, and the SHA-256 of this database's own words when it was attached.
    shared_text    text,
    wording        bytea,
    -- Lines of its schema text that tell of the database when it came on the ledger: letters; indexes that may refuse a row. NULL: none.
    beside         text,
    CHECK ((shared_text IS NULL) = (wording IS NULL))
);
CREATE UNIQUE INDEX ledger_table_attached_name ON chainify_ledger.ledger_table (name) WHERE detached_at IS NULL;

-- Ordinals are given once and never reused.
CREATE TABLE chainify_ledger.ledger_column (
    table_id integer NOT NULL REFERENCES chainify_ledger.ledger_table,
    ordinal  smallint NOT NULL, -- of one column of one type for good (X9)
    name     text NOT NULL,
    key_part smallint,                       -- position in the primary key, from 1
    attnum   smallint NOT NULL,              -- of the live table, in this database
    type     regtype NOT NULL,               -- the same; where it is a domain, history and checkpoint have the type below
    PRIMARY KEY (table_id, ordinal)
);

-- Objects that DEPLOY transactions made, altered or granted on, with what the state root says of them (spec/formats.md).
CREATE TABLE chainify_ledger.definition (
    class      oid NOT NULL,                 -- of this database
    object     oid NOT NULL,
    kind       text NOT NULL,
    identity   text NOT NULL,
    definition text NOT NULL,
    since      bigint NOT NULL,              -- block
    made       boolean NOT NULL,             -- by a DEPLOY transaction; it altered the others
    PRIMARY KEY (class, object)
);

-- The hash of all definitions: one row from the first DEPLOY transaction with statements on.
CREATE TABLE chainify_ledger.definitions (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    hash     bytea NOT NULL
);

-- Procedures on a ledger of several engines (spec/engines.md), one row per attachment.
CREATE TABLE chainify_ledger.procedure (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,               -- public.name
    signature   text NOT NULL,               -- logical types, in parentheses
    mariadb     bytea,                       -- SHA-256 of the engine's words, where the transaction has one
    postgresql  bytea,
    attached_at bigint NOT NULL,
    attached_tx integer NOT NULL,
    detached_at bigint,
    detached_tx integer
);
CREATE UNIQUE INDEX procedure_attached_name ON chainify_ledger.procedure (name) WHERE detached_at IS NULL;

-- The hash of those on the ledger: one row from the first attachment on.
CREATE TABLE chainify_ledger.procedures (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    hash     bytea NOT NULL
);

-- Roles that DEPLOY transactions named. Rights of other roles are an organisation's own matter.
CREATE TABLE chainify_ledger.governed_role (
    name text PRIMARY KEY
);

-- The running state of each attached table; changes in the block's own transaction. A page holds one row, so that the next versions
-- of it find room there and the table does not grow with every block until it is vacuumed.
CREATE TABLE chainify_ledger.table_state (
    table_id  integer PRIMARY KEY REFERENCES chainify_ledger.ledger_table,
    row_count bigint NOT NULL,
    lanes     bytea NOT NULL                 -- 1024 little-endian u16
) WITH (fillfactor = 25);
ALTER TABLE chainify_ledger.table_state ALTER COLUMN lanes SET STORAGE PLAIN;

-- Agreed states to restart from, at the ends of blocks: a row of each table then on the ledger. The rows of a checkpoint are those
-- of chainify_checkpoint.t overlaid with the history up to its block; nothing is copied when it is made.
CREATE TABLE chainify_ledger.checkpoint (
    block       bigint NOT NULL,
    table_id    integer NOT NULL REFERENCES chainify_ledger.ledger_table,
    row_count   bigint NOT NULL,
    schema_hash bytea NOT NULL,
    table_state bytea NOT NULL,
    PRIMARY KEY (block, table_id)
);

CREATE TABLE chainify_ledger.deviation (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    block         bigint NOT NULL,           -- that came out differently, or at whose end the scrubber found it
    since_block   bigint,                    -- the last one at whose end all was seen to be well; NULL when never looked
    found_by      text NOT NULL CHECK (found_by IN ('block', 'scrubber')),
    expected_hash bytea,
    found_hash    bytea,
    rows_total    bigint NOT NULL DEFAULT 0, -- that differed; a bounded number of them is in deviation_row
    cured_by      text,                      -- NULL while open
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    took          interval,
    again         integer NOT NULL DEFAULT 0, -- how often the scrubber had found the same before, each time after a repair
    due           timestamptz                 -- no repair before; NULL: at once
);
CREATE INDEX deviation_open ON chainify_ledger.deviation (id) WHERE cured_by IS NULL;

CREATE TABLE chainify_ledger.deviation_row (
    deviation bigint NOT NULL REFERENCES chainify_ledger.deviation,
    tbl       text NOT NULL,
    key       jsonb,
    expected  jsonb,
    found     jsonb
);

-- The last commit of each executor worker: beside the effects of its part of that block, what sealing the block needs of them
-- (spec/parallel.md). A block above the last LedgerBlock is half committed. One row for each worker, changed in place.
CREATE TABLE chainify_ledger.part (
    part           integer PRIMARY KEY,
    block          bigint NOT NULL,
    order_height   bigint NOT NULL,
    block_time     bigint NOT NULL,
    previous_hash  bytea NOT NULL,
    tx_root        bytea NOT NULL,
    quarantined    integer[] NOT NULL,
    quarantine_all boolean NOT NULL,
    nets           bytea NOT NULL            -- per table: rows and lanes
) WITH (fillfactor = 20);
ALTER TABLE chainify_ledger.part ALTER COLUMN nets SET STORAGE MAIN;

-- When the scrubber last read each table, and when all was well with it.
CREATE TABLE chainify_ledger.scrubbed (
    table_id    integer PRIMARY KEY,
    block       bigint NOT NULL,
    rows        bigint NOT NULL,
    findings    bigint NOT NULL,
    clean_block bigint,
    clean_at    timestamptz,                 -- of the pass that found all well
    at          timestamptz NOT NULL,
    took        interval NOT NULL
);

-- How far the scrubber has read the blocks that no checkpoint needs any more.
CREATE TABLE chainify_ledger.audited (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    block    bigint NOT NULL,                -- read up to here; 0 between two passes
    at       timestamptz                     -- when the last pass ended; NULL: the next is due at once
);

-- Blocks that it found to be kept otherwise than agreed. They come back from another organisation (recovery/take_over_block.rs).
CREATE TABLE chainify_ledger.false_block (
    number   bigint PRIMARY KEY,
    what     text NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How far the archive has the ledger, as the node verified it there, and up to which block this database dropped transactions, certificates and
-- history for that (recovery/drop_archived.rs). One row from the first range of the archive on.
CREATE TABLE chainify_ledger.archived (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place    text NOT NULL,
    block    bigint NOT NULL,
    dropped  bigint NOT NULL DEFAULT 0 CHECK (dropped <= block)
);

-- DEPLOY transactions that succeeded, each with the proof of its place in its block. They stay when the rest of the block is dropped: an
-- organisation that joins with an empty database runs them (recovery/join.rs).
CREATE TABLE chainify_ledger.deployed (
    block bigint NOT NULL,
    index integer NOT NULL,
    body  bytea NOT NULL,                    -- ChainedTx as ordered
    path  bytea NOT NULL,                    -- hashes, from the leaf up
    PRIMARY KEY (block, index)
);

-- Rows that came from other organisations for a database that joins empty, until it has joined: the next attempt goes on from them
-- (recovery/join_again.rs).
CREATE TABLE chainify_ledger.received (
    tbl   text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY, -- later ones count
    rows  bigint NOT NULL,
    cells bytea NOT NULL,                    -- u32 count ‖ per row lp(cells)
    PRIMARY KEY (tbl, place)
);
ALTER TABLE chainify_ledger.received ALTER COLUMN cells SET STORAGE EXTERNAL;

-- For executing all blocks again (recovery/start_over.rs): what a database held when tables and sequences came on the ledger, which no
-- block tells. Tables that DEPLOY transactions made begin empty, and are not here.
CREATE TABLE chainify_ledger.initial_table (
    name        text PRIMARY KEY,            -- schema.name, unquoted
    relation    regclass NOT NULL,
    rows        regclass,                    -- the table of schema chainify_initial that holds them; NULL: none
    row_count   bigint NOT NULL,
    schema_hash bytea NOT NULL,
    table_state bytea NOT NULL
);
CREATE TABLE chainify_ledger.initial_sequence (
    name       text PRIMARY KEY,
    last_value bigint NOT NULL,
    called     boolean NOT NULL
);

-- There while all blocks are executed again; until this one.
CREATE TABLE chainify_ledger.started_over (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    until_block bigint NOT NULL
);
