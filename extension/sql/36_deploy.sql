-- DEPLOY transactions with statements (definitions/deploy.rs): what has to follow in the ledger's own tables, and the definitions that
-- enter the state root. Called with the rights of the extension's owner; nothing here runs what a client wrote.

-- The rights on an object that the ledger knows of: those of PUBLIC, of the owner and of roles that DEPLOY transactions named.
CREATE FUNCTION chainify_ledger.rights_text(acl aclitem[], kind "char", owner oid) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
    RETURN (SELECT coalesce(string_agg(format(E'\ngrant %s to %s', rights, grantee), '' ORDER BY grantee COLLATE "C"), '')
    FROM (SELECT CASE WHEN a.grantee = 0 THEN 'public' ELSE quote_ident(r.rolname) END AS grantee,
                 string_agg(DISTINCT (lower(a.privilege_type) || CASE WHEN a.is_grantable THEN '*' ELSE '' END) COLLATE "C", ',') AS rights
          FROM aclexplode(coalesce(acl, acldefault(kind, owner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
          WHERE (a.grantee IN (0, owner) OR r.rolname IN (SELECT name FROM chainify_ledger.governed_role))
            AND a.privilege_type <> 'MAINTAIN' -- since PostgreSQL 17
          GROUP BY 1) g);
END
$$;

-- The owner of an object under the ledger. In PL/pgSQL, because a session plans it once, and an SQL function at each call.
CREATE FUNCTION chainify_ledger.owner_of(class oid, object oid) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_get_userbyid(CASE class
        WHEN 'pg_class'::regclass THEN (SELECT relowner FROM pg_class WHERE oid = object)
        WHEN 'pg_proc'::regclass THEN (SELECT proowner FROM pg_proc WHERE oid = object)
        WHEN 'pg_namespace'::regclass THEN (SELECT nspowner FROM pg_namespace WHERE oid = object)
        ELSE (SELECT typowner FROM pg_type WHERE oid = object) END)::text;
END
$$;

-- The definition of an object as text; no row when there is none, or one of a kind that the ledger does not follow.
-- Columns, constraints, policies and indexes of a table are in its schema text.
CREATE FUNCTION chainify_ledger.definition_of(class oid, object oid) RETURNS TABLE (kind text, identity text, definition text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET max_parallel_workers_per_gather = 0 AS $$
#variable_conflict use_column
BEGIN
    IF class = 'pg_class'::regclass THEN
        RETURN QUERY SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END, format('%I.%I', n.nspname, c.relname),
               format('owner %I', pg_get_userbyid(c.relowner))
               || chainify_ledger.rights_text(c.relacl, CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)
               || coalesce((SELECT string_agg(format(E'\ncolumn %I', a.attname) || chainify_ledger.rights_text(a.attacl, 'c', c.relowner), '' ORDER BY a.attnum)
                            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attacl IS NOT NULL), '')
               || CASE WHEN c.relkind = 'v' THEN
                      E'\ncolumns ' || (SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)
                                        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)
                      || coalesce(E'\nwith ' || (SELECT string_agg(o, ', ' ORDER BY o COLLATE "C") FROM unnest(c.reloptions) o), '')
                      || E'\n' || chainify_ledger.settled(chainify_ledger.view_text(c.oid))
                      || coalesce((SELECT string_agg(E'\n' || chainify_ledger.settled(pg_get_ruledef(r.oid)), '' ORDER BY r.rulename) FROM pg_rewrite r
                                   WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'), '')
                      || coalesce((SELECT string_agg(E'\n' || chainify_ledger.settled(pg_get_triggerdef(t.oid)), '' ORDER BY t.tgname) FROM pg_trigger t
                                   WHERE t.tgrelid = c.oid), '')
                  ELSE '' END
               || coalesce((SELECT format(E'\nas %s start %s', format_type(s.seqtypid, NULL), s.seqstart)
                            || coalesce((SELECT format(E'\nowned by %s.%I', d.refobjid::regclass, a.attname)
                                         FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                                         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass
                                           AND d.deptype IN ('a', 'i')), '')
                            FROM pg_sequence s WHERE s.seqrelid = c.oid), '')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = object AND c.relkind IN ('r', 'p', 'v', 'S');
    ELSIF class = 'pg_proc'::regclass THEN
        RETURN QUERY SELECT CASE p.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END, i.identity,
               format('owner %I', pg_get_userbyid(p.proowner)) || chainify_ledger.rights_text(p.proacl, 'f', p.proowner)
               || E'\n' || CASE WHEN p.prosqlbody IS NULL THEN pg_get_functiondef(p.oid) ELSE chainify_ledger.settled(pg_get_functiondef(p.oid)) END
        FROM pg_proc p, pg_identify_object(class, p.oid, 0) i
        WHERE p.oid = object AND p.prokind IN ('f', 'p');
    ELSIF class = 'pg_namespace'::regclass THEN
        RETURN QUERY SELECT 'schema', quote_ident(n.nspname),
               format('owner %I', pg_get_userbyid(n.nspowner)) || chainify_ledger.rights_text(n.nspacl, 'n', n.nspowner)
        FROM pg_namespace n WHERE n.oid = object;
    ELSIF class = 'pg_type'::regclass THEN
        RETURN QUERY SELECT 'type', format('%I.%I', n.nspname, t.typname),
               format('owner %I', pg_get_userbyid(t.typowner)) || chainify_ledger.rights_text(t.typacl, 'T', t.typowner)
               || CASE t.typtype
                      WHEN 'e' THEN coalesce((SELECT string_agg(E'\nvalue ' || quote_literal(e.enumlabel), '' ORDER BY e.enumsortorder)
                                              FROM pg_enum e WHERE e.enumtypid = t.oid), '')
                      WHEN 'd' THEN format(E'\ndomain of %s%s%s', format_type(t.typbasetype, t.typtypmod),
                                           CASE WHEN t.typnotnull THEN ' not null' END, ' default ' || t.typdefault)
                           || coalesce((SELECT ' collate ' || quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
                                        FROM pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = t.typcollation), '')
                           || coalesce((SELECT string_agg(E'\n' || k.text, '' ORDER BY k.text COLLATE "C")
                                        FROM (SELECT contypid, chainify_ledger.settled(pg_get_constraintdef(oid)) AS text FROM pg_constraint WHERE contype <> 'n') k WHERE k.contypid = t.oid), '')
                      ELSE coalesce((SELECT string_agg(format(E'\nattribute %I %s', a.attname, format_type(a.atttypid, a.atttypmod))
                                                || coalesce(' collate ' || quote_ident(cn.nspname) || '.' || quote_ident(co.collname), ''), '' ORDER BY a.attnum)
                                     FROM pg_attribute a LEFT JOIN pg_collation co ON co.oid = a.attcollation
                                     LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
                                     WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped), '')
                  END
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE t.oid = object
          AND (t.typtype IN ('e', 'd') OR t.typtype = 'c' AND (SELECT c.relkind FROM pg_class c WHERE c.oid = t.typrelid) = 'c');
    END IF;
END
$$;

CREATE FUNCTION chainify_ledger.definitions_hash(kinds text[], identities text[], definitions text[]) RETURNS bytea
    AS 'MODULE_PATHNAME', 'chainify_definitions_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The hash of what chainify_ledger.definition says.
CREATE FUNCTION chainify_ledger.hash_of_definitions() RETURNS bytea
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT chainify_ledger.definitions_hash(coalesce(array_agg(d.kind), '{}'), coalesce(array_agg(d.identity), '{}'),
                                            coalesce(array_agg(d.definition), '{}'))
    FROM chainify_ledger.definition d
$$;

-- At the end of a DEPLOY transaction. Cost: one definition text per object under the ledger.
CREATE FUNCTION chainify_ledger.refresh_definitions() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One that is gone without a DEPLOY transaction keeps its row, with no definition: other organisations have it.
    UPDATE chainify_ledger.definition d
    SET kind = coalesce(n.kind, d.kind), identity = coalesce(n.identity, d.identity), definition = coalesce(n.definition, '')
    FROM chainify_ledger.definition o LEFT JOIN LATERAL chainify_ledger.definition_of(o.class, o.object) n ON true
    WHERE (o.class, o.object) = (d.class, d.object)
      AND (d.kind, d.identity, d.definition) IS DISTINCT FROM (coalesce(n.kind, d.kind), coalesce(n.identity, d.identity), coalesce(n.definition, ''));
    INSERT INTO chainify_ledger.definitions (hash) VALUES (chainify_ledger.hash_of_definitions())
    ON CONFLICT (only_row) DO UPDATE SET hash = excluded.hash;
    -- Also where names alone changed, which are in no definition's text.
    PERFORM chainify_ledger.keep_schema_parts();
END
$$;

-- Where the definitions of this database are not those of the ledger.
CREATE FUNCTION chainify_ledger.definition_defects() RETURNS TABLE (object text, expected text, found text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.kind || ' ' || d.identity, d.definition, CASE WHEN n.identity <> d.identity THEN n.kind || ' ' || n.identity || E'\n' ELSE '' END || n.definition
    FROM chainify_ledger.definition d LEFT JOIN LATERAL chainify_ledger.definition_of(d.class, d.object) n ON true
    WHERE (n.kind, n.identity, n.definition) IS DISTINCT FROM (d.kind, d.identity, d.definition)
    UNION ALL
    SELECT 'definitions', encode(s.hash, 'hex'), encode(chainify_ledger.hash_of_definitions(), 'hex')
    FROM chainify_ledger.definitions s WHERE s.hash <> chainify_ledger.hash_of_definitions()
    UNION ALL
    SELECT 'definitions', NULL, encode(chainify_ledger.hash_of_definitions(), 'hex')
    WHERE NOT EXISTS (SELECT FROM chainify_ledger.definitions) AND EXISTS (SELECT FROM chainify_ledger.definition)
    UNION ALL
    SELECT 'procedure ' || p.name || p.signature, encode(p.postgresql, 'hex'), encode(n.digest, 'hex')
    FROM chainify_ledger.procedure p, LATERAL chainify_ledger.procedure_digest(p.name) n (digest)
    WHERE p.detached_at IS NULL AND n.digest IS DISTINCT FROM p.postgresql
    ORDER BY 1
$$;

-- After one statement, or several that made partitions and gave rights: what they made comes under the ledger, what is gone is let go.
CREATE FUNCTION chainify_ledger.follow(made_classes oid[], made oid[], target_classes oid[], targets oid[], roles text[],
                                       at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o record;
    t chainify_ledger.ledger_table;
    obstacle text;
    changed boolean := false;
BEGIN
    INSERT INTO chainify_ledger.governed_role (name) SELECT DISTINCT unnest(roles) ON CONFLICT DO NOTHING;
    DELETE FROM chainify_ledger.definition d
    USING unnest(target_classes, targets) u (class, object)
    WHERE (d.class, d.object) = (u.class, u.object)
      AND CASE WHEN u.class = 'pg_class'::regclass THEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = u.object)
               ELSE NOT EXISTS (SELECT FROM chainify_ledger.definition_of(u.class, u.object)) END;
    -- A sequence goes with the column that owns it, or is an identity no more.
    DELETE FROM chainify_ledger.definition d
    WHERE d.kind = 'sequence' AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = d.object);
    FOR t IN SELECT l.* FROM chainify_ledger.ledger_table l
             WHERE l.detached_at IS NULL AND l.relation = ANY (targets) AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.relation)
             ORDER BY l.name COLLATE "C" LOOP
        PERFORM chainify_ledger.end_version(t.id, at_block, at_tx);
        changed := true;
    END LOOP;
    FOR o IN SELECT u.class, u.object, d.kind, d.identity, d.definition,
                    -- What was made may be a part of a table: a column, an index.
                    u.place <= cardinality(made)
                    AND NOT EXISTS (SELECT FROM chainify_ledger.ledger_table l WHERE l.relation = u.object AND l.detached_at IS NULL) AS made
             FROM unnest(made_classes || target_classes, made || targets) WITH ORDINALITY u (class, object, place),
                  LATERAL chainify_ledger.definition_of(u.class, u.object) d
             -- The table that a partition was made of is known, with all of its partitions.
             WHERE NOT (u.place > cardinality(made)
                        AND EXISTS (SELECT FROM chainify_ledger.definition k WHERE (k.class, k.object) = (u.class, u.object))
                        AND EXISTS (SELECT FROM chainify_ledger.ledger_table l WHERE l.relation = u.object AND l.detached_at IS NULL))
             ORDER BY u.place LOOP
        IF o.kind = 'table' AND EXISTS (SELECT FROM pg_class c JOIN chainify_ledger.ledger_table l ON l.relation = pg_partition_root(c.oid)
                                        WHERE c.oid = o.object AND c.relispartition AND l.detached_at IS NULL) THEN
            PERFORM chainify_ledger.make_truncate_triggers(o.object);
        ELSIF o.kind = 'table' AND NOT EXISTS (SELECT FROM chainify_ledger.ledger_table l WHERE l.relation = o.object AND l.detached_at IS NULL) THEN
            PERFORM chainify_ledger.attach_new(o.object, at_block, at_tx);
            changed := true;
        ELSIF o.kind = 'view' THEN
            SELECT format('It reads %s, which is not.', r.oid::regclass) INTO obstacle
            FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
            JOIN pg_class r ON r.oid = d.refobjid
            WHERE w.ev_class = o.object AND r.oid <> o.object
              AND NOT EXISTS (SELECT FROM chainify_ledger.ledger_table l WHERE l.relation = r.oid AND l.detached_at IS NULL)
              AND NOT EXISTS (SELECT FROM chainify_ledger.definition k WHERE k.class = 'pg_class'::regclass AND k.object = r.oid)
            ORDER BY r.oid::regclass::text COLLATE "C" LIMIT 1;
            IF obstacle IS NOT NULL THEN
                PERFORM chainify_ledger.refuse_object('view', o.identity, obstacle);
            END IF;
        END IF;
        INSERT INTO chainify_ledger.definition (class, object, kind, identity, definition, since, made)
        VALUES (o.class, o.object, o.kind, o.identity, o.definition, at_block, o.made) ON CONFLICT DO NOTHING;
        INSERT INTO chainify_ledger.governed_role (name) VALUES (chainify_ledger.owner_of(o.class, o.object)) ON CONFLICT DO NOTHING;
    END LOOP;
    IF changed THEN
        PERFORM chainify_ledger.announce_tables();
    END IF;
END
$$;

-- Tables on the ledger, whose definitions statements changed, are followed. Cost: one definition text per table, with all of its partitions.
--   anew: tables whose rows are others than before: written anew by the statement, or lost with a partition
CREATE FUNCTION chainify_ledger.follow_tables(anew oid[], at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t chainify_ledger.ledger_table;
    changed boolean := false;
BEGIN
    -- A foreign key is part of both tables' definitions, so all are looked at.
    FOR t IN SELECT l.* FROM chainify_ledger.ledger_table l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE l.detached_at IS NULL
               AND (l.name <> n.nspname || '.' || c.relname
                    OR l.relation = ANY (anew) OR l.schema_hash <> chainify_ledger.live_schema_hash(l.relation))
             ORDER BY l.name COLLATE "C" LOOP
        PERFORM chainify_ledger.follow_table(t.id, t.relation = ANY (anew), at_block, at_tx);
        changed := true;
    END LOOP;
    IF changed THEN
        PERFORM chainify_ledger.announce_tables();
    END IF;
END
$$;

-- Roles that DEPLOY transactions named and the server does not have. A block whose DEPLOY names one again fails here, and nowhere else.
CREATE FUNCTION chainify_node.missing_roles() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.name FROM chainify_ledger.governed_role g WHERE g.name <> 'public' AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = g.name)
    ORDER BY g.name COLLATE "C"
$$;
REVOKE ALL ON FUNCTION chainify_node.missing_roles FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify_node.missing_roles TO chainify_node;

CREATE FUNCTION chainify_ledger.refuse_object(kind text, name text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% "%" cannot be on the ledger', kind, name USING ERRCODE = 'CH005', DETAIL = why;
END
$$;

-- A table made by a DEPLOY transaction.
CREATE FUNCTION chainify_ledger.attach_new(tbl regclass, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    obstacle text := chainify_ledger.attach_obstacle(tbl, ARRAY[tbl]);
    schema text;
    name text;
BEGIN
    SELECT n.nspname, c.relname INTO schema, name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tbl;
    IF obstacle IS NOT NULL THEN
        PERFORM chainify_ledger.refuse_object('table', schema || '.' || name, obstacle);
    END IF;
    PERFORM chainify_ledger.attach_one(tbl, schema, name, at_block, at_tx);
END
$$;

-- Columns of a table that were dropped, or whose type changed, for each of which the history keeps a column.
CREATE FUNCTION chainify_ledger.lost_columns_max() RETURNS integer
    LANGUAGE sql IMMUTABLE AS 'SELECT 200';

-- A version's columns beside those of the live table. Columns are known by their number in the catalog, which a name may leave.
--   lost: dropped, or of another type, length or collation: it has no place in the new version
CREATE FUNCTION chainify_ledger.column_changes(version integer)
    RETURNS TABLE (ordinal smallint, was text, name text, key_was smallint, key_part smallint, attnum smallint, lost boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.ordinal, c.name, a.attname::text, c.key_part, chainify_ledger.key_part(t.relation, c.attnum), c.attnum,
           (a.atttypid, chainify_ledger.plain_type(a.atttypid, a.atttypmod), a.attcollation)
               IS DISTINCT FROM (c.type::oid, format_type(h.atttypid, h.atttypmod), h.attcollation)
    FROM chainify_ledger.ledger_table t JOIN chainify_ledger.ledger_column c ON c.table_id = t.id
    LEFT JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum = c.attnum AND NOT a.attisdropped
    LEFT JOIN pg_attribute h ON h.attrelid = t.history AND h.attname = c.name
    WHERE t.id = version
$$;

-- Columns of the live table that its version does not know.
CREATE FUNCTION chainify_ledger.new_columns(version integer)
    RETURNS TABLE (name text, attnum smallint, key_part smallint, type oid, plain text, filled boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.attname::text, a.attnum, chainify_ledger.key_part(t.relation, a.attnum),
           a.atttypid, chainify_ledger.plain_type(a.atttypid, a.atttypmod)
           || coalesce((SELECT format(' COLLATE %I.%I', n.nspname, co.collname) FROM pg_collation co
                        JOIN pg_namespace n ON n.oid = co.collnamespace WHERE co.oid = a.attcollation), ''),
           -- Rows that were there may hold something else than NULL.
           a.atthasdef OR a.attidentity <> '' OR y.typtype = 'd'
    FROM chainify_ledger.ledger_table t
    JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type y ON y.oid = a.atttypid
    WHERE t.id = version
      AND NOT EXISTS (SELECT FROM chainify_ledger.column_changes(version) c WHERE c.attnum = a.attnum AND NOT c.lost)
$$;

-- Another name for a column in a history, wherever versions read it.
CREATE FUNCTION chainify_ledger.rename_history_column(history regclass, was text, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', history, was, name);
    UPDATE chainify_ledger.ledger_column c SET name = rename_history_column.name
    FROM chainify_ledger.ledger_table t
    WHERE t.id = c.table_id AND t.history = rename_history_column.history AND c.name = was;
END
$$;

-- Brings history, checkpoint and columns of a table after a change of its definition (spec/formats.md, "Changes of a table").
-- Encodings of rows that were there stay: the version goes on. They change: a new version starts from the rows as they are now.
CREATE FUNCTION chainify_ledger.follow_table(version integer, anew boolean, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t chainify_ledger.ledger_table;
    full_name text;
    copy text;
    rewritten boolean;
    new_key boolean;
    kept smallint[];
    next_ordinal integer;
    obstacle text;
    into_version integer := version;
    c record;
BEGIN
    SELECT l.* INTO t FROM chainify_ledger.ledger_table l WHERE l.id = version;
    SELECT n.nspname || '.' || r.relname, chainify_ledger.copy_name(n.nspname, r.relname) INTO full_name, copy
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE r.oid = t.relation;
    obstacle := chainify_ledger.attach_obstacle(t.relation, ARRAY[t.relation::regclass]);
    SELECT coalesce(max(l.ordinal), 0) + 1 INTO next_ordinal FROM chainify_ledger.ledger_column l
    JOIN chainify_ledger.ledger_table v ON v.id = l.table_id WHERE v.history = t.history;
    IF obstacle IS NULL AND next_ordinal - (SELECT count(*) FROM pg_attribute WHERE attrelid = t.relation AND attnum > 0 AND NOT attisdropped)
                            > chainify_ledger.lost_columns_max() THEN
        obstacle := format('More than %s of its columns were dropped or changed their type.', chainify_ledger.lost_columns_max());
    END IF;
    obstacle := coalesce(obstacle, (
        SELECT format('Column "%s" would draw from a sequence for the rows that are there, in the order in which they are stored.', k.name)
        FROM chainify_ledger.new_columns(version) k JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum = k.attnum
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attidentity <> '' OR EXISTS (SELECT FROM pg_depend p JOIN pg_class s ON s.oid = p.refobjid AND s.relkind = 'S'
                                              WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND p.refclassid = 'pg_class'::regclass)
        ORDER BY k.attnum LIMIT 1));
    IF obstacle IS NOT NULL THEN
        PERFORM chainify_ledger.refuse_object('table', full_name, obstacle);
    END IF;
    SELECT array_agg(k.ordinal) FILTER (WHERE NOT k.lost), bool_or(k.key_was IS DISTINCT FROM k.key_part OR k.lost AND k.key_was IS NOT NULL),
           bool_or(k.lost)
    INTO kept, new_key, rewritten FROM chainify_ledger.column_changes(version) k;
    new_key := new_key OR EXISTS (SELECT FROM chainify_ledger.new_columns(version) k WHERE k.key_part IS NOT NULL);
    rewritten := anew OR rewritten OR new_key OR t.name <> full_name OR EXISTS (SELECT FROM chainify_ledger.new_columns(version) k WHERE k.filled);

    IF rewritten THEN
        FOR c IN SELECT k.* FROM chainify_ledger.column_changes(version) k WHERE k.lost LOOP
            PERFORM chainify_ledger.rename_history_column(t.history, c.was, format('_dropped_%s_%s', c.ordinal, c.was)::name::text);
        END LOOP;
        IF t.name <> full_name THEN
            PERFORM chainify_ledger.drop_ledger_view(copy);
            IF to_regclass('chainify_history.' || quote_ident(copy)) IS NOT NULL THEN
                PERFORM chainify_ledger.refuse_object('table', full_name, 'There is a history of another table of that name.');
            END IF;
            EXECUTE format('ALTER TABLE %s RENAME TO %I', t.history::regclass, copy);
        END IF;
        PERFORM chainify_ledger.end_version(version, at_block, at_tx);
        INSERT INTO chainify_ledger.ledger_table AS l (name, relation, history, checkpoint, schema_hash, attached_at, attached_tx, base_block, follows, beside)
        VALUES (full_name, t.relation, t.history, 0, '', at_block, at_tx, at_block - 1, version, chainify_ledger.letters()) RETURNING l.id INTO into_version;
        INSERT INTO chainify_ledger.ledger_column (table_id, ordinal, name, key_part, attnum, type)
        SELECT into_version, l.ordinal, l.name, chainify_ledger.key_part(t.relation, l.attnum), l.attnum, l.type
        FROM chainify_ledger.ledger_column l WHERE l.table_id = version AND l.ordinal = ANY (kept);
    END IF;
    FOR c IN SELECT k.* FROM chainify_ledger.column_changes(into_version) k WHERE k.name <> k.was LOOP
        PERFORM chainify_ledger.rename_history_column(t.history, c.was, c.name);
        IF NOT rewritten THEN
            EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', t.checkpoint::regclass, c.was, c.name);
        END IF;
    END LOOP;
    FOR c IN SELECT k.* FROM chainify_ledger.new_columns(into_version) k ORDER BY k.attnum LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', t.history::regclass, c.name, c.plain);
        IF NOT rewritten THEN
            EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', t.checkpoint::regclass, c.name, c.plain);
        END IF;
        INSERT INTO chainify_ledger.ledger_column (table_id, ordinal, name, key_part, attnum, type)
        VALUES (into_version, next_ordinal, c.name, c.key_part, c.attnum, c.type);
        next_ordinal := next_ordinal + 1;
    END LOOP;
    IF new_key THEN
        EXECUTE format('CREATE INDEX ON %s (%s)', t.history::regclass,
                       (SELECT string_agg(quote_ident(l.name), ', ' ORDER BY l.key_part) FROM chainify_ledger.ledger_column l
                        WHERE l.table_id = into_version AND l.key_part IS NOT NULL));
    END IF;
    PERFORM chainify_ledger.make_ledger_view(t.history);
    PERFORM chainify_ledger.follow_store_trigger(t.relation);
    IF rewritten THEN
        PERFORM chainify_ledger.start_version(into_version, copy);
    ELSE
        PERFORM chainify_ledger.make_as_of_view(t.relation, copy);
        UPDATE chainify_ledger.ledger_table l SET schema_hash = chainify_ledger.live_schema_hash(t.relation)
        WHERE l.id = version;
    END IF;
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.refresh_definitions, chainify_ledger.follow, chainify_ledger.follow_tables, chainify_ledger.attach_new, chainify_ledger.follow_table,
    chainify_ledger.rename_history_column, chainify_ledger.definition_defects FROM PUBLIC;

-- Definitions that DEPLOY transactions put under the ledger.
CREATE VIEW chainify.definitions AS
SELECT d.kind, d.identity, d.definition, d.since FROM chainify_ledger.definition d;
GRANT SELECT ON chainify.definitions TO chainify_reader, chainify_client;

-- One or several statements as one transaction; raises when it fails.
CREATE FUNCTION chainify.deploy(statements text)
    RETURNS TABLE (id bytea, block bigint, index integer, outcome boolean, rows bigint, sqlstate text, error text)
    AS 'MODULE_PATHNAME', 'chainify_deploy' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;
