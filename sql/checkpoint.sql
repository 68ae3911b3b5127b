\i sql/setup.sql
-- Checkpoints cost a row when made; folding brings their base forward, whole blocks at a time, and takes over no history that was changed.
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE account (id int PRIMARY KEY, balance numeric, note text, twice numeric GENERATED ALWAYS AS (balance * 2) STORED);
CREATE TABLE event (id int, day date, feeling mood, note text, PRIMARY KEY (feeling, day, id)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 (note text, feeling mood NOT NULL, day date NOT NULL, id int NOT NULL);
ALTER TABLE event ATTACH PARTITION event_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
ALTER TABLE account DROP COLUMN note, ADD COLUMN note text;
INSERT INTO account SELECT i, i FROM generate_series(1, 10) i;
INSERT INTO event VALUES (1, '2026-01-05', 'ok', 'a'), (2, '2026-02-05', 'sad', 'b');
GRANT ALL ON account, event TO alice;
CREATE FUNCTION test.bases() RETURNS TABLE (name text, base_block bigint, holds boolean) LANGUAGE sql AS $$
    SELECT name, base_block, EXISTS (SELECT FROM chainify.verify_table(relation)) IS FALSE FROM chainify_ledger.ledger_table WHERE detached_at IS NULL ORDER BY name $$;
CREATE FUNCTION test.flip(bytes bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT set_byte(bytes, 0, get_byte(bytes, 0) # 1) $$;
RESET client_min_messages;

SELECT * FROM chainify_node.fold_history();
SELECT chainify_node.checkpoint();
-- A change of what is on the ledger makes a checkpoint, with what followed in its block.
SELECT ok, message FROM test.block(test.tx('ATTACH TABLE public.account, public.event', 'admin', 3), test.tx('UPDATE account SET balance = 100 WHERE id = 1'));
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
SELECT * FROM test.bases();
SELECT ok, message FROM test.run($$UPDATE account SET balance = 200 WHERE id = 2$$, 'DELETE FROM account WHERE id = 3', 'INSERT INTO account VALUES (11, 11)',
    'UPDATE account SET id = 104 WHERE id = 4', $$UPDATE event SET feeling = 'sad' WHERE id = 1$$, $$UPDATE event SET day = '2026-02-07' WHERE id = 1$$);
SELECT ok, message FROM test.run('INSERT INTO account VALUES (3, 33)', 'DELETE FROM account WHERE id = 11', $$DELETE FROM event WHERE id = 2$$);
SELECT chainify_node.checkpoint();
SELECT chainify_node.checkpoint();
SELECT ok, message FROM test.run('UPDATE account SET balance = balance + 1');
SELECT chainify_node.checkpoint();
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
-- Three are kept: the base is folded up to the first of them, which is there already.
SELECT * FROM chainify_node.fold_history();
SELECT * FROM chainify_node.fold_history();
SELECT ok, message FROM test.run('UPDATE account SET balance = balance + 1 WHERE id < 4');
SELECT chainify_node.checkpoint();
-- Block by block when it may not fold more at once.
SELECT * FROM chainify_node.fold_history(1);
SELECT * FROM test.bases();
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
SELECT * FROM chainify_node.fold_history(1);
SELECT * FROM chainify_node.fold_history(1);
SELECT * FROM test.bases();
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
SELECT * FROM chainify_checkpoint.account ORDER BY id;
SELECT * FROM chainify_checkpoint.event ORDER BY id;
-- A base that was changed is known to be no checkpoint; so is one whose history was.
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE chainify_checkpoint.account SET balance = 0 WHERE id = 7;
SELECT what, key, expected ->> 'block' AS block, found ->> 'rows' AS rows FROM chainify.verify_table('account') ORDER BY 1, 3;
ROLLBACK;
-- History that does not give its block's effects is not folded.
SELECT chainify_node.checkpoint();
SELECT ok, message FROM test.run('UPDATE account SET balance = balance + 1 WHERE id < 4');
SELECT chainify_node.checkpoint();
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE chainify_history.account SET balance = balance + 1 WHERE _block = 4 AND id = 7;
\set VERBOSITY sqlstate
SELECT * FROM chainify_node.fold_history();
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
DELETE FROM chainify_history.account WHERE _block = 4 AND id = 7;
SELECT * FROM chainify_node.fold_history();
ROLLBACK;
\set VERBOSITY default
SELECT * FROM chainify_node.fold_history();
SELECT * FROM test.bases();
-- A table attached later has a base of its own, one taken off the ledger none.
CREATE TABLE late (id int PRIMARY KEY, name text);
INSERT INTO late VALUES (1, 'x');
GRANT ALL ON late TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.late');
SELECT ok, message FROM test.run($$INSERT INTO late VALUES (2, 'y')$$);
SELECT * FROM test.bases();
SELECT ok, message FROM test.deploy('DETACH TABLE public.event');
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
SELECT * FROM chainify_node.fold_history();
SELECT * FROM test.bases();
-- Every hundredth block is a checkpoint by itself.
DO $$ BEGIN WHILE (SELECT number FROM chainify_node.position()) < 101 LOOP PERFORM test.run('UPDATE late SET name = name || ''.'' WHERE id = 2'); COMMIT; END LOOP; END $$;
SELECT block, tables, rows, is_base FROM chainify.checkpoints ORDER BY block;
SELECT * FROM chainify_node.fold_history();
SELECT * FROM test.bases();
SELECT test.states_hold();
-- Only the node folds and makes them.
SET ROLE alice;
SELECT * FROM chainify_node.fold_history();
SELECT chainify_node.checkpoint();
SELECT count(*) FROM chainify.checkpoints;
RESET ROLE;
