-- What bench/recovery/run measures.
\i sql/setup.sql
\set ECHO none
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL, note text);
INSERT INTO account SELECT i, i * 1.5, 'account of customer ' || i FROM generate_series(1, :rows) i;
GRANT ALL ON account TO alice;
CREATE TABLE test.sample (what text, seconds float8, rows float8);
-- Seconds of processor that this backend has used, in hundredths. Work that takes less than a few
-- is measured several times together.
CREATE FUNCTION test.cpu() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT (f[12]::float8 + f[13]::float8) / 100 FROM regexp_split_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\) ', ''), ' ') f $$;
CREATE PROCEDURE test.measure(what text, sql text, rows float8 DEFAULT 0, clock boolean DEFAULT false, times int DEFAULT 1) LANGUAGE plpgsql AS $$
DECLARE
    used float8 := test.cpu();
    since timestamptz := clock_timestamp();
BEGIN
    FOR i IN 1 .. times LOOP
        EXECUTE sql;
    END LOOP;
    INSERT INTO test.sample VALUES (what, CASE WHEN clock THEN extract(epoch FROM clock_timestamp() - since) ELSE test.cpu() - used END / times, rows);
END $$;
CREATE FUNCTION test.repair(step text, later int DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + later, NULL, step) r $$;
-- One row tampered with, found when a block changes it. The certified hash is known, as it is to
-- the node by then.
CREATE FUNCTION test.hash_elsewhere(tx bytea) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    hash bytea;
BEGIN
    hash := test.hash_of(tx);
    RAISE EXCEPTION USING MESSAGE = encode(hash, 'hex'), ERRCODE = 'UUUUU';
EXCEPTION WHEN SQLSTATE 'UUUUU' THEN
    RETURN decode(SQLERRM, 'hex');
END $$;
CREATE PROCEDURE test.touch(id int) LANGUAGE plpgsql AS $$
DECLARE
    tx bytea := test.tx(format('UPDATE account SET balance = balance + 1 WHERE id = %s', id));
    wanted bytea := test.hash_elsewhere(tx);
    started timestamptz;
    hash bytea;
BEGIN
    SET LOCAL chainify.guard = off;
    SET LOCAL session_replication_role = replica;
    EXECUTE format('UPDATE account SET balance = 0 WHERE id = %s', id);
    SET LOCAL session_replication_role = origin;
    started := clock_timestamp();
    SELECT r.hash INTO hash FROM chainify_node.position() p,
        chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(ARRAY[tx]), certified_hash => wanted) r;
    IF hash <> wanted THEN
        RAISE 'row % was not put right', id;
    END IF;
    INSERT INTO test.sample VALUES ('repair at the next touch', extract(epoch FROM clock_timestamp() - started), 1);
END $$;
CALL test.measure('attach', $$SELECT * FROM test.deploy('ATTACH TABLE public.account')$$, :rows);
VACUUM ANALYZE account;
VACUUM ANALYZE chainify_checkpoint.account;
SELECT set_config('test.repeat', :'repeat', false) \g /dev/null
DO $$
DECLARE
    many int := current_setting('test.repeat')::int;
    n float8 := (SELECT count(*) FROM account);
BEGIN
    FOR i IN 1 .. many LOOP
        CALL test.measure('scrub, table and base', 'SELECT * FROM chainify_node.scrub(''account'')', 2 * n, times => ceil(100000 / n)::int);
        COMMIT;
    END LOOP;
    -- With the row of the block's own transaction, a checkpoint of as many rows as there are.
    FOR i IN 1 .. 20 * many LOOP
        PERFORM * FROM test.run(format('UPDATE account SET balance = balance + 1 WHERE id BETWEEN %s AND %s', i * 10, i * 10 + 99));
        COMMIT;
        CALL test.measure('checkpoint', 'SELECT chainify_node.checkpoint()', n, true);
        COMMIT;
    END LOOP;
    -- The history is as the maintenance worker keeps it: repair lays its part since the oldest
    -- checkpoint kept over the base.
    CALL test.measure('fold', 'SELECT * FROM chainify_node.fold_history(1000000)', 100 * 20 * many);
    COMMIT;
    FOR i IN 1 .. 20 * many LOOP
        CALL test.touch(n::int - i);
        COMMIT;
    END LOOP;
    FOR i IN 1 .. many LOOP
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        UPDATE account SET balance = 0 WHERE id = 77;
        SET LOCAL session_replication_role = origin;
        CALL test.measure('repair by rows, at rest', 'SELECT test.repair(''rows'')', n);
        COMMIT;
    END LOOP;
    -- A block that deviates waits for this.
    FOR i IN 1 .. many LOOP
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        UPDATE account SET balance = 0 WHERE id = 77;
        SET LOCAL session_replication_role = origin;
        CALL test.measure('repair by rows, for a block', 'SELECT test.repair(''rows'', 1)', n);
        COMMIT;
    END LOOP;
    FOR i IN 1 .. many LOOP
        CALL test.measure('replay', 'SELECT test.repair(''replay'')', n);
        COMMIT;
    END LOOP;
    -- Many blocks that change the same rows. Step rows writes the last version of each.
    -- Step replay resets the table and executes all, so that three times are enough.
    PERFORM chainify_node.checkpoint();
    FOR i IN 1 .. 500 LOOP
        PERFORM * FROM test.run('UPDATE account SET balance = balance + 1 WHERE id BETWEEN 1 AND 100');
        COMMIT;
    END LOOP;
    FOR i IN 1 .. least(many, 3) LOOP
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        UPDATE account SET balance = 0 WHERE id BETWEEN 1 AND 100;
        SET LOCAL session_replication_role = origin;
        CALL test.measure('500 blocks, rows', 'SELECT test.repair(''rows'', 1)', 500);
        COMMIT;
        CALL test.measure('500 blocks, replay', 'SELECT test.repair(''replay'', 1)', 500);
        COMMIT;
    END LOOP;
END $$;
CREATE VIEW test.result AS SELECT what, count(*) AS samples, round((1000 * percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds))::numeric, 2) AS ms,
       round((percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE WHEN seconds > 0 THEN rows / seconds END))::numeric, -3) AS rows_per_second
FROM test.sample GROUP BY what ORDER BY what;
SELECT what, samples, ms, rows_per_second FROM test.result;
\if :{?json}
\pset tuples_only on
\pset format unaligned
\o :json
SELECT jsonb_pretty(jsonb_build_object('bench', 'recovery', 'rows', :rows, 'repeat', :repeat, 'results', jsonb_agg(to_jsonb(r)),
    'settings', (SELECT jsonb_object_agg(name, setting || coalesce(' ' || unit, '')) FROM pg_settings
        WHERE source = 'configuration file' AND name !~ '^(port|listen_addresses|unix_socket_directories|lc_.*|log_.*|DateStyle|TimeZone|default_text_search_config)$'))) FROM test.result r;
\o
\endif
