-- Parts of a table that its schema text leaves out, and that decide all the same whether a row can be stored: indexes with entries that have
-- no bound, and how columns are stored. The others (comments, names, indexes that take every row) are an organisation's own matter.

-- Which letters functions know under the database's own collation, as a line of the schema text; NULL: those of C.UTF-8. Databases of C know
-- those of ASCII alone. In others such functions are refused (spec/sql-api.md, CH006), so it is all one of which language they are.
CREATE FUNCTION chainify_ledger.letters() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN d.provider = 'b' THEN 'letters of PostgreSQL''s own ' || d.locale
                WHEN d.provider <> 'c' OR d.ctype NOT IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') OR d.by NOT IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') THEN 'letters of a language'
                WHEN d.ctype IN ('C', 'POSIX') THEN 'letters of ASCII' END
    FROM (SELECT r ->> 'datlocprovider', r ->> 'datctype', r ->> 'datcollate', coalesce(r ->> 'datlocale', r ->> 'daticulocale')
          FROM pg_database, to_jsonb(pg_database) r WHERE datname = current_database()) d (provider, ctype, by, locale)
$$;

-- A ledger begun with other letters would go on otherwise here.
CREATE FUNCTION chainify_ledger.refuse_other_letters() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began text := (SELECT c.letters FROM chainify_ledger.chain c);
BEGIN
    IF began <> coalesce(chainify_ledger.letters(), '') THEN
        RAISE EXCEPTION 'the ledger began in a database of another locale' USING ERRCODE = '55000',
            DETAIL = format('It has %s, this database %s.', coalesce(nullif(began, ''), 'letters of C.UTF-8'), coalesce(chainify_ledger.letters(), 'letters of C.UTF-8')),
            HINT = 'Use a database made as that one was, such as with LOCALE ''C.UTF-8'' TEMPLATE template0.';
    END IF;
END
$$;

