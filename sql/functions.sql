-- Functions, aggregates and types by name: what no list names is refused, also when it is declared immutable; and what no call of a function shows.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
CREATE EXTENSION isn;
CREATE EXTENSION ltree;
CREATE EXTENSION pg_trgm;
CREATE EXTENSION hstore;
CREATE TYPE colour AS ENUM ('red', 'blue');
CREATE TYPE pointing AS (id int, what regclass);
CREATE DOMAIN pointer AS regclass;
CREATE TABLE t (id int PRIMARY KEY, s text, c colour, o bigint, d interval, f float8, n numeric(12, 2), r int4range, nr numrange, tags hstore, path ltree, isbn isbn13);
INSERT INTO t VALUES (1, 'a', 'red', 1259), (2, 'b', 'blue', 1259);
GRANT ALL ON t TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.t');
-- what each statement is refused for; nothing: it is deterministic
CREATE FUNCTION test.verdicts(VARIADIC sqls text[]) RETURNS TABLE (sql text, refused_for text) LANGUAGE sql AS $$
    SELECT s, string_agg(a.construct, '; ' ORDER BY a.statement, a.construct) FROM unnest(sqls) WITH ORDINALITY u (s, i), chainify.analyze(s) a GROUP BY i, s ORDER BY i
$$;

-- state, server and catalogs behind functions that are declared immutable or stable
SELECT * FROM test.verdicts('SELECT isn_weak(true)', 'SELECT isn_weak()', 'UPDATE t SET isbn = ''978-0-393-04001-2''', 'SELECT is_valid(isbn), isbn::text FROM t', 'SELECT pg_walfile_name(''0/1000001'')', 'SELECT pg_walfile_name_offset(''0/1000001'')', 'SELECT satisfies_hash_partition(1, 1, 0, 1)',
    'SELECT current_schemas(false)', 'SELECT current_schema', 'SELECT current_schema()', 'SELECT get_current_ts_config()', 'SELECT to_tsvector(s), to_tsvector(''english'', s), ts_lexize(''english_stem'', s) FROM t', 'SELECT s % ''a'' FROM t', 'SELECT show_limit()', 'SELECT similarity(s, ''a'') > 0.3 FROM t', 'SELECT s <-> ''a'' FROM t',
    'SELECT hstore_version_diag(tags) FROM t', 'SELECT tags -> ''a'', tags || hstore(''a'', s), path || ''b'', path ~ ''a.*'' FROM t', 'SELECT acldefault(''r'', 10)', 'SELECT aclexplode(NULL)', 'SELECT pg_typeof(s) FROM t', 'SELECT quote_ident(s), md5(s), hashtext(s), n + 1, d * 2, c < ''blue'' FROM t');
-- numbers of objects in hashes and in binary forms
SELECT * FROM test.verdicts('SELECT hashenum(c) FROM t', 'SELECT hashenumextended(c, 1) FROM t', 'SELECT hash_array(ARRAY[c]) FROM t', 'SELECT hash_record(ROW(c)) FROM t', 'SELECT hash_range(r), hash_multirange(multirange(r)) FROM t', 'SELECT array_send(ARRAY[c]) FROM t', 'SELECT record_send(ROW(1, c)) FROM t', 'SELECT range_send(r) FROM t',
    'SELECT enum_send(c), textsend(s), hashtext(c::text), hashint8(o) FROM t', 'SELECT a *< b FROM t a, t b', 'SELECT ROW(c) < ROW(c), ARRAY[c] = ARRAY[c] FROM t');
-- and in texts, however they come into them
SELECT * FROM test.verdicts('UPDATE t SET s = concat(1259::oid::regclass)', 'UPDATE t SET s = format(''%s'', o::oid::regclass)', 'UPDATE t SET s = to_json(o::oid::regtype)::text', 'UPDATE t SET s = array_to_string(ARRAY[o::oid::regrole], '','')', 'UPDATE t SET s = o::oid::regclass || s', 'UPDATE t SET s = ROW(o::oid::regproc)::text', 'UPDATE t SET s = (o::oid::regclass)::text', 'UPDATE t SET s = json_build_object(''a'', o::oid::regnamespace)',
    'SELECT ''{t}''::regclass[]', 'SELECT ''(1,t)''::pointing', 'SELECT NULL::pointer', 'SELECT o::oid::pointer FROM t', 'SELECT ''postgres=r/postgres''::aclitem', 'SELECT ''english''::regconfig', 'SELECT concat(''english''::regconfig)', 'SELECT to_tsvector(o::oid::regconfig, s) FROM t', 'SELECT to_tsvector(13000::oid::regconfig, s) FROM t',
    'SELECT concat(x) FROM json_to_record(''{}'') AS x (a regclass)', 'SELECT jsonb_populate_record(NULL::pointing, ''{}'')', 'SELECT concat(x) FROM json_populate_recordset(NULL::pointing, ''[]'') x', 'SELECT string_agg(x::text, '','' ORDER BY 1) FROM (SELECT o::oid::regclass FROM t) y (x)', 'SELECT concat(x) FROM xmltable(''/a'' PASSING ''<a/>'' COLUMNS b regclass) x', 'SELECT $1::regclass IS NULL', 'SELECT o::oid FROM t');
