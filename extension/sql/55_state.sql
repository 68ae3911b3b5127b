-- Rows from another organisation: what it is asked (recovery/tell_rows.rs), and taking them over (recovery/repair_from_peer.rs).

CREATE FUNCTION chainify_ledger.key_range(key bytea, bits integer) RETURNS integer
    AS 'MODULE_PATHNAME', 'chainify_key_range' LANGUAGE C IMMUTABLE STRICT PARALLEL UNSAFE COST 10;
REVOKE ALL ON FUNCTION chainify_ledger.key_range FROM PUBLIC;

CREATE FUNCTION chainify_node.state_tables(number bigint, hash bytea) RETURNS TABLE (tbl text, rows bigint, state bytea)
    AS 'MODULE_PATHNAME', 'chainify_state_tables' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

CREATE FUNCTION chainify_node.state_ranges(number bigint, tbl text, of_bits integer, of_ranges integer[], bits integer)
    RETURNS TABLE (range integer, rows bigint, digest bytea)
    AS 'MODULE_PATHNAME', 'chainify_state_ranges' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

CREATE FUNCTION chainify_node.state_rows(number bigint, tbl text, bits integer, ranges integer[]) RETURNS TABLE (range integer, cells bytea)
    AS 'MODULE_PATHNAME', 'chainify_state_rows' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

CREATE FUNCTION chainify_node.stage_rows(tbl text, rows bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_stage_rows' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on;

CREATE FUNCTION chainify_node.restore(number bigint, certified_hash bytea, deviating_block bigint, found_hash bytea, tables jsonb)
    RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb)
    AS 'MODULE_PATHNAME', 'chainify_restore' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica
    SET statement_timeout = 0 SET lock_timeout = 0
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

-- For an organisation that joins with an empty database: what it is told (recovery/tell_foundation.rs), and taking it over, in one transaction
-- (recovery/join.rs).
CREATE FUNCTION chainify_node.foundation(number bigint, hash bytea) RETURNS TABLE (place integer, part bytea)
    AS 'MODULE_PATHNAME', 'chainify_foundation' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET jit = off;

CREATE FUNCTION chainify_node.join_parts(number bigint, certified_hash bytea, parts bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_join_parts' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION chainify_node.join_schema(number bigint, certified_hash bytea) RETURNS TABLE (tbl text, rows bigint)
    AS 'MODULE_PATHNAME', 'chainify_join_schema' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION chainify_node.join_rows(tbl text, rows bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_join_rows' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica;

-- Rows received outlast an attempt that ends: they are kept on a connection of its own, and taken by the next one.
CREATE FUNCTION chainify_node.keep_received(tbl text, rows bigint, cells bytea) RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ INSERT INTO chainify_ledger.received (tbl, rows, cells) SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM chainify_ledger.here) $$;

CREATE FUNCTION chainify_node.forget_received(tbl text) RETURNS void
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ DELETE FROM chainify_ledger.received r WHERE r.tbl = $1 $$;

CREATE FUNCTION chainify_node.join_received(tbl text, most bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'chainify_join_received' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica;

CREATE FUNCTION chainify_node.join_without(tbl text, bits integer, ranges integer[]) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_join_without' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET session_replication_role = replica;

CREATE FUNCTION chainify_node.join_end(number bigint) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_join_end' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica
    SET statement_timeout = 0 SET lock_timeout = 0;

REVOKE ALL ON FUNCTION chainify_node.state_tables, chainify_node.state_ranges, chainify_node.state_rows, chainify_node.stage_rows, chainify_node.restore, chainify_node.foundation,
    chainify_node.join_parts, chainify_node.join_schema, chainify_node.join_rows, chainify_node.keep_received, chainify_node.forget_received, chainify_node.join_received,
    chainify_node.join_without, chainify_node.join_end FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.state_tables, chainify_node.state_ranges, chainify_node.state_rows, chainify_node.stage_rows, chainify_node.restore, chainify_node.foundation,
    chainify_node.join_parts, chainify_node.join_schema, chainify_node.join_rows, chainify_node.keep_received, chainify_node.forget_received, chainify_node.join_received,
    chainify_node.join_without, chainify_node.join_end TO chainify_node;