-- The libraries and settings that functions and orders lean on beside the ledger, which nodes compare between organisations. The memory
-- holds what is sorted, since a server may refuse temporary files.
CREATE FUNCTION chainify.environment() RETURNS TABLE (name text, value text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET work_mem = '16MB' AS $$
    SELECT v.name, v.value FROM pg_database d, to_jsonb(d) r, LATERAL (VALUES
        ('server', current_setting('server_version')),
        ('build', version()),
        ('encoding', pg_encoding_to_char(d.encoding)),
        ('locale provider', CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' ELSE 'builtin' END),
        ('collate', r ->> 'datcollate'),
        ('ctype', r ->> 'datctype'),
        ('locale', coalesce(r ->> 'datlocale', r ->> 'daticulocale')),
        ('letters', coalesce(chainify_ledger.letters(), 'letters of C.UTF-8')),
        ('collation version, when made', d.datcollversion),
        ('collation version, now', pg_database_collation_actual_version(d.oid)),
        ('icu', (SELECT pg_collation_actual_version(c.oid) FROM pg_collation c WHERE c.collprovider = 'i' ORDER BY c.collname <> 'und-x-icu', c.collname LIMIT 1)),
        ('libc', (SELECT max(pg_collation_actual_version(c.oid)) FROM pg_collation c WHERE c.collprovider = 'c')),
        ('tls library', current_setting('ssl_library')),
        -- Of these places since 1970 and until 2037: rules that a newer time zone database changed show. Their names are in databases of all ages.
        ('time zones', (SELECT md5(string_agg(make_timestamptz(y, m, 15, 12, 0, 0, z)::text, ' ' ORDER BY z COLLATE "C", y, m))
                        FROM unnest(ARRAY['America/New_York', 'America/Sao_Paulo', 'America/Mexico_City', 'Africa/Cairo', 'Asia/Amman', 'Asia/Gaza', 'Asia/Tehran',
                                          'Europe/Berlin', 'Europe/Moscow', 'Australia/Sydney']) z,
                             generate_series(1970, 2037) y, generate_series(1, 12) m)),
        ('extensions', (SELECT string_agg(e.extname || ' ' || e.extversion, ', ' ORDER BY e.extname) FROM pg_extension e))) v (name, value)
    WHERE d.datname = current_database() AND v.value IS NOT NULL
$$;

-- Keeps it, and tells the log what changed since the node started last.
CREATE FUNCTION chainify_ledger.note_environment() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    other record;
BEGIN
    FOR other IN SELECT n.name, n.value, e.value AS was FROM chainify.environment() n LEFT JOIN chainify_ledger.environment e ON e.name = n.name
                 WHERE n.value IS DISTINCT FROM e.value LOOP
        IF other.was IS NOT NULL THEN
            RAISE LOG 'chainify: % of this database was %, and is %', other.name, other.was, other.value;
        END IF;
        INSERT INTO chainify_ledger.environment (name, value) VALUES (other.name, other.value)
        ON CONFLICT ON CONSTRAINT environment_pkey DO UPDATE SET value = excluded.value;
    END LOOP;
END
$$;

-- Whether an index can refuse a row that its table takes. It cannot when it has no expression and no condition, its columns have types and operator
-- classes of PostgreSQL's own, and its entries are bounded: hash codes, or a B-tree or BRIN with values of few bytes. (A B-tree takes 2,704.)
CREATE FUNCTION chainify_ledger.may_refuse(index oid) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
    SELECT i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
           OR NOT (m.amname = 'hash' OR m.amname = 'btree' AND coalesce(s.most, 9999) <= 2500
                   OR m.amname = 'brin' AND coalesce(s.most, 9999) <= 1000
                      AND NOT EXISTS (SELECT FROM unnest(i.indclass) k JOIN pg_opclass o ON o.oid = k WHERE o.opcname NOT LIKE '%\_minmax\_ops'))
           OR EXISTS (SELECT FROM unnest(i.indclass) k (oid) WHERE k.oid >= 16384)
           OR EXISTS (SELECT FROM unnest(i.indkey) k (attnum) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                      JOIN pg_type y ON y.oid = a.atttypid
                      WHERE NOT (y.typtype = 'e' OR y.oid < 16384 AND y.typtype = 'b' AND y.typcategory <> 'A'))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam,
    LATERAL (
        SELECT CASE WHEN count(*) = count(b.bytes) THEN sum(b.bytes) END
        FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid, LATERAL (SELECT CASE
            WHEN y.typlen > 0 THEN y.typlen
            WHEN y.typlen = -2 THEN 64 -- a name
            WHEN y.oid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 4 THEN 4 * (a.atttypmod - 4) + 4
            WHEN y.oid IN ('bit'::regtype, 'varbit'::regtype) AND a.atttypmod > 0 THEN a.atttypmod / 8 + 12
            WHEN y.oid = 'numeric'::regtype AND a.atttypmod > 4 THEN ((a.atttypmod - 4) >> 16 & 65535) / 2 + 16
            WHEN y.oid IN ('inet'::regtype, 'cidr'::regtype) THEN 24 END) b (bytes)
        WHERE a.attrelid = i.indexrelid) s (most)
    WHERE i.indexrelid = index);
END
$$;

-- The relations of tables: themselves and their partitions.
CREATE FUNCTION chainify_ledger.relations_of(tables oid[]) RETURNS TABLE (tbl oid, relation regclass)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT t.oid, t.oid::regclass FROM unnest(tables) t (oid)
        UNION SELECT t.oid, p.relid FROM unnest(tables) t (oid), pg_partition_tree(t.oid) p;
END
$$;

-- The indexes of tables, and of their partitions, that can refuse a row and that neither a constraint nor UNIQUE puts in the schema text. Options
-- of storage decide nothing. In PL/pgSQL, because a session plans it once: planning takes longer than the rest.
CREATE FUNCTION chainify_ledger.refusing_indexes(tables oid[]) RETURNS TABLE (tbl oid, line text, make text, unmake text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.tbl, format('index on %s %s', p.relation, regexp_replace(regexp_replace(d.text, '^CREATE INDEX .*? ON .*? USING ', ''), ' WITH \([^)]*\)', '')),
           regexp_replace(d.text, '^(CREATE INDEX .*?) ON ONLY ', '\1 ON '), format('DROP INDEX %I.%I', n.nspname, c.relname)
    -- OFFSET 0: else the planner asks the function for each index of the database.
    FROM (SELECT r.tbl, r.relation, i.indexrelid FROM chainify_ledger.relations_of(tables) r JOIN pg_index i ON i.indrelid = r.relation
          WHERE NOT i.indisunique AND NOT i.indisexclusion AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid) OFFSET 0) p
    JOIN pg_class c ON c.oid = p.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace,
    LATERAL (SELECT pg_get_indexdef(p.indexrelid)) d (text)
    WHERE chainify_ledger.may_refuse(p.indexrelid);
END
$$;

-- Columns that are not stored as their types say, with the statements that settle it: new values follow. Which rows are too big, and which keys too
-- long for their index, depends on it.
CREATE FUNCTION chainify_ledger.stored_otherwise(tables oid[]) RETURNS TABLE (tbl oid, line text, unmake text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.tbl, format('storage of %s %I%s%s', p.relation, a.attname, CASE WHEN a.attstorage <> y.typstorage THEN ' ' || w.word END,
                         CASE a.attcompression WHEN 'l' THEN ' lz4' WHEN 'p' THEN ' pglz' END),
           format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STORAGE %s', p.relation, a.attname, v.word)
           || CASE WHEN a.attcompression <> '' THEN format(', ALTER COLUMN %I SET COMPRESSION default', a.attname) ELSE '' END
    FROM chainify_ledger.relations_of(tables) p
    JOIN pg_attribute a ON a.attrelid = p.relation AND a.attnum > 0 AND NOT a.attisdropped JOIN pg_type y ON y.oid = a.atttypid,
    LATERAL (SELECT CASE a.attstorage WHEN 'p' THEN 'plain' WHEN 'e' THEN 'external' WHEN 'm' THEN 'main' ELSE 'extended' END) w (word),
    LATERAL (SELECT CASE y.typstorage WHEN 'p' THEN 'plain' WHEN 'e' THEN 'external' WHEN 'm' THEN 'main' ELSE 'extended' END) v (word)
    WHERE a.attstorage <> y.typstorage OR a.attcompression <> '';
END
$$;

-- Stores columns of a table as their types say.
CREATE FUNCTION chainify_ledger.settle_storage(tbl regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT s.unmake FROM chainify_ledger.stored_otherwise(ARRAY[tbl::oid]) s LOOP
        EXECUTE o.unmake;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION chainify_ledger.settle_storage, chainify_ledger.refuse_other_letters, chainify_ledger.note_environment, chainify.environment FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chainify.environment TO chainify_reader;
