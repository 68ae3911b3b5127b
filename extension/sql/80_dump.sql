-- The part of the ledger's own tables that pg_dump takes along; making a ledger of a restored dump (block/restored.rs).
--
-- A dump has the rows of all of them but those about this very database: here, fence, scrubbed, audited, mirror, snapshot_pin. Relations and functions go by name in it. Rows
-- of functions that are gone stay behind: a number would mean something else where it is restored.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN SELECT c.oid, CASE c.relname
                    WHEN 'agreement_check' THEN 'WHERE EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = function)'
                    WHEN 'declared_access' THEN 'WHERE EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = function)
                        AND EXISTS (SELECT FROM pg_catalog.pg_class t WHERE t.oid = tbl)
                        AND (rows IS NULL OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = rows))'
                    ELSE '' END AS which
                FROM pg_class c WHERE c.relnamespace = 'chainify_ledger'::regnamespace AND c.relkind IN ('r', 'S')
                  AND c.relname NOT IN ('here', 'fence', 'scrubbed', 'audited', 'mirror', 'snapshot_pin') LOOP
        PERFORM pg_extension_config_dump(kept.oid, kept.which);
    END LOOP;
END
$$;

CREATE FUNCTION chainify_ledger.refuse_to_adopt(why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'what was restored is no whole ledger' USING ERRCODE = '55000', DETAIL = why,
        HINT = 'Restore the whole of a dump, as a superuser, into a new database of a server with the same roles.';
END
$$;

-- The object under the ledger that has this identity in this database; NULL: none.
CREATE FUNCTION chainify_ledger.object_named(kind text, identity text) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN kind IN ('table', 'view', 'sequence') THEN to_regclass(identity)::oid
                WHEN kind IN ('function', 'procedure') THEN to_regprocedure(identity)::oid
                WHEN kind = 'schema' THEN to_regnamespace(identity)::oid
                WHEN kind = 'type' THEN to_regtype(identity)::oid END
$$;

-- Takes what is known by the numbers of the database that was dumped for what has the same name here. Rows are left to verification.
-- Of another organisation's dump nothing stays that tells of that organisation: how it decides, and what its database went through. What
-- is not cured stays open, since the rows came along.
CREATE FUNCTION chainify_ledger.adopt(organisation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing text;
    definitions chainify_ledger.definition[];
    declared chainify_ledger.declared_access[];
BEGIN
    -- What was gone when it was dumped came as a number, and has no name here.
    SELECT format('Table "%s" is not there with its history and checkpoint.', t.name) INTO missing FROM chainify_ledger.ledger_table t
    WHERE NOT EXISTS (SELECT FROM pg_class h WHERE h.oid = t.history AND h.relnamespace = 'chainify_history'::regnamespace)
       OR t.detached_at IS NULL AND (
           NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = t.relation AND n.nspname || '.' || c.relname = t.name)
           OR NOT EXISTS (SELECT FROM pg_class b WHERE b.oid = t.checkpoint AND b.relnamespace = 'chainify_checkpoint'::regnamespace))
    ORDER BY t.id LIMIT 1;
    missing := coalesce(missing, (
        SELECT format('The %s %s is not there.', d.kind, d.identity) FROM chainify_ledger.definition d
        WHERE chainify_ledger.object_named(d.kind, d.identity) IS NULL ORDER BY d.kind, d.identity LIMIT 1));
    missing := coalesce(missing, (
        SELECT format('The function %s, the agreement check of "%s", is not there.', k.called, k.name) FROM chainify_ledger.agreement_check k
        WHERE to_regprocedure(k.called) IS NULL ORDER BY k.name LIMIT 1));
    IF missing IS NOT NULL THEN
        PERFORM chainify_ledger.refuse_to_adopt(missing);
    END IF;

    PERFORM chainify_ledger.refuse_other_letters();

    UPDATE chainify_ledger.agreement_check k SET function = to_regprocedure(k.called);
    declared := ARRAY(SELECT d FROM chainify_ledger.declared_access d);
    DELETE FROM chainify_ledger.declared_access;
    INSERT INTO chainify_ledger.declared_access (function, tbl, rows, arguments, called, rows_called)
        SELECT to_regprocedure(d.called), d.tbl, to_regprocedure(d.rows_called), d.arguments, d.called, d.rows_called FROM unnest(declared) d
        WHERE to_regprocedure(d.called) IS NOT NULL AND (d.rows_called IS NULL OR to_regprocedure(d.rows_called) IS NOT NULL);

    UPDATE chainify_ledger.ledger_table t SET checkpoint = 0,
        relation = CASE WHEN t.relation IN (SELECT o.relation FROM chainify_ledger.ledger_table o WHERE o.detached_at IS NULL)
                          OR EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                     WHERE c.oid = t.relation AND n.nspname || '.' || c.relname = t.name) THEN t.relation ELSE 0 END
    WHERE t.detached_at IS NOT NULL;
    -- Dropped columns leave no gap behind in a table that is made anew.
    UPDATE chainify_ledger.ledger_column k SET attnum = coalesce((
        SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = t.relation AND a.attname = k.name AND a.attnum > 0 AND NOT a.attisdropped), 0)
    FROM chainify_ledger.ledger_table t WHERE t.id = k.table_id AND t.detached_at IS NULL;
    definitions := ARRAY(SELECT d FROM chainify_ledger.definition d);
    DELETE FROM chainify_ledger.definition;
    INSERT INTO chainify_ledger.definition (class, object, kind, identity, definition, since, made)
    SELECT d.class, chainify_ledger.object_named(d.kind, d.identity), d.kind, d.identity, d.definition, d.since, d.made FROM unnest(definitions) d;
    -- Those of the ledger's own tables are in no dump.
    PERFORM chainify_ledger.restore_triggers(t.relation) FROM chainify_ledger.ledger_table t WHERE t.detached_at IS NULL;

    UPDATE chainify_ledger.chain c SET organisation = adopt.organisation WHERE c.organisation <> adopt.organisation;
    IF FOUND THEN
        PERFORM chainify_ledger.check_names(c.chain_id, c.organisation) FROM chainify_ledger.chain c;
        DELETE FROM chainify_ledger.agreement_check;
        DELETE FROM chainify_ledger.deviation_row r USING chainify_ledger.deviation d WHERE d.id = r.deviation AND d.cured_by IS NOT NULL;
        DELETE FROM chainify_ledger.deviation d WHERE d.cured_by IS NOT NULL;
    END IF;
