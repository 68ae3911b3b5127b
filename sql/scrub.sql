\i sql/setup.sql
-- The scrubber finds what no block touches; what it finds opens a deviation, which a repair closes.
SET client_min_messages = warning;
CREATE TABLE account (id int PRIMARY KEY, balance numeric CHECK (balance >= 0), note text);
CREATE TABLE event (id int, day date, note text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 (note text, day date NOT NULL, id int NOT NULL);
ALTER TABLE event ATTACH PARTITION event_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO account SELECT i, i, repeat('x', i % 50) FROM generate_series(1, 30000) i;
INSERT INTO event VALUES (1, '2026-01-05', 'a'), (2, '2026-02-05', repeat('long', 4000));
GRANT ALL ON account, event TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.account, public.event');
SELECT ok, message FROM test.run('DELETE FROM account WHERE id % 3 = 0', 'UPDATE account SET balance = 0 WHERE id = 1');
CREATE FUNCTION test.short(j jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(j::text, 'x{3,}', 'x…', 'g'), '[0-9a-f]{64}', '…', 'g') $$;
CREATE FUNCTION test.repair() RETURNS SETOF record LANGUAGE sql AS $$
    SELECT r.tbl, r.key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL) r $$;
-- Does damage, scrubs, shows what is recorded, undoes it.
CREATE FUNCTION test.scrubbed(VARIADIC statements text[]) RETURNS TABLE (tbl text, key jsonb, expected text, found text) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    recorded text[];
BEGIN
    BEGIN
        SET LOCAL chainify.guard = off;
        SET LOCAL session_replication_role = replica;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE statement;
        END LOOP;
        PERFORM chainify_node.scrub('account');
        PERFORM chainify_node.scrub('event');
        SELECT array_agg(ARRAY[d.tbl, d.key::text, test.short(d.expected), test.short(d.found)] ORDER BY d.tbl, d.key, d.expected::text) INTO recorded FROM chainify.deviations d;
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT recorded[i][1], recorded[i][2]::jsonb, recorded[i][3], recorded[i][4] FROM generate_subscripts(recorded, 1) i;
    END;
END
$$;
RESET client_min_messages;

-- The base is read with the table once it is at a checkpoint.
SELECT * FROM chainify_node.scrub('account');
SELECT * FROM chainify_node.fold_history();
SELECT * FROM chainify_node.scrub('account');
SELECT * FROM chainify_node.scrub('event');
-- It reads no faster than it is told.
SELECT findings, clock_timestamp() - statement_timestamp() > '400 ms' AS slowly FROM chainify_node.scrub('account', 60000);
SELECT name, rows, scrubbed_block, scrubbed_at IS NOT NULL AS scrubbed FROM chainify.tables ORDER BY name;
SELECT deviates FROM chainify_node.position();
SELECT * FROM test.scrubbed('ANALYZE account');
-- Rows.
SELECT * FROM test.scrubbed('UPDATE account SET balance = 5 WHERE id = 2');
SELECT * FROM test.scrubbed('DELETE FROM account WHERE id = 29999', 'INSERT INTO account VALUES (3, 3)', 'INSERT INTO account VALUES (29999, 1)');
SELECT * FROM test.scrubbed($$UPDATE event SET note = 'b' WHERE id = 1$$);
SELECT * FROM test.scrubbed('TRUNCATE event_2') WHERE key IS NULL;
SELECT count(*), count(key) FROM test.scrubbed('UPDATE account SET balance = balance + 1');
-- Running state, base, history.
SELECT * FROM test.scrubbed('UPDATE chainify_ledger.table_state SET row_count = row_count + 1 WHERE table_id = 1');
SELECT * FROM test.scrubbed('UPDATE chainify_checkpoint.account SET balance = 5 WHERE id = 7');
-- Triggers and definition.
SELECT * FROM test.scrubbed('ALTER TABLE account DISABLE TRIGGER chainify_digest');
SELECT * FROM test.scrubbed('DROP TRIGGER chainify_truncate ON event_1');
SELECT * FROM test.scrubbed('ALTER TABLE account DROP CONSTRAINT account_balance_check');
SELECT * FROM test.scrubbed('ALTER TABLE account DROP CONSTRAINT account_pkey');
SELECT * FROM test.scrubbed('CREATE POLICY p ON account USING (id > 5)');
SELECT * FROM test.scrubbed('ALTER TABLE account DROP COLUMN note');
SELECT * FROM chainify.deviations;

-- Recorded, seen by node and readers, and closed by the repair.
SET chainify.guard = off;
SET session_replication_role = replica;
UPDATE account SET balance = 1000 WHERE id IN (1, 4);
RESET session_replication_role;
RESET chainify.guard;
SELECT block, findings FROM chainify_node.scrub('account');
SELECT block, findings FROM chainify_node.scrub('account');
SELECT deviates FROM chainify_node.position();
SELECT stale FROM chainify.status;
-- who does not want to read such rows gets an error instead; the ledger's own functions and superusers go on
SET ROLE alice;
SELECT count(*) FROM account;
SET chainify.refuse_stale_reads = on;
SELECT count(*) FROM account;
SELECT count(*) FROM pg_class WHERE oid = 'account'::regclass;
SELECT FROM event JOIN (SELECT 1) one ON EXISTS (SELECT FROM account);
RESET ROLE;
SELECT count(*) FROM account;
SELECT block, since_block, found_by, tbl, key, test.short(expected) AS expected, test.short(found) AS found, rows_total, cured_by FROM chainify.deviations ORDER BY id, tbl, key;
SELECT * FROM test.repair() r (tbl text, key jsonb);
SELECT block, since_block, found_by, tbl, key, test.short(expected) AS expected, test.short(found) AS found, rows_total, cured_by, took IS NOT NULL AS took
FROM chainify.deviations ORDER BY id, tbl, key;
SELECT deviates FROM chainify_node.position();
SELECT stale FROM chainify.status;
SET ROLE alice;
SELECT count(*) FROM account;
RESET ROLE;
RESET chainify.refuse_stale_reads;
SELECT findings FROM chainify_node.scrub('account');
SELECT scrubbed_block FROM chainify.tables WHERE name = 'public.account';

-- The worker of the database does it by itself while a node, which is whoever holds its lock, is connected.
SELECT pg_advisory_lock(1667786361, 1);
SET chainify.guard = off;
SET session_replication_role = replica;
DELETE FROM account WHERE id = 100;
RESET session_replication_role;
RESET chainify.guard;
UPDATE chainify_ledger.scrubbed SET at = '2000-01-01';
DO $$ BEGIN PERFORM chainify_node.init('testchain', 'acme', '[]'); END $$;
DO $$
BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN (SELECT deviates FROM chainify_node.position());
        PERFORM pg_sleep(0.1);
        COMMIT;
    END LOOP;
END $$;
SELECT found_by, key, rows_total, cured_by FROM chainify.deviations WHERE key = '{"id": 100}';
SELECT pg_advisory_unlock(1667786361, 1);
SELECT * FROM test.repair() r (tbl text, key jsonb);
SELECT chainify_node.scrub('pg_class');
SET ROLE alice;
SELECT chainify_node.scrub('account');
RESET ROLE;
