-- Rows that statements may read and write (entry/access.rs). The schedule of a block follows from them; they grant nothing.

-- Runs nothing: it analyses the statements as the caller, under the settings of a block.
CREATE FUNCTION chainify.access(sql text)
    RETURNS TABLE (statement integer, access text, relation text, target text, place text)
    AS 'MODULE_PATHNAME', 'chainify_access' LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION chainify.access FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.access TO chainify_client;

-- Shows nothing of what the transactions say but the names of relations, and the keys of rows that EFFECTS transactions have in common. Readers have
-- these from the history. Texts are read as their clients would read them.
CREATE FUNCTION chainify.explain_block(block bigint, format text DEFAULT 'text') RETURNS text
    AS 'MODULE_PATHNAME', 'chainify_explain_block' LANGUAGE C VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION chainify.explain_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.explain_block TO chainify_reader;

-- Declared access (parallel/declared_access.rs): where the accesses of a function to a table lie. This database's own matter: it decides what runs
-- beside what, and what runs is compared with it.
CREATE TABLE chainify_ledger.declared_access (
    function  oid NOT NULL,
    tbl       regclass NOT NULL,
    rows      oid,          -- the function that returns the rows; or else
    arguments integer[],    -- arguments from 1 whose values are those of the first columns of the primary key
    called    text NOT NULL, -- names of both functions, as in agreement_check
    rows_called text,
    PRIMARY KEY (function, tbl)
);

-- Those of functions and tables that there are.
CREATE VIEW chainify_ledger.declarations AS
SELECT d.function, d.tbl, CASE WHEN d.rows IS NOT NULL THEN format('%I.%I', n.nspname, r.proname) END AS rows, d.arguments,
    ARRAY(SELECT quote_ident(a.attname) FROM pg_catalog.pg_index i, unnest(i.indkey) WITH ORDINALITY k (number, place), pg_catalog.pg_attribute a
          WHERE i.indrelid = d.tbl AND i.indisprimary AND a.attrelid = d.tbl AND a.attnum = k.number ORDER BY k.place) AS columns
FROM chainify_ledger.declared_access d JOIN pg_catalog.pg_proc p ON p.oid = d.function JOIN pg_catalog.pg_class t ON t.oid = d.tbl
    LEFT JOIN (pg_catalog.pg_proc r JOIN pg_catalog.pg_namespace n ON n.oid = r.pronamespace) ON r.oid = d.rows
WHERE (d.rows IS NULL OR r.oid IS NOT NULL) AND t.relkind = 'r' AND NOT t.relispartition;

CREATE VIEW chainify.declared_access AS
SELECT d.function::regprocedure AS function, d.tbl::regclass AS ledger_table, a.rows::regprocedure AS rows,
    ARRAY(SELECT p.proargnames[n] FROM unnest(d.arguments) WITH ORDINALITY u (n, place) ORDER BY place) AS key
FROM chainify_ledger.declarations d JOIN chainify_ledger.declared_access a USING (function, tbl) JOIN pg_catalog.pg_proc p ON p.oid = d.function;
GRANT SELECT ON chainify.declared_access TO chainify_reader, chainify_client;

