-- Taking the ledger back to before its first block, so that the node executes all blocks again (recovery/start_over.rs).

-- Keeps the rows with which a table was attached. Of a table attached again those of the first time stay.
CREATE FUNCTION chainify_ledger.keep_initial(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
    copy regclass;
BEGIN
    SELECT l.id, l.name, l.schema_hash, s.row_count, s.lanes, left(c.relname, 52) || '_' || l.id AS copy INTO t
    FROM chainify_ledger.ledger_table l JOIN chainify_ledger.table_state s ON s.table_id = l.id JOIN pg_class c ON c.oid = l.checkpoint
    WHERE l.relation = tbl AND l.detached_at IS NULL;
    IF EXISTS (SELECT FROM chainify_ledger.initial_table i WHERE i.name = t.name) THEN
        RETURN;
    END IF;
    IF t.row_count > 0 AND current_setting('chainify.keep_initial_rows')::boolean THEN
        EXECUTE format('CREATE TABLE chainify_initial.%I (%s) USING heap', t.copy, chainify_ledger.plain_columns(tbl));
        EXECUTE format('INSERT INTO chainify_initial.%I SELECT * FROM %s', t.copy, tbl);
        copy := format('chainify_initial.%I', t.copy)::regclass;
    END IF;
    INSERT INTO chainify_ledger.initial_table (name, relation, rows, row_count, schema_hash, table_state)
    VALUES (t.name, tbl, copy, t.row_count, t.schema_hash,
            chainify_ledger.table_state_hash(t.name, t.schema_hash, t.row_count, t.lanes));
END
$$;

-- Why blocks cannot be executed from the first one again; NULL when they can. Objects made by DEPLOY transactions are gone by now.
CREATE FUNCTION chainify_ledger.start_over_obstacle() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.why FROM (
        SELECT 1, 'Blocks are being executed from the first one again already.' FROM chainify_ledger.started_over
        UNION ALL
        SELECT 2, format('The rows with which table %s was attached were not kept.', i.name) FROM chainify_ledger.initial_table i
        WHERE i.row_count > 0 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = i.rows)
        UNION ALL
        SELECT 3, format('Table %s was attached and is no longer on the ledger as it was.', i.name) FROM chainify_ledger.initial_table i
        WHERE (SELECT count(*) FILTER (WHERE t.detached_at IS NULL AND t.relation = i.relation) <> 1 OR count(*) FILTER (WHERE t.follows IS NULL) <> 1
               FROM chainify_ledger.ledger_table t WHERE t.name = i.name)
        UNION ALL
        SELECT 4, format('The definition of table %s is not that with which it was attached.', i.name)
        FROM chainify_ledger.initial_table i JOIN pg_class c ON c.oid = i.relation
        WHERE i.schema_hash <> chainify_ledger.live_schema_hash(c.oid)
        UNION ALL
        SELECT 5, format('The %s %s was there before a DEPLOY transaction altered it.', d.kind, d.identity)
        FROM chainify_ledger.definition d WHERE NOT d.made
        UNION ALL
        SELECT 6, format('Nothing says with what rows table %s came on the ledger.', t.name)
        FROM chainify_ledger.ledger_table t JOIN pg_class c ON c.oid = t.relation
        WHERE t.detached_at IS NULL AND c.relnamespace <> 'chainify_ledger'::regnamespace
          AND NOT EXISTS (SELECT FROM chainify_ledger.initial_table i WHERE i.name = t.name)) o (urgency, why)
    ORDER BY o.urgency, o.why COLLATE "C" LIMIT 1
$$;

