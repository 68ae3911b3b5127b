-- DROP ... CASCADE, domains and types changed through the ledger.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON DATABASE regress TO admin;
SELECT * FROM test.block(test.tx($$
    CREATE SCHEMA store;
    GRANT USAGE ON SCHEMA store TO alice;
    CREATE TABLE store.owner (id int PRIMARY KEY, name text UNIQUE);
    CREATE TABLE store.thing (id serial PRIMARY KEY, owner int REFERENCES store.owner, price int CHECK (price > 0));
    CREATE VIEW store.priced AS SELECT id, price FROM store.thing;
    CREATE VIEW store.dear AS SELECT id FROM store.priced WHERE price > 100;
    CREATE FUNCTION store.one() RETURNS store.owner LANGUAGE sql AS 'SELECT * FROM store.owner ORDER BY id LIMIT 1';
    CREATE FUNCTION store.many(t store.thing) RETURNS int LANGUAGE sql AS 'SELECT t.price';
    GRANT ALL ON store.owner, store.thing, store.priced, store.dear TO alice;
    GRANT USAGE ON SEQUENCE store.thing_id_seq TO alice
$$, 'admin', 3), test.tx($$INSERT INTO store.owner VALUES (1, 'ann'); INSERT INTO store.thing VALUES (1, 1, 5), (2, 1, 500)$$));
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
-- Of a column, with views that show it; of a constraint, with the foreign keys that need it; of a table, with what is made of its rows.
SELECT * FROM test.block(test.tx('ALTER TABLE store.thing DROP COLUMN price CASCADE', 'admin', 3), test.tx('SELECT * FROM store.dear'), test.tx('INSERT INTO store.thing VALUES (3, 2)'),
    test.tx('ALTER TABLE store.owner DROP CONSTRAINT owner_pkey CASCADE, ADD PRIMARY KEY (id)', 'admin', 3), test.tx('INSERT INTO store.thing VALUES (3, 2)'));
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
SELECT test.all_well();
-- What it reaches must be on the ledger: a view, a table, an operator of this database's own, and rows of the history.
CREATE VIEW mine AS SELECT * FROM store.owner;
SELECT * FROM test.deploy('DROP TABLE store.owner');
SELECT * FROM test.deploy('DROP TABLE store.owner CASCADE');
SELECT * FROM test.deploy('DROP SCHEMA store CASCADE');
DROP VIEW mine;
CREATE TABLE mine (o store.owner);
SELECT * FROM test.deploy('DROP TABLE store.owner CASCADE');
DROP TABLE mine;
CREATE CAST (store.thing AS int) WITH FUNCTION store.many(store.thing);
SELECT * FROM test.deploy('DROP FUNCTION store.many(store.thing) CASCADE');
DROP CAST (store.thing AS int);
CREATE TABLE store.mine (a int);
CREATE STATISTICS store.local_statistics ON id, name FROM store.owner;
SELECT * FROM test.deploy('DROP SCHEMA store CASCADE');
DROP TABLE store.mine;
SELECT count(*) FROM chainify.definitions;
-- A publication's list and statistics of this database's own are no obstacle.
SET client_min_messages = error;
CREATE PUBLICATION mine FOR TABLE store.owner;
RESET client_min_messages;
SELECT * FROM test.block(test.tx('DROP TABLE store.owner CASCADE', 'admin', 3), test.tx('SELECT store.one()'), test.tx('INSERT INTO store.thing VALUES (4, 4)'));
DROP PUBLICATION mine;
SELECT kind, identity FROM chainify.definitions ORDER BY kind, identity;
SELECT name, detached_at IS NOT NULL AS detached FROM chainify_ledger.ledger_table ORDER BY id;
SELECT test.all_well();
SELECT * FROM test.deploy('DROP SCHEMA store CASCADE');
SELECT count(*) FROM chainify.definitions;
SELECT count(*) FROM chainify.sequences;
SELECT count(*) FROM chainify_history.store__thing;
SELECT test.all_well();

