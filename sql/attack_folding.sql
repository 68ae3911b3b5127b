-- What PostgreSQL computes of a table's constraints, indexes and statistics while it plans (constant folding): in the ledger's own look-ups it runs
-- with the rights of the table's owner at most (X11). The owner's function warns when a superuser calls it. Each step begins in a session that has
-- computed nothing yet, and no step names a table as the superuser that runs the tests.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
GRANT chainify_node, chainify_reader TO stranger;
GRANT USAGE ON SCHEMA test TO PUBLIC;
GRANT ALL ON ALL SEQUENCES IN SCHEMA test TO PUBLIC;
SET ROLE alice;
CREATE FUNCTION seed(what text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    BEGIN
        IF pg_has_role(current_user, 'pg_execute_server_program', 'USAGE') THEN RAISE WARNING '% computed as a superuser', what; END IF;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    RETURN 0;
END
$$;
CREATE TABLE parted (id int PRIMARY KEY, v int, CHECK (seed('CHECK of a partition') = 0)) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (9);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (9) TO (99);
CREATE TABLE indexed (id int PRIMARY KEY, v int);
CREATE INDEX ON indexed ((id + seed('expression of an index')));
CREATE INDEX ON indexed (v) WHERE v > seed('condition of an index');
CREATE UNIQUE INDEX ON indexed (id) WHERE v > seed('condition of a unique index');
CREATE TABLE checked (id int PRIMARY KEY, v int CHECK (v >= seed('CHECK')));
CREATE TABLE counted (id int PRIMARY KEY, v int);
CREATE STATISTICS counted_s ON (v + seed('statistics')), (id + seed('statistics')) FROM counted;
-- a key of many types, in another order than its columns, and partitions of others
CREATE DOMAIN code AS varchar(8) CHECK (length(VALUE) > seed('domain'));
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE keyed (a code, n numeric, at timestamptz, m mood, u uuid, b char(3), v int CHECK (v >= seed('CHECK')), PRIMARY KEY (u, b, at, m, n, a));
CREATE TABLE mixed_low (id int NOT NULL, v int CHECK (v >= seed('CHECK of an owner''s partition')));
CREATE INDEX ON mixed_low ((v + seed('index of an owner''s partition')));
RESET ROLE;
CREATE TABLE mixed (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
SET client_min_messages = error; -- it is the superuser's own statement
ALTER TABLE mixed ATTACH PARTITION mixed_low FOR VALUES FROM (0) TO (9);
SET client_min_messages = warning;
CREATE TABLE mixed_high PARTITION OF mixed FOR VALUES FROM (9) TO (99);
ALTER TABLE mixed_high OWNER TO admin;
GRANT ALL ON mixed TO alice;
\c - stranger
SELECT ok, sqlstate FROM test.deploy('ATTACH TABLE public.parted, public.indexed, public.checked, public.counted, public.keyed, public.mixed');
\c - postgres


-- An EFFECTS transaction that sets the last column, v, of the row with a key to 1 and has seen another row.
CREATE FUNCTION test.lp(b bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT int4send(length(b)) || b $$;
CREATE FUNCTION test.encoded(what text, tbl text, key text, v int) RETURNS bytea LANGUAGE plpgsql SECURITY DEFINER SET search_path = public SET client_min_messages = error AS $$
DECLARE
    result bytea;
BEGIN
    EXECUTE format('SELECT %s ROW(%s, %s)::public.%I)', CASE what WHEN 'hash' THEN 'chainify.row_hash(' ELSE format('chainify_ledger.encoded_%s((SELECT l.id FROM chainify_ledger.ledger_table l WHERE relation = ''public.%I''::regclass),', what, tbl) END,
        key, v, tbl) INTO result;
    RETURN result;
END
$$;
CREATE FUNCTION test.effects(tbl text, changed text, seen text, saw int DEFAULT 0) RETURNS bytea LANGUAGE sql AS $$
    SELECT test.tx('', 'alice', 2, effects => '\x01'::bytea || int8send((SELECT number FROM chainify_node.position())) || '\x01'::bytea || '\x0001'::bytea || test.lp(test.utf8('public.' || tbl))
        || int4send(1) || '\x0000'::bytea || 'U' || test.encoded('hash', tbl, changed, 0) || test.lp(test.encoded('key', tbl, changed, 0)) || '\x0001'::bytea || substr(r, length(r) - 14)
        || int4send(1) || '\x0000'::bytea || test.lp(test.encoded('key', tbl, seen, 0)) || '\x01'::bytea || test.encoded('hash', tbl, seen, saw) || int4send(0))
    FROM test.encoded('row', tbl, changed, 1) r
$$;
-- For each of these tables two that change and see each other's rows, so that the turns compare them.
CREATE FUNCTION test.pairs(id int, VARIADIC tables text[]) RETURNS bytea[] LANGUAGE sql AS $$
    SELECT array_agg(test.effects(t, c::text, (c + 1)::text) ORDER BY n, c) FROM unnest(tables) WITH ORDINALITY u (t, n), generate_series(pairs.id, pairs.id + 1) c
$$;
CREATE FUNCTION test.key(n int) RETURNS text LANGUAGE sql AS $$ SELECT format('''c%s'', %s, ''2024-01-01 00:00+00'', ''ok'', ''00000000-0000-0000-0000-000000000001'', ''x''', n, n * 0.5) $$;
SELECT ok, sqlstate, message FROM test.run('INSERT INTO parted SELECT g, 0 FROM generate_series(1, 12) g', 'INSERT INTO indexed SELECT g, 0 FROM generate_series(1, 12) g',
    'INSERT INTO checked SELECT g, 0 FROM generate_series(1, 12) g', 'INSERT INTO counted SELECT g, 0 FROM generate_series(1, 12) g', 'INSERT INTO mixed SELECT g, 0 FROM generate_series(1, 12) g',
    $$INSERT INTO keyed SELECT 'c' || g, g * 0.5, '2024-01-01 00:00+00', 'ok', '00000000-0000-0000-0000-000000000001', 'x', 0 FROM generate_series(1, 12) g$$);
\c - stranger
SELECT tx, ok, sqlstate, message FROM test.block(VARIADIC test.pairs(1, 'parted', 'indexed', 'checked', 'counted', 'mixed'));
-- the same where every session compares CHECK constraints with conditions
\c - stranger
SET constraint_exclusion = on;
SELECT tx, ok, sqlstate, message FROM test.block(VARIADIC test.pairs(8, 'parted', 'indexed', 'checked', 'counted', 'mixed'));
-- the access of such a block
\c - stranger
SELECT count(*) > 0 AS explained FROM chainify_node.position() p, chainify.explain_block(p.number);
-- rows are found by keys of all types, and without the index as well
\c - stranger
SELECT tx, ok, sqlstate, message FROM test.block(test.effects('keyed', test.key(1), test.key(2)), test.effects('keyed', test.key(2), test.key(3), 1), test.effects('keyed', test.key(3), test.key(4)));
\c - postgres
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'keyed_pkey'::regclass;
\c - stranger
SELECT tx, ok, sqlstate, message FROM test.block(test.effects('keyed', test.key(5), test.key(6)), test.effects('keyed', test.key(6), test.key(7), 1));
\c - postgres
UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'keyed_pkey'::regclass;
-- rows that a session's SERIALIZABLE transaction read: looked up when it ends, here without a node
\c - alice
SET chainify.writes = 'effects';
SET constraint_exclusion = on;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT v FROM parted WHERE id = 7;
SELECT v FROM parted WHERE id BETWEEN 7 AND 11 ORDER BY id;
UPDATE parted SET v = 2 WHERE id = 8;
COMMIT;
\c - alice
SET chainify.writes = 'effects';
SET constraint_exclusion = on;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT v FROM indexed WHERE id = 7;
SELECT v FROM checked WHERE id BETWEEN 7 AND 8 ORDER BY id;
SELECT v FROM counted WHERE id BETWEEN 7 AND 8 ORDER BY id;
UPDATE checked SET v = 2 WHERE id = 8;
COMMIT;
-- all else that reads these tables, and what puts them right
\c - stranger
SET constraint_exclusion = on;
SELECT t.name, v.what FROM chainify.tables t, chainify.verify_table(t.name::regclass) v;
\c - stranger
SET constraint_exclusion = on;
SELECT count(*) FROM chainify.tables t, chainify_node.scrub(t.name::regclass);
SELECT chainify_node.checkpoint();
SELECT count(*) > 0 AS told FROM chainify_node.position() p, chainify.tables t, chainify_node.state_rows(p.number, t.name, 0, '{0}');
SELECT count(*) > 0 AS told FROM chainify_node.position() p, chainify.tables t, chainify_node.state_ranges(p.number, t.name, 0, '{0}', 4);
\c - postgres
CREATE FUNCTION test.damage() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL chainify.guard = off;
    SET LOCAL session_replication_role = replica;
    SET LOCAL ROLE alice;
    UPDATE parted SET v = 77 WHERE id IN (1, 11);
    DELETE FROM indexed WHERE id = 2;
    INSERT INTO checked VALUES (80, 80);
    UPDATE counted SET v = 77 WHERE id = 3;
    UPDATE keyed SET v = 77 WHERE a = 'c3';
    UPDATE mixed_low SET v = 77 WHERE id = 3;
    SET LOCAL ROLE admin;
    DELETE FROM mixed_high WHERE id = 10;
    RESET ROLE;
END
$$;
SELECT test.damage();
\c - stranger
SELECT tbl, key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\x00') ORDER BY 1, 2;
\c - postgres
SELECT test.damage();
\c - stranger
SELECT tbl, key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'replay') ORDER BY 1, 2;
SELECT tbl, key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'rebase') ORDER BY 1, 2;
SELECT tbl, key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'definitions') ORDER BY 1, 2;
SELECT tbl, key FROM chainify_node.position() p, chainify_node.repair(p.number, p.hash, p.number + 1, '\x00', 'reindex') ORDER BY 1, 2;
\c - alice
SELECT chainify.access('UPDATE indexed SET v = 1 WHERE id = 1');
\c - postgres
REVOKE chainify_node, chainify_reader FROM stranger;
