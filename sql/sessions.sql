-- The past of a session has no say. Each block is executed in other sessions too, and one that comes out otherwise there is a warning here
-- (other_sessions.psql); how it comes out, or whether it is refused, other tests say.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE FUNCTION test.ran(VARIADIC sqls text[]) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM test.run(VARIADIC sqls); RETURN 'executed'; END $$;
CREATE FUNCTION test.deployed(VARIADIC sqls text[]) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM test.deploy(s) FROM unnest(sqls) s; RETURN 'executed'; END $$;
GRANT CREATE ON SCHEMA public TO admin;
CREATE EXTENSION isn;
CREATE DOMAIN moment AS timestamp CHECK (VALUE <= 'tomorrow');
CREATE TABLE t (id int PRIMARY KEY, s text);
CREATE TABLE made (id int PRIMARY KEY, at timestamp DEFAULT 'now', day date CHECK (day <= 'today'), m moment);
INSERT INTO t SELECT i FROM generate_series(1, 9) i;
CREATE VIEW today AS SELECT id, s, timestamp 'now' AS at FROM t;
GRANT ALL ON t, made, today TO alice;
SELECT test.deployed('ATTACH TABLE public.t, public.made');

-- the time as a literal: in statements that differ in other literals, in functions, a default, a check, a domain, a view
SELECT test.ran('UPDATE t SET s = (timestamp ''now'')::text WHERE id = 1');
SELECT test.ran('UPDATE t SET s = (timestamp ''now'')::text WHERE id = 2');
SELECT test.ran('UPDATE t SET s = concat(timestamptz ''now'', time ''now'', ''{now}''::timestamp[], ''[now,tomorrow)''::tsrange, date ''today'') WHERE id = 3');
SELECT test.ran('UPDATE t SET s = concat(timestamptz ''now'', time ''now'', ''{now}''::timestamp[], ''[now,tomorrow)''::tsrange, date ''today'') WHERE id = 4');
SELECT test.ran('UPDATE t SET s = (now() = ''now'' AND localtimestamp BETWEEN ''yesterday'' AND ''now'')::text WHERE id = 1');
SELECT test.ran('UPDATE t SET s = (now() = ''now'' AND localtimestamp BETWEEN ''yesterday'' AND ''now'')::text WHERE id = 2');
SELECT test.deployed('CREATE FUNCTION at_plpgsql(i int) RETURNS void LANGUAGE plpgsql AS $f$ DECLARE d timestamp := ''now''; BEGIN UPDATE t SET s = concat(d, timestamp ''now'', ''now''::timestamp) WHERE id = i; END $f$',
    'CREATE FUNCTION at_sql(i int) RETURNS void LANGUAGE sql AS $f$ UPDATE t SET s = (timestamp ''now'')::text WHERE id = i $f$');
SELECT test.ran('SELECT at_plpgsql(1)', 'SELECT at_sql(2)');
SELECT test.ran('SELECT at_plpgsql(3)', 'SELECT at_sql(4)');
SELECT test.ran('INSERT INTO made (id, day, m) VALUES (1, now(), now())');
SELECT test.ran('INSERT INTO made (id, day, m) VALUES (2, now(), now())');
SELECT test.ran('UPDATE t SET s = (SELECT at::text FROM today WHERE id = 1) WHERE id = 5');
SELECT test.ran('UPDATE t SET s = (SELECT at::text FROM today WHERE id = 1) WHERE id = 6');

-- names of portals, and cursors that a transaction leaves to the next of its block, which another process may execute
SELECT test.deployed('CREATE FUNCTION portal(leave boolean) RETURNS text LANGUAGE plpgsql AS $f$ DECLARE c refcursor; BEGIN OPEN c FOR SELECT id FROM t ORDER BY id; IF NOT leave THEN CLOSE c; END IF; RETURN c; END $f$',
    'CREATE FUNCTION opens() RETURNS text LANGUAGE plpgsql AS $f$ DECLARE c refcursor := ''mine''; BEGIN OPEN c FOR VALUES (5), (6); RETURN ''x''; END $f$',
    'CREATE FUNCTION fetches() RETURNS text LANGUAGE plpgsql AS $f$ DECLARE c refcursor := ''mine''; x int; BEGIN FETCH c INTO x; RETURN x; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $f$');
SELECT test.ran('UPDATE t SET s = portal(false) WHERE id = 1');
SELECT test.ran('UPDATE t SET s = portal(true) WHERE id = 1', 'UPDATE t SET s = portal(false) WHERE id = 2');
SELECT test.ran('SELECT opens()', 'UPDATE t SET s = fetches() WHERE id = 1');
SET chainify.executor_workers = 2;
SET chainify.debug_parts = 2;
SELECT test.ran('SELECT opens()', 'UPDATE t SET s = fetches() WHERE id = 1');
RESET chainify.executor_workers;
RESET chainify.debug_parts;

