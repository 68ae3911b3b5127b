-- The archive (spec/archive.md): what the node reads for it, and dropping what it has (verify/archived.rs, recovery/drop_archived.rs).
-- Rows are looked for by the indexes by block. PostgreSQL's estimates take these for useless where new rows have the place of dropped ones.

-- Certified blocks, with their certificates.
CREATE FUNCTION chainify_node.archive_blocks(from_block bigint, to_block bigint)
    RETURNS TABLE (number bigint, order_height bigint, block_time bigint, tx_root bytea, tx_count integer, outcomes bytea, effects_root bytea,
                   effects_count integer, state_root bytea, previous_hash bytea, hash bytea, effect_round integer, votes jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT b.number, b.order_height, b.block_time, b.tx_root, b.tx_count, b.outcomes, b.effects_root, b.effects_count, b.state_root,
           b.previous_hash, b.hash, c.effect_round, c.votes
    FROM chainify_ledger.block b JOIN chainify_ledger.certificate c ON c.number = b.number
    WHERE b.number BETWEEN from_block AND to_block ORDER BY b.number
$$;

CREATE FUNCTION chainify_node.archive_transactions(from_block bigint, to_block bigint)
    RETURNS TABLE (block bigint, index integer, id bytea, body bytea, succeeded boolean, rows bigint, sqlstate text, message text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT t.block, t.index, t.id, t.body, t.succeeded, t.rows, coalesce(t.sqlstate, ''), coalesce(t.message, '')
    FROM chainify_ledger.transaction t WHERE t.block BETWEEN from_block AND to_block ORDER BY t.block, t.index
$$;

-- In the order of the leaves of each block's effects.
CREATE FUNCTION chainify_node.archive_changes(from_block bigint, to_block bigint)
    RETURNS TABLE (block bigint, tbl text, key bytea, serial integer, tx integer, op text, "row" bytea)
    AS 'MODULE_PATHNAME', 'chainify_archive_changes' LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
    SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off SET row_security = on SET jit = off
    SET enable_seqscan = off;

-- The definitions that the state root covers after the last block: of each table its schema text (encoding 1 or 2), rows and lanes; of the other definitions, and
-- of procedures, a hash (encoding 0). In the order of the state root.
CREATE FUNCTION chainify_node.archive_definitions()
    RETURNS TABLE (block bigint, name text, encoding integer, text text, rows bigint, state bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
    SET TimeZone = 'UTC' SET extra_float_digits = 1 SET bytea_output = 'hex' SET quote_all_identifiers = off AS $$
    WITH last (block) AS (SELECT max(b.number) FROM chainify_ledger.block b)
    SELECT last.block, s.* FROM last, LATERAL (
        SELECT t.name, CASE WHEN t.wording IS NULL THEN 1 ELSE 2 END,
               CASE WHEN t.wording = sha256(convert_to(w.words, 'UTF8')) THEN t.shared_text ELSE w.words END, r.row_count, r.lanes
        FROM chainify_ledger.ledger_table t JOIN chainify_ledger.table_state r ON r.table_id = t.id,
             LATERAL (SELECT chainify_ledger.schema_text(t.relation)) w (words)
        WHERE t.detached_at IS NULL
        UNION ALL SELECT 'definitions', 0, '', 0, d.hash FROM chainify_ledger.definitions d
        UNION ALL SELECT 'procedures', 0, '', 0, p.hash FROM chainify_ledger.procedures p) s (name, encoding, text, rows, state)
    WHERE last.block IS NOT NULL ORDER BY s.name COLLATE "C"
$$;

-- Names and types of columns by ordinal, for each version of a table. The definitions prove the names of the newest versions.
CREATE FUNCTION chainify_node.archive_columns()
    RETURNS TABLE (tbl text, since_block bigint, since_tx integer, ordinal integer, name text, type text, key_part integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.name, t.attached_at, t.attached_tx, c.ordinal::integer, c.name,
           coalesce((SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
                     WHERE a.attrelid = t.history AND a.attname = c.name::name AND NOT a.attisdropped), ''), coalesce(c.key_part, 0)::integer
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.ledger_column c ON c.table_id = t.id
    ORDER BY t.name COLLATE "C", t.attached_at, t.attached_tx, c.ordinal
$$;

-- How far the archive has the ledger; no row before it has any of it.
CREATE FUNCTION chainify_node.archived() RETURNS TABLE (place text, block bigint, dropped bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.place, a.block, a.dropped FROM chainify_ledger.archived a
$$;

-- The node has verified the archive up to this block. Raises 22023 when the block is another one here, or one before those dropped.
CREATE FUNCTION chainify_node.set_archived(place text, block bigint, hash bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM chainify_ledger.block b WHERE b.number = set_archived.block AND b.hash = set_archived.hash) THEN
        RAISE EXCEPTION 'there is no block % of that hash here', set_archived.block USING ERRCODE = '22023';
    END IF;
    IF set_archived.block < (SELECT a.dropped FROM chainify_ledger.archived a) THEN
        RAISE EXCEPTION 'block % was dropped already', set_archived.block USING ERRCODE = '22023';
    END IF;
    INSERT INTO chainify_ledger.archived AS a (place, block) VALUES (set_archived.place, set_archived.block)
    ON CONFLICT (only_row) DO UPDATE SET place = excluded.place, block = excluded.block;
END
$$;

-- Drops what the archive has of blocks that are not among the newest keep_blocks; whole blocks of at most rows_max rows together, or one.
CREATE FUNCTION chainify_node.drop_archived(keep_blocks bigint, rows_max bigint DEFAULT 10000, OUT block bigint, OUT rows bigint)
    AS 'MODULE_PATHNAME', 'chainify_drop_archived' LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET row_security = on SET jit = off SET enable_seqscan = off;

REVOKE ALL ON FUNCTION chainify_node.archive_blocks, chainify_node.archive_transactions, chainify_node.archive_changes, chainify_node.archive_columns,
    chainify_node.archive_definitions, chainify_node.archived, chainify_node.set_archived, chainify_node.drop_archived FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.archive_blocks, chainify_node.archive_transactions, chainify_node.archive_changes, chainify_node.archive_columns,
    chainify_node.archive_definitions, chainify_node.archived, chainify_node.set_archived, chainify_node.drop_archived TO chainify_node;
