-- What a hostile client or owner may try, and what it comes to.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN few AS int CHECK (VALUE < 10);
CREATE DOMAIN fewer AS few CHECK (VALUE < 5);
CREATE TYPE pair AS (n fewer, m mood);
CREATE TYPE apart AS (n int);
CREATE SCHEMA app;
CREATE TABLE app.typed (id int PRIMARY KEY, pairs pair[], span int4range);
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE long_key (k text PRIMARY KEY, v int);
CREATE TABLE plain_key (k text PRIMARY KEY);
ALTER TABLE plain_key ALTER k SET STORAGE PLAIN;
SELECT format('CREATE TABLE wide (id int PRIMARY KEY, %s)', string_agg(format('c%s bigint', i), ', ')) AS wide FROM generate_series(1, 1020) i \gset
:wide;
CREATE VIEW over_t AS SELECT * FROM t;
INSERT INTO t VALUES (1, 1), (2, 2);
GRANT ALL ON SCHEMA app TO alice;
GRANT ALL ON ALL TABLES IN SCHEMA public, app TO alice;
ALTER TYPE mood OWNER TO alice;
ALTER DOMAIN few OWNER TO alice;
ALTER TYPE pair OWNER TO alice;
ALTER TYPE apart OWNER TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.t, public.wide, public.long_key, public.plain_key, app.typed');

-- a row or key that fits the table but not its history fails its transaction, never the block
SELECT tx, ok, sqlstate, message FROM test.run(
    'INSERT INTO wide SELECT 1, ' || (SELECT string_agg('7', ', ') FROM generate_series(1, 1000)),
    'INSERT INTO wide SELECT 2, ' || (SELECT string_agg('7', ', ') FROM generate_series(1, 990)),
    'INSERT INTO wide SELECT 3, ' || (SELECT string_agg('7', ', ') FROM generate_series(1, 1019)));
-- incompressible: a key just below what the primary key's index takes
CREATE FUNCTION noise(length int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(string_agg(translate(encode(sha256(i::text::bytea), 'base64'), E'\n', ''), '' ORDER BY i), length) FROM generate_series(1, 100) i $$;
SELECT tx, ok, sqlstate, message FROM test.run(
    'INSERT INTO long_key SELECT noise(n), n FROM generate_series(2670, 2690) n', 'INSERT INTO plain_key SELECT noise(n) FROM generate_series(2670, 2690) n',
    'UPDATE long_key SET v = v + 1', 'INSERT INTO long_key VALUES (noise(3000), 1)', 'DELETE FROM long_key WHERE v % 2 = 0');
SELECT test.states_hold();

-- more changes than a block holds: the transaction fails, the block goes on
SELECT tx, ok, rows, sqlstate, message FROM test.run('INSERT INTO t SELECT i, i FROM generate_series(3, 1048579) i', 'UPDATE t SET v = 3 WHERE id = 2');
SELECT tx, ok, rows, sqlstate, message FROM test.run('INSERT INTO t VALUES (3, 3)',
    'UPDATE long_key SET v = length(repeat(md5(k), 8)) + v', $$SELECT count(*) FROM t$$);
SELECT test.states_hold();

-- off and on again within one block would mix two attachments in one history
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('UPDATE t SET v = 10 WHERE id = 1'), test.tx('DETACH TABLE public.t', 'admin', 3),
    test.tx('ATTACH TABLE public.t', 'admin', 3), test.tx('UPDATE t SET v = 11 WHERE id = 1'));
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('ATTACH TABLE public.t', 'admin', 3), test.tx('UPDATE t SET v = 12 WHERE id = 1'));
SELECT test.states_hold();
SELECT block, what FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
SELECT * FROM chainify.verify_table('t');