END
$$;

-- Makes what pg_restore left a ledger again; organisation: whose it is from now on, NULL: whose was dumped. For superusers.
CREATE FUNCTION chainify.adopt_restored(organisation text DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'chainify_adopt_restored' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Before pg_upgrade, which gives functions and schemas other numbers: closes the ledger until chainify.adopt_restored has found them by name. For
-- superusers, with the node stopped.
CREATE FUNCTION chainify.prepare_pg_upgrade() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE chainify_ledger.block IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM chainify_ledger.agreement_check k WHERE chainify_ledger.function_called(k.function) IS NULL;
    UPDATE chainify_ledger.agreement_check k SET called = chainify_ledger.function_called(k.function);
    DELETE FROM chainify_ledger.declared_access d WHERE chainify_ledger.function_called(d.function) IS NULL
        OR d.rows IS NOT NULL AND chainify_ledger.function_called(d.rows) IS NULL;
    UPDATE chainify_ledger.declared_access d SET called = chainify_ledger.function_called(d.function), rows_called = chainify_ledger.function_called(d.rows);
    DELETE FROM chainify_ledger.here;
END
$$;

REVOKE ALL ON FUNCTION chainify.prepare_pg_upgrade, chainify_ledger.refuse_to_adopt, chainify_ledger.adopt, chainify.adopt_restored FROM PUBLIC;
