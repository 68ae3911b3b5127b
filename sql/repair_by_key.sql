\i sql/setup.sql
-- A block whose certified hash is known: the rows that it changes are put right first when that gives the hash, without a scan (R8).
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL CHECK (balance >= 0), note text);
CREATE TABLE seat (day date, "No" text, taken_by int REFERENCES account ON DELETE CASCADE, PRIMARY KEY ("No", day));
CREATE TYPE colour AS ENUM ('red', 'blue');
CREATE TABLE paint (c colour PRIMARY KEY, litres int);
INSERT INTO account SELECT i, 100, 'n' || i FROM generate_series(1, 20) i;
INSERT INTO seat VALUES ('2026-01-01', 'A 1', 1), ('2026-01-02', E'B\'"\\', NULL);
INSERT INTO paint VALUES ('red', 1), ('blue', 2);
GRANT ALL ON account, seat, paint TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.account, public.seat, public.paint');
SELECT ok FROM test.run('UPDATE account SET balance = balance + 1 WHERE id < 4', 'DELETE FROM account WHERE id = 20');
-- What the next block of these transactions is everywhere else.
CREATE FUNCTION test.certify(VARIADIC txs bytea[]) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    hash bytea;
BEGIN
    hash := test.hash_of(VARIADIC txs);
    RAISE EXCEPTION USING MESSAGE = encode(hash, 'hex'), ERRCODE = 'UUUUU';
EXCEPTION WHEN SQLSTATE 'UUUUU' THEN
    RETURN decode(SQLERRM, 'hex');
END
$$;
-- Does damage, executes the block with and without the hash that it should have, and shows what was put right and what is left.
CREATE FUNCTION test.touch(damage text, VARIADIC sqls text[]) RETURNS TABLE (what text, tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE plpgsql AS $$
DECLARE
    txs bytea[] := ARRAY(SELECT test.tx(s) FROM unnest(sqls) WITH ORDINALITY u (s, i) ORDER BY i);
    wanted bytea := test.certify(VARIADIC txs);
    known bigint := (SELECT coalesce(max(d.id), 0) FROM chainify_ledger.deviation d);
    plain bytea;
    hash bytea;
BEGIN
    PERFORM set_config('chainify.guard', 'off', true), set_config('session_replication_role', 'replica', true);
    EXECUTE damage;
    PERFORM set_config('session_replication_role', 'origin', true), set_config('chainify.guard', 'on', true);
    plain := test.certify(VARIADIC txs);
    SELECT r.hash INTO hash FROM chainify_node.position() p,
        chainify_node.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(txs), certified_hash => wanted) r;
    RETURN QUERY SELECT CASE hash WHEN wanted THEN 'as certified' WHEN plain THEN 'as it was' ELSE 'otherwise' END, NULL::text, NULL::jsonb, NULL::jsonb, NULL::jsonb;
    RETURN QUERY SELECT 'put right', d.tbl, d.key, d.expected, d.found FROM chainify.deviations d WHERE d.id > known ORDER BY 2, 3;
    RETURN QUERY SELECT 'left: ' || v.what, t.name, v.key, v.expected, v.found FROM chainify.tables t, chainify.verify_table(t.name::regclass) v
        WHERE v.key IS NOT NULL ORDER BY 2, 3;
END
$$;
RESET client_min_messages;

