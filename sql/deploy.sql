-- Definitions through the ledger.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
GRANT CREATE ON DATABASE regress TO admin;
CREATE TABLE local (a int PRIMARY KEY);
GRANT ALL ON local TO admin;
CREATE FUNCTION local_function() RETURNS int LANGUAGE sql AS 'SELECT 1';
ALTER FUNCTION local_function OWNER TO admin;

-- A table with what belongs to it, used in the same block.
SELECT * FROM test.block(test.tx($$
    CREATE SCHEMA shop;
    CREATE TYPE shop.colour AS ENUM ('red', 'green');
    CREATE DOMAIN shop.price AS numeric CHECK (VALUE >= 0);
    CREATE TABLE shop.item (id int PRIMARY KEY, name text NOT NULL, price shop.price DEFAULT 1, colour shop.colour);
    CREATE UNIQUE INDEX ON shop.item (name);
    CREATE INDEX ON shop.item (colour);
    CREATE VIEW shop.cheap AS SELECT id, name FROM shop.item WHERE price < 10;
    CREATE FUNCTION shop.total() RETURNS numeric LANGUAGE sql AS 'SELECT sum(price::numeric) FROM shop.item';
    CREATE PROCEDURE shop.reprice(by numeric) LANGUAGE plpgsql AS 'BEGIN UPDATE shop.item SET price = price * by; END';
    GRANT USAGE ON SCHEMA shop TO alice;
    GRANT SELECT, INSERT, UPDATE, DELETE ON shop.item, shop.cheap TO alice;
    COMMENT ON TABLE shop.item IS 'what we sell'
$$, 'admin', 3), test.tx($$INSERT INTO shop.item VALUES (1, 'pen', 2, 'red'), (2, 'car', 20000, 'green'); SELECT * FROM shop.cheap; SELECT shop.total()$$));
SELECT test.all_well();
SELECT kind, identity, definition, since FROM chainify.definitions ORDER BY kind, identity;
SELECT id, name, price, colour, _block, _tx, _op FROM chainify_history.shop__item ORDER BY id;

-- What a failing statement did, and those before it, is undone.
SELECT * FROM test.deploy('CREATE TABLE half (id int PRIMARY KEY); CREATE VIEW halves AS SELECT * FROM missing');
SELECT to_regclass('half'), to_regclass('chainify_history.half'), (SELECT count(*) FROM chainify.definitions WHERE identity LIKE '%half%');

-- History stays readable, whatever becomes of the table. Each ALTER with changes of rows before and after it in its block.
CREATE FUNCTION test.alter_item(command text, before text, after text) RETURNS TABLE (tx int, ok boolean, rows bigint, sqlstate text, message text, verdict text)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT b.tx, b.ok, b.rows, b.sqlstate, b.message, NULL FROM test.block(test.tx(before), test.tx(command, 'admin', 3), test.tx(after)) b;
    RETURN QUERY SELECT NULL::int, NULL::boolean, NULL::bigint, NULL, NULL, test.all_well();
