-- Rows and states as the analytics worker reads them, as chainify_reader (spec/analytics.md). Output functions and names of types depend on settings:
-- they are those of a block.

-- The parts of the state root after the last block.
CREATE VIEW chainify.state_parts AS
    SELECT t.name, t.state FROM chainify.tables t
    UNION ALL SELECT 'definitions', d.hash FROM chainify_ledger.definitions d
    UNION ALL SELECT 'procedures', p.hash FROM chainify_ledger.procedures p;
-- The same after an earlier block. Those of definitions and procedures are of now: a DEPLOY transaction since then makes the state root another one.
CREATE FUNCTION chainify.state_parts_at(block bigint) RETURNS TABLE (name text, state bytea)
    LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.tbl, s.state FROM chainify_ledger.block b, chainify_node.state_tables(b.number, b.hash) s WHERE b.number = state_parts_at.block
    UNION ALL SELECT 'definitions', d.hash FROM chainify_ledger.definitions d
    UNION ALL SELECT 'procedures', p.hash FROM chainify_ledger.procedures p
$$;
REVOKE ALL ON FUNCTION chainify.state_parts_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.state_parts_at TO chainify_reader;
GRANT SELECT ON chainify.state_parts TO chainify_reader;

CREATE FUNCTION chainify_ledger.mirrored_row(table_id integer, r record) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_mirrored_row' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 10;
-- The query of the changes of a table's version after block $1 up to block $2, in their order.
CREATE FUNCTION chainify_ledger.changes_of(table_id integer) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_changes_of' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.mirrored_row, chainify_ledger.changes_of FROM PUBLIC;

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

CREATE FUNCTION chainify.mirror_rows(table_id integer, block bigint) RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT chainify_ledger.mirrored_row(%s, r.v) FROM (%s) r', mirror_rows.table_id, chainify_ledger.rows_at(
        chainify_ledger.check_mirrored(mirror_rows.table_id), mirror_rows.block));
END
$$;
CREATE FUNCTION chainify.mirror_changes(table_id integer, after bigint, up_to bigint) RETURNS TABLE (block bigint, op "char", "row" bytea)
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off AS $$
BEGIN
    PERFORM chainify_ledger.check_mirrored(mirror_changes.table_id);
    IF after < (SELECT a.dropped FROM chainify_ledger.archived a) THEN
        RAISE EXCEPTION 'changes after block % are in the archive', after USING ERRCODE = '55000';
    END IF;
    RETURN QUERY EXECUTE chainify_ledger.changes_of(mirror_changes.table_id) USING after, up_to;
END
$$;
REVOKE ALL ON FUNCTION chainify.mirror_rows, chainify.mirror_changes FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.mirror_rows, chainify.mirror_changes TO chainify_reader;
