-- Queries at a block, which the analytics worker answers from its mirrors (spec/analytics.md). All of this is of this database alone and not on
-- the ledger.

-- Tables that the worker mirrors, by their names on the ledger: a DEPLOY transaction may make a new version of one.
CREATE TABLE chainify_ledger.mirror (
    name  text PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);

-- Snapshots that outlive newer blocks. The worker makes them again after a restart.
CREATE TABLE chainify_ledger.snapshot_pin (
    name  text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    block bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION chainify_ledger.mirrored() RETURNS TABLE (relation oid, table_id integer, name text, since timestamptz)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.relation::oid, t.id, t.name, m.since FROM chainify_ledger.mirror m JOIN chainify_ledger.ledger_table t ON t.name = m.name AND t.detached_at IS NULL
$$;
REVOKE ALL ON FUNCTION chainify_ledger.mirrored FROM PUBLIC;

-- The tables to mirror. The worker reads them, and the rows and states of 59_mirror.sql, as chainify_reader.
CREATE VIEW chainify.mirrored_tables AS
    SELECT t.id AS table_id, t.name, t.relation::oid AS relation, m.since, t.schema_hash, t.attached_at
    FROM chainify_ledger.mirror m JOIN chainify_ledger.ledger_table t ON t.name = m.name AND t.detached_at IS NULL;
CREATE VIEW chainify.mirrored_columns AS
    WITH RECURSIVE plain AS (
        SELECT m.table_id, c.ordinal, c.attnum, c.key_part, a.atttypid AS type, a.atttypmod AS modifier
        FROM chainify.mirrored_tables m JOIN chainify_ledger.ledger_column c ON c.table_id = m.table_id
        JOIN pg_attribute a ON a.attrelid = m.relation AND a.attnum = c.attnum AND NOT a.attisdropped
        UNION ALL
        SELECT p.table_id, p.ordinal, p.attnum, p.key_part, y.typbasetype, CASE WHEN p.modifier = -1 THEN y.typtypmod ELSE p.modifier END
        FROM plain p JOIN pg_type y ON y.oid = p.type AND y.typtype = 'd')
    SELECT p.table_id, p.ordinal, p.attnum, p.key_part IS NOT NULL AS of_key, p.type, p.modifier
    FROM plain p JOIN pg_type y ON y.oid = p.type AND y.typtype <> 'd';
CREATE VIEW chainify.snapshot_pins AS SELECT name, block, since FROM chainify_ledger.snapshot_pin;
GRANT SELECT ON chainify.mirrored_tables, chainify.mirrored_columns, chainify.snapshot_pins TO chainify_reader;

CREATE FUNCTION chainify.mirror(VARIADIC tables regclass[]) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted regclass;
    ledger_name text;
BEGIN
    FOREACH wanted IN ARRAY tables LOOP
        SELECT t.name INTO ledger_name FROM chainify_ledger.ledger_table t WHERE t.relation = wanted AND t.detached_at IS NULL;
        IF ledger_name IS NULL THEN
            RAISE EXCEPTION 'table % is not on the ledger', wanted USING ERRCODE = '55000', HINT = 'Only tables that chainify.attach has put there are mirrored.';
        END IF;
        INSERT INTO chainify_ledger.mirror (name) VALUES (ledger_name) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- By names: a table that was detached or dropped has none of its own any more.
CREATE FUNCTION chainify.unmirror(VARIADIC tables regclass[]) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unwanted regclass;
BEGIN
    FOREACH unwanted IN ARRAY tables LOOP
        DELETE FROM chainify_ledger.mirror m USING pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = unwanted AND m.name = n.nspname || '.' || c.relname;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'table % is not mirrored', unwanted USING ERRCODE = '55000';
        END IF;
    END LOOP;
    -- Those of tables that are gone end with the next call.
    DELETE FROM chainify_ledger.mirror m WHERE NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t WHERE t.name = m.name AND t.detached_at IS NULL);
END
$$;

CREATE FUNCTION chainify_ledger.worker_mirrors()
    RETURNS TABLE (table_id integer, rows bigint, bytes bigint, chunks bigint, chunks_shared bigint, block bigint, lag bigint, digest_checked bigint,
                   state text, error text)
    AS 'MODULE_PATHNAME', 'chainify_worker_mirrors' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
CREATE FUNCTION chainify_ledger.worker_snapshots()
    RETURNS TABLE (name text, block bigint, pinned boolean, bytes bigint, readers bigint)
    AS 'MODULE_PATHNAME', 'chainify_worker_snapshots' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
CREATE FUNCTION chainify_ledger.tell_worker(command text) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_tell_worker' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify_ledger.worker_mirrors, chainify_ledger.worker_snapshots, chainify_ledger.tell_worker FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_ledger.worker_mirrors, chainify_ledger.worker_snapshots TO chainify_reader, chainify_admin;