END
$$;
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN stock int', 'UPDATE shop.item SET price = 3 WHERE id = 1', 'UPDATE shop.item SET stock = 7 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN added timestamptz NOT NULL DEFAULT now()', 'UPDATE shop.item SET price = 4 WHERE id = 1', 'UPDATE shop.item SET price = 5 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item RENAME COLUMN stock TO pieces', 'UPDATE shop.item SET stock = 8 WHERE id = 1', 'UPDATE shop.item SET pieces = 9 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ALTER COLUMN pieces TYPE text USING ''n'' || pieces', 'UPDATE shop.item SET pieces = 10 WHERE id = 1', 'UPDATE shop.item SET pieces = ''many'' WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item DROP COLUMN pieces', 'UPDATE shop.item SET pieces = ''few'' WHERE id = 1', 'UPDATE shop.item SET price = 6 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ADD COLUMN pieces bigint, ADD CHECK (pieces >= 0), ALTER COLUMN name SET DEFAULT ''?''', 'DELETE FROM shop.item WHERE id = 2', 'INSERT INTO shop.item (id, pieces) VALUES (2, 5)');
SELECT * FROM test.alter_item('ALTER TABLE shop.item ALTER COLUMN id TYPE bigint', 'UPDATE shop.item SET id = 3 WHERE id = 2', 'UPDATE shop.item SET id = 20000000000 WHERE id = 3');
SELECT * FROM test.alter_item('ALTER TABLE shop.item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (id, name)', 'UPDATE shop.item SET price = 1 WHERE id = 1', 'UPDATE shop.item SET name = ''pin'' WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE shop.item RENAME TO article; ALTER TABLE shop.article SET SCHEMA public', 'UPDATE shop.item SET price = 2 WHERE id = 1', 'UPDATE article SET price = 3 WHERE id = 1');
SELECT * FROM test.alter_item('ALTER TABLE article ENABLE ROW LEVEL SECURITY; CREATE POLICY cheap ON article TO alice USING (price < 100)', 'UPDATE article SET price = 4 WHERE id = 1', 'UPDATE article SET price = 1');
SELECT t.name, t.attached_at, t.attached_tx, t.detached_at, t.detached_tx, string_agg(c.ordinal || ' ' || c.name || coalesce(' key ' || c.key_part, ''), ', ' ORDER BY c.ordinal) AS columns
FROM chainify_ledger.ledger_table t JOIN chainify_ledger.ledger_column c ON c.table_id = t.id GROUP BY t.id ORDER BY t.id;
SELECT _block, _tx, _op, h.* FROM chainify_history.article h ORDER BY _block, _tx, _serial;
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
-- What was altered is folded and repaired like anything else.
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT * FROM chainify_node.fold_history();
SELECT test.all_well();

-- What is refused, and why. Nothing of it is left.
CREATE FUNCTION test.refused(VARIADIC commands text[]) RETURNS TABLE (command text, sqlstate text, message text) LANGUAGE sql AS $$
    SELECT c.command, b.sqlstate, b.message FROM test.block(VARIADIC ARRAY(SELECT test.tx(c, 'admin', 3) FROM unnest(commands) WITH ORDINALITY u (c, i) ORDER BY i)) b
    JOIN unnest(commands) WITH ORDINALITY c (command, i) ON i = tx + 1 ORDER BY tx
$$;
SELECT * FROM test.refused(' ; ', 'SELEC', 'SELECT 1', 'INSERT INTO article VALUES (1)', 'TRUNCATE article', 'DO $x$ BEGIN END $x$', 'CREATE TABLE t AS SELECT 1 AS a', 'SELECT 1 AS a INTO t',
    'CREATE EXTENSION citext', 'CREATE ROLE r', 'CREATE TRIGGER t BEFORE INSERT ON article FOR EACH ROW EXECUTE FUNCTION f()', 'CREATE TEMP SEQUENCE s', 'CREATE RULE r AS ON DELETE TO article DO INSTEAD NOTHING',
    'CREATE MATERIALIZED VIEW v AS SELECT 1', 'VACUUM article', 'SET search_path = shop', 'BEGIN', 'LOCK article', 'COPY article TO STDOUT', 'GRANT admin TO alice', 'ALTER SYSTEM SET work_mem = 1',
    'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO alice', 'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()', 'CREATE FOREIGN TABLE f (a int) SERVER s');
SELECT * FROM test.refused('CREATE FUNCTION fc() RETURNS int LANGUAGE sql SET work_mem FROM CURRENT AS ''SELECT 1''', 'ALTER FUNCTION local_function() SET work_mem FROM CURRENT', 'CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY)', 'DROP TABLE IF EXISTS t', 'REVOKE SELECT ON article FROM alice CASCADE', 'CREATE TEMP TABLE t (a int PRIMARY KEY)', 'CREATE TABLE pg_temp.t (a int PRIMARY KEY)',
    'CREATE UNLOGGED TABLE t (a int PRIMARY KEY)', 'CREATE TABLE t (a int PRIMARY KEY) TABLESPACE pg_default', 'CREATE TABLE t (a int PRIMARY KEY USING INDEX TABLESPACE pg_default)', 'CREATE TABLE t (b int, PRIMARY KEY (id, name)) INHERITS (article)',
    'CREATE TABLE t PARTITION OF article FOR VALUES IN (1)', 'CREATE TABLE t (LIKE article)', 'CREATE TABLE t OF shop.pair', 'CREATE TABLE t (a int)',
    'CREATE TABLE t (a int PRIMARY KEY, _hash int)', 'CREATE TABLE t (a int PRIMARY KEY REFERENCES local)', 'CREATE TABLE t (a int PRIMARY KEY, b money)',
    'CREATE INDEX CONCURRENTLY ON article (price)', 'CREATE INDEX ON local (a)', 'DROP INDEX CONCURRENTLY article_name_idx', 'ALTER TABLE article SET UNLOGGED', 'ALTER TABLE article DISABLE TRIGGER ALL', 'ALTER TABLE article DROP CONSTRAINT item_pkey',
    'ALTER TABLE article INHERIT local', 'ALTER TABLE article SET (fillfactor = 50)', 'ALTER TABLE article ALTER name SET STORAGE external', 'ALTER TABLE article REPLICA IDENTITY FULL', 'ALTER TABLE article CLUSTER ON article_name_idx',
    'ALTER TABLE article SET TABLESPACE pg_default', 'ALTER TABLE article SET ACCESS METHOD heap', 'ALTER TABLE article ALTER CONSTRAINT item_pkey DEFERRABLE', 'ALTER VIEW shop.cheap RENAME id TO key', 'ALTER SCHEMA shop RENAME TO store', 'ALTER TABLE article ADD EXCLUDE (id WITH =)', 'ALTER TABLE article OWNER TO CURRENT_USER', 'ALTER TABLE article ADD COLUMN _dropped_9_x int',
    'ALTER TABLE local ADD COLUMN b int', 'ALTER TABLE missing ADD COLUMN b int', 'DROP TABLE local', 'DROP FUNCTION local_function()', 'ALTER FUNCTION local_function() STABLE', 'GRANT EXECUTE ON FUNCTION local_function() TO alice', 'GRANT ALL ON local TO alice',
    'GRANT ALL ON ALL TABLES IN SCHEMA public TO alice', 'GRANT SELECT ON article TO CURRENT_USER', 'GRANT SELECT ON article TO nobody_here', 'GRANT USAGE ON LANGUAGE plpgsql TO alice', 'CREATE SCHEMA s CREATE TABLE t (a int)', 'CREATE SCHEMA IF NOT EXISTS shop', 'CREATE VIEW v AS SELECT * FROM local',
    'CREATE TEMP VIEW v AS SELECT 1', 'CREATE FUNCTION f() RETURNS int AS ''x'', ''y'' LANGUAGE c', 'CREATE FUNCTION f() RETURNS int AS ''x'' LANGUAGE internal', 'CREATE FUNCTION f() RETURNS int AS ''x''', 'ALTER TYPE shop.colour RENAME VALUE ''red'' TO ''rouge''', 'CREATE TYPE r AS RANGE (SUBTYPE = int)',
    'DROP SCHEMA shop', 'DROP TABLE pg_class', 'ALTER TABLE chainify_ledger.block ADD COLUMN b int', 'CREATE TABLE chainify_ledger.t (a int PRIMARY KEY)', 'COMMENT ON TABLE local IS ''x''', 'ALTER VIEW shop.cheap ALTER id SET DEFAULT 1', 'ALTER TABLE article RENAME TO local');
