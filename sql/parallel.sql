-- Blocks in parts: the same LedgerBlock with any number of processes (P1), and when parts are not what they seemed (P2).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\set same :abs_srcdir /sql/same.psql
\set quarantined {}
\i :setup
CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0));
CREATE TABLE booking (account int REFERENCES account ON DELETE CASCADE ON UPDATE CASCADE, n int, note text, PRIMARY KEY (account, n));
GRANT ALL ON account, booking TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.account, public.booking');
SELECT ok FROM test.run('INSERT INTO account SELECT g, ''owner '' || g, 100 FROM generate_series(1, 40) g',
    'INSERT INTO booking SELECT a, n, ''first'' FROM generate_series(1, 40) a, generate_series(1, 3) n');

-- debug_parts divides by position: transaction i of these touches accounts with id % 8 = i % 8 alone, so eight parts are right
\set parts 8
SELECT test.buffer(ARRAY(SELECT test.tx(format('UPDATE account SET balance = balance - %s WHERE id = %s', g, 1 + g)) FROM generate_series(0, 39) g)) AS buffer \gset
\i :same
SELECT application_name, backend_type FROM pg_stat_activity WHERE backend_type = 'chainify executor';

-- failures in several parts, each undone alone; changes of one key by several transactions; keys that change; cascades; values out of line
SELECT test.buffer(ARRAY(SELECT test.tx(CASE g / 8
    WHEN 0 THEN format('UPDATE account SET balance = balance + 1, owner = repeat(md5(%L), 300) WHERE id = %s', g, 8 + g % 8)
    WHEN 1 THEN format('INSERT INTO booking VALUES (%s, 9, repeat(''long'', 2000)); UPDATE booking SET note = note || n WHERE account = %1$s', 8 + g % 8)
    WHEN 2 THEN CASE g % 8 WHEN 1 THEN 'SELECT 1/0' WHEN 2 THEN 'INSERT INTO account VALUES (10, ''twice'', 1)' WHEN 3 THEN 'SELEC 1'
        WHEN 4 THEN 'UPDATE account SET balance = -1 WHERE id = 12' WHEN 5 THEN 'INSERT INTO account VALUES (53, ''new'', 1); INSERT INTO account VALUES (13, ''half'', 1)'
        ELSE format('UPDATE account SET id = id + 80 WHERE id = %s', 8 + g % 8) END
    WHEN 3 THEN format('DELETE FROM account WHERE id = %s', 16 + g % 8)
    WHEN 4 THEN format('INSERT INTO account VALUES (%s, ''again'', 5); INSERT INTO booking VALUES (%1$s, 1, now()::text || random()); DELETE FROM booking WHERE account = %1$s AND n = 1', 16 + g % 8)
    ELSE format('INSERT INTO booking VALUES (%s, 1, chainify.uuid()::text)', 16 + g % 8) END) FROM generate_series(0, 47) g)) AS buffer \gset
\i :same
SELECT index, succeeded, rows, sqlstate, message FROM chainify_ledger.transaction WHERE block = (SELECT max(number) FROM chainify_ledger.block) AND NOT succeeded ORDER BY index;
SELECT _tx, _serial, _op, id, left(owner, 8) AS owner, balance FROM chainify_history.account WHERE _block = (SELECT max(number) FROM chainify_ledger.block) ORDER BY _tx, id LIMIT 20;

-- quarantined transactions are not run, whosever part they are in
\set quarantined {1,2,7}
SELECT test.buffer(ARRAY(SELECT test.tx(format('UPDATE account SET balance = 7 WHERE id = %s', 24 + g)) FROM generate_series(0, 7) g)) AS buffer \gset
\i :same
\set quarantined {}

