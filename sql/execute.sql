-- What a transaction may do, and what its failure leaves behind.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0));
INSERT INTO account VALUES (1, 'anna', 100), (2, 'bert', 50);
CREATE TABLE local (id int PRIMARY KEY);
GRANT ALL ON account, local TO alice;
GRANT SELECT ON account TO stranger;
SELECT * FROM test.deploy('ATTACH TABLE public.account');

-- every statement class
SELECT * FROM test.run(
    'INSERT INTO account VALUES (3, ''carl'', 10), (4, ''dora'', 20)',
    'UPDATE account SET balance = balance + 1 WHERE id IN (1, 2)',
    'DELETE FROM account WHERE id = 4',
    'SELECT count(*) FROM account',
    'MERGE INTO account a USING (VALUES (3, 5), (5, 7)) v (id, b) ON a.id = v.id WHEN MATCHED THEN UPDATE SET balance = balance + b WHEN NOT MATCHED THEN INSERT VALUES (v.id, ''new'', b)',
    'INSERT INTO account VALUES (1, ''x'', 1) ON CONFLICT (id) DO UPDATE SET owner = ''anna2''',
    'WITH gone AS (DELETE FROM account WHERE id = 5 RETURNING balance) UPDATE account SET balance = account.balance + gone.balance FROM gone WHERE id = 1',
    'UPDATE account SET balance = 0 WHERE id = 3; DELETE FROM account WHERE id = 3');
SELECT * FROM account ORDER BY id;
SELECT id, owner, balance, _block, _tx, _serial, _op FROM chainify_history.account ORDER BY id, _block, _serial;
SELECT test.states_hold();

-- failures: outcome 0 with their SQLSTATE, and the block goes on
SELECT * FROM test.block(
    test.tx('INSERT INTO account VALUES (1, ''again'', 1)'),
    test.tx('UPDATE account SET balance = -1'),
    test.tx('INSERT INTO account VALUES (7, NULL, 1)'),
    test.tx('SELEC 1'),
    test.tx('SELECT 1/0'),
    test.tx('INSERT INTO nothing VALUES (1)'),
    test.tx('INSERT INTO local VALUES (1)'),
    test.tx('SELECT * FROM local'),
    test.tx('SELECT 1', 'nobody'),
    test.tx('SELECT 1', 'postgres'),
    test.tx('SELECT 1', 'stranger'),
    test.tx('ATTACH TABLE public.local', 'alice', 3),
    test.tx('GIVE TABLE public.local', 'admin', 3),
    test.tx('INSERT INTO account VALUES (8, ''half'', 1); INSERT INTO account VALUES (1, ''other half'', 1)'),
    test.tx('-- nothing'),
    test.tx('UPDATE account SET balance = 0 WHERE id = 2'));
-- what no order has is no block
SELECT * FROM test.block(test.tx(''));
SELECT * FROM account ORDER BY id;
SELECT test.states_hold();

-- what a ledger transaction may not contain
SELECT * FROM test.run('CREATE TABLE x ()', 'DROP TABLE account', 'SELECT 1 AS a INTO x', 'COPY account TO STDOUT', 'BEGIN', 'SET work_mem = 1000', 'LOCK account',
    'NOTIFY x', 'DO $d$ BEGIN END $d$', 'EXPLAIN SELECT 1', 'TRUNCATE local', 'PREPARE p AS SELECT 1', 'GRANT ALL ON account TO stranger',
    'COMMIT', 'ROLLBACK', 'SAVEPOINT s', 'PREPARE TRANSACTION ''x''', 'LISTEN x', 'UNLISTEN *', 'COPY account FROM PROGRAM ''id''', 'COPY account TO ''/tmp/x''', 'SET ROLE postgres', 'RESET ALL',
    'DECLARE c CURSOR FOR SELECT 1', 'CHECKPOINT', 'VACUUM account', 'LOAD ''x''', 'SECURITY LABEL ON TABLE account IS NULL', 'IMPORT FOREIGN SCHEMA a FROM SERVER b INTO public');