-- the order of rows in each aggregate: ranges put together and medians keep one of equal bounds, sums of intervals may fail on the way
SELECT * FROM test.verdicts('SELECT sum(d) FROM t', 'SELECT avg(d) FROM t', 'SELECT sum(d ORDER BY id) FROM t', 'SELECT sum(d ORDER BY d) FROM t', 'SELECT sum(DISTINCT d) FROM t', 'SELECT sum(d) OVER () FROM t', 'SELECT sum(d) OVER (ORDER BY id) FROM t', 'SELECT sum(extract(epoch FROM d)) FROM t', 'SELECT sum(n::money) FROM t',
    'SELECT range_agg(r), range_intersect_agg(r) FROM t', 'SELECT range_agg(nr) FROM t', 'SELECT range_intersect_agg(nr) FROM t', 'SELECT range_agg(nr ORDER BY id) FROM t', 'SELECT DISTINCT r FROM t', 'SELECT DISTINCT nr FROM t',
    'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n), percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM t', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM t', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY d) FROM t', 'SELECT percentile_cont(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY id) FROM t',
    'SELECT rank(1) WITHIN GROUP (ORDER BY id), count(*), bool_or(id > 1), bit_xor(id), every(id > 1), regr_count(f, f), stddev(n), sum(n), avg(id) FROM t', 'SELECT string_agg(s::bytea, '''') FROM t', 'SELECT first_value(id) OVER (PARTITION BY s) FROM t');
-- each aggregate and window function of 15 is known
SELECT p.oid::regprocedure AS unknown FROM pg_proc p LEFT JOIN pg_aggregate g ON g.aggfnoid = p.oid, LATERAL (SELECT string_agg('NULL::' || CASE a
        WHEN 'anyarray'::regtype THEN 'int[]' WHEN 'anyenum'::regtype THEN 'colour' WHEN 'anyrange'::regtype THEN 'int4range' WHEN 'anymultirange'::regtype THEN 'int4multirange'
        ELSE coalesce((SELECT format_type(a, NULL) FROM pg_type y WHERE y.oid = a AND y.typtype = 'b'), 'int') END, ', ' ORDER BY i) AS list FROM unnest(proargtypes) WITH ORDINALITY u (a, i)) x,
    chainify.analyze(format('SELECT %I(%s)%s FROM t', proname, coalesce(list, CASE WHEN prokind = 'a' THEN '*' END), CASE WHEN prokind = 'w' THEN ' OVER ()' END)) v
WHERE pronamespace = 'pg_catalog'::regnamespace AND (aggkind = 'n' OR prokind = 'w') AND v.construct = p.proname || '()';

-- The rules hold where no query is planned: variables and results of PL/pgSQL, conditions of tables and domains, generated columns, operators, casts, aggregates.
CREATE FUNCTION shown(o bigint) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r regclass; BEGIN r := o::oid; RETURN r; END $$;
CREATE FUNCTION shown_of(o anyelement) RETURNS text LANGUAGE plpgsql AS $$ DECLARE p pointing; BEGIN p.what := o::oid; RETURN p; END $$;
CREATE FUNCTION shown_in_rows(o bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$ DECLARE rs pointer[]; BEGIN rs[1] := o::oid; RETURN NEXT rs; END $$;
CREATE FUNCTION weak() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN isn_weak(true); END $$;
CREATE FUNCTION weak_by_name() RETURNS bool LANGUAGE plpgsql AS $$ DECLARE b bool; BEGIN EXECUTE 'SELECT isn_weak(true)' INTO b; RETURN b; END $$;
CREATE OPERATOR @@@ (RIGHTARG = boolean, FUNCTION = isn_weak);
CREATE AGGREGATE wal (pg_lsn) (SFUNC = pg_lsn_larger, STYPE = pg_lsn, FINALFUNC = pg_walfile_name);
CREATE CAST (pg_lsn AS text) WITH FUNCTION pg_walfile_name(pg_lsn);
SELECT tx, ok, sqlstate, message FROM test.run('SELECT shown(1259)', 'SELECT shown_of(1259)', 'SELECT shown_in_rows(1259)', 'SELECT weak()', 'SELECT weak_by_name()', 'SELECT @@@ true', 'SELECT wal(''0/1'')', 'SELECT ''0/1''::pg_lsn::text', 'UPDATE t SET isbn = ''978-0-393-04002-4'' WHERE id = 1');
DROP CAST (pg_lsn AS text);
DROP AGGREGATE wal (pg_lsn);
CREATE DOMAIN of_session AS text CHECK (VALUE <> session_user AND VALUE <> current_schema);
CREATE DOMAIN of_catalog AS bigint CHECK ((VALUE::oid::regclass)::text <> 't');
SELECT * FROM test.verdicts('SELECT s::of_session FROM t', 'SELECT o::of_catalog FROM t');
SELECT * FROM test.refusals($$test.deploy('ATTACH TABLE public.n')$$,
    'CREATE TABLE n (id int PRIMARY KEY, who text CHECK (who <> session_user))', 'CREATE TABLE n (id int PRIMARY KEY, o oid[], what bigint CHECK ((what::oid::regclass)::text <> ''t''))', 'CREATE TABLE n (id int PRIMARY KEY, what bigint CHECK ((what::oid::regclass)::text <> ''t''))', 'CREATE TABLE n (id int PRIMARY KEY, who of_session)',
    'CREATE TABLE n (c colour PRIMARY KEY) PARTITION BY HASH (c); CREATE TABLE n0 PARTITION OF n FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE n1 PARTITION OF n FOR VALUES WITH (MODULUS 2, REMAINDER 1)',
    'CREATE TABLE n (c colour[] PRIMARY KEY) PARTITION BY HASH (c); CREATE TABLE n0 PARTITION OF n FOR VALUES WITH (MODULUS 1, REMAINDER 0)');
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok, sqlstate, message FROM test.deploy('CREATE TABLE made (c public.colour PRIMARY KEY) PARTITION BY HASH (c)');
-- rows of partitions by hash of other types are found, also when they are named themselves
CREATE TABLE parted (id int PRIMARY KEY, s text) PARTITION BY HASH (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
GRANT ALL ON parted, parted_0, parted_1 TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.parted');
SELECT tx, ok, message FROM test.run('INSERT INTO parted SELECT g, ''a'' FROM generate_series(1, 4) g', 'INSERT INTO parted_0 VALUES (12, ''b'')', 'INSERT INTO parted_0 VALUES (5, ''b'')');

-- Constructs that are read by the letters of the database's own collation.
SELECT * FROM test.verdicts('SELECT jsonb_path_exists(''{}'', ''$.a ? (@ like_regex "ä" flag "i")'')', 'SELECT ''Ä''::ltree ~ ''ä@''::lquery');
SELECT current_database() AS database \gset
CREATE DATABASE chainify_regress_icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LC_COLLATE 'C';
\c chainify_regress_icu
SET client_min_messages = warning;
CREATE EXTENSION chainify;
CREATE EXTENSION ltree SCHEMA public;
CREATE EXTENSION fuzzystrmatch SCHEMA public;
CREATE TABLE docs (id int PRIMARY KEY, j jsonb, t text COLLATE "C", p ltree, jp jsonpath);
SELECT s, string_agg(construct, '; ') FILTER (WHERE construct NOT LIKE 'table%') AS refused_for FROM unnest(ARRAY['SELECT jsonb_path_query(j, ''$.a'') FROM docs', 'SELECT j @? ''$.a ? (@ like_regex "ä" flag "i")'' FROM docs', 'SELECT j @? ''$.a ? (@ like_regex "\w")'' FROM docs', 'SELECT j @? $1 FROM docs', 'SELECT j @? t::jsonpath FROM docs', 'SELECT j @? jp FROM docs', 'SELECT jp FROM docs', 'SELECT ''$.a ? (@ like_regex "a")''::jsonpath',
    'SELECT p ~ ''a@'' FROM docs', 'SELECT p @ ''a@'' FROM docs', 'SELECT t::ltree FROM docs', 'SELECT text2ltree(t) FROM docs', 'SELECT ''a''::ltree', 'SELECT ''{a}''::ltree[]', 'SELECT p = p, p @> p, nlevel(p), subpath(p, 0, 1) FROM docs', 'SELECT soundex(t) FROM docs', 'SELECT levenshtein(t, t) FROM docs', 'SELECT ''a & b''::tsquery', 'SELECT ''ä b''::tsvector', 'SELECT t::tsvector FROM docs']) WITH ORDINALITY u (s, i), LATERAL chainify.analyze(s) GROUP BY i, s ORDER BY i;
\c :database
DROP DATABASE chainify_regress_icu;