-- What is not deterministic, as far as deployment can tell. CALL and queries without an order in functions are looked at when they run as well.
SELECT * FROM test.refused('CREATE VIEW v AS SELECT * FROM article LIMIT 1', 'CREATE VIEW v AS SELECT clock_timestamp()', 'CREATE VIEW v AS SELECT oid FROM pg_class',
    'CREATE FUNCTION f() RETURNS timestamptz LANGUAGE sql AS ''SELECT clock_timestamp()''', 'CREATE FUNCTION f(i int) RETURNS text LANGUAGE sql AS ''SELECT name FROM article WHERE id > i LIMIT 1''', 'CREATE FUNCTION f() RETURNS void LANGUAGE sql AS ''LISTEN x''',
    'CREATE FUNCTION f() RETURNS uuid LANGUAGE plpgsql AS ''BEGIN /* now() */ RETURN gen_random_uuid ( ); END''', 'CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS ''BEGIN RETURN pg_catalog.pg_backend_pid(); END''',
    'CREATE TABLE t (a int PRIMARY KEY, b timestamptz DEFAULT clock_timestamp())', 'CREATE TABLE t (a int PRIMARY KEY CHECK (pg_backend_pid() > a))', 'ALTER TABLE article ADD COLUMN x float8 DEFAULT random()', 'ALTER TABLE article ALTER price TYPE text USING clock_timestamp()::text',
    'CREATE POLICY p ON article USING (name = session_user)', 'CREATE TABLE t (a int PRIMARY KEY); CREATE INDEX ON t (a) WHERE a > 0; ALTER TABLE t ADD COLUMN u uuid DEFAULT gen_random_uuid()');
SELECT * FROM test.refused('CREATE TABLE uuids (id uuid PRIMARY KEY DEFAULT chainify.uuid(), at timestamptz DEFAULT now())', 'CREATE FUNCTION fine(i int, OUT n text) LANGUAGE sql AS ''SELECT name FROM article WHERE id > i ORDER BY id, name LIMIT 1''',
    'CREATE FUNCTION also_fine() RETURNS text LANGUAGE plpgsql AS $x$ BEGIN RETURN ''clock_timestamp()'' || now(); END $x$', 'ALTER TABLE uuids ALTER id SET DEFAULT chainify.uuid()', 'DROP FUNCTION fine(int), also_fine(); DROP TABLE uuids');
-- Who may: an admin that owns what he changes.
SELECT * FROM test.block(test.tx('CREATE TABLE t (a int PRIMARY KEY)', 'alice', 3), test.tx('DROP TABLE article', 'postgres', 3), test.tx('ALTER TABLE article OWNER TO alice', 'admin', 3));
SELECT test.all_well();
SELECT relname FROM pg_class WHERE relname IN ('t', 'v', 'half') OR relnamespace = 'chainify_history'::regnamespace AND relkind = 'r' ORDER BY 1;

-- Existing functions are taken under the ledger by CREATE OR REPLACE; from then on they are changed through it alone.
SELECT * FROM test.deploy('CREATE OR REPLACE FUNCTION local_function() RETURNS int LANGUAGE sql AS ''SELECT 2''; GRANT EXECUTE ON FUNCTION local_function() TO alice');
SET ROLE admin;
CREATE OR REPLACE FUNCTION local_function() RETURNS int LANGUAGE sql AS 'SELECT 3';
ALTER FUNCTION local_function() STABLE;
DROP FUNCTION local_function();
GRANT EXECUTE ON FUNCTION local_function() TO PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM alice;
CREATE OR REPLACE VIEW shop.cheap AS SELECT id, name FROM article;
DROP VIEW shop.cheap;
ALTER TYPE shop.colour ADD VALUE 'blue';
ALTER DOMAIN shop.price SET NOT NULL;
DROP SCHEMA shop;
ALTER SCHEMA shop RENAME TO store;
DROP TABLE article;
ALTER TABLE article ADD COLUMN x int;
CREATE POLICY p ON article;
REVOKE SELECT ON article FROM alice;
-- rights of a role that the ledger does not know of are this database's own
GRANT SELECT ON article TO stranger;
RESET ROLE;
SELECT test.all_well();

