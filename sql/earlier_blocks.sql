\i sql/setup.sql
-- Blocks that no checkpoint needs any more: the scrubber reads them again, another organisation tells those that are not kept as agreed.
-- This database is both: what it tells is kept before it is damaged.
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE account (id int PRIMARY KEY, balance numeric, note text);
CREATE TABLE item (b text, a int, PRIMARY KEY (a, b), mood mood, list text[], ratio float8, at timestamptz, raw bytea, docb jsonb, twice int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO account SELECT i, i * 1.10, NULL FROM generate_series(1, 20) i;
GRANT ALL ON account, item TO alice;
ALTER TABLE account OWNER TO admin;
SELECT ok FROM test.deploy('ATTACH TABLE public.account, public.item');
SELECT ok FROM test.run('UPDATE account SET balance = 0 WHERE id <= 3', 'INSERT INTO account VALUES (300, 1, NULL)',
    $$INSERT INTO item (a, b, mood, list, ratio, at, raw, docb) VALUES (1, 'x', 'ok', '{a,NULL,"b c"}', 0.1, '2026-01-01 12:00+02', '\x00ff', '[1.50]'), (2, E'y\n"''\\', NULL, NULL, 'NaN', 'infinity', '', 'null')$$);
SELECT ok, sqlstate FROM test.run('UPDATE account SET balance = 5 WHERE id <= 2', 'UPDATE account SET balance = 1 / (id - 3)', 'DELETE FROM account WHERE id = 4');
SELECT ok, message FROM test.deploy('ALTER TABLE account RENAME note TO remark; ALTER TABLE account ADD COLUMN more int');
SELECT ok FROM test.run('UPDATE account SET more = 1, remark = ''r'' WHERE id = 1');
-- Another version of the table, whose history keeps a column for every ordinal.
SELECT ok FROM test.deploy('ALTER TABLE account DROP COLUMN more');
SELECT ok FROM test.run('UPDATE account SET remark = ''s'' WHERE id = 2');
SELECT ok FROM test.run('UPDATE account SET balance = 1 WHERE id = 20');
SELECT * FROM chainify_node.checkpoint();
DO $$ BEGIN
    UPDATE chainify_ledger.ledger_table SET base_block = 7 WHERE detached_at IS NULL; -- as folding leaves it; the base itself does not matter here
END $$;
CREATE TABLE test.kept AS SELECT l.number, l.hash, p.* FROM chainify.ledger l, chainify_node.block_parts(l.number, l.hash) p;
CREATE TABLE test.bodies AS SELECT block, int4send(count(*)::int) || string_agg(int4send(length(body)) || body, '' ORDER BY index) AS bytes
    FROM chainify_ledger.transaction GROUP BY 1;
SELECT number, count(*) - 1 AS changes FROM test.kept GROUP BY 1 ORDER BY 1;
SELECT * FROM chainify_node.block_parts(2, '\x00');
-- Nothing is wrong yet: a pass, its end, and none before it is due.
SELECT * FROM chainify_node.audit(1);
SELECT * FROM chainify_node.audit();
SELECT * FROM chainify_node.audit();
SELECT block, at IS NOT NULL FROM chainify_ledger.audited;
SELECT * FROM chainify_node.audit();

-- Everything that can be wrong with a block.
SET chainify.guard = off;
UPDATE chainify_history.account SET balance = 77 WHERE _block = 2 AND id = 1;
DELETE FROM chainify_history.item WHERE _block = 2 AND a = 1;
UPDATE chainify_ledger.transaction SET body = '\x00' WHERE block = 3 AND index = 0;
DELETE FROM chainify_ledger.transaction WHERE block = 3 AND index = 1;
UPDATE chainify_ledger.block SET state_root = sha256(state_root) WHERE number = 5;
UPDATE chainify_history.account SET remark = 'other' WHERE _block = 5;
DELETE FROM chainify_ledger.block WHERE number IN (6, 7);
DELETE FROM chainify_history.account WHERE _block = 7;
RESET chainify.guard;
DELETE FROM chainify_ledger.transaction WHERE block = 7;
UPDATE chainify_ledger.audited SET at = NULL;
SELECT * FROM chainify_node.audit();
SELECT * FROM chainify_node.audit();
SELECT number, split_part(what, ':', 1) AS what FROM chainify_ledger.false_block ORDER BY 1;
SELECT number, false_blocks FROM chainify_node.position();

CREATE FUNCTION test.restore(n bigint, spoil boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM chainify_node.stage_changes(n, int4send(count(*)::int) || coalesce(string_agg(int4send(length(part)) || part, ''), ''))
        FROM test.kept WHERE number = n AND place > spoil::int;
    PERFORM chainify_node.restore_block(n, k.hash, k.part, b.bytes) FROM test.kept k JOIN test.bodies b ON b.block = n WHERE k.number = n AND place = 0;
END
$$;
\set VERBOSITY default
-- A change too few, another block's header, other transactions, what is none: nothing changes.
SELECT test.restore(2, true);
SELECT chainify_node.restore_block(2, k.hash, k.part, b.bytes) FROM test.kept k JOIN test.bodies b ON b.block = 2 WHERE k.number = 3 AND place = 0;
SELECT chainify_node.restore_block(2, k.hash, k.part, '\x00000000') FROM test.kept k WHERE k.number = 2 AND place = 0;
SELECT chainify_node.stage_changes(2, '\x00000001000000020000');
SELECT chainify_node.stage_changes(2, int4send(1) || int4send(length(part)) || part) FROM (SELECT int4send(7) || 'pg_type'::bytea || int4send(0) || int4send(0) || 'U'::bytea || int4send(0) || '\x0000' AS part) p;
SET ROLE alice;
SELECT chainify_node.restore_block(2, '\x00', '\x00', '\x00');
RESET ROLE;
SELECT count(*) FROM chainify.verify_ledger(2, 2);
SELECT test.restore(n) FROM (VALUES (2), (3), (5), (6), (7)) v (n);
SELECT number FROM chainify_ledger.false_block;
SELECT block, what FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%';
SELECT block, index, outcome, rows, sqlstate FROM chainify.transactions WHERE block = 3;
SELECT block, found_by, tbl, split_part(found #>> '{}', ':', 1) AS found, cured_by, took > '0 s' AS took FROM chainify.deviations ORDER BY id;
SELECT ok FROM test.run('UPDATE account SET balance = balance + 1');
SELECT test.states_hold();
