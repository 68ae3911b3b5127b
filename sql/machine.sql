-- Defaults of a server, a database or a role, and faults of the machine, are no outcome of a transaction.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL);
INSERT INTO account VALUES (1, 100), (2, 50);
GRANT ALL ON account TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.account');

-- a read-only transaction executes no block: that is no outcome of the block's transactions
SET default_transaction_read_only = on;
SELECT * FROM test.block(test.tx('UPDATE account SET balance = 1 WHERE id = 1', nonce => 1));
RESET default_transaction_read_only;
BEGIN READ ONLY;
SELECT * FROM test.block(test.tx('UPDATE account SET balance = 1 WHERE id = 1', nonce => 1));
ROLLBACK;
-- nor does it adopt one
BEGIN READ ONLY;
SELECT * FROM chainify_node.adopt_block(2, 1, 1, '\x00', '\x00000000', NULL, false, '\x00', '\x00');
ROLLBACK;
-- one that a client's own function asks for is one
SET ROLE admin;
CREATE FUNCTION public.careful() RETURNS void LANGUAGE plpgsql SET transaction_read_only = on AS $$ BEGIN UPDATE account SET balance = 7; END $$;
RESET ROLE;
SELECT ok, sqlstate FROM test.run('SELECT careful()', 'UPDATE account SET balance = balance + 1 WHERE id = 2');
-- processes of parts do not take the default over, nor others that could end their sessions or fail their statements
ALTER DATABASE regress SET default_transaction_read_only = on;
ALTER DATABASE regress SET default_transaction_isolation = 'serializable';
ALTER DATABASE regress SET default_transaction_deferrable = on;
ALTER DATABASE regress SET lock_timeout = 1;
ALTER DATABASE regress SET exit_on_error = on;
ALTER DATABASE regress SET row_security = off;
ALTER DATABASE regress SET session_replication_role = replica;
ALTER DATABASE regress SET zero_damaged_pages = on;
ALTER DATABASE regress SET temp_tablespaces = 'pg_default';
\c regress
SET exit_on_error = off;
SET chainify.executor_workers = 2;
SET chainify.debug_parts = 2;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT test.buffer(ARRAY[test.tx('UPDATE account SET balance = balance + 1 WHERE id = 1'), test.tx('UPDATE account SET balance = balance + 1 WHERE id = 2'),
    test.tx('INSERT INTO account VALUES (1, 1)')]) AS buffer \gset
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT r.sqlstates FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000009000000, p.hash, :'buffer') r;
COMMIT;
SELECT count(*) AS workers FROM chainify_ledger.part WHERE block = (SELECT number FROM chainify_node.position());
BEGIN READ WRITE;
ALTER DATABASE regress RESET ALL;
COMMIT;
\c regress
SET client_min_messages = warning;
SELECT * FROM account ORDER BY id;

-- a file that may not be read, or on a disk that was made read-only, is 42501 to PostgreSQL; it is no outcome
CREATE FUNCTION test.without(path text, statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
BEGIN
    EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'chmod 000 ' || path);
    BEGIN
        RETURN QUERY SELECT 'an outcome: ' || coalesce(r.sqlstate, 'none') FROM test.run(statement) r;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        RETURN NEXT SQLSTATE || ' ' || regexp_replace(message, '"base/.*"', '"base/…"') || ', ' || detail;
    END;
    EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'chmod 600 ' || path);
END
$$;
CREATE TABLE other (id int PRIMARY KEY);
GRANT SELECT ON other TO alice;
INSERT INTO other VALUES (1);
SELECT ok FROM test.deploy('ATTACH TABLE public.other');
CHECKPOINT;
SELECT current_setting('data_directory') || '/' || pg_relation_filepath('other') AS path \gset
\c regress
SET client_min_messages = warning;
SELECT * FROM test.without(:'path', 'SELECT * FROM other');
-- the right that a role lacks is one
SELECT ok, sqlstate FROM test.run('SELECT * FROM other', 'INSERT INTO other VALUES (2)');
SELECT * FROM test.all_well();
