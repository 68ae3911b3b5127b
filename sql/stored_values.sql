-- Equal values that PostgreSQL has in several forms are stored in one, whoever writes them and however.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
SET client_min_messages = warning;
SET extra_float_digits = 1;
GRANT CREATE ON SCHEMA public TO admin;
CREATE TYPE pair AS (n numeric, fixed numeric(10, 2));
CREATE TYPE fixed_pair AS (a numeric(10, 2), b int);
CREATE DOMAIN amount AS numeric CHECK (VALUE < 1000);
CREATE DOMAIN cents AS numeric(10, 2);
-- Which columns have values of several forms.
CREATE TABLE one_form (a numeric(10, 2), b cents, c char(5), d numeric(5, 1)[], e fixed_pair, f text, g varchar(3), h interval, i timestamptz, j int4range, k cents[], l uuid, m xml, n point);
CREATE TABLE forms (id int PRIMARY KEY, n numeric, fixed numeric(10, 2), f8 float8, f4 float4, j json, jb jsonb, c bpchar, ns numeric[], r numrange, rs nummultirange, p pair, d amount, f8s float8[], told text,
    computed text GENERATED ALWAYS AS (n::text || ' ' || f8::text) STORED);
SELECT chainify_ledger.columns_of_many_forms('one_form') AS one_form, chainify_ledger.columns_of_many_forms('forms') AS forms;
-- One row in other forms, once before ATTACH and then by each kind of statement.
CREATE FUNCTION test.other() RETURNS text LANGUAGE sql AS $$ SELECT $q$ 1.50, 1.5, '-0'::float8, '-0'::float4, E'{"b" : 1.0,\n "a": 2, "a": 3}'::json, '{"b": [1.0, 2.50], "a": "x"}'::jsonb, 'x  '::bpchar,
    ARRAY[1.0, NULL, 20.00], numrange(1.0, 2.50, '[]'), nummultirange(numrange(1.0, 2.0)), ROW(3.10, 3.1)::pair, 9.90::amount, '{-0,1}'::float8[] $q$ $$;
SELECT 'INSERT INTO forms SELECT 1, ' || test.other() AS filled \gset
:filled;
CREATE FUNCTION test.stored(wanted int) RETURNS text LANGUAGE sql AS $$ SELECT t::text || ' ' || octet_length(c) || ' ' || encode(float8send(f8), 'hex') || ' ' || encode(float4send(f4), 'hex') FROM forms t WHERE id = wanted $$;
SELECT test.stored(1) AS before;
GRANT ALL ON forms, one_form TO alice;
ALTER TABLE forms OWNER TO admin;
SELECT ok, sqlstate, message FROM test.deploy('ATTACH TABLE public.forms');
SELECT test.stored(1) AS attached;
SELECT ok, sqlstate, message FROM test.run('INSERT INTO forms SELECT 2, ' || test.other(), 'INSERT INTO forms (id) VALUES (3)', 'UPDATE forms SET (n, fixed, f8, f4, j, jb, c, ns, r, rs, p, d, f8s) = ROW (' || test.other() || ') WHERE id = 3',
    'INSERT INTO forms (id, n) VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET n = 7.70', 'MERGE INTO forms f USING (VALUES (2), (4)) v (i) ON f.id = v.i WHEN MATCHED THEN UPDATE SET n = 8.80 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (i, 9.90)',
    'UPDATE forms SET told = concat_ws('' '', n, fixed, f8, f4, j, jb, c || ''|'', ns, r, rs, p, d, f8s)');