-- Who goes round the guard is found.
SELECT test.found('ALTER FUNCTION local_function() VOLATILE SECURITY DEFINER', 'ALTER FUNCTION local_function() SECURITY INVOKER');
SELECT test.found('ALTER FUNCTION local_function() OWNER TO postgres', 'ALTER FUNCTION local_function() OWNER TO admin');
SELECT test.found('REVOKE EXECUTE ON FUNCTION local_function() FROM admin', 'GRANT EXECUTE ON FUNCTION local_function() TO admin');
SELECT test.found('GRANT TRUNCATE ON article TO alice', 'REVOKE TRUNCATE ON article FROM alice');
SELECT test.found('GRANT SELECT (id) ON article TO PUBLIC', 'REVOKE SELECT (id) ON article FROM PUBLIC');
SELECT test.found('ALTER VIEW shop.cheap SET (security_barrier)', 'ALTER VIEW shop.cheap RESET (security_barrier)');
SELECT test.found('GRANT SELECT ON shop.cheap TO alice WITH GRANT OPTION', 'REVOKE GRANT OPTION FOR SELECT ON shop.cheap FROM alice');
SELECT test.found('CREATE RULE kept AS ON DELETE TO shop.cheap DO INSTEAD NOTHING', 'DROP RULE kept ON shop.cheap');
SELECT test.found('CREATE TRIGGER kept INSTEAD OF DELETE ON shop.cheap FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()', 'DROP TRIGGER kept ON shop.cheap');
SELECT test.found('ALTER VIEW shop.cheap RENAME TO dear', 'ALTER VIEW shop.dear RENAME TO cheap');
SELECT test.found('ALTER POLICY cheap ON article USING (true)', 'ALTER POLICY cheap ON article USING (price < 100)');
SELECT test.found($$UPDATE chainify_ledger.definition SET definition = definition || ' ' WHERE identity = 'local_function()' OR identity = 'public.local_function()'$$, $$UPDATE chainify_ledger.definition SET definition = rtrim(definition, ' ')$$);
SELECT test.found($$UPDATE chainify_ledger.definitions SET hash = '\x00'$$, $$UPDATE chainify_ledger.definitions SET hash = chainify_ledger.hash_of_definitions()$$);
-- and no repair takes what is not certified
BEGIN;
SET LOCAL chainify.guard = off;
ALTER FUNCTION local_function() SECURITY DEFINER;
SELECT * FROM chainify_node.repair((SELECT number FROM chainify_node.position()), (SELECT hash FROM chainify_node.position()), (SELECT number + 1 FROM chainify_node.position()), NULL);
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
SET LOCAL session_replication_role = replica;
UPDATE article SET price = 0.5 WHERE id = 1;
SELECT tbl, key, expected -> 'price' AS expected, found -> 'price' AS found
FROM chainify_node.repair((SELECT number FROM chainify_node.position()), (SELECT hash FROM chainify_node.position()), (SELECT number + 1 FROM chainify_node.position()), NULL);
SELECT test.all_well();
ROLLBACK;

-- Executed again after ROLLBACK, a block with definitions and rows gives the same hash.
SELECT ARRAY[test.tx('UPDATE article SET price = 7', nonce => 1), test.tx($$CREATE TYPE pair AS (a int, b text); CREATE TABLE pairs (id int PRIMARY KEY, p pair);
    ALTER TABLE article ADD COLUMN since timestamptz DEFAULT now(); GRANT ALL ON pairs TO alice; DROP VIEW shop.cheap$$, 'admin', 3, nonce => 2),
    test.tx($$INSERT INTO pairs VALUES (1, (1, 'x'))$$, nonce => 3), test.tx('DROP TABLE article', 'admin', 3, nonce => 4)] AS txs \gset
BEGIN;
SELECT test.hash_of(VARIADIC :'txs') AS first \gset
SELECT test.all_well();
ROLLBACK;
SELECT test.all_well();
SELECT test.hash_of(VARIADIC :'txs') = :'first' AS again;
SELECT test.all_well();

-- A table that is dropped leaves its history; one of the same name starts anew.
SELECT to_regclass('article'), (SELECT count(*) > 0 FROM chainify_history.article);
SELECT * FROM test.block(test.tx('DROP TABLE pairs', 'admin', 3), test.tx('CREATE TABLE pairs (id bigint PRIMARY KEY, note text); GRANT ALL ON pairs TO alice', 'admin', 3), test.tx($$INSERT INTO pairs VALUES (1, 'new')$$));
SELECT test.all_well();
SELECT relname FROM pg_class WHERE relnamespace = 'chainify_history'::regnamespace AND relkind = 'r' ORDER BY 1;
-- Foreign keys belong to the definitions of both tables.
SELECT * FROM test.deploy('CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent)');
SELECT test.all_well();
SELECT * FROM test.deploy('DROP TABLE parent');
SELECT * FROM test.deploy('ALTER TABLE child DROP CONSTRAINT child_p_fkey, ADD CONSTRAINT self FOREIGN KEY (p) REFERENCES child; DROP TABLE parent');
SELECT test.all_well();
-- What a DEPLOY transaction did to the state tells it apart, though it has no leaves.
CREATE FUNCTION test.effects_of(VARIADIC txs bytea[]) RETURNS bytea[] LANGUAGE sql AS $$
    SELECT r.transaction_effects FROM chainify_node.position() p, test.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, test.buffer(txs), ', effect_hashes => true') r
