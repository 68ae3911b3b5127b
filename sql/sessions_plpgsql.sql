-- PL/pgSQL functions do the same in a session that ran other transactions as in a new one (X13), and catch only errors that all organisations have alike.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set sessions :abs_srcdir /sql/sessions.psql
GRANT CREATE ON SCHEMA public TO admin;
GRANT chainify_client TO stranger;
CREATE TABLE t (id int PRIMARY KEY, s text);
INSERT INTO t SELECT i, NULL FROM generate_series(1, 9) i;
CREATE TABLE iv (id int PRIMARY KEY, d text);
INSERT INTO iv VALUES (3, 'z'), (1, '999999999999'), (2, '1');
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE);
CREATE TABLE toy (id int PRIMARY KEY, child int REFERENCES child);
INSERT INTO parent VALUES (1), (2);
INSERT INTO child VALUES (2, 1), (1, 1), (3, 2);
INSERT INTO toy VALUES (1, 1), (2, 2), (3, 3);
GRANT ALL ON t, iv, parent, child, toy TO alice, stranger;
SELECT ok FROM test.deploy('ATTACH TABLE public.t, public.iv, public.parent, public.child, public.toy');
-- Blocks for sessions.psql: transactions of alice.
CREATE TABLE test.blocks (n int PRIMARY KEY, txs bytea[]);
CREATE FUNCTION test.blocks(first text[], second text[], role text DEFAULT 'alice') RETURNS void LANGUAGE sql AS $$
    DELETE FROM test.blocks;
    INSERT INTO test.blocks VALUES (1, ARRAY(SELECT test.tx(s) FROM unnest(first) s)), (2, ARRAY(SELECT test.tx(s, role) FROM unnest(second) s))
$$;
CREATE FUNCTION test.call(which int) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT encode(hash, ''hex'') || '' '' || sqlstates::text AS answer FROM chainify_node.execute_block(%s, %s, %s, decode(%L, ''hex''), decode(%L, ''hex''))',
        p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, encode(p.hash, 'hex'), encode(test.buffer(b.txs), 'hex'))
    FROM chainify_node.position() p, test.blocks b WHERE b.n = which
$$;
-- The message of each statement of alice, alone in its block.
CREATE FUNCTION test.messages(VARIADIC sqls text[]) RETURNS TABLE (sqlstate text, message text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(sqls) LOOP
        RETURN QUERY SELECT r.sqlstate, r.message FROM test.run(sqls[i]) r;
    END LOOP;
END
$$;

-- 1. Types that the text of a function names.
SELECT ok, message FROM test.deploy($q$
    CREATE TABLE u (id int PRIMARY KEY, n int); GRANT ALL ON u TO alice;
    CREATE FUNCTION of_column() RETURNS text LANGUAGE plpgsql AS $$DECLARE r u.n%TYPE; BEGIN r := 3000000000; RETURN r::text; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END$$;
    CREATE FUNCTION of_type() RETURNS text LANGUAGE plpgsql AS $$DECLARE r u; BEGIN r.n := 3000000000; RETURN r::text; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END$$$q$);
SELECT test.blocks(ARRAY['UPDATE t SET s = of_column() || of_type() WHERE id = 1'], ARRAY['UPDATE t SET s = of_column() || of_type() WHERE id = 2']);
\i :sessions
SELECT ok, message FROM test.deploy('ALTER TABLE u ALTER n TYPE bigint');
\i :sessions
SELECT s FROM t WHERE id = 1;
-- A function that was compiled when it was made, and not called since.
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION of_made() RETURNS text LANGUAGE plpgsql AS $$DECLARE r u.n%TYPE; BEGIN r := 3000000000; RETURN r::text; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END$$;
    ALTER TABLE u ALTER n TYPE int$q$);
SELECT test.blocks(ARRAY['UPDATE t SET s = NULL WHERE id = 1'], ARRAY['UPDATE t SET s = of_made() WHERE id = 1']);
\i :sessions

