-- EFFECTS transactions in parts: turns, victims and messages are those of the block in one process (P1).
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\set same :abs_srcdir /sql/same.psql
\set quarantined {}
\set parts -1
\i :setup
DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bob') THEN CREATE ROLE bob LOGIN IN ROLE chainify_client; END IF; END $$;
CREATE TABLE shelf (id int PRIMARY KEY, n int CHECK (n >= 0));
CREATE TABLE item (id int PRIMARY KEY, n int REFERENCES shelf ON DELETE CASCADE);
CREATE TABLE label (id int PRIMARY KEY, n int UNIQUE);
CREATE TABLE entry (id serial PRIMARY KEY, n int);
CREATE TABLE secret (id int PRIMARY KEY, grp int, n int);
CREATE TABLE ring (id int PRIMARY KEY, n int);
CREATE INDEX ON secret (grp);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY one ON secret TO alice USING (grp = 1);
CREATE POLICY two ON secret TO bob USING (grp = 2);
GRANT ALL ON ALL TABLES IN SCHEMA public TO alice, bob;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO alice, bob;
INSERT INTO secret SELECT g, 1 + g % 2, 0 FROM generate_series(1, 8) g;
SELECT ok FROM test.deploy('ATTACH TABLE public.shelf, public.item, public.label, public.entry, public.secret, public.ring');
SELECT ok FROM test.run('INSERT INTO shelf SELECT g, 10 FROM generate_series(1, 40) g', 'INSERT INTO item SELECT g, g FROM generate_series(1, 20) g',
    'INSERT INTO label SELECT g, g FROM generate_series(1, 20) g', 'INSERT INTO ring SELECT g, 0 FROM generate_series(1, 192) g');