-- Domains.
GRANT CREATE ON SCHEMA public TO admin;
SELECT * FROM test.block(test.tx($$
    CREATE DOMAIN amount AS int DEFAULT 3 CONSTRAINT positive CHECK (VALUE > 0);
    CREATE DOMAIN counted AS int NOT NULL;
    CREATE TABLE paid (id int PRIMARY KEY, a amount);
    GRANT ALL ON paid TO alice
$$, 'admin', 3), test.tx('INSERT INTO paid VALUES (2, 20); INSERT INTO paid VALUES (1)'), test.tx('INSERT INTO paid VALUES (3, -1)'));
SELECT * FROM test.block(test.tx('ALTER DOMAIN amount DROP CONSTRAINT positive; ALTER DOMAIN amount SET DEFAULT -5; ALTER DOMAIN amount ADD CONSTRAINT small CHECK (VALUE < 10) NOT VALID', 'admin', 3),
    test.tx('INSERT INTO paid VALUES (3)'), test.tx('INSERT INTO paid VALUES (4, 20)'), test.tx('UPDATE paid SET id = 5 WHERE id = 2'),
    test.tx('ALTER DOMAIN amount RENAME TO sum_paid; ALTER DOMAIN sum_paid RENAME CONSTRAINT small TO little; ALTER DOMAIN sum_paid DROP DEFAULT; ALTER DOMAIN sum_paid DROP NOT NULL', 'admin', 3), test.tx('INSERT INTO paid VALUES (6)'));
SELECT * FROM paid ORDER BY id;
SELECT kind, identity, definition FROM chainify.definitions ORDER BY kind, identity;
SELECT test.all_well();
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT block, changes FROM chainify_node.fold_history();
SELECT test.all_well();
-- Types: a value added can be used from the next block on.
SELECT * FROM test.block(test.tx($$CREATE TYPE colour AS ENUM ('red'); CREATE TYPE pair AS (a int, b int); CREATE TABLE painted (id int PRIMARY KEY, c colour, p pair); GRANT ALL ON painted TO alice$$, 'admin', 3), test.tx($$INSERT INTO painted VALUES (1, 'red', (1, 2))$$));
SELECT * FROM test.block(test.tx($$ALTER TYPE colour ADD VALUE 'blue' BEFORE 'red'$$, 'admin', 3), test.tx($$INSERT INTO painted VALUES (2, 'blue')$$));
SELECT * FROM test.block(test.tx($$INSERT INTO painted VALUES (2, 'blue')$$), test.tx('ALTER TYPE colour RENAME TO shade; ALTER TYPE pair OWNER TO admin; ALTER TYPE shade OWNER TO admin', 'admin', 3), test.tx($$INSERT INTO painted VALUES (3, 'blue'::shade)$$));
SELECT * FROM painted ORDER BY c, id;
SELECT kind, identity, definition FROM chainify.definitions WHERE identity LIKE '%shade' ORDER BY kind, identity;
SELECT test.all_well();
-- Refused.
SELECT d.c, b.sqlstate, b.message FROM unnest(ARRAY['ALTER DOMAIN sum_paid SET NOT NULL', 'ALTER DOMAIN sum_paid ADD CHECK (VALUE < 100)', 'ALTER DOMAIN sum_paid VALIDATE CONSTRAINT little', 'ALTER DOMAIN sum_paid DROP CONSTRAINT IF EXISTS x',
    'ALTER DOMAIN sum_paid SET DEFAULT pg_backend_pid()', 'ALTER DOMAIN sum_paid ADD CHECK (VALUE < pg_backend_pid()) NOT VALID', 'CREATE DOMAIN d AS int CHECK (VALUE < pg_backend_pid())', 'DROP DOMAIN sum_paid', 'DROP DOMAIN sum_paid CASCADE',
    'DROP TYPE pair CASCADE', $x$ALTER TYPE shade RENAME VALUE 'red' TO 'rouge'$x$, $x$ALTER TYPE shade ADD VALUE IF NOT EXISTS 'red'$x$, 'ALTER TYPE pair ADD ATTRIBUTE c int', 'ALTER TYPE pair RENAME ATTRIBUTE a TO z']) d (c), test.deploy(d.c) b;
SELECT test.all_well();
