\i sql/setup.sql
-- Rows from another organisation: what it tells of a block, and taking that over when checkpoint and history are lost as well.
-- This database is both: what it tells is kept before it is damaged.
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TABLE account (id int PRIMARY KEY, balance numeric, note text);
CREATE TABLE item (b text, a int, PRIMARY KEY (a, b), mood mood, pair pair, list text[], ratio float8, at timestamptz, span interval,
    raw bytea, doc json, docb jsonb, size small, name varchar(5), code char(4), twice int GENERATED ALWAYS AS (a * 2) STORED, during int4range);
INSERT INTO account SELECT i, i * 1.10, NULL FROM generate_series(1, 200) i;
INSERT INTO item (a, b, mood, pair, list, ratio, at, span, raw, doc, docb, size, name, code, during) VALUES
    (1, 'x', 'ok', (1, NULL), '{a,NULL,"b c"}', 0.1, '2026-01-01 12:00+02', '1 mon 2 days 03:04:05.6', '\x00ff', '{ "b":1, "a" : 2 }', '[1.50]', 7, 'abc', 'ab', '[1,5)'),
    (2, E'y\n"''\\', NULL, NULL, '{}', 'NaN', 'infinity', NULL, '', 'null', 'null', NULL, '', '', 'empty'),
    (3, '', 'sad', (NULL, NULL), NULL, '-Infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
GRANT ALL ON account, item TO alice;
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.account, public.item');
SELECT ok FROM test.run('UPDATE account SET balance = 0 WHERE id <= 3', 'INSERT INTO account VALUES (300, 1, NULL)');
SELECT ok FROM test.run('UPDATE account SET balance = 5 WHERE id <= 2', 'DELETE FROM account WHERE id = 4');

-- What is told: the same of a block while it is the last one and later.
CREATE TABLE test.told AS SELECT p.number, p.hash, t.* FROM chainify_node.position() p, chainify_node.state_tables(p.number, p.hash) t;
CREATE TABLE test.ranges AS SELECT t.tbl, r.* FROM test.told t, chainify_node.state_ranges(t.number, t.tbl, 0, '{0}', 4) r;
CREATE TABLE test.rows AS SELECT t.tbl, r.* FROM test.told t, chainify_node.state_rows(t.number, t.tbl, 0, '{0}') r;
SELECT tbl, rows FROM test.told ORDER BY tbl;
SELECT tbl, count(*), sum(rows) FROM test.ranges GROUP BY 1 ORDER BY 1;
SELECT tbl, count(*) FROM test.rows GROUP BY 1 ORDER BY 1;
SELECT ok FROM test.run('UPDATE account SET balance = 9 WHERE id <= 20', 'DELETE FROM account WHERE id = 300', 'INSERT INTO account VALUES (4, 4, NULL)');
SELECT t.tbl FROM test.told t LEFT JOIN chainify_node.state_tables(3, (SELECT hash FROM chainify.ledger WHERE number = 3)) n USING (tbl, rows, state)
    WHERE n.tbl IS NULL;
(SELECT 'public.account', r.* FROM chainify_node.state_ranges(3, 'public.account', 0, '{0}', 4) r EXCEPT TABLE test.ranges)
    UNION ALL (SELECT * FROM test.ranges WHERE tbl = 'public.account' EXCEPT SELECT 'public.account', r.* FROM chainify_node.state_ranges(3, 'public.account', 0, '{0}', 4) r);
-- Ranges within ranges are those of the whole.
SELECT count(*) > 0 AS some, bool_and(range >> 4 IN (3, 9)) AS within, bool_and(row IN (SELECT f FROM chainify_node.state_ranges(4, 'public.account', 0, '{0}', 8) f)) AS same
    FROM chainify_node.state_ranges(4, 'public.account', 4, '{3,9}', 8) row;
\set VERBOSITY default
SELECT chainify_node.state_tables(3, '\x00');
SELECT chainify_node.state_tables(9, '\x00');
SELECT chainify_node.state_ranges(4, 'public.account', 0, '{0}', 17);
SELECT chainify_node.state_ranges(4, 'public.account', 2, '{1,1}', 4);
SELECT chainify_node.state_ranges(4, 'public.account', 2, '{4}', 4);
SELECT chainify_node.state_ranges(4, 'public.account', 4, '{0}', 2);
SELECT chainify_node.state_ranges(4, 'public.other', 0, '{0}', 2);
SET ROLE alice;
SELECT chainify_node.state_rows(4, 'public.account', 0, '{0}');
SELECT chainify_node.stage_rows('public.account', '\x00000000');
RESET ROLE;

-- Taking over. Damage comes to rows, history and base, so that nothing else helps.
TRUNCATE test.told, test.ranges, test.rows;
INSERT INTO test.told SELECT p.number, p.hash, t.* FROM chainify_node.position() p, chainify_node.state_tables(p.number, p.hash) t;
INSERT INTO test.ranges SELECT t.tbl, r.* FROM test.told t, chainify_node.state_ranges(t.number, t.tbl, 0, '{0}', 4) r;
CREATE FUNCTION test.framed(rows bytea[]) RETURNS bytea LANGUAGE sql AS $$
    SELECT int4send(coalesce(cardinality(rows), 0)) || coalesce(string_agg(int4send(length(r)) || r, ''), '') FROM unnest(rows) r $$;
-- Asks this database as it was for the ranges that differ now.
CREATE TABLE test.kept AS SELECT t.tbl, r.* FROM test.told t, chainify_node.state_rows(t.number, t.tbl, 4, ARRAY(SELECT generate_series(0, 15))) r;
CREATE FUNCTION test.restore(spoil bytea DEFAULT NULL) RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE plpgsql AS $$
DECLARE
    t record;
    wrong int[];
    tables jsonb = '[]';
BEGIN
    FOR t IN TABLE test.told LOOP
        SELECT coalesce(array_agg(range ORDER BY range), '{}') INTO wrong FROM (
            SELECT coalesce(a.range, b.range) AS range FROM (SELECT * FROM test.ranges r WHERE r.tbl = t.tbl) a
            FULL JOIN chainify_node.state_ranges(t.number, t.tbl, 0, '{0}', 4) b USING (range)
            WHERE (a.rows, a.digest) IS DISTINCT FROM (b.rows, b.digest)) d;
        PERFORM chainify_node.stage_rows(t.tbl, test.framed(ARRAY(SELECT k.cells FROM test.kept k WHERE k.tbl = t.tbl AND range = ANY (wrong))));
        tables = tables || jsonb_build_object('name', t.tbl, 'state', encode(t.state, 'hex'), 'bits', 4, 'ranges', wrong);
    END LOOP;
    IF spoil IS NOT NULL THEN
        PERFORM chainify_node.stage_rows('public.account', test.framed(ARRAY[spoil]));
    END IF;
    RETURN QUERY SELECT r.* FROM chainify_node.position() p, chainify_node.restore(p.number, p.hash, p.number + 1, '\xff', tables) r;
END
$$;
CREATE FUNCTION test.short(j jsonb) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(j::text, '[0-9a-f]{64}', '…', 'g') $$;
BEGIN;
SELECT * FROM test.restore();
COMMIT;
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE account SET balance = 1000 WHERE id = 7;
DELETE FROM account WHERE id IN (8, 9);
INSERT INTO account VALUES (999, 1, 'new');
UPDATE item SET doc = '{}', pair = NULL, ratio = 1, name = 'zzz', mood = NULL WHERE a < 3;
DELETE FROM item WHERE a = 3;
UPDATE chainify_history.account SET balance = 77 WHERE id = 1;
UPDATE chainify_checkpoint.account SET balance = 77 WHERE id = 100;
UPDATE chainify_checkpoint.item SET ratio = 3;
RESET session_replication_role;
RESET chainify.guard;
SELECT chainify_node.repair(p.number, p.hash, p.number + 1, NULL) FROM chainify_node.position() p;
SELECT chainify_node.repair(p.number, p.hash, p.number + 1, NULL, 'replay') FROM chainify_node.position() p;
SELECT chainify_node.repair(p.number, p.hash, p.number + 1, NULL, 'rebase') FROM chainify_node.position() p;
-- A row too many, a state that is not the certified one, a table left out: nothing changes.
BEGIN;
SELECT test.restore((SELECT cells FROM test.kept WHERE tbl = 'public.account' ORDER BY cells LIMIT 1));
ROLLBACK;
BEGIN;
SELECT chainify_node.restore(p.number, p.hash, p.number + 1, NULL, '[]') FROM chainify_node.position() p;
ROLLBACK;
BEGIN;
SELECT chainify_node.restore(p.number, p.hash, p.number + 1, NULL, '[{"name": "public.account"}]') FROM chainify_node.position() p;
ROLLBACK;
BEGIN;
SELECT chainify_node.stage_rows('public.account', '\x0000000100000003000100');
ROLLBACK;
SELECT count(*), sum(balance) FROM account WHERE id IN (7, 8, 9, 999);
BEGIN;
SELECT tbl, key, test.short(expected), test.short(found) FROM test.restore();
COMMIT;
SELECT t.name, v.what FROM chainify.tables t, chainify.verify_table(t.name::regclass) v;
SELECT tbl, count(*) FROM chainify.deviations WHERE cured_by IS NULL GROUP BY 1 ORDER BY 1;
SELECT * FROM item ORDER BY a;
SELECT ok FROM test.run('UPDATE account SET balance = balance + 1', 'UPDATE item SET size = 9');
SELECT test.states_hold();
-- What a record closed says: the step that helped.
SELECT chainify_node.record_deviation(5, '\x01', '\xff', 'state', '1 s');
SELECT DISTINCT cured_by FROM chainify.deviations;
