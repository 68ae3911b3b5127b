\i sql/setup.sql
-- How much memory a client's transaction may take, and what it is called when it wants more.
SET client_min_messages = error;
CREATE TABLE t (id int PRIMARY KEY, n bigint);
INSERT INTO t VALUES (1, 0);
GRANT ALL ON t TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.t');

-- A value of more than 1 GB is refused by every PostgreSQL alike: an outcome, and not one of the machine, as other XX000 are.
SELECT ok, sqlstate, message FROM test.run('SELECT repeat(''x'', 268435456) ~ ''y''', 'UPDATE t SET n = 1');
CREATE FUNCTION caught() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN repeat('x', 268435456) ~ 'y'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
SELECT ok, sqlstate, message FROM test.run('SELECT caught()');

-- Many values: this process has a bound, and the node is told which transaction came to it.
SHOW chainify.block_memory;
SHOW maintenance_work_mem; -- on top
SET chainify.block_memory = '64MB';
CREATE FUNCTION keeps(count int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    kept text[];
BEGIN
    FOR i IN 1 .. count LOOP kept := kept || repeat('x', 1000000); END LOOP;
    RETURN cardinality(kept);
END
$$;
CREATE FUNCTION catches(count int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN keeps(count); EXCEPTION WHEN query_canceled OR OTHERS THEN RETURN -1; END $$;
SELECT test.raised('UPDATE t SET n = 2', 'SELECT cardinality(array_agg(repeat(''x'', 1000000) || g)) FROM generate_series(1, 900) g');
SELECT test.raised('SELECT keeps(900)');
SELECT test.raised('SELECT catches(900)');
-- A transaction that needs less goes on, also afterwards.
SELECT ok, sqlstate, message FROM test.run('SELECT keeps(20)', 'UPDATE t SET n = 3');
-- A rehearsal has the same bound.
SELECT sqlstate, message FROM chainify_node.rehearse(test.tx('SELECT cardinality(array_agg(repeat(''x'', 1000000) || g)) FROM generate_series(1, 900) g'), 1700000009000000);
SET chainify.block_memory = 0;
SELECT test.raised('SELECT keeps(200)');
SELECT n FROM t;
SELECT test.all_well();
