-- Code that a client or an owner wrote tries to leave the ledger, to act as somebody else, or to do what other organisations do not see.
-- Each transaction is refused or changes the same everywhere; afterwards no trace is left in this session or database.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE hidden (id int PRIMARY KEY, v int);
CREATE TABLE local (a int);
INSERT INTO local VALUES (1);
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO hidden VALUES (1, 42);
CREATE VIEW over_local AS SELECT a FROM local;
CREATE VIEW barrier WITH (security_barrier) AS SELECT a FROM local;
CREATE VIEW invoker WITH (security_invoker) AS SELECT a FROM local;
CREATE VIEW writes AS SELECT * FROM t;
CREATE RULE r AS ON UPDATE TO writes DO INSTEAD INSERT INTO local VALUES (new.v);
CREATE MATERIALIZED VIEW materialised AS SELECT a FROM local;
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE passwords (line text) SERVER files OPTIONS (filename '/etc/passwd');
GRANT ALL ON t, local, over_local, barrier, invoker, writes, materialised, passwords TO alice, admin;
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
GRANT ALL ON hidden TO alice;
CREATE POLICY none ON hidden TO alice USING (v < 10) WITH CHECK (v < 10);
SELECT ok FROM test.deploy('ATTACH TABLE public.t, public.hidden');

