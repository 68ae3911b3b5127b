-- The ledger is taken back to before its first block, and all blocks are executed again.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
GRANT CREATE ON DATABASE regress TO admin;
CREATE TABLE account (id bigint GENERATED ALWAYS AS IDENTITY (START 5) PRIMARY KEY, balance numeric CHECK (balance >= 0), note text);
CREATE TABLE entry (id uuid PRIMARY KEY, account bigint NOT NULL REFERENCES account, amount numeric, twice numeric GENERATED ALWAYS AS (amount * 2) STORED);
CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
INSERT INTO account (balance) SELECT 100 FROM generate_series(1, 20) i;
INSERT INTO entry VALUES ('00000000-0000-0000-0000-000000000001', 7, 3);
INSERT INTO part SELECT i, 'v' || i FROM generate_series(0, 19) i;
GRANT ALL ON account, entry, part TO alice;
ALTER TABLE account OWNER TO admin;
ALTER TABLE part OWNER TO admin;
ALTER TABLE part_1 OWNER TO admin;
ALTER TABLE part_2 OWNER TO admin;
-- What is this organisation's alone.
CREATE TABLE private (id int PRIMARY KEY, v text);
INSERT INTO private VALUES (1, 'ours');
CREATE VIEW our_sums AS SELECT sum(balance) FROM account;
RESET client_min_messages;

