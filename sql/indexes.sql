\i sql/setup.sql
-- Blocks find rows by indexes. One that misses a row, or finds it under a key that it no longer has, is found beside its table, named, and built anew.
SET client_min_messages = warning;
CREATE FUNCTION reversed(t text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.reverse(t)';
CREATE TABLE account (id int PRIMARY KEY, branch int, name text, place point, tags int[]);
CREATE INDEX account_branch ON account (branch DESC NULLS LAST) INCLUDE (name);
CREATE INDEX account_part ON account (id) WHERE branch > 5;
CREATE INDEX account_reversed ON account (reversed(name));
CREATE INDEX account_place ON account USING gist (place);
CREATE INDEX account_name ON account USING spgist (name);
CREATE INDEX account_hash ON account USING hash (branch);
CREATE TABLE event (id int, day date, note text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
INSERT INTO account SELECT i, i % 10, CASE WHEN i % 7 > 0 THEN repeat('n', i % 5) || i END, point(i, -i), ARRAY[i, i + 1] FROM generate_series(1, 3000) i;
INSERT INTO event SELECT i, '2026-01-05', 'a' FROM generate_series(1, 10) i;
CREATE INDEX account_tags ON account USING gin (tags) WITH (fastupdate = off);
CREATE INDEX account_words ON account USING gin (to_tsvector('simple', name), tags) WITH (fastupdate = off);
CREATE INDEX account_pages ON account USING brin (id) WITH (pages_per_range = 1);
CREATE INDEX account_other ON account USING brin (branch) WITH (pages_per_range = 1);
CREATE INDEX event_1_note ON event_1 (note);
GRANT ALL ON account, event TO alice;
ALTER TABLE event OWNER TO alice;
ALTER TABLE event_1 OWNER TO alice;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.account, public.event');
SELECT ok, message FROM test.run('DELETE FROM account WHERE id % 30 = 0', 'UPDATE account SET branch = branch + 1 WHERE id % 31 = 0');
-- What an index has, kept out of sight while a statement runs.
CREATE FUNCTION test.unseen(index regclass, statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL chainify.guard = off;
    SET LOCAL session_replication_role = replica;
    -- A change of pg_class lets sessions read the list of indexes anew.
    UPDATE pg_index SET indislive = false, indisready = false WHERE indexrelid = index;
    UPDATE pg_class SET relhasindex = relhasindex WHERE oid = (SELECT indrelid FROM pg_index WHERE indexrelid = index);
    EXECUTE statement;
    UPDATE pg_index SET indislive = true, indisready = true WHERE indexrelid = index;
    UPDATE pg_class SET relhasindex = relhasindex WHERE oid = (SELECT indrelid FROM pg_index WHERE indexrelid = index);
    SET LOCAL session_replication_role = origin;
END
$$;
-- Rows take another place, of which the index does not hear.
CREATE FUNCTION test.missed(index regclass, tbl text, condition text) RETURNS void LANGUAGE sql AS $$
    SELECT test.unseen(index, format('WITH gone AS (DELETE FROM %1$s WHERE %2$s RETURNING *) INSERT INTO %1$s SELECT * FROM gone', tbl, condition)) $$;
CREATE FUNCTION test.repair(step text) RETURNS TABLE (tbl text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT r.* FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number, NULL, step) r $$;
CREATE FUNCTION test.verified(tbl regclass) RETURNS TABLE (what text, key jsonb, expected jsonb, found jsonb) LANGUAGE sql AS $$
    SELECT v.what, v.key, v.expected, v.found FROM chainify.verify_table(tbl) v ORDER BY v.what, v.key, v.expected $$;
-- Does damage, shows what verification, scrubber and the step of recovery say, undoes it.
CREATE FUNCTION test.broken(statement text, tbl regclass DEFAULT 'account') RETURNS TABLE (by text, key jsonb, expected jsonb, found jsonb) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
BEGIN
    BEGIN
        EXECUTE statement;
        SELECT array_agg(ARRAY['verified', v.what, v.key::text, v.expected::text, v.found::text] ORDER BY v.what, v.key) INTO lines FROM chainify.verify_table(tbl) v;
        PERFORM chainify_node.scrub(tbl);
        lines := lines || (SELECT array_agg(ARRAY['scrubbed', '', d.key::text, d.expected::text, d.found::text] ORDER BY d.key) FROM chainify.deviations d WHERE d.cured_by IS NULL);
        lines := lines || (SELECT array_agg(ARRAY['built anew', '', d.key::text, d.expected::text, d.found::text] ORDER BY d.key) FROM test.repair('reindex') d);
        lines := lines || (SELECT array_agg(ARRAY['left', v.what, v.key::text, v.expected::text, v.found::text] ORDER BY v.what, v.key) FROM chainify.verify_table(tbl) v);
        lines := lines || (SELECT array_agg(ARRAY['open', '', d.key::text, d.expected::text, d.found::text] ORDER BY d.key) FROM chainify.deviations d WHERE d.cured_by IS NULL);
        RAISE EXCEPTION USING ERRCODE = 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN QUERY SELECT concat_ws(' ', lines[i][1], nullif(lines[i][2], '')), lines[i][3]::jsonb, lines[i][4]::jsonb, lines[i][5]::jsonb FROM generate_subscripts(lines, 1) i;
    END;
END
$$;
RESET client_min_messages;
SELECT test.all_well();
-- A row that an index misses.
SELECT * FROM test.broken($$SELECT test.missed('account_pkey', 'account', 'id = 7')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_branch', 'account', 'id = 7')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_part', 'account', 'id IN (7, 8)')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_part', 'account', 'id = 1')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_reversed', 'account', 'id = 8')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_place', 'account', 'id = 8')$$);
SELECT * FROM test.broken($$SELECT test.missed('account_name', 'account', 'id = 8')$$);
SELECT * FROM test.broken($$SELECT test.missed('event_1_pkey', 'event', 'id = 8')$$, 'event');
SELECT * FROM test.broken($$SELECT test.missed('chainify_checkpoint.account_id_idx', 'chainify_checkpoint.account', 'id = 8')$$);
SELECT * FROM test.broken($$SELECT test.missed('chainify_history.account_id_idx', 'chainify_history.account', 'id = 30')$$);
-- A row that an index finds under a key that it no longer has, beside what is wrong with the row.
SELECT * FROM test.broken($$SELECT test.unseen('event_1_note', $u$UPDATE event SET note = 'b' WHERE id = 8$u$)$$, 'event') WHERE by NOT LIKE '%state';
-- An index that is not used, or not kept up.
SELECT * FROM test.broken($$UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'account_branch'::regclass$$);
SELECT * FROM test.broken($$UPDATE pg_index SET indisready = false WHERE indexrelid = 'account_hash'::regclass$$);
SELECT * FROM test.broken($$UPDATE pg_class SET relhasindex = false WHERE oid = 'event_1'::regclass$$, 'event');
-- The order of the keys is not that of the column any more.
SELECT * FROM test.broken($$UPDATE pg_index SET indoption = '0' WHERE indexrelid = 'account_branch'::regclass$$);
-- It does not keep what its constraint says.
SELECT * FROM test.broken($$UPDATE pg_index SET indisunique = false WHERE indexrelid = 'account_pkey'::regclass$$);
SELECT * FROM test.broken($$UPDATE pg_index SET indimmediate = false, indisprimary = false WHERE indexrelid = 'account_pkey'::regclass$$);
SELECT * FROM test.broken($$UPDATE pg_index SET indkey = '2' WHERE indexrelid = 'account_pkey'::regclass$$);
-- Rows that are there twice: they come first.
CREATE FUNCTION test.twice() RETURNS void LANGUAGE sql AS $$ SELECT test.unseen('account_pkey', 'INSERT INTO account VALUES (7, 1), (8, 1)') $$;
SELECT * FROM test.broken('SELECT test.twice()') WHERE by NOT LIKE '%row%' AND NOT key ? 'id';
SELECT test.unseen('account_pkey', 'INSERT INTO account SELECT * FROM account WHERE id = 7; INSERT INTO account VALUES (8, 1); INSERT INTO account VALUES (11, 1), (11, 1)');
SELECT key, expected IS NULL AS extra FROM test.repair('reindex');
SELECT key, expected IS NULL AS extra, found->>'branch' AS branch FROM test.repair('rows') ORDER BY key, branch;
SELECT key, expected, found FROM test.repair('reindex');
SELECT test.all_well();

-- The scrubber's record stays open for what the step did not cure, and is closed by the step that does.
SELECT test.unseen('account_place', 'UPDATE account SET branch = 77 WHERE id = 9');
SELECT findings FROM chainify_node.scrub('account');
SELECT tbl, key FROM test.repair('reindex');
SELECT deviates FROM chainify_node.position();
SELECT tbl, key FROM test.repair('reindex');
SELECT tbl, key FROM test.repair('rows');
SELECT deviates FROM chainify_node.position();
SELECT test.missed('account_place', 'account', 'id = 10');
SELECT findings FROM chainify_node.scrub('account');
SELECT tbl, key FROM test.repair('reindex');
SELECT deviates FROM chainify_node.position();
SELECT found_by, tbl, key, expected, found, rows_total, cured_by, took IS NOT NULL AS took FROM chainify.deviations ORDER BY id, key;
SELECT test.all_well();

-- An inner page of a B-tree leads past one of the pages below it: read from end to end, the index has all rows.
CREATE FUNCTION test.led_past(index regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    was text := pg_relation_filepath(index);
    file oid := (1000000000 + random() * 1000000000)::bigint::oid;
    bytes bytea;
    page int; -- where the root begins
    entry int;
    other int;
    written oid;
BEGIN
    CHECKPOINT;
    bytes := pg_read_binary_file(was);
    page := 8192 * get_byte(bytes, 24 + 8); -- btm_root of the first page
    entry := page + get_byte(bytes, page + 24 + 4) + 256 * (get_byte(bytes, page + 24 + 5) & 127); -- by the second line pointer
    other := page + get_byte(bytes, page + 24 + 8) + 256 * (get_byte(bytes, page + 24 + 9) & 127);
    FOR i IN 0..3 LOOP -- the number of the page that it leads to
        bytes := set_byte(bytes, entry + i, get_byte(bytes, other + i));
    END LOOP;
    written := lo_from_bytea(0, bytes);
    PERFORM lo_export(written, regexp_replace(was, '[0-9]+$', file::text));
    SET LOCAL chainify.guard = off;
    UPDATE pg_class SET relfilenode = file WHERE oid = index;
END
$$;
-- It is asked for an eighth of the rows, for others each time.
SELECT by, key, found->>'not by value' > '0' AS missed FROM test.broken($$SELECT test.led_past('account_pkey')$$);
-- GIN and BRIN tell no single rows. They are asked for about as many as their answers hold, for others each time.
SELECT by, key, found->>'not by value' > '0' AS missed FROM test.broken($$SELECT test.missed('account_tags', 'account', 'id % 2 = 0')$$);
SELECT by, key, found->>'not by value' > '0' AS missed FROM test.broken($$SELECT test.missed('account_words', 'account', 'id % 2 = 0')$$);
CREATE FUNCTION test.of_another(index regclass, other regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL chainify.guard = off;
    UPDATE pg_class SET relfilenode = (SELECT relfilenode FROM pg_class WHERE oid = other) WHERE oid = index;
END
$$;
SELECT by, key, found->>'not by value' > '0' AS missed FROM test.broken($$SELECT test.of_another('account_pages', 'account_other')$$);
SELECT test.all_well();

-- The ledger's own tables.
SELECT test.missed('chainify_ledger.block_pkey', 'chainify_ledger.block', 'number = 1');
SELECT what, detail FROM chainify.verify_ledger() WHERE what NOT LIKE 'certificate%';
SELECT tbl, key, expected, found FROM test.repair('reindex');

-- A block that comes out otherwise because of an index: the row is there, so it is not put there a second time, which would give this block the agreed hash.
SELECT test.missed('account_pkey', 'account', 'id = 11');
CREATE TABLE test.wanted AS SELECT decode(repeat('00', 32), 'hex') AS hash;
CREATE FUNCTION test.work() RETURNS SETOF text LANGUAGE sql AS
    $$ VALUES ('UPDATE account SET branch = 100 WHERE id = 11'), ('INSERT INTO account (id, branch) VALUES (11, 5) ON CONFLICT (id) DO UPDATE SET branch = account.branch + 5') $$;
CREATE FUNCTION test.transactions() RETURNS bytea LANGUAGE sql AS $$ SELECT test.buffer(array_agg(test.tx(w, nonce => 1000 + n))) FROM test.work() WITH ORDINALITY t (w, n) $$;
CREATE FUNCTION test.executed(wanted bytea) RETURNS bytea LANGUAGE sql AS $$
    SELECT r.hash FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 99, 1700000000000000, p.hash, test.transactions(), certified_hash => wanted) r $$;
BEGIN;
SELECT count(*) FROM test.repair('reindex');
UPDATE test.wanted SET hash = test.executed(NULL);
SELECT hash FROM test.wanted \gset
ROLLBACK;
BEGIN;
SELECT test.executed(:'hash') = :'hash' AS agreed;
ROLLBACK;
-- The step that follows: the block has the agreed hash. While one waits, what cannot be compared is built anew as well.
SELECT r.tbl, r.key, r.expected, r.found FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, decode(repeat('11', 32), 'hex'), 'reindex') r;
SELECT test.executed(:'hash') = :'hash' AS agreed;
SELECT chainify_node.record_deviation(p.number, p.hash, NULL, 'reindex', interval '1 second') FROM chainify_node.position() p;
SELECT found_by, tbl, key, cured_by FROM chainify.deviations WHERE found_by = 'block' ORDER BY id, key;
SELECT test.all_well();

-- What users wrote for an index runs as the table's owner: the function of this one says who calls it.
SET chainify.guard = off;
CREATE FUNCTION told(t text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'called as %', current_user; RETURN true; END $$;
SET client_min_messages = warning;
CREATE INDEX event_1_told ON event_1 (id) WHERE told(note) AND id > 9;
RESET client_min_messages;
RESET chainify.guard;
SELECT what, key FROM test.verified('event') WHERE what = 'index';
SELECT test.missed('event_1_told', 'event', 'id = 10');
SELECT tbl, key FROM test.repair('reindex');

-- An index that another session drops once a check has it in its list is left out.
SET client_min_messages = warning;
CREATE EXTENSION dblink;
RESET client_min_messages;
SET chainify.guard = off;
CREATE INDEX event_1_goes ON event_1 (note);
RESET chainify.guard;
SELECT dblink_connect('other', format('host=%s dbname=%s', split_part(current_setting('unix_socket_directories'), ',', 1), current_database()));
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM pg_class WHERE relname = 'event_1_goes';
SELECT dblink_exec('other', 'SET chainify.guard = off; DROP INDEX event_1_goes');
SELECT count(*) FROM pg_class WHERE relname = 'event_1_goes';
SELECT what, key FROM test.verified('event') WHERE what = 'index';
ROLLBACK;
SELECT dblink_disconnect('other');
DROP EXTENSION dblink;
