-- Settings of a session, its machine's clock and its luck: a block has none of them (pg/planner/block_settings.rs).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
GRANT USAGE ON SCHEMA test TO alice;
CREATE TABLE seen (n int PRIMARY KEY, v text);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent);
CREATE TABLE hidden (id int PRIMARY KEY, v int);
CREATE TABLE doc (id int PRIMARY KEY, words tsvector);
CREATE TABLE pair (id int PRIMARY KEY, v int);
INSERT INTO parent VALUES (1);
INSERT INTO hidden VALUES (1, 1), (2, 2);
INSERT INTO pair VALUES (1, 1), (2, 2);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON hidden USING (id % 2 = 1);
INSERT INTO doc SELECT i, CASE WHEN i % 60 = 0 THEN 'many' ELSE 'few' END::tsvector FROM generate_series(1, 6000) i;
CREATE INDEX ON doc USING gin (words);
GRANT ALL ON seen, parent, child, hidden, doc, pair TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.seen, public.parent, public.child, public.hidden, public.doc, public.pair');
VACUUM ANALYZE;
CREATE FUNCTION test.which() RETURNS text LANGUAGE sql AS $$ SELECT 'of test' $$;
CREATE FUNCTION public.which() RETURNS text LANGUAGE sql AS $$ SELECT 'of public' $$;
CREATE FUNCTION deep(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN n = 0 THEN 0 ELSE deep(n - 1) + 1 END; END $$;
CREATE FUNCTION branch(p int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(CASE WHEN id > 0 THEN 1 ELSE p + 1 END) FROM pair); EXCEPTION WHEN OTHERS THEN RETURN -1; END $$;
CREATE FUNCTION orphan() RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO child VALUES (9, 9); SET CONSTRAINTS ALL IMMEDIATE; RETURN 'orphan'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
-- what follows from plpgsql.* is decided where the function is compiled: made anew for each run
CREATE FUNCTION test.make() RETURNS void LANGUAGE plpgsql SET check_function_bodies = off AS $make$
BEGIN
    CREATE OR REPLACE FUNCTION public.asserts() RETURNS text LANGUAGE plpgsql AS $$ BEGIN ASSERT false; RETURN 'not asked'; EXCEPTION WHEN ASSERT_FAILURE THEN RETURN 'asserted'; END $$;
    CREATE OR REPLACE FUNCTION public.ambiguous() RETURNS text LANGUAGE plpgsql AS $$ DECLARE id int := 7; BEGIN RETURN (SELECT max(id) FROM pair); EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
    CREATE OR REPLACE FUNCTION public.several() RETURNS text LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN SELECT id INTO x FROM pair ORDER BY id; RETURN x; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
    CREATE OR REPLACE FUNCTION public.strict(p int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE x int; d text; BEGIN SELECT id INTO STRICT x FROM pair WHERE id = p; RETURN x; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL; RETURN 'detail: ' || d; END $$;
END
$make$;
-- Settings, a value that nobody expects, and an expression whose value follows from it (NULL: nothing in a row does, or not with what every machine has).
SELECT coalesce((SELECT collcollate FROM pg_collation WHERE collprovider = 'c' AND collcollate ~ '^(de|fr|es|it)_' ORDER BY 1 LIMIT 1), 'POSIX') AS locale \gset
CREATE TABLE test.setting (n serial, name text, odd text, shows text);
INSERT INTO test.setting (name, odd, shows) VALUES ('search_path', 'test, public', 'which()'), ('TimeZone', 'Asia/Kolkata', '''2020-01-01 12:00''::timestamptz::text || extract(hour FROM ''2020-01-01 00:00Z''::timestamptz)'), ('timezone_abbreviations', 'India', 'timezone(''UTC'', ''2020-01-01 12:00 IST''::timestamptz)::text'),
    ('DateStyle', 'German, DMY', 'to_char(''1/2/2020''::date, ''YYYY-MM-DD'') || ''2020-03-04''::date'), ('IntervalStyle', 'iso_8601', '''1 day 2 hours''::interval::text'), ('extra_float_digits', '-5', '(1.0::float8 / 3)::text'), ('bytea_output', 'escape', '''\x01''::bytea::text'),
    ('xmloption', 'document', '''a''::xml::text'), ('xmlbinary', 'hex', 'xmlelement(name a, ''\x0102''::bytea)::text'), ('lc_messages', 'POSIX', NULL), ('lc_monetary', :'locale', '1234.5::numeric::money::text'), ('lc_numeric', :'locale', 'to_char(1234.5, ''L9G999D9'')'),
    ('lc_time', :'locale', 'to_char(''2020-01-01''::date, ''TMMonth TMDay'')'), ('default_text_search_config', 'pg_catalog.german', 'to_tsvector(''running houses'')::text'), ('standard_conforming_strings', 'off', 'length(''a\\b'')::text'), ('escape_string_warning', 'off', NULL), ('backslash_quote', 'off', 'E''\'''''),
    ('array_nulls', 'off', 'coalesce((''{NULL}''::text[])[1], ''none'')'), ('transform_null_equals', 'on', 'coalesce((1 = NULL)::text, ''unknown'')'), ('quote_all_identifiers', 'on', 'quote_ident(''a'')'), ('check_function_bodies', 'off', NULL), ('row_security', 'off', '(SELECT count(*) FROM hidden)::text'),
    ('session_replication_role', 'replica', 'orphan()'), ('synchronize_seqscans', 'on', NULL), ('max_parallel_workers_per_gather', '4', NULL), ('force_parallel_mode', 'on', NULL), ('jit', 'on', NULL), ('statement_timeout', '1h', NULL), ('lock_timeout', '1h', NULL),
    ('gin_fuzzy_search_limit', '5', '(SELECT count(*) FROM doc WHERE words @@ ''many''::tsquery)::text'), ('max_stack_depth', '100kB', 'deep(150)::text'), ('plan_cache_mode', 'force_custom_plan', 'branch(2147483647)::text'), ('constraint_exclusion', 'off', NULL), ('enable_partition_pruning', 'off', NULL), ('enable_partitionwise_join', 'on', NULL),
    ('enable_partitionwise_aggregate', 'on', NULL), ('enable_seqscan', 'off', NULL), ('enable_indexscan', 'off', NULL), ('enable_indexonlyscan', 'off', NULL), ('enable_bitmapscan', 'off', NULL), ('enable_tidscan', 'off', NULL), ('enable_sort', 'off', NULL), ('enable_incremental_sort', 'off', NULL), ('enable_hashagg', 'off', NULL),
    ('enable_hashjoin', 'off', NULL), ('enable_mergejoin', 'off', NULL), ('enable_nestloop', 'off', NULL), ('enable_material', 'off', NULL), ('enable_memoize', 'off', NULL), ('enable_gathermerge', 'off', NULL), ('geqo', 'on', NULL), ('from_collapse_limit', '1', NULL), ('join_collapse_limit', '1', NULL), ('cursor_tuple_fraction', '1', NULL),
    ('default_table_access_method', 'odd', NULL), ('default_toast_compression', 'lz4', NULL), ('default_tablespace', 'pg_global', NULL), ('client_min_messages', 'error', NULL), ('plpgsql.check_asserts', 'off', 'asserts()'), ('plpgsql.variable_conflict', 'use_column', 'ambiguous()'), ('plpgsql.extra_errors', 'too_many_rows', 'several()'),
    ('plpgsql.extra_warnings', 'all', NULL), ('plpgsql.print_strict_params', 'on', 'strict(99)');
-- PostgreSQL 16 calls it so.
UPDATE test.setting SET name = 'debug_parallel_query' WHERE name = 'force_parallel_mode' AND current_setting('server_version_num')::int >= 160000;
CREATE ACCESS METHOD odd TYPE TABLE HANDLER heap_tableam_handler;
-- a row for each expression, a definition that has to be looked at, and a row that a plan may come to in another order
CREATE FUNCTION test.txs() RETURNS bytea[] LANGUAGE sql AS $$
    SELECT array_agg(test.tx(format('INSERT INTO seen VALUES (%s, %s)', n, shows), nonce => 1000 + n) ORDER BY n) || test.tx('CREATE FUNCTION bad() RETURNS int LANGUAGE plpgsql AS ''BEGIN SELEC 1; END''', 'admin', 3, nonce => 2) || test.tx('INSERT INTO seen SELECT 10000 + p.id, string_agg(d.id::text, '','' ORDER BY d.id) FROM pair p JOIN doc d ON d.id % 1000 = p.id GROUP BY p.id', nonce => 3)
    FROM test.setting WHERE shows IS NOT NULL
$$;
-- Block and statements of the session alone, with this setting (none: those that no expression shows, together); both undone.
CREATE FUNCTION test.under(name text, buffer bytea) RETURNS TABLE (hash bytea, outcomes text[], rows text[], alone text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    own text;
BEGIN
    PERFORM set_config('jit_above_cost', '0', true), set_config('plpgsql.check_asserts', 'on', true);
    PERFORM set_config(s.name, s.odd, true) FROM test.setting s WHERE s.name = under.name OR under.name = 'others' AND s.shows IS NULL;
    PERFORM test.make();
    SELECT shows INTO own FROM test.setting s WHERE s.name = under.name;
    IF own IS NOT NULL THEN
        BEGIN
            SET LOCAL client_min_messages = error;
            SET LOCAL ROLE alice;
            EXECUTE 'SELECT ' || own INTO alone;
        EXCEPTION WHEN OTHERS THEN
            alone := SQLSTATE;
        END;
        RESET ROLE;
    END IF;
    PERFORM test.make(); -- what a session has compiled by itself it keeps; a node's runs nothing outside of blocks
    SELECT e.* INTO r FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, buffer) e;
    hash := r.hash;
    outcomes := ARRAY(SELECT concat_ws(' ', i, r.rows[i], r.sqlstates[i], r.messages[i]) FROM generate_subscripts(r.rows, 1) i);
    rows := ARRAY(SELECT n || ': ' || v FROM public.seen ORDER BY n);
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN RETURN NEXT;
END
$$;
SELECT test.buffer(test.txs()) AS buffer \gset
CREATE TABLE test.result AS SELECT NULL::int AS n, u.* FROM test.under(NULL, :'buffer') u;
INSERT INTO test.result SELECT s.n, u.* FROM test.setting s, test.under(s.name, :'buffer') u WHERE s.shows IS NOT NULL;
INSERT INTO test.result SELECT 0, u.* FROM test.under('others', :'buffer') u;
-- no setting changes hash, outcome or row
SELECT coalesce(s.name, 'others') AS name, r.hash = d.hash AS hash, ARRAY(SELECT unnest(r.outcomes) EXCEPT SELECT unnest(d.outcomes)) AS outcomes, ARRAY(SELECT unnest(r.rows) EXCEPT SELECT unnest(d.rows)) AS rows
FROM test.result r LEFT JOIN test.setting s USING (n), test.result d WHERE r.n IS NOT NULL AND d.n IS NULL AND (r.hash, r.outcomes, r.rows) IS DISTINCT FROM (d.hash, d.outcomes, d.rows) ORDER BY s.n;
-- which the expressions would have shown: each is something else in the session (of locales, where the machine has any)
SELECT s.name, s.shows, r.alone FROM test.result r JOIN test.setting s USING (n), test.result d WHERE d.n IS NULL AND s.shows IS NOT NULL AND s.name NOT LIKE 'lc\_%' AND s.n || ': ' || r.alone = ANY (d.rows) ORDER BY s.n;
SELECT s.name, r.rows[i], s.shows FROM test.result r, generate_subscripts(r.rows, 1) i LEFT JOIN test.setting s ON true WHERE r.n IS NULL AND r.rows[i] LIKE s.n || ': %' ORDER BY s.n;
SELECT outcomes[cardinality(outcomes) - 1:] FROM test.result WHERE n IS NULL;

-- all of them at once, as what the ledger does itself sees them: an event trigger looks while a table is attached
CREATE TABLE test.found (name text PRIMARY KEY, value text);
CREATE TABLE later (id int PRIMARY KEY);
CREATE FUNCTION test.look() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO test.found SELECT s.name, s.setting FROM pg_catalog.pg_settings s JOIN test.setting o USING (name) ON CONFLICT DO NOTHING; END $$;
CREATE FUNCTION test.looked(buffer bytea) RETURNS TABLE (name text, session text, block text) LANGUAGE plpgsql AS $$
DECLARE
    names text[];
    own text[];
    pinned text[];
BEGIN
    PERFORM set_config(s.name, s.odd, true) FROM test.setting s;
    PERFORM e.* FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, buffer) e;
    SELECT array_agg(s.name ORDER BY s.n), array_agg(current_setting(s.name) ORDER BY s.n), array_agg(f.value ORDER BY s.n) INTO names, own, pinned FROM test.setting s LEFT JOIN test.found f USING (name);
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN RETURN QUERY SELECT * FROM unnest(names, own, pinned);
END
$$;
SELECT test.buffer(ARRAY[test.tx('ATTACH TABLE public.later', 'admin', 3)]) AS attach \gset
CREATE EVENT TRIGGER look ON ddl_command_end EXECUTE FUNCTION test.look();
SELECT * FROM test.looked(:'attach') WHERE name NOT LIKE 'lc\_%' OR block <> 'C';
DROP EVENT TRIGGER look;

-- and in a session that has them all, alone and with workers, which are other processes; afterwards the session has its own again
SELECT test.make();
CREATE TABLE test.block (buffer bytea);
INSERT INTO test.block SELECT test.buffer(array_agg(test.tx(format('INSERT INTO seen VALUES (%s, %s)', n + 100 * g, shows), nonce => 5000 + n + 100 * g) ORDER BY g, n)) FROM test.setting, generate_series(0, 3) g WHERE shows <> 'orphan()';
PREPARE block AS SELECT encode(e.hash, 'hex') AS hash, encode(e.outcomes, 'hex') AS outcomes
    FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, (SELECT buffer FROM test.block)) e;
BEGIN;
EXECUTE block \gset plain_
ROLLBACK;
SELECT count(set_config(name, odd, false)) > 50 AS odd FROM test.setting;
BEGIN;
EXECUTE block \gset alone_
ROLLBACK;
SET chainify.executor_workers = 2;
SET chainify.debug_parts = 2;
EXECUTE block \gset two_
SELECT name FROM test.setting WHERE current_setting(name) <> odd AND name NOT IN ('DateStyle', 'search_path') ORDER BY n;
RESET ALL;
SELECT :'plain_hash' = :'alone_hash' AS alone, :'plain_hash' = :'two_hash' AS two, :'plain_outcomes' = :'two_outcomes' AS outcomes, (SELECT count(*) FROM chainify_ledger.part WHERE block = number) AS workers, test.all_well() FROM chainify_node.position();

-- the time is the block's: of every function and literal, in a statement, a default, a function in SQL or PL/pgSQL, with a plan of an earlier block, alone or with workers
CREATE TABLE stamp (id int PRIMARY KEY, what text, v text, at timestamptz DEFAULT current_timestamp);
GRANT ALL ON stamp TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.stamp');
CREATE FUNCTION in_sql(id int) RETURNS void LANGUAGE sql AS $$ INSERT INTO stamp VALUES (id, 'SQL', concat_ws(' ', now(), current_timestamp, statement_timestamp(), 'now'::text::timestamptz, 'today'::text::date)) $$;
CREATE FUNCTION in_plpgsql(id int) RETURNS void LANGUAGE plpgsql AS $$ DECLARE x timestamptz := 'now'; d date; BEGIN d := 'today'::text; INSERT INTO stamp VALUES (id, 'PL/pgSQL', concat_ws(' ', x, d, now(), current_timestamp, statement_timestamp(), transaction_timestamp(), 'now'::text::timestamptz, localtime)); END $$;
CREATE FUNCTION test.stamps(base int) RETURNS bytea[] LANGUAGE sql AS $$
    SELECT array_agg(test.tx(CASE WHEN w ~ '^in_' THEN format('SELECT %s(%s)', w, base + n) ELSE format('INSERT INTO stamp VALUES (%s, %L, (%s)::text); UPDATE stamp SET what = what || '' '' || (now() = at) WHERE id = %1$s', base + n, w, w) END, nonce => 90000 + base + n) ORDER BY n)
    FROM unnest(ARRAY['current_timestamp', 'current_timestamp(0)', 'current_time', 'localtime', 'localtimestamp', 'statement_timestamp()', 'transaction_timestamp()', 'now()', 'current_date', '''today''::text::date', '''now''::text::timestamptz', '''tomorrow''::text::timestamp', '''now''::text::time', 'age(''2023-11-01''::timestamp)', 'in_sql', 'in_plpgsql']) WITH ORDINALITY u (w, n)
$$;
SET TimeZone = 'Asia/Kolkata'; -- where it is the next day
SELECT test.buffer(test.stamps(0)) AS first, test.buffer(test.stamps(100)) AS second, test.buffer((test.stamps(200))[:14]) AS third \gset
PREPARE at (bigint, bytea) AS SELECT encode(e.hash, 'hex') AS hash, e.outcomes FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, $1, p.hash, $2) e;
EXECUTE at (1700000000000000, :'first') \gset
EXECUTE at (1700100000123456, :'second') \gset
BEGIN;
EXECUTE at (1700200000000000, :'third') \gset alone_
ROLLBACK;
SET chainify.executor_workers = 2;
SET chainify.debug_parts = -1;
EXECUTE at (1700200000000000, :'third') \gset two_
RESET chainify.executor_workers;
RESET chainify.debug_parts;
RESET TimeZone;
SELECT :'alone_hash' = :'two_hash' AS two, (SELECT count(*) FROM chainify_ledger.part WHERE block = number) AS workers FROM chainify_node.position();
SET TimeZone = 'UTC';
SELECT a.what, a.v, b.v AS later, c.v AS in_parts FROM stamp a JOIN stamp b ON b.id = a.id + 100 LEFT JOIN stamp c ON c.id = a.id + 200 WHERE a.id < 100 ORDER BY a.id;
SELECT id / 100 AS block, array_agg(DISTINCT at) AS defaults FROM stamp GROUP BY 1 ORDER BY 1;
RESET TimeZone;

-- random() is each transaction's own, whatever ran before it, and the same on execution again
CREATE FUNCTION test.drawn(VARIADIC txs bytea[]) RETURNS TABLE (hash text, v text[]) LANGUAGE plpgsql AS $$
BEGIN
    hash := encode(test.hash_of(VARIADIC txs), 'hex');
    v := ARRAY(SELECT s.v FROM public.seen s WHERE n >= 1000 ORDER BY n);
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN RETURN NEXT;
END
$$;
SELECT test.tx('INSERT INTO seen VALUES (1001, random()::text)', nonce => 95001) AS one, test.tx('INSERT INTO seen VALUES (1002, random()::text)', nonce => 95002) AS two, test.tx('SELECT random() FROM generate_series(1, 3), (SELECT 1/0) x', nonce => 95003) AS failing \gset
SELECT v[1] <> v[2] AS differ, v AS both FROM test.drawn(:'one', :'two') \gset
SELECT v = :'both' AS again, hash = (SELECT hash FROM test.drawn(:'one', :'two')) AS hash FROM test.drawn(:'one', :'two');
SELECT :'differ' AS differ, (SELECT v = :'both' FROM test.drawn(:'failing', :'one', :'failing', :'two')) AS after_failures, (SELECT v = (:'both'::text[])[2:] FROM test.drawn(:'two')) AS by_itself;
SET chainify.executor_workers = 2;
SET chainify.debug_parts = 2;
SELECT test.buffer(ARRAY[:'one', :'two']::bytea[]) AS buffer \gset
EXECUTE at (1700200000000000, :'buffer') \gset
RESET chainify.executor_workers;
RESET chainify.debug_parts;
SELECT array_agg(v ORDER BY n) = :'both' AS with_workers FROM seen WHERE n >= 1000;
SELECT test.all_well();
DROP ACCESS METHOD odd;