-- 2. Records whose columns differ from call to call.
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION into_record(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; x text; BEGIN EXECUTE q INTO r; x := r.a; RETURN x || '!'; END$$;
    CREATE FUNCTION in_loop(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; x text := ''; BEGIN FOR r IN EXECUTE q LOOP x := x || r.a; END LOOP; RETURN x; END$$;
    CREATE FUNCTION from_cursor(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE c refcursor; r record; x text; BEGIN OPEN c FOR EXECUTE q; FETCH c INTO r; x := r.a; CLOSE c; RETURN x; END$$;
    CREATE FUNCTION argument(r record) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT r.a); END$$;
    CREATE FUNCTION of_argument(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; BEGIN EXECUTE q INTO r; RETURN argument(r); END$$;
    CREATE FUNCTION assigned(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; s record; BEGIN EXECUTE q INTO r; s := r; RETURN s.a; END$$;
    CREATE FUNCTION in_case(q text) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; BEGIN EXECUTE q INTO r; CASE r.a WHEN NULL THEN RETURN 'null'; ELSE RETURN r.a; END CASE; END$$;
    CREATE FUNCTION either(first boolean) RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; BEGIN
        IF first THEN SELECT 1 AS a INTO r; ELSE SELECT 'q'::text AS a INTO r; END IF; RETURN r.a; END$$$q$);
CREATE FUNCTION test.all(q text, first boolean) RETURNS text[] LANGUAGE sql AS $$
    SELECT ARRAY(SELECT format('UPDATE t SET s = %s WHERE id = %s', call, i) FROM unnest(ARRAY[
        format('into_record(%L)', q), format('in_loop(%L)', q), format('from_cursor(%L)', q), format('of_argument(%L)', q), format('assigned(%L)', q), format('in_case(%L)', q),
        format('either(%L)', first)]) WITH ORDINALITY c (call, i))
$$;
SELECT test.blocks(test.all('SELECT 1 AS a', true), test.all('SELECT ''q''::text AS a', false));
\i :sessions
-- Two such transactions in one block.
SELECT test.blocks(ARRAY['UPDATE t SET s = NULL WHERE id = 1'], ARRAY[$q$UPDATE t SET s = into_record('SELECT 1 AS a') WHERE id = 1$q$, $q$UPDATE t SET s = into_record('SELECT 2.5 AS a') WHERE id = 2$q$]);
\i :sessions

-- 3. Cursors: names are counted in the transaction, and it closes what it opened.
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION nameless() RETURNS text LANGUAGE plpgsql AS $$DECLARE c refcursor; d refcursor; BEGIN OPEN c FOR SELECT id FROM t ORDER BY id; OPEN d FOR EXECUTE 'SELECT 1'; CLOSE c; RETURN c::text || d::text; END$$;
    CREATE FUNCTION looped() RETURNS text LANGUAGE plpgsql AS $$DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; x text := ''; BEGIN
        c := NULL; FOR r IN c LOOP x := x || r.id || c::text; END LOOP; RETURN x || coalesce(c::text, ' none'); END$$;
    CREATE FUNCTION named(c refcursor) RETURNS text LANGUAGE plpgsql AS $$DECLARE x int; BEGIN OPEN c FOR VALUES (5); FETCH c INTO x; CLOSE c; RETURN x; END$$;
    CREATE FUNCTION opens() RETURNS text LANGUAGE plpgsql AS $$DECLARE c refcursor := 'mine'; BEGIN OPEN c FOR VALUES (5), (6); RETURN 'x'; END$$;
    CREATE FUNCTION fetches() RETURNS text LANGUAGE plpgsql AS $$DECLARE c refcursor := 'mine'; x int; BEGIN FETCH c INTO x; RETURN x; END$$$q$);
SELECT test.blocks(ARRAY['UPDATE t SET s = nameless() || looped() WHERE id = 1'], ARRAY['UPDATE t SET s = nameless() || looped() WHERE id = 2', 'UPDATE t SET s = nameless() WHERE id = 3']);
\i :sessions
SELECT s FROM t WHERE id = 1;
SELECT ok, sqlstate, message FROM test.run('SELECT opens()', 'UPDATE t SET s = fetches() WHERE id = 1');
SELECT ok, sqlstate, message FROM test.run('SELECT opens(); UPDATE t SET s = fetches() WHERE id = 1');
SELECT * FROM test.messages($q$SELECT named('any')$q$, $q$SELECT named('<unnamed portal 1>')$q$, $q$SELECT named('')$q$);
-- A cursor that the session opened itself is nobody's in the ledger: the block fails, and is tried again.
BEGIN;
DECLARE mine CURSOR FOR SELECT 1;
SELECT * FROM test.run('UPDATE t SET s = fetches() WHERE id = 1');
ROLLBACK;

-- 4. The calls that led to a function.
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION context() RETURNS text LANGUAGE plpgsql AS $$DECLARE x text; BEGIN GET DIAGNOSTICS x = PG_CONTEXT; RETURN x; END$$;
    CREATE FUNCTION error_context() RETURNS text LANGUAGE plpgsql AS $$DECLARE x text; BEGIN x := 1 / 0; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS x = PG_EXCEPTION_CONTEXT; RETURN x; END$$;
    CREATE FUNCTION error_text() RETURNS text LANGUAGE plpgsql AS $$DECLARE x text; BEGIN x := 1 / 0; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS x = MESSAGE_TEXT; RETURN x; END$$$q$);
SELECT * FROM test.messages('SELECT context()', 'SELECT error_context()', 'UPDATE t SET s = error_text() WHERE id = 1');
SELECT s FROM t WHERE id = 1;

-- 5. Errors that a function catches.
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION catches(q text) RETURNS text LANGUAGE plpgsql AS $$BEGIN EXECUTE q; RETURN 'fine'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END$$;
    CREATE FUNCTION catches_twice(q text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN catches(q); EXCEPTION WHEN OTHERS THEN RETURN 'outer'; END$$;
    CREATE FUNCTION catches_some(q text) RETURNS text LANGUAGE plpgsql AS $$BEGIN EXECUTE q; RETURN 'fine'; EXCEPTION WHEN numeric_value_out_of_range THEN RETURN 'out of range'; END$$;
    CREATE FUNCTION catches_rows() RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; x text := ''; BEGIN
        FOR r IN SELECT d FROM iv ORDER BY id LOOP BEGIN x := x || r.d::int || ' '; EXCEPTION WHEN OTHERS THEN x := x || SQLSTATE || ' '; END; END LOOP; RETURN x; END$$;
    CREATE FUNCTION loops() RETURNS text LANGUAGE plpgsql AS $$DECLARE r record; x int := 0; BEGIN
        FOR r IN SELECT d FROM iv ORDER BY id LOOP x := x + r.d::int; END LOOP; RETURN x; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END$$$q$);
-- One row, rows in an order of their own, and an error of the end of a statement.
CREATE FUNCTION test.caught(f text, VARIADIC qs text[]) RETURNS TABLE (q text, result text) LANGUAGE plpgsql AS $$
DECLARE
    failed text;
BEGIN
    FOREACH q IN ARRAY qs LOOP
        SELECT r.sqlstate || ' ' || r.message INTO failed FROM test.run(format('UPDATE t SET s = %s(%L) WHERE id = 1', f, q)) r;
        result := coalesce(failed, (SELECT s FROM t WHERE id = 1));
        RETURN NEXT;
    END LOOP;
END
$$;
SELECT * FROM test.caught('catches',
    'INSERT INTO t VALUES (1)', 'SELECT d::int FROM iv WHERE id = 3', 'INSERT INTO t VALUES (10), (3), (2)', 'INSERT INTO t SELECT x FROM unnest(ARRAY[10, 3, 2]) x',
    'SELECT 1 / 0', 'SELECT (SELECT d FROM iv)', 'SELECT sum(id) FROM iv', 'UPDATE iv SET id = 1 WHERE id = 2', 'SELECT nothing');
-- Several rows, as they are stored.
SELECT * FROM test.caught('catches',
    'SELECT sum(d::int) FROM iv', 'INSERT INTO t SELECT id FROM iv', 'UPDATE iv SET id = id + 1', 'INSERT INTO t SELECT d::int FROM iv ORDER BY id', 'DELETE FROM parent WHERE id = 1', 'DELETE FROM parent WHERE id = 2', 'DELETE FROM parent');
SELECT * FROM test.caught('catches_twice', 'SELECT sum(d::int) FROM iv');
SELECT * FROM test.caught('catches_some', 'SELECT sum(d::int) FROM iv', 'SELECT d::int FROM iv WHERE id = 1');
SELECT ok, message FROM test.run('UPDATE t SET s = catches_rows() WHERE id = 1', 'UPDATE t SET s = loops() WHERE id = 2');
SELECT s FROM t WHERE id < 3 ORDER BY id;
-- Where nobody catches it, it is the error of the transaction, as ever.
SELECT sqlstate = ANY ('{22P02,22003}') AS own FROM test.run('SELECT sum(d::int) FROM iv');
-- Under detection the statement may run.
SELECT ok FROM test.deploy('SET DETERMINISM detect');
SELECT q, result LIKE '22%' AS caught FROM test.caught('catches', 'SELECT sum(d::int) FROM iv');
SELECT ok FROM test.deploy('SET DETERMINISM strict');

-- 6. Names that another search_path, another role or the session itself resolved.
CREATE SCHEMA a;
GRANT USAGE ON SCHEMA a TO alice, admin;
CREATE TABLE a.u (n bigint);
SELECT ok, message FROM test.deploy($q$
    CREATE FUNCTION by_path() RETURNS text LANGUAGE plpgsql AS $$DECLARE r u.n%TYPE; BEGIN r := 3000000000; RETURN r::text; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END$$;
    CREATE FUNCTION under_path() RETURNS text LANGUAGE plpgsql SET search_path = a AS $$BEGIN RETURN public.by_path(); END$$;
    CREATE FUNCTION secret() RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN 'secret'; END$$;
    REVOKE EXECUTE ON FUNCTION secret() FROM PUBLIC; GRANT EXECUTE ON FUNCTION secret() TO alice;
    CREATE FUNCTION tells() RETURNS text LANGUAGE plpgsql AS $$DECLARE x text; BEGIN x := secret(); RETURN x; EXCEPTION WHEN insufficient_privilege THEN RETURN 'none'; END$$;
    CREATE FUNCTION names() RETURNS text LANGUAGE plpgsql AS $$DECLARE x a.u.n%TYPE; BEGIN RETURN 'named'; END$$;
    CREATE FUNCTION conflict() RETURNS text LANGUAGE plpgsql AS $$DECLARE d text := 'variable'; x text; BEGIN SELECT d INTO x FROM iv WHERE id = 2; RETURN x; END$$$q$);
SELECT test.blocks(ARRAY['UPDATE t SET s = under_path() WHERE id = 1'], ARRAY['UPDATE t SET s = by_path() WHERE id = 2', 'UPDATE t SET s = under_path() WHERE id = 3']);
\i :sessions
SELECT test.blocks(ARRAY['UPDATE t SET s = by_path() WHERE id = 1'], ARRAY['UPDATE t SET s = under_path() WHERE id = 2', 'UPDATE t SET s = by_path() WHERE id = 3']);
\i :sessions
-- In one block, in the order of its transactions.
SELECT ok, message FROM test.run('UPDATE t SET s = under_path() WHERE id = 1', 'UPDATE t SET s = by_path() WHERE id = 2', 'UPDATE t SET s = under_path() WHERE id = 3');
SELECT id, s FROM t WHERE id < 4 ORDER BY id;
SELECT test.blocks(ARRAY['UPDATE t SET s = names() WHERE id = 1'], ARRAY['UPDATE t SET s = names() WHERE id = 2'], 'stranger');
\i :sessions
SELECT ok, message FROM test.block(test.tx('UPDATE t SET s = tells() WHERE id = 1'), test.tx('UPDATE t SET s = tells() WHERE id = 2', 'stranger'), test.tx('UPDATE t SET s = tells() WHERE id = 3'));
SELECT id, s FROM t WHERE id < 4 ORDER BY id;
SET plpgsql.variable_conflict = use_variable;
SELECT conflict();
RESET plpgsql.variable_conflict;
SELECT test.blocks(ARRAY['UPDATE t SET s = NULL WHERE id = 1'], ARRAY['UPDATE t SET s = conflict() WHERE id = 1']);
\i :sessions

-- 7. Other state of a session, which functions cannot change.
SELECT DISTINCT sqlstate, result FROM test.caught('catches',
    'PREPARE p AS SELECT 1', 'EXECUTE p', 'DEALLOCATE ALL', 'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'FETCH mine', 'CLOSE ALL', 'LISTEN x', 'NOTIFY x', 'SET CONSTRAINTS ALL DEFERRED',
    'SET TimeZone = ''Europe/Berlin''', 'RESET ALL', 'CREATE TEMP TABLE x (i int)', 'DISCARD PLANS', 'LOAD ''plpgsql''', 'DO $x$ BEGIN END $x$', 'SAVEPOINT s') c,
    LATERAL (SELECT split_part(c.result, ' ', 1) AS sqlstate) s ORDER BY 1, 2;
SELECT DISTINCT split_part(result, ' ', 1) AS sqlstate FROM test.caught('catches',
    'SELECT set_config(''a.b'', ''1'', false)', 'SELECT current_setting(''a.b'')', 'SELECT setseed(0)', 'SELECT pg_notify(''x'', '''')', 'SELECT pg_advisory_lock(1)', 'SELECT lastval()', 'SELECT lo_create(0)',
    'SELECT pg_backend_pid()', 'SELECT pg_my_temp_schema()', 'SELECT cursor_to_xml(''mine'', 1, false, false, '''')') ORDER BY 1;
REVOKE chainify_client FROM stranger;
SELECT test.all_well();
