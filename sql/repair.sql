\i sql/setup.sql
-- Repair: back to the certified state from checkpoint and history, whatever happened to rows, lanes and triggers.
SET client_min_messages = warning;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE ROLE repair_owner;
CREATE TABLE owner (id int PRIMARY KEY, name text NOT NULL UNIQUE, mood mood, total numeric GENERATED ALWAYS AS (id * 1.5) STORED);
CREATE TABLE account (id int PRIMARY KEY, owner int NOT NULL REFERENCES owner ON DELETE CASCADE, balance numeric CHECK (balance >= 0), note text);
CREATE TABLE event (id int, day date, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE secret (id int PRIMARY KEY, said_as text);
-- Constraints may call functions of the table's owner: they must not run with the extension's rights.
CREATE FUNCTION public.notice_user(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN current_user <> 'postgres' OR current_setting('test.loading', true) = 'on'; END $$;
SET test.loading = on;
ALTER TABLE secret ADD CHECK (notice_user(said_as));
ALTER TABLE secret ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
INSERT INTO owner VALUES (1, 'Ann', 'ok'), (2, 'Bob', NULL);
INSERT INTO account SELECT i, 1, i, repeat('long ', 3000) FROM generate_series(1, 5) i;
INSERT INTO event VALUES (1, '2026-01-05', 'a'), (2, '2026-02-05', 'b');
INSERT INTO secret VALUES (1, 'x'), (2, 'y');
RESET test.loading;
ALTER TABLE secret OWNER TO repair_owner;
GRANT USAGE ON SCHEMA public TO repair_owner;
GRANT ALL ON owner, account, event TO alice;
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.owner, public.account, public.event, public.secret');
SELECT ok, message FROM test.run($$INSERT INTO account VALUES (6, 2, 6, NULL), (7, 2, 7, 'seven')$$, 'DELETE FROM account WHERE id = 5');
CREATE FUNCTION test.repair() RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT r.tbl, r.key, r.expected, r.found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\xff') r $$;
CREATE FUNCTION test.flip(bytes bytea, at int DEFAULT 0) RETURNS bytea LANGUAGE sql AS $$
    SELECT set_byte(bytes, at, get_byte(bytes, at) # 1) $$;
CREATE FUNCTION test.short(j jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(j::text, '(long )+', 'long …', 'g'), '[0-9a-f]{64}', '…', 'g') $$;
-- Does damage, repairs, and shows what was put right and whether all is well after.
CREATE FUNCTION test.damage(VARIADIC statements text[]) RETURNS TABLE (tbl text, key jsonb, expected text, found text) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
BEGIN
    SET LOCAL chainify.guard = off;
    SET LOCAL session_replication_role = replica;
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
    SET LOCAL session_replication_role = origin;
    SET LOCAL chainify.guard = on;
    RETURN QUERY SELECT r.tbl, r.key, test.short(r.expected), test.short(r.found) FROM test.repair() r;
    RETURN QUERY SELECT 'left: ' || t.name, v.key, test.short(v.expected), test.short(v.found)
        FROM chainify.tables t, chainify.verify_table(t.name::regclass) v;
    IF EXISTS (SELECT FROM test.repair()) THEN
        RAISE EXCEPTION 'a second repair found something';
    END IF;
END
$$;
RESET client_min_messages;

SELECT * FROM test.repair();
SELECT count(*) FROM chainify.deviations;
SELECT * FROM test.damage('UPDATE account SET balance = 1000.00000000000000000001 WHERE id = 1');
SELECT * FROM test.damage('DELETE FROM account WHERE id IN (2, 7)', $$INSERT INTO account VALUES (5, 9, 0, 'back'), (8, 9, 0, 'new')$$);
SELECT * FROM test.damage('UPDATE account SET id = id + 100 WHERE id = 3');
-- Values change places: neither order of updates would pass the unique key.
SELECT * FROM test.damage($$UPDATE owner SET name = name || '?'$$, $$UPDATE owner SET name = CASE id WHEN 1 THEN 'Bob' ELSE 'Ann' END, mood = NULL$$);
-- The referenced rows go, and with them what refers to them.
SELECT tbl, count(*), min(expected) IS NOT NULL AS expected, max(found) FROM test.damage('TRUNCATE owner, account') GROUP BY 1 ORDER BY 1;
SELECT * FROM test.damage('DELETE FROM owner WHERE id = 2');
-- Partitions: a row moved, one in the wrong place.
SELECT * FROM test.damage($$UPDATE event SET day = '2026-02-20' WHERE id = 1$$);
SELECT * FROM test.damage($$DELETE FROM event_2$$, $$INSERT INTO event_1 VALUES (9, '2026-01-09', 'x')$$);
SELECT * FROM test.damage($$DELETE FROM secret WHERE id = 1$$);
SELECT relforcerowsecurity FROM pg_class WHERE oid = 'secret'::regclass;
-- Running state.
SELECT * FROM test.damage('UPDATE chainify_ledger.table_state SET lanes = test.flip(lanes) WHERE table_id = 2');
SELECT * FROM test.damage('DELETE FROM chainify_ledger.table_state WHERE table_id = 1');
-- Triggers.
SELECT * FROM test.damage('ALTER TABLE account DISABLE TRIGGER chainify_digest');
SELECT * FROM test.damage('DROP TRIGGER chainify_digest ON event', 'DROP TRIGGER chainify_truncate ON event_1', 'UPDATE event SET note = NULL');
SELECT * FROM test.damage('ALTER TABLE event_2 ENABLE REPLICA TRIGGER chainify_digest');
SELECT * FROM test.damage('CREATE TRIGGER chainify_x BEFORE DELETE ON account FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
INSERT INTO account VALUES (50, 1, 1, NULL);
SELECT ok FROM test.run('UPDATE account SET balance = balance + 1');
SELECT test.states_hold();

-- What cannot be repaired changes nothing.
\set VERBOSITY default
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE account SET balance = 1 WHERE id = 1;
UPDATE chainify_history.account SET balance = 1 WHERE id = 1;
SAVEPOINT s;
SELECT test.repair();
ROLLBACK TO s;
SELECT balance FROM account WHERE id = 1;
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
UPDATE chainify_checkpoint.account SET balance = 1 WHERE id = 5;
SELECT test.repair(); -- that row went later: what it was does not matter
UPDATE chainify_checkpoint.event SET note = 'x';
SELECT test.repair();
ROLLBACK;
BEGIN;
UPDATE chainify_ledger.block SET state_root = test.flip(state_root);
SELECT test.repair();
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
ALTER TABLE account ALTER note SET DEFAULT 'x';
SELECT test.repair();
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
ALTER TABLE account DROP COLUMN note;
SELECT test.repair();
ROLLBACK;
SELECT chainify_node.repair(1, '\x00', 4, NULL);
SELECT chainify_node.repair(3, '\x00', 4, NULL);
SET ROLE alice;
SELECT chainify_node.repair(3, '\x00', 4, NULL);
RESET ROLE;

-- Records of deviations.
SELECT block, found_hash, tbl, key, test.short(expected), test.short(found), cured_by FROM chainify.deviations ORDER BY id, tbl, key LIMIT 3;
SELECT chainify_node.record_deviation(3, '\x01', '\xff', 'repair', '1.5 s');
SELECT chainify_node.record_deviation(3, '\x02', '\x03', 'retry', '10 ms');
SELECT block, expected_hash, found_hash, cured_by, took FROM chainify_ledger.deviation WHERE block = 3 ORDER BY id DESC LIMIT 2;
SELECT count(*) FROM chainify_ledger.deviation WHERE block = 3 AND cured_by IS NULL;