CREATE FUNCTION chainify_ledger.refuse_to_start_over(why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'blocks cannot be executed from the first one again' USING ERRCODE = 'CH002', DETAIL = why;
END
$$;

-- Drops history and checkpoints, which hold types that DEPLOY transactions made.
CREATE FUNCTION chainify_ledger.drop_copies() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
    why text;
BEGIN
    PERFORM chainify_ledger.close_tables();
    FOR t IN SELECT c.oid::regclass AS relation, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind
             FROM pg_class c WHERE c.relnamespace IN ('chainify_history'::regnamespace, 'chainify_checkpoint'::regnamespace)
               AND c.relkind IN ('r', 'p', 'v') ORDER BY c.relkind = 'v' DESC LOOP
        BEGIN
            EXECUTE format('DROP %s %s', t.kind, t.relation);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
            PERFORM chainify_ledger.refuse_to_start_over(why);
        END;
    END LOOP;
END
$$;

-- Drops the objects that DEPLOY transactions made, one after the other. Raises CH002 when an object of others depends on one.
CREATE FUNCTION chainify_ledger.drop_made() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o record;
    tables text;
    dropped boolean;
    why text;
BEGIN
    SELECT format('Table %s was made by a DEPLOY transaction and taken off the ledger.', d.identity) INTO why FROM chainify_ledger.definition d
    WHERE d.made AND d.class = 'pg_class'::regclass AND d.kind = 'table'
      AND NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t
                      WHERE t.detached_at IS NULL AND t.relation = coalesce(pg_partition_root(d.object::regclass), d.object::regclass))
    LIMIT 1;
    WHILE why IS NULL LOOP
        dropped := false;
        FOR o IN SELECT n.kind, n.identity FROM chainify_ledger.definition d, chainify_ledger.definition_of(d.class, d.object) n
                 WHERE d.made AND n.kind <> 'table'
                 UNION ALL
                 -- All at once: foreign keys may lead in a circle.
                 SELECT 'table', string_agg(n.identity, ', ') FROM chainify_ledger.definition d, chainify_ledger.definition_of(d.class, d.object) n
                 WHERE d.made AND n.kind = 'table' HAVING count(*) > 0 LOOP
            BEGIN
                EXECUTE format('DROP %s IF EXISTS %s', o.kind, o.identity);
                dropped := true;
            EXCEPTION WHEN dependent_objects_still_exist THEN
                GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
            END;
        END LOOP;
        IF NOT EXISTS (SELECT FROM chainify_ledger.definition d, chainify_ledger.definition_of(d.class, d.object) n WHERE d.made) THEN
            RETURN;
        END IF;
        IF dropped THEN
            why := NULL;
        END IF;
    END LOOP;
    PERFORM chainify_ledger.refuse_to_start_over(why);
END
$$;

-- Forgets what all blocks left but for deviations. Tables stay, without triggers; who takes part stays, too: the node tells it.
CREATE FUNCTION chainify_ledger.forget_blocks(until_block bigint, found_hash bytea) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
BEGIN
    -- ATTACH TABLE looks at indexes: those of later DEPLOY transactions go, and come again.
    FOR t IN SELECT x.unmake FROM chainify_ledger.ledger_table l JOIN pg_class c ON c.oid = l.relation, chainify_ledger.refusing_indexes(ARRAY[l.relation::oid]) x
             WHERE l.detached_at IS NULL AND x.line <> ALL (coalesce(string_to_array(l.beside, E'\n'), '{}')) LOOP
        EXECUTE t.unmake;
    END LOOP;
    FOR t IN SELECT c.oid::regclass AS tbl, c.relnamespace = 'chainify_ledger'::regnamespace AS own
             FROM chainify_ledger.ledger_table l JOIN pg_class c ON c.oid = l.relation WHERE l.detached_at IS NULL LOOP
        PERFORM chainify_ledger.drop_triggers(t.tbl);
        IF t.own THEN
            EXECUTE format('DELETE FROM %s', t.tbl);
        END IF;
    END LOOP;
    TRUNCATE chainify_ledger.block, chainify_ledger.transaction, chainify_ledger.certificate, chainify_ledger.ledger_table,
        chainify_ledger.ledger_column, chainify_ledger.schema_part, chainify_ledger.table_state, chainify_ledger.checkpoint, chainify_ledger.definition, chainify_ledger.definitions,
        chainify_ledger.procedure, chainify_ledger.procedures,
        chainify_ledger.governed_role, chainify_ledger.part, chainify_ledger.scrubbed, chainify_ledger.audited, chainify_ledger.false_block, chainify_ledger.archived,
        chainify_ledger.sequence_here, chainify_ledger.deployed;
    PERFORM setval(c.oid::regclass, i.last_value, i.called)
    FROM chainify_ledger.initial_sequence i
    JOIN pg_class c ON c.relkind = 'S' JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname || '.' || c.relname = i.name;
    INSERT INTO chainify_ledger.started_over (until_block) VALUES (forget_blocks.until_block);
    UPDATE chainify_ledger.deviation d SET block = forget_blocks.until_block WHERE d.cured_by IS NULL;
    IF NOT FOUND THEN
        INSERT INTO chainify_ledger.deviation (block, found_hash, found_by) VALUES (forget_blocks.until_block, forget_blocks.found_hash, 'block');
    END IF;
    PERFORM chainify_ledger.announce_tables();
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.keep_initial, chainify_ledger.start_over_obstacle, chainify_ledger.refuse_to_start_over,
    chainify_ledger.drop_copies, chainify_ledger.drop_made, chainify_ledger.forget_blocks FROM PUBLIC;