CREATE VIEW chainify.mirrors AS
    SELECT m.name AS "table", w.rows, w.bytes, w.chunks, w.chunks_shared, w.block, w.lag, w.digest_checked,
           coalesce(w.state, CASE WHEN m.table_id IS NULL THEN 'not on the ledger' ELSE 'waiting' END) AS state, w.error, m.since
    FROM (SELECT k.name, k.since, t.id AS table_id FROM chainify_ledger.mirror k
          LEFT JOIN chainify_ledger.ledger_table t ON t.name = k.name AND t.detached_at IS NULL) m
    LEFT JOIN chainify_ledger.worker_mirrors() w ON w.table_id = m.table_id OR w.table_id IS NULL AND w.state = 'no worker';
CREATE VIEW chainify.snapshots AS
    SELECT coalesce(p.name, w.name) AS name, coalesce(p.block, w.block) AS block, p.name IS NOT NULL AS pinned, w.bytes, w.readers, p.since
    FROM chainify_ledger.snapshot_pin p FULL JOIN chainify_ledger.worker_snapshots() w ON w.name = p.name AND w.block = p.block;
GRANT SELECT ON chainify.mirrors, chainify.snapshots TO chainify_reader, chainify_admin;

CREATE FUNCTION chainify.pin_snapshot(block bigint, name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint := (SELECT max(b.number) FROM chainify_ledger.block b);
    wanted bigint := coalesce(pin_snapshot.block, last);
BEGIN
    IF wanted IS NULL OR wanted NOT BETWEEN 0 AND coalesce(last, 0) THEN
        RAISE EXCEPTION 'block % is not in this database', coalesce(wanted::text, 'NULL') USING ERRCODE = '22023';
    END IF;
    IF pin_snapshot.name IS NULL OR pin_snapshot.name !~ '^[A-Za-z0-9_.-]{1,63}$' THEN
        RAISE EXCEPTION 'name of a snapshot is not valid' USING ERRCODE = '22023', HINT = 'It has 1 to 63 letters, digits, dots, dashes and underscores.';
    END IF;
    INSERT INTO chainify_ledger.snapshot_pin AS p (name, block) VALUES (pin_snapshot.name, wanted);
    PERFORM chainify_ledger.tell_worker(format('CHAINIFY PIN %L AT %s', pin_snapshot.name, wanted));
    RETURN wanted;
END
$$;

-- A worker that does not answer reads what is pinned when it comes back.
CREATE FUNCTION chainify.unpin_snapshot(name text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM chainify_ledger.snapshot_pin p WHERE p.name = unpin_snapshot.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no snapshot is pinned as "%"', unpin_snapshot.name USING ERRCODE = '22023';
    END IF;
    BEGIN
        PERFORM chainify_ledger.tell_worker(format('CHAINIFY UNPIN %L', unpin_snapshot.name));
    EXCEPTION WHEN connection_exception OR sqlclient_unable_to_establish_sqlconnection OR connection_failure THEN
        NULL;
    END;
END
$$;

REVOKE ALL ON FUNCTION chainify.mirror, chainify.unmirror, chainify.pin_snapshot, chainify.unpin_snapshot FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.mirror, chainify.unmirror, chainify.pin_snapshot, chainify.unpin_snapshot TO chainify_admin;

-- They analyse the text as the caller, under the caller's search_path, so they have no SET clause.
CREATE FUNCTION chainify.query_at(block bigint, sql text, VARIADIC params "any") RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'chainify_query_at' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.query_at(block bigint, sql text) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'chainify_query_at' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.query_at_json(block bigint, sql text, VARIADIC params "any") RETURNS SETOF jsonb
    AS 'MODULE_PATHNAME', 'chainify_query_at_json' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.query_at_json(block bigint, sql text) RETURNS SETOF jsonb
    AS 'MODULE_PATHNAME', 'chainify_query_at_json' LANGUAGE C VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION chainify.translate_query(query text, OUT sql text, OUT names text[], OUT types oid[], OUT typmods integer[])
    AS 'MODULE_PATHNAME', 'chainify_translate_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION chainify_ledger.analytics_functions() RETURNS TABLE (function oid, name text)
    AS 'MODULE_PATHNAME', 'chainify_analytics_functions' LANGUAGE C IMMUTABLE PARALLEL SAFE ROWS 400;
CREATE VIEW chainify.analytics_functions AS
    SELECT f.function::regprocedure AS function, (SELECT string_agg(DISTINCT o.oprname::text, ' ' ORDER BY o.oprname::text) FROM pg_operator o WHERE o.oprcode = f.function) AS operator
    FROM chainify_ledger.analytics_functions() f;
GRANT SELECT ON chainify.analytics_functions TO PUBLIC;