-- Helpers: a row as the ledger has it, a value of its encoding, and an EFFECTS transaction of changes written as "verb id [values of the other columns]".
CREATE FUNCTION test.lp(b bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT int4send(length(b)) || b $$;
CREATE FUNCTION test.list(items bytea[]) RETURNS bytea LANGUAGE sql AS $$
    SELECT int4send(cardinality(items)) || coalesce((SELECT string_agg(i, ''::bytea ORDER BY n) FROM unnest(items) WITH ORDINALITY u (i, n)), '')
$$;
CREATE FUNCTION test.encoded(tbl text, row_values text, key boolean) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    result bytea;
BEGIN
    EXECUTE format('SELECT chainify_ledger.%s((SELECT id FROM chainify_ledger.ledger_table WHERE relation = %L::regclass), ROW(%s)::%s)',
        CASE WHEN key THEN 'encoded_key' ELSE 'encoded_row' END, tbl, row_values, tbl) INTO result;
    RETURN result;
END
$$;
CREATE FUNCTION test.cell(encoded bytea, ordinal int) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    at int := 2;
    size int;
BEGIN
    WHILE at < length(encoded) LOOP
        size := 7 + get_byte(encoded, at + 5) * 256 + get_byte(encoded, at + 6);
        IF get_byte(encoded, at + 1) = ordinal THEN RETURN substr(encoded, at + 1, size); END IF;
        at := at + size;
    END LOOP;
END
$$;
CREATE FUNCTION test.effects(tbl text, steps text[], role text DEFAULT 'alice', reads bytea[] DEFAULT '{}') RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    step text;
    word text[];
    old record;
    key bytea;
    hash bytea;
    wide int;
    changes bytea[] := '{}';
    seen bytea[] := '{}';
BEGIN
    SELECT count(*) INTO wide FROM pg_attribute WHERE attrelid = tbl::regclass AND attnum > 0;
    FOREACH step IN ARRAY steps LOOP
        word := string_to_array(step, ' ');
        key := test.encoded(tbl, word[2] || repeat(', NULL', wide - 1), true);
        hash := NULL;
        EXECUTE format('SELECT chainify.row_hash(t) FROM %s t WHERE id = %s', tbl, word[2]) INTO hash;
        CASE word[1]
            WHEN 'see' THEN seen := seen || ('\x0000' || test.lp(key) || coalesce('\x01' || hash, '\x00'));
            WHEN 'put' THEN changes := changes || ('\x0000'::bytea || 'I' || test.lp(test.encoded(tbl, array_to_string(word[2:], ', '), false)));
            WHEN 'cut' THEN changes := changes || ('\x0000'::bytea || 'D' || coalesce(hash, sha256('')) || test.lp(key));
            WHEN 'set', 'old' THEN changes := changes || ('\x0000'::bytea || 'U' || CASE word[1] WHEN 'set' THEN coalesce(hash, sha256('')) ELSE sha256('older') END
                || test.lp(key) || '\x0001'::bytea || test.cell(test.encoded(tbl, word[2] || repeat(', NULL', wide - 2) || ', ' || word[3], false), wide));
        END CASE;
    END LOOP;
    RETURN test.tx('', role, 2, effects => '\x01'::bytea || int8send((SELECT number FROM chainify_node.position())) || CASE WHEN reads = '{}' THEN '\x01'::bytea ELSE '\x03' END
        || '\x0001'::bytea || test.lp(test.utf8('public.' || tbl)) || test.list(changes) || test.list(ARRAY(SELECT s FROM unnest(seen) s ORDER BY s)) || test.list(reads));
END
$$;
-- The turns of the last block, by what failed in it.
CREATE VIEW test.failed AS SELECT index, sqlstate, message FROM chainify_ledger.transaction
    WHERE block = (SELECT max(number) FROM chainify_ledger.block) AND NOT succeeded ORDER BY index;

-- transactions that have nothing in common
SELECT test.buffer(ARRAY(SELECT test.effects('shelf', ARRAY[format('set %s %s', g, g)]) FROM generate_series(1, 12) g)) AS buffer \gset
\i :same
-- readers come before writers, though the block has them the other way round; each four rows are a component, and transactions of components alternate
SELECT test.buffer(ARRAY(SELECT test.effects('shelf', ARRAY[format('see %s', 4 * (g % 4) + g / 4 + 2), format('set %s 3', 4 * (g % 4) + g / 4 + 1)]) FROM generate_series(0, 11) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- victims, with the numbers that transactions have in the block; and stale ones, which count for none
SELECT test.buffer(ARRAY(SELECT test.effects('shelf', CASE WHEN g IN (2, 9) THEN ARRAY[format('old %s 5', 20 + g % 4)]
    ELSE ARRAY[format('see %s', 20 + g % 4 + 4 * (g / 4 % 2)), format('set %s 4', 20 + g % 4 + 4 * ((g / 4 + 1) % 2))] END) FROM generate_series(0, 11) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- a transaction of another part ends a run for all: the second of each pair comes too late, and is no victim
SELECT test.buffer(ARRAY(SELECT CASE WHEN g = 4 THEN test.tx('UPDATE shelf SET n = n + 1 WHERE id = 30')
    WHEN g < 4 THEN test.effects('shelf', ARRAY[format('see %s', 1 + g), format('set %s 6', 5 + g)])
    ELSE test.effects('shelf', ARRAY[format('see %s', g), format('set %s 6', g - 4)]) END FROM generate_series(0, 8) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- so does one that is not run
\set quarantined {4}
SELECT test.buffer(ARRAY(SELECT test.effects('shelf', CASE WHEN g < 4 THEN ARRAY[format('see %s', 1 + g), format('set %s 7', 5 + g)] WHEN g = 4 THEN ARRAY['set 30 7']
    ELSE ARRAY[format('see %s', g), format('set %s 7', g - 4)] END) FROM generate_series(0, 8) g)) AS buffer \gset
\i :same
TABLE test.failed;
\set quarantined {}
-- SQL transactions before, between and behind, with rows in common
SELECT test.buffer(ARRAY(SELECT CASE g / 6 WHEN 0 THEN test.tx(format('UPDATE shelf SET n = n + %s WHERE id = %s', g % 2, 1 + g % 6))
    WHEN 1 THEN test.effects('shelf', ARRAY[format('see %s', 1 + g % 6), format('set %s 8', 11 + g % 6)]) WHEN 2 THEN test.tx(format('UPDATE shelf SET n = n * 2 WHERE id IN (%s, %s)', 11 + g % 6, 21 + g % 6))
    WHEN 3 THEN test.effects('shelf', ARRAY[format('set %s 9', 21 + g % 6)]) ELSE test.tx(format('UPDATE shelf SET n = 9 WHERE id = %s', 21 + g % 6)) END FROM generate_series(0, 29) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- foreign keys, unique values, rows that come and go
SELECT test.buffer(ARRAY(SELECT CASE g / 8 WHEN 0 THEN test.effects('shelf', ARRAY['cut ' || 21 + g % 8]) WHEN 1 THEN test.effects('item', ARRAY[format('put %s %s', 100 + g, 21 + g % 8)])
    WHEN 2 THEN test.effects('label', ARRAY[format('put %s %s', 100 + g, 50 + g % 4)]) WHEN 3 THEN test.effects('shelf', ARRAY['see ' || 200 + g % 8, format('put %s 1', 300 + g)])
    ELSE test.effects('shelf', ARRAY[format('put %s 1', 200 + g % 8)]) END FROM generate_series(0, 39) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- a deleted parent takes a child along that the transaction did not see
SELECT test.buffer(ARRAY(SELECT test.effects(CASE WHEN g < 8 THEN 'shelf' ELSE 'item' END, ARRAY[CASE WHEN g < 8 THEN 'cut ' || 1 + g % 8 ELSE format('set %s 30', 1 + g % 8) END]) FROM generate_series(0, 15) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- rows that a role does not see count all the same: alice names the row that bob changes, and policies seem to keep them apart
SELECT test.buffer(ARRAY[test.effects('secret', ARRAY['set 1 1'], 'bob'), test.effects('secret', ARRAY['set 1 2'])] || ARRAY(SELECT test.effects('shelf', ARRAY[format('set %s 1', g)]) FROM generate_series(9, 20) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- so do those of a role that there is not; a write set that cannot be read has none
SELECT test.buffer(ARRAY[test.effects('shelf', ARRAY['see 9', 'set 10 2'], 'nobody'), test.effects('shelf', ARRAY['see 10', 'set 9 2']), test.tx('', 'alice', 2, effects => '\x01'::bytea || int8send(1) || '\x010001'::bytea || test.lp('public.shelf') || test.list('{}') || test.list('{"\\x00000000000a000100010200000001ff00"}') || test.list('{}')),
    test.tx('', 'alice', 2, effects => '\x01'::bytea || int8send(1) || '\x010001'::bytea || test.lp('public.gone') || test.list('{}') || test.list(ARRAY['\x0000'::bytea || test.lp(test.encoded('shelf', '1, 1', true)) || '\x00']) || test.list('{}'))]
    || ARRAY(SELECT test.effects('shelf', ARRAY[format('set %s 2', g)]) FROM generate_series(11, 20) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- a sequence follows one value after the other; those that are behind it leave it alone
SELECT test.buffer(ARRAY(SELECT CASE g % 2 WHEN 0 THEN test.effects('entry', ARRAY[format('put %s 1', 20 + g / 2 % 4 * 5 - g)]) ELSE test.tx(format('SELECT n FROM label WHERE id = %s', g)) END FROM generate_series(0, 19) g)) AS buffer \gset
\i :same
SELECT last_value, called FROM chainify_ledger.sequence;
SELECT test.buffer(ARRAY(SELECT test.effects('entry', ARRAY[format('put %s 1', g)]) FROM generate_series(1, 21) g)) AS buffer \gset
\i :same
-- reads of a SERIALIZABLE transaction are compared with the whole block
SELECT test.buffer(ARRAY(SELECT test.effects('shelf', ARRAY[format('set %s 3', g)], reads => CASE g WHEN 12 THEN '{"\\x00000000"}'::bytea[] ELSE '{}' END) FROM generate_series(9, 20) g)) AS buffer \gset
\i :same
TABLE test.failed;
-- each component's turns keep to the limit of steps, and those of the block do not: the parts find out that the reasons may be others, and the block runs again
SELECT test.buffer(ARRAY(SELECT test.effects('ring', 'set ' || g || ' 1' || ARRAY(SELECT 'see ' || 64 * ((g - 1) / 64) + i FROM generate_series(1, 64) i WHERE i <> 1 + (g - 1) % 64)) FROM generate_series(1, 192) g)) AS buffer \gset
\i :same
SELECT regexp_replace(regexp_replace(message, '\d+', 'n'), 'by transaction.*', 'by transactions') AS reason, count(*) FROM test.failed GROUP BY 1 ORDER BY 1;
SELECT test.all_well();