-- Changed since the base, in the base, and nothing at all.
SELECT * FROM test.touch('UPDATE account SET balance = 0 WHERE id IN (2, 9)', 'UPDATE account SET balance = balance + 5 WHERE id IN (2, 9)');
SELECT * FROM test.touch('SELECT', 'UPDATE account SET balance = balance + 5 WHERE id IN (2, 9)');
SELECT block, cured_by, found_by, count(*) FROM chainify.deviations GROUP BY 1, 2, 3;
SELECT chainify_node.record_deviation(3, '\x01', '\x02', 'retry', '1 ms');
SELECT block, expected_hash, cured_by, found_by, count(*) FROM chainify.deviations GROUP BY 1, 2, 3, 4;
-- Keys of several columns, of quoted names and texts; a row that the block takes away.
SELECT * FROM test.touch('UPDATE seat SET taken_by = 2', 'UPDATE seat SET taken_by = 3 WHERE day > ''2026-01-01''', 'DELETE FROM seat WHERE day = ''2026-01-01''');
SELECT test.all_well();
-- What the attempts before took of a sequence is given back.
SELECT ok FROM test.deploy('CREATE TABLE ticket (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, balance numeric); GRANT ALL ON ticket TO alice');
SELECT * FROM test.touch('UPDATE account SET balance = 1 WHERE id = 11',
    'INSERT INTO ticket (balance) VALUES (1), (2)', 'UPDATE account SET note = NULL WHERE id = 11');
SELECT * FROM ticket;
SELECT test.all_well();
-- Rows that the block does not change are left to a repair, and so are keys of types of users'.
BEGIN;
SELECT findings FROM chainify_node.scrub('account');
SELECT * FROM test.touch('UPDATE account SET balance = 0 WHERE id IN (4, 5)', 'UPDATE account SET balance = balance + 5 WHERE id = 4');
SELECT l.name, s.at FROM chainify_ledger.scrubbed s JOIN chainify_ledger.ledger_table l ON l.id = s.table_id;
ROLLBACK;
BEGIN;
SELECT * FROM test.touch('DELETE FROM account WHERE id = 4', 'UPDATE account SET balance = balance + 5 WHERE id = 4');
ROLLBACK;
BEGIN;
SELECT * FROM test.touch('UPDATE paint SET litres = 7', 'UPDATE paint SET litres = litres + 1');
ROLLBACK;
-- History changed as well: nothing of the attempt stays.
BEGIN;
SELECT * FROM test.touch('UPDATE chainify_history.account SET balance = 7 WHERE id = 1 AND _block = 2; UPDATE account SET balance = 8 WHERE id = 3',
    'UPDATE account SET balance = balance + 5 WHERE id IN (1, 3)');
ROLLBACK;
-- A row false in the base that only the deviating block changes: the block would come out as certified, and a true row be gone.
BEGIN;
SELECT * FROM test.touch('UPDATE chainify_checkpoint.account SET balance = 7 WHERE id = 8; UPDATE account SET balance = 1000 WHERE id = 7',
    'UPDATE account SET balance = balance + CASE WHEN id = 7 THEN 1 ELSE 0 END, note = CASE id WHEN 7 THEN ''seven'' ELSE note END
     WHERE id = 7 OR id = 8 AND (SELECT balance FROM account WHERE id = 7) > 500');
ROLLBACK;
-- However little the planner knows of the base of a large table: rows are looked up in it.
CREATE TABLE wide (id int PRIMARY KEY, n int);
INSERT INTO wide SELECT i, i FROM generate_series(1, 5000) i;
GRANT ALL ON wide TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.wide');
BEGIN;
CREATE TEMPORARY TABLE touching AS SELECT test.certify(tx) AS wanted, tx FROM test.tx('UPDATE wide SET n = n + 1 WHERE id < 8') tx;
SET LOCAL chainify.guard = off;
SET LOCAL session_replication_role = replica;
UPDATE wide SET n = 0 WHERE id = 5;
SET LOCAL session_replication_role = origin;
SELECT seq_scan, idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'chainify_checkpoint.wide'::regclass \gset before_
SELECT r.hash = t.wanted AS as_certified FROM touching t, chainify_node.position() p, chainify_node.execute_block(
    p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(ARRAY[t.tx]), certified_hash => t.wanted) r;
SELECT seq_scan - :before_seq_scan AS scans, idx_scan > :before_idx_scan AS looked_up FROM pg_stat_xact_all_tables WHERE relid = 'chainify_checkpoint.wide'::regclass;
ROLLBACK;
-- What is no block stays none.
\set VERBOSITY terse
SELECT r.hash FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 1, 1, p.hash, '\x00', certified_hash => '\x00') r;
SELECT test.all_well();
