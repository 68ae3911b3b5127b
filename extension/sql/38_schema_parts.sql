-- The definition of a ledger table, part by part, so that a definition that was changed behind the ledger can be put back
-- (recovery/definition_repair.rs). The lines are those of chainify_ledger.schema_text: their hash shows that the kept ones are agreed.

-- The parts that a statement makes.
--   place: what is made later may need what is made before
CREATE FUNCTION chainify_ledger.schema_parts(tbl regclass) RETURNS TABLE (place integer, line text, make text, unmake text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET standard_conforming_strings = on
    SET max_parallel_workers_per_gather = 0 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH named (t) AS (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tbl)
    SELECT 1, format('default of %I %s', a.attname, pg_get_expr(d.adbin, d.adrelid)),
           format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT %s', t, a.attname, pg_get_expr(d.adbin, d.adrelid)),
           format('ALTER TABLE ONLY %s ALTER COLUMN %I DROP DEFAULT', t, a.attname)
    FROM named, pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    UNION ALL
    SELECT 1, format('%I not null', a.attname), format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', t, a.attname),
           format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', t, a.attname)
    FROM named, pg_attribute a WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
    UNION ALL
    SELECT CASE contype WHEN 'f' THEN 4 ELSE 2 END, 'constraint ' || pg_get_constraintdef(oid),
           format('ALTER TABLE %s ADD CONSTRAINT %I %s', t, conname, pg_get_constraintdef(oid)),
           format('ALTER TABLE %s DROP CONSTRAINT %I', t, conname)
    FROM named, pg_constraint WHERE conrelid = tbl AND contype NOT IN ('t', 'n')
    UNION ALL
    SELECT 3, 'unique ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE UNIQUE INDEX .*? ON .*? USING ', ''),
           -- One of its name that is not unique any more makes way.
           format('DROP INDEX IF EXISTS %I.%I; %s', n.nspname, c.relname, pg_get_indexdef(i.indexrelid)),
           format('DROP INDEX %I.%I', n.nspname, c.relname)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE i.indrelid = tbl AND i.indisunique
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = tbl)
    UNION ALL
    SELECT 3, x.line, x.make, x.unmake FROM chainify_ledger.refusing_indexes(ARRAY[tbl::oid]) x
    UNION ALL
    -- Foreign keys of others that lead to the table.
    SELECT 4, format('referenced by %s %s', conrelid::regclass, pg_get_constraintdef(oid)), NULL,
           format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
    FROM pg_constraint WHERE confrelid = tbl AND conparentid = 0 AND conrelid <> confrelid
      AND NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t WHERE t.relation IN (conrelid, pg_partition_root(conrelid)) AND t.detached_at IS NULL)
    UNION ALL
    SELECT 3, format('policy %I', p.polname) || d.text,
           format('CREATE POLICY %I ON %s', p.polname, t) || d.text, format('DROP POLICY %I ON %s', p.polname, t)
    FROM named, pg_policy p, LATERAL (
        SELECT CASE WHEN p.polpermissive THEN ' AS PERMISSIVE' ELSE ' AS RESTRICTIVE' END
            || CASE p.polcmd WHEN 'r' THEN ' FOR SELECT' WHEN 'a' THEN ' FOR INSERT' WHEN 'w' THEN ' FOR UPDATE' WHEN 'd' THEN ' FOR DELETE' ELSE ' FOR ALL' END
            || ' TO ' || (SELECT string_agg(coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ' ORDER BY r.rolname)
                          FROM unnest(p.polroles) m LEFT JOIN pg_roles r ON r.oid = m)
            || coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
            || coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')) d (text)
    WHERE p.polrelid = tbl
    UNION ALL
    SELECT 3, 'row security', format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t), format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', t)
    FROM named, pg_class c WHERE c.oid = tbl AND c.relrowsecurity
    UNION ALL
    SELECT 3, 'row security forced', format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t), format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', t)
    FROM named, pg_class c WHERE c.oid = tbl AND c.relforcerowsecurity
    UNION ALL
    -- Properties that a partition has of its own.
    SELECT o.place, format('partition %s %s', p.relid, o.line), format(o.make, q.t), format(o.unmake, q.t)
    FROM pg_partition_tree(tbl) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace,
         LATERAL (SELECT format('%I.%I', n.nspname, c.relname)) q (t), LATERAL (
        SELECT 1, format('%I not null', a.attname), format('ALTER TABLE %%s ALTER COLUMN %I SET NOT NULL', a.attname), format('ALTER TABLE %%s ALTER COLUMN %I DROP NOT NULL', a.attname)
        FROM pg_attribute a JOIN pg_attribute r ON r.attrelid = tbl AND r.attname = a.attname AND NOT r.attnotnull
        WHERE a.attrelid = p.relid AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull
        UNION ALL
        SELECT 2, 'constraint ' || d.text, format('ALTER TABLE %%s ADD CONSTRAINT %I %s', k.conname, replace(d.text, '%', '%%')),
               format('ALTER TABLE %%s DROP CONSTRAINT %I', k.conname)
        FROM pg_constraint k, LATERAL (SELECT pg_get_constraintdef(k.oid)) d (text)
        WHERE k.conrelid = p.relid AND k.contype NOT IN ('t', 'n') AND k.conparentid = 0 AND k.coninhcount = 0
        UNION ALL
        SELECT 3, 'unique ' || regexp_replace(d.text, '^CREATE UNIQUE INDEX .*? ON .*? USING ', ''), replace(d.text, '%', '%%'),
               format('DROP INDEX %I.%I', m.nspname, x.relname)
        FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace m ON m.oid = x.relnamespace, LATERAL (SELECT pg_get_indexdef(i.indexrelid)) d (text)
        WHERE i.indrelid = p.relid AND i.indisunique AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
          AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = p.relid)
        UNION ALL
        SELECT 3, 'row security', 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY', 'ALTER TABLE %s DISABLE ROW LEVEL SECURITY' WHERE c.relrowsecurity
        UNION ALL
        SELECT 3, 'row security forced', 'ALTER TABLE %s FORCE ROW LEVEL SECURITY', 'ALTER TABLE %s NO FORCE ROW LEVEL SECURITY' WHERE c.relforcerowsecurity
        ) o (place, line, make, unmake)
    WHERE p.level > 0
    UNION ALL
    SELECT 0, s.line, NULL, s.unmake FROM chainify_ledger.stored_otherwise(ARRAY[tbl::oid]) s
    UNION ALL
    -- What no table on the ledger has.
    SELECT 0, o.line, NULL, o.unmake
    FROM (SELECT relid FROM pg_partition_tree(tbl) UNION SELECT tbl) p
    JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (SELECT format('%I.%I', n.nspname, c.relname)) q (t), LATERAL (
        SELECT format('trigger %I on %s', g.tgname, q.t), format('DROP TRIGGER %I ON %s', g.tgname, q.t)
        FROM pg_trigger g WHERE g.tgrelid = p.relid AND NOT g.tgisinternal AND g.tgparentid = 0 AND g.tgname NOT LIKE 'chainify\_%'
        UNION ALL
        SELECT format('rule %I on %s', r.rulename, q.t), format('DROP RULE %I ON %s', r.rulename, q.t) FROM pg_rewrite r WHERE r.ev_class = p.relid
        UNION ALL
        SELECT 'unlogged ' || q.t, format('ALTER TABLE %s SET LOGGED', q.t) WHERE c.relpersistence = 'u'
        UNION ALL
        SELECT format('inherited by %s', i.inhrelid::regclass), format('ALTER TABLE %s NO INHERIT %s', i.inhrelid::regclass, q.t)
        FROM pg_inherits i JOIN pg_class h ON h.oid = i.inhrelid WHERE i.inhparent = p.relid AND NOT h.relispartition) o (line, unmake);
