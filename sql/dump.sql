-- A ledger survives pg_dump and pg_restore as a ledger: what was restored is closed until it is adopted, then verifies, and goes on with the same blocks.
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir /sql/setup.sql
\i :setup
\set SHOW_CONTEXT never
GRANT CREATE ON DATABASE regress TO admin;
GRANT CREATE ON SCHEMA public TO admin;
CREATE SEQUENCE batch START 100 INCREMENT 10;
CREATE TABLE maker (gone text, id int PRIMARY KEY, name varchar(20) NOT NULL CHECK (name IN ('Faber', 'Lamy', 'Kaweco')));
CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, gone int, maker int REFERENCES maker ON DELETE CASCADE, name text COLLATE "C" DEFAULT 'pen',
    batch bigint DEFAULT nextval('batch'), price numeric(8, 2) CHECK (price > 0));
ALTER TABLE maker DROP COLUMN gone;
ALTER TABLE item DROP COLUMN gone;
CREATE UNIQUE INDEX ON item (maker, lower(name)) WHERE price < 1000;
CREATE TABLE sale (day date, item int, sold int NOT NULL, PRIMARY KEY (day, item)) PARTITION BY RANGE (day);
CREATE TABLE sale_old (sold int NOT NULL, item int NOT NULL, gone int, day date NOT NULL);
ALTER TABLE sale_old DROP COLUMN gone;
ALTER TABLE sale ATTACH PARTITION sale_old FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
CREATE TABLE sale_new PARTITION OF sale FOR VALUES FROM ('2026-01-01') TO (MAXVALUE);
CREATE TABLE "Odd ""name""" ("a key" int PRIMARY KEY, "ROW" text);
CREATE TABLE passing (id int PRIMARY KEY);
CREATE TABLE local (id int PRIMARY KEY, note text);
INSERT INTO maker VALUES (1, 'Faber'), (2, 'Lamy');
INSERT INTO item (maker, price) SELECT 1, g FROM generate_series(1, 3) g WHERE g = 1;
INSERT INTO local VALUES (1, 'not on the ledger');
GRANT ALL ON maker, item, sale, "Odd ""name""", passing TO alice;
GRANT USAGE ON SEQUENCE batch TO alice;
ALTER TABLE item OWNER TO admin;
ALTER TABLE "Odd ""name""" OWNER TO admin;
CREATE POLICY cheap ON item TO alice USING (price < 100 OR name IN ('gold', 'silver'));
CREATE POLICY all_of_it ON item TO admin USING (true);
ALTER TABLE item ENABLE ROW LEVEL SECURITY;

SELECT ok, message FROM test.deploy('ATTACH TABLE public.maker, public.item, public.sale, public."Odd ""name""", public.passing');
SELECT ok, message FROM test.run($$INSERT INTO item (maker, name, price) VALUES (2, 'ink', 5), (2, 'nib', 7)$$, $$INSERT INTO sale VALUES ('2025-06-01', 1, 3), ('2026-06-01', 2, 4)$$,
    $$INSERT INTO "Odd ""name""" VALUES (1, 'x')$$, $$INSERT INTO passing VALUES (1)$$, $$INSERT INTO maker VALUES (9, 'Bic')$$);