-- parts that are not independent: the block runs again in one process, and nothing shows
SELECT test.buffer(ARRAY(SELECT test.tx('UPDATE account SET balance = balance * 2 WHERE id = 30') FROM generate_series(0, 7) g)) AS buffer \gset
\i :same
SELECT test.buffer(ARRAY(SELECT test.tx('INSERT INTO account VALUES (60, ''one of these'', 1)') FROM generate_series(0, 7) g)) AS buffer \gset
\i :same
-- a function that catches the refused lock does not make it an outcome (X4)
CREATE FUNCTION stubborn(account int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance + 1 WHERE id = stubborn.account;
    RETURN 'changed';
EXCEPTION WHEN OTHERS THEN
    RETURN 'given up';
END
$$;
SELECT test.buffer(ARRAY(SELECT test.tx('SELECT stubborn(31)') FROM generate_series(0, 7) g)) AS buffer \gset
\i :same
SELECT balance FROM account WHERE id = 31;
-- nor does one that waits for ever
CREATE FUNCTION patient(account int) RETURNS text LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN
    UPDATE account SET balance = balance + 1 WHERE id = patient.account;
    RETURN 'changed';
END
$$;
SELECT test.buffer(ARRAY(SELECT test.tx('SELECT patient(32)') FROM generate_series(0, 7) g)) AS buffer \gset
\i :same
SELECT balance FROM account WHERE id = 32;

-- a transaction that has written, or has a savepoint, runs its block alone: workers would not see its rows
SET chainify.executor_workers = 4;
SET chainify.debug_parts = 8;
BEGIN;
SAVEPOINT s;
SELECT r.outcomes FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 900, 1700000000000000, p.hash,
    test.buffer(ARRAY(SELECT test.tx('UPDATE account SET balance = 1 WHERE id = ' || 33 + g) FROM generate_series(0, 3) g))) r;
SELECT count(*) FROM account WHERE balance = 1 AND id BETWEEN 33 AND 36;
ROLLBACK;
-- nothing more runs in the transaction of a block in parts
SELECT test.buffer(ARRAY(SELECT test.tx('UPDATE account SET balance = 1 WHERE id = ' || 33 + g) FROM generate_series(0, 3) g)) AS buffer \gset
BEGIN;
SELECT r.outcomes FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 900, 1700000000000000, p.hash, :'buffer') r;
SELECT r.outcomes FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 901, 1700000000000000, p.hash, :'buffer') r;
ROLLBACK;
SELECT count(*) FROM account WHERE balance = 1 AND id BETWEEN 33 AND 36;
RESET chainify.executor_workers;
RESET chainify.debug_parts;
SELECT chainify.read_block() = number FROM chainify_node.position();
SELECT part, block <= (SELECT number FROM chainify_node.position()) AS whole FROM chainify_ledger.part ORDER BY part;
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';

-- left to itself a session runs in parts what comes apart, and alone what does not
\c
SET chainify.executor_workers = 2;
PREPARE run AS SELECT r.outcomes = decode(repeat('ff', 16), 'hex') AS succeeded FROM chainify_node.position() p,
    chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000 + p.number * 1000000, p.hash, $1) r;
PREPARE workers AS SELECT count(*) AS workers FROM chainify_ledger.part WHERE block = (SELECT number FROM chainify_node.position());
SELECT test.buffer(ARRAY(SELECT test.tx(format('INSERT INTO booking VALUES (%s, %s, ''apart'')', 33 + g % 8, 100 + g)) FROM generate_series(0, 127) g)) AS buffer \gset
EXECUTE run (:'buffer');
EXECUTE workers;
SELECT test.buffer(ARRAY(SELECT test.tx('UPDATE account SET balance = balance + 1 WHERE id = 33') FROM generate_series(0, 127) g)) AS buffer \gset
EXECUTE run (:'buffer');
EXECUTE workers;
-- the first eighth is all there is to go by: behind it others would come apart
SELECT test.buffer(ARRAY(SELECT test.tx(format('UPDATE account SET balance = balance + 1 WHERE id = %s', 33 + greatest(g - 24, 0) % 8)) FROM generate_series(0, 127) g)) AS buffer \gset
EXECUTE run (:'buffer');
EXECUTE workers;
SELECT sum(balance) FROM account WHERE id BETWEEN 33 AND 40;
SELECT test.states_hold();
DEALLOCATE ALL;
RESET chainify.executor_workers;