$$;
SELECT test.tx('CREATE OR REPLACE FUNCTION local_function() RETURNS int LANGUAGE sql AS ''SELECT 5''', 'admin', 3, nonce => 1) AS tx \gset
SELECT test.tx('SELECT 1', nonce => 2) AS other \gset
BEGIN;
SELECT test.effects_of(:'tx', :'other') AS one \gset
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
ALTER FUNCTION local_function() STABLE;
SELECT test.effects_of(:'tx', :'other') AS two \gset
ROLLBACK;
BEGIN;
SET LOCAL chainify.guard = off;
REVOKE EXECUTE ON FUNCTION local_function() FROM alice;
SELECT test.effects_of(:'tx', :'other') AS three \gset
ROLLBACK;
SELECT o[1] = t[1] AS replaced, o[1] = h[1] AS of_another, o[2] = h[2] AS others FROM (VALUES (:'one'::bytea[], :'two'::bytea[], :'three'::bytea[])) x (o, t, h);
-- Sequences come with their tables, and go with them.
SELECT * FROM test.block(test.tx('CREATE TABLE drawn (id serial PRIMARY KEY, other int GENERATED ALWAYS AS IDENTITY); GRANT ALL ON drawn TO alice; GRANT USAGE ON SEQUENCE drawn_id_seq TO alice', 'admin', 3),
    test.tx('INSERT INTO drawn DEFAULT VALUES'), test.tx('INSERT INTO drawn DEFAULT VALUES'));
SELECT id, other FROM drawn ORDER BY id;
SELECT kind, identity, definition FROM chainify.definitions WHERE kind = 'sequence' ORDER BY identity;
SELECT test.all_well();
SELECT * FROM test.deploy('DROP TABLE drawn');
SELECT kind, identity FROM chainify.definitions WHERE kind = 'sequence';
SELECT test.all_well();
-- What else is allowed: each takes effect in its block, for the transaction behind it, and stays what all agree on.
CREATE ROLE keeper;
GRANT keeper TO admin;
GRANT CREATE ON DATABASE regress TO keeper;
GRANT CREATE ON SCHEMA public TO keeper;
SELECT ok FROM test.deploy($$CREATE SCHEMA store; GRANT USAGE ON SCHEMA store TO alice; GRANT ALL ON SCHEMA store TO keeper; CREATE TYPE store.state AS ENUM ('new', 'old'); CREATE DOMAIN store.label AS text; REVOKE USAGE ON TYPE store.state FROM PUBLIC;
    CREATE TABLE store.ware (id int PRIMARY KEY, code text NOT NULL, n int); CREATE UNIQUE INDEX ware_code ON store.ware (code); CREATE INDEX ware_n ON store.ware (n); CREATE VIEW store.wares AS SELECT id, code FROM store.ware;
    CREATE FUNCTION store.f(i int) RETURNS text LANGUAGE sql AS 'SELECT extract(timezone_hour FROM now())::text || i'; CREATE PROCEDURE store.p(i int) LANGUAGE sql AS 'UPDATE store.ware SET n = i WHERE id = 1'; REVOKE EXECUTE ON PROCEDURE store.p(int) FROM PUBLIC;
    CREATE POLICY visible ON store.ware TO alice USING (n > 0); GRANT SELECT, INSERT, UPDATE, DELETE ON store.ware, store.wares TO alice$$);
