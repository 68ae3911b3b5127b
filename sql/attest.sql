\i sql/setup.sql
-- A row through time: history and as_of, before and after the base is folded; who may ask for receipts, and what is refused.
-- That receipts hold, and what verify(digest) says of every change, is tested where votes can be signed (abci/backend/postgres).
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN short AS text CHECK (length(value) < 5);
CREATE TABLE account (id int PRIMARY KEY, balance numeric, feeling mood);
CREATE TABLE "Odd one" ("the key" short, "select" char(4), "v'" int, PRIMARY KEY ("select", "the key"));
INSERT INTO account VALUES (1, 100, 'ok'), (2, 200, NULL), (3, 300, 'sad');
GRANT ALL ON account, "Odd one" TO alice;
GRANT ALL ON SCHEMA public TO admin;
ALTER TABLE account OWNER TO admin;
SET timezone = 'UTC';
SET datestyle = 'ISO';
-- All rows at the end of each block so far, or why they cannot be told.
CREATE FUNCTION test.through_time() RETURNS TABLE (block bigint, rows text) LANGUAGE plpgsql AS $$
DECLARE
    said text;
BEGIN
    FOR block IN SELECT generate_series(0, (SELECT p.number + 1 FROM chainify_node.position() p)) LOOP
        BEGIN
            SELECT string_agg(concat_ws(' ', a.id, a.balance, a.feeling), ', ' ORDER BY a.id) INTO rows FROM chainify.as_of(NULL::account, block) a;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
            rows := concat_ws(' | ', SQLSTATE, SQLERRM, nullif(said, ''));
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
RESET client_min_messages;

SELECT ok FROM test.deploy('ATTACH TABLE public.account, public."Odd one"');
SELECT ok FROM test.run('UPDATE account SET balance = 101 WHERE id = 1', 'INSERT INTO account VALUES (4, 400)', 'SELECT 1/0', 'UPDATE account SET balance = 102 WHERE id = 1');
SELECT ok FROM test.run('DELETE FROM account WHERE id = 2', 'INSERT INTO account VALUES (5, 500)');
SELECT ok FROM test.run('DELETE FROM account WHERE id IN (4, 5)', $$INSERT INTO "Odd one" VALUES ('k', 's', 1)$$);
SELECT ok FROM test.run('INSERT INTO account VALUES (4, 404)', $$UPDATE "Odd one" SET "v'" = 2$$);
SELECT * FROM test.through_time();
SELECT block, tx, op, "row", block_time, organisation, role, transaction = (SELECT t.id FROM chainify.transactions t WHERE (t.block, t.index) = (h.block, h.tx)) AS id
FROM chainify.history('account', 1) h;
SELECT block, tx, op, "row" FROM chainify.history('account', '4');
SELECT block, tx, op, "row" FROM chainify.history('account', 3);
SELECT block, tx, op, "row" FROM chainify.history('"Odd one"', 's', 'k');
-- The base is at block 5; earlier blocks are told by the history, but for what was there at attachment and updated before.
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT ok FROM test.run('UPDATE account SET balance = 301 WHERE id = 3');
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT ok FROM test.run('UPDATE account SET balance = 405 WHERE id = 4');
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT * FROM chainify_node.fold_history();
SELECT name, base_block FROM chainify_ledger.ledger_table ORDER BY name;
SELECT * FROM test.through_time();
SELECT count(*) FROM chainify.history('account', 4);
-- Another definition: earlier versions are in the history alone.
SELECT ok, message FROM test.deploy('ALTER TABLE public.account ADD COLUMN note text DEFAULT ''n''');
SELECT ok FROM test.run('UPDATE account SET note = ''m'' WHERE id = 4');
SELECT * FROM chainify.as_of(NULL::account, 8) ORDER BY id;
SELECT * FROM chainify.as_of(NULL::account, 9) ORDER BY id;
SELECT * FROM chainify.as_of(NULL::account, 7);
SELECT block, op, "row" FROM chainify.history('account', 4);
-- The ledger view follows its table: other columns, another name, a name that another history takes.
SELECT id, balance, feeling, note, _block, _tx, _serial, _operation, length(_transaction) AS _transaction, _organisation, _role, _block_time
FROM chainify_history.account_ledger WHERE id = 4 ORDER BY _block, _serial;
SELECT ok, message FROM test.deploy('ALTER TABLE public.account RENAME COLUMN note TO memo; ALTER TABLE public.account DROP COLUMN feeling; ALTER TABLE public.account RENAME TO konto');
GRANT ALL ON konto TO alice;
SELECT ok, message FROM test.run('DELETE FROM konto WHERE id = 4');
SET ROLE chainify_reader;
SELECT id, memo, _block, _operation FROM chainify_history.konto_ledger WHERE id = 4 ORDER BY _block, _serial;
RESET ROLE;
SELECT ok, message FROM test.deploy('CREATE TABLE public.konto_ledger (id int PRIMARY KEY)');
SELECT relname, relkind FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1;
SELECT ok, message FROM test.deploy('DROP TABLE public.konto_ledger');
SELECT ok, message FROM test.deploy('ALTER TABLE public.konto RENAME TO account');
SELECT relname, relkind FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1;
SELECT test.all_well();
-- Refused.
SELECT chainify.history('account');
SELECT chainify.history('account', 1, 2);
SELECT chainify.history('account', NULL::int);
SELECT chainify.history('account', 'x');
SELECT chainify.history('pg_class', 1);
SELECT chainify.as_of(NULL::pg_class, 1);
SELECT chainify.as_of(1, 1);
SELECT chainify.receipt('\x00'::bytea);
SELECT chainify.receipt('account', 77);
SELECT chainify.receipt('account', 4);
SELECT chainify.receipt((SELECT id FROM chainify.transactions WHERE block = 2 AND index = 0));
SELECT chainify.digest();
SELECT chainify.digest(2);
SELECT chainify.digest(99);
SELECT chainify.verify('{}');
SELECT chainify.verify('{"chainify_receipt": 2}');
SELECT chainify.verify('{"chainify_receipt": 1, "chain_id": "x", "block": {"number": "1"}, "certificate": {"effect_round": 0, "votes": []}}');
SET ROLE alice;
SELECT chainify.history('account', 1);
SELECT chainify.as_of(NULL::account, 1);
SELECT chainify.receipt('account', 1);
SELECT chainify.receipt('\x00'::bytea);
SELECT chainify.digest();
SELECT chainify.verify('{}');
RESET ROLE;