SELECT test.stored(i) FROM generate_series(1, 4) i;
SELECT id, told FROM forms ORDER BY id;
-- NaN has one form, and so have numbers without end.
SELECT ok, sqlstate, message FROM test.run('UPDATE forms SET f8 = ''Infinity''::float8 - ''Infinity'', f4 = ''NaN'', n = ''NaN'' WHERE id = 4', 'UPDATE forms SET n = ''-Infinity'', d = 1e2 WHERE id = 3');
SELECT test.stored(i) FROM generate_series(3, 4) i;
-- A change to another form is none: no row of the history.
SELECT count(*) AS changes FROM chainify_history.forms;
SELECT ok, rows FROM test.run('UPDATE forms SET n = 8.8000, j = ''{"a":3,   "b":1.0}'' WHERE id = 2');
SELECT count(*) AS changes FROM chainify_history.forms;
-- A condition that asks for the form sees the stored one.
CREATE TABLE scaled (id int PRIMARY KEY, n numeric CHECK (scale(n) = 2));
GRANT ALL ON scaled TO alice;
SELECT ok FROM test.deploy('ATTACH TABLE public.scaled');
SELECT ok, sqlstate, message FROM test.run('INSERT INTO scaled VALUES (1, 1.25)', 'INSERT INTO scaled VALUES (2, 1.50)');
-- Rows that a row-level policy hides, and keys whose image changes, with rows that refer to them.
CREATE TABLE parents (n numeric PRIMARY KEY, f float8);
CREATE TABLE children (id int PRIMARY KEY, n numeric REFERENCES parents ON UPDATE CASCADE);
INSERT INTO parents VALUES (1.00, '-0'), (2.0, 1);
INSERT INTO children VALUES (1, 1.0), (2, 2.000);
ALTER TABLE parents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.parents, public.children');
SELECT * FROM parents ORDER BY n;
SELECT * FROM children ORDER BY id;
-- Partitions, and rows that move between them.
CREATE TABLE parts (k int, n numeric, PRIMARY KEY (k, n)) PARTITION BY LIST (n);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (n numeric NOT NULL, k int NOT NULL);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2.00);
INSERT INTO parts VALUES (1, 1.0), (2, 2.0);
GRANT ALL ON parts TO alice;
ALTER TABLE parts OWNER TO admin;
ALTER TABLE parts_1 OWNER TO admin;
ALTER TABLE parts_2 OWNER TO admin;
SELECT ok, message FROM test.deploy('ATTACH TABLE public.parts');
SELECT ok, sqlstate, message FROM test.run('INSERT INTO parts VALUES (3, 1.000), (4, 2.00)', 'UPDATE parts SET n = 2.000 WHERE k = 3');
SELECT ok, message FROM test.deploy('CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3)');
GRANT ALL ON parts_3 TO alice;
SELECT ok, sqlstate, message FROM test.run('INSERT INTO parts VALUES (5, 3.0)', 'INSERT INTO parts_3 VALUES (6, 3.000)');
SELECT tableoid::regclass, * FROM parts ORDER BY k;
-- DEPLOY: columns of defaults, of another type, the last such column, tables of its own.
CREATE FUNCTION test.store_triggers() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(tgrelid::regclass::text || ' ' || tgenabled::text, ', ' ORDER BY tgrelid::regclass::text) FROM pg_trigger WHERE tgname = 'chainify_store' $$;
SELECT test.store_triggers();
SELECT ok, message FROM test.deploy('ALTER TABLE forms ADD COLUMN made numeric DEFAULT 5.50, ADD COLUMN made_null float8');
SELECT ok, message FROM test.deploy('ALTER TABLE forms ALTER COLUMN told TYPE numeric USING 4.40');
SELECT id, made, made_null, told FROM forms ORDER BY id;
SELECT ok, message FROM test.deploy('CREATE TABLE made (id int PRIMARY KEY, n numeric, v int); GRANT ALL ON made TO alice');
SELECT ok, message FROM test.run('INSERT INTO made VALUES (1, 1.0)');
SELECT * FROM made;
SELECT test.store_triggers();
SELECT ok, message FROM test.deploy('ALTER TABLE made ALTER COLUMN n TYPE numeric(10, 2)');
SELECT * FROM made;
SELECT test.store_triggers();
SELECT ok, message FROM test.deploy('ALTER TABLE made ADD COLUMN f float8');
SELECT test.store_triggers();
SELECT ok, message FROM test.deploy('ALTER TABLE made DROP COLUMN f');
SELECT test.store_triggers();
SELECT test.all_well();
-- The trigger is the ledger's: found when it is gone, disabled, or where none belongs, and put back.
SELECT test.found('ALTER TABLE forms DISABLE TRIGGER chainify_store', 'ALTER TABLE forms ENABLE ALWAYS TRIGGER chainify_store');
SELECT test.found('CREATE TRIGGER chainify_store BEFORE INSERT OR UPDATE ON made FOR EACH ROW EXECUTE FUNCTION chainify_ledger.store()', 'DROP TRIGGER chainify_store ON made');
SET chainify.guard = off;
DROP TRIGGER chainify_store ON forms;
SELECT chainify_ledger.restore_triggers('forms');
RESET chainify.guard;
SELECT test.store_triggers(), test.all_well();
SELECT ok, message FROM test.deploy('DETACH TABLE public.forms');
SELECT test.store_triggers();
-- Not for the taking.
SET ROLE alice;
SELECT chainify_ledger.in_stored_form(t) FROM made t;
RESET ROLE;
SELECT chainify_ledger.in_stored_form(t) FROM one_form t RIGHT JOIN (VALUES (1)) v ON true;
INSERT INTO one_form DEFAULT VALUES;
SELECT chainify_ledger.in_stored_form(t) FROM one_form t;
CREATE TABLE elsewhere (n numeric);
CREATE TRIGGER t BEFORE INSERT ON elsewhere FOR EACH ROW EXECUTE FUNCTION chainify_ledger.store();
INSERT INTO elsewhere VALUES (1.0);
CREATE TRIGGER late AFTER INSERT ON elsewhere FOR EACH ROW EXECUTE FUNCTION chainify_ledger.store();
INSERT INTO elsewhere VALUES (1.0);
SELECT * FROM elsewhere;
