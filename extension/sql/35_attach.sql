-- Putting tables on the ledger and taking them off. Called by transactions of kind DEPLOY (definitions/attach.rs), as the extension's owner.

-- The definition of a table as text: equal text, equal behaviour. Names of constraints, triggers and indexes are
-- left out: they may differ between organisations and decide nothing. Pinned here is what PostgreSQL words definitions by; the
-- settings that output functions look at are pinned by the callers. In PL/pgSQL, as other texts of definitions, because a session plans it
-- once: planning takes longer than the text, and a DEPLOY transaction asks for the text of every table. Estimates are high, so a plan would be
-- parallel, though the text takes a millisecond. A block that asks for the text could begin no subtransaction meanwhile.
CREATE FUNCTION chainify_ledger.schema_text(tbl regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET standard_conforming_strings = on
    SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
    RETURN (
    WITH lines (kind, line) AS (
        SELECT 1, format('column %s %I %s%s%s%s%s',
                   (SELECT c.ordinal FROM chainify_ledger.ledger_table t JOIN chainify_ledger.ledger_column c ON c.table_id = t.id
                    WHERE t.relation = tbl AND t.detached_at IS NULL AND c.name = a.attname),
                   a.attname, format_type(a.atttypid, a.atttypmod),
                   CASE WHEN a.attnotnull THEN ' not null' END,
                   (SELECT ' collate ' || quote_ident(n.nspname) || '.' || quote_ident(co.collname)
                    FROM pg_collation co JOIN pg_namespace n ON n.oid = co.collnamespace WHERE co.oid = a.attcollation),
                   CASE a.attgenerated WHEN 's' THEN ' generated ' ELSE ' default ' END || pg_get_expr(d.adbin, d.adrelid),
                   CASE WHEN a.attidentity <> '' THEN ' identity ' || a.attidentity::text END)
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT 2, 'constraint ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE conrelid = tbl AND contype NOT IN ('t', 'n')
        UNION ALL
        SELECT 3, 'referenced by ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE confrelid = tbl AND conparentid = 0
        UNION ALL
        SELECT 4, 'unique ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE UNIQUE INDEX .*? ON .*? USING ', '')
        FROM pg_index i WHERE i.indrelid = tbl AND i.indisunique
             AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.conrelid = tbl)
        UNION ALL
        SELECT 5, format('policy %I %s %s %s using %s check %s', p.polname, p.polcmd, p.polpermissive,
                   (SELECT string_agg(coalesce(r.rolname, 'public'), ',' ORDER BY r.rolname)
                    FROM unnest(p.polroles) m LEFT JOIN pg_roles r ON r.oid = m),
                   pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
        FROM pg_policy p WHERE p.polrelid = tbl
        UNION ALL
        SELECT 6, format('row security %s force %s', c.relrowsecurity, c.relforcerowsecurity)
        FROM pg_class c WHERE c.oid = tbl AND (c.relrowsecurity OR c.relforcerowsecurity)
        UNION ALL
        SELECT 7, 'partitioned by ' || pg_get_partkeydef(tbl) FROM pg_class WHERE oid = tbl AND relkind = 'p'
        UNION ALL
        SELECT 8, format('partition %s of %s %s%s', p.relid, p.parentrelid, pg_get_expr(c.relpartbound, c.oid),
                         ' partitioned by ' || pg_get_partkeydef(p.relid))
        FROM pg_partition_tree(tbl) p JOIN pg_class c ON c.oid = p.relid WHERE p.level > 0
        UNION ALL
        -- Properties that a partition has of its own. A statement may name it, and goes by its defaults and policies then.
        SELECT 8, format('partition %s %s', p.relid, o.line)
        FROM pg_partition_tree(tbl) p, LATERAL (
            SELECT format('column %I%s%s', a.attname, CASE WHEN a.attnotnull AND NOT r.attnotnull THEN ' not null' END, d.text)
            FROM pg_attribute a JOIN pg_attribute r ON r.attrelid = tbl AND r.attname = a.attname
            LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
            LEFT JOIN pg_attrdef s ON s.adrelid = r.attrelid AND s.adnum = r.attnum,
            LATERAL (SELECT CASE WHEN a.attgenerated = '' AND pg_get_expr(e.adbin, e.adrelid) IS DISTINCT FROM pg_get_expr(s.adbin, s.adrelid)
                                 THEN ' default ' || coalesce(pg_get_expr(e.adbin, e.adrelid), 'none') END) d (text)
            WHERE a.attrelid = p.relid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attnotnull AND NOT r.attnotnull OR d.text IS NOT NULL)
            UNION ALL
            SELECT 'constraint ' || pg_get_constraintdef(k.oid)
            FROM pg_constraint k WHERE k.conrelid = p.relid AND k.contype NOT IN ('t', 'n') AND k.conparentid = 0 AND k.coninhcount = 0
            UNION ALL
            SELECT 'unique ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE UNIQUE INDEX .*? ON .*? USING ', '')
            FROM pg_index i WHERE i.indrelid = p.relid AND i.indisunique AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
                 AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = p.relid)
            UNION ALL
            SELECT format('policy %I %s %s %s using %s check %s', w.polname, w.polcmd, w.polpermissive,
                       (SELECT string_agg(coalesce(r.rolname, 'public'), ',' ORDER BY r.rolname)
                        FROM unnest(w.polroles) m LEFT JOIN pg_roles r ON r.oid = m),
                       pg_get_expr(w.polqual, w.polrelid), pg_get_expr(w.polwithcheck, w.polrelid))
            FROM pg_policy w WHERE w.polrelid = p.relid
            UNION ALL
            SELECT format('row security %s force %s', c.relrowsecurity, c.relforcerowsecurity)
            FROM pg_class c WHERE c.oid = p.relid AND (c.relrowsecurity OR c.relforcerowsecurity)) o (line)
        WHERE p.level > 0
        UNION ALL
        -- What no table on the ledger has: made behind it, and shown by this alone.
        SELECT 9, format('%s %s', p.relid, o.line)
        FROM (SELECT relid FROM pg_partition_tree(tbl) UNION SELECT tbl) p, LATERAL (
            SELECT format('trigger %s %s', t.tgtype, pg_get_triggerdef(t.oid))
            FROM pg_trigger t WHERE t.tgrelid = p.relid AND NOT t.tgisinternal AND t.tgname NOT LIKE 'chainify\_%'
            UNION ALL
            SELECT format('trigger of %s %s', k.conname, t.tgenabled)
            FROM pg_trigger t JOIN pg_constraint k ON k.oid = t.tgconstraint WHERE t.tgrelid = p.relid AND t.tgisinternal AND t.tgenabled NOT IN ('O', 'A')
            UNION ALL
            SELECT 'rule ' || pg_get_ruledef(r.oid) FROM pg_rewrite r WHERE r.ev_class = p.relid
            UNION ALL
            SELECT 'persistence ' || c.relpersistence::text FROM pg_class c WHERE c.oid = p.relid AND c.relpersistence <> 'p'
            UNION ALL
            SELECT 'inherited by ' || i.inhrelid::regclass
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = p.relid AND NOT c.relispartition
            UNION ALL
            SELECT 'inherits ' || i.inhparent::regclass
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhrelid = p.relid AND NOT c.relispartition) o (line)
        UNION ALL
        -- Of the database when the table came on the ledger. Indexes of DEPLOY transactions are the same everywhere.
        SELECT 10, o.line FROM chainify_ledger.ledger_table t, unnest(string_to_array(t.beside, E'\n')) o (line)
        WHERE t.relation = tbl AND t.detached_at IS NULL
    )
    SELECT string_agg(s.line, E'\n' ORDER BY kind, s.line COLLATE "C") FROM lines, chainify_ledger.settled(lines.line) s (line));