SELECT ok, message FROM test.deploy('ATTACH TABLE public.account, public.entry, public.part');
SELECT ok, message FROM test.run('INSERT INTO account (balance) VALUES (1), (2)', 'SELECT 1/0', 'DELETE FROM part WHERE id > 15', 'INSERT INTO entry VALUES (chainify.uuid(), 8, 1)');
SELECT ok, message FROM test.deploy('
    CREATE SCHEMA store;
    CREATE TYPE store.colour AS ENUM (''red'', ''green'');
    CREATE TABLE store.item (id serial PRIMARY KEY, colour store.colour, bought bigint REFERENCES account);
    CREATE TABLE store.sale (item int REFERENCES store.item, no int, PRIMARY KEY (item, no));
    ALTER TABLE store.item ADD COLUMN last int, ADD FOREIGN KEY (id, last) REFERENCES store.sale;
    CREATE VIEW store.reds AS SELECT * FROM store.item WHERE colour = ''red'';
    CREATE FUNCTION store.buy(no int, of bigint) RETURNS void LANGUAGE sql AS ''INSERT INTO store.item (id, colour, bought) VALUES (no, ''''red'''', of)'';
    GRANT USAGE ON SCHEMA store TO alice;
    GRANT ALL ON store.item, store.sale, store.item_id_seq, store.reds TO alice');
SELECT ok, message FROM test.run('INSERT INTO store.item (colour, bought) VALUES (''green'', 9)', 'SELECT store.buy(100, 10)', 'UPDATE account SET balance = balance + (SELECT count(*) FROM store.reds) WHERE id < 9');
SELECT ok, message FROM test.deploy('ALTER TABLE store.item ADD COLUMN price numeric DEFAULT 3; DROP TABLE missing');
SELECT ok, message FROM test.deploy('ALTER TABLE store.item ADD COLUMN price numeric DEFAULT 3');
SELECT ok, message FROM test.deploy('SET DETERMINISM detect');
-- A block of which one transaction was quarantined.
SELECT outcomes FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash,
    test.buffer(ARRAY[test.tx('UPDATE account SET balance = 8 WHERE id = 8'), test.tx('UPDATE account SET balance = 9 WHERE id = 9')]), '{0}');
SELECT test.all_well();

CREATE TABLE test.chain AS SELECT b.number, b.order_height, b.block_time, b.hash,
    (SELECT array_agg(t.body ORDER BY t.index) FROM chainify_ledger.transaction t WHERE t.block = b.number) AS bodies,
    (SELECT array_agg(t.index) FROM chainify_ledger.transaction t WHERE t.block = b.number AND t.sqlstate = 'CH001') AS quarantined
FROM chainify_ledger.block b;
CREATE TABLE test.last AS SELECT * FROM chainify_node.position();
CREATE FUNCTION test.start_over() RETURNS SETOF jsonb LANGUAGE sql AS $$
    SELECT to_jsonb(r) FROM test.last l, chainify_node.position() p, chainify_node.repair(p.number, l.hash, p.number + 1, '\x01', 'full') r $$;
-- As the node does: each block in a transaction of its own, its hash compared.
CREATE PROCEDURE test.execute_again(OUT executed int, OUT different int) LANGUAGE plpgsql AS $$
DECLARE
    b record;
    h bytea;
BEGIN
    executed := 0;
    different := 0;
    FOR b IN SELECT * FROM test.chain ORDER BY number LOOP
        SELECT r.hash INTO h FROM chainify_node.position() p,
            chainify_node.execute_block(b.number, b.order_height, b.block_time, p.hash, test.buffer(b.bodies), b.quarantined) r;
        executed := executed + 1;
        different := different + (h <> b.hash)::int;
        COMMIT;
    END LOOP;
END
$$;

CREATE FUNCTION test.deployed(command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    why text;
BEGIN
    SELECT message INTO why FROM test.deploy(command) WHERE NOT ok;
    IF FOUND THEN
        RAISE '%', why;
    END IF;
END
$$;
-- Why not: what no block tells is changed or not there. Nothing is changed then.
CREATE FUNCTION test.refused(VARIADIC statements text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    why text;
BEGIN
    SET LOCAL chainify.guard = off;
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
    PERFORM test.start_over();
    RAISE EXCEPTION USING ERRCODE = 'P0099', DETAIL = 'not refused';
EXCEPTION WHEN SQLSTATE 'CH002' OR SQLSTATE 'P0099' THEN
    GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
    RETURN why;
END
$$;
SELECT test.refused('DO $d$ BEGIN EXECUTE (SELECT format(''UPDATE %s SET balance = 101 WHERE id = 5'', i.rows::regclass) FROM chainify_ledger.initial_table i WHERE name = ''public.account''); END $d$');
SELECT test.refused('UPDATE chainify_ledger.initial_table SET table_state = decode(repeat(''00'', 32), ''hex'') WHERE name = ''public.part''');
SELECT test.refused('UPDATE chainify_ledger.initial_table SET rows = NULL WHERE name = ''public.entry''');
SELECT test.refused('DELETE FROM chainify_ledger.initial_table WHERE name = ''public.entry''');
SELECT test.refused('CREATE VIEW our_items AS SELECT * FROM store.item');
SELECT test.refused('CREATE VIEW our_changes AS SELECT * FROM chainify_history.account');
SELECT test.refused('DROP FUNCTION store.buy(int, bigint)');
SELECT test.refused('ALTER TABLE account DROP CONSTRAINT account_balance_check');
SELECT test.refused('SELECT test.deployed(''GRANT SELECT ON account TO stranger'')');
SELECT test.refused('SELECT test.deployed(''ALTER TABLE part ADD COLUMN w int'')');
SELECT test.refused('SELECT test.deployed(''DETACH TABLE public.part'')');
SELECT test.refused('SELECT test.deployed(''DETACH TABLE public.part'')', 'SELECT test.deployed(''ATTACH TABLE public.part'')');
SELECT test.refused('SELECT test.deployed(''CREATE TABLE lone (id int PRIMARY KEY)'')', 'SELECT test.deployed(''DETACH TABLE public.lone'')');
-- A partition that was made goes, with its rows.
SELECT test.refused('SELECT test.deployed(''CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (20) TO (30)'')', 'SELECT test.run(''INSERT INTO part VALUES (25)'')');
SELECT test.all_well();

-- Rows, history, checkpoints, headers, transactions and triggers are all changed.
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE account SET balance = balance + 1;
DELETE FROM part WHERE id < 3;
INSERT INTO part VALUES (19, 'x');
DELETE FROM store.item;
UPDATE chainify_history.account SET balance = 0;
UPDATE chainify_checkpoint.account SET balance = 5;
DROP TABLE chainify_history.part CASCADE;
UPDATE chainify_ledger.block SET state_root = '\x00', hash = decode(repeat('00', 32), 'hex') WHERE number < 5;
DELETE FROM chainify_ledger.transaction WHERE block = 4;
ALTER TABLE account DISABLE TRIGGER chainify_digest;
SELECT setval('account_id_seq', 1000);
INSERT INTO chainify_ledger.deviation (block, found_by) SELECT number, 'scrubber' FROM test.last;
RESET session_replication_role;
RESET chainify.guard;
SELECT test.start_over();
SELECT number, hash = decode(repeat('00', 32), 'hex') AS zeros, certified, deviates, false_blocks, anew_until FROM chainify_node.position();
SELECT count(*), sum(balance) FROM account;
SELECT string_agg(v, ',' ORDER BY id) FROM part;
SELECT * FROM entry;
SELECT stale FROM chainify.status;
-- A node that comes back does not take it for cured; nor is the ledger taken back again under way.
SELECT chainify_node.init('testchain', 'acme');
\set VERBOSITY sqlstate
SELECT test.start_over();
\set VERBOSITY default
CALL test.execute_again(NULL, NULL);
SELECT p.hash = l.hash AS same, p.number, p.deviates, p.anew_until FROM chainify_node.position() p, test.last l;
SELECT test.all_well();
SELECT block, found_by, cured_by FROM chainify.deviations ORDER BY 1;
SELECT chainify_node.record_deviation(p.anew_until, l.hash, NULL, 'full', NULL) FROM chainify_node.position() p, test.last l;
SELECT block, found_by, cured_by, took > '0' AS took FROM chainify.deviations ORDER BY 1;
SELECT anew_until FROM chainify_node.position();
SELECT stale FROM chainify.status;
TABLE private;
TABLE our_sums;
-- It can be done again, and the ledger goes on.
SELECT test.start_over();
CALL test.execute_again(NULL, NULL);
SELECT chainify_node.record_deviation(p.anew_until, l.hash, NULL, 'full', NULL) FROM chainify_node.position() p, test.last l;
SELECT ok, message FROM test.run('INSERT INTO account (balance) VALUES (3)', 'SELECT store.buy(101, 9)');
SELECT test.all_well();
SET client_min_messages = warning;
SET chainify.guard = off;
DROP SCHEMA store CASCADE;
