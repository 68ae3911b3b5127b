\i sql/setup.sql
-- The steps of recovery: rows, then blocks executed again from the newest checkpoint that holds, then from an older one; and what is recorded.
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance numeric CHECK (balance >= 0), note text);
CREATE TABLE entry (id uuid PRIMARY KEY, account int NOT NULL REFERENCES account ON DELETE CASCADE, amount numeric);
INSERT INTO account SELECT i, 100 FROM generate_series(1, 20) i;
GRANT ALL ON account, entry TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.account, public.entry');
SELECT ok, sqlstate FROM test.run('UPDATE account SET balance = balance + id', 'SELECT 1/0', 'INSERT INTO entry SELECT chainify.uuid(), 1, 5', 'UPDATE account SET note = ''x'' WHERE id = 3');
SELECT chainify_node.checkpoint();
SELECT ok FROM test.run('UPDATE account SET balance = balance * 2 WHERE id < 10', 'DELETE FROM account WHERE id = 20');
SELECT ok FROM test.run('UPDATE account SET balance = balance - 1000');
SELECT chainify_node.checkpoint();
SELECT ok FROM test.run('UPDATE account SET note = note || ''y'' WHERE id = 3', 'UPDATE account SET balance = 7 WHERE id = 7');
-- A block of which one transaction was quarantined.
DO $$
DECLARE p record;
BEGIN
    SELECT * INTO p FROM chainify_node.position();
    PERFORM chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash,
        test.buffer(ARRAY[test.tx('UPDATE account SET balance = 8 WHERE id = 8'), test.tx('UPDATE account SET balance = 9 WHERE id = 9')]), '{0}');
END $$;
SELECT number, succeeded, tx_count FROM chainify.ledger ORDER BY number;
CREATE TABLE test.before AS SELECT * FROM chainify.ledger;
CREATE FUNCTION test.repair(step text) RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT r.* FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL, step) r $$;
CREATE FUNCTION test.all_is_well() RETURNS boolean LANGUAGE sql AS $$
    SELECT NOT EXISTS (SELECT FROM chainify.verify_table('account')) AND NOT EXISTS (SELECT FROM chainify.verify_table('entry'))
        AND NOT EXISTS (SELECT FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%')
        AND (SELECT array_agg((number, hash, succeeded) ORDER BY number) FROM chainify.ledger) = (SELECT array_agg((number, hash, succeeded) ORDER BY number) FROM test.before) $$;
CREATE FUNCTION test.short(j jsonb) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(j::text, '[0-9a-f]{64}', '…', 'g') $$;
-- Which step cures the damage; all of it is undone.
CREATE FUNCTION test.cures(VARIADIC statements text[]) RETURNS TABLE (step text, tbl text, key jsonb, expected text, found text) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    rows text[];
    how text;
    why text;
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
        SET LOCAL session_replication_role = origin;
        SET LOCAL chainify.guard = on;
        FOREACH how IN ARRAY ARRAY['rows', 'replay', 'rebase'] LOOP
            BEGIN
                rows := rows || (SELECT array_agg(ARRAY[how, r.tbl, r.key::text, test.short(r.expected), test.short(r.found)] ORDER BY r.tbl, r.key) FROM test.repair(how) r);
                IF test.all_is_well() THEN
                    rows := rows || ARRAY[[how, 'all is well', NULL, NULL, NULL]];
                    EXIT;
                END IF;
                rows := rows || ARRAY[[how, 'not all is well', NULL, NULL, NULL]];
            EXCEPTION WHEN SQLSTATE 'CH002' THEN
                GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
                rows := rows || ARRAY[[how, 'CH002', NULL, why, NULL]];
            END;
        END LOOP;
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT rows[i][1], rows[i][2], rows[i][3]::jsonb, rows[i][4], rows[i][5] FROM generate_subscripts(rows, 1) i;
    END;
END
$$;
RESET client_min_messages;

SELECT test.all_is_well();
-- Rows alone: told by base and history.
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 1', 'DELETE FROM account WHERE id = 2');
-- The base or the history alone, tables as certified: history is made anew, and where no checkpoint holds the tables become the base.
SELECT * FROM test.cures('UPDATE chainify_checkpoint.account SET balance = 1 WHERE id = 1');
SELECT * FROM test.cures('INSERT INTO chainify_checkpoint.account VALUES (50, 1)');
SELECT * FROM test.cures('UPDATE chainify_history.account SET balance = 1 WHERE id = 9 AND _block = 6');
SELECT * FROM test.cures('DELETE FROM chainify_history.account WHERE id = 20');
-- Rows and their history: blocks are executed again from the newest checkpoint.
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 9', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 9 AND _block = 6');
-- From an older one, when the newest does not hold.
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 15', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 15 AND _block = 2');
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 5', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 5 AND _block = 3',
    'UPDATE entry SET amount = 6', 'UPDATE chainify_ledger.table_state SET row_count = 0', 'ALTER TABLE entry DISABLE TRIGGER chainify_digest');