SELECT ok, message FROM test.block(test.tx($$
    CREATE SCHEMA shed;
    CREATE TYPE shed.colour AS ENUM ('red', 'green');
    CREATE DOMAIN shed.word AS varchar(9) CHECK (VALUE IN ('good', 'bad'));
    CREATE TABLE shed.paint (id bigserial PRIMARY KEY, colour shed.colour NOT NULL, word shed.word, gone int);
    CREATE VIEW shed.dear AS SELECT i.id, i.name, m.name AS maker FROM item i JOIN maker m ON m.id = i.maker WHERE m.name IN ('Lamy', 'Kaweco') AND price > 1;
    CREATE FUNCTION shed.total(of int, word varchar DEFAULT 'good') RETURNS numeric LANGUAGE sql STABLE BEGIN ATOMIC SELECT sum(price) FROM item WHERE maker = of AND word IN ('good', 'bad'); END;
    CREATE FUNCTION shed.raise(of int, by numeric) RETURNS void LANGUAGE plpgsql AS 'BEGIN UPDATE item SET price = price + by WHERE id = of; END';
    CREATE FUNCTION shed.raised(of int, by numeric) RETURNS TABLE (id int) LANGUAGE sql STABLE AS 'SELECT of';
    GRANT USAGE ON SCHEMA shed TO alice;
    GRANT USAGE ON SEQUENCE shed.paint_id_seq TO alice;
    GRANT ALL ON shed.paint, shed.dear TO alice
$$, 'admin', 3), test.tx($$INSERT INTO shed.paint (colour, word) VALUES ('red', 'good'), ('green', 'bad')$$));
SELECT ok, message FROM test.deploy('ALTER TABLE shed.paint DROP COLUMN gone');
SELECT ok, message FROM test.deploy('ALTER TABLE shed.paint ADD COLUMN coats int');
SELECT ok, message FROM test.deploy('SET DETERMINISM detect');
SELECT ok, message FROM test.deploy('DETACH TABLE public.passing');
SET chainify.guard = off;
DROP TABLE passing;
RESET chainify.guard;
SET ROLE admin;
SELECT chainify.declare_access('shed.raise', 'item', rows => 'shed.raised');
CREATE FUNCTION ours(text, item, item) RETURNS boolean LANGUAGE sql AS 'SELECT true';
SELECT chainify.set_agreement_check('item', 'ours');
RESET ROLE;
DO $$ BEGIN PERFORM chainify_node.checkpoint(); END $$;
SELECT ok, message FROM test.run('SELECT shed.raise(1, 2)', 'DELETE FROM maker WHERE id = 2', $$UPDATE shed.paint SET coats = 2 WHERE colour = 'red'$$,
    $$UPDATE "Odd ""name""" SET "ROW" = 'y'$$);
SELECT test.all_well();

-- Into another database. Until it is adopted it is no ledger, and says so.
\! pg_dump -Fc -f ledger.dump regress
\! createdb -T template0 regress_restored
\! pg_restore --exit-on-error -d regress_restored ledger.dump
\c regress_restored
\set SHOW_CONTEXT never
UPDATE item SET price = 1;
TRUNCATE sale;
SELECT * FROM chainify.verify_ledger();
SELECT * FROM chainify.verify_table('item');
SELECT chainify_node.init('testchain', 'acme', '[]');
SELECT r.hash FROM chainify_node.position() p, chainify_node.execute_block(p.number + 1, 99, 0, p.hash, '') r;
SET ROLE admin;
SELECT chainify.adopt_restored();
RESET ROLE;
SELECT chainify.adopt_restored();
SELECT chainify.adopt_restored();

-- It is one.
SELECT test.all_well();
UPDATE item SET price = 1;
ALTER TABLE item ADD COLUMN x int;
DROP FUNCTION shed.total;
SELECT name, rows FROM chainify.tables ORDER BY name;
SELECT * FROM chainify.declared_access;
SELECT name, function::regprocedure FROM chainify_ledger.agreement_check;
SELECT * FROM chainify.settings;
SELECT block, tx, op, "row" FROM chainify.history('item', 1);
SELECT * FROM chainify.as_of(NULL::item, 2) ORDER BY id;
SELECT * FROM chainify_history.shed__paint_as_of ORDER BY id;
SELECT _operation, _block, colour, coats FROM chainify_history.shed__paint_ledger ORDER BY _block, id, _operation;
SELECT block, tables, rows, is_base FROM chainify.checkpoints;