END
$$;

-- The SHA-256 of the words that PostgreSQL has for a table.
CREATE FUNCTION chainify_ledger.wording(tbl regclass) RETURNS bytea
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
    $$ SELECT sha256(convert_to(chainify_ledger.schema_text(tbl), 'UTF8')) $$;

-- The hash of a ledger table's definition as it is now. Where schema text 2 described it, and PostgreSQL words it otherwise now, the new
-- words stand in place of that text.
CREATE FUNCTION chainify_ledger.live_schema_hash(tbl regclass) RETURNS bytea
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words text := chainify_ledger.schema_text(tbl);
    agreed record;
BEGIN
    SELECT t.wording, t.shared_text INTO agreed FROM chainify_ledger.ledger_table t WHERE t.relation = tbl AND t.detached_at IS NULL;
    RETURN CASE WHEN agreed.wording IS NULL THEN chainify_ledger.schema_hash(words)
                WHEN agreed.wording = sha256(convert_to(words, 'UTF8')) THEN chainify_ledger.shared_schema_hash(agreed.shared_text)
                ELSE chainify_ledger.shared_schema_hash(words) END;
END
$$;

-- A part of a table that schema text 2 has no words for; NULL: there is none. Names and types are left to the text itself.
CREATE FUNCTION chainify_ledger.undescribed_part(tbl regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.part COLLATE "C" FROM pg_class c, LATERAL (
        SELECT 'partitions' WHERE c.relkind = 'p'
        UNION ALL
        SELECT 'row level security' WHERE c.relrowsecurity OR c.relforcerowsecurity
        UNION ALL
        SELECT format('policy "%s"', p.polname) FROM pg_policy p WHERE p.polrelid = tbl
        UNION ALL
        -- Functions, operators, types and collations of PostgreSQL's own are no dependencies.
        SELECT format('check "%s" with %s', k.conname, pg_describe_object(d.refclassid, d.refobjid, 0)) FROM pg_constraint k JOIN pg_depend d
            ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid AND NOT (d.refclassid = 'pg_class'::regclass AND d.refobjid = tbl)
        WHERE k.conrelid = tbl AND k.contype = 'c'
        UNION ALL
        SELECT format('check "%s" that is %s', k.conname, CASE WHEN k.convalidated THEN 'NO INHERIT' ELSE 'NOT VALID' END) FROM pg_constraint k
        WHERE k.conrelid = tbl AND k.contype = 'c' AND (NOT k.convalidated OR k.connoinherit)
        UNION ALL
        SELECT format('foreign key "%s" of another kind', k.conname) FROM pg_constraint k
        WHERE k.conrelid = tbl AND k.contype = 'f' AND (k.confupdtype NOT IN ('a', 'r') OR k.confdeltype NOT IN ('a', 'r', 'c', 'n') OR k.confdelsetcols IS NOT NULL
            OR k.confmatchtype <> 's' OR k.condeferrable OR NOT k.convalidated)
        UNION ALL
        SELECT format('foreign key "%s", which leads back to the table', k.conname) FROM pg_constraint k
        WHERE k.conrelid = tbl AND k.contype = 'f' AND k.confdeltype IN ('c', 'n') AND EXISTS (
            WITH RECURSIVE above (rel) AS (
                SELECT k.confrelid UNION SELECT f.confrelid FROM above JOIN pg_constraint f ON f.conrelid = rel AND f.contype = 'f')
            SELECT FROM above WHERE rel = tbl)
        UNION ALL
        SELECT format('column "%s", which is computed', a.attname) FROM pg_attribute a
        WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped AND (a.attgenerated <> '' OR a.attidentity <> '')
        UNION ALL
        SELECT format('column "%s" with the collation "%s", want "C"', a.attname, o.collname)
        FROM pg_attribute a JOIN pg_collation o ON o.oid = a.attcollation JOIN pg_database d ON d.datname = current_database()
        WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped
          AND NOT (CASE o.collprovider WHEN 'd' THEN d.datlocprovider = 'c' AND d.datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
                                       WHEN 'c' THEN o.collcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') ELSE false END)
        UNION ALL
        SELECT format('index "%s" of more than columns', x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
        WHERE i.indrelid = tbl AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
        UNION ALL
        SELECT format('index "%s", which may refuse a row', x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
        WHERE i.indrelid = tbl AND NOT i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL AND chainify_ledger.may_refuse(i.indexrelid)
        UNION ALL
        SELECT format('unique index "%s" of another kind', x.relname) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
        WHERE i.indrelid = tbl AND i.indisunique
          AND (i.indnkeyatts < i.indnatts OR i.indnullsnotdistinct OR NOT i.indisvalid
               OR EXISTS (SELECT FROM unnest(i.indclass) k JOIN pg_opclass o ON o.oid = k WHERE NOT o.opcdefault)
               OR EXISTS (SELECT FROM unnest(i.indkey, i.indcollation) k (attnum, coll) JOIN pg_attribute a ON a.attrelid = tbl AND a.attnum = k.attnum
                          WHERE k.coll <> a.attcollation))) o (part)
    WHERE c.oid = tbl ORDER BY 1 LIMIT 1
$$;

-- Why a ledger cannot become one of several engines in this block; NULL when it can. All of its tables have to have schema text 2.
CREATE FUNCTION chainify_ledger.shared_obstacle(at_block bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.why FROM (
        SELECT format('Table "%s" is on the ledger without ENCODING 2.', t.name) FROM chainify_ledger.ledger_table t
        WHERE t.shared_text IS NULL AND (t.detached_at IS NULL OR t.detached_at = at_block)
        UNION ALL
        SELECT 'DEPLOY transactions with statements ran.' FROM chainify_ledger.definitions) o (why)
    ORDER BY 1 LIMIT 1
$$;

-- Types whose values name objects of one database, or whose text depends on it.
CREATE FUNCTION chainify_ledger.is_local_type(type oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE parts (type) AS (
        SELECT type
        UNION
        SELECT p.part FROM parts, LATERAL (
            SELECT t.typelem FROM pg_type t WHERE t.oid = parts.type AND t.typelem <> 0 AND t.typlen = -1
            UNION ALL SELECT t.typbasetype FROM pg_type t WHERE t.oid = parts.type AND t.typtype = 'd'
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE parts.type IN (r.rngtypid, r.rngmultitypid)
            UNION ALL SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                      WHERE t.oid = parts.type AND t.typtype = 'c') p (part)
    )
    SELECT EXISTS (SELECT FROM parts JOIN pg_type t ON t.oid = parts.type
                   WHERE t.typnamespace = 'pg_catalog'::regnamespace
                     AND (t.typname IN ('oid', 'money', 'xid', 'xid8', 'cid', 'tid', 'pg_snapshot', 'txid_snapshot', 'pg_lsn', 'aclitem', 'refcursor',
                                        'pg_node_tree')
                          OR t.typname LIKE 'reg%' AND t.typcategory = 'N'))
$$;

-- A hash partition key of which organisations place values otherwise; NULL: there is none. The hash of an enum's value is that of its number in
-- the catalog, and arrays, rows and ranges hash their parts. A collation that is not deterministic hashes what its library makes of a text.
CREATE FUNCTION chainify_ledger.local_hash(tbl regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE keys (relation, n, type, coll, opclass) AS (
        SELECT p.partrelid, k.n, coalesce(a.atttypid, o.opcintype), k.coll, o.oid
        FROM pg_partitioned_table p CROSS JOIN
             LATERAL ROWS FROM (unnest(p.partattrs::int2[]), unnest(p.partcollation::oid[]), unnest(p.partclass::oid[])) WITH ORDINALITY k (attnum, coll, opclass, n)
        JOIN pg_opclass o ON o.oid = k.opclass
        LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum AND k.attnum > 0
        WHERE p.partstrat = 'h' AND p.partrelid IN (SELECT relid FROM pg_partition_tree(tbl) UNION SELECT tbl)),
    parts (relation, n, type) AS (
        SELECT relation, n, type FROM keys
        UNION
        SELECT parts.relation, parts.n, p.part FROM parts, LATERAL (
            SELECT t.typelem FROM pg_type t WHERE t.oid = parts.type AND t.typelem <> 0 AND t.typlen = -1
            UNION ALL SELECT t.typbasetype FROM pg_type t WHERE t.oid = parts.type AND t.typtype = 'd'
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE parts.type IN (r.rngtypid, r.rngmultitypid)
            UNION ALL SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                      WHERE t.oid = parts.type AND t.typtype = 'c') p (part))
    SELECT format('Table "%s" is partitioned by the hash of %s, which differs between databases; partition by LIST or RANGE.', k.relation::regclass, w.what)
    FROM keys k, LATERAL (
        SELECT 1, 'values of type ' || format_type(t.oid, NULL) FROM parts p JOIN pg_type t ON t.oid = p.type
        -- Of an expression the operator class says which types there may be, and no more.
        WHERE (p.relation, p.n) = (k.relation, k.n) AND (t.typtype IN ('e', 'p'))
        UNION ALL
        SELECT 2, 'texts by collation ' || k.coll::regcollation FROM pg_collation c WHERE c.oid = k.coll AND NOT c.collisdeterministic
        UNION ALL
        SELECT 3, 'operator class ' || o.opcname FROM pg_opclass o WHERE o.oid = k.opclass AND o.opcnamespace <> 'pg_catalog'::regnamespace) w (place, what)
    ORDER BY k.relation::regclass::text COLLATE "C", k.n, w.place, w.what COLLATE "C" LIMIT 1
$$;

-- Why a table cannot be on the ledger together with the others attached now; NULL when it can.
CREATE FUNCTION chainify_ledger.attach_obstacle(tbl regclass, together regclass[]) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c pg_class;
    part pg_class;
    found text;
    on_ledger oid[] := together::oid[] || ARRAY(SELECT relation FROM chainify_ledger.ledger_table WHERE detached_at IS NULL);
BEGIN
    SELECT * INTO c FROM pg_class WHERE oid = tbl;
    IF c.relkind NOT IN ('r', 'p') THEN
        RETURN 'It is not a table.';
    ELSIF c.relnamespace::regnamespace::text IN ('pg_catalog', 'information_schema') OR c.relnamespace::regnamespace::text LIKE 'chainify%' THEN
        RETURN 'It belongs to the system.';
    ELSIF c.relispartition THEN
        RETURN 'It is a partition: attach the partitioned table.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = tbl AND indisprimary AND indimmediate AND indisvalid) THEN
        RETURN 'It has no primary key that is checked at once.';
    END IF;
    IF c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE tbl IN (inhrelid, inhparent)) THEN
        RETURN 'It takes part in inheritance.';
    END IF;
    FOR part IN SELECT p.* FROM pg_partition_tree(tbl) t JOIN pg_class p ON p.oid = t.relid
                UNION ALL SELECT c.* LOOP
        found := CASE
            WHEN part.relkind = 'f' THEN 'is a foreign table'
            WHEN part.relpersistence = 'u' THEN 'is unlogged'
            WHEN part.relpersistence = 't' THEN 'is temporary'
            WHEN part.relkind = 'r' AND part.relam <> (SELECT oid FROM pg_am WHERE amname = 'heap') THEN 'is not stored as a heap'
            WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = part.oid AND NOT tgisinternal
                         AND tgfoid NOT IN ('chainify_ledger.digest()'::regprocedure, 'chainify_ledger.store()'::regprocedure)) THEN 'has triggers'
            WHEN EXISTS (SELECT FROM pg_rewrite WHERE ev_class = part.oid) THEN 'has rules' END;
        IF found IS NOT NULL THEN
            RETURN format('Table "%s" %s.', part.oid::regclass, found);
        END IF;
    END LOOP;
    SELECT CASE WHEN contype = 'x' THEN format('Constraint "%s" is an exclusion constraint.', conname)
                ELSE format('Constraint "%s" is deferrable.', conname) END
    INTO found FROM pg_constraint
    WHERE (conrelid = tbl OR confrelid = tbl) AND (condeferrable AND contype <> 'f' OR contype = 'x') ORDER BY conname LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    -- Of majors after 15, whose pg_constraint has more columns.
    SELECT format('Constraint "%s" is %s.', k.conname, CASE WHEN k.contype = 'n' THEN 'not valid' WHEN o.r ->> 'conenforced' = 'false' THEN 'not enforced' ELSE 'of periods' END)
    INTO found FROM pg_constraint k, to_jsonb(k) o (r)
    WHERE (k.conrelid IN (SELECT relid FROM pg_partition_tree(tbl) UNION SELECT tbl) OR k.confrelid = tbl)
      AND (k.contype = 'n' AND NOT k.convalidated OR o.r ->> 'conenforced' = 'false' OR o.r ->> 'conperiod' = 'true') ORDER BY k.conname LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    found := coalesce(chainify_ledger.crossing_actions(tbl), CASE c.relkind WHEN 'p' THEN chainify_ledger.local_hash(tbl) END);
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    SELECT format('Foreign key "%s" leads %s table "%s", which is not on the ledger; attach them together.', conname,
                  CASE WHEN conrelid = tbl THEN 'to' ELSE 'from' END,
                  CASE WHEN conrelid = tbl THEN confrelid ELSE conrelid END::regclass)
    INTO found FROM pg_constraint
    WHERE contype = 'f' AND conparentid = 0 AND (conrelid = tbl AND confrelid <> ALL (on_ledger) OR confrelid = tbl AND conrelid <> ALL (on_ledger))
    ORDER BY conname LIMIT 1;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    SELECT CASE
            WHEN chainify_ledger.is_local_type(a.atttypid)
                THEN format('Column "%s" has type %s, whose values mean something else in another database.', a.attname, format_type(a.atttypid, NULL))
            WHEN a.attgenerated NOT IN ('', 's') THEN format('Column "%s" is virtual.', a.attname)
            ELSE format('Column "%s" has a name of the history''s own columns.', a.attname) END
    INTO found FROM pg_attribute a
    WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped
      AND (chainify_ledger.is_local_type(a.atttypid) OR a.attgenerated NOT IN ('', 's') OR a.attname IN ('_block', '_tx', '_serial', '_op', '_hash')
           OR a.attname LIKE '\_dropped\_%')
    ORDER BY a.attnum LIMIT 1;
    RETURN found;
END
$$;

-- Tables by schema and name; raises 42P01 for one that does not exist.
CREATE FUNCTION chainify_ledger.find_tables(schemas text[], names text[]) RETURNS regclass[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables regclass[] := '{}';
    tbl regclass;
BEGIN
    FOR i IN 1 .. cardinality(names) LOOP
        tbl := to_regclass(quote_ident(schemas[i]) || '.' || quote_ident(names[i]));
        IF tbl IS NULL THEN
            RAISE EXCEPTION 'relation "%.%" does not exist', schemas[i], names[i] USING ERRCODE = '42P01';
        ELSIF tbl = ANY (tables) THEN
            RAISE EXCEPTION 'table "%.%" is named twice', schemas[i], names[i] USING ERRCODE = '42712';
        END IF;
        tables := tables || tbl;
    END LOOP;
    RETURN tables;
END
$$;

-- Name of a table's history and checkpoint: its own, or schema__table outside of schema public.
CREATE FUNCTION chainify_ledger.copy_name(schema text, name text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy text := CASE schema WHEN 'public' THEN name ELSE schema || '__' || name END;
BEGIN
    IF octet_length(copy) > 63 THEN
        RAISE EXCEPTION 'table "%.%" cannot be put on the ledger', schema, name USING ERRCODE = 'CH005',
            DETAIL = format('The name of its history, "%s", is longer than 63 bytes.', copy);
    END IF;
    RETURN copy;
END
$$;

-- The view of a history for people: each change with the words for what it did, and by whom. It is called after the history, and left out
-- where that name is too long or taken; a table of its name has precedence.
CREATE FUNCTION chainify_ledger.make_ledger_view(history regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    view text;
    columns text;
    old regclass;
BEGIN
    FOR old IN SELECT DISTINCT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class
               WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = history
                 AND c.relnamespace = 'chainify_history'::regnamespace LOOP
        EXECUTE format('DROP VIEW %s', old);
    END LOOP;
    SELECT relname || '_ledger' INTO view FROM pg_class WHERE oid = history;
    IF octet_length(view) > 63 OR to_regclass('chainify_history.' || quote_ident(view)) IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT string_agg(format('h.%I', attname), ', ' ORDER BY attnum) INTO columns FROM pg_attribute
    WHERE attrelid = history AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_dropped\_%' AND attname NOT IN ('_op', '_hash');
    EXECUTE format($v$CREATE VIEW chainify_history.%I AS
        SELECT %s, CASE h._op WHEN 'I' THEN 'INSERT' WHEN 'U' THEN 'UPDATE' WHEN 'D' THEN 'DELETE' END AS _operation,
            t.id AS _transaction, d.organisation AS _organisation, d.role AS _role,
            timestamptz 'epoch' + b.block_time * interval '1 microsecond' AS _block_time
        FROM %s h
        LEFT JOIN chainify_ledger.block b ON b.number = h._block
        LEFT JOIN chainify_ledger.transaction t ON t.block = h._block AND t.index = h._tx
        LEFT JOIN LATERAL chainify_ledger.decode_transaction(t.body) d ON true$v$, view, columns, history);
    EXECUTE format('GRANT SELECT ON chainify_history.%I TO chainify_reader', view);
END
$$;

-- The view of a table's rows at the block that the setting chainify.as_of says, made anew whenever the table changes. It depends on the types of
-- the columns and not on the table, so that it is in no definition's way. Left out like the other view.
CREATE FUNCTION chainify_ledger.make_as_of_view(tbl regclass, copy text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    view text := copy || '_as_of';
BEGIN
    PERFORM chainify_ledger.drop_as_of_view(copy);
    IF octet_length(view) > 63 OR to_regclass('chainify_history.' || quote_ident(view)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE VIEW chainify_history.%I AS SELECT * FROM chainify_ledger.rows_as_of(%L, chainify_ledger.as_of_block()) AS r (%s)', view,
        (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tbl), chainify_ledger.plain_columns(tbl));
    EXECUTE format('GRANT SELECT ON chainify_history.%I TO chainify_reader', view);
END
$$;

-- Drops that view; what else has its name stays.
CREATE FUNCTION chainify_ledger.drop_as_of_view(copy text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    view oid := to_regclass('chainify_history.' || quote_ident(copy || '_as_of'));
BEGIN
    IF EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
               WHERE r.ev_class = view AND d.refclassid = 'pg_proc'::regclass
                 AND d.refobjid = 'chainify_ledger.rows_as_of(text, bigint)'::regprocedure) THEN
        EXECUTE format('DROP VIEW %s', view::regclass);
    END IF;
END
$$;

-- Makes way for a history of this name, which a view of another one may have.
CREATE FUNCTION chainify_ledger.drop_ledger_view(name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relname = name AND relkind = 'v') THEN
        EXECUTE format('DROP VIEW chainify_history.%I', name);
    END IF;
END
$$;

-- The type below a domain, or the type itself, as text. Copies of a column have it: to write them evaluates no condition and no default
-- of a user's, and a domain binds no row that is past. Arrays and rows with domains in them stay as they are: to copy their values evaluates
-- nothing either, and the values say of what type they are.
CREATE FUNCTION chainify_ledger.plain_type(type oid, typmod integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (type, typmod) AS (
        SELECT type, typmod
        UNION ALL SELECT t.typbasetype, t.typtypmod FROM below b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd')
    SELECT format_type(b.type, b.typmod) FROM below b JOIN pg_type t ON t.oid = b.type WHERE t.typtype <> 'd'
$$;

-- The columns of a table as its copies have them.
CREATE FUNCTION chainify_ledger.plain_columns(tbl regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%I %s%s', attname, chainify_ledger.plain_type(atttypid, atttypmod),
               (SELECT format(' COLLATE %I.%I', n.nspname, co.collname) FROM pg_collation co
                JOIN pg_namespace n ON n.oid = co.collnamespace WHERE co.oid = attcollation)), ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = tbl AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('_block', '_tx', '_serial', '_op', '_hash')
$$;

-- Has a copy index values as the table does, so that what fits into its primary key's index fits into this one, which therefore holds the key
-- alone: a block must never fail on its history after its transactions succeeded. Columns of both are stored as their types say.
CREATE FUNCTION chainify_ledger.index_as(tbl regclass, copy regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE INDEX ON %s (%s)', copy, (
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.position)
        FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k (attnum, position), pg_attribute a
        WHERE i.indrelid = tbl AND i.indisprimary AND k.position <= i.indnkeyatts AND a.attrelid = tbl AND a.attnum = k.attnum));
END
$$;

-- The table of a table's changes. One that an earlier attachment left is used again when its columns are the same.
CREATE FUNCTION chainify_ledger.make_history(tbl regclass, copy text) RETURNS regclass
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text := chainify_ledger.plain_columns(tbl);
    aside text;
    kept regclass;
BEGIN
    PERFORM chainify_ledger.drop_ledger_view(copy);
    kept := to_regclass('chainify_history.' || quote_ident(copy));
    IF kept IS NOT NULL THEN
        IF chainify_ledger.plain_columns(kept) IS DISTINCT FROM columns
           OR NOT EXISTS (SELECT FROM chainify_ledger.ledger_table t WHERE t.history = kept
                          AND t.name = (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                        WHERE c.oid = tbl)) THEN
            -- Its own earlier history, of other columns, is kept beside the new one: blocks are verified against it.
            SELECT left(copy, 40) || '__until_' || t.detached_at INTO aside FROM chainify_ledger.ledger_table t
            WHERE t.history = kept AND t.name = (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                                 WHERE c.oid = tbl) ORDER BY t.id DESC LIMIT 1;
            IF aside IS NULL OR octet_length(aside) > 63 OR to_regclass('chainify_history.' || quote_ident(aside)) IS NOT NULL THEN
                RAISE EXCEPTION 'table "%" cannot be put on the ledger', tbl USING ERRCODE = 'CH005',
                    DETAIL = format('There is a history "%s" of another table, or one with other columns that cannot be renamed.', kept);
            END IF;
            EXECUTE format('ALTER TABLE %s RENAME TO %I', kept, aside);
            PERFORM chainify_ledger.make_ledger_view(kept);
        ELSE
            PERFORM chainify_ledger.make_ledger_view(kept);
            RETURN kept;
        END IF;
    END IF;
    EXECUTE format('CREATE TABLE chainify_history.%I (%s, _block bigint NOT NULL, _tx integer NOT NULL, _serial integer NOT NULL,'
                   ' _op "char" NOT NULL, _hash bytea NOT NULL) USING heap', copy, columns);
    PERFORM chainify_ledger.index_as(tbl, format('chainify_history.%I', copy)::regclass);
    -- Written in the order of blocks, so a few pages say where a range of blocks lies.
    EXECUTE format('CREATE INDEX ON chainify_history.%I USING brin (_block) WITH (pages_per_range = 16)', copy);
    EXECUTE format('GRANT SELECT ON chainify_history.%I TO chainify_reader', copy);
    PERFORM chainify_ledger.make_ledger_view(format('chainify_history.%I', copy)::regclass);
    RETURN format('chainify_history.%I', copy)::regclass;
END
$$;

-- The rows that checkpoints start from: at first those at attachment. Indexed as the table, so that what fits there fits here.
CREATE FUNCTION chainify_ledger.make_base(tbl regclass, copy text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text;
BEGIN
    EXECUTE format('CREATE TABLE chainify_checkpoint.%I (%s) USING heap', copy, chainify_ledger.plain_columns(tbl));
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
    FROM pg_attribute WHERE attrelid = tbl AND attnum > 0 AND NOT attisdropped;
    EXECUTE format('INSERT INTO chainify_checkpoint.%I (%s) SELECT %s FROM %s', copy, columns, columns, tbl);
    PERFORM chainify_ledger.index_as(tbl, format('chainify_checkpoint.%I', copy)::regclass);
    EXECUTE format('GRANT SELECT ON chainify_checkpoint.%I TO chainify_reader', copy);
END
$$;

-- The triggers that record and guard; rows of partitions fire their own clones, TRUNCATE fires where the rows are.
CREATE FUNCTION chainify_ledger.make_triggers(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER chainify_digest AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION chainify_ledger.digest()', tbl);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER chainify_digest', tbl);
    PERFORM chainify_ledger.make_truncate_triggers(tbl);
    PERFORM chainify_ledger.follow_store_trigger(tbl);
END
$$;

-- Of a table with columns whose equal values may have several forms, and of no other. Partitions fire their own clones.
CREATE FUNCTION chainify_ledger.follow_store_trigger(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted boolean := chainify_ledger.columns_of_many_forms(tbl) IS NOT NULL;
BEGIN
    IF wanted IS NOT DISTINCT FROM EXISTS (SELECT FROM pg_trigger WHERE tgrelid = tbl AND tgname = 'chainify_store') THEN
        RETURN;
    ELSIF wanted THEN
        EXECUTE format('CREATE TRIGGER chainify_store BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION chainify_ledger.store()', tbl);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER chainify_store', tbl);
    ELSE
        EXECUTE format('DROP TRIGGER chainify_store ON %s', tbl);
    END IF;
END
$$;

-- Brings the values of rows that are there into the form in which the ledger stores them (pg/base/stored_form.rs). The trigger does it, once
-- a statement changes a row. Cost: a scan, and an update of each row that has another form; nothing for a table without such columns.
CREATE FUNCTION chainify_ledger.settle_rows(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text := chainify_ledger.columns_of_many_forms(tbl);
BEGIN
    IF columns IS NULL THEN
        RETURN;
    END IF;
    PERFORM chainify_ledger.announce_tables();
    EXECUTE format('UPDATE %s t SET (%s) = ROW (%s) WHERE NOT chainify_ledger.in_stored_form(t.*)', tbl, columns, columns);
END
$$;

-- However many of them are there.
CREATE FUNCTION chainify_ledger.drop_triggers(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT tgrelid::regclass AS relation, tgname FROM pg_trigger
             WHERE tgrelid IN (SELECT relid FROM pg_partition_tree(tbl) UNION SELECT tbl)
               AND tgname LIKE 'chainify\_%' AND tgparentid = 0 LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.relation);
    END LOOP;
END
$$;

-- Of a table, or of a partition made later, which has its clone of the other one from the table; where there is none yet.
CREATE FUNCTION chainify_ledger.make_truncate_triggers(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf regclass;
BEGIN
    FOR leaf IN SELECT l FROM unnest(chainify_ledger.leaves(tbl)) l
                WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = l AND t.tgname = 'chainify_truncate') LOOP
        EXECUTE format('CREATE TRIGGER chainify_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION chainify_ledger.digest()', leaf);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER chainify_truncate', leaf);
    END LOOP;
END
$$;

-- The relations that hold a table's rows: itself, or its partitions without partitions.
CREATE FUNCTION chainify_ledger.leaves(tbl regclass) RETURNS oid[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE relkind WHEN 'p' THEN ARRAY(SELECT relid::oid FROM pg_partition_tree(tbl) WHERE isleaf ORDER BY relid)
                                ELSE ARRAY[tbl::oid] END
            FROM pg_class WHERE oid = tbl);
END
$$;

--   shared: with schema text 2
CREATE FUNCTION chainify_ledger.attach_tables(schemas text[], names text[], at_block bigint, at_tx integer, shared boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables regclass[] := chainify_ledger.find_tables(schemas, names);
    obstacle text;
BEGIN
    FOR i IN 1 .. cardinality(tables) LOOP
        -- Only tables can be locked; for anything else the reason follows.
        IF EXISTS (SELECT FROM pg_class WHERE oid = tables[i] AND relkind IN ('r', 'p')) THEN
            EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', tables[i]);
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(tables) LOOP
        obstacle := CASE WHEN EXISTS (SELECT FROM chainify_ledger.ledger_table WHERE relation = tables[i] AND detached_at IS NULL)
                         THEN 'It is on the ledger already.' ELSE chainify_ledger.attach_obstacle(tables[i], tables) END;
        IF obstacle IS NOT NULL THEN
            RAISE EXCEPTION 'table "%.%" cannot be put on the ledger', schemas[i], names[i]
                USING ERRCODE = 'CH005', DETAIL = obstacle;
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(tables) LOOP
        -- Its changes before and after would belong to two attachments within one block, and one history.
        IF EXISTS (SELECT FROM chainify_ledger.ledger_table t WHERE t.name = schemas[i] || '.' || names[i] AND t.detached_at = at_block) THEN
            RAISE EXCEPTION 'table "%.%" cannot be put on the ledger', schemas[i], names[i]
                USING ERRCODE = 'CH005', DETAIL = 'It was taken off the ledger in this block.', HINT = 'Attach it in a later block.';
        END IF;
        PERFORM chainify_ledger.settle_storage(tables[i]);
        PERFORM chainify_ledger.attach_one(tables[i], schemas[i], names[i], at_block, at_tx, shared,
            (SELECT string_agg(x.line, E'\n' ORDER BY x.line COLLATE "C") FROM chainify_ledger.refusing_indexes(ARRAY[tables[i]::oid]) x));
        PERFORM chainify_ledger.keep_initial(tables[i]);
    END LOOP;
    PERFORM chainify_ledger.keep_schema_parts();
    PERFORM chainify_ledger.announce_tables();
END
$$;

CREATE FUNCTION chainify_ledger.attach_one(tbl regclass, schema text, name text, at_block bigint, at_tx integer, shared boolean DEFAULT false,
    indexes text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy text := chainify_ledger.copy_name(schema, name);
    history regclass := chainify_ledger.make_history(tbl, copy);
    new_id integer;
BEGIN
    INSERT INTO chainify_ledger.ledger_table AS t (name, relation, history, checkpoint, schema_hash, attached_at, attached_tx, base_block, beside)
    VALUES (schema || '.' || attach_one.name, tbl, history, 0, '', at_block, at_tx, at_block - 1, nullif(concat_ws(E'\n', attach_one.indexes, chainify_ledger.letters()), ''))
    RETURNING t.id INTO new_id;
    INSERT INTO chainify_ledger.ledger_column (table_id, ordinal, name, key_part, attnum, type)
    SELECT new_id, row_number() OVER (ORDER BY a.attnum), a.attname, chainify_ledger.key_part(tbl, a.attnum), a.attnum, a.atttypid
    FROM pg_attribute a WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped;
    IF shared THEN
        UPDATE chainify_ledger.ledger_table t
        SET shared_text = chainify_ledger.shared_schema_text(new_id), wording = chainify_ledger.wording(tbl) WHERE t.id = new_id;
    END IF;
    PERFORM chainify_ledger.make_triggers(tbl);
    PERFORM chainify_ledger.start_version(new_id, copy);
END
$$;

-- Position of a column in the primary key, from 1; NULL when it is not in it.
CREATE FUNCTION chainify_ledger.key_part(tbl regclass, attnum smallint) RETURNS smallint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.position FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k (attnum, position)
    WHERE i.indrelid = tbl AND i.indisprimary AND k.attnum = key_part.attnum AND k.position <= i.indnkeyatts
$$;

-- The start of a version of a table: its rows now as checkpoint, and their state by a full scan.
CREATE FUNCTION chainify_ledger.start_version(id integer, copy text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t chainify_ledger.ledger_table;
    hash bytea;
    column_names text[];
    column_ordinals smallint[];
    state record;
BEGIN
    SELECT l.* INTO t FROM chainify_ledger.ledger_table l WHERE l.id = start_version.id;
    PERFORM chainify_ledger.settle_rows(t.relation);
    PERFORM chainify_ledger.make_base(t.relation, copy);
    hash := chainify_ledger.live_schema_hash(t.relation);
    UPDATE chainify_ledger.ledger_table l
    SET schema_hash = hash, checkpoint = format('chainify_checkpoint.%I', copy)::regclass WHERE l.id = t.id;
    SELECT array_agg(c.name ORDER BY c.ordinal), array_agg(c.ordinal ORDER BY c.ordinal) INTO column_names, column_ordinals
    FROM chainify_ledger.ledger_column c WHERE c.table_id = t.id;
    PERFORM chainify_ledger.make_as_of_view(t.relation, copy);
    SELECT * INTO state FROM chainify_ledger.scan_state(chainify_ledger.leaves(t.relation), t.name, column_names, column_ordinals);
    INSERT INTO chainify_ledger.table_state (table_id, row_count, lanes) VALUES (t.id, state.row_count, state.lanes);
END
$$;

-- Ends a version: what was kept of it but for its history goes.
CREATE FUNCTION chainify_ledger.end_version(id integer, at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM chainify_ledger.drop_as_of_view(c.relname) FROM chainify_ledger.ledger_table l JOIN pg_class c ON c.oid = l.checkpoint WHERE l.id = end_version.id;
    EXECUTE format('DROP TABLE %s', (SELECT l.checkpoint::regclass FROM chainify_ledger.ledger_table l WHERE l.id = end_version.id));
    DELETE FROM chainify_ledger.table_state s WHERE s.table_id = end_version.id;
    DELETE FROM chainify_ledger.checkpoint c WHERE c.table_id = end_version.id;
    DELETE FROM chainify_ledger.scrubbed s WHERE s.table_id = end_version.id;
    UPDATE chainify_ledger.ledger_table l SET detached_at = at_block, detached_tx = at_tx WHERE l.id = end_version.id;
END
$$;

CREATE FUNCTION chainify_ledger.detach_tables(schemas text[], names text[], at_block bigint, at_tx integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables regclass[] := chainify_ledger.find_tables(schemas, names);
    t chainify_ledger.ledger_table;
    other text;
BEGIN
    FOR i IN 1 .. cardinality(tables) LOOP
        SELECT l.* INTO t FROM chainify_ledger.ledger_table l WHERE l.relation = tables[i] AND l.detached_at IS NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'table "%.%" is not on the ledger', schemas[i], names[i] USING ERRCODE = '55000';
        END IF;
        SELECT format('Foreign key "%s" connects it with table "%s", which stays on the ledger; detach them together.', c.conname,
                      CASE WHEN c.conrelid = t.relation THEN c.confrelid ELSE c.conrelid END::regclass)
        INTO other FROM pg_constraint c
        WHERE c.contype = 'f' AND c.conparentid = 0 AND t.relation IN (c.conrelid, c.confrelid)
          AND CASE WHEN c.conrelid = t.relation THEN c.confrelid ELSE c.conrelid END <> ALL (tables::oid[])
        ORDER BY c.conname LIMIT 1;
        IF other IS NOT NULL THEN
            RAISE EXCEPTION 'table "%.%" cannot be taken off the ledger', schemas[i], names[i]
                USING ERRCODE = 'CH005', DETAIL = other;
        END IF;
        PERFORM chainify_ledger.drop_triggers(tables[i]);
        PERFORM chainify_ledger.end_version(t.id, at_block, at_tx);
    END LOOP;
    PERFORM chainify_ledger.keep_schema_parts();
    PERFORM chainify_ledger.announce_tables();
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.attach_tables, chainify_ledger.attach_one, chainify_ledger.detach_tables,
    chainify_ledger.start_version, chainify_ledger.end_version,
    chainify_ledger.wording, chainify_ledger.local_hash, chainify_ledger.live_schema_hash, chainify_ledger.undescribed_part, chainify_ledger.shared_obstacle,
    chainify_ledger.make_triggers, chainify_ledger.follow_store_trigger, chainify_ledger.settle_rows, chainify_ledger.make_truncate_triggers, chainify_ledger.drop_triggers, chainify_ledger.make_history, chainify_ledger.make_base,
    chainify_ledger.index_as,
    chainify_ledger.make_ledger_view, chainify_ledger.drop_ledger_view, chainify_ledger.make_as_of_view, chainify_ledger.drop_as_of_view FROM PUBLIC;
