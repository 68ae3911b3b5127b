\i sql/setup.sql
-- A ledger with tables that refer to each other, a partitioned one, types PostgreSQL does not know by itself.
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE owner (id int PRIMARY KEY, name text NOT NULL, mood mood, total numeric GENERATED ALWAYS AS (id * 1.5) STORED);
CREATE TABLE account (id int PRIMARY KEY, owner int NOT NULL REFERENCES owner ON DELETE CASCADE, balance numeric CHECK (balance >= 0), note text);
CREATE TABLE event (id int, day date, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO owner VALUES (1, 'Ann', 'ok'), (2, 'Bob', NULL);
INSERT INTO account VALUES (10, 1, 100, 'first');
GRANT ALL ON owner, account, event TO alice;
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.owner, public.account, public.event');
SELECT ok, message FROM test.run($$INSERT INTO account SELECT i, 2, i FROM generate_series(11, 20) i$$, 'SELECT 1/0',
    $$UPDATE account SET balance = balance + 1 WHERE id < 13$$, $$UPDATE account SET balance = balance + 1 WHERE id = 10$$);
SELECT ok, message FROM test.run($$DELETE FROM account WHERE id = 15$$, $$UPDATE account SET id = 99 WHERE id = 16$$,
    $$INSERT INTO event VALUES (1, '2026-01-05', 'a'), (2, '2026-02-05', 'b')$$, $$UPDATE event SET day = '2026-02-06' WHERE id = 1$$);

CREATE FUNCTION test.certify() RETURNS void LANGUAGE sql AS $$
    SELECT chainify_node.store_certificate(number, 0, hash, '[]') FROM chainify_ledger.block ORDER BY number $$;
CREATE FUNCTION test.position_hash() RETURNS bytea LANGUAGE sql AS $$ SELECT hash FROM chainify_node.position() $$;
CREATE FUNCTION test.repair() RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT r.* FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\xff') r $$;
CREATE FUNCTION test.flip(bytes bytea, at int DEFAULT 0) RETURNS bytea LANGUAGE sql AS $$
    SELECT set_byte(bytes, at, get_byte(bytes, at) # 1) $$;
-- What a mutation is found as, without hashes; the mutation is undone.
CREATE FUNCTION test.found(mutation text) RETURNS TABLE (finding text) LANGUAGE plpgsql AS $$
DECLARE
    found text[];
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        EXECUTE mutation;
        SELECT array_agg(concat_ws(' | ', 'block ' || block, what, regexp_replace(detail, '[0-9a-f]{64}', '…', 'g'))) INTO found
        FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%';
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT unnest(found);
    END;
END
$$;
CREATE FUNCTION test.found_in(tbl regclass, mutation text) RETURNS TABLE (finding text) LANGUAGE plpgsql AS $$
DECLARE
    found text[];
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        EXECUTE mutation;
        SELECT array_agg(regexp_replace(concat_ws(' | ', v.tbl, what, key, 'expected ' || expected::text, 'found ' || v.found::text), '[0-9a-f]{64}', '…', 'g'))
        INTO found FROM chainify.verify_table(tbl) v;
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT unnest(found);
    END;
END
$$;
RESET client_min_messages;

-- Nothing is wrong but the certificates that nobody stored; readers may ask.
SET ROLE chainify_reader;
SELECT block, what FROM chainify.verify_ledger();
SELECT t.name, v.* FROM chainify.tables t LEFT JOIN chainify.verify_table(t.name::regclass) v ON true ORDER BY 1;
SELECT chainify.verify_ledger(2, 2);
RESET ROLE;
SET ROLE stranger;
SELECT * FROM chainify.verify_ledger();
SELECT * FROM chainify.verify_table('account');
RESET ROLE;
SELECT * FROM chainify.verify_table('pg_class');

-- Each field of a block.
SELECT * FROM test.found('UPDATE chainify_ledger.block SET order_height = order_height + 1 WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET block_time = block_time + 1 WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET tx_root = test.flip(tx_root, 31) WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET tx_count = 5 WHERE number = 2');
SELECT * FROM test.found($$UPDATE chainify_ledger.block SET outcomes = '\x0f' WHERE number = 2$$);
SELECT * FROM test.found($$UPDATE chainify_ledger.block SET outcomes = '\x1d' WHERE number = 2$$);
SELECT * FROM test.found('UPDATE chainify_ledger.block SET effects_root = test.flip(effects_root) WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET effects_count = 1 WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET state_root = test.flip(state_root) WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET previous_hash = test.flip(previous_hash) WHERE number = 2');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET previous_hash = test.flip(previous_hash) WHERE number = 1');
SELECT * FROM test.found('UPDATE chainify_ledger.block SET hash = test.flip(hash) WHERE number = 2');
SELECT * FROM test.found($$UPDATE chainify_ledger.block SET hash = '\x00' WHERE number = 2$$);
SELECT * FROM test.found('DELETE FROM chainify_ledger.block WHERE number = 2');
-- certificates of blocks that are gone, in the midst and at the end
SELECT * FROM test.found('SELECT test.certify(); DELETE FROM chainify_ledger.block WHERE number = 2');
SELECT * FROM test.found('SELECT test.certify(); DELETE FROM chainify_ledger.block WHERE number = (SELECT max(number) FROM chainify_ledger.block)');
SELECT * FROM test.found($$UPDATE chainify_ledger.chain SET chain_id = 'otherchain'$$);
-- a range of blocks starts from the hash of the block before it
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE chainify_ledger.block SET previous_hash = test.flip(previous_hash) WHERE number = 3;
SELECT block, what FROM chainify.verify_ledger(3, 3);
ROLLBACK;
-- Transactions.
SELECT * FROM test.found('UPDATE chainify_ledger.transaction SET body = test.flip(body, length(body) - 1) WHERE (block, index) = (2, 0)');
SELECT * FROM test.found('UPDATE chainify_ledger.transaction SET body = test.flip(body, 0) WHERE (block, index) = (2, 0)');
SELECT * FROM test.found('UPDATE chainify_ledger.transaction SET id = test.flip(id, 5) WHERE (block, index) = (2, 0)');
SELECT * FROM test.found('UPDATE chainify_ledger.transaction SET succeeded = true WHERE (block, index) = (2, 1)');
SELECT * FROM test.found('DELETE FROM chainify_ledger.transaction WHERE (block, index) = (2, 1)');
SELECT * FROM test.found($$INSERT INTO chainify_ledger.transaction VALUES (9, 0, '\x01', '\x01', true, 0)$$);
-- History: rows, hashes, positions; of every kind of table.
SELECT * FROM test.found('UPDATE chainify_history.account SET balance = 7 WHERE id = 10');
SELECT * FROM test.found('UPDATE chainify_history.account SET note = $$x$$ WHERE id = 15 AND _block = 3');
SELECT * FROM test.found('UPDATE chainify_history.account SET id = 77 WHERE id = 20');
SELECT * FROM test.found('UPDATE chainify_history.account SET _hash = test.flip(_hash, 8) WHERE id = 10');
SELECT * FROM test.found('UPDATE chainify_history.account SET _tx = 0 WHERE id = 10');
SELECT * FROM test.found('UPDATE chainify_history.account SET _serial = 3 WHERE id = 12 AND _serial = 1');
SELECT * FROM test.found($$UPDATE chainify_history.account SET _op = 'I' WHERE id = 10$$);
SELECT * FROM test.found($$UPDATE chainify_history.account SET _op = 'x' WHERE id = 10$$);
SELECT * FROM test.found('UPDATE chainify_history.account SET _block = 9 WHERE id = 10');
SELECT * FROM test.found('UPDATE chainify_history.account SET _block = 0 WHERE id = 10');
SELECT * FROM test.found('DELETE FROM chainify_history.account WHERE id = 99');
SELECT * FROM test.found('INSERT INTO chainify_history.event SELECT * FROM chainify_history.event WHERE id = 2');
SELECT * FROM test.found('UPDATE chainify_history.event SET note = NULL WHERE id = 2');
SELECT * FROM test.found('DROP TABLE chainify_history.event CASCADE');
SELECT * FROM test.found('ALTER TABLE chainify_history.event DROP COLUMN note CASCADE');

-- Tables: changed, missing and extra rows, also behind the foreign key's back.
SELECT * FROM test.found_in('account', 'UPDATE account SET balance = 1 WHERE id = 10');
SELECT * FROM test.found_in('account', 'DELETE FROM account WHERE id IN (10, 11)');
SELECT * FROM test.found_in('account', $$INSERT INTO account VALUES (500, 77, 5, 'forged')$$);
SELECT * FROM test.found_in('account', 'UPDATE account SET id = 500 WHERE id = 10');
SELECT * FROM test.found_in('owner', $$UPDATE owner SET mood = 'sad'$$);
SELECT * FROM test.found_in('event', $$UPDATE event SET day = '2026-01-06' WHERE id = 2$$);
SELECT * FROM test.found_in('account', 'TRUNCATE account, owner') WHERE finding LIKE '%| state |%';
-- What the ledger keeps about them.
SELECT * FROM test.found_in('account', 'UPDATE chainify_ledger.table_state SET row_count = row_count + 1 WHERE table_id = 2');
SELECT * FROM test.found_in('account', 'UPDATE chainify_ledger.table_state SET lanes = test.flip(lanes, 2047) WHERE table_id = 2');
SELECT * FROM test.found_in('account', 'UPDATE chainify_ledger.table_state SET lanes = test.flip(lanes, 2047) WHERE table_id = 1');
SELECT * FROM test.found_in('account', $$UPDATE chainify_ledger.table_state SET lanes = '\x00' WHERE table_id = 2$$);
SELECT * FROM test.found_in('account', 'DELETE FROM chainify_ledger.table_state WHERE table_id = 2');
SELECT * FROM test.found_in('account', 'UPDATE chainify_ledger.block SET state_root = test.flip(state_root) WHERE number = 3');
SELECT * FROM test.found_in('account', 'UPDATE chainify_ledger.ledger_table SET schema_hash = test.flip(schema_hash) WHERE id = 2');
SELECT * FROM test.found_in('account', 'UPDATE chainify_checkpoint.account SET balance = 5');
SELECT * FROM test.found_in('account', 'UPDATE chainify_checkpoint.account SET id = 500');
SELECT * FROM test.found_in('account', 'UPDATE chainify_history.account SET balance = 5 WHERE id = 20');
-- Definitions and triggers.
SELECT * FROM test.found_in('account', 'ALTER TABLE account DROP CONSTRAINT account_balance_check');
SELECT * FROM test.found_in('account', 'ALTER TABLE account ADD COLUMN extra int');
SELECT * FROM test.found_in('account', 'ALTER TABLE account DROP COLUMN note');
SELECT * FROM test.found_in('account', 'ALTER TABLE account RENAME COLUMN note TO memo');
SELECT * FROM test.found_in('account', 'CREATE UNIQUE INDEX ON account (note, id)');
SELECT * FROM test.found_in('account', 'CREATE TABLE points (to_account int REFERENCES account)');
SELECT * FROM test.found_in('account', 'ALTER TABLE account ENABLE ROW LEVEL SECURITY');
SELECT * FROM test.found_in('account', 'ALTER TABLE account FORCE ROW LEVEL SECURITY');
SELECT * FROM test.found_in('account', 'ALTER TABLE account DISABLE TRIGGER chainify_digest');
SELECT * FROM test.found_in('account', 'ALTER TABLE account ENABLE TRIGGER chainify_truncate');
SELECT * FROM test.found_in('account', 'DROP TRIGGER chainify_digest ON account');
SELECT * FROM test.found_in('account', 'CREATE TRIGGER chainify_x BEFORE DELETE ON account FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
SELECT * FROM test.found_in('event', 'ALTER TABLE event_1 DISABLE TRIGGER ALL');
-- What would change rows, or keep changes from being seen, without touching any of these.
SELECT * FROM test.found_in('account', 'CREATE RULE keep AS ON DELETE TO account DO INSTEAD NOTHING');
SELECT * FROM test.found_in('event', 'CREATE TRIGGER own BEFORE UPDATE ON event_1 FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
SELECT * FROM test.found_in('event', 'ALTER TABLE event_1 SET UNLOGGED');
SELECT * FROM test.found_in('account', 'CREATE TABLE more () INHERITS (account)');
SELECT * FROM test.found_in('account', 'CREATE TABLE above (id int NOT NULL); ALTER TABLE account INHERIT above');
SELECT * FROM test.found_in('account', $$UPDATE pg_trigger SET tgenabled = 'D' WHERE tgrelid = 'account'::regclass AND tgname = 'chainify_digest'$$);
SELECT * FROM test.found_in('account', $$UPDATE pg_trigger SET tgenabled = 'D' WHERE tgrelid = 'account'::regclass AND tgisinternal$$);
SELECT * FROM test.found_in('account', $$UPDATE pg_class SET relhastriggers = false WHERE oid = 'account'::regclass$$);
SELECT * FROM test.found_in('account', $$UPDATE pg_attribute SET attnotnull = false WHERE attrelid = 'account'::regclass AND attname = 'owner'$$);

-- Row hashes.
SELECT h.id, h._hash = chainify.row_hash(a) AS live, h._hash = chainify.row_hash(h) AS history
FROM chainify_history.account h JOIN account a USING (id) WHERE id IN (12, 20, 99) AND _op <> 'D' AND NOT EXISTS (
    SELECT FROM chainify_history.account l WHERE l.id = h.id AND (l._block, l._serial) > (h._block, h._serial)) ORDER BY 1;
SELECT chainify.row_hash(NULL) IS NULL;
SELECT chainify.row_hash(ROW(1, 2));
SELECT chainify.row_hash(c) FROM pg_class c;
-- Columns may have any name, also those that the ledger's own queries use.
CREATE TABLE named (t int, c int, h int, b int, k int, v int, l int, e int, f int, live int, "place" int, PRIMARY KEY (t, k));
GRANT ALL ON named TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.named');
SELECT ok FROM test.run('INSERT INTO named VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)', 'UPDATE named SET c = 7 WHERE t = 1');
SELECT * FROM chainify.verify_table('named');
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT changes FROM chainify_node.fold_history();
SET chainify.guard = off;
UPDATE named SET h = 30 WHERE t = 2;
RESET chainify.guard;
SELECT what, key, expected ->> 'h' AS expected, found ->> 'h' AS found FROM chainify.verify_table('named');
SELECT tbl, key, expected ->> 'h' AS expected, found ->> 'h' AS found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, NULL);
SELECT * FROM chainify.verify_table('named');