SELECT ok FROM test.run($$INSERT INTO store.ware VALUES (1, 'one', 1), (2, 'two', 2)$$);
CREATE TABLE test.change (n serial, command text, shows text, tries text);
INSERT INTO test.change (command, shows, tries) VALUES
    ('DROP INDEX store.ware_code', 'to_regclass(''store.ware_code'')', 'INSERT INTO store.ware VALUES (3, ''one'', 3)'), ('ALTER INDEX store.ware_n RENAME TO ware_amount', '(SELECT indexrelid::regclass FROM pg_index WHERE indrelid = ''store.ware''::regclass AND NOT indisprimary)', NULL),
    ('CREATE OR REPLACE VIEW store.wares AS SELECT id, code, n FROM store.ware', 'chainify_ledger.view_text(''store.wares''::regclass)', 'SELECT n FROM store.wares'), ('ALTER VIEW store.wares SET (security_barrier)', '(SELECT reloptions FROM pg_class WHERE relname = ''wares'')', NULL),
    ('ALTER VIEW store.wares RESET (security_barrier)', '(SELECT reloptions FROM pg_class WHERE relname = ''wares'')', NULL), ('ALTER VIEW store.wares RENAME TO goods', 'coalesce(to_regclass(''store.wares''), to_regclass(''store.goods''))', 'SELECT n FROM store.goods'),
    ('ALTER VIEW store.goods SET SCHEMA public', 'coalesce(to_regclass(''store.goods''), to_regclass(''goods''))', 'SELECT n FROM goods'), ('ALTER VIEW goods OWNER TO keeper', '(SELECT relowner::regrole FROM pg_class WHERE relname = ''goods'')', 'SELECT n FROM goods'), ('ALTER VIEW goods OWNER TO admin', '(SELECT relowner::regrole FROM pg_class WHERE relname = ''goods'')', 'SELECT n FROM goods'),
    ('ALTER TABLE store.ware ENABLE ROW LEVEL SECURITY', '(SELECT relrowsecurity FROM pg_class WHERE relname = ''ware'')', 'INSERT INTO store.ware VALUES (4, ''four'', 0)'), ('ALTER POLICY visible ON store.ware USING (n > 1)', '(SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE polrelid = ''store.ware''::regclass)', 'INSERT INTO store.ware VALUES (5, ''five'', 1)'),
    ('ALTER POLICY visible ON store.ware RENAME TO shown', '(SELECT polname FROM pg_policy WHERE polrelid = ''store.ware''::regclass)', NULL), ('DROP POLICY shown ON store.ware', '(SELECT polname FROM pg_policy WHERE polrelid = ''store.ware''::regclass)', 'INSERT INTO store.ware VALUES (6, ''six'', 6)'),
    ('ALTER TABLE store.ware FORCE ROW LEVEL SECURITY', '(SELECT relforcerowsecurity FROM pg_class WHERE relname = ''ware'')', NULL), ('ALTER TABLE store.ware NO FORCE ROW LEVEL SECURITY', '(SELECT relforcerowsecurity FROM pg_class WHERE relname = ''ware'')', NULL),
    ('ALTER TABLE store.ware DISABLE ROW LEVEL SECURITY', '(SELECT relrowsecurity FROM pg_class WHERE relname = ''ware'')', 'INSERT INTO store.ware VALUES (7, ''seven'', 7)'), ('REVOKE INSERT ON store.ware FROM alice', 'has_table_privilege(''alice'', ''store.ware'', ''INSERT'')', 'INSERT INTO store.ware VALUES (8, ''eight'', 8)'),
    ('ALTER FUNCTION store.f(int) SET timezone = ''America/New_York''', '(SELECT proconfig FROM pg_proc WHERE proname = ''f'')', 'SELECT 1 / (store.f(1) <> ''-51'')::int'), ('ALTER FUNCTION store.f(int) IMMUTABLE STRICT', '(SELECT provolatile::text || proisstrict FROM pg_proc WHERE proname = ''f'')', NULL), ('ALTER FUNCTION store.f(int) RENAME TO g', 'to_regproc(''store.g'')', 'SELECT store.g(1)'),
    ('ALTER FUNCTION store.g(int) SET SCHEMA public', 'coalesce(to_regproc(''store.g''), to_regproc(''g''))', 'SELECT g(1)'), ('ALTER FUNCTION g(int) OWNER TO keeper', '(SELECT proowner::regrole FROM pg_proc WHERE proname = ''g'')', NULL), ('GRANT EXECUTE ON PROCEDURE store.p(int) TO alice', 'has_function_privilege(''alice'', ''store.p(int)'', ''EXECUTE'')', 'CALL store.p(10)'),
    ('CREATE OR REPLACE PROCEDURE store.p(i int) LANGUAGE sql AS ''UPDATE store.ware SET n = i + 1 WHERE id = 1''', '(SELECT prosrc FROM pg_proc WHERE proname = ''p'')', 'CALL store.p(20); SELECT 1 / (n - 21) FROM store.ware WHERE id = 1'), ('ALTER PROCEDURE store.p(int) SECURITY DEFINER', '(SELECT prosecdef FROM pg_proc WHERE proname = ''p'')', 'CALL store.p(30)'), ('ALTER PROCEDURE store.p(int) RENAME TO q', 'to_regproc(''store.q'')', 'CALL store.q(40)'),
    ('ALTER TABLE store.ware OWNER TO keeper', '(SELECT relowner::regrole FROM pg_class WHERE relname = ''ware'')', 'CALL store.q(50)'), ('ALTER TABLE store.ware OWNER TO admin', '(SELECT relowner::regrole FROM pg_class WHERE relname = ''ware'')', 'CALL store.q(60)'), ('ALTER TABLE store.ware ALTER n SET NOT NULL', '(SELECT attnotnull FROM pg_attribute WHERE attrelid = ''store.ware''::regclass AND attname = ''n'')', 'UPDATE store.ware SET n = NULL WHERE false; UPDATE store.ware SET n = CASE WHEN id = 2 THEN NULL ELSE n END; UPDATE store.ware SET n = 2 WHERE id = 2'),
    ('ALTER TABLE store.ware ALTER n DROP NOT NULL', '(SELECT attnotnull FROM pg_attribute WHERE attrelid = ''store.ware''::regclass AND attname = ''n'')', 'UPDATE store.ware SET n = NULL WHERE id = 2; UPDATE store.ware SET n = 2 WHERE id = 2'), ('ALTER TABLE store.ware ADD CONSTRAINT small CHECK (n < 1000) NOT VALID', '(SELECT convalidated FROM pg_constraint WHERE conname = ''small'')', 'UPDATE store.ware SET n = 1000 WHERE id = 2'),
    ('ALTER TABLE store.ware VALIDATE CONSTRAINT small', '(SELECT convalidated FROM pg_constraint WHERE conname = ''small'')', 'UPDATE store.ware SET n = 2 WHERE id = 2'), ('ALTER TABLE store.ware RENAME CONSTRAINT small TO below', '(SELECT conname FROM pg_constraint WHERE conrelid = ''store.ware''::regclass AND contype = ''c'')', 'UPDATE store.ware SET n = 1001 WHERE id = 2'),
    ('ALTER TABLE store.ware ALTER n SET DEFAULT 5', '(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = ''store.ware''::regclass)', 'UPDATE store.ware SET n = DEFAULT WHERE id = 2; SELECT 1 / (n - 5) FROM store.ware WHERE id = 2'), ('ALTER TABLE store.ware ALTER n DROP DEFAULT', '(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = ''store.ware''::regclass)', 'UPDATE store.ware SET n = DEFAULT WHERE id = 2; SELECT 1 / (n - 5) FROM store.ware WHERE id = 2'),
    ('REVOKE SELECT, UPDATE ON store.ware FROM alice', 'has_table_privilege(''alice'', ''store.ware'', ''SELECT'')', 'UPDATE store.ware SET n = 3 WHERE id = 3'), ('GRANT UPDATE (n), SELECT (id, code) ON store.ware TO alice', '(SELECT string_agg(attname || attacl::text, '' '' ORDER BY attnum) FROM pg_attribute WHERE attrelid = ''store.ware''::regclass)', 'UPDATE store.ware SET n = 3 WHERE id = 3'),
    ('REVOKE SELECT (id) ON store.ware FROM alice', 'has_column_privilege(''alice'', ''store.ware'', ''id'', ''SELECT'')', 'UPDATE store.ware SET n = 3 WHERE id = 3'), ('GRANT USAGE ON TYPE store.state TO alice', 'has_type_privilege(''alice'', ''store.state'', ''USAGE'')', NULL), ('GRANT USAGE ON DOMAIN store.label TO keeper', '(SELECT typacl FROM pg_type WHERE typname = ''label'')', NULL), ('REVOKE USAGE ON DOMAIN store.label FROM PUBLIC', '(SELECT typacl FROM pg_type WHERE typname = ''label'')', NULL),
    ('ALTER SCHEMA store OWNER TO keeper', '(SELECT nspowner::regrole FROM pg_namespace WHERE nspname = ''store'')', NULL), ('ALTER SCHEMA store OWNER TO admin', '(SELECT nspowner::regrole FROM pg_namespace WHERE nspname = ''store'')', NULL), ('ALTER TYPE store.state RENAME TO condition', 'to_regtype(''store.condition'')', 'SELECT ''new''::store.condition'), ('ALTER TYPE store.condition SET SCHEMA public', 'to_regtype(''condition'')', 'SELECT ''new''::condition'),
    ('ALTER TYPE condition OWNER TO keeper', '(SELECT typowner::regrole FROM pg_type WHERE typname = ''condition'')', NULL), ('ALTER TYPE condition ADD VALUE ''worn''', '(SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum JOIN pg_type t ON t.oid = enumtypid WHERE typname = ''condition'')', NULL), ('ALTER DOMAIN store.label RENAME TO name', 'to_regtype(''store.name'')', 'SELECT ''x''::store.name'), ('COMMENT ON VIEW goods IS ''all of them''', 'obj_description(''goods''::regclass)', NULL),
    ('DROP TYPE condition', 'to_regtype(''condition'')', 'SELECT ''new''::condition'), ('DROP DOMAIN store.name', 'to_regtype(''store.name'')', 'SELECT ''x''::store.name'), ('DROP FUNCTION g(int); DROP PROCEDURE store.q(int)', 'to_regproc(''g'')', 'SELECT g(1)'), ('DROP VIEW goods; DROP TABLE store.ware', 'to_regclass(''store.ware'')', 'UPDATE store.ware SET n = 3'), ('DROP SCHEMA store', 'to_regnamespace(''store'')', 'SELECT store.g(1)');
