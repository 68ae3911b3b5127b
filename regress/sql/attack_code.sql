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
CREATE VIEW writes AS SELECT * FROM t;
CREATE RULE r AS ON UPDATE TO writes DO INSTEAD INSERT INTO local VALUES (new.v);
CREATE MATERIALIZED VIEW materialised AS SELECT a FROM local;
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE passwords (line text) SERVER files OPTIONS (filename '/etc/passwd');
GRANT ALL ON t, local, over_local, barrier, writes, materialised, passwords TO alice;
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
GRANT ALL ON hidden TO alice;
CREATE POLICY none ON hidden TO alice USING (v < 10) WITH CHECK (v < 10);
SELECT ok FROM test.deploy('ATTACH TABLE public.t, public.hidden');

-- SECURITY DEFINER: the rights are the owner's, what a ledger transaction may do is not
CREATE FUNCTION as_superuser(command text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE command; RETURN 1; END $$;
CREATE FUNCTION caught(command text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE command; RETURN 'done'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
CREATE TABLE said (n int PRIMARY KEY, command text, what text);
GRANT ALL ON said TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.said');
CREATE FUNCTION test.commands() RETURNS SETOF text LANGUAGE sql AS $$ VALUES
    ('SELECT a FROM local'), ('INSERT INTO local VALUES (2)'), ('UPDATE local SET a = 3'), ('DELETE FROM local'), ('TRUNCATE local'), ('SELECT a FROM over_local'), ('SELECT a FROM barrier'), ('SELECT a FROM materialised'),
    ('REFRESH MATERIALIZED VIEW materialised'), ('UPDATE writes SET v = 5 WHERE id = 1'), ('SELECT * FROM passwords'), ('COPY t TO ''/tmp/state-never'''), ('COPY t TO PROGRAM ''cat'''), ('COPY local FROM PROGRAM ''echo 1'''), ('COPY t TO STDOUT'),
    ('SELECT pg_read_file(''postgresql.conf'')'), ('SELECT lo_import(''/etc/passwd'')'), ('SELECT lo_create(0)'), ('SELECT pg_ls_dir(''.'')'), ('LISTEN a'), ('NOTIFY a'), ('SELECT pg_notify(''a'', ''b'')'),
    ('LOCK TABLE t'), ('SELECT pg_advisory_lock(1)'), ('SELECT pg_advisory_xact_lock(1)'), ('DO $x$BEGIN END$x$'), ('SET ROLE postgres'), ('SET SESSION AUTHORIZATION postgres'), ('RESET ROLE'), ('SET chainify.guard = off'),
    ('SET search_path = pg_temp'), ('SET session_replication_role = replica'), ('SELECT set_config(''chainify.guard'', ''off'', false)'), ('SELECT set_config(''role'', ''postgres'', false)'), ('ALTER SYSTEM SET work_mem = 64'), ('ALTER ROLE alice SUPERUSER'),
    ('CREATE TEMP TABLE x (a int)'), ('CREATE TABLE x (a int)'), ('CREATE FUNCTION x() RETURNS int LANGUAGE sql AS ''SELECT 1'''), ('DROP TABLE local'), ('ALTER TABLE t DISABLE TRIGGER ALL'), ('ALTER TABLE t ADD w int'), ('DROP TRIGGER chainify_digest ON t'),
    ('CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()'), ('CREATE RULE x AS ON INSERT TO t DO INSTEAD NOTHING'), ('GRANT ALL ON t TO PUBLIC'), ('VACUUM t'), ('ANALYZE t'), ('CHECKPOINT'), ('LOAD ''chainify'''),
    ('PREPARE x AS SELECT 1'), ('DEALLOCATE ALL'), ('DISCARD ALL'), ('DECLARE c CURSOR FOR SELECT * FROM t'), ('EXPLAIN ANALYZE UPDATE t SET v = 9'), ('SAVEPOINT a'), ('COMMIT'), ('ROLLBACK'), ('SET CONSTRAINTS ALL DEFERRED'),
    ('UPDATE chainify_ledger.block SET hash = hash'), ('INSERT INTO chainify_ledger.setting VALUES (''determinism'', ''detect'')'), ('DELETE FROM chainify_history.t'), ('UPDATE pg_class SET relname = relname'), ('DELETE FROM pg_proc'),
    ('SELECT chainify_node.execute_block(1, 1, 1, '''', '''')'), ('SELECT chainify.execute(''SELECT 1'')'), ('SELECT chainify_ledger.announce_tables()'), ('SELECT pg_terminate_backend(pg_backend_pid())'), ('SELECT pg_cancel_backend(1)'), ('SELECT pg_reload_conf()'), ('SELECT pg_switch_wal()'),
    ('SELECT clock_timestamp()'), ('SELECT * FROM t LIMIT 1'), ('SELECT query_to_xml(''SELECT 1'', true, true, '''')'), ('SELECT dblink(''host=x'', ''SELECT 1'')') $$;
SELECT * FROM test.run(VARIADIC ARRAY(SELECT format('SELECT as_superuser(%L)', c) FROM test.commands() c)) WHERE ok;
SELECT count(*) FILTER (WHERE NOT ok) AS failed, count(*) > 70 AS many FROM test.run(VARIADIC ARRAY(SELECT format('INSERT INTO said VALUES (%s, %L, caught(%L))', n, c, c) FROM test.commands() WITH ORDINALITY u (c, n)));
SELECT what, command FROM said ORDER BY what, n;
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

-- event triggers and triggers that appear behind the ledger's back
CREATE FUNCTION on_any() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.local VALUES (77); END $$;
CREATE EVENT TRIGGER any_command ON ddl_command_end EXECUTE FUNCTION on_any();
SELECT tx, ok, sqlstate FROM test.run('TRUNCATE hidden', 'UPDATE t SET v = 3 WHERE id = 1');
DROP EVENT TRIGGER any_command;
DELETE FROM local WHERE a = 77;
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

-- what code does to itself: exceptions, cursors, prepared and dynamic statements
CREATE FUNCTION swallows() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = 1000; PERFORM 1 / 0; RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 0; END $$;
CREATE FUNCTION walks() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id; r record; n int := 0; BEGIN OPEN c; LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n := n + r.v; END LOOP; CLOSE c; RETURN n; END $$;
CREATE FUNCTION walks_unordered() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c refcursor; r record; BEGIN OPEN c FOR EXECUTE 'SELECT * FROM t'; FETCH c INTO r; RETURN r.id; END $$;
CREATE FUNCTION current_of() RETURNS int LANGUAGE plpgsql AS $$ DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id FOR UPDATE; r record; BEGIN OPEN c; FETCH c INTO r; UPDATE t SET v = 0 WHERE CURRENT OF c; RETURN 1; END $$;
SELECT tx, ok, sqlstate, message FROM test.run('SELECT swallows()', 'SELECT walks()', 'SELECT walks_unordered()', 'SELECT current_of()', 'EXECUTE something', 'FETCH ALL FROM c');
TABLE t;
SELECT test.states_hold();
SELECT block, what, detail FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
