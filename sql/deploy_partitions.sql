-- Partitioned tables made and changed through the ledger.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON SCHEMA public TO admin;
SELECT * FROM test.block(test.tx($$
    CREATE TABLE sale (region text, id int, amount int, note text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
    CREATE TABLE sale_eu PARTITION OF sale FOR VALUES IN ('eu');
    CREATE TABLE sale_us PARTITION OF sale (amount DEFAULT 7 CHECK (amount < 100)) FOR VALUES IN ('us') PARTITION BY RANGE (id);
    CREATE TABLE sale_us_1 PARTITION OF sale_us FOR VALUES FROM (0) TO (10);
    CREATE TABLE sale_us_2 PARTITION OF sale_us FOR VALUES FROM (10) TO (20);
    CREATE UNIQUE INDEX ON sale_eu (note);
    GRANT ALL ON sale, sale_eu, sale_us, sale_us_1 TO alice
$$, 'admin', 3), test.tx($$INSERT INTO sale VALUES ('eu', 1, 100, 'a'), ('us', 1, 50, 'a'), ('us', 11, 60, 'b')$$), test.tx($$INSERT INTO sale VALUES ('us', 2, 100)$$),
    test.tx($$INSERT INTO sale VALUES ('eu', 2, 1, 'a')$$), test.tx($$INSERT INTO sale_us (region, id) VALUES ('us', 3)$$), test.tx($$INSERT INTO sale VALUES ('asia', 1, 1)$$), test.tx($$UPDATE sale SET id = 12 WHERE region = 'us' AND id = 1$$));
SELECT tableoid::regclass, * FROM sale ORDER BY region, id;
SELECT chainify_ledger.schema_text('sale');
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
SELECT name FROM chainify_ledger.ledger_table ORDER BY name;
SELECT region, id, _op FROM chainify_history.sale ORDER BY region, id, _tx;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgname LIKE 'chainify%' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
SELECT test.all_well();

-- More partitions, indexes, columns, policies; rows before and after in the same block.
SELECT * FROM test.block(test.tx($$INSERT INTO sale VALUES ('asia', 1, 1)$$), test.tx($$CREATE TABLE sale_rest PARTITION OF sale DEFAULT; GRANT ALL ON sale_rest TO alice$$, 'admin', 3), test.tx($$INSERT INTO sale VALUES ('asia', 1, 1)$$),
    test.tx('ALTER TABLE sale ADD COLUMN extra int; CREATE INDEX ON sale (amount); ALTER TABLE sale_eu ADD CHECK (amount < 1000)', 'admin', 3), test.tx($$UPDATE sale SET extra = 1$$), test.tx($$UPDATE sale SET amount = 2000 WHERE region = 'eu'$$),
    test.tx($$CREATE TABLE sale_asia PARTITION OF sale FOR VALUES IN ('asia')$$, 'admin', 3), test.tx($$TRUNCATE sale_eu$$), test.tx($$INSERT INTO sale VALUES ('eu', 5, 5, 'new')$$));
SELECT tableoid::regclass, * FROM sale ORDER BY region, id;
SELECT test.all_well();
-- DROP of a partition takes its rows, of one with partitions theirs; CASCADE is not needed.
SELECT * FROM test.block(test.tx($$UPDATE sale SET amount = 8 WHERE id = 11$$), test.tx('DROP TABLE sale_us_2', 'admin', 3), test.tx($$INSERT INTO sale VALUES ('us', 11, 1)$$), test.tx($$INSERT INTO sale VALUES ('us', 4, 1)$$));
SELECT tableoid::regclass, * FROM sale ORDER BY region, id;
SELECT name, attached_at, attached_tx, detached_at FROM chainify_ledger.ledger_table WHERE name = 'public.sale' ORDER BY id;
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
SELECT test.all_well();
SELECT * FROM test.block(test.tx('DROP TABLE sale_us', 'admin', 3), test.tx($$INSERT INTO sale VALUES ('us', 4, 1)$$));
SELECT tableoid::regclass, * FROM sale ORDER BY region, id;
SELECT test.all_well();
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT * FROM chainify_node.fold_history();
SELECT test.all_well();
-- Names and owners.
SELECT * FROM test.block(test.tx($$CREATE TABLE sale_asia PARTITION OF sale FOR VALUES IN ('japan')$$, 'admin', 3), test.tx($$INSERT INTO sale VALUES ('japan', 1, 1)$$),
    test.tx('ALTER TABLE sale_rest RENAME TO sale_others; ALTER TABLE sale RENAME TO sales', 'admin', 3), test.tx($$UPDATE sales SET amount = 9 WHERE region = 'eu'$$));
SELECT test.all_well();
-- Who goes round the guard is found, in what a partition has of its own as well.
SELECT test.found('ALTER TABLE sale_eu ALTER amount SET DEFAULT 3', 'ALTER TABLE sale_eu ALTER amount DROP DEFAULT');
SELECT test.found('ALTER TABLE sale_eu ALTER note SET NOT NULL', 'ALTER TABLE sale_eu ALTER note DROP NOT NULL');
SELECT test.found('CREATE UNIQUE INDEX extra_unique ON sale_asia (amount)', 'DROP INDEX extra_unique');
SELECT test.found('CREATE POLICY p ON sale_asia USING (true)', 'DROP POLICY p ON sale_asia');
SELECT test.found('ALTER TABLE sale_asia ENABLE ROW LEVEL SECURITY', 'ALTER TABLE sale_asia DISABLE ROW LEVEL SECURITY');
SELECT test.found('GRANT SELECT ON sale_asia TO alice', 'REVOKE SELECT ON sale_asia FROM alice');
SELECT test.found('CREATE TABLE sneaked PARTITION OF sales FOR VALUES IN (''moon'')', 'DROP TABLE sneaked');
SET ROLE admin;
ALTER TABLE sale_eu ADD CHECK (amount > 0);
CREATE TABLE sneaked PARTITION OF sales FOR VALUES IN ('moon');
ALTER TABLE sales DETACH PARTITION sale_eu;
DROP TABLE sale_eu;
RESET ROLE;
-- Refused.
CREATE TABLE local (region text, id int, amount int, note text, extra int, PRIMARY KEY (region, id)) PARTITION BY HASH (region);
ALTER TABLE local OWNER TO admin;
CREATE FUNCTION backend(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN pg_backend_pid(); END';
SELECT d.c, b.sqlstate, b.message FROM unnest(ARRAY['CREATE TABLE p PARTITION OF local FOR VALUES WITH (MODULUS 1, REMAINDER 0)', $x$ALTER TABLE sales ATTACH PARTITION local FOR VALUES IN ('x')$x$, 'ALTER TABLE sales DETACH PARTITION sale_eu',
    'CREATE TABLE p (a int, b int) PARTITION BY LIST (a)', $x$CREATE TABLE IF NOT EXISTS p PARTITION OF sales FOR VALUES IN ('x')$x$, $x$CREATE UNLOGGED TABLE p PARTITION OF sales FOR VALUES IN ('x')$x$,
    $x$CREATE TABLE p PARTITION OF sales (amount DEFAULT pg_backend_pid()) FOR VALUES IN ('x')$x$, $x$CREATE TABLE p PARTITION OF sales FOR VALUES IN (clock_timestamp()::text)$x$,
    $x$CREATE TABLE p (a int) PARTITION BY LIST ((pg_backend_pid()))$x$, $x$CREATE TABLE p PARTITION OF sales FOR VALUES IN ('eu')$x$, 'ALTER TABLE sale_eu INHERIT local', 'ALTER TABLE sale_eu DROP CONSTRAINT sale_eu_pkey',
    'ALTER TABLE sale_eu ADD COLUMN x int']) d (c), test.deploy(d.c) b;
SELECT test.all_well();
-- Executed again after ROLLBACK, a block gives the same hash.
SELECT ARRAY[test.tx('CREATE TABLE h (a int PRIMARY KEY) PARTITION BY HASH (a); CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1); GRANT ALL ON h TO alice', 'admin', 3, nonce => 1),
    test.tx('INSERT INTO h SELECT generate_series(1, 20)', nonce => 2), test.tx('DROP TABLE h1', 'admin', 3, nonce => 3), test.tx('DELETE FROM h WHERE a < 10', nonce => 4), test.tx('DROP TABLE sales', 'admin', 3, nonce => 5)] AS txs \gset
BEGIN;
SELECT test.hash_of(VARIADIC :'txs') AS first \gset
SELECT test.all_well();
ROLLBACK;
SELECT test.hash_of(VARIADIC :'txs') = :'first' AS again;
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
SELECT * FROM h ORDER BY a;
SELECT test.all_well();

-- Hashes that differ between databases: refused when the table comes on the ledger, or a partition of it does.
SELECT ok, message FROM test.deploy('CREATE TYPE colour AS ENUM (''red'', ''green''); CREATE TYPE shade AS (c colour, n int); CREATE DOMAIN tint AS colour');
CREATE TYPE colours AS RANGE (SUBTYPE = colour);
CREATE COLLATION blind (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);
ALTER TABLE local RENAME TO aside;
SELECT d.c, b.ok, b.sqlstate, b.message FROM unnest(ARRAY['CREATE TABLE e (c colour PRIMARY KEY) PARTITION BY HASH (c)', 'CREATE TABLE e (id int, c tint, PRIMARY KEY (id, c)) PARTITION BY HASH (id, c)', 'CREATE TABLE e (c colour[] PRIMARY KEY) PARTITION BY HASH (c)',
    'CREATE TABLE e (c shade PRIMARY KEY) PARTITION BY HASH (c)', 'CREATE TABLE e (c colours PRIMARY KEY) PARTITION BY HASH (c)', 'CREATE TABLE e (c text COLLATE blind PRIMARY KEY) PARTITION BY HASH (c)',
    'CREATE TABLE e (id int PRIMARY KEY, c colour); CREATE TABLE e2 (c colour PRIMARY KEY) PARTITION BY LIST (c); CREATE TABLE e2_red PARTITION OF e2 FOR VALUES IN (''red'') PARTITION BY HASH (c)',
    'CREATE TABLE e (c colour PRIMARY KEY) PARTITION BY LIST (c); CREATE TABLE er PARTITION OF e FOR VALUES IN (''red'') PARTITION BY LIST (c); CREATE TABLE f (id int, t text, n numeric, at timestamptz, PRIMARY KEY (id, t, n, at)) PARTITION BY HASH (id, t, n, at); CREATE TABLE f1 PARTITION OF f FOR VALUES WITH (MODULUS 1, REMAINDER 0)',
    'DROP TABLE e; DROP TABLE f']) WITH ORDINALITY d (c, n), test.deploy(d.c) b ORDER BY n;
CREATE TABLE byhash (c colour PRIMARY KEY) PARTITION BY HASH (c);
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.byhash');
SELECT test.all_well();
-- Partitions are followed together: the text of their table, with all of them, is made as often for ten as for one.
CREATE FUNCTION test.texts(partitions int) RETURNS TABLE (ok boolean, together bigint, follows bigint, texts bigint) LANGUAGE plpgsql AS $$
DECLARE
    before bigint[] := ARRAY[chainify_calls('follow_table'), chainify_calls('schema_text'), chainify_calls('follow')];
BEGIN
    SELECT b.ok INTO ok FROM test.deploy((SELECT string_agg(format('CREATE TABLE many%s PARTITION OF many FOR VALUES FROM (%s) TO (%s); GRANT SELECT ON many%1$s TO alice', n, n, n + 1), '; ' ORDER BY n) FROM generate_series(partitions, 2 * partitions - 1) n)) b;
    RETURN QUERY SELECT texts.ok, chainify_calls('follow') - before[3], chainify_calls('follow_table') - before[1], chainify_calls('schema_text') - before[2];
END
$$;
CREATE FUNCTION chainify_calls(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT coalesce(sum(calls)::bigint, 0) FROM pg_stat_xact_user_functions WHERE funcname = name $$;
BEGIN;
SET LOCAL track_functions = 'all';
SELECT ok FROM test.deploy('CREATE TABLE many (id int PRIMARY KEY) PARTITION BY RANGE (id)');
SELECT * FROM test.texts(1);
SELECT * FROM test.texts(10);
-- Checked together, too: in what a statement before the last made.
SELECT d.c, b.ok, b.sqlstate FROM unnest(ARRAY['CREATE TABLE p PARTITION OF many (id DEFAULT pg_backend_pid()) FOR VALUES FROM (100) TO (101); GRANT SELECT ON p TO alice; CREATE TABLE q PARTITION OF many FOR VALUES FROM (101) TO (102)',
    'CREATE TABLE p PARTITION OF many (CHECK (id > pg_backend_pid())) FOR VALUES FROM (100) TO (101); COMMENT ON TABLE p IS ''p''; CREATE VIEW v AS SELECT * FROM p',
    'CREATE TABLE p PARTITION OF many (id DEFAULT 100) FOR VALUES FROM (100) TO (101); GRANT SELECT ON p TO alice; ALTER TABLE p ADD CHECK (id < 200); CREATE TABLE q PARTITION OF many FOR VALUES FROM (101) TO (103) PARTITION BY RANGE (id); CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (101) TO (102)']) WITH ORDINALITY d (c, n), test.deploy(d.c) b ORDER BY n;
SELECT kind, identity FROM chainify.definitions WHERE identity ~ '[.][pq]1?$' ORDER BY kind, identity;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgrelid IN ('p'::regclass, 'q'::regclass, 'q1'::regclass) AND tgname LIKE 'chainify%' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
SELECT test.all_well();
ROLLBACK;