-- The statement of alice in its block, before and after; and whether all agrees with the ledger.
CREATE FUNCTION test.changes() RETURNS TABLE (command text, outcome text, before text, after text, alice_before text, alice_after text) LANGUAGE plpgsql AS $$
DECLARE
    c record;
    b record;
    well text;
BEGIN
    FOR c IN SELECT * FROM test.change ORDER BY n LOOP
        command := c.command;
        EXECUTE format('SELECT (%s)::text', c.shows) INTO before;
        SELECT array_agg(coalesce(r.sqlstate || ' ' || r.message, 'done') ORDER BY tx) o INTO b FROM test.block(test.tx(coalesce(c.tries, 'SELECT 1')), test.tx(c.command, 'admin', 3), test.tx(coalesce(c.tries, 'SELECT 1'))) r;
        EXECUTE format('SELECT (%s)::text', c.shows) INTO after;
        outcome := b.o[2];
        alice_before := CASE WHEN c.tries IS NOT NULL THEN b.o[1] END;
        alice_after := CASE WHEN c.tries IS NOT NULL THEN b.o[3] END;
        IF c.n % 10 = 0 THEN
            well := nullif(test.all_well(), 'all well');
            outcome := outcome || coalesce(' ' || well, '');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
SELECT test.buffer(array_agg(CASE WHEN sql IS NULL THEN test.tx(command, 'admin', 3, nonce => 700000 + n) ELSE test.tx(sql, nonce => 800000 + n) END ORDER BY n, sql IS NOT NULL)) AS buffer FROM test.change, unnest(ARRAY[NULL, tries]) WITH ORDINALITY u (sql, i) WHERE i = 1 OR sql IS NOT NULL \gset
PREPARE whole AS SELECT encode(r.hash, 'hex') AS hash FROM chainify_node.position() p, test.execute_block(p.number + 1, p.number + 10, 1700000000000000, p.hash, :'buffer') r;
BEGIN;
EXECUTE whole \gset first_
SELECT test.all_well();
ROLLBACK;
SELECT test.all_well();
BEGIN;
EXECUTE whole \gset again_
ROLLBACK;
SELECT :'first_hash' = :'again_hash' AS again;
DEALLOCATE whole;
SELECT * FROM test.changes();
SELECT test.all_well();
-- and what else is refused
SELECT command, message FROM (SELECT left(command, 70) AS command, sqlstate || ' ' || split_part(message, ':', 1) AS message FROM test.refused('GRANT SELECT ON pairs TO alice GRANTED BY admin', 'REVOKE SELECT ON pairs FROM alice GRANTED BY CURRENT_USER', 'ALTER TABLE pairs ADD CONSTRAINT u UNIQUE USING INDEX pairs_pkey', 'CREATE TABLE m (id int PRIMARY KEY) USING odd',
    'CREATE INDEX ON pairs USING bloom (id)', 'ALTER TABLE pairs ALTER id SET STATISTICS 5', 'ALTER TABLE pairs ALTER note SET COMPRESSION lz4', 'CREATE TABLE packed (id int PRIMARY KEY, t text COMPRESSION lz4)', 'ALTER TABLE pairs ADD COLUMN packed text COMPRESSION lz4', 'ALTER TABLE pairs ENABLE TRIGGER ALL', 'CREATE AGGREGATE a (int) (SFUNC = int4pl, STYPE = int)', 'CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)', 'CREATE CAST (int AS bool) WITH INOUT',
    'CREATE COLLATION c FROM "C"', 'CREATE STATISTICS s ON id, note FROM pairs', 'CREATE LANGUAGE l HANDLER plpgsql_call_handler', 'SECURITY LABEL ON TABLE pairs IS ''x''', 'REASSIGN OWNED BY admin TO keeper', 'DROP OWNED BY admin', 'CREATE FUNCTION f() RETURNS int LANGUAGE sql SET chainify.guard = off AS ''SELECT 1''',
    (SELECT string_agg('COMMENT ON TABLE pairs IS ''' || i || '''', ';') FROM generate_series(1, 101) i))) r;
-- each statement with IF [NOT] EXISTS, every part of ALTER TABLE and kind of object that the ledger does not follow, checks of what there is
SELECT ok FROM test.deploy('CREATE TYPE mood AS ENUM (''sad''); CREATE TYPE two AS (a int, b text); CREATE DOMAIN few AS int CONSTRAINT small CHECK (VALUE < 9); CREATE VIEW over_pairs AS SELECT id FROM pairs; CREATE SEQUENCE counter; CREATE INDEX pairs_note ON pairs (note)');
CREATE MATERIALIZED VIEW kept_pairs AS SELECT 1 AS a;
CREATE COLLATION own FROM "C";
CREATE AGGREGATE most(int) (SFUNC = int4larger, STYPE = int);
SELECT command, sqlstate || ' ' || split_part(message, ':', 1) AS message FROM test.refused('ALTER TYPE mood ADD VALUE IF NOT EXISTS ''sad''', 'CREATE SEQUENCE IF NOT EXISTS counter', 'ALTER SEQUENCE IF EXISTS counter RESTART', 'ALTER VIEW IF EXISTS over_pairs RENAME TO over_twos', 'ALTER TABLE IF EXISTS pairs SET SCHEMA shop', 'ALTER TABLE IF EXISTS pairs ADD COLUMN n int',
    'ALTER TABLE pairs ADD COLUMN IF NOT EXISTS note text', 'ALTER TABLE pairs DROP COLUMN IF EXISTS nothing', 'ALTER DOMAIN few DROP CONSTRAINT IF EXISTS nothing', 'CREATE INDEX IF NOT EXISTS pairs_note ON pairs (note)', 'CREATE INDEX ON pairs (note) TABLESPACE pg_default', 'ALTER INDEX pairs_note SET (fillfactor = 50)',
    'ALTER TABLE pairs ALTER note SET (n_distinct = 5)', 'ALTER TABLE pairs ATTACH PARTITION child FOR VALUES IN (1)', 'ALTER TABLE pairs DETACH PARTITION child', 'ALTER TABLE pairs OF two', 'ALTER TYPE two ADD ATTRIBUTE c int', 'ALTER TYPE two RENAME ATTRIBUTE a TO c',
    'ALTER DOMAIN few SET NOT NULL', 'ALTER DOMAIN few ADD CHECK (VALUE > 0)', 'ALTER DOMAIN few VALIDATE CONSTRAINT small', 'ALTER COLLATION own RENAME TO mine', 'ALTER COLLATION own SET SCHEMA shop', 'ALTER COLLATION own OWNER TO admin', 'DROP MATERIALIZED VIEW kept_pairs', 'DROP AGGREGATE most(int)', 'COMMENT ON COLLATION own IS ''x''');
SELECT ok FROM test.deploy('DROP TYPE mood, two; DROP DOMAIN few; DROP VIEW over_pairs; DROP SEQUENCE counter; DROP INDEX pairs_note');
SELECT ok, rows FROM test.deploy((SELECT string_agg('COMMENT ON TABLE pairs IS ''' || i || '''', ';') FROM generate_series(1, 100) i));
SELECT obj_description('pairs'::regclass);
SELECT test.all_well();
DROP OWNED BY keeper;
REVOKE keeper FROM admin;
DROP ROLE keeper;
-- Everything goes again; what is left says so.
SELECT * FROM test.deploy('DROP TABLE child, pairs; DROP FUNCTION local_function(), shop.total(); DROP PROCEDURE shop.reprice(numeric)');
-- The history still has values of types; of a domain it has those of the type below.
SELECT * FROM test.refused('DROP TYPE pair', 'DROP DOMAIN shop.price', 'DROP TYPE shop.colour');
SELECT kind, identity FROM chainify.definitions;
SELECT test.all_well();
