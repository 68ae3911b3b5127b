-- Local changes that were prepared beside a ledger transaction: the worker ends them as the ledger says, and leaves the others alone (W4).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE FUNCTION test.until(what text, condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    holds boolean;
BEGIN
    FOR i IN 1 .. 6000 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXECUTE 'SELECT ' || condition INTO holds;
        IF holds THEN
            RETURN what;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN 'in vain: ' || what;
END
$$;
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
GRANT SELECT, INSERT, UPDATE ON account TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.account');
CREATE TABLE local (what text PRIMARY KEY);
-- Block 2, of order height 11: the first transaction succeeds, the second fails.
SELECT * FROM test.run('INSERT INTO account VALUES (1, 10)', 'INSERT INTO account VALUES (1, 20)');
SELECT 'chainify:' || encode(id, 'hex') || ':900' AS valid FROM chainify_ledger.transaction WHERE (block, index) = (2, 0) \gset
SELECT 'chainify:' || encode(id, 'hex') || ':900' AS failed FROM chainify_ledger.transaction WHERE (block, index) = (2, 1) \gset
-- Of transactions that no block has: of one the last height has passed, of the others not.
SELECT 'chainify:' || repeat('0a', 32) || ':10' AS late, 'chainify:' || repeat('0b', 32) || ':11' AS open, 'chainify:' || repeat('0A', 32) || ':10' AS other \gset
BEGIN; INSERT INTO local VALUES ('valid'); PREPARE TRANSACTION :'valid';
BEGIN; INSERT INTO local VALUES ('failed'); PREPARE TRANSACTION :'failed';
BEGIN; INSERT INTO local VALUES ('late'); PREPARE TRANSACTION :'late';
BEGIN; INSERT INTO local VALUES ('open'); PREPARE TRANSACTION :'open';
-- This session is the node.
SELECT pg_advisory_lock(x'63686679'::int, 1);
SELECT test.until('the last worker has ended', $$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance')$$) \g /dev/null
SELECT chainify_ledger.maintain() AS started;
SELECT test.until('one is left', '(SELECT count(*) FROM pg_prepared_xacts) = 1');
SELECT gid = :'open' AS is_open FROM pg_prepared_xacts;
SELECT * FROM local;
-- One of others, in its place.
BEGIN; INSERT INTO local VALUES ('of others'); PREPARE TRANSACTION :'other';
-- Its height has passed once a block stands behind it.
SELECT ok FROM test.run('UPDATE account SET balance = 11');
SELECT test.until('it is rolled back', format('NOT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = %L)', :'open'));
SELECT gid = :'other' AS is_other FROM pg_prepared_xacts;
COMMIT PREPARED :'other';
SELECT * FROM local;
SELECT pg_advisory_unlock(x'63686679'::int, 1);
-- No prepared transaction, of anybody, keeps a lock that a block could wait for.
CREATE SEQUENCE numbers;
BEGIN; LOCK TABLE account IN ROW SHARE MODE; SELECT count(*) FROM account; SELECT nextval('numbers'); INSERT INTO local VALUES ('locks'); PREPARE TRANSACTION 'locks';
SELECT relation::regclass, mode FROM pg_locks WHERE pid IS NULL AND locktype = 'relation' ORDER BY relation::regclass::text;
ROLLBACK PREPARED 'locks';
BEGIN; ANALYZE account; PREPARE TRANSACTION 'locks';
BEGIN; SELECT chainify.read_block(); PREPARE TRANSACTION 'locks';
SELECT test.until('none is there', $$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance')$$);
