-- Receipts and digests (api/receipt.rs, spec/receipt.md), a row through time (api/row_history.rs).
--
-- They read with the rights of the extension's owner, as verification does (50_verify.sql), for readers.

CREATE FUNCTION chainify.receipt(transaction bytea) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'chainify_receipt_of_transaction' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

CREATE FUNCTION chainify.receipt(ledger_table regclass, VARIADIC key "any") RETURNS jsonb
    AS 'MODULE_PATHNAME', 'chainify_receipt_of_row' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

CREATE FUNCTION chainify.digest(block bigint DEFAULT NULL) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'chainify_digest_of' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET row_security = on;

-- What of a digest or receipt the block kept here does not have; a malformed one raises 22023.
CREATE FUNCTION chainify_ledger.digest_findings(digest jsonb) RETURNS TABLE (block bigint, what text, detail text)
    AS 'MODULE_PATHNAME', 'chainify_digest_findings' LANGUAGE C STABLE PARALLEL UNSAFE;

-- The database still extends the digest: everything is read and computed again, the ledger from the first block on and every table.
CREATE FUNCTION chainify.verify(digest jsonb) RETURNS TABLE (block bigint, what text, detail text)
    LANGUAGE sql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.block, d.what, d.detail FROM chainify_ledger.digest_findings(digest) d
    UNION ALL
    SELECT l.block, l.what, l.detail FROM chainify.verify_ledger() l
    UNION ALL
    SELECT (SELECT max(b.number) FROM chainify_ledger.block b), v.what,
           v.tbl || coalesce(' ' || v.key::text, '') || ': expected ' || coalesce(v.expected::text, 'nothing')
               || ', found ' || coalesce(v.found::text, 'nothing')
    FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL
$$;

CREATE FUNCTION chainify.history(ledger_table regclass, VARIADIC key "any")
    RETURNS TABLE (block bigint, tx integer, op text, "row" jsonb, block_time timestamptz, transaction bytea, organisation text, role text)
    AS 'MODULE_PATHNAME', 'chainify_history' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

-- The query of a table's rows at the end of a block, with one column.
CREATE FUNCTION chainify_ledger.rows_at(relation oid, block bigint) RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_rows_at' LANGUAGE C STABLE PARALLEL UNSAFE;

CREATE FUNCTION chainify.as_of(of anyelement, block bigint) RETURNS SETOF anyelement
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT (v).* FROM (%s) r',
        chainify_ledger.rows_at((SELECT t.typrelid FROM pg_type t WHERE t.oid = pg_typeof(of)), block));
END
$$;

REVOKE ALL ON FUNCTION chainify.receipt(bytea), chainify.receipt(regclass, "any"), chainify.digest, chainify.verify, chainify.history, chainify.as_of,
    chainify_ledger.digest_findings, chainify_ledger.rows_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.receipt(bytea), chainify.receipt(regclass, "any"), chainify.digest, chainify.verify, chainify.history, chainify.as_of
    TO chainify_reader;