-- nor a function it calls
CREATE FUNCTION sneaky(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; END $$;
SELECT * FROM test.run('SELECT sneaky(''CREATE TABLE x ()'')', 'SELECT sneaky(''TRUNCATE local'')', 'SELECT sneaky(''INSERT INTO local VALUES (1)'')', 'SELECT sneaky(''SET ROLE postgres'')',
    'SELECT sneaky(''COPY account TO STDOUT'')', 'SELECT sneaky(''UPDATE account SET balance = 1 WHERE id = 2'')', 'SELECT set_config(''role'', ''postgres'', true)',
    'SELECT lo_create(0)');
-- a right is the role's
REVOKE UPDATE ON account FROM alice;
SELECT * FROM test.run('UPDATE account SET balance = 1', 'DELETE FROM account WHERE id = 2');
GRANT UPDATE ON account TO alice;

-- parameters: typed by name, inferred, NULL
SELECT * FROM test.block(
    test.tx('INSERT INTO account VALUES ($1, $2, $3)', params => ARRAY['integer', '10', 'text', 'ten', 'numeric', '1.50']),
    test.tx('INSERT INTO account VALUES ($1, $2, $3)', params => ARRAY['', '11', '', 'eleven', '', '11']),
    test.tx('UPDATE account SET owner = coalesce($1, ''none'') WHERE id = $2', params => ARRAY['', NULL, '', '11']),
    test.tx('SELECT $1', params => ARRAY['', '1', '', '2']),
    test.tx('SELECT $1::int', params => ARRAY['int4', 'x']),
    test.tx('SELECT $2::int', params => ARRAY['int4', '1']),
    test.tx('SELECT $1', params => ARRAY['no_such_type', '1']),
    test.tx('UPDATE account SET balance = balance + $1 WHERE id = $2; UPDATE account SET balance = balance - $1 WHERE id = $3', params => ARRAY['', '0.25', '', '10', '', '11']));
SELECT * FROM account ORDER BY id;
SELECT test.states_hold();

-- a SQLSTATE of a client's own is kept; settings and time are the block's
CREATE FUNCTION fail() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'mine' USING ERRCODE = 'ZZ001'; END $$;
SET TimeZone = 'America/New_York';
SET DateStyle = 'German';
SELECT * FROM test.run('SELECT fail()',
    'UPDATE account SET owner = now()::text || '' '' || current_user WHERE id = 11');
SELECT id, owner FROM account WHERE id > 9 ORDER BY id;
SHOW TimeZone;
SHOW DateStyle;
RESET TimeZone;
RESET DateStyle;
SELECT current_user, now() > '2024-01-01';

-- random() belongs to the transaction
CREATE TABLE dice (id int PRIMARY KEY, v float8);
GRANT ALL ON dice TO alice;
SELECT * FROM test.deploy('ATTACH TABLE public.dice');
BEGIN;
SELECT * FROM test.block(test.tx('INSERT INTO dice VALUES (1, random())', nonce => 77));
SELECT v AS first FROM dice \gset
ROLLBACK;
SELECT * FROM test.block(test.tx('INSERT INTO dice VALUES (1, random())', nonce => 77));
SELECT v = :first AS same FROM dice;

-- the transactions are kept as ordered
SELECT block, index, succeeded, rows, sqlstate, length(id) AS id, length(body) > 10 AS body FROM chainify_ledger.transaction WHERE block = 2 ORDER BY index;
-- a transaction for another chain is refused
SELECT tx, ok, sqlstate, message FROM test.block(decode(replace(encode(test.tx('DELETE FROM dice'), 'hex'), encode('testchain', 'hex'), encode('elsewhere', 'hex')), 'hex'),
    decode(replace(encode(test.tx('DROP TABLE dice', 'admin', 3), 'hex'), encode('testchain', 'hex'), encode('elsewhere', 'hex')), 'hex'));
-- who is no client any more cannot submit, in a session that knew him as one
SELECT ok FROM test.run('SELECT 1');
REVOKE chainify_client FROM alice;
SELECT ok, sqlstate, message FROM test.run('SELECT 1');
GRANT chainify_client TO alice;
SELECT ok FROM test.run('SELECT 1');
