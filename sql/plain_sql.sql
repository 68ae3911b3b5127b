-- Plain SQL of a session, as far as it needs no node.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
CREATE TABLE checking (id int PRIMARY KEY, balance int);
CREATE TABLE local (id int PRIMARY KEY, balance int);
CREATE VIEW of_checking AS SELECT * FROM checking;
CREATE VIEW of_view AS SELECT id, balance FROM of_checking WHERE id > 0;
CREATE VIEW of_local AS SELECT * FROM local;
CREATE FUNCTION total() RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$ BEGIN RETURN (SELECT sum(balance) FROM checking); END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO alice;
GRANT USAGE ON SCHEMA test TO alice;
-- Workers that a statement was planned for, and those that ran.
CREATE FUNCTION test.workers(sql text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || sql LOOP
        IF line LIKE '%Workers%' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END
$$;
SELECT ok FROM test.deploy('ATTACH TABLE public.checking');
SELECT ok FROM test.run('INSERT INTO checking SELECT g, 10 FROM generate_series(1, 9) g');
\c - alice

-- a view over a ledger table is no table of the session's own
SET chainify.writes = 'effects';
BEGIN;
UPDATE of_checking SET balance = 1 WHERE id = 1;
UPDATE of_view SET balance = 2 WHERE id = 2;
INSERT INTO of_view VALUES (11, 3);
DELETE FROM of_checking WHERE id = 3;
SELECT * FROM checking WHERE id IN (1, 2, 3, 11) ORDER BY id;
UPDATE of_local SET balance = 1 WHERE id = 1;
ROLLBACK;

-- the reads of a SERIALIZABLE transaction are noted in this process: no other runs a part of its statements, not even by a plan that is kept
SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS parallel \gset
SET :parallel = on;
PREPARE kept AS SELECT total();
SELECT test.workers('EXECUTE kept');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT total();
SELECT test.workers('EXECUTE kept');
EXECUTE kept;
ROLLBACK;
SET chainify.writes = 'refuse';
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT test.workers('EXECUTE kept');
ROLLBACK;
SELECT test.workers('EXECUTE kept');

-- a session keeps of its changes what their write set will have, and is told at the statement that COMMIT would refuse them
\c - postgres
SET client_min_messages = warning;
CREATE TABLE wide (id int PRIMARY KEY, x text, y int);
ALTER TABLE wide ALTER x SET STORAGE plain;
INSERT INTO wide SELECT g, repeat('z', 7000), 1 FROM generate_series(1, 8000) g;
GRANT ALL ON wide TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.wide');
CREATE FUNCTION test.own_megabytes() RETURNS int LANGUAGE sql SECURITY DEFINER AS $$
    SELECT substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+)')::int / 1024 $$;
GRANT USAGE ON SCHEMA test TO alice;
\c - alice
SET chainify.writes = 'effects';
BEGIN;
UPDATE wide SET y = y + 1 WHERE id <= 10;
SELECT test.own_megabytes() AS before \gset
UPDATE wide SET y = y + 1 WHERE id <= 5000;
SELECT test.own_megabytes() - :before < 32 AS bounded;
SAVEPOINT s;
UPDATE wide SET x = upper(x);
ROLLBACK TO s;
SELECT test.own_megabytes() - :before < 32 AS bounded;
UPDATE wide SET y = y + 1 WHERE id > 7000;
INSERT INTO wide SELECT g, 'x', 1 FROM generate_series(10001, 40000) g;
ROLLBACK;
BEGIN;
SELECT count(*) FROM (SELECT FROM wide WHERE id <= 100 FOR UPDATE) x;
UPDATE wide SET x = x WHERE id <= 3;
DELETE FROM wide WHERE id > 100;
ROLLBACK;

-- nor do long keys of rows that it locks, and long values that its reads look for, take much more
\c - postgres
SET client_min_messages = warning;
CREATE TABLE long (k text PRIMARY KEY, y int);
INSERT INTO long SELECT lpad(g::text, 10, '0') || repeat('z', 100000), 1 FROM generate_series(1, 100) g;
GRANT ALL ON long TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.long');
\c - alice
SET chainify.writes = 'effects';
BEGIN;
UPDATE wide SET y = y + 1 WHERE id = 1;
SELECT count(*) FROM (SELECT FROM long LIMIT 80 FOR UPDATE) x;
SELECT count(*) FROM (SELECT FROM long FOR UPDATE) x;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM long WHERE k = 'none';
SELECT test.own_megabytes() AS before \gset
DO $$ DECLARE v text; BEGIN FOR i IN 1 .. 60 LOOP v := repeat('a', 1000000) || i; PERFORM FROM long WHERE k = v; END LOOP; END $$;
SELECT test.own_megabytes() - :before < 32 AS bounded;
ROLLBACK;
