-- Receipts and digests (verify/receipt.rs, spec/receipt.md), a row through time (verify/row_history.rs).
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

-- The parts of a digest or receipt that the block kept here does not have; a malformed one raises 22023.
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
    AS 'MODULE_PATHNAME', 'chainify_as_of' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off;

-- The same for the views <table>_as_of, which say what columns there are. The name is that in chainify.tables.
CREATE FUNCTION chainify_ledger.rows_as_of(name text, block bigint) RETURNS SETOF record
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT (v).* FROM (%s) r', chainify_ledger.rows_at(
        (SELECT t.relation FROM chainify_ledger.ledger_table t WHERE t.name = rows_as_of.name AND t.detached_at IS NULL), block));
END
$$;

-- The block that chainify.as_of says: its number, or the last one at a time, which is read as the session reads times; empty: the last.
CREATE FUNCTION chainify_ledger.as_of_block() RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked text := coalesce(current_setting('chainify.as_of', true), '');
    found bigint;
BEGIN
    IF asked ~ '^[0-9]{1,18}$' THEN
        RETURN asked;
    END IF;
    SELECT b.number INTO found FROM chainify_ledger.block b
    WHERE asked = '' OR timestamptz 'epoch' + b.block_time * interval '1 microsecond' <= asked::timestamptz ORDER BY b.number DESC LIMIT 1;
    IF found IS NULL THEN
        RAISE EXCEPTION 'there was no block yet at %', asked USING ERRCODE = '22023', HINT = 'chainify.as_of is the number of a block, or a time.';
    END IF;
    RETURN found;
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.rows_as_of, chainify_ledger.as_of_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_ledger.rows_as_of, chainify_ledger.as_of_block TO chainify_reader;
REVOKE ALL ON FUNCTION chainify.receipt(bytea), chainify.receipt(regclass, "any"), chainify.digest, chainify.verify, chainify.history, chainify.as_of,
    chainify_ledger.digest_findings, chainify_ledger.rows_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.receipt(bytea), chainify.receipt(regclass, "any"), chainify.digest, chainify.verify, chainify.history, chainify.as_of
    TO chainify_reader;
