-- Transactions that share a subtransaction (transaction/groups.rs) have the outcomes and the LedgerBlock that each has in its own (X1, X2).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE item (id int PRIMARY KEY, n int CHECK (n >= 0), note text, u uuid);
CREATE TABLE part (id int PRIMARY KEY, item int REFERENCES item);
GRANT ALL ON item, part TO alice;
GRANT SELECT ON item TO admin;
INSERT INTO item SELECT i, i FROM generate_series(1, 50) i;
CREATE FUNCTION tried(who int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE item SET n = n - 100 WHERE id = who;
    RETURN true;
EXCEPTION WHEN check_violation THEN
    UPDATE item SET n = n + 100 WHERE id = who;
    RETURN false;
END
$$;
SELECT * FROM test.deploy('ATTACH TABLE public.item, public.part');

-- Runs the transactions in one block with groups as large as may be, and without, and undoes both; what differs is shown.
CREATE FUNCTION test.once(after int, txs bytea[], quarantined int[]) RETURNS TABLE (hash bytea, outcome text[]) LANGUAGE plpgsql AS $$
DECLARE
    p record;
    r record;
BEGIN
    PERFORM set_config('chainify.group_after', after::text, true);
    SELECT * INTO p FROM chainify_node.position();
    BEGIN
        SELECT * INTO r FROM chainify_node.execute_block(p.number + 1, 1, 1700000000000000, p.hash, test.buffer(txs), quarantined);
        hash := r.hash;
        outcome := ARRAY(SELECT concat_ws(' ', r.rows[i], r.sqlstates[i], r.messages[i]) FROM generate_series(1, cardinality(txs)) i);
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    RETURN NEXT;
END
$$;
CREATE FUNCTION test.same(txs bytea[], quarantined int[] DEFAULT '{}') RETURNS TABLE (failed bigint, differs text) LANGUAGE plpgsql AS $$
DECLARE
    a record;
    b record;
BEGIN
    SELECT * INTO a FROM test.once(0, txs, quarantined);
    SELECT * INTO b FROM test.once(-1, txs, quarantined);
    failed := (SELECT count(*) FROM unnest(b.outcome) o WHERE o ~ '^0 [0-9A-Z]{5}');
    differs := (SELECT string_agg(format('%s: %s, alone %s', i, a.outcome[i], b.outcome[i]), '; ') FROM generate_subscripts(txs, 1) i WHERE a.outcome[i] IS DISTINCT FROM b.outcome[i]);
    IF a.hash IS DISTINCT FROM b.hash THEN
        differs := concat_ws('; ', 'LedgerBlockHash', differs);
    END IF;
    RETURN NEXT;
END
$$;
-- Statement `s` with {i} as the position, every so often another one.
CREATE FUNCTION test.mixed(count int, s text, every int, other text) RETURNS bytea[] LANGUAGE sql AS $$
    SELECT array_agg(test.tx(replace(CASE WHEN i % every = every - 1 THEN other ELSE s END, '{i}', i::text), nonce => i) ORDER BY i) FROM generate_series(1, count) i
$$;

-- none fails, and several failures in each place of a group
SELECT * FROM test.same(test.mixed(100, 'UPDATE item SET n = n + {i} WHERE id = {i} % 50 + 1', 1000, ''));
SELECT f.* FROM generate_series(2, 40) every, test.same(test.mixed(100, 'UPDATE item SET n = n + {i} WHERE id = {i} % 50 + 1', every, 'INSERT INTO item VALUES ({i}, 1); INSERT INTO item VALUES (1, 1)')) f;
-- all kinds of failure: constraints, syntax, refusals, a literal of another type, division, a role, what a function catches
SELECT s, f.* FROM unnest(ARRAY['UPDATE item SET n = -1 WHERE id = 7', 'INSERT INTO part VALUES ({i}, 999)', 'SELEC 1', 'SELECT clock_timestamp()', 'SELECT * FROM pg_class',
    'UPDATE item SET n = ''x'' WHERE id = 1', 'UPDATE item SET n = ''5'' WHERE id = 1', 'SELECT 1 / (n - n) FROM item', 'SELECT tried({i} % 50 + 1)', 'TRUNCATE item CASCADE', 'TRUNCATE part; INSERT INTO part VALUES ({i}, 1)',
    'UPDATE item SET note = random()::text || now() || chainify.uuid() WHERE id = {i} % 50 + 1', 'SELECT set_config(''work_mem'', ''1MB'', false)']) s,
    test.same(test.mixed(80, 'UPDATE item SET n = n + {i}, u = chainify.uuid(), note = random()::text WHERE id = {i} % 50 + 1', 5, s)) f;
SELECT * FROM test.same(test.mixed(40, 'UPDATE item SET n = n + 1 WHERE id = {i}', 99, '') || test.tx('SELECT 1', 'stranger', nonce => 900) || test.tx('UPDATE item SET n = 1', 'admin', nonce => 901)
    || test.tx('SELECT id FROM item ORDER BY id', 'admin', nonce => 902) || test.mixed(40, 'DELETE FROM item WHERE id = {i}', 99, ''));
SELECT * FROM test.same(test.mixed(60, 'UPDATE item SET n = n + 1 WHERE id = {i}', 9, 'SELECT 1 / 0'), ARRAY[0, 8, 30, 31, 32, 59]);
-- also where no failure breaks the group up
SELECT * FROM test.same(test.mixed(60, 'UPDATE item SET n = n + 1 WHERE id = {i}', 99, ''), ARRAY[0, 8, 30, 31, 32, 59]);
SELECT * FROM test.same(test.mixed(20, 'UPDATE item SET n = n + 1 WHERE id = {i}', 99, '') || test.tx('DETACH TABLE public.part', 'admin', 3, nonce => 900)
    || test.mixed(20, 'INSERT INTO part VALUES ({i}, {i})', 99, '') || test.tx('ATTACH TABLE public.part', 'admin', 3, nonce => 901) || test.mixed(20, 'UPDATE item SET n = n + 2 WHERE id = {i}', 99, ''));
-- nothing left of a group that failed
SET chainify.group_after = 0;
SELECT count(*), sum(ok::int), min(sqlstate) FROM test.block(VARIADIC test.mixed(64, 'INSERT INTO part VALUES ({i}, 1)', 17, 'INSERT INTO part VALUES ({i} + 1000, 1); SELECT 1 / 0'));
SELECT count(*), max(id) FROM part;
SELECT test.states_hold();
SELECT * FROM chainify.verify_ledger() WHERE what <> 'certificate missing';
RESET chainify.group_after;
SHOW chainify.group_after;