-- SECURITY DEFINER: the rights are the owner's, what a ledger transaction may do is not
CREATE FUNCTION as_superuser(command text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE command; RETURN 1; END $$;
CREATE FUNCTION caught(command text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE command; RETURN 'done'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END $$;
CREATE TABLE said (n int PRIMARY KEY, command text, what text);
GRANT ALL ON said TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.said');
CREATE FUNCTION test.commands() RETURNS SETOF text LANGUAGE sql AS $$ VALUES
    ('SELECT count(*) FROM local'), ('INSERT INTO local VALUES (2)'), ('UPDATE local SET a = 3'), ('DELETE FROM local'), ('TRUNCATE local'), ('SELECT count(*) FROM over_local'), ('SELECT count(*) FROM barrier'), ('SELECT count(*) FROM invoker'), ('SELECT count(*) FROM materialised'),
    ('REFRESH MATERIALIZED VIEW materialised'), ('UPDATE writes SET v = 5 WHERE id = 1'), ('SELECT count(*) FROM passwords'), ('COPY t TO ''/tmp/state-never'''), ('COPY t TO PROGRAM ''cat'''), ('COPY local FROM PROGRAM ''echo 1'''), ('COPY t TO STDOUT'),
    ('SELECT pg_read_file(''postgresql.conf'')'), ('SELECT lo_import(''/etc/passwd'')'), ('SELECT lo_create(0)'), ('SELECT pg_ls_dir(''.'')'), ('LISTEN a'), ('NOTIFY a'), ('SELECT pg_notify(''a'', ''b'')'),
    ('LOCK TABLE t'), ('SELECT pg_advisory_lock(1)'), ('SELECT pg_advisory_xact_lock(1)'), ('DO $x$BEGIN END$x$'), ('SET ROLE postgres'), ('SET SESSION AUTHORIZATION postgres'), ('RESET ROLE'), ('SET chainify.guard = off'),
    ('SET search_path = pg_temp'), ('SET session_replication_role = replica'), ('SELECT set_config(''chainify.guard'', ''off'', false)'), ('SELECT set_config(''role'', ''postgres'', false)'), ('ALTER SYSTEM SET work_mem = 64'), ('ALTER ROLE alice SUPERUSER'),
    ('CREATE TEMP TABLE x (a int)'), ('CREATE TABLE x (a int)'), ('CREATE FUNCTION x() RETURNS int LANGUAGE sql AS ''SELECT 1'''), ('DROP TABLE local'), ('ALTER TABLE t DISABLE TRIGGER ALL'), ('ALTER TABLE t ADD w int'), ('DROP TRIGGER chainify_digest ON t'),
    ('CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()'), ('CREATE RULE x AS ON INSERT TO t DO INSTEAD NOTHING'), ('GRANT ALL ON t TO PUBLIC'), ('VACUUM t'), ('ANALYZE t'), ('CHECKPOINT'), ('LOAD ''chainify'''),
    ('PREPARE x AS SELECT 1'), ('DEALLOCATE ALL'), ('DISCARD ALL'), ('DECLARE c CURSOR FOR SELECT * FROM t'), ('EXPLAIN ANALYZE UPDATE t SET v = 9'), ('SAVEPOINT a'), ('COMMIT'), ('ROLLBACK'), ('SET CONSTRAINTS ALL DEFERRED'),
    ('UPDATE chainify_ledger.block SET hash = hash'), ('INSERT INTO chainify_ledger.setting VALUES (''determinism'', ''detect'')'), ('DELETE FROM chainify_history.t'), ('UPDATE pg_class SET relname = relname'), ('DELETE FROM pg_proc'),
    ('SELECT chainify_node.execute_block(1, 1, 1, '''', '''')'), ('SELECT chainify.execute(''SELECT 1'')'), ('SELECT chainify_ledger.announce_tables()'), ('SELECT pg_terminate_backend(pg_backend_pid())'), ('SELECT pg_cancel_backend(1)'), ('SELECT pg_reload_conf()'), ('SELECT pg_switch_wal()'),
    ('SELECT clock_timestamp()'), ('SELECT sum(v) FROM (SELECT v FROM t LIMIT 1) x'), ('SELECT query_to_xml(''SELECT 1'', true, true, '''')') $$;
SELECT * FROM test.run(VARIADIC ARRAY(SELECT format('SELECT as_superuser(%L)', c) FROM test.commands() c)) WHERE ok;
SELECT count(*) > 70 AS many FROM test.commands();
-- what names a table beside the ledger no function catches
SELECT r.sqlstate, split_part(r.message, ':', 1) AS message, c.command FROM test.run(VARIADIC ARRAY(SELECT format('INSERT INTO said VALUES (%s, %L, caught(%L))', n, c, c) FROM test.commands() WITH ORDINALITY u (c, n))) r
    JOIN test.commands() WITH ORDINALITY c (command, n) ON c.n = r.tx + 1 WHERE NOT r.ok ORDER BY r.tx;
SELECT what, command FROM said ORDER BY what, n;
TABLE t;
TABLE local;
-- data of this database alone, in whatever a transaction reads it with: refused for what it is, and not for the form of the query
CREATE FUNCTION in_sql() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM local';
CREATE FUNCTION in_view() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM over_local';
CREATE FUNCTION in_parsed() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM barrier; END;
CREATE FUNCTION in_rows() RETURNS SETOF bigint LANGUAGE sql AS 'SELECT count(*) FROM passwords';
CREATE FUNCTION in_plpgsql() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM materialised); END';
CREATE FUNCTION writes_sql() RETURNS void LANGUAGE sql AS 'INSERT INTO local VALUES (5)';
CREATE FUNCTION test.told(VARIADIC sqls text[]) RETURNS TABLE (sql text, sqlstate text, message text) LANGUAGE sql AS $$ SELECT sqls[tx + 1], coalesce(sqlstate, 'done'), message FROM test.run(VARIADIC sqls) $$;
SELECT * FROM test.told('SELECT count(*) FROM local', 'SELECT count(*) FROM over_local', 'SELECT count(*) FROM barrier', 'SELECT count(*) FROM invoker', 'SELECT count(*) FROM materialised', 'SELECT count(*) FROM passwords', 'TABLE local',
    'SELECT count(*) FROM over_local WHERE false', 'SELECT count(*) FROM t, LATERAL (SELECT a FROM local WHERE a = id) l', 'INSERT INTO t SELECT 10 + a, a FROM barrier', 'UPDATE t SET v = (SELECT max(a) FROM materialised) WHERE id = 1',
    'UPDATE t SET v = 7 WHERE v < (SELECT count(*) FROM passwords)', 'DELETE FROM t WHERE id IN (SELECT a FROM over_local)', 'MERGE INTO t USING local ON id = a WHEN MATCHED THEN DELETE', 'INSERT INTO over_local VALUES (4)', 'TRUNCATE local',
    'SELECT in_sql()', 'SELECT in_view()', 'SELECT in_parsed()', 'SELECT sum(i) FROM in_rows() i', 'SELECT in_plpgsql()', 'SELECT writes_sql()');
-- views that were deployed, over a table that has left the ledger, and over one that somebody put there instead; a policy that looks elsewhere
GRANT CREATE ON SCHEMA public TO admin;
SELECT ok FROM test.deploy('CREATE TABLE was (a int PRIMARY KEY); CREATE VIEW over_was AS SELECT a FROM was; CREATE VIEW over_t AS SELECT v AS a FROM t; GRANT ALL ON was, over_was, over_t TO alice');
SELECT * FROM test.told('INSERT INTO was VALUES (1)', 'SELECT count(*) FROM over_was', 'SELECT count(*) FROM over_t');
SELECT ok FROM test.deploy('DETACH TABLE public.was');
SET chainify.guard = off;
CREATE OR REPLACE VIEW over_t AS SELECT a FROM local;
CREATE POLICY elsewhere ON hidden AS RESTRICTIVE TO alice USING (EXISTS (SELECT FROM local));
RESET chainify.guard;
SELECT * FROM test.told('SELECT count(*) FROM over_was', 'SELECT count(*) FROM over_t', 'SELECT count(*) FROM hidden');
SET chainify.guard = off;
CREATE OR REPLACE VIEW over_t AS SELECT v AS a FROM t;
DROP POLICY elsewhere ON hidden;
RESET chainify.guard;
SELECT test.all_well();
TABLE t;
TABLE local;
SELECT current_user, current_setting('role') AS role, current_setting('chainify.guard') AS guard, current_setting('search_path') AS search_path, to_regclass('x') IS NULL AS nothing_made, (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS advisory, (SELECT count(*) FROM pg_largeobject_metadata) AS large, (SELECT count(*) FROM pg_listening_channels()) AS listening, pg_stat_file('/tmp/state-never', true) IS NULL AS no_file;

-- settings of functions: pinned again when they end, and nothing that opens the ledger
CREATE FUNCTION with_setting() RETURNS text LANGUAGE plpgsql SET search_path = pg_temp AS $$ BEGIN RETURN 1 / 0; END $$;
CREATE FUNCTION with_guard_off() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET chainify.guard = off AS $$ BEGIN INSERT INTO local VALUES (9); RETURN 1; END $$;
CREATE FUNCTION as_replica() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET session_replication_role = replica AS $$ BEGIN UPDATE t SET v = v + 100 WHERE id = 1; RETURN 1; END $$;
CREATE FUNCTION without_policies() RETURNS int LANGUAGE plpgsql SET row_security = off AS $$ BEGIN UPDATE hidden SET v = 1; RETURN 1; END $$;
SELECT tx, ok, sqlstate, message FROM test.run('SELECT with_setting()', 'SELECT with_guard_off()', 'SELECT as_replica()', 'SELECT without_policies()', 'UPDATE hidden SET v = 1', 'UPDATE t SET v = (SELECT count(*) FROM hidden) WHERE id = 2');
SELECT (SELECT v FROM t WHERE id = 1), (SELECT v FROM t WHERE id = 2), (SELECT v FROM hidden);
SELECT test.states_hold();

-- names that a schema in the path could give: the path is public alone, PostgreSQL's own names come first
SET ROLE alice;
CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'shadow' $$;
CREATE FUNCTION public.plus(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT -1 $$;
CREATE OPERATOR public.+ (LEFTARG = int, RIGHTARG = int, FUNCTION = public.plus);
CREATE TEMP TABLE t (id int, v int);
CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT clock_timestamp() $$;
RESET ROLE;
SELECT tx, ok, sqlstate, message FROM test.run($$UPDATE t SET v = 1 + 1 + length(lower('ABC')) WHERE id = 2$$, 'SELECT now()', 'SELECT pg_temp.now()', 'SELECT * FROM pg_temp.t');
SELECT v FROM public.t WHERE id = 2;
DROP TABLE pg_temp.t;

-- event triggers of the database's superuser: they fire for what is deployed and for what the ledger does itself when a table is attached. In a statement
-- that is deployed they may do what it may, and fail it otherwise; in the ledger's own work they are the superuser's.
SELECT ok FROM test.deploy('CREATE TABLE wide (id int PRIMARY KEY, v int); CREATE VIEW over_wide AS SELECT id FROM wide; GRANT ALL ON wide TO alice');
SELECT ok FROM test.run('INSERT INTO wide VALUES (1, 1)');
CREATE TABLE later (id int PRIMARY KEY, v int);
INSERT INTO later VALUES (1, 1);
-- Runs the transactions with such a trigger, and undoes both.
CREATE FUNCTION test.with_trigger(event text, body text, txs bytea[]) RETURNS TABLE (hash bytea, outcomes text[], local bigint, v int, well text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    IF event IS NOT NULL THEN
        EXECUTE format('CREATE FUNCTION test.on_event() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS %L', 'BEGIN ' || body || '; END');
        EXECUTE format('CREATE EVENT TRIGGER mine ON %s EXECUTE FUNCTION test.on_event()', event);
    END IF;
    SELECT e.* INTO r FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(txs)) e;
    hash := r.hash;
    outcomes := ARRAY(SELECT coalesce(r.sqlstates[i], 'done') FROM generate_subscripts(txs, 1) i);
    local := (SELECT count(*) FROM public.local);
    v := (SELECT t.v FROM public.t WHERE id = 1);
    well := (SELECT string_agg(f, ', ' ORDER BY f) FROM (SELECT DISTINCT regexp_replace(f, ' [{"].*', '') FROM string_to_table(test.all_well(), E'\n') f) x (f));
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN RETURN NEXT;
END
$$;
CREATE FUNCTION test.triggered(events text[], bodies text[], txs bytea[]) RETURNS TABLE (event text, body text, as_without boolean, outcomes text[], local bigint, v int, well text) LANGUAGE sql AS $$
    SELECT e.event, b.body, w.hash = o.hash, w.outcomes, w.local, w.v, w.well FROM test.with_trigger(NULL, NULL, txs) o,
        unnest(events) WITH ORDINALITY e (event, n), unnest(CASE WHEN e.event IS NULL THEN ARRAY['nothing'] ELSE bodies END) WITH ORDINALITY b (body, n), test.with_trigger(e.event, b.body, txs) w ORDER BY e.n, b.n
$$;
SELECT ARRAY['PERFORM 1', 'INSERT INTO public.local VALUES (77)', 'UPDATE public.t SET v = 100', 'RAISE division_by_zero', 'IF tg_tag <> ''COMMENT'' THEN COMMENT ON TABLE public.local IS ''x''; END IF'] AS bodies \gset
SELECT * FROM test.triggered(ARRAY[NULL, 'ddl_command_end', 'sql_drop', 'table_rewrite'], :'bodies', ARRAY[test.tx('CREATE TABLE new (id int PRIMARY KEY); DROP TABLE new', 'admin', 3, nonce => 1), test.tx('ALTER TABLE wide ALTER v TYPE bigint', 'admin', 3, nonce => 2), test.tx('DROP VIEW over_wide', 'admin', 3, nonce => 3), test.tx('TRUNCATE wide', nonce => 4)]);
-- what one does to a ledger table while the ledger works is no effect of the block: verification finds it, and so does the next block with that row
SELECT * FROM test.triggered(ARRAY[NULL, 'ddl_command_end'], :'bodies', ARRAY[test.tx('ATTACH TABLE public.later', 'admin', 3, nonce => 1)]);
SELECT * FROM test.triggered(ARRAY['ddl_command_end'], '{UPDATE public.t SET v = 100}', ARRAY[test.tx('ATTACH TABLE public.later', 'admin', 3, nonce => 1), test.tx('UPDATE t SET v = v + 1', nonce => 2)]);

-- triggers that appear behind the ledger's back
SET chainify.guard = off;
CREATE FUNCTION to_local() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.local VALUES (new.v); RETURN new; END $$;
CREATE TRIGGER mine BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION to_local();
RESET chainify.guard;
SELECT tx, ok, sqlstate, message FROM test.run('UPDATE t SET v = 4 WHERE id = 1');
SELECT what FROM chainify.verify_table('t');
SET chainify.guard = off;
DROP TRIGGER mine ON t;
RESET chainify.guard;

-- expressions outside of queries: CHECK, domains, transition functions of aggregates
CREATE FUNCTION peeks(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN EXISTS (SELECT FROM public.local); END $$;
CREATE TABLE checked (id int PRIMARY KEY, v int CHECK (v < extract(epoch FROM clock_timestamp())));
CREATE TABLE peeking (id int PRIMARY KEY, v int CHECK (peeks(v)));
CREATE SEQUENCE loose;
CREATE TABLE drawing (id int PRIMARY KEY, v int CHECK (v < nextval('loose')));
CREATE DOMAIN clocked AS int CHECK (VALUE < extract(epoch FROM clock_timestamp()));
CREATE TABLE typed (id int PRIMARY KEY, v clocked);
CREATE FUNCTION uses_domain() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c clocked; BEGIN c := 5; RETURN c; END $$;
CREATE AGGREGATE noisy (float8) (SFUNC = float8_accum, STYPE = float8[], INITCOND = '{0,0,0}');
CREATE FUNCTION sleeps(s int, v int) RETURNS int LANGUAGE internal IMMUTABLE AS 'pg_backend_pid';
CREATE AGGREGATE foreign_sum (int) (SFUNC = sleeps, STYPE = int);
GRANT ALL ON checked, peeking, drawing, typed TO alice;
GRANT USAGE ON SEQUENCE loose TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.checked, public.peeking, public.drawing, public.typed');
SELECT tx, ok, sqlstate, message FROM test.run('INSERT INTO checked VALUES (1, 1)', 'INSERT INTO peeking VALUES (1, 1)', 'INSERT INTO drawing VALUES (1, 0)', 'INSERT INTO typed VALUES (1, 1)', 'SELECT 5::clocked', 'SELECT uses_domain()',
    'SELECT foreign_sum(v ORDER BY id) FROM t', 'SELECT noisy(v ORDER BY id) FROM t');
SELECT last_value, is_called FROM loose;

-- what extensions, other servers and languages offer: none of it leads out of the database, or to what follows from more than the arguments
SELECT split_part(current_setting('unix_socket_directories'), ',', 1) AS socket \gset
CREATE EXTENSION dblink;
CREATE EXTENSION postgres_fdw;
CREATE EXTENSION pgcrypto;
CREATE EXTENSION "uuid-ossp";
CREATE EXTENSION pg_trgm;
CREATE EXTENSION citext;
CREATE EXTENSION hstore;
CREATE EXTENSION tablefunc;
CREATE EXTENSION unaccent;
CREATE EXTENSION xml2;
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION pageinspect;
CREATE EXTENSION tsm_system_rows;
CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'socket', dbname 'regress');
CREATE USER MAPPING FOR PUBLIC SERVER loop OPTIONS (user 'postgres', password_required 'false');
CREATE FOREIGN TABLE far (a int) SERVER loop OPTIONS (table_name 'local');
CREATE FOREIGN TABLE far_t (id int, v int) SERVER loop OPTIONS (table_name 't');
-- a language that nobody trusts, made of what every server has
CREATE LANGUAGE wild HANDLER plpgsql_call_handler INLINE plpgsql_inline_handler VALIDATOR plpgsql_validator;
CREATE FUNCTION goes_wild() RETURNS int LANGUAGE wild IMMUTABLE AS 'BEGIN INSERT INTO public.local VALUES (88); RETURN 1; END';
CREATE FUNCTION in_c(int) RETURNS bytea LANGUAGE c IMMUTABLE STRICT AS '$libdir/pgcrypto', 'pg_random_bytes';
GRANT ALL ON far, far_t TO alice;
GRANT USAGE ON FOREIGN SERVER loop TO alice;
SELECT far.a, far_t.v FROM far, far_t WHERE far_t.id = 1; -- they work outside of the ledger
CREATE FUNCTION test.outside() RETURNS SETOF text LANGUAGE sql AS $$ VALUES ('SELECT dblink_connect(''dbname=regress'')'), ('SELECT dblink_exec(''loop'', ''DELETE FROM local'')'), ('SELECT count(*) FROM dblink(''loop'', ''SELECT 1'') AS x (a int)'),
    ('SELECT count(*) FROM far'), ('SELECT count(*) FROM far_t'), ('INSERT INTO far VALUES (3)'), ('UPDATE far SET a = 3'), ('DELETE FROM far'), ('TRUNCATE far'), ('UPDATE t SET v = (SELECT count(*) FROM far) WHERE id = 1'), ('SELECT count(*) FROM postgres_fdw_get_connections()'),
    ('IMPORT FOREIGN SCHEMA public FROM SERVER loop INTO public'), ('SELECT gen_random_bytes(4)'), ('SELECT gen_salt(''bf'')'), ('SELECT public.gen_random_uuid()'), ('SELECT uuid_generate_v4()'), ('SELECT uuid_generate_v1()'), ('SELECT set_limit(0.5)'), ('SELECT show_limit()'),
    ('SELECT ''word'' % ''words'''), ('SELECT sum(n) FROM normal_rand(3, 0, 1) n'), ('SELECT count(*) FROM crosstab(''SELECT 1, 2, 3'') AS x (a int, b int)'), ('SELECT unaccent(''x'')'), ('SELECT count(*) FROM xpath_table(''a'', ''a'', ''local'', ''/'', ''true'') AS x (a int)'),
    ('SELECT pg_prewarm(''t'')'), ('SELECT get_raw_page(''t'', 0)'), ('SELECT count(*) FROM t TABLESAMPLE system_rows(1)'), ('SELECT goes_wild()'), ('SELECT in_c(4)'), ('DO LANGUAGE wild ''BEGIN END''') $$;
SELECT * FROM test.told(VARIADIC ARRAY(SELECT * FROM test.outside()));
SELECT count(*) FROM test.run(VARIADIC ARRAY(SELECT format('INSERT INTO said VALUES (%s, %L, caught(%L))', 1000 + n, c, c) FROM test.outside() WITH ORDINALITY u (c, n)));
SELECT command, what FROM said WHERE n > 1000 AND what !~ '^CH00[46] ';
-- functions in C that follow from their arguments are allowed for extensions that are known, and for no others
SELECT * FROM test.told('SELECT digest(''x'', ''sha256''), hmac(''x'', ''k'', ''md5''), crypt(''p'', ''ab'')', 'SELECT similarity(''word'', ''words'')', 'SELECT ''A''::citext = ''a''', 'SELECT ''a=>1''::hstore -> ''a''', 'SELECT uuid_nil()', 'SELECT uuid_generate_v5(uuid_ns_dns(), ''x'')');
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('CREATE FUNCTION public.f() RETURNS int LANGUAGE wild AS ''BEGIN RETURN 1; END''', 'admin', 3), test.tx('CREATE FUNCTION public.f(int) RETURNS bytea LANGUAGE c AS ''$libdir/pgcrypto'', ''pg_random_bytes''', 'admin', 3),
    test.tx('CREATE VIEW public.v AS SELECT count(*) FROM far', 'admin', 3), test.tx('CREATE VIEW public.v AS SELECT gen_random_bytes(4) AS b', 'admin', 3), test.tx('CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw', 'admin', 3), test.tx('CREATE LANGUAGE l HANDLER plpgsql_call_handler', 'admin', 3),
    test.tx('ATTACH TABLE public.far', 'admin', 3), test.tx('CREATE EXTENSION pgcrypto', 'admin', 3));
TABLE local;
SELECT NOT EXISTS (SELECT FROM unnest(dblink_get_connections()) c WHERE c NOT LIKE 'session %') AS no_connection;
DROP LANGUAGE wild CASCADE;
DROP EXTENSION pg_prewarm;

-- what code does to itself: exceptions, cursors, prepared and dynamic statements
CREATE FUNCTION swallows() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = 1000; PERFORM 1 / 0; RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 0; END $$;
CREATE FUNCTION walks() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id; r record; n int := 0; BEGIN OPEN c; LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n := n + r.v; END LOOP; CLOSE c; RETURN n; END $$;
CREATE FUNCTION walks_unordered() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c refcursor; r record; BEGIN OPEN c FOR EXECUTE 'SELECT * FROM t'; FETCH c INTO r; RETURN r.id; END $$;
CREATE FUNCTION current_of() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id FOR UPDATE; r record; BEGIN OPEN c; FETCH c INTO r; UPDATE t SET v = 0 WHERE CURRENT OF c; RETURN 1; END $$;
SELECT tx, ok, sqlstate, message FROM test.run('SELECT swallows()', 'SELECT walks()', 'SELECT walks_unordered()', 'SELECT current_of()', 'EXECUTE something', 'FETCH ALL FROM c');
TABLE t;
SELECT test.states_hold();
SELECT block, what, detail FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