END
$$;

-- Those that are kept of each table on the ledger. Of this database: names are in no hash.
CREATE TABLE chainify_ledger.schema_part (
    table_id integer NOT NULL REFERENCES chainify_ledger.ledger_table,
    place    integer NOT NULL,
    line     text NOT NULL,
    make     text NOT NULL
);

-- Notes the parts of every table whose definition is that of the ledger.
CREATE FUNCTION chainify_ledger.keep_schema_parts() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM chainify_ledger.schema_part;
    INSERT INTO chainify_ledger.schema_part (table_id, place, line, make)
    SELECT t.id, p.place, p.line, p.make FROM chainify_ledger.ledger_table t, chainify_ledger.schema_parts(t.relation) p
    WHERE t.detached_at IS NULL AND p.make IS NOT NULL AND EXISTS (SELECT FROM pg_class c WHERE c.oid = t.relation);
END
$$;

-- Statements that restore the definitions of tables: first they drop surplus parts, then they add missing ones. Where the schema hash is right, parts
-- that it does not cover are looked at: indexes that may refuse a row, and how columns are stored.
CREATE FUNCTION chainify_ledger.schema_repairs() RETURNS TABLE (tbl text, relation oid, owner text, place integer, expected text, found text, statement text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
#variable_conflict use_column
DECLARE
    tables oid[] := ARRAY(SELECT t.relation::oid FROM chainify_ledger.ledger_table t JOIN pg_class c ON c.oid = t.relation
                          WHERE t.detached_at IS NULL AND EXISTS (SELECT FROM chainify_ledger.schema_part k WHERE k.table_id = t.id));
BEGIN
    RETURN QUERY WITH looked_at AS MATERIALIZED (
        SELECT t.id, t.name, t.relation::oid, t.schema_hash IS DISTINCT FROM chainify_ledger.live_schema_hash(t.relation) AS differs
        FROM chainify_ledger.ledger_table t WHERE t.detached_at IS NULL AND t.relation = ANY (tables)),
    indexes AS MATERIALIZED (SELECT t.id, x.line FROM chainify_ledger.refusing_indexes(tables) x JOIN looked_at t ON t.relation = x.tbl),
    kept_indexes AS MATERIALIZED (SELECT k.table_id AS id, k.line FROM chainify_ledger.schema_part k JOIN looked_at t ON t.id = k.table_id WHERE k.line LIKE 'index on %'),
    other AS MATERIALIZED (
        SELECT t.* FROM looked_at t
        WHERE t.differs OR t.id IN (SELECT id FROM (TABLE indexes EXCEPT ALL TABLE kept_indexes) i UNION SELECT id FROM (TABLE kept_indexes EXCEPT ALL TABLE indexes) i)
           OR t.relation IN (SELECT s.tbl FROM chainify_ledger.stored_otherwise(tables) s)),
    now AS MATERIALIZED (
        SELECT t.id, p.place, p.line, p.make, p.unmake, row_number() OVER (PARTITION BY t.id, p.line ORDER BY p.make) AS n
        FROM other t, chainify_ledger.schema_parts(t.relation) p),
    kept AS MATERIALIZED (
        SELECT k.table_id AS id, k.place, k.line, k.make, row_number() OVER (PARTITION BY k.table_id, k.line ORDER BY k.make) AS n
        FROM chainify_ledger.schema_part k JOIN other t ON t.id = k.table_id)
    SELECT t.name, t.relation, pg_get_userbyid(c.relowner)::text, r.place, r.expected, r.found, r.statement
    FROM (
        SELECT now.id, -now.place AS place, NULL::text AS expected, now.line || coalesce(', named ' || substring(now.unmake FROM '(?: DROP CONSTRAINT |^DROP INDEX )(.*)$'), '') AS found,
               now.unmake AS statement FROM now
        WHERE NOT EXISTS (SELECT FROM kept WHERE (kept.id, kept.line, kept.n) = (now.id, now.line, now.n))
        UNION ALL
        SELECT kept.id, kept.place, kept.line, NULL, kept.make FROM kept
        WHERE NOT EXISTS (SELECT FROM now WHERE (now.id, now.line, now.n) = (kept.id, kept.line, kept.n))) r
    JOIN other t ON t.id = r.id JOIN pg_class c ON c.oid = t.relation
    WHERE t.differs OR coalesce(r.expected, r.found) ~ '^(index on|storage of) '
    ORDER BY r.place, t.name COLLATE "C", r.statement COLLATE "C";
END
$$;

-- A number that changes with what makes the schema text and these parts, at the cost of a scan of some catalogs: of tables on the ledger, and of
-- their histories and checkpoints. Two scans that give the same found the same.
CREATE FUNCTION chainify_ledger.parts_mark() RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
BEGIN
    RETURN (
    WITH own AS MATERIALIZED (
        SELECT p.relid FROM chainify_ledger.ledger_table t, LATERAL (SELECT relid FROM pg_partition_tree(t.relation) UNION SELECT t.relation) p
        WHERE t.detached_at IS NULL
        UNION SELECT c.oid FROM pg_class c WHERE c.relnamespace IN ('chainify_history'::regnamespace, 'chainify_checkpoint'::regnamespace))
    SELECT mod(coalesce(sum(hashtextextended(o.row::text, 0)), numeric '0'), numeric '4611686018427387904')::bigint FROM own, LATERAL (
        SELECT (c.oid, c.relrowsecurity, c.relforcerowsecurity, c.relpersistence) FROM pg_class c WHERE c.oid = own.relid
        UNION ALL SELECT (a.attrelid, a.attnum, a.xmin) FROM pg_attribute a WHERE a.attrelid = own.relid AND a.attnum > 0
        UNION ALL SELECT (d.oid, d.xmin) FROM pg_attrdef d WHERE d.adrelid = own.relid
        UNION ALL SELECT (i.indexrelid, i.xmin) FROM pg_index i WHERE i.indrelid = own.relid
        UNION ALL SELECT (k.oid, k.xmin) FROM pg_constraint k WHERE k.conrelid = own.relid
        UNION ALL SELECT (g.oid, g.xmin) FROM pg_trigger g WHERE g.tgrelid = own.relid
        UNION ALL SELECT (w.oid, w.xmin) FROM pg_policy w WHERE w.polrelid = own.relid
        UNION ALL SELECT (r.oid, r.xmin) FROM pg_rewrite r WHERE r.ev_class = own.relid
        UNION ALL SELECT (h.inhrelid, h.inhparent, h.xmin) FROM pg_inherits h WHERE h.inhparent = own.relid) o (row));
END
$$;

-- Parts of histories and checkpoints that the ledger did not make and that could refuse what a block writes there.
CREATE FUNCTION chainify_ledger.surplus_of_copies() RETURNS TABLE (tbl text, found text, statement text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.name, o.found, o.statement
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (SELECT format('%I.%I', n.nspname, c.relname)) q (name), LATERAL (
        SELECT format('index %s', pg_get_indexdef(i.indexrelid)), format('DROP INDEX %I.%I', n.nspname, x.relname)
        FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
        WHERE i.indrelid = c.oid AND (i.indisunique OR chainify_ledger.may_refuse(i.indexrelid)
              -- That of the primary key of a version.
              AND NOT (i.indexprs IS NULL AND i.indpred IS NULL AND m.amname = 'btree' AND EXISTS (
                  SELECT FROM chainify_ledger.ledger_table t WHERE c.oid IN (t.history, t.checkpoint)
                    AND (SELECT array_agg(k.name ORDER BY k.key_part) FROM chainify_ledger.ledger_column k WHERE k.table_id = t.id AND k.key_part IS NOT NULL)
                      = (SELECT array_agg(a.attname::text ORDER BY u.place) FROM unnest(i.indkey) WITH ORDINALITY u (attnum, place)
                         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum))))
          AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = c.oid)
        UNION ALL
        SELECT 'constraint ' || pg_get_constraintdef(k.oid), format('ALTER TABLE %s DROP CONSTRAINT %I', q.name, k.conname)
        FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype NOT IN ('n', 't')
        UNION ALL
        SELECT format('trigger %I', g.tgname), format('DROP TRIGGER %I ON %s', g.tgname, q.name)
        FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal
        UNION ALL
        SELECT 'row security', format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', q.name) WHERE c.relrowsecurity OR c.relforcerowsecurity
) o (found, statement)
    WHERE n.nspname IN ('chainify_history', 'chainify_checkpoint') AND c.relkind = 'r'
    UNION ALL
    SELECT s.tbl::regclass::text, s.line, s.unmake
    FROM chainify_ledger.stored_otherwise(ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                                WHERE n.nspname IN ('chainify_history', 'chainify_checkpoint') AND c.relkind = 'r')) s
    ORDER BY 1, 2, 3;
