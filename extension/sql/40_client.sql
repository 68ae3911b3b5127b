-- Functions for users (entry/client.rs) and what they see of the ledger.
--
-- A parameter's text must mean the same in every organisation, so the settings that output functions look at are those
-- under which a block reads it. The functions check the caller's role themselves: their message says what to do.

CREATE FUNCTION chainify.execute(sql text, VARIADIC params "any")
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_execute' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex';

CREATE FUNCTION chainify.execute(sql text)
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_execute' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

CREATE FUNCTION chainify.submit(sql text, VARIADIC params "any") RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_submit' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex';

CREATE FUNCTION chainify.submit(sql text) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_submit' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION chainify.submit_batch(statements text[]) RETURNS bytea[]
    AS 'MODULE_PATHNAME', 'chainify_submit_batch' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION chainify.wait(tx_id bytea, timeout interval DEFAULT '30s')
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_wait' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;
REVOKE ALL ON FUNCTION chainify.wait FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.wait TO chainify_client;

-- Tables that refer to each other are attached by one call.
CREATE FUNCTION chainify.attach(VARIADIC tables text[])
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_attach' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

CREATE FUNCTION chainify.detach(VARIADIC tables text[])
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_detach' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

-- Lets the organisation try again after it was excluded.
CREATE FUNCTION chainify.rejoin() RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_rejoin' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify.rejoin FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.rejoin TO chainify_admin;

CREATE FUNCTION chainify_ledger.node_status()
    RETURNS TABLE (state text, version text, height bigint, ordered bigint, certified bigint, committed bigint,
                   peers bigint, organisations bigint, consent bigint, error text)
    AS 'MODULE_PATHNAME', 'chainify_node_status' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;
REVOKE ALL ON FUNCTION chainify_ledger.node_status FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_ledger.node_status TO chainify_reader, chainify_client;

-- No row for bytes that are no transaction, so that one tampered row does not hide the others.
CREATE FUNCTION chainify_ledger.decode_transaction(body bytea)
    RETURNS TABLE (organisation text, role text, kind text, sql text, parameters jsonb, client_key bytea)
    AS 'MODULE_PATHNAME', 'chainify_decode_transaction' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 1;

CREATE FUNCTION chainify_ledger.table_state_hash(name text, schema_hash bytea, row_count bigint, lanes bytea) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_table_state_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE VIEW chainify.ledger AS
SELECT b.number,
       b.order_height,
       timestamptz 'epoch' + b.block_time * interval '1 microsecond' AS block_time,
       b.hash,
       b.previous_hash,
       b.tx_count,
       bit_count(b.outcomes)::integer AS succeeded,
       b.effects_count,
       b.state_root,
       c.number IS NOT NULL OR b.number <= coalesce((SELECT a.dropped FROM chainify_ledger.archived a), 0) AS certified
FROM chainify_ledger.block b
LEFT JOIN chainify_ledger.certificate c ON c.number = b.number AND c.hash = b.hash;

-- Members by block, with their gateway keys.
CREATE VIEW chainify.organisations AS
SELECT o.name, o.from_block AS since_block, o.until_block, o.ordering_only, o.gateway_key,
       (SELECT coalesce(array_agg(v.public_key ORDER BY v.from_block, v.public_key), '{}') FROM chainify_ledger.validator v
        WHERE v.organisation = o.name AND v.from_block < coalesce(o.until_block, 'infinity'::numeric) AND o.from_block < coalesce(v.until_block, 'infinity'::numeric)
       ) AS validator_keys
FROM chainify_ledger.organisation o;

-- The blocks from which on others take part, with other keys, or other numbers of them have to agree than before.
CREATE VIEW chainify.registry_changes AS
SELECT p.block FROM (
    SELECT from_block FROM chainify_ledger.consent UNION SELECT from_block FROM chainify_ledger.organisation UNION SELECT until_block FROM chainify_ledger.organisation
    UNION SELECT from_block FROM chainify_ledger.validator UNION SELECT until_block FROM chainify_ledger.validator) p (block)
WHERE p.block > (SELECT min(from_block) FROM chainify_ledger.organisation);

CREATE VIEW chainify.transactions AS
SELECT t.block,
       t.index,
       t.id,
       d.organisation,
       d.role,
       d.kind,
       d.sql,
       d.parameters,
       t.succeeded AS outcome,
       t.rows,
       t.sqlstate,
       t.message AS error,
       timestamptz 'epoch' + b.block_time * interval '1 microsecond' AS block_time,
       d.client_key                         -- of the client that signed it; NULL: its organisation's gateway vouched for the role
FROM chainify_ledger.transaction t
LEFT JOIN chainify_ledger.block b ON b.number = t.block
LEFT JOIN LATERAL chainify_ledger.decode_transaction(t.body) d ON true;

CREATE VIEW chainify.tables AS
SELECT l.name,
       l.attached_at,
       s.row_count AS rows,
       chainify_ledger.table_state_hash(l.name, l.schema_hash, s.row_count, s.lanes) AS state,
       c.clean_block AS scrubbed_block,
       nullif(c.at, '-infinity') AS scrubbed_at
FROM chainify_ledger.ledger_table l
LEFT JOIN chainify_ledger.table_state s ON s.table_id = l.id
LEFT JOIN chainify_ledger.scrubbed c ON c.table_id = l.id
WHERE l.detached_at IS NULL;

CREATE VIEW chainify.deviations AS
SELECT d.id, d.block, d.since_block, d.found_by, d.expected_hash, d.found_hash, r.tbl, r.key, r.expected, r.found, d.rows_total,
       d.cured_by, d.started_at, d.took, d.again, d.due
FROM chainify_ledger.deviation d
LEFT JOIN chainify_ledger.deviation_row r ON r.deviation = d.id;

CREATE VIEW chainify.status AS
SELECT c.organisation,
       c.chain_id,
       b.number AS last_block,
       b.hash AS last_hash,
       n.state,
       n.height,
       n.ordered,
       n.certified,
       n.committed,
       n.peers,
       n.organisations,
       n.consent,
       n.version AS node_version,
       n.error,
       -- Rows may not be those agreed on: something was found that is not put right yet, or blocks come to another server.
       EXISTS (SELECT FROM chainify_ledger.fence f WHERE f.superseded_by IS NOT NULL)
           OR EXISTS (SELECT FROM chainify_ledger.deviation d WHERE d.cured_by IS NULL)
           OR coalesce(n.state IN ('recovering', 'excluded'), false) AS stale
FROM chainify_ledger.node_status() n
LEFT JOIN chainify_ledger.chain c ON true
LEFT JOIN LATERAL (SELECT number, hash FROM chainify_ledger.block ORDER BY number DESC LIMIT 1) b ON true;

GRANT SELECT ON chainify.ledger, chainify.organisations, chainify.registry_changes, chainify.transactions, chainify.tables, chainify.deviations, chainify.status TO chainify_reader;
-- Clients may see views that show no row of a ledger table.
GRANT SELECT ON chainify.ledger, chainify.tables, chainify.status TO chainify_client;
