-- Checkpoints (ledger/checkpoints.rs, recovery/fold_history.rs).

-- A checkpoint of the position, between two blocks.
CREATE FUNCTION chainify_node.checkpoint() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at_block bigint;
BEGIN
    LOCK TABLE chainify_ledger.block IN SHARE MODE;
    SELECT max(b.number) INTO at_block FROM chainify_ledger.block b;
    IF at_block IS NULL THEN
        RAISE EXCEPTION 'there is no block yet' USING ERRCODE = '55000';
    END IF;
    INSERT INTO chainify_ledger.checkpoint (block, table_id, row_count, schema_hash, table_state)
    SELECT at_block, t.id, s.row_count, t.schema_hash, chainify_ledger.table_state_hash(t.name, t.schema_hash, s.row_count, s.lanes)
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.table_state s ON s.table_id = t.id WHERE t.detached_at IS NULL
    ON CONFLICT DO NOTHING;
    RETURN at_block;
END
$$;

-- Brings the base forward to the oldest checkpoint kept, whole blocks of together at most changes_max changes, or one.
CREATE FUNCTION chainify_node.fold_history(changes_max bigint DEFAULT 10000, OUT block bigint, OUT changes bigint)
    AS 'MODULE_PATHNAME', 'chainify_fold_history' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

REVOKE ALL ON FUNCTION chainify_node.checkpoint, chainify_node.fold_history FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.checkpoint, chainify_node.fold_history TO chainify_node;

-- Those whose rows can be told. The base is at or before the oldest of them.
CREATE VIEW chainify.checkpoints AS
SELECT c.block,
       timestamptz 'epoch' + b.block_time * interval '1 microsecond' AS block_time,
       count(*)::integer AS tables,
       sum(c.row_count)::bigint AS rows,
       bool_and(t.base_block = c.block) AS is_base
FROM chainify_ledger.checkpoint c
JOIN chainify_ledger.ledger_table t ON t.id = c.table_id AND t.detached_at IS NULL
LEFT JOIN chainify_ledger.block b ON b.number = c.block
WHERE c.block >= t.base_block
GROUP BY c.block, b.block_time;

GRANT SELECT ON chainify.checkpoints TO chainify_reader, chainify_client;

-- Starts the database's maintenance worker (recovery/maintenance.rs), which ends by itself when there stays another one or no node is connected.
CREATE FUNCTION chainify_ledger.maintain() RETURNS boolean
    AS 'MODULE_PATHNAME', 'chainify_maintain' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.maintain FROM PUBLIC;

-- Reads a table and its base as one statement sees them, and records what is wrong (recovery/scrub.rs). NULL or 0 rows per second: as
-- fast as it can. findings is NULL when the table was rewritten meanwhile.
CREATE FUNCTION chainify_node.scrub(ledger_table regclass, rows_per_second bigint DEFAULT NULL,
                                    OUT block bigint, OUT rows bigint, OUT findings bigint)
    AS 'MODULE_PATHNAME', 'chainify_scrub' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;
REVOKE ALL ON FUNCTION chainify_node.scrub FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.scrub TO chainify_node;

-- Lets the maintenance worker read all tables as soon as it can, each once. For a block that met a row or an index that PostgreSQL cannot read.
CREATE FUNCTION chainify_node.scrub_soon() RETURNS void LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE chainify_ledger.scrubbed SET at = '-infinity' $$;
REVOKE ALL ON FUNCTION chainify_node.scrub_soon FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.scrub_soon TO chainify_node;