SELECT * FROM test.cures('TRUNCATE account, entry, chainify_history.account, chainify_history.entry');
-- Nothing helps: base, history and rows; a transaction that the ledger keeps; a header.
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 15', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 15',
    'UPDATE chainify_checkpoint.account SET balance = 1 WHERE id = 15');
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 9', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 9',
    'UPDATE chainify_ledger.transaction SET body = substr(body, 1, 10) WHERE block = 2');
SELECT * FROM test.cures('UPDATE account SET balance = 1 WHERE id = 9', 'UPDATE chainify_history.account SET balance = 1 WHERE id = 9 AND _block > 2',
    'UPDATE chainify_ledger.block SET block_time = block_time + 1 WHERE number = 4');
SELECT test.all_is_well();

-- Recorded: since when, how many, cured by what.
SELECT findings FROM chainify_node.scrub('account');
SELECT ok FROM test.run('SELECT 1');
INSERT INTO test.before SELECT * FROM chainify.ledger WHERE number = 7;
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE account SET balance = 1 WHERE id IN (3, 9);
UPDATE chainify_history.account SET balance = 1 WHERE id IN (3, 9);
RESET session_replication_role;
RESET chainify.guard;
SELECT findings > 0 AS found FROM chainify_node.scrub('account');
SELECT deviates FROM chainify_node.position();
\set VERBOSITY sqlstate
SELECT * FROM test.repair('rows');
\set VERBOSITY default
SELECT * FROM test.repair('replay');
SELECT block, since_block, found_by, tbl, key, expected, found, rows_total, cured_by FROM chainify.deviations ORDER BY id, tbl, key;
SELECT deviates FROM chainify_node.position();
SELECT test.all_is_well();
SELECT ok FROM test.run('UPDATE account SET balance = balance + 1');
SELECT test.states_hold();
-- History that later changes hide: the rows come out right, and folding does not get past it. The record is the maintenance worker's.
SET chainify.guard = off;
UPDATE chainify_history.account SET balance = 1 WHERE id = 5 AND _block = 2;
WITH d AS (INSERT INTO chainify_ledger.deviation (block, rows_total, found_by) SELECT max(number), 1, 'scrubber' FROM chainify.ledger RETURNING id)
INSERT INTO chainify_ledger.deviation_row (deviation, tbl, found) SELECT id, 'chainify_history', '"history of block 2 was changed"' FROM d;
RESET chainify.guard;
SELECT what FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%' ORDER BY what;
\set VERBOSITY sqlstate
SELECT * FROM test.repair('rows');
\set VERBOSITY default
SELECT * FROM test.repair('replay');
SELECT what FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%' ORDER BY what;
SELECT found_by, cured_by FROM chainify.deviations ORDER BY id DESC LIMIT 1;
SELECT deviates FROM chainify_node.position();
SELECT test.states_hold();
-- The same, but put back by an operator before recovery comes: what was noted counts no more, and the rows come from the own history.
SET chainify.guard = off;
UPDATE chainify_ledger.block SET state_root = set_byte(state_root, 0, get_byte(state_root, 0) # 1) WHERE number = 3;
WITH d AS (INSERT INTO chainify_ledger.deviation (block, rows_total, found_by) SELECT max(number), 1, 'scrubber' FROM chainify.ledger RETURNING id)
INSERT INTO chainify_ledger.deviation_row (deviation, tbl, found) SELECT id, 'chainify_history', '"history of block 3 was changed"' FROM d;
SET session_replication_role = replica;
UPDATE account SET balance = 1 WHERE id = 5;
RESET session_replication_role;
\set VERBOSITY sqlstate
SELECT * FROM test.repair('rows');
\set VERBOSITY default
UPDATE chainify_ledger.block SET state_root = set_byte(state_root, 0, get_byte(state_root, 0) # 1) WHERE number = 3;
RESET chainify.guard;
SELECT * FROM test.repair('rows');
SELECT found_by, cured_by FROM chainify.deviations ORDER BY id DESC LIMIT 1;
SELECT test.states_hold(), NOT EXISTS (SELECT FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%') AS verifies;
-- History that the base of its table has left behind, and that of others has not: nothing is told from it, so rows are cured all the same.
SET chainify.guard = off;
UPDATE chainify_history.account SET balance = balance + 1 WHERE id = 5;
UPDATE chainify_checkpoint.account SET balance = balance + 1 WHERE id = 5;
SELECT tbl FROM test.repair('rebase');
SELECT name, base_block = (SELECT max(number) FROM chainify.ledger) AS newest FROM chainify_ledger.ledger_table WHERE detached_at IS NULL ORDER BY name;
WITH d AS (INSERT INTO chainify_ledger.deviation (block, rows_total, found_by) SELECT max(number), 1, 'scrubber' FROM chainify.ledger RETURNING id)
INSERT INTO chainify_ledger.deviation_row (deviation, tbl, found) SELECT id, 'chainify_history', '"history of block 2 was changed"' FROM d;
SET session_replication_role = replica;
UPDATE account SET balance = 1 WHERE id = 9;
RESET session_replication_role;
RESET chainify.guard;
SELECT tbl, key FROM test.repair('rows');
SELECT found_by, cured_by FROM chainify.deviations ORDER BY id DESC LIMIT 1;
SELECT test.states_hold();
-- Folding stops there, which is no deviation: the worker has such blocks told anew. It folds before it reads the past.
CREATE FUNCTION test.until(condition text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    holds boolean;
BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXECUTE 'SELECT ' || condition INTO holds;
        EXIT WHEN holds;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN holds;
END
$$;
SET chainify.guard = off;
DELETE FROM chainify_ledger.checkpoint WHERE block < (SELECT max(number) FROM chainify.ledger);
RESET chainify.guard;
\set VERBOSITY sqlstate
SELECT * FROM chainify_node.fold_history();
\set VERBOSITY default
SELECT pg_advisory_lock(x'63686679'::int, 1), chainify_ledger.maintain() AS started;
SELECT test.until('EXISTS (SELECT FROM chainify_ledger.false_block)') AS told_anew;
SELECT deviates FROM chainify_node.position();
SELECT pg_advisory_unlock(x'63686679'::int, 1);
SELECT test.until($$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'chainify maintenance')$$) AS ended;
SELECT * FROM test.repair('prayer');
-- The node ended between the block and the record of what cured it: the next start closes the record, but not that of a block to come.
INSERT INTO chainify_ledger.deviation (block, found_by) SELECT p.number + after, 'block' FROM chainify_node.position() p, (VALUES (0), (1)) v (after);
SELECT chainify_node.init('testchain', 'acme');
SELECT cured_by, count(*) FROM chainify.deviations GROUP BY 1 HAVING cured_by = 'unrecorded' OR cured_by IS NULL ORDER BY 1;
