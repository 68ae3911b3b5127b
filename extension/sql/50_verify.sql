-- Verification and repair (verify/ledger.rs, verify/table.rs, recovery/repair.rs).
--
-- Verification reads every table on the ledger with the rights of the extension's owner, for readers who may see the
-- history but not the tables. It takes a table or numbers, never SQL, and calls nothing that a user could have defined.
-- Scans are sequential: an index may be what is wrong. Settings that output functions and names of types depend on are those of a block.

-- Canonical bytes of rows; for the functions below.
CREATE FUNCTION chainify_ledger.encoded_row(table_id integer, r record) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_encoded_row' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 10;
CREATE FUNCTION chainify_ledger.row_as(of anyelement, "row" record) RETURNS anyelement
    AS 'MODULE_PATHNAME', 'chainify_row_as' LANGUAGE C STABLE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.row_as FROM PUBLIC;
CREATE FUNCTION chainify_ledger.encoded_key(table_id integer, r record) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_encoded_key' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 10;
REVOKE ALL ON FUNCTION chainify_ledger.encoded_row, chainify_ledger.encoded_key FROM PUBLIC;

CREATE FUNCTION chainify.row_hash(r record) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_row_hash' LANGUAGE C STABLE STRICT PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off;
REVOKE ALL ON FUNCTION chainify.row_hash FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.row_hash TO chainify_reader;

CREATE FUNCTION chainify.verify_ledger(from_block bigint DEFAULT 1, to_block bigint DEFAULT NULL)
    RETURNS TABLE (block bigint, what text, detail text)
    AS 'MODULE_PATHNAME', 'chainify_verify_ledger' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;
REVOKE ALL ON FUNCTION chainify.verify_ledger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.verify_ledger TO chainify_reader;

CREATE FUNCTION chainify.verify_table(ledger_table regclass)
    RETURNS TABLE (tbl text, what text, key jsonb, expected jsonb, found jsonb)
    AS 'MODULE_PATHNAME', 'chainify_verify_table' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;
REVOKE ALL ON FUNCTION chainify.verify_table FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.verify_table TO chainify_reader;

CREATE FUNCTION chainify_node.store_certificate(number bigint, effect_round integer, hash bytea, votes jsonb) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_store_certificate' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp;

-- Replica: neither foreign keys nor the owner's triggers act on what is put right.
CREATE FUNCTION chainify_node.repair(number bigint, certified_hash bytea, deviating_block bigint, found_hash bytea, step text DEFAULT 'rows')
    RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb)
    AS 'MODULE_PATHNAME', 'chainify_repair' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica
    SET statement_timeout = 0 SET lock_timeout = 0
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

CREATE FUNCTION chainify_node.record_deviation(deviating_block bigint, expected_hash bytea, found_hash bytea, cured_by text, took interval)
    RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_record_deviation' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp;

REVOKE ALL ON FUNCTION chainify_node.store_certificate, chainify_node.repair, chainify_node.record_deviation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.store_certificate, chainify_node.repair, chainify_node.record_deviation TO chainify_node;

-- The keys that a block changed, and the rows of such keys put right (recovery/repair_by_key.rs). By index, whatever
-- the planner knows of their tables: the block shows whether it helped.
CREATE FUNCTION chainify_ledger.changed_keys(number bigint) RETURNS TABLE (table_id integer, keys jsonb)
    AS 'MODULE_PATHNAME', 'chainify_changed_keys' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off SET enable_seqscan = off;
CREATE FUNCTION chainify_ledger.put_keys_right(number bigint, found_hash bytea, table_ids integer[], keys jsonb[])
    RETURNS TABLE (table_id integer, key bytea)
    AS 'MODULE_PATHNAME', 'chainify_put_keys_right' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica
    SET statement_timeout = 0 SET lock_timeout = 0 SET jit = off SET enable_seqscan = off;
REVOKE ALL ON FUNCTION chainify_ledger.changed_keys, chainify_ledger.put_keys_right FROM PUBLIC;

-- Puts the ledger's triggers on a table as attach made them, whatever is there.
CREATE FUNCTION chainify_ledger.restore_triggers(tbl regclass) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT chainify_ledger.drop_triggers(tbl);
    SELECT chainify_ledger.make_triggers(tbl)
$$;
REVOKE ALL ON FUNCTION chainify_ledger.restore_triggers FROM PUBLIC;