END
$$;

-- Lets the triggers of foreign keys fire that do not.
CREATE FUNCTION chainify_ledger.enable_foreign_keys() RETURNS TABLE (tbl text, trigger text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT t.name, r.tgrelid::regclass AS relation, r.tgname, k.conname
        FROM chainify_ledger.ledger_table t, LATERAL (SELECT relid FROM pg_partition_tree(t.relation) UNION SELECT t.relation) p
        JOIN pg_trigger r ON r.tgrelid = p.relid JOIN pg_constraint k ON k.oid = r.tgconstraint
        WHERE t.detached_at IS NULL AND r.tgisinternal AND r.tgenabled NOT IN ('O', 'A') AND r.tgparentid = 0
        ORDER BY t.name COLLATE "C", r.tgname COLLATE "C" LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', g.relation, g.tgname);
        tbl := g.name;
        trigger := format('trigger of %s disabled', g.conname);
        RETURN NEXT;
    END LOOP;
END
$$;

-- Owner and rights in the words of a definition.
CREATE FUNCTION chainify_ledger.rights_in(definition text) RETURNS TABLE (owner text, rights text[], grantees text[], body text)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substring(h.head FROM '^owner ([^\n]*)'),
           ARRAY(SELECT m[1] FROM regexp_matches(h.head, '\ngrant ([a-z*, ]+) to ([^\n]+)', 'g') m),
           ARRAY(SELECT m[2] FROM regexp_matches(h.head, '\ngrant ([a-z*, ]+) to ([^\n]+)', 'g') m),
           substring(definition FROM length(h.head) + 1)
    FROM (SELECT substring(definition FROM '^owner [^\n]*(?:\ngrant [a-z*, ]+ to [^\n]+)*') AS head) h
$$;

-- Statements that put an object under the ledger back, with the role of each (NULL: the extension's owner; such a statement runs nothing of a user's).
-- None for what no statement is known: somebody has to put that back.
CREATE FUNCTION chainify_ledger.definition_repairs() RETURNS TABLE (object text, schema text, owner text, statement text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH defects AS (
        SELECT d.kind, d.identity, d.definition AS expected, n.definition AS found, e.owner, e.rights, e.grantees, e.body,
               f.owner AS owner_now, f.grantees AS grantees_now, f.body AS body_now,
               CASE d.kind WHEN 'view' THEN 'table' ELSE d.kind END AS granted_on,
               (e.rights, e.grantees) IS DISTINCT FROM (f.rights, f.grantees) AS rights_differ
        FROM chainify_ledger.definition d
        LEFT JOIN LATERAL chainify_ledger.definition_of(d.class, d.object) n ON true
        CROSS JOIN LATERAL chainify_ledger.rights_in(d.definition) e LEFT JOIN LATERAL chainify_ledger.rights_in(n.definition) f ON true
        WHERE (n.kind, n.identity, n.definition) IS DISTINCT FROM (d.kind, d.identity, d.definition))
    SELECT d.kind || ' ' || d.identity, (parse_ident(regexp_replace(d.identity, '\(.*', '')))[1], s.owner, s.statement
    FROM defects d, LATERAL (
        SELECT 1, d.owner, substring(d.body FROM 2)
        WHERE d.kind IN ('function', 'procedure') AND d.body IS DISTINCT FROM d.body_now
        UNION ALL
        SELECT 1, d.owner, format('CREATE OR REPLACE VIEW %s%s AS %s', d.identity,
                                  ' WITH (' || substring(d.body FROM '^\ncolumns [^\n]*\nwith ([^\n]*)\n') || ')',
                                  substring(d.body FROM '^\ncolumns [^\n]*\n(?:with [^\n]*\n)?(.*)$'))
        WHERE d.kind = 'view' AND d.body IS DISTINCT FROM d.body_now
        UNION ALL
        SELECT 2, NULL, format('ALTER %s %s OWNER TO %s', d.kind, d.identity, d.owner)
        WHERE d.owner IS DISTINCT FROM d.owner_now
        UNION ALL
        SELECT 3, NULL, format('REVOKE ALL ON %s %s FROM %s', d.granted_on, d.identity, g) FROM (
            SELECT g FROM unnest(d.grantees_now) g UNION SELECT 'public' WHERE d.found IS NULL) g (g) WHERE d.rights_differ
        UNION ALL
        SELECT 4, NULL, format('GRANT %s ON %s %s TO %s%s', replace(r, '*', ''), d.granted_on, d.identity, g, w) FROM unnest(d.rights, d.grantees) u (all_rights, g),
            LATERAL (SELECT string_agg(x, ',') FILTER (WHERE x NOT LIKE '%*'), string_agg(x, ',') FILTER (WHERE x LIKE '%*')
                     FROM unnest(string_to_array(u.all_rights, ',')) x) b (plain, grantable),
            LATERAL (VALUES (b.plain, ''), (b.grantable, ' WITH GRANT OPTION')) v (r, w) WHERE d.rights_differ AND r IS NOT NULL) s (place, owner, statement)
    ORDER BY d.kind, d.identity, s.place, s.statement
$$;

-- What was made again has another number.
CREATE FUNCTION chainify_ledger.find_definitions() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE chainify_ledger.definition d SET object = chainify_ledger.object_named(d.kind, d.identity)
    WHERE NOT EXISTS (SELECT FROM chainify_ledger.definition_of(d.class, d.object)) AND chainify_ledger.object_named(d.kind, d.identity) IS NOT NULL;
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.find_definitions, chainify_ledger.schema_parts, chainify_ledger.keep_schema_parts, chainify_ledger.schema_repairs, chainify_ledger.parts_mark, chainify_ledger.surplus_of_copies, chainify_ledger.enable_foreign_keys,
    chainify_ledger.rights_in, chainify_ledger.definition_repairs FROM PUBLIC;
