-- Blocks before the base of the checkpoints: reading them (recovery/earlier_blocks.rs), telling one, and taking one over (recovery/take_over_block.rs).

CREATE FUNCTION chainify_node.audit(changes_max bigint DEFAULT 10000, OUT block bigint, OUT findings bigint)
    AS 'MODULE_PATHNAME', 'chainify_audit' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

CREATE FUNCTION chainify_node.block_parts(number bigint, hash bytea) RETURNS TABLE (place integer, part bytea)
    AS 'MODULE_PATHNAME', 'chainify_block_parts' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

CREATE FUNCTION chainify_node.stage_changes(number bigint, changes bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_stage_changes' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on;

CREATE FUNCTION chainify_node.restore_block(number bigint, certified_hash bytea, header bytea, transactions bytea) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_restore_block' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on
    SET statement_timeout = 0 SET lock_timeout = 0 SET jit = off;

-- The block after the last one, with the changes staged in place of its transactions (recovery/adopt.rs). Rows are found by index, whatever the
-- planner knows of their tables.
CREATE FUNCTION chainify_node.adopt_block(
        number bigint, order_height bigint, block_time bigint, previous_hash bytea, transactions bytea,
        quarantined integer[], quarantine_all boolean, certified_hash bytea, header bytea,
        refused integer[] DEFAULT NULL, refused_sqlstates text[] DEFAULT NULL, refused_messages text[] DEFAULT NULL,
        OUT hash bytea, OUT sealed bytea, OUT outcomes bytea, OUT rows bigint[], OUT sqlstates text[], OUT messages text[],
        OUT transaction_effects bytea[])
    AS 'MODULE_PATHNAME', 'chainify_adopt_block' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET session_replication_role = replica
    SET statement_timeout = 0 SET lock_timeout = 0 SET jit = off SET enable_seqscan = off;

REVOKE ALL ON FUNCTION chainify_node.adopt_block, chainify_node.audit, chainify_node.block_parts, chainify_node.stage_changes, chainify_node.restore_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.adopt_block, chainify_node.audit, chainify_node.block_parts, chainify_node.stage_changes, chainify_node.restore_block TO chainify_node;
