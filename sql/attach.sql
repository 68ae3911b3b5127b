-- Which tables can be on the ledger, and why not.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
CREATE TABLE no_key (a int);
CREATE TABLE deferrable_key (a int PRIMARY KEY DEFERRABLE);
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
CREATE VIEW a_view AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW a_matview AS SELECT 1 AS a;
CREATE SEQUENCE a_sequence;
CREATE TABLE base (a int PRIMARY KEY);
CREATE TABLE heir (b int, PRIMARY KEY (a)) INHERITS (base);
CREATE TABLE late (a int PRIMARY KEY, b int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE excluding (a int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TABLE triggered (a int PRIMARY KEY);
CREATE TRIGGER mine BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION f();
CREATE TABLE ruled (a int PRIMARY KEY);
CREATE RULE r AS ON DELETE TO ruled DO INSTEAD NOTHING;
CREATE DOMAIN price AS money;
CREATE TYPE pair AS (x int, y regclass);
CREATE TABLE t_money (a int PRIMARY KEY, m money);
CREATE TABLE t_domain (a int PRIMARY KEY, m price[]);
CREATE TABLE t_pair (a int PRIMARY KEY, m pair);
CREATE TABLE t_oid (a int PRIMARY KEY, m oid);
CREATE TABLE t_reserved (a int PRIMARY KEY, _op int);
CREATE TABLE owner (a int PRIMARY KEY);
CREATE TABLE owned (a int PRIMARY KEY, o int REFERENCES owner);
CREATE TABLE part (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
CREATE SCHEMA "odd ""one";
CREATE TABLE "odd ""one"."Ta,b.le" ("C d" int PRIMARY KEY);
SELECT * FROM test.block(VARIADIC ARRAY(SELECT test.tx('ATTACH TABLE ' || n, 'admin', 3) FROM unnest(ARRAY[
    'public.missing', 'public.no_key', 'public.deferrable_key', 'public.unlogged', 'public.a_view', 'public.a_matview', 'public.a_sequence', 'public.base', 'public.heir',
    'public.late', 'public.excluding', 'public.triggered', 'public.ruled', 'public.t_money', 'public.t_domain', 'public.t_pair', 'public.t_oid',
    'public.t_reserved', 'public.owned', 'public.owner', 'public.part_1', 'public.part', 'pg_catalog.pg_class', 'chainify_ledger.block',
    'no_schema', 'public.owner,', 'public.owner public.owned', 'public.owner, public.owner', '']) WITH ORDINALITY u (n, i) ORDER BY i));
-- nothing is left of what failed
SELECT count(*) FROM chainify_ledger.ledger_table;
SELECT relname FROM pg_class WHERE relnamespace IN ('chainify_history'::regnamespace, 'chainify_checkpoint'::regnamespace);
-- together they can; names as they are written
INSERT INTO owner VALUES (1), (2);
INSERT INTO owned VALUES (1, 1);
SELECT * FROM test.deploy('attach table public.owned, public.owner');
SELECT * FROM test.deploy('ATTACH TABLE public.owner');
SELECT * FROM test.deploy('ATTACH TABLE "odd ""one"."Ta,b.le"');
SELECT name, relation::regclass, history::regclass, checkpoint::regclass, attached_at, detached_at, row_count FROM chainify_ledger.ledger_table JOIN chainify_ledger.table_state ON table_id = id ORDER BY name;
SELECT t.name, c.ordinal, c.name, c.key_part FROM chainify_ledger.ledger_column c JOIN chainify_ledger.ledger_table t ON t.id = c.table_id ORDER BY 1, 2;
SELECT chainify_ledger.schema_text('owned');
SELECT chainify_ledger.schema_text('owner');
TABLE chainify_checkpoint.owner;
SELECT k.block, t.name, k.row_count FROM chainify_ledger.checkpoint k JOIN chainify_ledger.ledger_table t ON t.id = k.table_id ORDER BY 1, 2;
SELECT tgname, tgenabled, tgrelid::regclass FROM pg_trigger WHERE tgname LIKE 'chainify%' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
-- attach and use in one block
CREATE TABLE quick (id int PRIMARY KEY);
INSERT INTO quick VALUES (1);
GRANT ALL ON quick TO alice;
SELECT * FROM test.block(test.tx('INSERT INTO quick VALUES (2)'), test.tx('ATTACH TABLE public.quick', 'admin', 3), test.tx('INSERT INTO quick VALUES (3)'));
SELECT test.states_hold();
TABLE chainify_history.quick;
-- detach: with what refers to it only; history stays
SELECT * FROM test.deploy('DETACH TABLE public.owner');
SELECT * FROM test.deploy('DETACH TABLE public.missing');
SELECT * FROM test.block(test.tx('INSERT INTO quick VALUES (4)'), test.tx('DETACH TABLE public.quick', 'admin', 3), test.tx('INSERT INTO quick VALUES (5)'));
SELECT * FROM test.deploy('DETACH TABLE public.owner, public.owned');
INSERT INTO quick VALUES (6);
SELECT id, _block, _tx FROM chainify_history.quick ORDER BY id;
SELECT name, attached_at, detached_at FROM chainify_ledger.ledger_table ORDER BY id;
-- again: the same columns continue their history, others do not
SELECT * FROM test.deploy('ATTACH TABLE public.quick');
SELECT * FROM test.run('DELETE FROM quick WHERE id = 1');
SELECT id, _block, _tx, _op FROM chainify_history.quick ORDER BY _block, id;
SELECT * FROM test.deploy('DETACH TABLE public.quick');
ALTER TABLE quick ADD COLUMN more text;
SELECT * FROM test.deploy('ATTACH TABLE public.quick');
SELECT test.states_hold();
-- every type whose values are of one database, also inside other types; every name of the history's own columns; what is not stored as other tables are
BEGIN;
CREATE TYPE oids AS RANGE (SUBTYPE = oid, MULTIRANGE_TYPE_NAME = many_oids);
CREATE SCHEMA local;
SELECT string_agg(format('CREATE TABLE local.%I (a int PRIMARY KEY, %I %s)', 't' || n, c, t), ';' ORDER BY n) AS tables FROM unnest(
    ARRAY['oid', 'money', 'xid', 'xid8', 'cid', 'tid', 'pg_snapshot', 'txid_snapshot', 'pg_lsn', 'aclitem', 'refcursor', 'pg_node_tree', 'regtype', 'oids', 'many_oids', 'int', 'int', 'int', 'int', 'int', 'int'],
    ARRAY['m', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', 'm', '_block', '_tx', '_serial', '_op', '_hash', '_dropped_1_m']) WITH ORDINALITY u (t, c, n) \gset
:tables;
CREATE ACCESS METHOD odd TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE local.t22 (a int PRIMARY KEY) USING odd;
CREATE TABLE local.t23 (a int PRIMARY KEY);
CREATE TABLE local.t24 (a int PRIMARY KEY, b int REFERENCES local.t23 DEFERRABLE);
CREATE TEMP TABLE passing (a int PRIMARY KEY);
SELECT tx, ok, sqlstate, message FROM test.block(VARIADIC ARRAY(SELECT test.tx('ATTACH TABLE ' || t, 'admin', 3) FROM unnest(ARRAY(SELECT 'local.t' || n FROM generate_series(1, 23) n) || ARRAY['pg_temp.passing', 'information_schema.sql_features']) WITH ORDINALITY u (t, n) ORDER BY n));
ROLLBACK;
