-- Rows and states as the analytics worker reads them, as chainify_reader (spec/analytics.md). Output functions and names of types depend on settings:
-- they are those of a block.

-- The parts of the state root after the last block.
CREATE VIEW chainify.state_parts AS
    SELECT t.name, t.state FROM chainify.tables t
    UNION ALL SELECT 'definitions', d.hash FROM chainify_ledger.definitions d
    UNION ALL SELECT 'procedures', p.hash FROM chainify_ledger.procedures p;
-- The same after an earlier block. Those of definitions and procedures are of now: a DEPLOY transaction since then makes the state root another one.
CREATE FUNCTION chainify.state_parts_at(block bigint) RETURNS TABLE (name text, state bytea)
    LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = on AS $$
    SELECT s.tbl, s.state FROM chainify_ledger.block b, chainify_node.state_tables(b.number, b.hash) s WHERE b.number = state_parts_at.block
    UNION ALL SELECT 'definitions', d.hash FROM chainify_ledger.definitions d
    UNION ALL SELECT 'procedures', p.hash FROM chainify_ledger.procedures p
$$;
REVOKE ALL ON FUNCTION chainify.state_parts_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.state_parts_at TO chainify_reader;
GRANT SELECT ON chainify.state_parts TO chainify_reader;

CREATE FUNCTION chainify_ledger.check_mirrored(table_id integer) RETURNS oid
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found oid := (SELECT m.relation FROM chainify.mirrored_tables m WHERE m.table_id = check_mirrored.table_id);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'version % of a table is not to be mirrored', coalesce(check_mirrored.table_id::text, 'NULL') USING ERRCODE = '55000';
    END IF;
    RETURN found;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.check_mirrored FROM PUBLIC;

-- Pieces of a few hundred kilobytes, each made when it is asked for. In a select list the first goes out before the last row is read. Whole tables are
-- read, whatever the worker has set for its other statements.
CREATE FUNCTION chainify.mirror_rows(table_id integer, block bigint) RETURNS SETOF bytea
    AS 'MODULE_PATHNAME', 'chainify_mirror_rows' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off SET enable_seqscan = on;
-- The plan is kept while the history grows, so it has to be one by the index whatever the size now.
CREATE FUNCTION chainify.mirror_changes(table_id integer, after bigint, up_to bigint) RETURNS SETOF bytea
    AS 'MODULE_PATHNAME', 'chainify_mirror_changes' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off SET enable_seqscan = off;
REVOKE ALL ON FUNCTION chainify.mirror_rows, chainify.mirror_changes FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.mirror_rows, chainify.mirror_changes TO chainify_reader;