-- types that a function knew, of a column, of a row, of a record
SELECT test.deployed('CREATE TABLE u (id int PRIMARY KEY, n int); GRANT ALL ON u TO alice',
    'CREATE FUNCTION of_column() RETURNS text LANGUAGE plpgsql AS $f$ DECLARE r u.n%TYPE; BEGIN r := 3000000000; RETURN r; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $f$',
    'CREATE FUNCTION of_row() RETURNS text LANGUAGE plpgsql AS $f$ DECLARE r u%ROWTYPE; BEGIN r.n := 3000000000; RETURN r.n; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $f$',
    'CREATE FUNCTION of_record(q text) RETURNS text LANGUAGE plpgsql AS $f$ DECLARE r record; x text; BEGIN EXECUTE q INTO r; x := r.a; RETURN x || ''!''; END $f$',
    'CREATE FUNCTION of_loop(q text) RETURNS text LANGUAGE plpgsql AS $f$ DECLARE r record; x text := ''''; BEGIN FOR r IN EXECUTE q LOOP x := x || r.a; END LOOP; RETURN x; END $f$');
SELECT test.ran('UPDATE t SET s = of_column() WHERE id = 1', 'UPDATE t SET s = of_row() WHERE id = 2', 'UPDATE t SET s = of_record(''SELECT 1 AS a'') WHERE id = 3', 'UPDATE t SET s = of_loop(''SELECT 1 AS a'') WHERE id = 4');
SELECT test.deployed('ALTER TABLE u ALTER n TYPE bigint');
SELECT test.ran('UPDATE t SET s = of_column() WHERE id = 1', 'UPDATE t SET s = of_row() WHERE id = 2', 'UPDATE t SET s = of_record(''SELECT ''''q''''::text AS a'') WHERE id = 3', 'UPDATE t SET s = of_loop(''SELECT ''''q''''::text AS a'') WHERE id = 4');

-- libraries with a state of their own, the temporary schema, the lines of a context
SELECT test.ran('SELECT isn_weak(true)');
SELECT test.ran('UPDATE t SET s = ''978-0-393-04002-4''::isbn13::text WHERE id = 1');
SELECT test.ran('UPDATE t SET s = current_schemas(false)::text WHERE id = 1', 'UPDATE t SET s = current_schemas(true)::text WHERE id = 2', 'UPDATE t SET s = (pg_my_temp_schema() = 0)::text WHERE id = 3');
SELECT test.deployed('CREATE FUNCTION context() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE x text; BEGIN GET DIAGNOSTICS x = PG_CONTEXT; UPDATE t SET s = x WHERE id = 1; END $f$',
    'CREATE FUNCTION context_of_error() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE x text; BEGIN PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS x = PG_EXCEPTION_CONTEXT; UPDATE t SET s = x WHERE id = 2; END $f$');
SELECT test.ran('SELECT context()', 'SELECT context_of_error()');
-- an error of the temporary schema, which a handler may store
SELECT test.deployed('CREATE FUNCTION state_of(q text) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN EXECUTE q; RETURN ''none''; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $f$');
SELECT test.ran('UPDATE t SET s = state_of(''SELECT * FROM pg_temp.x'') WHERE id = 1', 'UPDATE t SET s = state_of(''SELECT pg_temp.x()'') WHERE id = 2', 'UPDATE t SET s = state_of(''SELECT NULL::pg_temp.x'') WHERE id = 3');
SELECT test.ran('SELECT * FROM pg_temp.x', 'SELECT pg_temp.x()', 'SELECT NULL::pg_temp.x');

-- the plan decides which rows come to an expression that fails; six blocks meet all costs and statistics of the other sessions
CREATE TABLE many (k int PRIMARY KEY, b int);
CREATE TABLE few (k int PRIMARY KEY, f int);
INSERT INTO many SELECT i, (i <> 1)::int FROM generate_series(1, 2000) i;
INSERT INTO few VALUES (2, 0);
GRANT ALL ON many, few TO alice;
SELECT test.deployed('ATTACH TABLE public.many, public.few');
SELECT test.ran('UPDATE few SET f = 1 FROM many WHERE many.k = few.k AND 10 / many.b > 0');
SELECT test.ran('UPDATE few SET f = 2 FROM many WHERE many.k = few.k AND 10 / many.b > 0');
SELECT test.ran('UPDATE few SET f = 3 FROM many WHERE many.k = few.k AND 10 / many.b > 0');
SELECT test.ran('UPDATE few SET f = 4 FROM many WHERE many.k = few.k AND 10 / many.b > 0');
SELECT test.ran('UPDATE few SET f = 5 FROM many WHERE many.k = few.k AND 10 / many.b > 0');
SELECT test.ran('UPDATE few SET f = 6 FROM many WHERE many.k = few.k AND 10 / many.b > 0');

-- the server's own
SELECT verdict <> 'deterministic' AS refused FROM chainify.analyze($$UPDATE t SET s = pg_walfile_name('0/1000001')$$);
SELECT test.all_well();