-- The next blocks are those of the database that was dumped: rows, sequences, changes of tables whose columns have other numbers here.
\set blocks 'SELECT number, ok, message FROM test.run($a$INSERT INTO item (maker, name, price) VALUES (1, ''cap'', 50)$a$, ''INSERT INTO shed.paint (colour) VALUES (''''red'''')'', ''SELECT shed.raise(4, 1)''); SELECT number, ok, message FROM test.block(test.tx(''ALTER TABLE shed.paint RENAME COLUMN coats TO layers; ALTER TABLE "Odd ""name""" ALTER COLUMN "ROW" TYPE varchar(30); ALTER TABLE item DROP COLUMN batch; CREATE FUNCTION shed.more() RETURNS int LANGUAGE sql AS $b$SELECT 1$b$'', ''admin'', 3), test.tx(''UPDATE item SET price = price + 1''), test.tx($a$UPDATE "Odd ""name""" SET "ROW" = ''z''$a$))'
\set blocks :blocks '; SELECT number, ok, message FROM test.run(''INSERT INTO item (maker, name, price) VALUES (1, ''''nib'''', 60.125)'', ''UPDATE shed.paint SET layers = layers + 1'', $a$UPDATE sale SET sold = sold + 1$a$)'
:blocks;
SELECT test.all_well();
SELECT hash AS restored FROM chainify.ledger ORDER BY number DESC LIMIT 1 \gset
SELECT * FROM chainify_node.fold_history();
SELECT test.all_well();
\c regress
:blocks;
SELECT test.all_well();
SELECT hash = :'restored' AS same_hash FROM chainify.ledger ORDER BY number DESC LIMIT 1;

-- An organisation joins with what another one dumped: all that is agreed, and nothing that was the other's own.
INSERT INTO chainify_ledger.deviation (block, found_by, cured_by) VALUES (3, 'block', 'repair'), (4, 'scrubber', NULL);
INSERT INTO chainify_ledger.deviation_row (deviation, tbl) SELECT id, 'public.item' FROM chainify_ledger.deviation;
\! pg_dump -Fc -f joining.dump regress
\! createdb -T template0 regress_joining
\! pg_restore --exit-on-error -d regress_joining joining.dump
DELETE FROM chainify_ledger.deviation_row;
DELETE FROM chainify_ledger.deviation;
\c regress_joining
\set SHOW_CONTEXT never
SELECT chainify.adopt_restored('Bolt');
SELECT chainify.adopt_restored('bolt');
SELECT chainify_node.init('testchain', 'acme', '[]');
SELECT chainify_node.init('testchain', 'bolt', '[]');
SELECT block, found_by, tbl FROM chainify.deviations;
SELECT count(*) AS checks FROM chainify_ledger.agreement_check;
SELECT test.all_well();
SELECT hash = :'restored' AS same_hash FROM chainify.ledger ORDER BY number DESC LIMIT 1;
\c regress

-- A dump is a text that anybody with an editor changes. Verification finds it.
\set tampered 'SELECT chainify.adopt_restored(); SELECT DISTINCT what FROM (SELECT what FROM chainify.verify_ledger() UNION ALL SELECT v.tbl || '' '' || v.what FROM chainify_ledger.ledger_table t, chainify.verify_table(t.relation) v WHERE t.detached_at IS NULL) f WHERE what NOT LIKE ''certificate%'' ORDER BY 1; SELECT datname FROM pg_database WHERE datname = current_database()'
\! pg_dump -f ledger.sql regress
\! restore() { createdb -T template0 $1 && sed "$2" ledger.sql | psql -Xq -v ON_ERROR_STOP=1 -d $1 >/dev/null; }; restore regress_row '/^COPY public.item /,/^\\\./s/\tcap\t/\tcup\t/'; restore regress_history '/^COPY chainify_history.item /,/^\\\./s/\tcap\t/\tcup\t/'; restore regress_block '/^COPY chainify_ledger.block /,/^\\\./s/^2\t11\t/2\t12\t/'; restore regress_whole ''
\c regress_row
:tampered;
\c regress_history
:tampered;
\c regress_block
:tampered;
\c regress_whole
:tampered;

-- Part of a dump is no ledger.
\! createdb -T template0 regress_part && pg_restore -l ledger.dump | grep -v 'FUNCTION shed raise(' >ledger.list && pg_restore -L ledger.list -d regress_part ledger.dump 2>/dev/null
\c regress_part
SELECT chainify.adopt_restored();

-- What never was a ledger is none afterwards.
\c regress
CREATE DATABASE regress_new TEMPLATE template0;
\c regress_new
CREATE EXTENSION chainify;
SELECT chainify.adopt_restored();
\c regress
\! for d in regress_restored regress_joining regress_row regress_history regress_block regress_whole regress_part regress_new; do dropdb $d; done