-- The input arguments of a function named in `key`, which are in the order of the primary key.
CREATE FUNCTION chainify_ledger.key_arguments(of regprocedure, ledger_table regclass, key text) RETURNS integer[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[];
    found integer[] := '{}';
    name text;
    columns integer := (SELECT indnkeyatts FROM pg_index WHERE indrelid = ledger_table AND indisprimary);
BEGIN
    SELECT CASE WHEN proargmodes IS NULL THEN proargnames
        ELSE ARRAY(SELECT n FROM unnest(proargnames, proargmodes) WITH ORDINALITY u (n, m, place) WHERE m IN ('i', 'b', 'v') ORDER BY place) END
    INTO names FROM pg_proc WHERE oid = of;
    FOREACH name IN ARRAY regexp_split_to_array(btrim(key), ' *, *') LOOP
        IF array_position(names, name) IS NULL THEN
            RAISE EXCEPTION 'function % has no parameter "%"', of, name USING ERRCODE = '42703', HINT = 'The key is a list of parameters, separated by commas.';
        END IF;
        found := found || array_position(names, name);
    END LOOP;
    IF cardinality(found) > columns THEN
        RAISE EXCEPTION 'the primary key of % has % columns, and the key %', ledger_table, columns, cardinality(found) USING ERRCODE = '22023';
    END IF;
    RETURN found;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.key_arguments FROM PUBLIC;

-- Requirements for the function `rows`, which names the rows that a call accesses: a query of the same arguments that returns columns of the table.
CREATE FUNCTION chainify_ledger.check_rows(of regprocedure, ledger_table regclass, rows regprocedure) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    called pg_proc;
    names text[];
BEGIN
    SELECT * INTO called FROM pg_proc WHERE oid = rows;
    IF called.proargtypes <> (SELECT proargtypes FROM pg_proc WHERE oid = of) THEN
        RAISE EXCEPTION 'function % takes other parameters than %', rows, of USING ERRCODE = '42P13';
    ELSIF called.provolatile = 'v' THEN
        RAISE EXCEPTION 'function % is volatile', rows USING ERRCODE = '42P13', HINT = 'Declare it STABLE or IMMUTABLE: it may change nothing.';
    END IF;
    names := CASE WHEN called.proargmodes IS NULL THEN ARRAY(SELECT attname FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid
            WHERE t.oid = called.prorettype AND attnum > 0 AND NOT attisdropped)
        ELSE ARRAY(SELECT n FROM unnest(called.proargnames, called.proargmodes) u (n, m) WHERE m IN ('o', 'b', 't')) END;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = ledger_table AND attnum > 0 AND attname = ANY (names)) THEN
        RAISE EXCEPTION 'function % returns no column of %', rows, ledger_table USING ERRCODE = '42P13',
            HINT = 'Let it return columns that the primary key or an index begins with, by their names: RETURNS TABLE (id integer).';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION chainify_ledger.check_rows FROM PUBLIC;

CREATE FUNCTION chainify.declare_access(function regproc, ledger_table regclass, key text DEFAULT NULL, rows regproc DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    arguments integer[];
BEGIN
    IF (key IS NULL) = (rows IS NULL) THEN
        RAISE EXCEPTION 'either key or rows says where the accesses lie' USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT FROM pg_class WHERE oid = ledger_table AND (relkind <> 'r' OR relispartition)) THEN
        RAISE EXCEPTION 'table % has or is a partition, whose accesses are never bounded', ledger_table USING ERRCODE = '42809';
    ELSIF NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t WHERE t.relation = declare_access.ledger_table AND t.detached_at IS NULL) THEN
        RAISE EXCEPTION 'table % is not on the ledger', ledger_table USING ERRCODE = '42809';
    ELSIF rows IS NOT NULL THEN
        PERFORM chainify_ledger.check_rows(function, ledger_table, rows);
    ELSE
        arguments := chainify_ledger.key_arguments(function, ledger_table, key);
    END IF;
    DELETE FROM chainify_ledger.declared_access d WHERE NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = d.function);
    INSERT INTO chainify_ledger.declared_access
        VALUES (function, ledger_table, rows, arguments, chainify_ledger.function_called(function), chainify_ledger.function_called(rows))
        ON CONFLICT ON CONSTRAINT declared_access_pkey DO UPDATE
        SET rows = excluded.rows, arguments = excluded.arguments, called = excluded.called, rows_called = excluded.rows_called;
END
$$;
REVOKE ALL ON FUNCTION chainify.declare_access FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.declare_access TO chainify_admin;

CREATE FUNCTION chainify.undeclare_access(function regproc, ledger_table regclass) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (DELETE FROM chainify_ledger.declared_access d WHERE d.function = undeclare_access.function AND d.tbl = ledger_table RETURNING 1)
    SELECT count(*) > 0 FROM gone
$$;
REVOKE ALL ON FUNCTION chainify.undeclare_access FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.undeclare_access TO chainify_admin;