-- definitions a table is made of
SET ROLE alice;
ALTER TYPE mood RENAME VALUE 'sad' TO 'bad';
\set VERBOSITY sqlstate
ALTER TYPE mood ADD VALUE 'fine';
ALTER TYPE pair RENAME ATTRIBUTE n TO o;
ALTER TYPE pair ADD ATTRIBUTE o int;
ALTER TYPE pair RENAME TO couple;
ALTER DOMAIN few ADD CHECK (VALUE > 0);
ALTER DOMAIN few DROP CONSTRAINT few_check;
ALTER DOMAIN few SET NOT NULL;
ALTER DOMAIN few RENAME TO many;
ALTER TYPE apart ADD ATTRIBUTE m int;
CREATE DOMAIN mine AS int;
ALTER DOMAIN mine ADD CHECK (VALUE > 0);
RESET ROLE;
ALTER SCHEMA app RENAME TO other;
ALTER SCHEMA chainify_history RENAME TO another;
ALTER SCHEMA test RENAME TO test2;
ALTER SCHEMA test2 RENAME TO test;
DROP TYPE apart;
DROP DOMAIN mine;

-- a session cannot hold up blocks with a lock of its own
SET ROLE alice;
LOCK TABLE t IN ACCESS EXCLUSIVE MODE;
BEGIN;
LOCK TABLE ONLY t IN SHARE MODE;
ROLLBACK;
BEGIN;
LOCK TABLE over_t;
ROLLBACK;
BEGIN;
LOCK TABLE t IN ROW EXCLUSIVE MODE;
LOCK TABLE t IN ACCESS SHARE MODE;
ROLLBACK;
RESET ROLE;
SELECT test.states_hold();

-- a table attached again with other columns: a parameter's inferred type follows, and the earlier history stays verified
SELECT tx, ok, sqlstate FROM test.block(test.tx('INSERT INTO t VALUES ($1, $2)', params => ARRAY['', '10', '', '5']));
SELECT ok FROM test.deploy('DETACH TABLE public.t');
DROP VIEW over_t;
ALTER TABLE t ALTER v TYPE text, ADD w text;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.t');
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('INSERT INTO t VALUES ($1, $2)', params => ARRAY['', '11', '', 'word']));
SELECT relname FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relkind = 'r' ORDER BY 1;
SELECT test.states_hold();
SELECT block, what, detail FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
SELECT * FROM chainify.verify_table('t');
-- a type, and a function, made anew
CREATE TYPE made AS ENUM ('a');
CREATE FUNCTION taking(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT tx, ok, sqlstate FROM test.block(test.tx('SELECT $1', params => ARRAY['made', 'a']), test.tx('SELECT taking($1)', params => ARRAY['', '1']));
DROP TYPE made;
DROP FUNCTION taking;
CREATE TYPE made AS ENUM ('a', 'b');
CREATE FUNCTION taking(text) RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT tx, ok, sqlstate, message FROM test.block(test.tx('SELECT $1', params => ARRAY['made', 'a']), test.tx('SELECT taking($1)', params => ARRAY['', '1']));

-- deeper than the stack: the statement fails, and no server with it
CREATE TABLE depth (id int PRIMARY KEY, v int);
INSERT INTO depth VALUES (1, 0);
GRANT ALL ON depth TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.depth');
CREATE VIEW deep AS SELECT shape, sql FROM (VALUES
    ('constants', 'SELECT 1' || repeat(' + 1', 50000)),
    ('sum', 'UPDATE depth SET v = v' || repeat(' + 1', 50000)),
    ('call', 'SELECT abs(1' || repeat(' + 1', 50000) || ')'),
    ('texts', 'SELECT ''a''' || repeat(' || ''a''', 50000)),
    ('not', 'SELECT ' || repeat('NOT ', 6000) || 'true'),
    ('array', 'SELECT ' || repeat('ARRAY[', 3000) || '1' || repeat(']', 3000)),
    ('subqueries', 'SELECT ' || repeat('(SELECT ', 3000) || '1' || repeat(')', 3000))) d (shape, sql);
CREATE FUNCTION analyzed(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT verdict FROM chainify.analyze(sql)); EXCEPTION WHEN statement_too_complex THEN RETURN sqlerrm; END $$;
SELECT shape, analyzed(sql) FROM deep;
SELECT tx, ok, sqlstate, message FROM test.block(VARIADIC (SELECT array_agg(test.tx(sql)) FROM deep));
SELECT test.states_hold();
